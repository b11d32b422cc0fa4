//! `causeway demo`: what a newcomer runs first does what it says, and leaves nothing however it ends.

#![allow(clippy::unwrap_used, clippy::panic)]

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};

use causeway_testkit::PATIENCE;
use causeway_testkit::blocking::eventually;
use causeway_testkit::kubectl::{Ran, finish};
use causeway_testkit::server::{program, signal};
use serde_json::Value;

/// One after the other: all play on the same address.
fn turn() -> MutexGuard<'static, ()> {
    static TURN: Mutex<()> = Mutex::new(());
    TURN.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A demo that keeps its things in this directory.
fn command(tmp: &Path, crossing: &str, args: &[&str]) -> Command {
    let mut command = Command::new(program());
    command.args(["demo", crossing]).args(args).env_remove("KUBECONFIG").env("TMPDIR", tmp);
    command
}

fn demo(crossing: &str, args: &[&str]) -> Ran {
    let tmp = tempfile::tempdir().unwrap();
    let ran = finish(&mut command(tmp.path(), crossing, args));
    assert_eq!(left(tmp.path()), Vec::<PathBuf>::new(), "{ran}");
    ran
}

fn left(tmp: &Path) -> Vec<PathBuf> {
    std::fs::read_dir(tmp).unwrap().map(|entry| entry.unwrap().path()).collect()
}

fn check(said: &str) {
    assert!(said.contains("https://shop.demo.test:8443 is answered by shop"), "{said}");
    assert!(said.contains("nobody.demo.test is refused"), "{said}");
    assert!(said.contains("the connection that was open still reaches the old shop"), "{said}");
    assert!(said.ends_with("all gone; everything above was checked\n"), "{said}");
}

#[test]
fn the_proxy_demo_tells_its_story_with_either_engine() {
    let _turn = turn();
    check(&demo("proxy", &[]).ok());
    if let Some(envoy) = causeway_testkit::envoy::program() {
        let ran = demo("proxy", &["--envoy", envoy.to_str().unwrap(), "-o", "json"]);
        let answer: Value =
            serde_json::from_str(&ran.stdout).unwrap_or_else(|error| panic!("{error}: {ran}"));
        assert_eq!((&answer["demo"], &answer["passed"]), (&"proxy".into(), &true.into()), "{ran}");
        assert!(answer["steps"].as_array().unwrap().len() > 5, "{ran}");
    }
}

#[test]
fn the_gateway_demo_tells_its_story() {
    let said = demo("gateway", &[]).ok();
    for line in [
        "https://shop.demo.test:8443 are answered by shop",
        "shop-v2 had half of the requests, and then all",
        "HTTPRoute blog/gift: RefNotPermitted: ",
        "new clients are shown the new certificate",
        "requests meanwhile, none failed",
    ] {
        assert!(said.contains(line), "lacks {line:?}:\n{said}");
    }
    assert!(said.ends_with("all gone; everything above was checked\n"), "{said}");
}

#[test]
fn the_hostname_demo_tells_its_story() {
    let said = demo("hostname", &[]).ok();
    for line in [
        "Claimed: this request holds shop.demo.test",
        "our own DNS server leads shop.demo.test to ",
        "is answered by shop, and its certificate is good",
        "AlreadyClaimed: shop.demo.test is held by GatewayHostnameRequest shop/shop",
        "its route is ",
        "the record is back: ",
        "the gateway is back under its name, and answers",
    ] {
        assert!(said.contains(line), "lacks {line:?}:\n{said}");
    }
    assert!(said.ends_with("all gone; everything above was checked\n"), "{said}");
}

#[test]
fn the_intercept_demo_tells_its_story() {
    let said = demo("intercept", &[]).ok();
    for line in [
        "is answered by shop",
        "connected by ",
        "a process here reaches the service by its name, shop",
        "a request with x-user: me is answered by laptop",
        "a request without it is answered by shop",
        "the developer's requests are answered by shop after ",
        "the same keys, the same intercept",
        "requests of others in the whole story, none failed",
    ] {
        assert!(said.contains(line), "lacks {line:?}:\n{said}");
    }
    assert!(said.ends_with("all gone; everything above was checked\n"), "{said}");
}

#[test]
fn an_intercept_demo_that_is_interrupted_or_killed_leaves_no_daemon() {
    let tmp = tempfile::tempdir().unwrap();
    // A machine is connected, and an intercept about to be made.
    let child = begun_at(tmp.path(), "intercept", "5. ");
    signal(child.id(), "INT");
    let ended = child.wait_with_output().unwrap();
    assert_eq!(ended.status.code(), Some(130), "{}", String::from_utf8_lossy(&ended.stderr));
    assert_eq!(left(tmp.path()), Vec::<PathBuf>::new());
    eventually("no process is left", PATIENCE, || processes(tmp.path()).is_empty());

    let mut child = begun_at(tmp.path(), "intercept", "5. ");
    child.kill().unwrap();
    child.wait().unwrap();
    let daemon = |line: &String| line.contains("connection-daemon");
    assert!(processes(tmp.path()).iter().any(daemon), "its daemon goes on");
    let clean = finish(
        Command::new(program())
            .args(["clean", "--yes", "--container-runtime", "none"])
            .env("TMPDIR", tmp.path())
            .env("CAUSEWAY_DATA_DIR", tmp.path().join("none"))
            .env_remove("KUBECONFIG"),
    );
    assert!(clean.stdout.contains("demo "), "{clean}");
    assert_eq!(left(tmp.path()), Vec::<PathBuf>::new());
    eventually("no process is left", PATIENCE, || processes(tmp.path()).is_empty());
}

/// A demo that has come to its second step, with pods about to run.
fn begun(tmp: &Path) -> Child {
    begun_at(tmp, "proxy", "3. ")
}

/// One that has come to this step.
fn begun_at(tmp: &Path, crossing: &str, step: &str) -> Child {
    let mut child =
        command(tmp, crossing, &[]).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    while !lines.next().expect("the demo goes on").unwrap().starts_with(step) {}
    // Whoever reads it no longer is no reason to fail.
    drop(lines);
    child
}

/// Processes that work in this directory.
fn processes(tmp: &Path) -> Vec<String> {
    let tmp = tmp.to_str().unwrap();
    let all = std::fs::read_dir("/proc").unwrap().flatten();
    let lines = all.filter_map(|entry| std::fs::read(entry.path().join("cmdline")).ok());
    lines.map(|line| String::from_utf8_lossy(&line).replace('\0', " ")).filter(|l| l.contains(tmp)).collect()
}

#[test]
fn an_interrupted_demo_leaves_nothing() {
    let _turn = turn();
    for name in ["INT", "TERM"] {
        let tmp = tempfile::tempdir().unwrap();
        let child = begun(tmp.path());
        signal(child.id(), name);
        let ended = child.wait_with_output().unwrap();
        assert_eq!(ended.status.code(), Some(130), "{}", String::from_utf8_lossy(&ended.stderr));
        assert_eq!(left(tmp.path()), Vec::<PathBuf>::new());
        eventually("no process is left", PATIENCE, || processes(tmp.path()).is_empty());
    }
}

#[test]
fn what_a_killed_demo_left_is_cleaned_by_the_next_one() {
    let _turn = turn();
    let tmp = tempfile::tempdir().unwrap();
    let mut child = begun(tmp.path());
    child.kill().unwrap();
    child.wait().unwrap();
    let [left_over]: [PathBuf; 1] = left(tmp.path()).try_into().unwrap();
    assert!(!processes(tmp.path()).is_empty(), "its control plane goes on");
    let lock: Value = serde_json::from_slice(&std::fs::read(left_over.join("data/lock")).unwrap()).unwrap();
    // The worse case: nobody ends the pods.
    signal(u32::try_from(lock["pid"].as_u64().unwrap()).unwrap(), "KILL");
    let next = finish(&mut command(tmp.path(), "proxy", &[]));
    assert!(next.stderr.contains("removed what an interrupted demo had left: "), "{next}");
    check(&next.ok());
    assert_eq!(left(tmp.path()), Vec::<PathBuf>::new());
    eventually("no process is left", PATIENCE, || processes(tmp.path()).is_empty());
}
