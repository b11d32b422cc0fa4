//! One build at a time on this machine. The lock is the kernel's: it goes with the process that holds it,
//! so there is nothing stale to wait for. Inside the file stands who holds it, for people.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read as _, Seek as _, Write as _};
use std::os::unix::fs::{OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::fs::{FlockOperation, flock};

use super::Error;
use crate::Identity;

const NAME: &str = "causeway-image.lock";
/// Between two looks at a lock that another process holds.
const LOOK: Duration = Duration::from_millis(50);

/// Held while this lives.
#[derive(Debug)]
pub(super) struct Lock {
    _file: File,
}

impl Lock {
    /// Waits for the lock, telling who holds it.
    pub(super) async fn take(directory: &Path, output: &mut impl FnMut(&str)) -> Result<Self, Error> {
        let path = directory.join(NAME);
        let failed = |source: io::Error| Error::Lock { path: path.clone(), source };
        let mut file = open(&path).map_err(failed)?;
        let mut told = false;
        loop {
            match flock(&file, FlockOperation::NonBlockingLockExclusive) {
                Ok(()) => break,
                Err(rustix::io::Errno::WOULDBLOCK | rustix::io::Errno::INTR) => {}
                Err(error) => return Err(failed(error.into())),
            }
            if !told {
                told = true;
                output(&format!("waiting for the image build of process {}", holder(&path)));
            }
            tokio::time::sleep(LOOK).await;
        }
        // Only for people, and another user's file may be read-only.
        if let Ok(me) = Identity::own() {
            let _ = file.set_len(0).and_then(|()| file.rewind()).and_then(|()| writeln!(file, "{me}"));
        }
        Ok(Self { _file: file })
    }
}

/// Opens the file, made so that every user can lock it.
fn open(path: &Path) -> io::Result<File> {
    let exists = || OpenOptions::new().read(true).write(true).open(path).or_else(|_| File::open(path));
    match exists() {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            if let Some(directory) = path.parent() {
                fs::create_dir_all(directory)?;
            }
            match OpenOptions::new().read(true).write(true).create_new(true).mode(0o666).open(path) {
                Ok(file) => {
                    // The umask has taken its part.
                    file.set_permissions(fs::Permissions::from_mode(0o666))?;
                    Ok(file)
                }
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => exists(),
                Err(error) => Err(error),
            }
        }
        other => other,
    }
}

fn holder(path: &PathBuf) -> String {
    let mut text = String::new();
    let read = File::open(path).and_then(|file| file.take(256).read_to_string(&mut text));
    match read.ok().and_then(|_| text.parse::<Identity>().ok()) {
        Some(identity) => identity.pid.to_string(),
        None => "(unknown)".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn the_second_waits_for_the_first_and_is_told_who_it_is() {
        let directory = tempfile::tempdir().unwrap();
        let first = Lock::take(directory.path(), &mut |_: &str| {}).await.unwrap();
        let (told_tx, mut told_rx) = tokio::sync::mpsc::unbounded_channel();
        let place = directory.path().to_owned();
        let second = tokio::spawn(async move {
            Lock::take(&place, &mut |line: &str| told_tx.send(line.to_owned()).unwrap()).await.map(drop)
        });
        let told = told_rx.recv().await.unwrap();
        assert_eq!(told, format!("waiting for the image build of process {}", std::process::id()));
        assert!(!second.is_finished());
        drop(first);
        second.await.unwrap().unwrap();
    }

    #[tokio::test]
    async fn a_dead_holder_is_not_waited_for() {
        let directory = tempfile::tempdir().unwrap();
        fs::write(directory.path().join(NAME), "1:0:gone\n").unwrap();
        let mut told = Vec::new();
        Lock::take(directory.path(), &mut |line: &str| told.push(line.to_owned())).await.unwrap();
        assert!(told.is_empty(), "{told:?}");
    }
}
