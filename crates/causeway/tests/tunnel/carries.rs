//! What tunnels carry, and what stays the same while they and their Services come, go and move.

use std::net::{IpAddr, SocketAddr};

use causeway_api::TunnelState;
use causeway_containers::{Build, BuildFile, Content};
use causeway_testkit::daemon::Daemon;

use crate::echo::{Echo, datagram_round, datagrams, dial, echoes, round};
use crate::world::{World, proxy, server_service, slice};

pub fn tunnels_come_and_go(daemon: Daemon) {
    let Some(world) = World::start(daemon) else { return };
    let (one, two) = (Echo::named("one "), Echo::named("two "));
    let datagrams = datagrams();
    let network = world.network("app", "{}");
    let services = [
        server_service("one", one.address, "TCP"),
        server_service("two", two.address, "TCP"),
        server_service("traces", datagrams, "UDP"),
    ];
    world.kubectl.apply(&services.concat()).ok();
    let aliases = ", aliases: [first, second.internal, third]";
    let all = [
        ("one", "one", ""),
        ("again", "one", ""),
        ("two", "two", ", clientPort: 5000"),
        ("traces", "traces", ", protocol: UDP"),
    ];
    world.make(&proxy("many", "app", aliases, &all), "many");

    assert_eq!(round(world.address("many", "one"), "x").unwrap(), "one x");
    assert_eq!(round(world.address("many", "again"), "x").unwrap(), "one x", "two tunnels to one Service");
    assert_eq!(world.address("many", "two").port(), 5000);
    assert_eq!(round(world.address("many", "two"), "x").unwrap(), "two x");
    assert!(datagram_round(world.address("many", "traces"), "a datagram").unwrap());
    let (first, again) = (world.tunnel("many", "one"), world.tunnel("many", "again"));
    assert_ne!(first.tunnel_id, again.tunnel_id);
    assert_ne!(first.client_proxy_port, again.client_proxy_port);
    // Every alias is a name on the network.
    for alias in ["first", "second.internal", "third"] {
        let target = format!("{alias}:{}", first.client_proxy_port.unwrap());
        let (_, said) = world.bed.run(&network, &["echo", "--check", &target]);
        // This backend says its name first, so that the check finds a difference, and so it has been reached.
        assert!(said.contains("came back changed"), "{alias}: {said}");
    }

    // One goes and the others do not notice.
    let mut open = dial(world.address("many", "two")).unwrap();
    echoes_after_its_name(&mut open, "two ");
    let last = world.address("many", "one");
    world.kubectl.apply(&proxy("many", "app", aliases, &all[1..])).ok();
    world.until("the tunnel is gone", || {
        let left: Vec<_> = world.status("many").tunnel_statuses.into_iter().map(|one| one.name).collect();
        left == ["again", "traces", "two"] && world.endpoints("one-client").is_empty()
    });
    world.until("its port refuses", || dial(last).is_err());
    world.until_ready("many");
    echoes(&mut open, "still here").unwrap();
    assert_eq!(round(world.address("many", "again"), "x").unwrap(), "one x");

    // It comes back to where it was.
    world.kubectl.apply(&proxy("many", "app", aliases, &all)).ok();
    world.until_tunnel("many", "one", TunnelState::Ready);
    assert_eq!(world.address("many", "one"), last, "the same port as before");
    world.until("it carries again", || round(last, "x").is_ok_and(|answer| answer == "one x"));
    echoes(&mut open, "all the time").unwrap();
}

fn echoes_after_its_name(stream: &mut std::net::TcpStream, name: &str) {
    use std::io::Read as _;
    let mut said = vec![0; name.len()];
    stream.read_exact(&mut said).unwrap();
    assert_eq!(said, name.as_bytes());
    echoes(stream, "hello").unwrap();
}

pub fn a_service_that_goes_and_comes_and_moves(daemon: Daemon) {
    let Some(world) = World::start(daemon) else { return };
    let (old, new) = (Echo::named("old "), Echo::named("new "));
    world.network("app", "{}");
    world.kubectl.apply(&server_service("api", old.address, "TCP")).ok();
    world.make(&proxy("to-host", "app", "", &[("api", "api", "")]), "to-host");
    let address = world.address("to-host", "api");
    assert_eq!(round(address, "x").unwrap(), "old x");

    // Without a ready endpoint, clients are refused, and the client Service leads nowhere.
    world.kubectl.ok(&["delete", "endpointslice", "api"]);
    world.until_tunnel("to-host", "api", TunnelState::NotReady);
    world.until("clients are refused", || dial(address).is_err());
    world.until("the client Service leads nowhere", || world.endpoints("api-client").is_empty());
    world.kubectl.apply(&slice("api", old.address, "TCP")).ok();
    world.until_tunnel("to-host", "api", TunnelState::Ready);
    assert_eq!(world.address("to-host", "api"), address, "the same port after a flap");
    world.until("it carries again", || round(address, "x").is_ok_and(|answer| answer == "old x"));

    // A new address without a gap: new streams go there at once.
    world.kubectl.apply(&slice("api", new.address, "TCP")).ok();
    world.until("new streams reach the new address", || {
        round(address, "x").is_ok_and(|answer| answer == "new x")
    });
    assert_eq!(world.address("to-host", "api"), address);

    // Nobody listens there: the refusal reaches the client, and the state says so.
    let gone = new.address;
    drop(new);
    world.until("clients are refused", || dial(address).is_err());
    world.until_tunnel("to-host", "api", TunnelState::NotReady);
    let back = Echo::on(gone, "back ");
    world.until("it is found again by itself", || round(address, "x").is_ok_and(|answer| answer == "back x"));
    world.until_tunnel("to-host", "api", TunnelState::Ready);
    drop(back);

    // The Service as a whole goes and comes back.
    world.kubectl.ok(&["delete", "service", "api"]);
    world.until_tunnel("to-host", "api", TunnelState::NotReady);
    world.kubectl.apply(&server_service("api", old.address, "TCP")).ok();
    world.until("it carries again", || round(address, "x").is_ok_and(|answer| answer == "old x"));
}

pub fn only_the_sources_that_are_allowed(daemon: Daemon) {
    let Some(world) = World::start(daemon) else { return };
    let echo = Echo::start();
    let network = world.network("app", "{}");
    let subnet = world.network_object("app").status.unwrap().subnets.remove(0);
    world.kubectl.apply(&server_service("api", echo.address, "TCP")).ok();
    let ours = format!(", allowedSources: ['{subnet}']");
    let tunnels =
        [("ours", "api", ours.as_str()), ("theirs", "api", ", allowedSources: [192.0.2.7, '2001:db8::/32']")];
    world.make(&proxy("to-host", "app", ", aliases: [api]", &tunnels), "to-host");
    let check = |tunnel: &str| {
        let port = world.address("to-host", tunnel).port();
        world.bed.run(&network, &["echo", "--check", &format!("api:{port}")])
    };
    let (code, said) = check("ours");
    assert_eq!(code, 0, "{said}");
    // The host end itself looks now and then whether somebody listens.
    world.until("nothing of it reaches the host", || {
        let before = echo.accepted();
        let (code, said) = check("theirs");
        assert_ne!(code, 0, "{said}");
        echo.accepted() == before
    });
}

pub fn ipv6_too(daemon: Daemon) {
    let Some(world) = World::start(daemon) else { return };
    if std::net::TcpListener::bind("[::1]:0").is_err() {
        eprintln!("skipped: this machine has no IPv6");
        return;
    }
    let echo = Echo::on("[::1]:0".parse().unwrap(), "");
    world.network("app", "{ipv6: true}");
    world.kubectl.apply(&server_service("api", echo.address, "TCP")).ok();
    world.make(&proxy("to-host", "app", "", &[("api", "api", "")]), "to-host");
    let tunnel = world.tunnel("to-host", "api");
    let addresses: Vec<IpAddr> =
        tunnel.client_proxy_addresses.iter().map(|address| address.parse().unwrap()).collect();
    assert!(addresses.iter().any(IpAddr::is_ipv4), "{addresses:?}");
    assert!(addresses.iter().any(IpAddr::is_ipv6), "{addresses:?}");
    let port = u16::try_from(tunnel.client_proxy_port.unwrap()).unwrap();
    for ip in addresses {
        world.until("the tunnel carries over both families", || {
            round(SocketAddr::new(ip, port), "x").is_ok_and(|answer| answer == "x")
        });
    }
    assert_eq!(world.endpoints("api-client").len(), 2);
}

pub fn a_base_image_counts(daemon: Daemon) {
    let Some(world) = World::start(daemon) else { return };
    let echo = Echo::start();
    let base = world.bed.ask(async |runtime| {
        let file =
            BuildFile { path: "marker".to_owned(), content: Content::Bytes(b"base\n".to_vec()), mode: 0o644 };
        let build = Build {
            reference: "localhost/tests/base:1",
            dockerfile: "FROM scratch\nCOPY marker /marker\n".to_owned(),
            files: vec![file],
            labels: std::collections::BTreeMap::from([("test.base".to_owned(), "yes".to_owned())]),
        };
        runtime.build(build, |_| {}).await
    });
    world.network("app", "{}");
    world.kubectl.apply(&server_service("api", echo.address, "TCP")).ok();
    let based = proxy("based", "app", ", baseImage: 'localhost/tests/base:1'", &[("api", "api", "")]);
    world.make(&based, "based");
    let image = world.status("based").client_proxy_container_image.unwrap();
    assert_ne!(image, world.bed.image, "another image than without a base");
    let found = world.bed.ask(async |runtime| runtime.image(&image).await).unwrap();
    assert_eq!(found.labels.get("test.base").map(String::as_str), Some("yes"), "built on {}", base.id);
    assert_eq!(round(world.address("based", "api"), "x").unwrap(), "x");

    // One that is nowhere says so, and what runs is not touched.
    let lost = proxy("lost", "app", ", baseImage: 'localhost:1/no/such/base:1'", &[]);
    world.kubectl.apply(&lost).ok();
    world.until("the condition names the image", || {
        world.why("lost", causeway_api::conditions::ConditionType::ImageBuilt).contains("no/such/base:1")
    });
    assert_eq!(round(world.address("based", "api"), "x").unwrap(), "x");
}
