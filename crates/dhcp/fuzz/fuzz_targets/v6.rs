//! The answers to DHCPv6.
#![no_main]

#[path = "../bodies/v6.rs"]
mod body;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| body::run(bytes));
