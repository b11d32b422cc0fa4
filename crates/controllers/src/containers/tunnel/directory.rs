//! A tunnel proxy's directory: the ledger, which outlives the object so that one of the same name gets the same ports;
//! keys, plan and host end, which end with the object; and the journal.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use causeway_base::file;
use causeway_ir::tunnel::{TunnelPlan, files};

use super::journal::{self, Journal};
use super::ledger::Ledger;

/// Directories of a namespace that are kept after their objects went, and for how long.
const MOST_LEFT: usize = 256;
const KEPT_FOR: Duration = Duration::from_hours(7 * 24);
const LEDGER: &str = "ledger.json";

/// Why a directory is of no use.
#[derive(Debug, thiserror::Error)]
pub(super) enum Error {
    /// It can't be made or written.
    #[error("can't write {path}: give the operator a directory that it may write to with --data-dir")]
    Write {
        /// Which file or directory.
        path: PathBuf,
        /// What the system says.
        source: io::Error,
    },
    /// It can't be read.
    #[error("can't read {path}")]
    Read {
        /// Which file.
        path: PathBuf,
        /// What the system says.
        source: io::Error,
    },
}

/// The directory of one object.
#[derive(Debug)]
pub(super) struct Directory {
    path: PathBuf,
    /// What happened, for people.
    pub(super) journal: Journal,
}

impl Directory {
    /// That of the object of this name, below the controllers' directory; it is made where it is missing.
    pub(super) fn open(base: &Path, namespace: &str, name: &str) -> Result<Self, Error> {
        let journal = Journal::new(journal::path(base, namespace, name));
        let path = base.join(namespace).join(name);
        file::create_private_dir(&path).map_err(|source| Error::Write { path: path.clone(), source })?;
        Ok(Self { path, journal })
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// The uid of the object that keys, plan and host end are for.
    pub(super) fn owner(&self) -> Result<Option<String>, Error> {
        self.read(files::OWNER)
    }

    /// From now on they are for the object of this uid. Those of another must be gone by then.
    pub(super) fn claim(&self, uid: &str) -> Result<(), Error> {
        self.write(files::OWNER, uid.as_bytes())
    }

    /// What is remembered, if anything is. A file that makes no sense is worth a warning and no more: only the ports
    /// that were used before are lost.
    pub(super) fn ledger(&self) -> Result<Option<Ledger>, Error> {
        Ok(self.parse(LEDGER, self.read(LEDGER)?, |text| serde_json::from_str(text)))
    }

    /// Remembers.
    pub(super) fn keep(&self, ledger: &Ledger) -> Result<(), Error> {
        self.write(LEDGER, &serde_json::to_vec_pretty(ledger).unwrap_or_default())
    }

    /// The plan that the host end follows.
    pub(super) fn plan(&self) -> Result<Option<TunnelPlan>, Error> {
        Ok(self.parse(files::PLAN, self.read(files::PLAN)?, TunnelPlan::of_any_version))
    }

    /// Whether the host end would find a plan: others end host ends too, and their plans with them.
    pub(super) fn has_plan(&self) -> bool {
        self.path.join(files::PLAN).exists()
    }

    /// Gives the host end another plan.
    pub(super) fn write_plan(&self, plan: &TunnelPlan) -> Result<(), Error> {
        self.write(files::PLAN, &serde_json::to_vec_pretty(plan).unwrap_or_default())
    }

    /// The file with the pair's authority.
    pub(super) fn authority(&self) -> PathBuf {
        self.path.join(files::AUTHORITY)
    }

    /// The object is gone: its keys go with it, and the oldest of the directories that were left when there are too many.
    pub(super) fn leave(&self) -> Result<(), Error> {
        // The owner last: until then it is known that something has to be cleared up.
        for name in
            [files::AUTHORITY, files::IDENTITY, files::OUTPUT, files::OLD_OUTPUT, files::LOCK, files::OWNER]
        {
            let path = self.path.join(name);
            match fs::remove_file(&path) {
                Err(source) if source.kind() != io::ErrorKind::NotFound => {
                    return Err(Error::Write { path, source });
                }
                _ => {}
            }
        }
        if let Some(namespace) = self.path.parent() {
            clear_out(namespace, MOST_LEFT, KEPT_FOR);
        }
        Ok(())
    }

    fn read(&self, name: &str) -> Result<Option<String>, Error> {
        let path = self.path.join(name);
        match fs::read_to_string(&path) {
            Ok(text) => Ok(Some(text)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(source) => Err(Error::Read { path, source }),
        }
    }

    fn parse<T>(
        &self,
        name: &str,
        text: Option<String>,
        read: impl FnOnce(&str) -> serde_json::Result<T>,
    ) -> Option<T> {
        read(&text?)
            .inspect_err(|error| {
                let path = self.path.join(name);
                tracing::warn!(path = %path.display(), %error, "a file can't be read and is written anew");
            })
            .ok()
    }

    fn write(&self, name: &str, contents: &[u8]) -> Result<(), Error> {
        let path = self.path.join(name);
        file::replace(&path, file::PRIVATE, contents).map_err(|source| Error::Write { path, source })
    }
}

/// Every directory below `base` in which something may have to be cleared up: namespace, name and the owner's uid.
pub(super) fn owned(base: &Path) -> Vec<(String, String, String)> {
    let entries = |path: &Path| fs::read_dir(path).into_iter().flatten().flatten();
    let mut found = Vec::new();
    for namespace in entries(base) {
        for object in entries(&namespace.path()) {
            let names = (namespace.file_name().into_string(), object.file_name().into_string());
            if let ((Ok(namespace), Ok(name)), Ok(uid)) =
                (names, fs::read_to_string(object.path().join(files::OWNER)))
            {
                found.push((namespace, name, uid));
            }
        }
    }
    found
}

/// Removes what objects that are long gone have left below `base`.
pub(super) fn forget_old(base: &Path) {
    for namespace in fs::read_dir(base).into_iter().flatten().flatten() {
        clear_out(&namespace.path(), MOST_LEFT, KEPT_FOR);
        // One that is not empty stays.
        let _ = fs::remove_dir(namespace.path());
    }
}

/// Removes a namespace's directories that objects have left, but for the `most` that were used last, and within `time`.
/// Names that are made up for each run would fill the disk otherwise; what can't be removed is tried with the next.
fn clear_out(namespace: &Path, most: usize, time: Duration) {
    let Ok(directories) = fs::read_dir(namespace) else { return };
    let left = directories
        .flatten()
        .map(|entry| entry.path())
        .filter(|path| path.is_dir() && !path.join(files::OWNER).exists());
    let used = |path: &Path| {
        let found = fs::metadata(path.join("journal.log")).or_else(|_| fs::metadata(path));
        found.and_then(|found| found.modified())
    };
    let mut left: Vec<_> = left.filter_map(|path| Some((used(&path).ok()?, path))).collect();
    left.sort_unstable();
    let too_many = left.len().saturating_sub(most);
    for (index, (used, path)) in left.iter().enumerate() {
        if index >= too_many && used.elapsed().is_ok_and(|age| age <= time) {
            break;
        }
        if let Err(error) = fs::remove_dir_all(path) {
            tracing::warn!(path = %path.display(), %error, "can't remove what a tunnel proxy left");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn directory() -> (tempfile::TempDir, Directory) {
        let base = tempfile::tempdir().unwrap();
        let directory = Directory::open(base.path(), "lab", "web").unwrap();
        (base, directory)
    }

    #[test]
    fn remembers_over_a_restart() {
        let (base, directory) = directory();
        assert_eq!(directory.ledger().unwrap(), None);
        let mut ledger = Ledger::default();
        ledger.host_ports = Some((1, 2));
        directory.keep(&ledger).unwrap();
        assert_eq!(Directory::open(base.path(), "lab", "web").unwrap().ledger().unwrap(), Some(ledger));
        fs::write(directory.path().join(LEDGER), "{").unwrap();
        assert_eq!(directory.ledger().unwrap(), None, "a spoiled file is no reason to fail");
    }

    #[test]
    fn what_belongs_to_one_object_goes_with_it() {
        let (base, directory) = directory();
        directory.claim("one").unwrap();
        fs::write(directory.authority(), "key").unwrap();
        assert_eq!(owned(base.path()), [("lab".to_owned(), "web".to_owned(), "one".to_owned())]);
        directory.keep(&Ledger::default()).unwrap();
        directory.leave().unwrap();
        assert!(!directory.authority().exists() && owned(base.path()).is_empty());
        assert!(directory.ledger().unwrap().is_some(), "the ports are remembered");
        directory.leave().expect("leaving twice is fine");
    }

    #[test]
    fn the_oldest_of_those_that_were_left_go() {
        let (base, mut directory) = directory();
        directory.claim("one").unwrap();
        directory.journal.say("begins");
        for name in ["a", "b", "c"] {
            let mut left = Directory::open(base.path(), "lab", name).unwrap();
            left.journal.say("ends");
            let age = std::time::SystemTime::now()
                - Duration::from_secs(100 - u64::from(name.as_bytes()[0] - b'a'));
            fs::File::open(left.journal.path()).unwrap().set_modified(age).unwrap();
        }
        let names = || {
            let found = fs::read_dir(base.path().join("lab")).unwrap();
            let mut names: Vec<_> = found.map(|entry| entry.unwrap().file_name()).collect();
            names.sort();
            names
        };
        clear_out(&base.path().join("lab"), 2, KEPT_FOR);
        assert_eq!(names(), ["b", "c", "web"], "the newest, and the one that an object uses");
        // "b" was used 99 seconds ago, "c" 98.
        clear_out(&base.path().join("lab"), 9, Duration::from_millis(98_500));
        assert_eq!(names(), ["c", "web"], "what is too old goes though there is room");
    }

    #[test]
    fn says_where_it_may_not_write() {
        let error = Directory::open(Path::new("/proc/causeway"), "lab", "web").unwrap_err();
        assert!(error.to_string().contains("/proc/causeway/lab/web"), "{error}");
    }
}
