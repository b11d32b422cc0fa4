//! Nothing is Ready that does not work, found out without anybody who uses it.

use std::time::{Duration, Instant};

use causeway_api::{TunnelState, conditions::ConditionType};
use causeway_containers::Kind;
use rustix::process::Signal;

use super::world::{World, answers, port, signal, to, tunnel};

/// Some seconds of silence, and a loaded machine.
const SECONDS: Duration = Duration::from_secs(12);

#[tokio::test]
async fn a_host_end_that_hangs_is_not_ready() {
    let world = World::start(Kind::Docker).await;
    let _web = world.server("web").await;
    world.create_proxy("lab", &[to("web")]).await;
    let before = world.ready("lab").await;
    let pid = before.server_proxy_process_id.unwrap();
    signal(pid, Signal::STOP);
    let stopped = Instant::now();
    let why = world.condition("lab", ConditionType::LinkUp, "False", "Disconnected").await;
    assert!(why.contains("does not answer"), "{why}");
    assert!(stopped.elapsed() < SECONDS, "{:?}", stopped.elapsed());
    signal(pid, Signal::CONT);
    world.ready("lab").await;
    answers(port(&tunnel(&before, "web")), "web").await;
    world.end().await;
}

#[tokio::test]
async fn an_idle_server_that_dies_is_not_ready() {
    let world = World::start(Kind::Docker).await;
    let web = world.server("web").await;
    world.create_proxy("lab", &[to("web")]).await;
    world.ready("lab").await;
    drop(web);
    let died = Instant::now();
    let told = world.tunnel("lab", "web", TunnelState::NotReady).await;
    assert!(told.error_message.unwrap().contains("refused"), "nobody used it");
    assert!(died.elapsed() < SECONDS, "{:?}", died.elapsed());
    world.no_slices_of("web-in").await;
    world.end().await;
}
