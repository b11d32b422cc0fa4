//! The answers to DHCPv4.
#![no_main]

#[path = "../bodies/v4.rs"]
mod body;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| body::run(bytes));
