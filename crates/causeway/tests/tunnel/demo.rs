//! `causeway demo tunnel` does what it says, with either runtime.

use std::process::Command;

use causeway_testkit::daemon::Daemon;
use causeway_testkit::kubectl::finish;
use causeway_testkit::server::program;

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
