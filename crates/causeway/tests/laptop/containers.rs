//! `causeway run --container`: a container of Docker or Podman that sees the cluster.

use std::path::PathBuf;

use causeway_testkit::PATIENCE;
use causeway_testkit::blocking::eventually;
use causeway_testkit::daemon::{Daemon, Testbed};

use crate::image::{containers, image};
use crate::world::World;

#[test]
fn a_container_of_docker_sees_the_cluster() {
    sees_the_cluster(Daemon::Docker);
}

#[test]
fn a_container_of_podman_sees_the_cluster() {
    sees_the_cluster(Daemon::Podman);
}

fn sees_the_cluster(daemon: Daemon) {
    let Some(bed) = Testbed::start(daemon) else { return };
    let world = World::start();
    world.connect(&[]);
    let socket = bed.socket().display().to_string();
    // What is run in it: this program, since there is no registry to take another image from.
    let image = image(&socket);
    let run = |more: &[&str], command: &[&str]| {
        let mut args =
            vec!["run", "--container", &image, "--container-runtime", &socket, "--container-network", "none"];
        args.extend(more);
        args.push("--");
        args.extend(command);
        world.causeway(&args)
    };
    for host in ["web:80", "web.shop:80", "web.shop.svc.cluster.local:80"] {
        let ran = run(&[], &["echo", "--check", host]);
        assert_eq!(ran.code, Some(0), "{host}: {ran}");
    }
    let ran = run(&[], &["echo", "--check", "nobody.shop:80"]);
    assert!(ran.code == Some(1), "no such name: {ran}");
    let version = run(&["-e", "CAUSEWAY_LOG=info"], &["version"]);
    assert!(version.stdout.starts_with("causeway "), "{version}");
    eventually("no container is left", PATIENCE, || {
        let ran = containers(daemon, &socket);
        if ran.stdout.trim().is_empty() { Ok(()) } else { Err(ran.to_string()) }
    });
    let runs = PathBuf::from(world.connections()[0]["directory"].as_str().unwrap()).join("runs");
    assert_eq!(std::fs::read_dir(runs).unwrap().count(), 0, "no file is left");
}
