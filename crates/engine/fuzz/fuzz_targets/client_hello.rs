//! The ClientHello parser beside rustls' own.
#![no_main]

#[path = "../bodies/client_hello.rs"]
mod body;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| body::run(bytes));
