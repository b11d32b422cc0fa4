//! One build at a time of one user on this machine. The lock is the kernel's: it goes with the process that holds it,
//! so there is nothing stale to wait for. It lies where nobody else can hold it up. Inside stands who holds it, for people.

use std::ffi::OsString;
use std::fs::{File, OpenOptions};
use std::io::{self, Read as _, Seek as _, Write as _};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::time::Duration;

use causeway_base::file::{PRIVATE, create_private_dir};
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
        // Only for people.
        if let Ok(me) = Identity::own() {
            let _ = file.set_len(0).and_then(|()| file.rewind()).and_then(|()| writeln!(file, "{me}"));
        }
        Ok(Self { _file: file })
    }
}

/// A directory of this user alone: the session's, the cache of the home, or one of its own among temporary files.
pub(super) fn own_directory(env: impl Fn(&str) -> Option<OsString>, uid: u32) -> PathBuf {
    let path = |name: &str| env(name).map(PathBuf::from).filter(|path| path.is_absolute());
    path("XDG_RUNTIME_DIR")
        .or_else(|| path("XDG_CACHE_HOME"))
        .or_else(|| path("HOME").map(|home| home.join(".cache")))
        .map_or_else(|| std::env::temp_dir().join(format!("causeway-{uid}")), |dir| dir.join("causeway"))
}

fn open(path: &Path) -> io::Result<File> {
    if let Some(directory) = path.parent() {
        create_private_dir(directory)?;
        let owner = std::fs::metadata(directory)?.uid();
        if owner != rustix::process::geteuid().as_raw() {
            let why = format!("{} belongs to user {owner}: remove it, or set HOME", directory.display());
            return Err(io::Error::new(io::ErrorKind::PermissionDenied, why));
        }
    }
    OpenOptions::new().read(true).write(true).create(true).truncate(false).mode(PRIVATE).open(path)
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
        std::fs::write(directory.path().join(NAME), "1:0:gone\n").unwrap();
        let mut told = Vec::new();
        Lock::take(directory.path(), &mut |line: &str| told.push(line.to_owned())).await.unwrap();
        assert!(told.is_empty(), "{told:?}");
    }

    #[tokio::test]
    async fn it_lies_where_no_other_user_can_hold_it_up() {
        let env = |name: &str| (name == "HOME").then(|| OsString::from("/home/ada"));
        assert_eq!(own_directory(env, 7), Path::new("/home/ada/.cache/causeway"));
        assert!(own_directory(|_| None, 7).ends_with("causeway-7"), "never the directory of all");
        let root = tempfile::tempdir().unwrap();
        let directory = root.path().join("causeway");
        let _lock = Lock::take(&directory, &mut |_: &str| {}).await.unwrap();
        assert_eq!(std::fs::metadata(&directory).unwrap().mode() & 0o777, 0o700);
        assert_eq!(std::fs::metadata(directory.join(NAME)).unwrap().mode() & 0o777, 0o600);
    }
}
