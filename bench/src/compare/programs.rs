//! Where the programs of candidates are, and what version they say they have.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::Context;

/// The program under test, and where to look for others first.
#[derive(Debug, Clone)]
pub(crate) struct Programs {
    pub(crate) causeway: PathBuf,
    pub(crate) peers: PathBuf,
}

impl Programs {
    /// A peer's program; `installer` is what installs it.
    pub(crate) fn peer(&self, name: &str, installer: &str) -> anyhow::Result<PathBuf> {
        let path = std::env::var_os("PATH").unwrap_or_default();
        let usual = ["/usr/sbin", "/usr/local/sbin"].map(PathBuf::from);
        std::iter::once(self.peers.clone())
            .chain(std::env::split_paths(&path))
            .chain(usual)
            .map(|dir| dir.join(name))
            .find(|file| file.is_file())
            .with_context(|| format!("{name} is not installed: run {installer}"))
    }
}

/// The first line with a number that a program says when it is asked.
pub(crate) fn version(program: &Path, arguments: &[&str]) -> String {
    let Ok(output) = Command::new(program).args(arguments).output() else { return String::new() };
    let said = [output.stdout, output.stderr].concat();
    let said = String::from_utf8_lossy(&said);
    let numbered = |line: &&str| line.chars().any(|c| c.is_ascii_digit());
    said.lines().map(str::trim).find(numbered).unwrap_or_default().to_owned()
}
