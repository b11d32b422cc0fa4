//! The real Envoy, which `scripts/test-deps.sh` installs and which may be missing on a user's machine.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

/// Its program: what `ENVOY_BIN` names, or the one in the test environment. Without one a word is said about what is
/// skipped, and where CI runs that is a failure.
pub fn program() -> Option<PathBuf> {
    static TOLD: OnceLock<()> = OnceLock::new();
    let found = std::env::var_os("ENVOY_BIN").map(PathBuf::from).or_else(installed);
    if found.is_none() {
        let said = "skipped: tests with Envoy; install it (scripts/test-deps.sh does)";
        assert!(std::env::var_os("CI").is_none_or(|ci| ci != "true"), "{said}");
        // Straight to the stream: what a test prints is kept from the terminal.
        TOLD.get_or_init(|| drop(writeln!(std::io::stderr(), "{said}")));
    }
    found
}

fn installed() -> Option<PathBuf> {
    // The program under test is in DIR/debug, the environment in DIR/test-venv.
    let lib = Path::new(env!("CARGO_BIN_EXE_causeway")).ancestors().nth(2)?.join("test-venv/lib");
    let pythons = std::fs::read_dir(lib).ok()?.flatten();
    pythons.map(|entry| entry.path().join("site-packages/envoy/_bin/envoy")).find(|path| path.is_file())
}
