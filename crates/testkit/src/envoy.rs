//! The real Envoy, which `scripts/test-deps.sh` installs and which may be missing on a user's machine.

use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use crate::peer;
use crate::server;

/// Its program: what `ENVOY_BIN` names, or the one in the test environment. Without one the tests with Envoy are
/// skipped, said once.
///
/// # Panics
/// Without one where `CI=true`.
pub fn program() -> Option<PathBuf> {
    static TOLD: OnceLock<()> = OnceLock::new();
    let found = std::env::var_os("ENVOY_BIN").map(PathBuf::from).or_else(installed);
    if found.is_none() {
        TOLD.get_or_init(|| peer::skip("tests with Envoy; install it (scripts/test-deps.sh does)"));
    }
    found
}

fn installed() -> Option<PathBuf> {
    // The program under test is in DIR/debug, the environment in DIR/test-venv.
    let lib = Path::new(server::program()).ancestors().nth(2)?.join("test-venv/lib");
    let pythons = std::fs::read_dir(lib).ok()?.flatten();
    pythons.map(|entry| entry.path().join("site-packages/envoy/_bin/envoy")).find(|path| path.is_file())
}
