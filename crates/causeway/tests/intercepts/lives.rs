//! The whole life of intercepts under constant load: not one request fails that was not meant for a developer's machine.

use std::time::{Duration, Instant};

use causeway_testkit::PATIENCE;
use causeway_testkit::blocking::eventually;

use crate::load::{ask, ask_at, load, load_at};
use crate::streams::{Client, Socket, keep, serve, talking};
use crate::world::{FALLBACK, Laptop, World, died, workload};

const ME: &[&str] = &["x-user: me"];
/// The time that streams have to end by themselves where something ends them.
const DRAIN: Duration = Duration::from_secs(30);

#[test]
fn nobody_notices_an_intercept_that_is_not_theirs() {
    let world = World::start();
    let address = world.address("web");
    let others = load(&address, &[], &["web"]);
    // A selector moves all ports of a Service, those of other containers with them.
    let side = load_at(&address, 81, &[], &["web-side"]);
    others.goes_on(20);
    side.goes_on(20);
    let laptop = Laptop::connected(&world, "laptop");
    laptop.intercept("deploy/web", "http", &["--header", "x-user=me"]).ok();
    // Mine go to the machine, or to the original where that does not answer, and are never lost either.
    let mine = load(&address, ME, &["laptop", "web"]);
    eventually("mine come here", PATIENCE, || mine.answered_by() == "laptop");
    others.goes_on(50);
    side.goes_on(50);
    assert_eq!(ask_at(&address, 81, ME).unwrap(), "web-side", "the rule is of the other port");

    // The target is rolled out, scaled up and down, and its pods are killed.
    world.kubectl.ok(&["rollout", "restart", "deployment/web"]);
    world.kubectl.ok(&["rollout", "status", "deployment/web", "--timeout=60s"]);
    world.kubectl.ok(&["scale", "deployment/web", "--replicas=3"]);
    world.kubectl.ok(&["rollout", "status", "deployment/web", "--timeout=60s"]);
    world.kubectl.ok(&["scale", "deployment/web", "--replicas=1"]);
    others.goes_on(50);
    assert_eq!(mine.answered_by(), "laptop");

    // The request is edited.
    laptop.intercept("deploy/web", "http", &["--header", "x-user=me", "--path", "/*"]).ok();
    others.goes_on(50);

    // The machine's program goes and comes back; then the machine dies.
    let mut laptop = laptop;
    laptop.stop_program();
    eventually("mine go to the original", FALLBACK, || mine.answered_by() == "web");
    laptop.start_program();
    eventually("mine come here again", PATIENCE, || mine.answered_by() == "laptop");
    died(&laptop, || {
        let by = mine.answered_by();
        if by == "web" { Ok(()) } else { Err(by) }
    });
    world.says("web-8080-laptop", "Ready", "Disconnected");
    laptop.causeway(&["connect", "--name", "laptop"]).ok();
    eventually("mine come here again", PATIENCE, || mine.answered_by() == "laptop");

    // The pod of the cluster's end that the machine is connected to goes.
    let replica = || world.kubectl.value("workstation/laptop", ".status.connections[0].replica");
    let before = eventually("it is said where it is connected", PATIENCE, || {
        Some(replica()).filter(|one| !one.is_empty())
    });
    world.server.namespace("causeway-system").ok(&["delete", "pod", &before, "--wait=false"]);
    eventually("it is connected elsewhere", PATIENCE, || {
        let now = replica();
        !now.is_empty() && now != before
    });
    eventually("mine come here again", PATIENCE, || mine.answered_by() == "laptop");
    others.goes_on(50);

    // A pod of the carrier goes.
    world.kubectl.ok(&["delete", "pod", "-l", "causeway.dev/owner-name=web-carrier", "--wait=false"]);
    others.goes_on(100);
    eventually("the carrier is back", PATIENCE, || mine.answered_by() == "laptop");

    // And the end of it.
    laptop.causeway(&["leave", "--all"]).ok();
    eventually("mine go to the original", PATIENCE, || mine.answered_by() == "web");
    others.goes_on(100);
    assert_eq!(world.kubectl.value("service/web", ".spec.selector.app"), "web");
    for kind in ["gatewayplans", "supplies", "deployments/web-carrier", "services/web-carrier-original"] {
        let left = world.kubectl.run(&["get", kind, "-o", "name", "--ignore-not-found"]).ok();
        assert!(!left.contains("carrier"), "{kind}: {left}");
    }
    side.goes_on(20);
    others.end_well("of others");
    side.end_well("to the other port");
    mine.end_well("of mine");
}

#[test]
fn streams_of_others_outlive_every_edit_and_have_their_time_at_the_end() {
    let world = World::start();
    let address = talking(&world, "talk");
    let laptop = Laptop::connected(&world, "laptop");
    let by_header = ["--header", "x-user=me"];
    laptop.intercept("deploy/talk", "http", &by_header).ok();
    eventually("mine come here", PATIENCE, || ask(&address, ME).is_ok_and(|by| by == "laptop"));
    // Somebody else with a part of it, and a stream that leads to her machine.
    let mut ada = Laptop::connected(&world, "ada");
    ada.stop_program();
    serve(("127.0.0.1", ada.port), |stream| keep(stream, "ada"));
    ada.intercept("deploy/talk", "http", &["--header", "x-user=ada"]).ok();
    let hers = &["x-user: ada"];
    eventually("hers go to her", PATIENCE, || ask(&address, hers).is_ok_and(|by| by == "ada"));
    let mut hers = Socket::open(&address, hers);
    let (mut socket, mut client) = (Socket::open(&address, &[]), Client::new(&address));
    // Says how many connections the client has had when the time is over.
    let mut go_on = |time: Duration| {
        let began = Instant::now();
        while began.elapsed() < time {
            socket.echoes(b"hello").unwrap();
            assert_eq!(client.ask().unwrap(), "talk");
            std::thread::sleep(Duration::from_millis(50));
        }
        client.opened
    };
    assert_eq!(go_on(Duration::from_secs(1)), 1);
    // She leaves, and the carrier stays for me: what is open to her machine has its time, and no more.
    ada.causeway(&["leave", "--all"]).ok();
    hers.echoes(b"hello").unwrap();
    // Everything is copied, so that others have no route of their own any more: for longer than what is ended may go on.
    laptop.intercept("deploy/talk", "http", &["--mirror"]).ok();
    assert_eq!(go_on(DRAIN + Duration::from_secs(3)), 1);
    eventually("her stream has ended", PATIENCE, || hers.echoes(b"hello").is_err());
    laptop.intercept("deploy/talk", "http", &by_header).ok();
    eventually("mine come here again", PATIENCE, || ask(&address, ME).is_ok_and(|by| by == "laptop"));
    assert_eq!(go_on(Duration::from_secs(1)), 1);
    // The carrier goes: who keeps a connection is told to ask elsewhere, and what is open has its time.
    laptop.causeway(&["leave", "--all"]).ok();
    assert!(go_on(DRAIN / 2) > 1);
    assert_eq!(world.kubectl.value("service/talk", ".spec.selector.app"), "talk");
}

/// On one machine the addresses of Services go with the control plane; those of pods do not.
#[test]
fn the_control_plane_dies_and_nothing_that_carries_traffic_does() {
    let mut world = World::start();
    let laptop = Laptop::connected(&world, "laptop");
    laptop.intercept("deploy/web", "http", &["--header", "x-user=me"]).ok();
    let address = world.address("web");
    eventually("mine come here", PATIENCE, || ask(&address, ME).is_ok_and(|by| by == "laptop"));
    let carrier = world.kubectl.ok(&[
        "get",
        "pods",
        "-l",
        "causeway.dev/owner-name=web-carrier",
        "-o",
        "jsonpath={.items[0].status.podIP}",
    ]);
    world.kill();
    // The machine's connection goes with the address that it came by; requests do not.
    for _ in 0..50 {
        let mine = ask_at(&carrier, 8080, ME).unwrap();
        assert!(["laptop", "web"].contains(&mine.as_str()), "{mine}");
        assert_eq!(ask_at(&carrier, 8080, &[]).unwrap(), "web");
    }
    // The machine dies while nobody is there to see it.
    laptop.die();
    eventually("mine go to the original", FALLBACK, || {
        ask_at(&carrier, 8080, ME).is_ok_and(|by| by == "web")
    });
    world.restart();
    laptop.causeway(&["connect", "--name", "laptop"]).ok();
    world.says("web-8080-laptop", "Ready", "Ready");
    eventually("mine come here again", PATIENCE, || ask(&address, ME).is_ok_and(|by| by == "laptop"));
    laptop.causeway(&["leave", "--all"]).ok();
    assert_eq!(ask(&address, ME).unwrap(), "web");
}

#[test]
fn two_developers_share_a_workload_and_a_third_is_told_of_them() {
    let world = World::start();
    let address = world.address("web");
    let others = load(&address, &[], &["web"]);
    let (alice, bob) = (Laptop::connected(&world, "alice"), Laptop::connected(&world, "bob"));
    alice.intercept("deploy/web", "http", &["--header", "x-user=alice"]).ok();
    bob.intercept("deploy/web", "http", &["--header", "x-user=bob"]).ok();
    let by = |user: &str| ask(&address, &[&format!("x-user: {user}")]).unwrap_or_else(|error| error);
    eventually("each has his own", PATIENCE, || {
        (by("alice"), by("bob"), by("carol")) == ("alice".into(), "bob".into(), "web".into())
    });
    let carol = Laptop::connected(&world, "carol");
    let refused = carol.intercept("deploy/web", "http", &["--header", "x-user=bob"]).fails();
    assert!(refused.contains("shop/web-8080-carol") && refused.contains("shop/web-8080-bob"), "{refused}");
    // The one who goes leaves the other alone.
    bob.causeway(&["leave", "--all"]).ok();
    assert_eq!((by("alice"), by("bob")), ("alice".into(), "web".into()));
    alice.causeway(&["disconnect", "--force"]);
    eventually("all is as it was", PATIENCE, || by("alice") == "web");
    others.end_well("of others");
}

#[test]
fn who_applies_the_service_again_is_told_and_traffic_goes_on() {
    let world = World::start();
    let address = world.address("web");
    let others = load(&address, &[], &["web"]);
    let laptop = Laptop::connected(&world, "laptop");
    laptop.intercept("deploy/web", "http", &["--header", "x-user=me"]).ok();
    let mine = load(&address, ME, &["laptop", "web"]);
    eventually("mine come here", PATIENCE, || mine.answered_by() == "laptop");
    world.kubectl.apply(&workload("web", 2)).ok();
    let words = world.says("web-8080-laptop", "Installed", "TakenBack");
    assert!(words.contains("kubectl"), "{words}");
    world.says("web-8080-laptop", "Installed", "Installed");
    eventually("mine come here again", PATIENCE, || mine.answered_by() == "laptop");
    // Three-way and server-side, of all of it.
    for _ in 0..2 {
        world
            .kubectl
            .with_input(&workload("web", 2), &["apply", "--server-side", "--force-conflicts", "-f", "-"])
            .ok();
        others.goes_on(30);
    }
    world.says("web-8080-laptop", "Installed", "Installed");
    laptop.causeway(&["leave", "--all"]).ok();
    assert_eq!(world.kubectl.value("service/web", ".spec.selector.app"), "web");
    others.goes_on(30);
    others.end_well("of others");
    mine.end_well("of mine");
}

#[test]
fn who_takes_causeway_out_puts_everything_back_first() {
    let world = World::start();
    let address = world.address("web");
    let others = load(&address, &[], &["web"]);
    let (alice, bob) = (Laptop::connected(&world, "alice"), Laptop::connected(&world, "bob"));
    alice.intercept("deploy/web", "http", &["--header", "x-user=alice"]).ok();
    world.kubectl.apply(&workload("api", 1)).ok();
    world.kubectl.ok(&["rollout", "status", "deployment/api", "--timeout=60s"]);
    bob.intercept("deploy/api", "http", &["--mode", "container"]).ok();
    let template = || world.kubectl.value("deployment/api", ".spec.template.spec.containers[0].args[0]");
    assert_eq!(template(), "carrier");
    let shown = alice.run(&["uninstall"]).ok();
    assert!(shown.contains("InterceptRequest shop/web-8080-alice") && shown.contains("--yes"), "{shown}");
    assert_eq!(template(), "carrier", "nothing was done");
    let done = alice.run(&["uninstall", "--yes"]).ok();
    assert!(done.contains("nothing is left"), "{done}");
    assert_eq!(world.kubectl.value("service/web", ".spec.selector.app"), "web");
    assert_eq!(template(), "echo");
    let system = world.server.namespace("causeway-system");
    for kind in ["interceptrequests,workstations,gatewayplans", "deployments,services,secrets"] {
        let left = [&world.kubectl, &system].map(|kubectl| kubectl.ok(&["get", kind, "-o", "name"]));
        assert!(!left.join("").contains("causeway") && !left.join("").contains("carrier"), "{left:?}");
    }
    others.end_well("of others");
}

#[test]
fn an_intercept_is_active_within_a_second() {
    let world = World::start();
    let laptop = Laptop::connected(&world, "laptop");
    eventually("both pods of the cluster's end serve", PATIENCE, || {
        let namespace = world.server.namespace("causeway-system");
        namespace.value("deployment/causeway-stowaway", ".status.availableReplicas") == "2"
    });
    let mut took = Vec::new();
    for _ in 0..5 {
        let began = Instant::now();
        laptop.intercept("deploy/web", "http", &["--header", "x-user=me"]).ok();
        took.push(began.elapsed());
        laptop.causeway(&["leave", "--all"]).ok();
    }
    took.sort();
    // With room for a machine that is busy with other tests.
    assert!(took[2] < causeway_testkit::patience(Duration::from_secs(3)), "{took:?}");
    println!("command to active: {took:?}");
}
