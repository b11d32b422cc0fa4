//! The keys of a pair, in a directory that only their owner should be able to enter.

use std::io::{ErrorKind, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use anyhow::Context;
use causeway_base::file;
use causeway_ir::tunnel::files;
use causeway_tunnel::{Authority, client_identity};
use serde::Serialize;

use crate::parts::answer::Answer;
use crate::parts::paint::Paint;

/// Makes an authority and an identity of it; keys that are in use are never overwritten.
pub(super) fn make_pair(dir: &Path) -> anyhow::Result<Pair> {
    std::fs::create_dir_all(dir).with_context(|| format!("can't make {}", dir.display()))?;
    let authority = Authority::new()?;
    let identity = client_identity(&authority)?;
    let (authority_path, identity_path) = (dir.join(files::AUTHORITY), dir.join(files::IDENTITY));
    for (path, pem) in [(&authority_path, authority.to_pem()), (&identity_path, identity.to_pem())] {
        write_new(path, &pem).with_context(|| format!("can't write {}", path.display()))?;
    }
    Ok(Pair { authority: authority_path, identity: identity_path })
}

/// The files of a pair.
#[derive(Debug, Serialize)]
pub(super) struct Pair {
    authority: PathBuf,
    identity: PathBuf,
}

impl Answer for Pair {
    fn text(&self, _: Paint) -> String {
        format!("{}\n{}", self.authority.display(), self.identity.display())
    }
}

/// Makes a fresh identity of the directory's authority, which is made if there is none.
pub(super) fn issue_identity(dir: &Path) -> anyhow::Result<()> {
    let path = dir.join(files::AUTHORITY);
    let authority = match std::fs::read_to_string(&path) {
        Ok(pem) => authority(&path, &pem)?,
        Err(error) if error.kind() == ErrorKind::NotFound => {
            let authority = Authority::new()?;
            file::replace(&path, file::PRIVATE, authority.to_pem().as_bytes())
                .with_context(|| format!("can't write {}", path.display()))?;
            authority
        }
        Err(error) => return Err(error).with_context(|| format!("can't read {}", path.display())),
    };
    let path = dir.join(files::IDENTITY);
    let identity = client_identity(&authority)?;
    file::replace(&path, file::PRIVATE, identity.to_pem().as_bytes())
        .with_context(|| format!("can't write {}", path.display()))
}

/// The authority in a file.
pub(super) fn read_authority(path: &Path) -> anyhow::Result<Authority> {
    let pem = std::fs::read_to_string(path)
        .with_context(|| format!("can't read the authority {}", path.display()))?;
    authority(path, &pem)
}

fn authority(path: &Path, pem: &str) -> anyhow::Result<Authority> {
    Authority::from_pem(pem).with_context(|| format!("{} is not an authority", path.display()))
}

fn write_new(path: &Path, text: &str) -> std::io::Result<()> {
    let mut file = std::fs::OpenOptions::new().write(true).create_new(true).mode(file::PRIVATE).open(path)?;
    file.write_all(text.as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn identities_are_fresh_and_of_the_same_authority() {
        let dir = tempfile::tempdir().unwrap();
        let read = |name: &str| std::fs::read_to_string(dir.path().join(name)).unwrap();
        issue_identity(dir.path()).unwrap();
        let (authority, first) = (read(files::AUTHORITY), read(files::IDENTITY));
        issue_identity(dir.path()).unwrap();
        assert_eq!(read(files::AUTHORITY), authority);
        assert_ne!(read(files::IDENTITY), first);
        assert!(make_pair(dir.path()).is_err(), "keys that are in use are never overwritten");
        assert_eq!(read(files::AUTHORITY), authority);
    }
}
