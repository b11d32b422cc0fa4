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

    // And what was left behind can be removed, if it is ours.
    world.kubectl.apply(&network("old", &format!("{{mode: cleanup, networkName: {kept}}}"))).ok();
    until_state("old", ContainerNetworkState::Removed);
    assert!(!exists(&kept));
    world.kubectl.apply(&network("broom", &format!("{{mode: cleanup, networkName: {foreign}}}"))).ok();
    world.until("it says whose it is", || {
        let message = world.network_object("broom").status.and_then(|status| status.message);
        message.is_some_and(|message| message.contains("was not made by this control plane"))
    });
    assert!(exists(&foreign), "somebody else's network stays");
    world.bed.ask(async |runtime| runtime.remove_network(&foreign).await);

    // The host's own network is none for containers to share.
    let said = world.kubectl.apply(&network("host", "{mode: existing, networkName: host}")).fails();
    assert!(said.contains("spec.networkName") && said.contains("host and none"), "{said}");

    // Addresses as they were asked for.
    let subnet = "172.29.77.0/24";
    let name = world.network("ranged", &format!("{{subnet: {subnet}}}"));
    let made = world.bed.ask(async |runtime| runtime.network(&name).await);
    assert_eq!(made.subnets.iter().map(|one| one.range.as_str()).collect::<Vec<_>>(), [subnet]);

    // On one without a way out nothing is published, which is said instead of tried again and again.
    let closed = format!("closed-{}", unique());
    let spec = NetworkSpec { name: closed.clone(), internal: true, ..NetworkSpec::default() };
    world.bed.ask(async |runtime| runtime.create_network(&spec).await);
    world.network("closed", &format!("{{mode: existing, networkName: {closed}}}"));
    world.kubectl.apply(&proxy("no-way", "closed", "", &[("api", "api", "")])).ok();
    world.until("it says why there is no way", || {
        world.status("no-way").message.is_some_and(|message| message.contains("is internal"))
    });
    assert!(world.container("no-way").is_none());
    world.delete("cntp/no-way");
    world.bed.ask(async |runtime| runtime.remove_network(&closed).await);
}
