//! Writes the files of a volume so that a reader sees all of the old or all of the new, never a mixture:
//! a fresh directory, then one rename of the `..data` link, as Kubernetes lays it out.

use std::{
    collections::BTreeSet,
    fs, io,
    os::unix::fs::{OpenOptionsExt, PermissionsExt, symlink},
    path::{Path, PathBuf},
};

use jiff::Timestamp;

use super::{File, Payload};
use crate::layout::create_readable;

const DATA: &str = "..data";

/// Brings the volume at `directory` to `payload`; true when something changed.
pub(crate) fn write(directory: &Path, payload: &Payload) -> io::Result<bool> {
    create_readable(directory)?;
    let data = directory.join(DATA);
    let current = fs::read_link(&data).ok().map(|target| directory.join(target));
    if let Some(current) = &current
        && read(current)? == *payload
    {
        link_entries(directory, payload)?;
        return Ok(false);
    }
    let name = format!("..{}", Timestamp::now().as_nanosecond());
    let fresh = directory.join(&name);
    create_readable(&fresh)?;
    for (path, file) in payload {
        write_file(&fresh.join(path), file)?;
    }
    let link = directory.join("..data_tmp");
    remove_if_there(&link)?;
    symlink(&name, &link)?;
    fs::rename(&link, &data)?;
    link_entries(directory, payload)?;
    remove_stale(directory, &name)?;
    Ok(true)
}

fn write_file(path: &Path, file: &File) -> io::Result<()> {
    if let Some(parent) = path.parent() {
        create_readable(parent)?;
    }
    let mut handle = fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)?;
    io::Write::write_all(&mut handle, &file.contents)?;
    handle.set_permissions(fs::Permissions::from_mode(file.mode))
}

/// What a data directory holds.
fn read(directory: &Path) -> io::Result<Payload> {
    let mut payload = Payload::new();
    let mut pending = vec![PathBuf::new()];
    while let Some(below) = pending.pop() {
        let entries = match fs::read_dir(directory.join(&below)) {
            Ok(entries) => entries,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(payload),
            Err(error) => return Err(error),
        };
        for entry in entries {
            let entry = entry?;
            let path = below.join(entry.file_name());
            if entry.file_type()?.is_dir() {
                pending.push(path);
                continue;
            }
            let mode = entry.metadata()?.permissions().mode() & 0o777;
            payload.insert(
                path.to_string_lossy().into_owned(),
                File { contents: fs::read(entry.path())?, mode },
            );
        }
    }
    Ok(payload)
}

/// Links each first path component to its place behind `..data`, and removes links that lead nowhere now.
fn link_entries(directory: &Path, payload: &Payload) -> io::Result<()> {
    let wanted: BTreeSet<&str> = payload.keys().filter_map(|path| path.split('/').next()).collect();
    for name in &wanted {
        let link = directory.join(name);
        let target = Path::new(DATA).join(name);
        if fs::read_link(&link).ok().as_deref() != Some(&target) {
            remove_if_there(&link)?;
            symlink(&target, &link)?;
        }
    }
    for entry in fs::read_dir(directory)? {
        let entry = entry?;
        let name = entry.file_name();
        let name = name.to_string_lossy();
        if !name.starts_with("..") && !wanted.contains(name.as_ref()) {
            remove_if_there(&entry.path())?;
        }
    }
    Ok(())
}

fn remove_stale(directory: &Path, keep: &str) -> io::Result<()> {
    for entry in fs::read_dir(directory)? {
        let entry = entry?;
        let name = entry.file_name();
        let name = name.to_string_lossy();
        if name.starts_with("..") && name != DATA && name != keep && entry.file_type()?.is_dir() {
            fs::remove_dir_all(entry.path())?;
        }
    }
    Ok(())
}

fn remove_if_there(path: &Path) -> io::Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn payload(files: &[(&str, &str)]) -> Payload {
        let file = |contents: &str| File { contents: contents.as_bytes().to_vec(), mode: 0o640 };
        files.iter().map(|(path, contents)| ((*path).to_owned(), file(contents))).collect()
    }

    #[test]
    fn swaps_all_files_at_once_behind_data() {
        let dir = tempfile::tempdir().unwrap();
        let volume = dir.path().join("v");
        assert!(write(&volume, &payload(&[("a", "1"), ("sub/b", "2")])).unwrap());
        assert_eq!(fs::read_to_string(volume.join("a")).unwrap(), "1");
        assert_eq!(fs::read_to_string(volume.join("sub/b")).unwrap(), "2");
        assert_eq!(fs::metadata(volume.join("a")).unwrap().permissions().mode() & 0o777, 0o640);
        let before = fs::read_link(volume.join(DATA)).unwrap();
        assert!(!write(&volume, &payload(&[("a", "1"), ("sub/b", "2")])).unwrap(), "nothing to do");
        assert_eq!(fs::read_link(volume.join(DATA)).unwrap(), before);
        assert!(write(&volume, &payload(&[("a", "new"), ("c", "3")])).unwrap());
        assert_eq!(fs::read_to_string(volume.join("a")).unwrap(), "new");
        assert!(fs::symlink_metadata(volume.join("sub")).is_err(), "what is gone loses its link");
        let directories = fs::read_dir(&volume)
            .unwrap()
            .filter(|e| e.as_ref().unwrap().file_type().unwrap().is_dir())
            .count();
        assert_eq!(directories, 1, "the old data directory is removed");
    }

    #[test]
    fn a_mode_change_is_a_change() {
        let dir = tempfile::tempdir().unwrap();
        let mut files = payload(&[("a", "1")]);
        write(dir.path(), &files).unwrap();
        files.get_mut("a").unwrap().mode = 0o400;
        assert!(write(dir.path(), &files).unwrap());
    }
}
