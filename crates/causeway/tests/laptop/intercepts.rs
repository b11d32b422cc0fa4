//! `causeway intercept`, `leave` and `intercepts`: requests come here, and the target is as it was afterwards.

use std::io::Read as _;
use std::time::Instant;

use causeway_testkit::PATIENCE;
use causeway_testkit::blocking::eventually;
use causeway_testkit::server::{program, signal};

use crate::world::{FALLBACK, LocalProgram, World};

const ME: &[&str] = &["x-user: me"];

#[test]
fn requests_with_a_header_come_here_until_it_is_left() {
    let world = World::start();
    world.connect(&["--name", "laptop"]);
    let here = LocalProgram::start("here");
    let selector = world.kubectl.value("service/web", ".spec.selector");
    let pods = world.kubectl.value("pods", ".items[*].metadata.uid");
    let pair = format!("{}:http", here.port);
    let answer = world.json(&["intercept", "deploy/web", "--port", &pair, "--header", "X-User=me"]);
    assert_eq!((&answer["name"], &answer["active"]), (&"web-8080-laptop".into(), &true.into()), "{answer}");
    assert_eq!((&answer["takes"], &answer["services"][0]), (&"X-User=me".into(), &"web".into()), "{answer}");
    assert_eq!(
        (world.ask(ME), world.ask(&[]), world.ask(&["x-user: you"])),
        ("here".into(), "web".into(), "web".into())
    );
    assert!(world.kubectl.value("pods", ".items[*].metadata.uid").contains(&pods), "no pod was restarted");

    // The same again is the same; with other rules it is changed.
    let again = world.json(&["intercept", "deploy/web", "--port", &pair, "--header", "X-User=me"]);
    assert_eq!(again["name"], answer["name"]);
    world.json(&["intercept", "deploy/web", "--port", &pair, "--header", "x-user=you", "--path", "/*"]);
    eventually("the other rule counts", PATIENCE, || {
        world.ask(&["x-user: you"]) == "here" && world.ask(ME) == "web"
    });
    let list = world.json(&["intercepts"]);
    assert_eq!(list["intercepts"][0]["takes"], "/* x-user=you", "{list}");
    let table = world.causeway(&["intercepts"]).ok();
    assert!(table.contains("deployment/web:8080") && table.contains("Active"), "{table}");

    let left = world.causeway(&["leave", "deploy/web"]).ok();
    assert!(left.contains("left web-8080-laptop; its target is as it was"), "{left}");
    assert_eq!(world.kubectl.value("service/web", ".spec.selector"), selector);
    assert_eq!(world.ask(&["x-user: you"]), "web");
    assert!(world.causeway(&["intercepts"]).ok().contains("no intercepts in namespace shop"));
    let gone = world.causeway(&["leave", "web-8080-laptpo"]).fails();
    assert!(gone.contains("there is no intercept web-8080-laptpo in namespace shop"), "{gone}");
}

#[test]
fn a_command_runs_with_the_targets_environment_and_leaves_when_it_ends() {
    let world = World::start();
    world.connect(&["--name", "laptop"]);
    let port = causeway_testkit::port::free();
    let (pair, listen) = (format!("{port}:http"), format!("127.0.0.1:{port}"));
    let script = format!(
        "echo $GREETING $MODE $MINE; curl -s http://web/ | head -1; exec {} echo --name local --listen {listen}",
        program()
    );
    let file = world.file("target.env");
    let mut child = world.spawn(&[
        "intercept",
        "deploy/web",
        "--port",
        &pair,
        "--header",
        "x-user=me",
        "-e",
        "MINE=own",
        "--env-file",
        file.to_str().unwrap(),
        "--",
        "sh",
        "-c",
        &script,
    ]);
    eventually("the command gets the requests", PATIENCE, || {
        if let Some(status) = child.try_wait().unwrap() {
            let mut said = String::new();
            child.stderr.take().unwrap().read_to_string(&mut said).unwrap();
            panic!("it ended with {status}: {said}");
        }
        let said = world.ask(ME);
        if said == "local" { Ok(()) } else { Err(said) }
    });
    assert_eq!(world.ask(&[]), "web");
    assert!(std::fs::read_to_string(file).unwrap().contains("GREETING=hello\n"));
    signal(child.id(), "INT");
    eventually("it ends", PATIENCE, || child.try_wait().unwrap());
    let mut said = String::new();
    child.stdout.take().unwrap().read_to_string(&mut said).unwrap();
    assert!(
        said.starts_with("hello test own\nweb\n"),
        "the environment, and the cluster by its names: {said}"
    );
    assert!(world.kubectl.run(&["get", "interceptrequests"]).stderr.contains("No resources"), "it was left");
    assert_eq!(world.ask(ME), "web");
}

#[test]
fn the_exit_code_is_the_commands_and_a_failed_one_is_left_too() {
    let world = World::start();
    world.connect(&["--name", "laptop"]);
    let ran = world.causeway(&[
        "intercept",
        "deploy/web",
        "-p",
        "9999:http",
        "--network",
        "none",
        "--",
        "sh",
        "-c",
        "exit 3",
    ]);
    assert_eq!(ran.code, Some(3), "{ran}");
    let missing = world.causeway(&["intercept", "deploy/web", "-p", "9999:http", "--", "/no/such"]);
    assert!(missing.stderr.contains("can't run /no/such"), "{missing}");
    assert!(world.kubectl.run(&["get", "interceptrequests"]).stderr.contains("No resources"));
}

#[test]
fn a_machine_that_dies_takes_nobody_with_it() {
    let world = World::start();
    world.connect(&["--name", "laptop"]);
    let here = LocalProgram::start("here");
    let pair = format!("{}:http", here.port);
    world.json(&["intercept", "deploy/web", "--port", &pair, "--header", "x-user=me"]);
    assert_eq!(world.ask(ME), "here");
    signal(world.daemon(), "KILL");
    let died = Instant::now();
    while world.ask(ME) != "web" {
        assert!(
            died.elapsed() < FALLBACK,
            "matched requests fail {} s after the laptop died",
            FALLBACK.as_secs()
        );
    }
    assert_eq!(world.ask(&[]), "web");
    eventually("its state says so", PATIENCE, || {
        let list = world.json(&["intercepts"]);
        let row = &list["intercepts"][0];
        if row["active"] == false && row["why"].is_string() { Ok(()) } else { Err(row.to_string()) }
    });
    world.connect(&["--name", "laptop"]);
    eventually("requests come here again", PATIENCE, || world.ask(ME) == "here");
    // A machine that sleeps says nothing, which is noticed as soon.
    let daemon = world.daemon();
    signal(daemon, "STOP");
    let slept = Instant::now();
    while world.ask(ME) != "web" {
        assert!(slept.elapsed() < FALLBACK, "matched requests fail though the laptop sleeps");
    }
    signal(daemon, "CONT");
    eventually("it woke up", PATIENCE, || world.ask(ME) == "here");
    // A program that does not listen is no machine that died: requests go to the original meanwhile.
    drop(here);
    assert_eq!(world.ask(ME), "web");

    let left = world.json(&["disconnect"]);
    assert_eq!(left["connections"][0]["intercepts"][0], "shop/web-8080-laptop", "{left}");
    assert!(world.kubectl.run(&["get", "interceptrequests,workstations"]).stderr.contains("No resources"));
    assert_eq!(world.ask(ME), "web");
}
