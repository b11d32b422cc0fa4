//! `causeway demo infra`: it does what it says, and leaves nothing however it ends.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};

use causeway_testkit::blocking::eventually;
use causeway_testkit::kubectl::finish;
use causeway_testkit::server::{program, signal};

use crate::lan::{self, ip};
use crate::world::PATIENCE;

fn demo(tmp: &Path) -> Command {
    let mut command = Command::new(program());
    command.args(["demo", "infra"]).env_remove("KUBECONFIG").env("TMPDIR", tmp);
    command
}

fn left(tmp: &Path) -> Vec<std::path::PathBuf> {
    std::fs::read_dir(tmp).unwrap().map(|entry| entry.unwrap().path()).collect()
}

#[test]
fn the_demo_of_an_isolated_network_tells_its_story_and_leaves_nothing() {
    if !lan::leave_machine() {
        return;
    }
    let tmp = tempfile::tempdir().unwrap();
    // Interrupted in the middle.
    let mut child = demo(tmp.path()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    while !lines.next().expect("the demo goes on").unwrap().starts_with("5. ") {}
    signal(child.id(), "TERM");
    assert_eq!(child.wait().unwrap().code(), Some(130));
    assert_eq!(left(tmp.path()), Vec::<std::path::PathBuf>::new());

    let ran = finish(&mut demo(tmp.path()));
    let said = ran.ok();
    for line in [
        "shop.lab.demo.test is 192.168.100.4, the proxy",
        "nobody.lab.demo.test does not exist",
        "https://shop.lab.demo.test is answered by shop",
        "all three servers were killed",
        "is still its own",
    ] {
        assert!(said.contains(line), "lacks {line:?}:\n{said}");
    }
    assert!(said.ends_with("all gone; everything above was checked\n"), "{said}");
    assert_eq!(left(tmp.path()), Vec::<std::path::PathBuf>::new());
    eventually("no machine is left", PATIENCE, || !ip("netns list").contains("cw-vm-"));
}
