//! The keys of a workstation, made on it and never leaving it: one for links, one for WireGuard.

use std::fs;
use std::io;
use std::path::Path;

use anyhow::Context;
use causeway_base::file;
use causeway_link::Key;
use causeway_netstack::wireguard::SecretKey;

const LINK: &str = "link.key";
const WIREGUARD: &str = "wireguard.key";

/// Both keys.
pub(crate) struct Keys {
    pub(crate) link: Key,
    pub(crate) wireguard: SecretKey,
}

impl Keys {
    /// Reads the keys of a directory; those that are missing are made, for their owner's eyes only.
    ///
    /// # Errors
    /// When they can't be read or written, or no chance is to be had.
    pub(crate) fn ensure(dir: &Path) -> anyhow::Result<Self> {
        let link = if let Some(pem) = read(&dir.join(LINK))? {
            Key::from_pem(&pem).with_context(|| broken(&dir.join(LINK)))?
        } else {
            let key = Key::new().context("can't make a key")?;
            write(&dir.join(LINK), key.to_pem())?;
            key
        };
        let wireguard = if let Some(text) = read(&dir.join(WIREGUARD))? {
            text.parse().with_context(|| broken(&dir.join(WIREGUARD)))?
        } else {
            let key = SecretKey::generate();
            write(&dir.join(WIREGUARD), &format!("{}\n", key.to_base64()))?;
            key
        };
        Ok(Self { link, wireguard })
    }

    /// Whether a directory has keys already.
    pub(crate) fn are_in(dir: &Path) -> bool {
        dir.join(LINK).exists() && dir.join(WIREGUARD).exists()
    }

    /// The public half of the WireGuard key, as `wg` writes it.
    pub(crate) fn wireguard_public(&self) -> String {
        self.wireguard.public().to_string()
    }
}

fn broken(path: &Path) -> String {
    format!("{} holds no key; remove it and connect again", path.display())
}

fn read(path: &Path) -> anyhow::Result<Option<String>> {
    match fs::read_to_string(path) {
        Ok(text) => Ok(Some(text)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error).with_context(|| format!("can't read {}", path.display())),
    }
}

fn write(path: &Path, text: &str) -> anyhow::Result<()> {
    file::replace(path, file::PRIVATE, text.as_bytes())
        .with_context(|| format!("can't write {}", path.display()))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    #[test]
    fn keys_are_made_once_and_for_their_owner_alone() {
        let dir = tempfile::tempdir().unwrap();
        assert!(!Keys::are_in(dir.path()));
        let (one, again) = (Keys::ensure(dir.path()).unwrap(), Keys::ensure(dir.path()).unwrap());
        assert!(Keys::are_in(dir.path()));
        assert_eq!((one.link.to_pem(), &one.wireguard), (again.link.to_pem(), &again.wireguard));
        assert_eq!(one.wireguard_public().len(), 44);
        for name in [LINK, WIREGUARD] {
            let mode = fs::metadata(dir.path().join(name)).unwrap().permissions().mode();
            assert_eq!(mode & 0o777, 0o600, "{name}");
        }
        fs::write(dir.path().join(WIREGUARD), "rubbish").unwrap();
        let error = format!("{:#}", Keys::ensure(dir.path()).err().unwrap());
        assert!(error.contains("remove it and connect again"), "{error}");
    }
}
