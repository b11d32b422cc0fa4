//! The data plane outlives the control plane: open streams go on, byte for byte, and new ones pass, whatever becomes of
//! the control plane.

use std::io::Write as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::time::Duration;

use causeway_api::TunnelState;

use crate::echo::{Echo, round};
use crate::load::Load;
use crate::operator::Operator;
use crate::talks::Talks;
use crate::world::{World, is_running, proxy, server_service};
use causeway_testkit::blocking::eventually;
use causeway_testkit::daemon::Daemon;
use causeway_testkit::server::{program, signal};

const STREAMS: usize = 8;
const BYTES: usize = 60_000;
/// How long the control plane stays away.
const AWAY: Duration = Duration::from_secs(3);
const LONG_AWAY: Duration = Duration::from_mins(1);

struct Traffic {
    talks: Talks,
    load: Load,
}

impl Traffic {
    fn through(world: &World, echo: &Echo) -> Self {
        world.network("app", "{}");
        world.kubectl.apply(&server_service("api", echo.address, "TCP")).ok();
        world.make(&proxy("to-host", "app", "", &[("api", "api", "")]), "to-host");
        let address = world.address("to-host", "api");
        let traffic =
            Self { talks: Talks::open(address, STREAMS, BYTES), load: Load::start(address, 2, BYTES) };
        traffic.goes_on("at the start");
        traffic
    }

    fn goes_on(&self, what: &str) {
        let before = self.load.passed();
        self.talks.go_on(what);
        let limit = Duration::from_secs(20);
        eventually(&format!("new streams pass: {what}"), limit, || self.load.passed() >= before + 5);
        assert_eq!(self.load.broken(), 0, "{what}: {:?}", self.load.since().failure);
    }

    /// For so long.
    fn goes_on_for(&self, time: Duration, what: &str) {
        let end = std::time::Instant::now() + time;
        while std::time::Instant::now() < end {
            self.goes_on(what);
        }
    }

    fn end(self) {
        let rounds = self.talks.close();
        let (passed, broken) = self.load.end();
        assert_eq!(broken, 0);
        eprintln!(
            "every byte of {STREAMS} open streams came back, {rounds} rounds or more each; {passed} new streams passed"
        );
    }
}

/// The same, if both are there.
fn ends_of(world: &World) -> Option<(i64, String)> {
    let status = world.status("to-host");
    status.server_proxy_process_id.zip(status.client_proxy_container_id)
}

/// The process of the host end and the id of the container.
fn ends(world: &World) -> (i64, String) {
    ends_of(world).expect("both ends")
}

pub fn a_control_plane_that_is_killed_stopped_or_replaced(daemon: Daemon) {
    let Some(mut world) = World::start(daemon) else { return };
    let echo = Echo::start();
    let traffic = Traffic::through(&world, &echo);
    let before = ends(&world);

    world.crash();
    traffic.goes_on_for(AWAY, "the control plane is killed");
    world.start_again();
    world.until_ready("to-host");
    traffic.goes_on_for(AWAY, "another is started after a crash");
    assert_eq!(ends(&world), before, "adopted after a crash");

    world.stop();
    traffic.goes_on_for(AWAY, "the control plane is stopped");
    world.start_again();
    world.until_ready("to-host");
    traffic.goes_on_for(AWAY, "another is started after a stop");
    assert_eq!(ends(&world), before, "adopted after a stop");

    // An upgrade: a program of other bytes, so that the image is another too.
    let newer = world.root().join("causeway-newer");
    another_program(&newer);
    let image = world.status("to-host").client_proxy_container_image.unwrap();
    world.stop();
    world.start_again_as(&newer);
    world.until_ready("to-host");
    world.until("the image of the newer program is there", || {
        world.status("to-host").client_proxy_container_image.is_some_and(|now| now != image)
    });
    traffic.goes_on_for(AWAY, "the control plane is upgraded");
    assert_eq!(ends(&world), before, "neither end is replaced while streams are open");

    // Not before the last stream is closed.
    traffic.end();
    world.until("both ends are of the newer program", || {
        let status = world.status("to-host");
        let program = status
            .server_proxy_process_id
            .and_then(|pid| std::fs::read_link(format!("/proc/{pid}/exe")).ok());
        program.is_some_and(|program| program == newer)
            && world.container("to-host").is_some_and(|container| container.id != before.1)
    });
    world.until_ready("to-host");
    assert_eq!(round(world.address("to-host", "api"), "x").unwrap(), "x");
    world.delete("cntp/to-host");
    assert!(!is_running(before.0));
}

pub fn a_control_plane_that_is_taken_down_with_all(daemon: Daemon) {
    let Some(mut world) = World::start(daemon) else { return };
    let echo = Echo::start();
    world.network("app", "{}");
    world.kubectl.apply(&server_service("api", echo.address, "TCP")).ok();
    world.make(&proxy("to-host", "app", "", &[("api", "api", "")]), "to-host");
    let before = ends(&world);
    let data = world.server.data_dir();
    // Which runtime it was is known from the directory.
    let args = ["down", "--all", "--data-dir", data.to_str().unwrap()];
    let said = world.causeway(&args).ok();
    assert!(said.contains("ended the tunnels of") && said.contains("removed container"), "{said}");
    assert!(!is_running(before.0));
    world.start_again();
    world.until("both ends are there again", || {
        ends_of(&world).is_some_and(|now| now.0 != before.0 && now.1 != before.1)
    });
    world.until_ready("to-host");
    assert_eq!(round(world.address("to-host", "api"), "x").unwrap(), "x");
}

/// A copy of the program under test that does the same and is another all the same.
fn another_program(path: &Path) {
    std::fs::copy(program(), path).unwrap();
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o755)).unwrap();
    // After the end of what is loaded.
    std::fs::OpenOptions::new().append(true).open(path).unwrap().write_all(b"newer").unwrap();
}

pub fn a_minute_without_an_api_server(daemon: Daemon) {
    let Some(bed) = crate::bed::Bed::shared(daemon) else { return };
    let world = World::with(bed, &["--no-operator"]);
    let dir = world.root().join("operator");
    let runtime = world.bed.socket.to_str().unwrap();
    let operator = Operator::start(&world.server, runtime, &["--data-dir", dir.to_str().unwrap()]);
    let echo = Echo::start();
    let traffic = Traffic::through(&world, &echo);
    let before = ends(&world);

    signal(world.server.pid(), "STOP");
    traffic.goes_on_for(LONG_AWAY, "without an API server");
    let log = operator.log();
    assert!(log.contains("could not renew the lease in time"), "the lease is lost meanwhile:\n{log}");
    signal(world.server.pid(), "CONT");
    world.until("the operator leads again", || operator.log().matches("leads").count() >= 2);
    traffic.goes_on("with the API server again");

    // It is in charge again: what it is asked for now reaches the same two ends.
    world.kubectl.apply(&proxy("to-host", "app", "", &[("api", "api", ""), ("late", "api", "")])).ok();
    world.until_tunnel("to-host", "late", TunnelState::Ready);
    assert_eq!(round(world.address("to-host", "late"), "x").unwrap(), "x");
    assert_eq!(ends(&world), before, "adopted after the lease was lost");
    traffic.goes_on("after a change");
    traffic.end();
    world.delete("cntp/to-host");
    world.delete("containernetwork/app");
}
