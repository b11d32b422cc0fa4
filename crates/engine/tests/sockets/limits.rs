//! At a limit: refused at once, counted, and others unharmed.

use tokio::io::AsyncReadExt;
use tokio::net::{TcpSocket, TcpStream};

use crate::support::{Backend, PATIENCE, Running, plain_plan};

async fn greeted(running: &Running) -> Option<TcpStream> {
    // A refusal may come before the connect is seen to succeed.
    let mut stream = TcpStream::connect(running.address("in")).await.ok()?;
    let mut greeting = [0; 2];
    let read = tokio::time::timeout(PATIENCE, stream.read_exact(&mut greeting)).await.unwrap();
    read.is_ok().then_some(stream)
}

async fn holds_two(plan: &str, reason: &str) {
    let running = Running::start(plan).await;
    let first = greeted(&running).await.unwrap();
    let second = greeted(&running).await.unwrap();
    assert!(greeted(&running).await.is_none());
    running.closed(reason, 1).await;
    drop(first);
    running.closed("finished", 1).await;
    assert!(greeted(&running).await.is_some());
    drop(second);
    running.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_engine_holds_as_many_connections_as_it_may() {
    let backend = Backend::named("hi").await;
    holds_two(&plain_plan(&[backend.address], "limits: {connections: 2}\n"), "connectionLimit").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cluster_holds_as_many_connections_as_it_may() {
    let backend = Backend::named("hi").await;
    holds_two(&plain_plan(&[backend.address], "  connectionLimit: 2\n"), "clusterLimit").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_route_holds_as_many_connections_as_it_may() {
    let backend = Backend::named("hi").await;
    let plan = plain_plan(&[backend.address], "").replace("name: r,", "name: r, connectionLimit: 2,");
    holds_two(&plan, "routeLimit").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn new_connections_beyond_the_rate_are_refused() {
    let backend = Backend::named("hi").await;
    let running =
        Running::start(&plain_plan(&[backend.address], "limits: {newConnectionsPerSecond: 3}\n")).await;
    let mut taken = 0;
    for _ in 0..40 {
        taken += u64::from(greeted(&running).await.is_some());
    }
    let refused = running.metric(&["causeway_connections_closed_total", "rateLimit"]);
    assert!(taken >= 3 && refused > 0 && taken + refused == 40, "{taken} taken, {refused} refused");
    running.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn strangers_do_not_use_up_the_rate_of_those_who_may_come() {
    let backend = Backend::named("hi").await;
    let plan = plain_plan(&[backend.address], "limits: {newConnectionsPerSecond: 3}\n")
        .replace("protocol:", "allowedSources: [127.0.0.1/32], protocol:");
    let running = Running::start(&plan).await;
    for _ in 0..40 {
        let socket = TcpSocket::new_v4().unwrap();
        socket.bind("127.0.0.2:0".parse().unwrap()).unwrap();
        // Refused, perhaps before the connect is seen to succeed.
        drop(socket.connect(running.address("in")).await);
    }
    running.closed("sourceNotAllowed", 40).await;
    assert!(greeted(&running).await.is_some());
    running.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn only_allowed_sources_are_served() {
    let backend = Backend::named("hi").await;
    let plan = plain_plan(&[backend.address], "");
    let allow =
        |networks: &str| plan.replace("protocol:", &format!("allowedSources: [{networks}], protocol:"));
    let running = Running::start(&allow("10.0.0.0/8, 127.0.0.0/8")).await;
    assert!(greeted(&running).await.is_some());
    running.stop().await;
    let running = Running::start(&allow("10.0.0.0/8")).await;
    assert!(greeted(&running).await.is_none());
    running.closed("sourceNotAllowed", 1).await;
    running.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn counts_under_the_names_that_users_know() {
    let backend = Backend::named("hi").await;
    let running = Running::start(&plain_plan(&[backend.address], "")).await;
    let held = greeted(&running).await.unwrap();
    let address = running.address("in").to_string().replace(':', "_");
    for (metric, label) in [
        ("envoy_cluster_upstream_cx_active{", "envoy_cluster_name=\"c\"".to_owned()),
        ("envoy_cluster_upstream_cx_total{", "envoy_cluster_name=\"c\"".to_owned()),
        ("envoy_listener_downstream_cx_active{", format!("envoy_listener_address=\"{address}\"")),
        ("envoy_listener_downstream_cx_total{", format!("envoy_listener_address=\"{address}\"")),
    ] {
        assert_eq!(running.metric(&[metric, &label]), 1, "{metric}");
    }
    let connections = running.handle.connections().await;
    assert_eq!(connections.len(), 1);
    assert_eq!(connections[0].endpoint.socket(), Some(backend.address));
    assert_eq!(connections[0].client, held.local_addr().unwrap());
    drop(held);
    running.closed("finished", 1).await;
    assert_eq!(running.metric(&["envoy_listener_downstream_cx_active{"]), 0);
    running.stop().await;
}
