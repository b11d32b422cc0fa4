//! The PROXY protocol parser.
#![no_main]

#[path = "../bodies/proxy_protocol.rs"]
mod body;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| body::run(bytes));
