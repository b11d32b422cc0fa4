//! The real Envoy, which `scripts/test-deps.sh` installs and which may be missing on a user's machine.

use std::io::Write;
use std::path::{Path, PathBuf};

use super::server::PROGRAM;

/// Its program: what `ENVOY_BIN` names, or the one in the test environment. Without one a word is said about what is
/// skipped, and where CI runs that is a failure.
pub fn program() -> Option<PathBuf> {
    let found = std::env::var_os("ENVOY_BIN").map(PathBuf::from).or_else(installed);
    if found.is_none() {
        assert!(std::env::var_os("CI").is_none_or(|v| v != "true"), "no Envoy; run scripts/test-deps.sh");
        // Straight to the stream: what a test prints is kept from the terminal.
        let _ = writeln!(std::io::stderr(), "skipped: tests with Envoy; scripts/test-deps.sh installs it");
    }
    found
}

fn installed() -> Option<PathBuf> {
    // The program under test is in DIR/debug, the environment in DIR/test-venv.
    let lib = Path::new(PROGRAM).ancestors().nth(2)?.join("test-venv/lib");
    let pythons = std::fs::read_dir(lib).ok()?.flatten();
    pythons.map(|entry| entry.path().join("site-packages/envoy/_bin/envoy")).find(|path| path.is_file())
}
