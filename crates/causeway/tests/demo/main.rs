//! `causeway demo`: what a newcomer runs first does what it says.

#![allow(clippy::unwrap_used, clippy::panic)]

#[allow(dead_code, reason = "other test programs use the rest")]
#[path = "../harness"]
mod harness {
    pub mod envoy;
    pub mod eventually;
    pub mod kubectl;
    pub mod server;
}

use std::process::Command;

use harness::kubectl::finish;
use harness::server::PROGRAM;

fn demo(args: &[&str]) -> String {
    finish(Command::new(PROGRAM).args(["demo", "proxy"]).args(args).env_remove("KUBECONFIG")).ok()
}

fn check(said: &str) {
    assert!(said.contains("https://shop.demo.test:8443 is answered by shop"), "{said}");
    assert!(said.contains("nobody.demo.test is refused"), "{said}");
    assert!(said.contains("the connection that was open still reaches the old shop"), "{said}");
    assert!(said.ends_with("all gone; everything above was checked\n"), "{said}");
}

/// One after the other: both play on the same address.
#[test]
fn the_proxy_demo_tells_its_story_with_either_engine() {
    check(&demo(&[]));
    if let Some(envoy) = harness::envoy::program() {
        check(&demo(&["--envoy", envoy.to_str().unwrap()]));
    }
}
