//! The routes of requests.
#![no_main]

#[path = "../bodies/routing.rs"]
mod body;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| body::run(bytes));
