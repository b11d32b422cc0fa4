//! Faults under load: ends that are killed, packets that are lost, and what may grow with every stream. Open streams may
//! break; no byte may come back wrong, and once the tunnel is back no new stream may fail for longer than two seconds.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use causeway_testkit::daemon::Daemon;

use crate::echo::Echo;
use crate::firewall::Firewall;
use crate::load::Load;
use crate::world::{World, proxy, server_service};
use causeway_testkit::server::signal;

/// So many streams in a row mean that the tunnel is back.
const BACK: u64 = 10;
/// How long streams may fail once it is back.
const SETTLED: Duration = Duration::from_secs(2);
/// Longer than it takes on a loaded machine.
const OUTAGE: Duration = Duration::from_secs(20);

fn from_env(name: &str, otherwise: u64) -> u64 {
    std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(otherwise)
}

fn tunnel_to(world: &World, echo: &Echo) -> SocketAddr {
    world.network("app", "{}");
    world.kubectl.apply(&server_service("api", echo.address, "TCP")).ok();
    world.make(&proxy("to-host", "app", "", &[("api", "api", "")]), "to-host");
    world.address("to-host", "api")
}

/// Waits until new streams pass again, wherever the tunnel is now; how long that took.
fn recovered(world: &World, load: &Load) -> Duration {
    let start = Instant::now();
    load.mark();
    world.within(OUTAGE, "new streams pass again", || {
        if !world.tunnel("to-host", "api").client_proxy_addresses.is_empty() {
            load.aim(world.address("to-host", "api"));
        }
        load.since().passed >= BACK
    });
    start.elapsed()
}

/// From two seconds after a recovery on, no stream may fail.
fn stays_well(world: &World, load: &Load) {
    let back = Instant::now();
    load.mark();
    world.within(OUTAGE, "streams pass long after the recovery", || {
        back.elapsed() > SETTLED * 2 && load.since().passed >= BACK
    });
    if let Some((at, error)) = load.since().failure {
        assert!(at < back + SETTLED, "a stream failed {:?} after the recovery: {error}", at - back);
    }
}

pub fn each_end_killed_again_and_again_under_load(daemon: Daemon) {
    let Some(world) = World::start(daemon) else { return };
    let kills = from_env("CAUSEWAY_TUNNEL_KILLS", 20);
    let echo = Echo::start();
    let address = tunnel_to(&world, &echo);
    let container = world.container("to-host").unwrap().name;
    let load = Load::start(address, 3, 200_000);
    let mut worst = [Duration::ZERO; 2];
    for _ in 0..kills {
        world.bed.ask(async |runtime| runtime.kill(&container, "SIGKILL").await);
        worst[0] = worst[0].max(recovered(&world, &load));
    }
    stays_well(&world, &load);
    // The host end is the same whatever the runtime: to kill it as often with both would only take longer.
    let crashes = if daemon == Daemon::Docker { kills } else { kills.div_ceil(4) };
    for _ in 0..crashes {
        let before = world.host_end("to-host");
        signal(before, "KILL");
        world.until("another host end runs", || {
            let now = world.status("to-host").server_proxy_process_id;
            now.is_some_and(|now| now != i64::from(before))
        });
        worst[1] = worst[1].max(recovered(&world, &load));
    }
    stays_well(&world, &load);
    assert_eq!(world.container("to-host").unwrap().name, container);
    assert_eq!(world.address("to-host", "api").port(), address.port(), "the same port through all of it");
    let (passed, broken) = load.end();
    let said = format!(
        "{daemon:?}: {kills} kills of the container, worst outage {:?}, {crashes} of the host end, worst outage {:?}; \
         {passed} streams passed, {broken} broke\n",
        worst[0], worst[1]
    );
    say(&said);
}

pub fn packets_lost_for_a_while(daemon: Daemon) {
    let Some(world) = World::start(daemon) else { return };
    let echo = Echo::start();
    let address = tunnel_to(&world, &echo);
    let load = Load::start(address, 3, 200_000);
    for lost in [1, 4] {
        let before = load.passed();
        world.until("streams pass", || load.passed() > before + BACK);
        let firewall = Firewall::around(address.ip());
        std::thread::sleep(Duration::from_secs(lost));
        drop(firewall);
        let took = recovered(&world, &load);
        assert!(took < Duration::from_secs(10), "{took:?} after {lost} s without a packet");
    }
    stays_well(&world, &load);
    load.end();
}

pub fn nothing_grows(daemon: Daemon) {
    let Some(world) = World::start(daemon) else { return };
    let streams = from_env("CAUSEWAY_TUNNEL_STREAMS", 10_000);
    let echo = Echo::start();
    let address = tunnel_to(&world, &echo);
    let load = Load::start(address, 8, 64);
    let ends = || {
        let id = world.container("to-host").unwrap().id;
        [world.host_end("to-host"), process_of(&id).expect("the container's process")].map(Usage::of)
    };
    // What is allocated once is there after the first streams.
    world.until("the first streams passed", || load.passed() > streams / 10);
    let before = ends();
    world.within(Duration::from_mins(10), "all streams passed", || load.passed() > streams);
    let failure = load.since().failure;
    let (passed, broken) = load.end();
    assert_eq!(broken, 0, "{failure:?}");
    world.until("descriptors are given back", || {
        let after = ends();
        before.iter().zip(&after).all(|(before, after)| after.descriptors <= before.descriptors)
    });
    let after = ends();
    for (end, (before, after)) in ["the host end", "the container"].iter().zip(before.iter().zip(&after)) {
        let grown = after.memory.saturating_sub(before.memory);
        assert!(grown < 16 << 20, "{end} grew by {} KiB over {passed} streams", grown >> 10);
    }
    say(&format!("{daemon:?}: {passed} streams; before {before:?}, after {after:?}\n"));
}

/// What a process holds.
#[derive(Debug)]
struct Usage {
    descriptors: usize,
    /// Bytes in memory.
    memory: u64,
}

impl Usage {
    fn of(pid: u32) -> Self {
        let descriptors = std::fs::read_dir(format!("/proc/{pid}/fd")).unwrap().count();
        let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
        let line = status.lines().find(|line| line.starts_with("VmRSS:")).unwrap();
        let memory: u64 = line.split_whitespace().nth(1).unwrap().parse().unwrap();
        Self { descriptors, memory: memory << 10 }
    }
}

/// The process of a container, found by its control group.
fn process_of(container: &str) -> Option<u32> {
    let pids = std::fs::read_dir("/proc")
        .ok()?
        .flatten()
        .filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    pids.into_iter().find(|pid: &u32| {
        let group = std::fs::read_to_string(format!("/proc/{pid}/cgroup")).unwrap_or_default();
        let command = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        group.contains(container) && String::from_utf8_lossy(&command).contains("tunnel")
    })
}

/// Past the capture of output: figures that a person wants to see.
fn say(text: &str) {
    use std::io::Write as _;
    let _ = std::io::stderr().write_all(text.as_bytes());
}
