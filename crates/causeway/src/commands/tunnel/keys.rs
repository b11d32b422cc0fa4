//! The keys of a pair, in a directory that only their owner should be able to enter.

use std::io::{ErrorKind, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;

use anyhow::Context;
use causeway_base::file;
use causeway_controllers::containers::tunnel::host::files;
use causeway_tunnel::{Authority, container_identity};

use crate::parts::output;

/// Makes an authority and an identity of it; keys that are in use are never overwritten.
pub(super) fn make_pair(dir: &Path) -> anyhow::Result<()> {
    std::fs::create_dir_all(dir).with_context(|| format!("can't make {}", dir.display()))?;
    let authority = Authority::new()?;
    let identity = container_identity(&authority)?;
    for (name, pem) in [(files::AUTHORITY, authority.to_pem()), (files::IDENTITY, identity.to_pem())] {
        let path = dir.join(name);
        write_new(&path, &pem).with_context(|| format!("can't write {}", path.display()))?;
        output::line(path.display());
    }
    Ok(())
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
    let identity = container_identity(&authority)?;
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
