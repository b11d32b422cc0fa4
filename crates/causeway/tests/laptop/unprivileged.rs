//! A user without any privilege: nothing of it needs root.

use std::fs::{self, Permissions};
use std::os::unix::fs::{PermissionsExt as _, chown};
use std::process::Command;

use causeway_testkit::kubectl::{Ran, finish};
use causeway_testkit::peer;
use causeway_testkit::server::program;

use crate::world::{LocalProgram, World};

/// Nobody, by the number that every machine has.
const NOBODY: u32 = 65_534;

#[test]
fn a_user_without_privileges_connects_runs_and_intercepts() {
    if !rustix::process::geteuid().is_root() {
        return peer::skip("another user can only be played by root");
    }
    let world = World::start();
    // Files that this user may read.
    let home = tempfile::tempdir().unwrap();
    fs::set_permissions(home.path(), Permissions::from_mode(0o755)).unwrap();
    let (causeway, kubeconfig, data) =
        (home.path().join("causeway"), home.path().join("kubeconfig"), home.path().join("data"));
    fs::copy(program(), &causeway).unwrap();
    fs::copy(world.server.kubeconfig(), &kubeconfig).unwrap();
    fs::create_dir(&data).unwrap();
    for path in [&kubeconfig, &data] {
        chown(path, Some(NOBODY), Some(NOBODY)).unwrap();
    }
    let run = |args: &[&str]| -> Ran {
        let mut command = Command::new("setpriv");
        command.args([
            "--reuid=65534",
            "--regid=65534",
            "--clear-groups",
            "--no-new-privs",
            "--bounding-set=-all",
        ]);
        command.arg(&causeway).args(args).env("KUBECONFIG", &kubeconfig).env("CAUSEWAY_DATA_DIR", &data);
        finish(
            command
                .env("HOME", home.path())
                .env("USER", "nobody")
                .env_remove("CAUSEWAY_LOG")
                .current_dir("/"),
        )
    };
    let connected = run(&["connect", "-n", "shop", "--name", "nobody"]);
    assert_eq!(connected.code, Some(0), "{connected}");
    // In a network of its own, or where that is not allowed by a proxy, which curl knows.
    let script = "id -u; curl -s --max-time 5 http://web.shop/; grep CapEff /proc/self/status";
    let ran = run(&["run", "-n", "shop", "--", "sh", "-c", script]);
    assert!(
        ran.stdout.starts_with("65534\nweb\n") && ran.stdout.contains("CapEff:\t0000000000000000"),
        "{ran}"
    );
    let here = LocalProgram::start("here");
    let pair = format!("{}:http", here.port);
    let made = run(&["intercept", "deploy/web", "-n", "shop", "--port", &pair, "--header", "x-user=me"]);
    assert_eq!(made.code, Some(0), "{made}");
    assert_eq!((world.ask(&["x-user: me"]), world.ask(&[])), ("here".to_owned(), "web".to_owned()));
    let left = run(&["disconnect", "-n", "shop"]);
    assert!(left.stdout.contains("nothing is left"), "{left}");
    assert_eq!(fs::read_dir(&data).unwrap().count(), 0);
}
