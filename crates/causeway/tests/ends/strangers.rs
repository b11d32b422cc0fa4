//! A client whose identity is of another authority than the host's.

use std::io::{BufRead as _, BufReader};
use std::net::{Ipv4Addr, SocketAddr};
use std::process::{Command, Stdio};

use causeway_ir::tunnel::files;
use causeway_testkit::port;
use causeway_testkit::server::program;
use serde_json::json;

#[test]
fn the_host_says_whose_keys_do_not_fit_and_what_to_do() {
    let dir = tempfile::tempdir().unwrap();
    let (own, other) = (dir.path().join("own"), dir.path().join("other"));
    for pair in [&own, &other] {
        let made = Command::new(program()).args(["tunnel", "keys"]).arg(pair).stdout(Stdio::null()).status();
        assert!(made.unwrap().success());
    }
    let [control, data] = [0; 2].map(|_| SocketAddr::from((Ipv4Addr::LOCALHOST, port::free())));
    let plan = json!({
        "authority": own.join(files::AUTHORITY), "tunnels": [], "dial": { "control": control, "data": data },
    });
    let path = dir.path().join("plan.yaml");
    std::fs::write(&path, plan.to_string()).unwrap();
    let mut client = Command::new(program())
        .args(["tunnel", "client", "--identity"])
        .arg(other.join(files::IDENTITY))
        .args(["--control", &control.to_string(), "--data", &data.to_string()])
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    let mut host = Command::new(program())
        .args(["tunnel", "server", "--config"])
        .arg(&path)
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let lines = BufReader::new(host.stdout.take().unwrap()).lines().map_while(Result::ok);
    // The first attempts may come before the client listens.
    let said = lines.take(20).find(|line| line.contains("invalid peer certificate"));
    for child in [&mut host, &mut client] {
        child.kill().unwrap();
        child.wait().unwrap();
    }
    let said = said.expect("what is wrong is told");
    assert!(
        said.contains("identity is of another authority") && said.contains("causeway tunnel keys"),
        "{said}"
    );
}
