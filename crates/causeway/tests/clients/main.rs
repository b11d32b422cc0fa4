//! `causeway up` with clients in other languages. They come from `scripts/test-deps.sh`.

#![allow(clippy::unwrap_used, clippy::panic)]

use std::path::{Path, PathBuf};
use std::process::Command;

use causeway_testkit::kubectl::finish;
use causeway_testkit::server::Server;

/// The Python that has the client, or why there is none.
fn python() -> Result<PathBuf, String> {
    // The program under test is in DIR/debug, the environment in DIR/test-venv.
    let target = Path::new(causeway_testkit::server::program()).ancestors().nth(2).unwrap();
    let python = target.join("test-venv/bin/python");
    match Command::new(&python).args(["-c", "import kubernetes"]).status() {
        Ok(status) if status.success() => Ok(python),
        _ => Err(format!("{} has no package kubernetes; run scripts/test-deps.sh", python.display())),
    }
}

#[test]
fn the_python_client_works() {
    let python = match python() {
        Ok(python) => python,
        Err(why) => {
            assert!(std::env::var_os("CI").is_none_or(|v| v != "true"), "{why}");
            println!("skipped: {why}");
            return;
        }
    };
    let server = Server::start(&["--no-node", "--no-operator"]);
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/clients/python.py");
    let said = finish(Command::new(python).arg(script).env("KUBECONFIG", server.kubeconfig())).ok();
    let steps: Vec<_> = said.lines().filter_map(|line| line.strip_prefix("ok ")).collect();
    assert_eq!(
        steps,
        ["core_kinds", "errors", "workloads", "watches", "custom_objects", "dynamic_client", "schemas"]
    );
}
