//! What people meet at the command line, without a network.

use std::process::{Command, Output};

use causeway_testkit::server::program;
use serde_json::Value;

use crate::server::plan;

fn causeway(args: &[&str]) -> Output {
    Command::new(program()).args(args).output().unwrap()
}

#[test]
fn a_plan_is_checked_and_its_mistakes_are_named_with_their_line() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("pool.yaml");
    let file = path.to_str().unwrap();
    std::fs::write(&path, plan("")).unwrap();
    let good = causeway(&["dhcp", "--config", file, "--check"]);
    assert!(good.status.success(), "{}", String::from_utf8_lossy(&good.stderr));
    std::fs::write(&path, plan("leaseTime: 1s\n")).unwrap();
    let bad = causeway(&["dhcp", "--config", file, "--check"]);
    let said = String::from_utf8(bad.stderr).unwrap();
    assert!(
        !bad.status.success() && said.contains("leaseTime: 1s is too short or too long: write 10s to 4320h"),
        "{said}"
    );
    let bad = causeway(&["dhcp", "--config", file, "--check", "-o", "json"]);
    let answer: Value = serde_json::from_slice(&bad.stdout).unwrap();
    assert_eq!((&answer["valid"], &answer["problems"][0]["line"]), (&false.into(), &12.into()), "{answer}");
    std::fs::write(&path, plan("lease: 1h\n")).unwrap();
    let said = String::from_utf8(causeway(&["dhcp", "--config", file]).stderr).unwrap();
    assert!(said.contains("there is no such field here"), "{said}");
}

#[test]
fn leases_that_are_none_are_refused() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("leases");
    let file = path.to_str().unwrap();
    for contents in [None, Some("not leases at all")] {
        if let Some(contents) = contents {
            std::fs::write(&path, contents).unwrap();
        }
        let output = causeway(&["leases", file]);
        let said = String::from_utf8(output.stderr).unwrap();
        assert!(!output.status.success() && said.contains("can't be read"), "{said}");
    }
}
