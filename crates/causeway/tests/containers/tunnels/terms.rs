//! Operators that take turns: one that loses the API server, and with it the lease, stops writing and nothing else.

use causeway_containers::Kind;
use causeway_testkit::eventually;
use serde_json::json;

use super::servers::{Conversation, ask};
use super::world::{NETWORK, World, answers, is_running, port, to, tunnel};

#[tokio::test]
async fn an_operator_that_loses_its_lease_ends_nothing_and_the_next_one_adopts() {
    let world = World::without_operator(Kind::Docker).await;
    let first = world.bed.elected("first");
    first.leads().await;
    world.bed.create(NETWORK, json!({ "networkName": NETWORK })).await;
    let _servers = (world.server("a").await, world.server("b").await);
    let proxy = world.create_proxy("lab", &[to("a")]).await;
    let before = world.ready("lab").await;
    let (pid, port_of_a) = (before.server_proxy_process_id.unwrap(), port(&tunnel(&before, "a")));
    let mut open = Conversation::begin(port_of_a).await;
    let container = world.container(&proxy).unwrap();

    // Nobody leads for a while: what is there goes on, and is as it was.
    first.cut(true);
    first.has_stopped().await;
    open.goes_on().await;
    assert_eq!(ask(port_of_a).await.unwrap(), "a", "new streams pass too");
    assert_eq!(world.slices_of("a-in").await.len(), 1, "and are sent there");
    let journal = std::fs::read_to_string(before.server_proxy_std_out_file.as_ref().unwrap()).unwrap();
    assert!(!journal.contains("draining"), "{journal}");

    // The next one has the same data directory, and what is changed now reaches the same two ends.
    let second = world.bed.elected("second");
    second.leads().await;
    world.set_tunnels("lab", &[to("a"), to("b")]).await;
    let after = world.ready("lab").await;
    answers(port(&tunnel(&after, "b")), "b").await;
    open.goes_on().await;

    // And back: the first one, which was only away, takes over from the second.
    first.cut(false);
    second.cut(true);
    first.leads().await;
    world.set_tunnels("lab", &[to("a")]).await;
    eventually("the first one works again", async || {
        let status = world.proxies().get("lab").await.unwrap().status.unwrap();
        status.tunnel_statuses.len() == 1
    })
    .await;
    let after = world.ready("lab").await;
    open.goes_on().await;
    assert_eq!(after.server_proxy_process_id, Some(pid), "the host end was never replaced");
    assert_eq!(world.container(&proxy).unwrap().id, container.id, "nor the container");

    drop(second);
    world.delete_proxy("lab").await;
    world.proxy_gone("lab").await;
    assert!(!is_running(pid));
}
