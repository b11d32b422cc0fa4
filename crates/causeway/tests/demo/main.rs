//! `causeway demo`: what a newcomer runs first does what it says.

#![allow(clippy::unwrap_used, clippy::panic)]

use std::process::Command;

use causeway_testkit::kubectl::finish;
use causeway_testkit::server::program;

fn demo(args: &[&str]) -> String {
    finish(Command::new(program()).args(["demo", "proxy"]).args(args).env_remove("KUBECONFIG")).ok()
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
    if let Some(envoy) = causeway_testkit::envoy::program() {
        check(&demo(&["--envoy", envoy.to_str().unwrap()]));
    }
}
