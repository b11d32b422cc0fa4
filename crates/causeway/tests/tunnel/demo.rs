//! `causeway demo tunnel` does what it says, with either runtime.

use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};

use causeway_containers::labels;
use causeway_testkit::daemon::Daemon;
use causeway_testkit::kubectl::finish;
use causeway_testkit::server::{program, signal};

use crate::bed::Bed;

pub fn the_demo_tells_its_story(daemon: Daemon) {
    let Some(bed) = Bed::shared(daemon) else { return };
    let mut command = Command::new(program());
    command.args(["demo", "tunnel", "--container-runtime"]).arg(&bed.socket).env_remove("KUBECONFIG");
    let said = finish(&mut command).ok();
    for words in [
        "answers on",
        "Ready after",
        "came back, in",
        "bytes to the host",
        "same name",
        "no container, no network",
    ] {
        assert!(said.contains(words), "{words}: {said}");
    }
    assert!(said.ends_with("everything above was checked\n"), "{said}");
}

/// Ctrl-C in the middle, and then `kill -9`: the first leaves nothing, the second is cleaned up by `causeway clean`.
pub fn an_interrupted_demo_leaves_nothing(daemon: Daemon) {
    let Some(bed) = Bed::shared(daemon) else { return };
    for name in ["INT", "KILL"] {
        let tmp = tempfile::tempdir().unwrap();
        let mut command = Command::new(program());
        command.args(["demo", "tunnel", "--container-runtime"]).arg(&bed.socket);
        command.env_remove("KUBECONFIG").env("TMPDIR", tmp.path());
        let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        // Network, host end and the tunnel's container are there by then.
        while !lines.next().expect("the demo goes on").unwrap().contains("Ready after") {}
        let stage = tmp.path().join(format!("causeway-demo-{}", child.id()));
        let instance = std::fs::read_to_string(stage.join("data/node/instance")).unwrap();
        let ours = [(labels::INSTANCE, instance.as_str())];
        let count = || {
            let containers = bed.ask(async |runtime| runtime.containers(&ours).await).len();
            (containers, bed.ask(async |runtime| runtime.networks(&ours).await).len())
        };
        assert_eq!(count(), (1, 1));
        signal(child.id(), name);
        let code = child.wait().unwrap().code();
        if name == "KILL" {
            assert_eq!(count(), (1, 1), "nobody could clean up");
            let mut command = Command::new(program());
            command.args(["clean", "--yes", "--data-dir"]).arg(tmp.path().join("none"));
            finish(command.env("TMPDIR", tmp.path()).env_remove("KUBECONFIG")).ok();
        } else {
            assert_eq!(code, Some(130));
        }
        assert_eq!(count(), (0, 0), "after SIG{name}");
        assert!(!stage.exists(), "after SIG{name}");
    }
}
