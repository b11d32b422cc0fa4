//! Connect, and what becomes of it: killed, restarted, disconnected.

use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::Command;

use causeway_testkit::PATIENCE;
use causeway_testkit::blocking::eventually;
use causeway_testkit::kubectl::finish;
use causeway_testkit::server::{Server, program, signal};

use crate::world::{World, lives};

#[test]
fn a_machine_connects_is_found_again_and_leaves_nothing() {
    let world = World::start();
    let answer = world.connect(&[]);
    assert_eq!((&answer["namespace"], &answer["already"]), (&"shop".into(), &false.into()), "{answer}");
    let name = answer["workstation"].as_str().unwrap().to_owned();
    assert!(name.starts_with("alice-"), "{name}");
    assert!(answer["way"].is_string() && !answer["why"].as_str().unwrap().is_empty(), "{answer}");
    assert_eq!(
        world.kubectl.value(&format!("workstation/{name}"), ".spec.displayName").split(' ').next(),
        Some("alice")
    );
    world.kubectl.ok(&["wait", &format!("workstation/{name}"), "--for=condition=Connected", "--timeout=10s"]);

    // Keys are for their owner alone, and are nowhere else.
    let dir = world.connections()[0]["directory"].as_str().unwrap().to_owned();
    for file in ["link.key", "wireguard.key", "lock", "settings.json"] {
        let mode = std::fs::metadata(Path::new(&dir).join(file)).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600, "{file}");
    }
    assert_eq!(std::fs::metadata(&dir).unwrap().permissions().mode() & 0o777, 0o700);
    let yaml = world.kubectl.ok(&["get", "workstation", &name, "-o", "yaml"]);
    let key = std::fs::read_to_string(Path::new(&dir).join("wireguard.key")).unwrap();
    assert!(!yaml.contains("PRIVATE KEY") && !yaml.contains(key.trim()), "{yaml}");

    let again = world.connect(&[]);
    assert_eq!(again["already"], true, "{again}");
    assert_eq!(again["pid"], answer["pid"]);
    let table = world.causeway(&["connections"]);
    assert!(
        table.code == Some(2) || table.stderr.contains("unexpected argument"),
        "it takes no namespace: {table}"
    );
    let [row] = <[_; 1]>::try_from(world.connections()).unwrap();
    assert_eq!((&row["connected"], &row["workstation"]), (&true.into(), &name.as_str().into()), "{row}");

    let pid = world.daemon();
    let left = world.causeway(&["disconnect"]);
    assert!(left.stdout.contains("nothing is left"), "{left}");
    assert!(!lives(pid), "the daemon ended");
    assert_eq!(std::fs::read_dir(world.data()).unwrap().count(), 0, "nothing is left on the laptop");
    assert!(
        world.kubectl.run(&["get", "workstations"]).stderr.contains("No resources"),
        "nothing is left in the cluster"
    );
    assert!(world.connections().is_empty());
    let nobody = world.causeway(&["disconnect"]).fails();
    assert!(nobody.contains("not connected to") && nobody.contains("causeway connect"), "{nobody}");
}

#[test]
fn a_daemon_that_was_killed_is_told_and_comes_back_with_its_keys() {
    let world = World::start();
    let first = world.connect(&["--name", "laptop"]);
    let uid = world.kubectl.value("workstation/laptop", ".metadata.uid");
    signal(world.daemon(), "KILL");
    eventually("the connection is told to be down", PATIENCE, || {
        world.connections()[0]["connected"] == false
    });
    let row = &world.connections()[0];
    assert!(row["why"].as_str().unwrap().contains("its process was ended; `causeway connect"), "{row}");
    let refused = world.causeway(&["run", "--", "true"]).fails();
    assert!(
        refused.contains("not connected as shop/laptop: its process was ended; connect again with"),
        "{refused}"
    );
    let second = world.connect(&["--name", "laptop"]);
    assert_ne!(first["pid"], second["pid"]);
    assert_eq!(world.kubectl.value("workstation/laptop", ".metadata.uid"), uid, "it is the same machine");

    // The daemon ends by itself when its Workstation does, and says so.
    let pid = world.daemon();
    world.kubectl.ok(&["delete", "workstation", "laptop", "--timeout=30s"]);
    eventually("the daemon ended", PATIENCE, || !lives(pid));
    let row = &world.connections()[0];
    assert!(row["why"].as_str().unwrap().contains("Workstation shop/laptop was deleted"), "{row}");
    let third = world.connect(&["--name", "laptop"]);
    assert_eq!(third["already"], false, "{third}");
}

#[test]
fn a_name_that_another_machine_has_is_not_taken_by_accident() {
    let world = World::start();
    let key = "HIgo9xNzJMWLKASShiTqIybxZ0U3wGLiUeJ1PKf8ykw=";
    let other = format!(
        "apiVersion: causeway.dev/v1alpha1\nkind: Workstation\nmetadata: {{name: laptop}}\nspec: {{publicKey: {key}, displayName: bob}}\n"
    );
    world.kubectl.apply(&other).ok();
    let refused = world.causeway(&["connect", "--name", "laptop"]).fails();
    assert!(refused.contains("another machine's (bob)") && refused.contains("--take-over"), "{refused}");
    assert_eq!(world.kubectl.value("workstation/laptop", ".spec.publicKey"), key);
    assert!(world.connections().is_empty(), "no keys are left that nobody knows");
    let taken = world.connect(&["--name", "laptop", "--take-over"]);
    assert_eq!(taken["workstation"], "laptop", "{taken}");
    assert_ne!(world.kubectl.value("workstation/laptop", ".spec.publicKey"), key);
}

#[test]
fn every_way_can_be_chosen_and_says_why() {
    let world = World::start();
    for (flag, way) in [("link", "Link"), ("port-forward", "PortForward"), ("wireguard", "WireGuard")] {
        let answer = world.connect(&["--name", "laptop", "--way", flag]);
        assert_eq!(answer["way"], way, "{answer}");
        let ran = world.causeway(&["run", "--quiet", "--", "curl", "-s", "--max-time", "5", "http://web/"]);
        assert!(ran.stdout.starts_with("web\n"), "{way}: {ran}");
    }
}

#[test]
fn a_connection_comes_back_by_itself_when_the_cluster_does() {
    let mut world = World::start();
    world.connect(&["--name", "laptop"]);
    let pid = world.daemon();
    // On one machine the addresses of Services go with the control plane; the pods go on.
    world.server.kill();
    eventually("the loss is noticed", PATIENCE, || world.connections()[0]["connected"] == false);
    world.server = Server::start_again_in(world.root.path(), &[]);
    eventually("it is connected again", PATIENCE, || world.connections()[0]["connected"] == true);
    eventually("names are known again", PATIENCE, || {
        let ran = world.causeway(&["run", "--quiet", "--", "curl", "-s", "--max-time", "5", "http://web/"]);
        if ran.stdout.starts_with("web\n") { Ok(()) } else { Err(ran.to_string()) }
    });
    assert_eq!(world.daemon(), pid, "by the same process");
}

#[test]
fn a_stowaway_that_dies_is_replaced_by_the_other() {
    let world = World::start();
    world.connect(&["--name", "laptop"]);
    eventually("both replicas serve", PATIENCE, || {
        world.kubectl.value("workstation/laptop", ".status.stowaway.pods[*]").split(' ').count() == 2
    });
    let replica = world.connections()[0]["replica"].as_str().unwrap().to_owned();
    let system = world.server.namespace("causeway-system");
    system.ok(&["delete", "pod", &replica, "--grace-period=0", "--force"]);
    eventually("it is connected to the other one", PATIENCE, || {
        let row = world.connections()[0].clone();
        if row["connected"] == true && row["replica"] != replica.as_str() {
            Ok(())
        } else {
            Err(row.to_string())
        }
    });
    let ran = world.causeway(&["run", "--quiet", "--", "curl", "-s", "--max-time", "5", "http://web/"]);
    assert!(ran.stdout.starts_with("web\n"), "{ran}");
}

#[test]
fn people_at_a_terminal_see_what_is_waited_for_and_programs_do_not() {
    let world = World::start();
    let line = format!("{} connect -n shop --name laptop", program());
    // `script` gives the command a terminal.
    let mut command = Command::new("script");
    command.args(["--quiet", "--command", &line, "/dev/null"]).env("TERM", "xterm").env_remove("NO_COLOR");
    command.env("KUBECONFIG", world.server.kubeconfig()).env("CAUSEWAY_DATA_DIR", world.data());
    let shown = finish(&mut command).stdout;
    assert!(shown.contains("\x1b[32m✓\x1b[0m Workstation shop/laptop was made"), "{shown:?}");
    assert!(shown.contains("⠋ connecting"), "a line that changes: {shown:?}");
    assert!(shown.contains("\r\x1b[2Kconnected    shop/laptop to "), "and is cleared: {shown:?}");
    let again = world.causeway(&["connect", "--name", "laptop"]);
    assert!(!again.stderr.contains('\x1b') && !again.stdout.contains('\x1b'), "{again}");
    let quiet = world.causeway(&["connect", "--name", "laptop", "-o", "json"]);
    assert_eq!(quiet.stderr, "", "{quiet}");
}
