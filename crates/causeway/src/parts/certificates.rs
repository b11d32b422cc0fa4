//! Certificates in a directory: a directory for each, named as plans name it, with `tls.crt` and `tls.key` as a mounted
//! Secret has them. Looked at again each second; one that can't be read leaves the last good one in use.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use causeway_engine::{Certificate, Certificates};
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
    let first = read(&seen, &Certificates::default());
    let (certificates_tx, certificates_rx) = watch::channel(Arc::new(first)); // directory → engine
    let directory = directory.to_owned();
    tokio::spawn(async move {
        let mut look = tokio::time::interval(LOOK);
        while !certificates_tx.is_closed() {
            look.tick().await;
            // A directory that can't be read for a moment takes nothing away.
            let Ok(now) = stamps(&directory) else { continue };
            if now != seen {
                let certificates = read(&now, &certificates_tx.borrow().clone());
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
    files: [Option<Stamp>; 2],
}

fn stamps(directory: &Path) -> std::io::Result<Vec<Seen>> {
    let mut found = Vec::new();
    for entry in directory.read_dir()? {
        let directory = entry?.path();
        let name =
            directory.file_name().and_then(|name| name.to_str()).and_then(|name| Name::parse(name).ok());
        // Kubernetes keeps the versions of what it mounts beside it, hidden.
        let Some(name) = name.filter(|name| !name.starts_with('.')) else { continue };
        let files = ["tls.crt", "tls.key"].map(|file| stamp(&directory.join(file)));
        if directory.is_dir() {
            found.push(Seen { name, directory, files });
        }
    }
    found.sort_by(|a, b| a.name.cmp(&b.name));
    Ok(found)
}

fn read(all: &[Seen], before: &Certificates) -> Certificates {
    let mut certificates = Certificates::default();
    for Seen { name, directory, .. } in all {
        match certificate(directory) {
            Ok(certificate) => drop(certificates.insert(name.clone(), Arc::new(certificate))),
            Err(error) => {
                output::note(format_args!("causeway: {}: {error:#}", directory.display()));
                if let Some(last) = before.get(name) {
                    certificates.insert(name.clone(), Arc::clone(last));
                }
            }
        }
    }
    certificates
}

fn certificate(directory: &Path) -> anyhow::Result<Certificate> {
    let file = |name: &str| std::fs::read(directory.join(name)).with_context(|| format!("can't read {name}"));
    Ok(Certificate::from_pem(&file("tls.crt")?, &file("tls.key")?)?)
}
