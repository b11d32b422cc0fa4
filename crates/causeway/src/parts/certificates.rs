//! Certificates and authorities in a directory: a directory for each, named as plans name it, with `tls.crt` and `tls.key`,
//! or `ca.crt`, or all of them, as a mounted Secret has them. Looked at again each second; what did not change stays the
//! same, and what can't be read leaves the last good one in use.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use causeway_engine::{Authorities, Certificate, Certificates};
use causeway_ir::Name;
use tokio::sync::watch;

use super::output;
use super::plan_file::{Stamp, stamp};

const LOOK: Duration = Duration::from_secs(1);

/// Reads the certificates of a directory and follows them until nobody wants them any more.
///
/// # Errors
/// If it is no directory that can be read.
pub(crate) fn follow(directory: &Path) -> anyhow::Result<watch::Receiver<Arc<Certificates>>> {
    let mut seen = stamps(directory).with_context(|| format!("can't read {}", directory.display()))?;
    let first = read(&seen, &[], &Certificates::default());
    let (certificates_tx, certificates_rx) = watch::channel(Arc::new(first)); // directory → engine
    let directory = directory.to_owned();
    tokio::spawn(async move {
        let mut look = tokio::time::interval(LOOK);
        while !certificates_tx.is_closed() {
            look.tick().await;
            // A directory that can't be read for a moment takes nothing away.
            let Ok(now) = stamps(&directory) else { continue };
            if now != seen {
                let certificates = read(&now, &seen, &certificates_tx.borrow().clone());
                certificates_tx.send_replace(Arc::new(certificates));
                seen = now;
            }
        }
    });
    Ok(certificates_rx)
}

/// A certificate's directory and what its files looked like.
#[derive(PartialEq)]
struct Seen {
    name: Name,
    directory: PathBuf,
    /// `tls.crt` and `tls.key`.
    key: [Option<Stamp>; 2],
    /// `ca.crt`.
    authorities: Option<Stamp>,
}

fn stamps(directory: &Path) -> std::io::Result<Vec<Seen>> {
    let mut found = Vec::new();
    for entry in directory.read_dir()? {
        let directory = entry?.path();
        let name =
            directory.file_name().and_then(|name| name.to_str()).and_then(|name| Name::parse(name).ok());
        // Kubernetes keeps the versions of what it mounts beside it, hidden.
        let Some(name) = name.filter(|name| !name.starts_with('.')) else { continue };
        let of = |file: &str| stamp(&directory.join(file));
        let (key, authorities) = (["tls.crt", "tls.key"].map(of), of("ca.crt"));
        if directory.is_dir() {
            found.push(Seen { name, directory, key, authorities });
        }
    }
    found.sort_by(|a, b| a.name.cmp(&b.name));
    Ok(found)
}

/// Reads what differs from what was seen before, when `last` was read.
fn read(all: &[Seen], before: &[Seen], last: &Certificates) -> Certificates {
    let mut certificates = Certificates::default();
    for seen in all {
        let Seen { name, directory, key, authorities } = seen;
        let before = before.iter().find(|before| before.name == *name);
        let note = |error: &anyhow::Error| {
            output::note(format_args!("causeway: {}: {error:#}", directory.display()));
        };
        let last_key = last.get(name).cloned();
        let has_key = key.iter().any(Option::is_some);
        // Authorities alone are all that some are for.
        if has_key || authorities.is_none() {
            let found = match last_key {
                Some(last) if before.is_some_and(|before| before.key == *key) => Some(last),
                last => certificate(directory).inspect_err(note).ok().map(Arc::new).or(last),
            };
            if let Some(certificate) = found {
                certificates.insert(name.clone(), certificate);
            }
        }
        if authorities.is_some() {
            let last = last.authorities(name).cloned();
            let found = match last {
                Some(last) if before.is_some_and(|before| before.authorities == *authorities) => Some(last),
                last => trusted(directory).inspect_err(note).ok().map(Arc::new).or(last),
            };
            if let Some(authorities) = found {
                certificates.insert_authorities(name.clone(), authorities);
            }
        }
    }
    certificates
}

fn file(directory: &Path, name: &str) -> anyhow::Result<Vec<u8>> {
    std::fs::read(directory.join(name)).with_context(|| format!("can't read {name}"))
}

fn certificate(directory: &Path) -> anyhow::Result<Certificate> {
    Ok(Certificate::from_pem(&file(directory, "tls.crt")?, &file(directory, "tls.key")?)?)
}

fn trusted(directory: &Path) -> anyhow::Result<Authorities> {
    Authorities::from_pem(&file(directory, "ca.crt")?).context("ca.crt")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn write(directory: &Path, certificate: &rcgen::CertifiedKey<rcgen::KeyPair>) {
        std::fs::create_dir_all(directory).unwrap();
        std::fs::write(directory.join("tls.crt"), certificate.cert.pem()).unwrap();
        std::fs::write(directory.join("tls.key"), certificate.signing_key.serialize_pem()).unwrap();
    }

    #[test]
    fn keys_and_authorities_are_read_and_what_stays_is_not_read_again() {
        let root = tempfile::tempdir().unwrap();
        let made = || rcgen::generate_simple_self_signed(["a.test".to_owned()]).unwrap();
        let (one, two) = (made(), made());
        write(&root.path().join("both"), &one);
        std::fs::write(root.path().join("both/ca.crt"), one.cert.pem()).unwrap();
        write(&root.path().join("key"), &one);
        std::fs::create_dir(root.path().join("trusted")).unwrap();
        std::fs::write(root.path().join("trusted/ca.crt"), one.cert.pem()).unwrap();
        let seen = stamps(root.path()).unwrap();
        let first = read(&seen, &[], &Certificates::default());
        for (name, has_key, has_authorities) in
            [("both", true, true), ("key", true, false), ("trusted", false, true)]
        {
            let has = (first.get(name).is_some(), first.authorities(name).is_some());
            assert_eq!(has, (has_key, has_authorities), "{name}");
        }
        write(&root.path().join("key"), &two);
        std::fs::write(root.path().join("trusted/ca.crt"), "junk, which leaves the last good ones in use")
            .unwrap();
        let now = stamps(root.path()).unwrap();
        let second = read(&now, &seen, &first);
        let same_key = |name: &str| Arc::ptr_eq(first.get(name).unwrap(), second.get(name).unwrap());
        assert!(same_key("both") && !same_key("key"));
        for name in ["both", "trusted"] {
            assert!(
                Arc::ptr_eq(first.authorities(name).unwrap(), second.authorities(name).unwrap()),
                "{name}"
            );
        }
    }
}
