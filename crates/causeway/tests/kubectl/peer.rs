//! The peer of these tests, kubectl, which may be missing on a user's machine.

use std::io::Write;
use std::process::{Command, Stdio};
use std::sync::OnceLock;

use causeway_testkit::server::Server;

/// The server that all tests share, if there is a kubectl to drive it with.
pub fn shared() -> &'static Server {
    need_kubectl();
    causeway_testkit::server::shared()
}

/// Ends the whole program with a word about it when there is no kubectl; that is a failure where CI runs.
pub fn need_kubectl() {
    static FOUND: OnceLock<bool> = OnceLock::new();
    let found = *FOUND.get_or_init(|| {
        let mut command = Command::new("kubectl");
        command
            .args(["version", "--client"])
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        command.status().is_ok_and(|status| status.success())
    });
    if found {
        return;
    }
    let ci = std::env::var("CI").is_ok_and(|ci| ci == "true");
    let said = "skipped: all tests with kubectl; install it (scripts/test-deps.sh does)";
    // Straight to the stream: what a test prints is kept from the terminal.
    let _ = writeln!(std::io::stderr(), "{said}");
    std::process::exit(i32::from(ci));
}
