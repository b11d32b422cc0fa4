//! Whatever breaks is made again, under the same name and on the same ports, without anybody touching the resource.

use std::io::{ErrorKind, Read as _};
use std::time::{Duration, Instant};

use causeway_api::conditions::ConditionType;
use causeway_testkit::daemon::Daemon;
use kube::ResourceExt;

use crate::bed::Bed;
use crate::echo::{Echo, dial, echoes, round};
use crate::world::{World, is_running, proxy, server_service};
use causeway_testkit::server::signal;

fn tunnel_to(world: &World, echo: &Echo) {
    world.network("app", "{}");
    world.kubectl.apply(&server_service("api", echo.address, "TCP")).ok();
    world.make(&proxy("to-host", "app", ", aliases: [api]", &[("api", "api", "")]), "to-host");
}

/// Waits until the tunnel carries again; it must be where it was, but for its address.
fn until_carried(world: &World, what: &str, port: u16) {
    world.until(what, || {
        let status = world.tunnel("to-host", "api");
        !status.client_proxy_addresses.is_empty()
            && round(world.address("to-host", "api"), "x").is_ok_and(|answer| answer == "x")
    });
    world.until_ready("to-host");
    assert_eq!(world.address("to-host", "api").port(), port, "the same port: {what}");
}

/// With a daemon of its own: others use the image too.
pub fn an_image_that_is_removed_by_force(daemon: Daemon) {
    let Some(bed) = Bed::own(daemon) else { return };
    let world = World::on(bed);
    let echo = Echo::start();
    tunnel_to(&world, &echo);
    world.make(&proxy("other", "app", "", &[("second", "api", "")]), "other");
    let (port, before) = (world.address("to-host", "api").port(), world.container("to-host").unwrap().id);
    let image = world.status("to-host").client_proxy_container_image.unwrap();
    // Podman gives up half way where it meets a container that is being removed by another.
    world.until("the image is removed", || crate::truth::docker(&world, &["rmi", "--force", &image]).is_ok());
    world.until("another container is made of an image that is built again", || {
        world.container("to-host").is_some_and(|now| now.id != before && now.is_running())
    });
    until_carried(&world, "the image was removed", port);
    world.until_ready("other");
    assert_eq!(round(world.address("other", "second"), "x").unwrap(), "x");
}

/// Something done to a container of this id.
type Act = fn(&World, &str);

pub fn a_container_that_is_killed_or_removed(daemon: Daemon) {
    let Some(world) = World::start(daemon) else { return };
    let echo = Echo::start();
    tunnel_to(&world, &echo);
    let port = world.address("to-host", "api").port();
    let first = world.container("to-host").expect("a container");
    let ways: [(&str, Act); 4] = [
        ("killed", |world, id| world.bed.ask(async |runtime| runtime.kill(id, "SIGKILL").await)),
        ("removed", |world, id| world.bed.ask(async |runtime| runtime.remove(id).await)),
        ("stopped", |world, id| {
            world.bed.ask(async |runtime| runtime.stop(id, Duration::from_secs(5)).await);
        }),
        ("frozen for a moment", |world, id| {
            world.bed.ask(async |runtime| runtime.kill(id, "SIGSTOP").await);
            world.bed.ask(async |runtime| runtime.kill(id, "SIGCONT").await);
        }),
    ];
    for (what, act) in ways {
        let container = world.container("to-host").expect("a container");
        act(&world, &container.id);
        until_carried(&world, what, port);
        let now = world.container("to-host").expect("a container");
        assert_eq!(now.name, first.name, "{what}");
        assert_eq!(world.bed.containers_of(&world.proxy("to-host").uid().unwrap()).len(), 1, "{what}");
        world.until("the EndpointSlice follows", || {
            let ip = world.address("to-host", "api").ip().to_string();
            world.endpoints("api-client") == [(ip, i32::from(port))]
        });
    }
    let log = world.logs("to-host");
    assert!(log.lines().count() > 5, "every change is in the log: {log}");
}

pub fn a_control_plane_that_crashed(daemon: Daemon) {
    let Some(mut world) = World::start(daemon) else { return };
    let echo = Echo::start();
    tunnel_to(&world, &echo);
    let (address, before) = (world.address("to-host", "api"), world.container("to-host").unwrap());
    world.crash();
    assert_eq!(round(address, "x").unwrap(), "x", "tunnels carry without a control plane");
    world.start_again();
    until_carried(&world, "after a crash", address.port());
    let after = world.container("to-host").unwrap();
    assert_eq!(
        (&after.id, &after.name),
        (&before.id, &before.name),
        "the container is adopted, not made anew"
    );

    // The container and the host end go while nobody looks.
    let host_end = world.host_end("to-host");
    world.crash();
    signal(host_end, "KILL");
    world.bed.ask(async |runtime| runtime.remove(&before.id).await);
    world.start_again();
    until_carried(&world, "after a crash without its container", address.port());
    assert_eq!(world.container("to-host").unwrap().name, before.name);
}

/// With a runtime of its own: what happens to others' containers would make the control plane look again.
pub fn an_idle_stream_is_left_alone(daemon: Daemon) {
    let Some(bed) = Bed::own(daemon) else { return };
    let world = World::on(bed);
    let echo = Echo::start();
    tunnel_to(&world, &echo);
    let container = world.container("to-host").unwrap().id;
    let mut open = dial(world.address("to-host", "api")).unwrap();
    echoes(&mut open, "before").unwrap();
    // Longer than a link may be down.
    let outcome = open.set_read_timeout(Some(Duration::from_secs(35))).and_then(|()| open.read(&mut [0]));
    assert!(outcome.is_err_and(|error| error.kind() == ErrorKind::WouldBlock), "{}", world.logs("to-host"));
    echoes(&mut open, "after").unwrap();
    assert_eq!(world.container("to-host").unwrap().id, container);
}

pub fn a_runtime_that_is_restarted(daemon: Daemon) {
    let Some(bed) = Bed::own(daemon) else { return };
    let world = World::on(bed);
    let echo = Echo::start();
    tunnel_to(&world, &echo);
    let (port, name) = (world.address("to-host", "api").port(), world.container("to-host").unwrap().name);
    world.bed.restart();
    until_carried(&world, "after a restart of the runtime", port);
    assert_eq!(world.container("to-host").unwrap().name, name);

    // While it is gone, the condition says so.
    world.bed.stop();
    world.until("the runtime is missed", || {
        let why = world.why("to-host", ConditionType::RuntimeAvailable);
        why.starts_with("RuntimeUnavailable") && why.contains("runtime.sock")
    });
    world.bed.start();
    until_carried(&world, "after the runtime came back", port);
    world.delete("cntp/to-host");
    world.delete("containernetwork/app");
}

pub fn a_network_that_is_removed(daemon: Daemon) {
    let Some(world) = World::start(daemon) else { return };
    let echo = Echo::start();
    tunnel_to(&world, &echo);
    let (port, container) = (world.address("to-host", "api").port(), world.container("to-host").unwrap());
    let before = world.network_object("app").status.unwrap();
    let name = before.network_name.clone().unwrap();
    world.bed.ask(async |runtime| runtime.detach(&container.id, &name).await);
    world.bed.ask(async |runtime| runtime.remove_network(&name).await);
    world.until("another network of that name is there", || {
        let now = world.network_object("app").status.unwrap();
        now.state == before.state
            && now.network_name == before.network_name
            && now.id.is_some()
            && world.bed.networks_of(&world.network_object("app").uid().unwrap()) == [name.clone()]
    });
    until_carried(&world, "after its network was removed", port);
    let now = world.container("to-host").unwrap();
    assert_eq!(now.name, container.name);
    assert_eq!(now.networks.keys().collect::<Vec<_>>(), [&name]);
}

pub fn what_a_dead_owner_left(daemon: Daemon) {
    let Some(mut world) = World::start(daemon) else { return };
    let echo = Echo::start();
    tunnel_to(&world, &echo);
    let (proxy, network) =
        (world.proxy("to-host").uid().unwrap(), world.network_object("app").uid().unwrap());
    let host_end = i64::from(world.host_end("to-host"));
    world.crash();
    // The objects are lost, and with them all knowledge of what was made for them.
    std::fs::remove_file(world.server.data_dir().join("store.log")).unwrap();
    world.start_again();
    world.until("its host end, container and network are removed", || {
        !is_running(host_end)
            && world.bed.containers_of(&proxy).is_empty()
            && world.bed.networks_of(&network).is_empty()
    });
}

pub fn a_name_that_is_used_again(daemon: Daemon) {
    let Some(world) = World::start(daemon) else { return };
    let echo = Echo::start();
    world.network("app", "{}");
    world.kubectl.apply(&server_service("api", echo.address, "TCP")).ok();
    // The second tunnel can't have the Service's own port: what it gets must be remembered.
    let yaml = proxy("to-host", "app", "", &[("api", "api", ""), ("again", "api", "")]);
    world.make(&yaml, "to-host");
    let ports = [world.address("to-host", "api").port(), world.address("to-host", "again").port()];
    let (uid, open) =
        (world.proxy("to-host").uid().unwrap(), dial(world.address("to-host", "again")).unwrap());
    let start = Instant::now();
    world.delete("cntp/to-host");
    assert!(start.elapsed() < Duration::from_secs(30), "an idle stream does not hold a delete for ever");
    drop(open);
    assert_eq!(world.bed.containers_of(&uid), []);
    world.make(&yaml, "to-host");
    assert_ne!(world.proxy("to-host").uid().unwrap(), uid);
    let now = [world.address("to-host", "api").port(), world.address("to-host", "again").port()];
    assert_eq!(now, ports, "the ports are those of the last time");
    assert_eq!(round(world.address("to-host", "again"), "x").unwrap(), "x");
}
