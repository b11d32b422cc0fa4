//! The fuzz targets without a fuzzer, from the seeds that the fuzzer has.
#![allow(clippy::unwrap_used, clippy::panic, clippy::expect_used)]

#[path = "../../fuzz/bodies/client_hello.rs"]
mod client_hello;
#[path = "../../fuzz/bodies/proxy_protocol.rs"]
mod proxy_protocol;
#[path = "../../fuzz/bodies/requests.rs"]
mod requests;
#[path = "../../fuzz/bodies/routing.rs"]
mod routing;
#[path = "../../fuzz/bodies/streams.rs"]
mod streams;

use causeway_testkit::fuzz::{drive, seeds};

const FUZZ: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/fuzz");

#[test]
fn bent_hellos_are_read_as_rustls_reads_them() {
    drive("client_hello", &seeds(FUZZ, "client_hello"), client_hello::run);
}

#[test]
fn bent_proxy_headers_never_surprise() {
    drive("proxy_protocol", &seeds(FUZZ, "proxy_protocol"), proxy_protocol::run);
}

#[test]
fn bent_requests_are_one_or_none() {
    drive("requests", &seeds(FUZZ, "requests"), requests::run);
}

/// A GET, a question about the server, two POSTs, one GET of two requests, two, and a WebSocket.
#[test]
fn the_seeds_of_streams_pass() {
    let front = causeway_engine::front::Front::everything();
    let passed: Vec<_> =
        seeds(FUZZ, "streams").iter().map(|seed| front.pass_streams(seed).requests.len()).collect();
    assert_eq!(passed, [1, 0, 1, 1, 1, 2, 1]);
}

#[test]
fn bent_streams_are_one_request_or_none() {
    drive("streams", &seeds(FUZZ, "streams"), streams::run);
}

#[test]
fn bent_requests_lead_the_same_way_twice() {
    drive("routing", &seeds(FUZZ, "routing"), routing::run);
}
