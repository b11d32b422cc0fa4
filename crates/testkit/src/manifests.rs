//! Where the repository has what it asks its users to apply.

use std::path::{Path, PathBuf};

/// A file or folder of `deploy/`.
pub fn deploy(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../deploy").join(name)
}
