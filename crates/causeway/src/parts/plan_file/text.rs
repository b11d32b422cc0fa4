//! The text of a plan file, and when it is another. What is no file, a FIFO or a device, is refused: to open or read it
//! could take for ever.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read as _};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::Path;
use std::time::SystemTime;

use anyhow::{Context as _, bail};
use rustix::fs::{OFlags, fcntl_setfl, fstatfs};

/// The kernel's mark of a pipe without a name.
const PIPEFS_MAGIC: u64 = 0x5049_5045;

/// Tells one state of a file from another; a replaced file may have the same time and size.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Stamp {
    modified: SystemTime,
    size: u64,
    inode: u64,
}

/// The state of a file; none while it is not there.
pub(crate) fn stamp(path: &Path) -> Option<Stamp> {
    let metadata = fs::metadata(path).ok()?;
    Some(Stamp { modified: metadata.modified().ok()?, size: metadata.len(), inode: metadata.ino() })
}

/// The text of a file that can be read again when it changes.
pub(crate) fn of_file(path: &Path) -> anyhow::Result<String> {
    let file = open(path)?;
    if !file.metadata()?.is_file() {
        bail!("{} is not a file that could be followed: give the path of a regular file", path.display());
    }
    text(path, file)
}

/// The text of a file, or of a pipe that is open already, like standard input or a shell's `<(…)`.
pub(super) fn of_file_or_pipe(path: &Path) -> anyhow::Result<String> {
    let file = open(path)?;
    if is_pipe(&file)? {
        // Now that it is open, its writer may take its time.
        fcntl_setfl(&file, OFlags::empty())?;
    } else if !file.metadata()?.is_file() {
        bail!("{} is not a file: give the path of a regular file", path.display());
    }
    text(path, file)
}

/// Opens it without waiting for anybody.
fn open(path: &Path) -> anyhow::Result<File> {
    OpenOptions::new()
        .read(true)
        .custom_flags(OFlags::NONBLOCK.bits().cast_signed())
        .open(path)
        .with_context(|| format!("can't read the plan {}", path.display()))
}

fn is_pipe(file: &File) -> io::Result<bool> {
    Ok(u64::try_from(fstatfs(file)?.f_type).is_ok_and(|kind| kind == PIPEFS_MAGIC))
}

fn text(path: &Path, mut file: File) -> anyhow::Result<String> {
    let mut text = String::new();
    file.read_to_string(&mut text).with_context(|| format!("can't read the plan {}", path.display()))?;
    Ok(text)
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;
    use std::os::fd::AsRawFd as _;

    use rustix::fs::{CWD, FileType, Mode, mknodat};

    use super::*;

    #[test]
    fn what_is_no_file_is_refused_without_waiting() {
        let directory = tempfile::tempdir().unwrap();
        let fifo = directory.path().join("fifo");
        mknodat(CWD, &fifo, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap();
        for path in [fifo.as_path(), directory.path(), Path::new("/dev/zero")] {
            for text in [of_file(path), of_file_or_pipe(path)] {
                let error = text.unwrap_err().to_string();
                assert!(error.contains("the path of a regular file"), "{error}");
            }
        }
        let file = directory.path().join("plan.yaml");
        assert!(of_file(&file).unwrap_err().to_string().contains("can't read the plan"));
        fs::write(&file, "{}").unwrap();
        assert_eq!((of_file(&file).unwrap(), of_file_or_pipe(&file).unwrap()), ("{}".into(), "{}".into()));
    }

    #[test]
    fn a_pipe_is_read_to_its_end() {
        let (reader, mut writer) = io::pipe().unwrap();
        let path = format!("/proc/self/fd/{}", reader.as_raw_fd());
        let reading = std::thread::spawn(move || of_file_or_pipe(Path::new(&path)));
        writer.write_all(b"listeners: []\n").unwrap();
        drop(writer);
        assert_eq!(reading.join().unwrap().unwrap(), "listeners: []\n");
    }

    #[test]
    fn a_file_that_takes_the_place_of_another_is_told_apart() {
        let directory = tempfile::tempdir().unwrap();
        let [path, other] = ["plan", "other"].map(|name| directory.path().join(name));
        for (path, text) in [(&path, "a"), (&other, "b")] {
            fs::write(path, text).unwrap();
            File::options().write(true).open(path).unwrap().set_modified(SystemTime::UNIX_EPOCH).unwrap();
        }
        let before = stamp(&path);
        assert_eq!(before, stamp(&path));
        fs::rename(&other, &path).unwrap();
        assert_ne!(before, stamp(&path));
    }
}
