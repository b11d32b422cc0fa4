//! Any bytes in place of a resolver's reply.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| causeway_dns::fuzz::reply(bytes));
