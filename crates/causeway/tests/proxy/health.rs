//! Endpoints that are ready by their Service and do not answer: the proxies' own checks decide, and the status tells.

use std::net::TcpListener;

use causeway_testkit::PATIENCE;
use causeway_testkit::blocking::eventually;
use serde_json::json;

use crate::envoy::WithEnvoy;
use crate::world::{NAMESPACE, World, backend};

/// A world with a checked backend whose server listens for as long as the second value lives.
fn checked() -> (World, TcpListener) {
    let world = World::new();
    // The kernel takes connections for it.
    let server = TcpListener::bind("127.0.0.1:0").unwrap();
    World::service_at(&world.kubectl(), "one", server.local_addr().unwrap());
    let mut one = backend("one", "one.test");
    one["healthCheck"] = json!({"intervalSeconds": 1, "timeoutSeconds": 1});
    world.proxy_server(&[one]).ok();
    (world, server)
}

fn is_told_when_it_dies(world: &World, server: TcpListener) {
    eventually("the backend is ready", PATIENCE, || world.replica()["readyBackends"] == 1);
    drop(server);
    eventually("it is no longer ready", PATIENCE, || world.replica()["readyBackends"] == 0);
    let replica = world.replica();
    assert_eq!(replica["backends"][0]["readyEndpoints"], 0, "{replica}");
    assert_eq!(replica["backends"][0]["message"], "its endpoint fails the health check");
    assert_eq!(replica["serving"], true, "the proxy itself is fine");
    let routes = world.causeway(&["routes", "proxy/edge", "-n", NAMESPACE]);
    assert!(routes.stdout.contains("its endpoint fails the health check"), "{routes}");
}

#[test]
fn an_endpoint_that_fails_its_check_is_not_ready_with_the_native_engine() {
    let (world, server) = checked();
    let _proxy = world.start();
    is_told_when_it_dies(&world, server);
}

#[test]
fn an_endpoint_that_fails_its_check_is_not_ready_with_envoy() {
    let (world, server) = checked();
    let Some(_both) = WithEnvoy::start(&world) else { return };
    is_told_when_it_dies(&world, server);
}
