//! The program's own commands and the errors a person meets.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;

use causeway_testkit::kubectl::{Ran, finish};
use causeway_testkit::server::{Server, program, up};

use crate::objects::config_map;
use crate::peer::need_kubectl;

fn causeway(data_dir: &Path, args: &[&str]) -> Ran {
    finish(Command::new(program()).env_remove("KUBECONFIG").args(args).arg("--data-dir").arg(data_dir))
}

#[test]
fn one_directory_has_one_control_plane_and_keeps_its_state() {
    need_kubectl();
    let root = tempfile::tempdir().unwrap();
    let mut server = Server::start_in(root.path(), &[]);
    let data = server.data_dir();
    let mode = |path: &Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(&server.kubeconfig()), 0o600);
    assert_eq!(mode(&data), 0o700);
    let log = server.log();
    assert!(log.contains(&format!("export KUBECONFIG={}", server.kubeconfig().display())), "{log}");

    let second = finish(&mut up(root.path()));
    assert_eq!(second.code, Some(1), "{second}");
    assert!(
        second.stderr.contains("already running on")
            && second.stderr.contains(&format!("pid {}", server.pid())),
        "{second}"
    );
    assert!(second.stderr.contains("causeway down --data-dir"), "{second}");

    let status = causeway(&data, &["status"]);
    assert_eq!(status.code, Some(0), "{status}");
    assert!(status.stdout.contains("no Causeway resources yet"), "{status}");

    server.kubectl().apply(&config_map("kept", "a: b")).ok();
    let uid = server.kubectl().value("configmap/kept", ".metadata.uid");
    let down = causeway(&data, &["down"]);
    assert_eq!(down.code, Some(0), "{down}");
    assert!(down.stdout.ends_with("stopped\n"), "{down}");
    assert!(server.log().ends_with("stopping\nstopped\n"), "{}", server.log());
    server.kill();
    let again = causeway(&data, &["down"]);
    assert!(again.code == Some(0) && again.stdout.starts_with("nothing is running on"), "{again}");
    let status = causeway(&data, &["status"]);
    assert!(status.code == Some(1) && status.stderr.contains("start it with `causeway up`"), "{status}");

    let next = Server::start_in(root.path(), &[]);
    assert_eq!(next.kubectl().value("configmap/kept", ".metadata.uid"), uid);
}

/// A control plane with a pod that takes this many seconds to end, and the file that it leaves when it was let.
fn with_slow_pod(root: &Path, seconds: u32) -> (Server, std::path::PathBuf) {
    let (tool, drained) = (root.join("tool"), root.join("drained"));
    let script = format!(
        "#!/bin/sh\ntrap 'sleep {seconds}; echo > {}; exit 0' TERM\nwhile :; do sleep 0.1; done\n",
        drained.display()
    );
    std::fs::write(&tool, script).unwrap();
    std::fs::set_permissions(&tool, std::fs::Permissions::from_mode(0o755)).unwrap();
    let image = format!("example.test/tool={}", tool.display());
    let server = Server::start_in(root, &["--no-operator", "--program", &image]);
    let kubectl = server.kubectl();
    kubectl.trust();
    let pod = "apiVersion: v1\nkind: Pod\nmetadata: {name: slow}\nspec: {terminationGracePeriodSeconds: 60, containers: [{name: c, image: 'example.test/tool:1'}]}\n";
    kubectl.apply(pod).ok();
    kubectl.ok(&["wait", "--for=condition=Ready", "pod/slow", "--timeout=60s"]);
    (server, drained)
}

#[test]
fn down_lets_pods_drain_for_as_long_as_they_are_given() {
    need_kubectl();
    let root = tempfile::tempdir().unwrap();
    let (server, drained) = with_slow_pod(root.path(), 11);
    let down = causeway(&server.data_dir(), &["down"]);
    assert!(down.code == Some(0) && down.stdout.ends_with("stopped\n"), "{down}");
    assert!(drained.exists(), "it was cut off: {}", server.log());
}

#[test]
fn down_with_a_timeout_cuts_off_what_still_drains() {
    need_kubectl();
    let root = tempfile::tempdir().unwrap();
    let (server, drained) = with_slow_pod(root.path(), 45);
    let began = std::time::Instant::now();
    let down = causeway(&server.data_dir(), &["down", "--timeout", "1"]);
    assert!(down.code == Some(0) && down.stdout.contains("what was still open was cut off"), "{down}");
    assert!(began.elapsed() < std::time::Duration::from_secs(30), "{:?}", began.elapsed());
    assert!(!drained.exists());
    assert!(server.log().contains("cutting off what still drains"), "{}", server.log());
}

#[test]
fn a_control_plane_ends_when_its_directory_is_removed() {
    let root = tempfile::tempdir().unwrap();
    // The node may meet it first while it starts.
    let mut server = Server::start_in(root.path(), &["--no-node"]);
    std::fs::remove_dir_all(server.data_dir()).unwrap();
    assert_eq!(server.wait().code(), Some(1), "{}", server.log());
    let log = server.log();
    let words = format!("{} was removed or replaced while it was in use", server.data_dir().display());
    assert!(log.contains(&words), "{log}");
}

#[test]
fn a_taken_port_is_said() {
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let root = tempfile::tempdir().unwrap();
    let ran = causeway(root.path(), &["up", "--listen", &address]);
    assert_eq!(ran.code, Some(1), "{ran}");
    assert!(
        ran.stderr.contains(&format!("can't listen on {address}")) && ran.stderr.contains("--listen"),
        "{ran}"
    );
}

#[test]
fn a_directory_that_can_not_be_written_is_said() {
    let root = tempfile::tempdir().unwrap();
    let file = root.path().join("file");
    std::fs::write(&file, "in the way").unwrap();
    for path in [file.clone(), file.join("below")] {
        let ran = causeway(&path, &["up", "--listen", "127.0.0.1:0"]);
        assert_eq!(ran.code, Some(1), "{ran}");
        assert!(ran.stderr.contains(path.to_str().unwrap()) && ran.stderr.contains("--data-dir"), "{ran}");
    }
}

#[test]
fn an_unreadable_store_is_said_and_left_alone() {
    let root = tempfile::tempdir().unwrap();
    let mut server = Server::start_in(root.path(), &["--no-node", "--no-operator"]);
    server.stop();
    let store = std::fs::read_dir(server.data_dir())
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .find(|path| path.extension().is_some_and(|e| e == "log"))
        .expect("a store file");
    let rubbish = b"this is not a store\n".repeat(1000);
    std::fs::write(&store, &rubbish).unwrap();
    let ran = finish(&mut up(root.path()));
    assert_eq!(ran.code, Some(1), "{ran}");
    assert!(ran.stderr.contains(store.to_str().unwrap()), "{ran}");
    assert_eq!(std::fs::read(&store).unwrap(), rubbish, "it may hold what someone can still save");
}

#[test]
fn in_memory_leaves_no_objects() {
    need_kubectl();
    let root = tempfile::tempdir().unwrap();
    let mut server = Server::start_in(root.path(), &["--in-memory", "--no-node"]);
    server.kubectl().apply(&config_map("gone", "a: b")).ok();
    assert!(server.stop().success());
    let next = Server::start_in(root.path(), &["--in-memory", "--no-node"]);
    assert!(next.kubectl().fails(&["get", "configmap", "gone"]).contains("(NotFound)"));
}

#[test]
fn version_help_and_completions() {
    let run = |args: &[&str]| finish(Command::new(program()).args(args));
    let version = run(&["version"]).ok();
    assert_eq!(version, format!("causeway {}\n", env!("CARGO_PKG_VERSION")));
    assert_eq!(run(&["--version"]).ok(), version);
    for shell in ["bash", "zsh", "fish"] {
        assert!(run(&["completions", shell]).ok().contains("causeway"), "{shell}");
    }
    let help = run(&["--help"]).ok();
    for command in ["up", "down", "status", "operator", "completions", "version"] {
        assert!(help.contains(&format!("\n  {command} ")), "{help}");
    }
    let unknown = run(&["upp"]);
    assert!(unknown.code == Some(2) && unknown.stderr.contains("similar subcommand"), "{unknown}");
}
