//! The program that host ends are: how it is started, and whether a running one is another.

use std::{
    fs::{self, OpenOptions},
    io::{self, Write as _},
    os::unix::fs::{MetadataExt as _, OpenOptionsExt as _},
    path::{Path, PathBuf},
    process::Stdio,
    time::Duration,
};

use causeway_base::file;
use causeway_ir::tunnel::files;
use jiff::Timestamp;
use tokio::{
    process::{Child, Command},
    time::timeout,
};

/// How long the making of an identity may take, on a machine that is busy.
const IDENTITY_PATIENCE: Duration = Duration::from_secs(20);

/// The program of host ends: `PROGRAM ARGS host --dir DIR` is one, `PROGRAM ARGS identity DIR` makes keys.
#[derive(Clone, Debug)]
pub struct HostProgram {
    /// The executable.
    pub program: PathBuf,
    /// Arguments before the subcommand.
    pub args: Vec<String>,
}

impl Default for HostProgram {
    /// This very program, also after another took its place on disk.
    fn default() -> Self {
        Self { program: "/proc/self/exe".into(), args: vec!["tunnel".to_owned()] }
    }
}

impl HostProgram {
    fn command(&self) -> Command {
        let mut command = Command::new(&self.program);
        command.arg0("causeway").args(&self.args).stdin(Stdio::null());
        command
    }

    /// Starts a host end. It leaves the operator's session by itself, and inherits nothing but the file for its output.
    ///
    /// # Errors
    /// When the output can't be opened or the program can't be started.
    pub(super) fn start(&self, directory: &Path) -> io::Result<Child> {
        let path = directory.join(files::OUTPUT);
        let mut output = OpenOptions::new().create(true).append(true).mode(file::PRIVATE).open(&path)?;
        // A disk that is full shows here. The process could not say so, since it would have to say it there.
        writeln!(output, "{} a host end is started", Timestamp::now()).map_err(|error| {
            io::Error::new(error.kind(), format!("can't write {}: {error}", path.display()))
        })?;
        let mut command = self.command();
        command.args(["host", "--dir"]).arg(directory).current_dir("/");
        command.stdout(output.try_clone()?).stderr(output).kill_on_drop(false);
        // Dropped, it goes on; the async runtime takes note of its end.
        command.spawn()
    }

    /// Makes a fresh identity for a client's container, of the directory's authority, which is made if there is none.
    ///
    /// # Errors
    /// When the program can't be run, or what it says when it fails.
    pub(crate) async fn identity(&self, directory: &Path) -> io::Result<Vec<u8>> {
        let mut command = self.command();
        command.arg("identity").arg(directory).kill_on_drop(true);
        let output = timeout(IDENTITY_PATIENCE, command.output()).await??;
        if !output.status.success() {
            return Err(io::Error::other(String::from_utf8_lossy(&output.stderr).trim().to_owned()));
        }
        let path = directory.join(files::IDENTITY);
        let identity = fs::read(&path)?;
        fs::remove_file(&path)?;
        Ok(identity)
    }

    /// Whether the process runs another executable than this one. One that can't be compared is taken for the same.
    pub(super) fn differs_from(&self, pid: i32) -> bool {
        let file = |path: &Path| fs::metadata(path).map(|found| (found.dev(), found.ino()));
        let running = file(Path::new(&format!("/proc/{pid}/exe")));
        running.ok().zip(file(&self.program).ok()).is_some_and(|(running, own)| running != own)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_full_disk_is_named_before_anything_is_started() {
        let dir = tempfile::tempdir().unwrap();
        std::os::unix::fs::symlink("/dev/full", dir.path().join(files::OUTPUT)).unwrap();
        let error = HostProgram::default().start(dir.path()).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::StorageFull);
        let words = error.to_string();
        assert!(words.contains("host.log") && words.contains("No space left on device"), "{words}");
    }
}
