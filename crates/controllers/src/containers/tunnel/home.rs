//! A tunnel proxy's place on disk: the ledger, which outlives the object so that one of the same name gets the same ports;
//! the keys, which end with the object; and the journal.

use std::fs::{self, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use causeway_link::{Authority, identity};

use super::journal::{self, Journal};
use super::ledger::Ledger;

/// Homes of a namespace that are kept after their objects went.
const MOST_LEFT: usize = 256;

/// Why a place on disk is of no use.
#[derive(Debug, thiserror::Error)]
pub enum Error {
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
    /// No keys could be made.
    #[error("can't make the keys of the link")]
    Keys(#[from] identity::Error),
}

/// The place of one object.
#[derive(Debug)]
pub struct Home {
    directory: PathBuf,
    /// What happened, for people.
    pub journal: Journal,
}

impl Home {
    /// The place of the object of this name, below the controllers' directory.
    pub fn open(directory: &Path, namespace: &str, name: &str) -> Result<Self, Error> {
        let journal = Journal::new(journal::path(directory, namespace, name));
        let directory = directory.join(namespace).join(name);
        fs::DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(&directory)
            .map_err(|source| Error::Write { path: directory.clone(), source })?;
        Ok(Self { directory, journal })
    }

    /// What is remembered, if anything is. A file that makes no sense is worth a warning and no more: only the ports
    /// that were used before are lost.
    pub fn ledger(&self) -> Result<Option<Ledger>, Error> {
        let path = self.ledger_path();
        let text = match fs::read_to_string(&path) {
            Ok(text) => text,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(source) => return Err(Error::Read { path, source }),
        };
        match serde_json::from_str(&text) {
            Ok(ledger) => Ok(Some(ledger)),
            Err(error) => {
                tracing::warn!(path = %path.display(), %error, "the remembered ports can't be read and are forgotten");
                Ok(None)
            }
        }
    }

    /// Remembers.
    pub fn keep(&self, ledger: &Ledger) -> Result<(), Error> {
        let text = serde_json::to_string_pretty(ledger).unwrap_or_default();
        replace(&self.ledger_path(), &text)
    }

    /// The pair's authority: the one that is kept for this very object, or a new one.
    pub fn authority(&self, uid: &str) -> Result<Authority, Error> {
        let path = self.authority_path();
        let kept = fs::read_to_string(&path).ok();
        // The first line says whose it is: an object of the same name is another pair.
        if let Some((owner, pem)) = kept.as_deref().and_then(|text| text.split_once('\n'))
            && owner == uid
            && let Ok(authority) = Authority::from_pem(pem)
        {
            return Ok(authority);
        }
        let authority = Authority::new()?;
        replace(&path, &format!("{uid}\n{}", authority.to_pem()))?;
        Ok(authority)
    }

    /// The object is gone: its keys go with it, and the oldest of the homes that were left when there are too many.
    pub fn leave(&self) -> Result<(), Error> {
        let path = self.authority_path();
        match fs::remove_file(&path) {
            Err(source) if source.kind() != io::ErrorKind::NotFound => Err(Error::Write { path, source }),
            _ => {
                if let Some(namespace) = self.directory.parent() {
                    clear_out(namespace, MOST_LEFT);
                }
                Ok(())
            }
        }
    }

    fn ledger_path(&self) -> PathBuf {
        self.directory.join("ledger.json")
    }

    fn authority_path(&self) -> PathBuf {
        self.directory.join("authority.pem")
    }
}

/// Removes the oldest of a namespace's homes that objects have left, but for `most` of them. Names that are made up for
/// each run would fill the disk otherwise; what can't be removed is tried with the next.
fn clear_out(namespace: &Path, most: usize) {
    let Ok(homes) = fs::read_dir(namespace) else { return };
    let left = homes.flatten().map(|home| home.path()).filter(|home| !home.join("authority.pem").exists());
    let mut left: Vec<_> = left
        .filter_map(|home| Some((fs::metadata(home.join("journal.log")).ok()?.modified().ok()?, home)))
        .collect();
    left.sort_unstable();
    for (_, home) in left.iter().take(left.len().saturating_sub(most)) {
        if let Err(error) = fs::remove_dir_all(home) {
            tracing::warn!(path = %home.display(), %error, "can't remove what a tunnel proxy left");
        }
    }
}

/// Replaces a file as a whole, readable by its owner only.
fn replace(path: &Path, text: &str) -> Result<(), Error> {
    let beside = path.with_extension("new");
    let write = || {
        let mut file =
            OpenOptions::new().create(true).write(true).truncate(true).mode(0o600).open(&beside)?;
        file.write_all(text.as_bytes())?;
        file.sync_all()?;
        fs::rename(&beside, path)
    };
    write().map_err(|source| Error::Write { path: path.to_owned(), source })
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    fn home(name: &str) -> (PathBuf, Home) {
        let directory = std::env::temp_dir().join(format!("causeway-home-{}-{name}", std::process::id()));
        let _ = fs::remove_dir_all(&directory);
        let home = Home::open(&directory, "lab", "web").unwrap();
        (directory, home)
    }

    #[test]
    fn remembers_over_a_restart() {
        let (directory, home) = home("ledger");
        assert_eq!(home.ledger().unwrap(), None);
        let mut ledger = Ledger::default();
        ledger.host_ports = Some((1, 2));
        home.keep(&ledger).unwrap();
        assert_eq!(Home::open(&directory, "lab", "web").unwrap().ledger().unwrap(), Some(ledger));
        fs::write(home.ledger_path(), "{").unwrap();
        assert_eq!(home.ledger().unwrap(), None, "a spoiled file is no reason to fail");
    }

    #[test]
    fn keys_are_private_and_belong_to_one_object() {
        let (_, home) = home("keys");
        let first = home.authority("one").unwrap().to_pem();
        assert_eq!(home.authority("one").unwrap().to_pem(), first);
        assert_eq!(fs::metadata(home.authority_path()).unwrap().permissions().mode() & 0o777, 0o600);
        assert_ne!(home.authority("two").unwrap().to_pem(), first, "a namesake is another pair");
        home.leave().unwrap();
        assert!(!home.authority_path().exists());
        home.leave().expect("leaving twice is fine");
    }

    #[test]
    fn the_oldest_of_those_that_were_left_go() {
        let (directory, mut home) = home("left");
        home.authority("one").unwrap();
        home.journal.say("begins");
        for name in ["a", "b", "c"] {
            let mut left = Home::open(&directory, "lab", name).unwrap();
            left.journal.say("ends");
            let age = std::time::SystemTime::now()
                - std::time::Duration::from_secs(100 - u64::from(name.as_bytes()[0] - b'a'));
            fs::File::open(left.journal.path()).unwrap().set_modified(age).unwrap();
        }
        clear_out(&directory.join("lab"), 1);
        let mut names: Vec<_> =
            fs::read_dir(directory.join("lab")).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        names.sort();
        assert_eq!(names, ["c", "web"], "the newest, and the one that is lived in");
    }

    #[test]
    fn says_where_it_may_not_write() {
        let error = Home::open(Path::new("/proc/causeway"), "lab", "web").unwrap_err();
        assert!(error.to_string().contains("/proc/causeway/lab/web"), "{error}");
    }
}
