//! `causeway run`: a process that sees the cluster.

use std::io::{BufRead, BufReader, Read};
use std::process::Command;

use causeway_testkit::PATIENCE;
use causeway_testkit::blocking::eventually;
use causeway_testkit::kubectl::finish;
use causeway_testkit::server::{program, signal};

use crate::world::{World, ask, lives};

#[test]
fn a_process_sees_names_addresses_and_ports_of_the_cluster() {
    let world = World::start();
    world.connect(&[]);
    let run =
        |script: &str| world.causeway(&["run", "--quiet", "--network", "own", "--", "sh", "-c", script]);
    let service = world.service();
    for host in ["web", "web.shop", "web.shop.svc", "web.shop.svc.cluster.local", &service] {
        let ran = run(&format!("curl -s --max-time 5 http://{host}/"));
        assert!(ran.stdout.starts_with("web\n"), "{host}: {ran}");
    }
    let missing = run("curl -s --max-time 5 http://nobody.shop/ || echo code $?");
    assert!(missing.stdout.contains("code 6"), "no such host: {missing}");
    let none = run(&format!("curl -s --max-time 5 http://{service}:81/ || echo code $?"));
    assert!(none.stdout.contains("code 7"), "nobody listens: {none}");

    // Names as tools ask for them, and records that there are none of.
    let dig = run(
        "dig +short web.shop.svc.cluster.local; dig +short AAAA web.shop.svc.cluster.local; dig +tcp +short web.shop.svc.cluster.local",
    );
    assert_eq!(dig.stdout, format!("{service}\n{service}\n"), "{dig}");

    // Exit codes, input and output are the command's.
    let ran = world.causeway(&["run", "--quiet", "--", "sh", "-c", "echo out; echo err >&2; exit 7"]);
    assert_eq!((ran.code, &*ran.stdout, &*ran.stderr), (Some(7), "out\n", "err\n"));
    let killed = world.causeway(&["run", "--quiet", "--", "sh", "-c", "kill -TERM $$"]);
    assert_eq!(killed.code, Some(143), "{killed}");
    let missing = world.causeway(&["run", "--quiet", "--", "/no/such/program"]);
    assert!(missing.code == Some(1) && missing.stderr.contains("can't run /no/such/program"), "{missing}");

    // Nobody else sees anything of it.
    assert!(!std::fs::read_to_string("/etc/resolv.conf").unwrap().contains("198.18.0.1"));
    assert!(ask("http://web.shop.svc.cluster.local/", &[]).contains("Could not resolve"));
}

#[test]
fn datagrams_reach_the_cluster() {
    let world = World::start();
    let udp = r"apiVersion: v1
kind: Pod
metadata: {name: udp, labels: {app: udp}}
spec:
  containers:
  - name: echo
    image: causeway.dev/causeway:0.1.0
    args: [echo, --udp, --listen, $(POD_IP):9000]
    env: [{name: POD_IP, valueFrom: {fieldRef: {fieldPath: status.podIP}}}]
---
apiVersion: v1
kind: Service
metadata: {name: udp}
spec: {selector: {app: udp}, ports: [{port: 9000, protocol: UDP}]}
";
    world.kubectl.apply(udp).ok();
    world.kubectl.ok(&["wait", "pod/udp", "--for=condition=Ready", "--timeout=60s"]);
    world.connect(&[]);
    eventually("datagrams come back", PATIENCE, || {
        let ran =
            world.causeway(&["run", "--quiet", "--", program(), "echo", "--udp", "--check", "udp:9000"]);
        if ran.code == Some(0) { Ok(()) } else { Err(ran.to_string()) }
    });
}

#[test]
fn the_rest_of_the_world_is_where_it_was() {
    let world = World::start();
    world.connect(&[]);
    let here = crate::world::LocalProgram::start("here");
    let run = |script: &str| world.causeway(&["run", "--quiet", "--", "sh", "-c", script]);
    let ran = run(&format!("curl -s --max-time 5 http://host.causeway.internal:{}/", here.port));
    assert!(ran.stdout.starts_with("here\n"), "{ran}");
    let own = run(&format!("curl -s --max-time 5 http://127.0.0.1:{}/ || echo code $?", here.port));
    assert!(own.stdout.contains("code 7"), "its own loopback is empty: {own}");
    let uid = run("id -u");
    assert_eq!(uid.stdout.trim(), finish(Command::new("id").arg("-u")).stdout.trim(), "it is the same user");
}

#[test]
fn ports_that_it_listens_on_are_published_for_as_long_as_it_does() {
    let world = World::start();
    world.connect(&[]);
    let port = causeway_testkit::port::free();
    let listen = format!("0.0.0.0:{port}");
    let mut child = world.spawn(&["run", "--", program(), "echo", "--name", "inside", "--listen", &listen]);
    let url = format!("http://127.0.0.1:{port}/");
    eventually("the port is published", PATIENCE, || ask(&url, &[]) == "inside");
    signal(child.id(), "TERM");
    let status = eventually("it ends", PATIENCE, || child.try_wait().unwrap());
    assert_eq!(status.code(), Some(0), "echo ends in order");
    let mut said = String::new();
    child.stderr.take().unwrap().read_to_string(&mut said).unwrap();
    assert!(
        said.contains(&format!("port {port} of the command is localhost:{port} of this machine")),
        "{said}"
    );
    assert!(ask(&url, &[]).contains("000"), "nobody listens any more");
}

#[test]
fn a_command_ends_with_the_one_that_ran_it() {
    let world = World::start();
    world.connect(&[]);
    let mut child = world.spawn(&["run", "--quiet", "--", "sh", "-c", "echo $$; exec sleep 1000"]);
    let mut line = String::new();
    BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
    let pid: u32 = line.trim().parse().unwrap();
    assert!(lives(pid));
    child.kill().unwrap();
    child.wait().unwrap();
    eventually("the command is gone", PATIENCE, || !lives(pid));
    let runs = std::path::PathBuf::from(world.connections()[0]["directory"].as_str().unwrap()).join("runs");
    assert!(world.causeway(&["run", "--quiet", "--", "true"]).code == Some(0));
    assert_eq!(std::fs::read_dir(runs).unwrap().count(), 0, "the next one removes what a killed one left");
}

#[test]
fn a_proxy_stands_in_where_there_can_be_no_network() {
    let world = World::start();
    world.connect(&[]);
    let run =
        |script: &str| world.causeway(&["run", "--quiet", "--network", "proxy", "--", "sh", "-c", script]);
    for script in
        ["curl -s --max-time 5 http://web.shop/", "curl -s --max-time 5 --proxy $ALL_PROXY http://web.shop/"]
    {
        let ran = run(script);
        assert!(ran.stdout.starts_with("web\n"), "{script}: {ran}");
    }
    // Another user of the machine does not know the password.
    let address = world.connections()[0]["proxy"].as_str().unwrap().to_owned();
    let stranger =
        finish(
            Command::new("curl")
                .args(["-s", "--max-time", "5", "-o", "/dev/null", "-w", "%{http_code}"])
                .args(["--proxy", &format!("http://{address}"), "http://web.shop/"]),
        );
    assert_eq!(stranger.stdout, "407", "{stranger}");
    let none =
        world.causeway(&["run", "--quiet", "--network", "none", "--", "sh", "-c", "echo ${ALL_PROXY:-none}"]);
    assert_eq!(none.stdout, "none\n");
}

#[test]
fn it_gets_the_environment_of_a_workload() {
    let world = World::start();
    world.connect(&[]);
    let ran = world.causeway(&[
        "run",
        "--quiet",
        "--env-from",
        "deploy/web",
        "-e",
        "GREETING=mine",
        "--",
        "sh",
        "-c",
        "echo $MODE $GREETING $PASSWORD $WEB_SERVICE_HOST",
    ]);
    assert_eq!(ran.stdout, format!("test mine it's secret {}\n", world.service()), "{ran}");
}
