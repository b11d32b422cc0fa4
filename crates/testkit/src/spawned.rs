//! A daemon that a test started: its files in a temporary directory, ended by its id when dropped.

use std::fs;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use tempfile::TempDir;

use crate::PATIENCE;
use crate::blocking::eventually;

/// A running daemon.
pub struct Spawned {
    child: Child,
    directory: TempDir,
}

impl Spawned {
    /// Starts it, with all that it says in a file of its directory, and waits until it is ready.
    ///
    /// # Panics
    /// When it can't be started, ends, or is not ready in time.
    pub fn start(directory: TempDir, command: &mut Command, ready: impl Fn() -> bool) -> Self {
        let log = fs::File::create(directory.path().join("log")).unwrap();
        command.current_dir(directory.path()).stdin(Stdio::null());
        let spawned = command.stdout(log.try_clone().unwrap()).stderr(log).spawn();
        let child = spawned.unwrap_or_else(|error| panic!("{command:?}: {error}"));
        let mut spawned = Self { child, directory };
        eventually(&format!("{} is ready", command.get_program().display()), PATIENCE, || {
            let ended = spawned.child.try_wait().unwrap();
            assert!(ended.is_none(), "{command:?} ended at once:\n{}", spawned.log());
            if ready() { Ok(()) } else { Err(spawned.log()) }
        });
        spawned
    }

    /// Where its files are.
    pub fn path(&self) -> &Path {
        self.directory.path()
    }

    /// What it said so far.
    pub fn log(&self) -> String {
        fs::read_to_string(self.path().join("log")).unwrap_or_default()
    }
}

impl Drop for Spawned {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
