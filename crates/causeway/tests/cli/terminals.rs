//! What people see: colours where they look at a terminal and want them, and who else can reach what they start.

use std::process::Command;

use causeway_testkit::kubectl::finish;
use causeway_testkit::server::{Server, program};

#[test]
fn colours_are_for_terminals_only() {
    let server = Server::start(&["--no-node", "--no-operator"]);
    let line = format!("{} doctor proxy/nobody", program());
    // `script` gives the command a terminal.
    let on_terminal = |variables: &[(&str, &str)]| {
        let mut command = Command::new("script");
        command.args(["--quiet", "--command", &line, "/dev/null"]).env("KUBECONFIG", server.kubeconfig());
        command.env("TERM", "xterm").env_remove("NO_COLOR").envs(variables.iter().copied());
        finish(&mut command).stdout
    };
    let coloured = on_terminal(&[]);
    assert!(coloured.contains("\x1b[31m✗\x1b[0m there is no ProxyServer"), "{coloured:?}");
    let plain = on_terminal(&[("NO_COLOR", "1")]);
    assert!(plain.contains("✗ there is no ProxyServer") && !plain.contains('\x1b'), "{plain:?}");
    let mut piped = Command::new(program());
    piped.args(["doctor", "proxy/nobody"]).env("KUBECONFIG", server.kubeconfig()).env("TERM", "xterm");
    let piped = finish(piped.env_remove("NO_COLOR")).stdout;
    assert!(piped.contains("✗ there is no ProxyServer") && !piped.contains('\x1b'), "{piped:?}");
}

#[test]
fn a_control_plane_that_is_open_to_others_says_so() {
    let said = |listen: &str| {
        let dir = tempfile::tempdir().unwrap();
        let mut command = Command::new(program());
        command.args(["up", "--no-node", "--no-operator", "--listen", listen, "--data-dir"]).arg(dir.path());
        finish(command.args(["--container-runtime", "none", "--", "true"])).stderr
    };
    assert!(
        said("0.0.0.0:0").contains("\nopen      to every network of this machine"),
        "{}",
        said("0.0.0.0:0")
    );
    assert!(!said("127.0.0.1:0").contains("every network"));
}
