//! The front door for requests in streams of HTTP/2.
#![no_main]

#[path = "../bodies/streams.rs"]
mod body;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| body::run(bytes));
