//! The command line of somebody who may not read everything, and of somebody whose operator is away.

use std::fs;
use std::process::Command;

use causeway_testkit::blocking::eventually;
use causeway_testkit::kubectl::{Ran, finish};
use causeway_testkit::server::program;
use serde_json::json;

use crate::replicas::{apply, patch, until};
use crate::world::{PATIENCE, World, cluster};

/// Runs the program as this user, or as the administrator.
fn causeway(world: &World, user: Option<&str>, args: &[&str]) -> Ran {
    let text = fs::read_to_string(cluster().unwrap().kubeconfig()).unwrap();
    let kubeconfig = world.file("kubeconfig");
    let text = user.map_or(text.clone(), |user| text.replace(".key}", &format!(".key, as: {user}}}")));
    fs::write(&kubeconfig, text).unwrap();
    finish(Command::new(program()).args(args).args(["--kubeconfig", &kubeconfig]))
}

#[test]
fn what_may_not_be_read_is_told_as_such_and_an_old_status_is_no_health() {
    let Some(world) = World::alone("rights") else { return };
    world.server("shop");
    apply(&world, &json!({ "replicas": 1 }));
    world.wait("proxyserver/edge", "Ready");
    world.kubectl.ok(&[
        "create",
        "role",
        "reader",
        "--verb=get,list",
        "--resource=proxyservers.causeway.dev",
    ]);
    world.kubectl.ok(&["create", "rolebinding", "reader", "--role=reader", "--user=reader"]);
    let reader = |args: &[&str]| {
        let ran = causeway(&world, Some("reader"), &[args, &["-n", "rights"]].concat());
        let said = format!("{}{}", ran.stdout, ran.stderr);
        assert!(!said.contains("Status {") && !said.contains("there is no Service"), "{ran}");
        (ran.code, said)
    };
    let (code, said) = reader(&["routes", "proxy/edge"]);
    assert!(code == Some(1) && said.contains("services is forbidden"), "{said}");
    assert!(said.contains("not known: you may not read"), "{said}");
    let (code, said) = reader(&["doctor", "proxy/edge", "--no-probes"]);
    assert!(code == Some(1) && said.contains("you may not read"), "{said}");
    let (code, said) = reader(&["status"]);
    assert!(code == Some(0) && said.contains("edge") && said.contains("not shown: infras"), "{said}");
    let (code, said) = reader(&["status", "--check"]);
    assert!(code == Some(1), "{said}");
    let (code, said) = reader(&["doctor", "infra/lab"]);
    assert!(code == Some(1) && said.contains("infras.causeway.dev \"lab\" is forbidden"), "{said}");

    let scale = |replicas: &str| {
        let operator = ["scale", "deployment/causeway-operator", "-n", "causeway-system"];
        world.kubectl.ok(&[&operator[..], &[&format!("--replicas={replicas}")]].concat());
    };
    let admin = |args: &[&str]| causeway(&world, None, &[args, &["-n", "rights"]].concat());
    admin(&["status", "--check"]).ok();
    scale("0");
    eventually("nobody is at work", PATIENCE, || {
        let ran = admin(&["status", "--check"]);
        if ran.stdout.contains("no operator is at work") { Ok(()) } else { Err(ran.to_string()) }
    });
    patch(&world, &json!({ "connectionLimit": 1000 }));
    let status = admin(&["status"]);
    assert!(status.stdout.contains("Unknown  Stale"), "{status}");
    assert!(admin(&["status", "--check"]).fails().contains("no operator is at work"));
    let doctor = admin(&["doctor", "proxy/edge", "--no-probes"]);
    assert!(doctor.code == Some(1) && doctor.stdout.contains("no operator is at work"), "{doctor}");
    scale("2");
    until(&world, "Ready", "True", "Ready", "");
}
