//! `-o json`: the same answer for programs, and nothing else on standard output.

use std::process::Command;

use causeway_testkit::kubectl::{Ran, finish};
use causeway_testkit::server::{Server, program};
use serde_json::{Value, json};

fn answer(ran: &Ran) -> Value {
    serde_json::from_str(&ran.stdout).unwrap_or_else(|error| panic!("{error}: {ran}"))
}

fn causeway(args: &[&str]) -> Ran {
    finish(Command::new(program()).args(args).args(["-o", "json"]).env_remove("KUBECONFIG"))
}

#[test]
fn what_commands_answer_can_be_read_by_programs() {
    let mut server = Server::start(&["--no-node", "--no-operator"]);
    let sample = concat!(env!("CARGO_MANIFEST_DIR"), "/../../deploy/samples/proxyserver-one-machine.yaml");
    server.kubectl().ok(&["apply", "-f", sample]);
    let data = server.data_dir();
    let data = data.to_str().unwrap();

    let status = answer(&causeway(&["status", "--data-dir", data]));
    assert_eq!(status["ready"], false);
    let row = json!({"kind": "ProxyServer", "namespace": "one-machine", "name": "front", "reason": "NotYetSeen",
        "message": ""});
    assert_eq!(status["resources"], json!([row]));

    let missing = causeway(&["doctor", "cntp/nobody", "--data-dir", data]);
    assert_eq!(missing.code, Some(1));
    let report = answer(&missing);
    assert_eq!((&report["well"], &report["findings"][0]["verdict"]), (&json!(false), &json!("bad")));
    assert_eq!(report["first"], report["findings"][0]["cure"]);

    let left = answer(&causeway(&["clean", "--data-dir", data, "--container-runtime", "none"]));
    assert_eq!(left["removed"], false);
    assert_eq!(answer(&causeway(&["version"])), json!({"version": env!("CARGO_PKG_VERSION")}));

    let pid = server.pid();
    let stopped = answer(&causeway(&["down", "--data-dir", data]));
    assert_eq!((&stopped["dataDir"], &stopped["pid"]), (&json!(data), &json!(pid)));
    assert!(server.stop().success());
    let nothing = answer(&causeway(&["down", "--data-dir", data]));
    assert!(nothing.get("pid").is_none(), "{nothing}");
}

#[test]
fn what_runs_and_where() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().to_str().unwrap();
    let up = ["up", "--no-node", "--no-operator", "--listen", "127.0.0.1:0", "--container-runtime", "none"];
    let mut command = Command::new(program());
    command.args(up).args(["-o", "json", "--data-dir", path, "--", "true"]);
    let ran = finish(&mut command);
    // Beside its log: standard output belongs to the command that it runs.
    let (begin, end) = (ran.stderr.find("{\n").unwrap(), ran.stderr.find("\n}\n").unwrap() + 2);
    let said: Value =
        serde_json::from_str(&ran.stderr[begin..end]).unwrap_or_else(|error| panic!("{error}: {ran}"));
    assert_eq!(
        (&said["dataDir"], &said["open"], &said["operator"]),
        (&json!(path), &json!(false), &json!(false))
    );
    assert!(said["api"].as_str().unwrap().starts_with("https://127.0.0.1:"), "{ran}");

    let pair = dir.path().join("pair");
    let made = answer(&causeway(&["tunnel", "keys", pair.to_str().unwrap()]));
    assert_eq!(made["authority"], json!(pair.join("authority.pem")), "{made}");
}

#[test]
fn a_plan_that_is_checked() {
    let dir = tempfile::tempdir().unwrap();
    let plan = dir.path().join("plan.yaml");
    let path = plan.to_str().unwrap();
    let check = || causeway(&["engine", "--check", "--config", path]);
    std::fs::write(&plan, "{}").unwrap();
    assert_eq!(
        answer(&check()),
        json!({"config": path, "valid": true, "listeners": 0, "clusters": 0, "problems": []})
    );
    let text = "listeners:\n- name: a\n  bind: 127.0.0.1:1\n  protocol: {tcp: {name: r, action: {forward: nowhere}}}\n";
    std::fs::write(&plan, text).unwrap();
    let ran = check();
    assert_eq!(ran.code, Some(1));
    let refused = answer(&ran);
    assert_eq!((&refused["valid"], &refused["problems"][0]["severity"]), (&json!(false), &json!("error")));
    assert_eq!(refused["problems"][0]["line"], 4, "{refused}");
    std::fs::write(&plan, "listeners: 5").unwrap();
    assert_eq!(answer(&check())["valid"], false);

    let for_envoy = causeway(&["xds", "--check", "--config", path]);
    assert_eq!((for_envoy.code, &answer(&for_envoy)["valid"]), (Some(1), &json!(false)), "{for_envoy}");
    std::fs::write(&plan, "{}").unwrap();
    let for_envoy = causeway(&["xds", "--check", "--config", path]);
    assert_eq!((for_envoy.code, &answer(&for_envoy)["valid"]), (Some(0), &json!(true)), "{for_envoy}");
}

#[test]
fn a_demo_that_fails_says_how_far_it_came() {
    let ran = causeway(&["demo", "tunnel", "--container-runtime", "/nowhere/docker.sock"]);
    assert_eq!(ran.code, Some(1), "{ran}");
    let played = answer(&ran);
    assert_eq!((&played["demo"], &played["passed"]), (&json!("tunnel"), &json!(false)), "{played}");
    let error = played["error"].as_str().unwrap();
    assert!(error.contains("A container runtime") && error.contains("/nowhere/docker.sock"), "{error}");
}
