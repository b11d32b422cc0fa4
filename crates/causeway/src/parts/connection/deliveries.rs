//! Where the cluster's traffic may go on this machine: what `causeway connect` allowed, and what intercepts that were made here
//! ask for. It is a file, so that the daemon knows it after a restart; a hangup tells it to read again.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::OpenOptions;
use std::net::{IpAddr, SocketAddr};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;

use anyhow::Context;
use causeway_base::file;
use causeway_stowaway::laptop::{MayDeliver, Ports};
use rustix::fs::{FlockOperation, flock};
use serde::{Deserialize, Serialize};

use super::read_json;

const FILE: &str = "deliver.json";
const LOCK: &str = "deliver.lock";

/// The file.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Deliveries {
    /// Ports of the loopback that may be reached besides those of intercepts; all if there is none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) exposed: Option<BTreeSet<u16>>,
    /// By NAMESPACE/NAME of the intercept.
    #[serde(default)]
    intercepts: BTreeMap<String, Destination>,
}

/// What an intercept that was made here asks for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Destination {
    port: u16,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    address: Option<IpAddr>,
}

impl Deliveries {
    /// What is in a connection's directory.
    pub(crate) fn read(dir: &Path) -> anyhow::Result<Self> {
        Ok(read_json(&dir.join(FILE))?.unwrap_or_default())
    }

    /// Changes what is there; one process at a time.
    pub(crate) fn change(dir: &Path, change: impl FnOnce(&mut Self)) -> anyhow::Result<()> {
        let path = dir.join(LOCK);
        let open =
            OpenOptions::new().write(true).create(true).truncate(false).mode(file::PRIVATE).open(&path);
        let lock = open.with_context(|| format!("can't write {}", path.display()))?;
        flock(&lock, FlockOperation::LockExclusive)?;
        let before = Self::read(dir)?;
        let mut after = before.clone();
        change(&mut after);
        if after != before {
            let path = dir.join(FILE);
            file::replace(&path, file::PRIVATE, &serde_json::to_vec_pretty(&after)?)
                .with_context(|| format!("can't write {}", path.display()))?;
        }
        Ok(())
    }

    pub(crate) fn add(&mut self, intercept: &str, port: u16, address: Option<IpAddr>) {
        self.intercepts.insert(intercept.to_owned(), Destination { port, address });
    }

    pub(crate) fn remove(&mut self, intercept: &str) {
        self.intercepts.remove(intercept);
    }

    pub(crate) fn may_deliver(&self) -> MayDeliver {
        let ports = self.intercepts.values().filter(|to| to.address.is_none()).map(|to| to.port);
        let place = |to: &Destination| Some(SocketAddr::new(to.address?, to.port));
        MayDeliver {
            loopback: match &self.exposed {
                None => Ports::All,
                Some(exposed) => Ports::Only(exposed.iter().copied().chain(ports).collect()),
            },
            places: self.intercepts.values().filter_map(place).collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_allowed_is_what_may_be_reached() {
        let dir = tempfile::tempdir().unwrap();
        assert_eq!(Deliveries::read(dir.path()).unwrap().may_deliver(), MayDeliver::default());
        let router: IpAddr = [172, 17, 0, 2].into();
        Deliveries::change(dir.path(), |all| {
            all.exposed = Some(BTreeSet::from([3000]));
            all.add("shop/a", 8080, None);
            all.add("shop/b", 80, Some(router));
        })
        .unwrap();
        let may = Deliveries::read(dir.path()).unwrap().may_deliver();
        assert_eq!(may.loopback, Ports::Only([3000, 8080].into()));
        assert_eq!(may.places, [SocketAddr::new(router, 80)].into());
        Deliveries::change(dir.path(), |all| {
            all.remove("shop/a");
            all.remove("shop/b");
        })
        .unwrap();
        let may = Deliveries::read(dir.path()).unwrap().may_deliver();
        assert_eq!((may.loopback, may.places.len()), (Ports::Only([3000].into()), 0));
    }
}
