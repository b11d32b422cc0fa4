//! Files put into a container, before it starts or while it runs, with mode and owner.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::io;
use std::path::{Component, Path, PathBuf};

use bollard::query_parameters::UploadToContainerOptions;
use bytes::Bytes;

use crate::runtime::plain_name;
use crate::{Error, ErrorKind, Result, Runtime};

/// A file to put into a container.
#[derive(Clone, PartialEq, Eq)]
pub struct File {
    /// Absolute, inside the container. Directories that are missing are made (0755, of the file's owner).
    pub path: PathBuf,
    pub content: Vec<u8>,
    /// `0o600`.
    pub mode: u32,
    pub uid: u32,
    pub gid: u32,
}

impl fmt::Debug for File {
    /// Without the content, which may be a key.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({:o}, {}:{})", self.path.display(), self.mode, self.uid, self.gid)
    }
}

impl Runtime {
    /// Puts files into a container that was made; it need not run.
    ///
    /// The content travels in the body of a request, never in arguments or the environment.
    ///
    /// # Errors
    /// When there is no such container, or the runtime refuses.
    pub async fn copy_into(&self, id: &str, files: &[File]) -> Result<()> {
        let id = plain_name("copy into container", id)?;
        let mut by_directory: BTreeMap<&Path, Vec<&File>> = BTreeMap::new();
        for file in files {
            let parent = directory(&file.path).ok_or_else(|| {
                Error::invalid(
                    format!("copy {} into container {id}", file.path.display()),
                    "the path must be absolute, without `..`, and name a file",
                )
            })?;
            by_directory.entry(parent).or_default().push(file);
        }
        for (directory, files) in by_directory {
            self.copy_into_directory(id, directory, &files).await?;
        }
        Ok(())
    }

    /// Tries the file's own directory first and goes up while there is none: what exists keeps its mode and owner.
    async fn copy_into_directory(&self, id: &str, directory: &Path, files: &[&File]) -> Result<()> {
        let what = format!("copy files to {} in container {id}", directory.display());
        let mut outcome = Ok(());
        for base in directory.ancestors() {
            let archive = pack(base, files).map_err(|error| Error::transport(what.as_str(), error))?;
            let options = UploadToContainerOptions {
                path: base.to_str().unwrap_or("/").to_owned(),
                ..UploadToContainerOptions::default()
            };
            let body = bollard::body_full(Bytes::from(archive));
            outcome = self
                .call(
                    what.as_str(),
                    self.limits.call,
                    self.docker.upload_to_container(id, Some(options), body),
                )
                .await;
            match &outcome {
                Err(error) if error.kind() == ErrorKind::NotFound => {}
                _ => break,
            }
        }
        outcome
    }
}

/// The directory of an absolute, plain path.
fn directory(path: &Path) -> Option<&Path> {
    let plain = |part: Component<'_>| matches!(part, Component::RootDir | Component::Normal(_));
    (path.is_absolute()
        && path.components().all(plain)
        && path.to_str().is_some()
        && path.file_name().is_some())
    .then(|| path.parent())
    .flatten()
}

/// An archive to be unpacked at `base`, with the directories between it and the files.
fn pack(base: &Path, files: &[&File]) -> io::Result<Vec<u8>> {
    let mut archive = tar::Builder::new(Vec::new());
    let mut made: BTreeSet<&Path> = BTreeSet::new();
    for file in files {
        let inside = file.path.strip_prefix(base).map_err(io::Error::other)?;
        let mut missing: Vec<&Path> =
            inside.ancestors().skip(1).filter(|path| !path.as_os_str().is_empty()).collect();
        missing.reverse();
        for path in missing {
            if made.insert(path) {
                let mut header = tar::Header::new_gnu();
                header.set_entry_type(tar::EntryType::Directory);
                header.set_mode(0o755);
                header.set_uid(u64::from(file.uid));
                header.set_gid(u64::from(file.gid));
                header.set_mtime(0);
                header.set_size(0);
                archive.append_data(&mut header, path, io::empty())?;
            }
        }
        let mut header = tar::Header::new_gnu();
        header.set_mode(file.mode);
        header.set_uid(u64::from(file.uid));
        header.set_gid(u64::from(file.gid));
        header.set_mtime(0);
        header.set_size(file.content.len() as u64);
        archive.append_data(&mut header, inside, file.content.as_slice())?;
    }
    archive.into_inner()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(path: &str) -> File {
        File { path: path.into(), content: b"secret".to_vec(), mode: 0o600, uid: 65532, gid: 65533 }
    }

    #[test]
    fn keeps_mode_and_owner_and_makes_the_way() {
        let archive = pack(Path::new("/"), &[&file("/etc/causeway/identity.pem")]).unwrap();
        let mut archive = tar::Archive::new(archive.as_slice());
        let entries: Vec<_> = archive
            .entries()
            .unwrap()
            .map(|entry| {
                let entry = entry.unwrap();
                let header = entry.header();
                (
                    entry.path().unwrap().display().to_string(),
                    header.mode().unwrap(),
                    header.uid().unwrap(),
                    header.gid().unwrap(),
                )
            })
            .collect();
        assert_eq!(
            entries,
            [
                ("etc".to_owned(), 0o755, 65532, 65533),
                ("etc/causeway".to_owned(), 0o755, 65532, 65533),
                ("etc/causeway/identity.pem".to_owned(), 0o600, 65532, 65533),
            ]
        );
    }

    #[test]
    fn paths_stay_inside_the_container() {
        assert!(directory(Path::new("/etc/x")).is_some());
        for bad in ["etc/x", "/etc/../x", "/"] {
            assert!(directory(Path::new(bad)).is_none(), "{bad}");
        }
    }

    #[test]
    fn debug_does_not_show_the_content() {
        assert!(!format!("{:?}", file("/key")).contains("secret"));
    }
}
