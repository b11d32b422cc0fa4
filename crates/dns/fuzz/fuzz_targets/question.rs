//! Any bytes from a client.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| causeway_dns::fuzz::question(bytes));
