//! Ready means that traffic would pass: whatever hangs, is cut off or dies is seen within seconds, and nobody has to use
//! the tunnel for that.

use std::net::UdpSocket;
use std::time::{Duration, Instant};

use causeway_api::TunnelState;
use causeway_api::conditions::ConditionType;
use causeway_testkit::daemon::Daemon;
use causeway_testkit::server::signal;

use crate::echo::{Echo, round};
use crate::firewall::Firewall;
use crate::world::{World, proxy, server_service};

/// Three seconds of silence, or until the next look at a server, and a loaded machine.
const SECONDS: Duration = Duration::from_secs(15);

/// Not Ready within seconds, and Ready again once what was done is undone.
fn is_noticed(world: &World, what: &str, kind: ConditionType, undo: impl FnOnce()) {
    let done = Instant::now();
    world.within(SECONDS, what, || !world.holds("to-host", ConditionType::Ready));
    assert!(!world.holds("to-host", kind), "{what}: {}", world.why("to-host", kind));
    eprintln!("{what}: seen after {:?}", done.elapsed());
    undo();
    world.until_ready("to-host");
}

pub fn nothing_is_ready_that_does_not_work(daemon: Daemon) {
    let Some(world) = World::start(daemon) else { return };
    let echo = Echo::start();
    let address = echo.address;
    let traces = UdpSocket::bind("127.0.0.1:0").unwrap();
    let datagrams = traces.local_addr().unwrap();
    world.network("app", "{}");
    world.kubectl.apply(&server_service("api", address, "TCP")).ok();
    world.kubectl.apply(&server_service("traces", datagrams, "UDP")).ok();
    let tunnels = [("api", "api", ""), ("traces", "traces", ", protocol: UDP")];
    world.make(&proxy("to-host", "app", "", &tunnels), "to-host");

    let id = world.container("to-host").unwrap().id;
    world.bed.ask(async |runtime| runtime.kill(&id, "SIGSTOP").await);
    is_noticed(&world, "a container that hangs", ConditionType::LinkUp, || {
        world.bed.ask(async |runtime| runtime.kill(&id, "SIGCONT").await);
    });

    let host_end = world.host_end("to-host");
    signal(host_end, "STOP");
    is_noticed(&world, "a host end that hangs", ConditionType::LinkUp, || signal(host_end, "CONT"));

    let firewall = Firewall::around(world.address("to-host", "api").ip());
    is_noticed(&world, "packets that are dropped", ConditionType::LinkUp, || drop(firewall));

    drop(echo);
    is_noticed(&world, "a server that died", ConditionType::TunnelsReady, || {
        assert_eq!(world.tunnel("to-host", "traces").state, Some(TunnelState::Ready), "it fails alone");
        // Open until the end of the test.
        std::mem::forget(Echo::on(address, ""));
    });
    drop(traces);
    let mut again = None;
    is_noticed(&world, "a server of datagrams that died", ConditionType::TunnelsReady, || {
        again = Some(UdpSocket::bind(datagrams).unwrap());
    });
    world.until("streams pass", || {
        round(world.address("to-host", "api"), "x").is_ok_and(|answer| answer == "x")
    });
}
