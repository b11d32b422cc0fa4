//! What is said of a client that is paused, or whose control ports are cut off while its tunnels are not: nothing is well,
//! why, and what to do. The same container carries again when it is over.

use std::process::Command;
use std::time::Duration;

use causeway_api::TunnelProxyState;
use causeway_api::conditions::ConditionType;
use causeway_testkit::daemon::Daemon;

use crate::echo::{Echo, round};
use crate::firewall::Firewall;
use crate::world::{World, proxy, server_service};

/// Within seconds, on a machine that is busy.
const SOON: Duration = Duration::from_secs(20);

/// Nothing is said to be well, a reason is given, and nobody is sent there.
fn until_not_ready(world: &World, what: &str) {
    world.within(SOON, &format!("{what}: it is not ready"), || {
        let status = world.status("to-host");
        let is_false = |kind: &str| {
            let found = status.conditions.iter().find(|one| one.type_ == kind);
            found
                .is_some_and(|one| one.status == "False" && !one.reason.is_empty() && !one.message.is_empty())
        };
        is_false("Ready")
            && is_false("LinkUp")
            && status.state != Some(TunnelProxyState::Running)
            && status.message.is_some()
            && world.tunnel("to-host", "api").error_message.is_some()
            && world.endpoints("api-client").is_empty()
    });
}

fn until_it_carries(world: &World, what: &str) {
    world.until(&format!("{what}: it is over"), || {
        world.holds("to-host", ConditionType::Ready) && !world.endpoints("api-client").is_empty()
    });
    assert_eq!(round(world.address("to-host", "api"), "x").unwrap(), "x", "{what}");
    assert_eq!(world.tunnel("to-host", "api").error_message, None, "{what}");
}

pub fn docker(world: &World, args: &[&str]) -> Result<(), String> {
    let host = format!("unix://{}", world.bed.socket.display());
    let ran =
        Command::new("docker").args(["--host", &host]).args(args).output().expect("docker is installed");
    if ran.status.success() { Ok(()) } else { Err(String::from_utf8_lossy(&ran.stderr).into_owned()) }
}

pub fn a_client_that_is_paused_or_cut_off(daemon: Daemon) {
    let Some(world) = World::start(daemon) else { return };
    let echo = Echo::start();
    world.network("app", "{}");
    world.kubectl.apply(&server_service("api", echo.address, "TCP")).ok();
    world.make(&proxy("to-host", "app", "", &[("api", "api", "")]), "to-host");
    let container = world.container("to-host").unwrap();

    docker(&world, &["pause", &container.name]).unwrap();
    until_not_ready(&world, "paused");
    let said = world.why("to-host", ConditionType::Ready);
    assert!(said.contains(&format!("unpause {}", container.name)), "{said}");
    docker(&world, &["unpause", &container.name]).unwrap();
    until_it_carries(&world, "paused");

    let wall = Firewall::before_ports(world.address("to-host", "api").ip(), [15049, 15050]);
    until_not_ready(&world, "cut off");
    drop(wall);
    until_it_carries(&world, "cut off");
    assert_eq!(world.container("to-host").unwrap().id, container.id, "the same container through all of it");
}
