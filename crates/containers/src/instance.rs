//! The id of a data directory, by which what its owner made in a runtime is told from what others made.

use std::fs::{self, File};
use std::io::{self, Write as _};
use std::path::Path;

/// The id of this directory; it gets one if it has none. The directory must be there.
///
/// # Errors
/// When the file can't be read or written.
pub fn instance(directory: &Path) -> io::Result<String> {
    let path = directory.join("instance");
    if let Some(known) = read(&path)? {
        return Ok(known);
    }
    // The kernel's generator of UUIDs is as good as any.
    let fresh = fs::read_to_string("/proc/sys/kernel/random/uuid")?.trim().to_owned();
    let written = directory.join(format!("instance.{fresh}"));
    File::create(&written)?.write_all(fresh.as_bytes())?;
    // Of two processes that make one at the same time, the second takes the first one's.
    let linked = match fs::hard_link(&written, &path) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
        other => other,
    };
    fs::remove_file(&written)?;
    linked?;
    read(&path)?.ok_or_else(|| {
        let said =
            format!("{} is empty; remove it, and what was made before stays in the runtime", path.display());
        io::Error::new(io::ErrorKind::InvalidData, said)
    })
}

fn read(path: &Path) -> io::Result<Option<String>> {
    match fs::read_to_string(path) {
        Ok(text) => Ok(Some(text.trim().to_owned()).filter(|text| !text.is_empty())),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_directory_keeps_its_id_and_no_two_have_the_same() {
        let (a, b) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let id = instance(a.path()).unwrap();
        assert_eq!(instance(a.path()).unwrap(), id);
        assert_ne!(instance(b.path()).unwrap(), id);
        assert_eq!(fs::read_dir(a.path()).unwrap().count(), 1, "nothing else is left there");
    }

    #[test]
    fn all_who_ask_at_once_get_the_same() {
        let dir = tempfile::tempdir().unwrap();
        let ids: Vec<_> = std::thread::scope(|scope| {
            let all: Vec<_> = (0..8).map(|_| scope.spawn(|| instance(dir.path()).unwrap())).collect();
            all.into_iter().map(|one| one.join().unwrap()).collect()
        });
        assert!(ids.iter().all(|id| *id == ids[0]), "{ids:?}");
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1, "nothing else is left there");
    }

    #[test]
    fn a_directory_that_is_missing_or_spoilt_is_told() {
        let dir = tempfile::tempdir().unwrap();
        assert!(instance(&dir.path().join("nowhere")).is_err());
        fs::write(dir.path().join("instance"), "\n").unwrap();
        assert!(instance(dir.path()).unwrap_err().to_string().contains("is empty"));
    }
}
