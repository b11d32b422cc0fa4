//! Files and directories that are whole whatever happens to their writer, and seen by their owner only.

use std::fs::{self, DirBuilder, File, OpenOptions, Permissions};
use std::io::{self, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

/// The mode of a file that only its owner may read and write.
pub const PRIVATE: u32 = 0o600;

/// Puts a file with these contents and exactly this mode in `path`'s place. Readers, and whoever looks after a crash,
/// find all of the old file or all of the new one; once this returns, the new one is on disk. Blocks for as long as the
/// disk takes.
///
/// # Errors
/// What the file system says. The old file is still in place then, unless only the last step failed, which makes the
/// new name durable; the same call may be tried again.
pub fn replace(path: &Path, mode: u32, contents: &[u8]) -> io::Result<()> {
    let beside = beside(path)?;
    // A process of the same id may have been killed while it wrote.
    match fs::remove_file(&beside) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let written = write_new(&beside, mode, contents).and_then(|()| fs::rename(&beside, path));
    if let Err(error) = written {
        // The first error is the one to report.
        let _ = fs::remove_file(&beside);
        return Err(error);
    }
    sync_directory_of(path)
}

/// Makes the name of a new, renamed or removed file durable: a name is on disk when its directory is.
///
/// # Errors
/// When the directory can't be opened or synced.
pub fn sync_directory_of(path: &Path) -> io::Result<()> {
    File::open(directory_of(path))?.sync_all()
}

/// Creates a directory, and those above it, with mode 0700; what exists stays as it is.
///
/// # Errors
/// When one of them can't be created.
pub fn create_private_dir(path: &Path) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(0o700).create(path)
}

/// Whether an open file is the one that is found at `path`; not if it was removed or replaced.
pub fn is_at(file: &File, path: &Path) -> bool {
    match fs::metadata(path) {
        Ok(found) => file.metadata().is_ok_and(|held| (held.dev(), held.ino()) == (found.dev(), found.ino())),
        Err(error) => error.kind() != io::ErrorKind::NotFound,
    }
}

fn write_new(path: &Path, mode: u32, contents: &[u8]) -> io::Result<()> {
    let mut file = OpenOptions::new().write(true).create_new(true).mode(PRIVATE).open(path)?;
    // After creation, since the umask takes its part of a mode given there.
    file.set_permissions(Permissions::from_mode(mode))?;
    file.write_all(contents)?;
    file.sync_all()
}

/// A name in the same directory that no other writer uses, in this process or another.
fn beside(path: &Path) -> io::Result<PathBuf> {
    static WRITES: AtomicU64 = AtomicU64::new(0);
    let name = path.file_name().ok_or_else(|| io::Error::from(io::ErrorKind::InvalidInput))?;
    let write = WRITES.fetch_add(1, Ordering::Relaxed);
    let name = format!(".{}.{}-{write}.tmp", name.to_string_lossy(), std::process::id());
    Ok(directory_of(path).join(name))
}

fn directory_of(path: &Path) -> &Path {
    path.parent().filter(|directory| !directory.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mode(path: &Path) -> u32 {
        fs::metadata(path).unwrap().permissions().mode() & 0o7777
    }

    fn names(directory: &Path) -> Vec<String> {
        let entries = fs::read_dir(directory).unwrap();
        entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
    }

    #[test]
    fn replaces_contents_and_mode_and_leaves_nothing_beside() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("state.json");
        for (permissions, contents) in [(0o600, "first"), (0o400, "second, and longer"), (0o666, "third")] {
            replace(&path, permissions, contents.as_bytes()).unwrap();
            assert_eq!(fs::read_to_string(&path).unwrap(), contents);
            assert_eq!(mode(&path), permissions);
        }
        assert_eq!(names(dir.path()), ["state.json"]);
    }

    #[test]
    fn readers_see_one_whole_file_while_many_write() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("state");
        replace(&path, PRIVATE, &[0; 4096]).unwrap();
        std::thread::scope(|scope| {
            for writer in 1..=4_u8 {
                let path = &path;
                scope.spawn(move || (0..25).for_each(|_| replace(path, PRIVATE, &[writer; 4096]).unwrap()));
            }
            for _ in 0..200 {
                let contents = fs::read(&path).unwrap();
                assert!(contents.len() == 4096 && contents.iter().all(|byte| *byte == contents[0]));
            }
        });
        assert_eq!(names(dir.path()), ["state"]);
    }

    #[test]
    fn a_file_that_is_removed_or_replaced_is_no_longer_there() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("lock");
        let file = File::create(&path).unwrap();
        assert!(is_at(&file, &path));
        replace(&path, PRIVATE, b"another").unwrap();
        assert!(!is_at(&file, &path));
        fs::remove_file(&path).unwrap();
        assert!(!is_at(&file, &path));
    }

    #[test]
    fn what_fails_leaves_the_old_file_and_nothing_beside() {
        let dir = tempfile::tempdir().unwrap();
        // A directory can't be replaced by a file.
        let path = dir.path().join("taken");
        fs::create_dir(&path).unwrap();
        assert!(replace(&path, PRIVATE, b"x").is_err());
        assert!(replace(&dir.path().join("missing/file"), PRIVATE, b"x").is_err());
        assert_eq!(replace(Path::new("/"), PRIVATE, b"x").unwrap_err().kind(), io::ErrorKind::InvalidInput);
        assert_eq!(names(dir.path()), ["taken"]);
    }

    #[test]
    fn private_directories_are_closed_to_others() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a/b");
        create_private_dir(&path).unwrap();
        create_private_dir(&path).unwrap();
        assert_eq!((mode(&path), mode(&dir.path().join("a"))), (0o700, 0o700));
    }
}
