//! Networks that are made, used, kept and removed, and a tunnel on one that somebody else made.

use causeway_api::ContainerNetworkState;
use causeway_containers::NetworkSpec;
use causeway_testkit::daemon::Daemon;

use crate::bed::unique;
use crate::echo::{Echo, round};
use crate::world::{World, network, proxy, server_service};

pub fn networks_of_every_mode(daemon: Daemon) {
    let Some(world) = World::start(daemon) else { return };
    let exists = |name: &str| {
        world.bed.ask(async |runtime| runtime.networks(&[]).await).iter().any(|network| network.name == name)
    };
    let until_state = |object: &str, state: ContainerNetworkState| {
        world.until(&format!("{object} is {state:?}"), || {
            world.network_object(object).status.and_then(|status| status.state) == Some(state)
        });
    };
    let (foreign, kept) = (format!("shop-{}", unique()), format!("team-{}", unique()));

    // One that must exist is waited for, used, and left alone in the end.
    world.kubectl.apply(&network("compose", &format!("{{mode: existing, networkName: {foreign}}}"))).ok();
    until_state("compose", ContainerNetworkState::NotFound);
    let echo = Echo::start();
    world.kubectl.apply(&server_service("api", echo.address, "TCP")).ok();
    world.kubectl.apply(&proxy("to-host", "compose", ", aliases: [api]", &[("api", "api", "")])).ok();
    let spec = NetworkSpec { name: foreign.clone(), ..NetworkSpec::default() };
    world.bed.ask(async |runtime| runtime.create_network(&spec).await);
    until_state("compose", ContainerNetworkState::Running);
    world.until_ready("to-host");
    assert_eq!(round(world.address("to-host", "api"), "x").unwrap(), "x");
    world.until("the status lists the container", || {
        let id = world.container("to-host").unwrap().id;
        world.network_object("compose").status.unwrap().container_ids.contains(&id)
    });
    world.delete("cntp/to-host");
    world.delete("containernetwork/compose");
    assert!(exists(&foreign), "somebody else's network stays");

    // One that persists is made, and stays when its object goes.
    world.network("team", &format!("{{mode: persistent, networkName: {kept}}}"));
    assert!(exists(&kept));
    world.delete("containernetwork/team");
    assert!(exists(&kept), "it is kept");

    // And what was left behind can be removed.
    for name in [&foreign, &kept] {
        world.kubectl.apply(&network("old", &format!("{{mode: cleanup, networkName: {name}}}"))).ok();
        until_state("old", ContainerNetworkState::Removed);
        assert!(!exists(name));
        world.delete("containernetwork/old");
    }
}
