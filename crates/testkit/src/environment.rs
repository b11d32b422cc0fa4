//! Programs and Python packages that `scripts/test-deps.sh` puts beside the built programs, and that may be missing on a
//! user's machine.

use std::path::PathBuf;
use std::process::Command;

use crate::peer;

/// Where they are.
pub(crate) fn folder() -> PathBuf {
    // Programs of tests are in DIR/debug/deps, the environment in DIR/test-venv.
    let test = std::env::current_exe().expect("the path of this program");
    let target = test.ancestors().nth(3).expect("a folder above that of the program");
    target.join("test-venv")
}

/// A program. Where it is missing there is none, and the test is skipped by name.
///
/// # Panics
/// Without one where `CI=true`.
pub fn program(name: &str) -> Option<PathBuf> {
    let program = folder().join("bin").join(name);
    if program.is_file() {
        return Some(program);
    }
    peer::skip(&format!("{} is missing; run scripts/test-deps.sh", program.display()));
    None
}

/// A Python that has these modules, or none, as above.
///
/// # Panics
/// Without one where `CI=true`.
pub fn python(modules: &str) -> Option<PathBuf> {
    let python = program("python")?;
    let has = Command::new(&python).args(["-c", &format!("import {modules}")]).output();
    if has.is_ok_and(|ran| ran.status.success()) {
        return Some(python);
    }
    peer::skip(&format!("{} lacks one of {modules}; run scripts/test-deps.sh", python.display()));
    None
}
