//! The real Envoy, which `scripts/test-deps.sh` installs and which may be missing on a user's machine.

use std::path::PathBuf;
use std::sync::OnceLock;

use crate::{environment, peer};

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
    let lib = environment::folder().join("lib");
    let pythons = std::fs::read_dir(lib).ok()?.flatten();
    pythons.map(|entry| entry.path().join("site-packages/envoy/_bin/envoy")).find(|path| path.is_file())
}
