//! Which address each pod has: one of its own on this machine's loopback, so that pods may use the same ports.
//! It is written into the pod's directory and stays as long as that does, over restarts of containers and node.

use std::{
    collections::{HashMap, hash_map::DefaultHasher},
    fs,
    hash::{Hash, Hasher},
    io,
    net::Ipv4Addr,
    ops::RangeInclusive,
    sync::Mutex,
};

use causeway_base::lock::lock;

use crate::layout::PodDir;

/// The addresses of all pods that have a directory.
#[derive(Debug)]
pub(crate) struct Addresses {
    range: RangeInclusive<Ipv4Addr>,
    /// By the pod's uid.
    taken: Mutex<HashMap<String, Ipv4Addr>>,
}

impl Addresses {
    /// Knows the addresses that pods on disk have, so that none is given twice.
    pub(crate) fn load(range: RangeInclusive<Ipv4Addr>, pods: &[PodDir]) -> Self {
        let taken = pods.iter().filter_map(|dir| Some((dir.uid.clone(), read(dir)?))).collect();
        Self { range, taken: Mutex::new(taken) }
    }

    /// The address of a pod: the one it has, else `before`, which its status still tells, else a free one.
    pub(crate) fn assign(&self, dir: &PodDir, before: Option<Ipv4Addr>) -> io::Result<Ipv4Addr> {
        let mut taken = lock(&self.taken);
        if let Some(address) = taken.get(&dir.uid).filter(|address| self.range.contains(*address)) {
            return Ok(*address);
        }
        let is_free = |address: &Ipv4Addr| !taken.values().any(|other| other == address);
        let address = before
            .filter(|address| self.range.contains(address) && is_free(address))
            .or_else(|| self.candidates(&dir.uid).find(is_free))
            .ok_or_else(|| {
                io::Error::other("every address for pods is taken; delete pods that have ended")
            })?;
        dir.write_address(address)?;
        taken.insert(dir.uid.clone(), address);
        Ok(address)
    }

    /// Takes back the address of a pod that is gone.
    pub(crate) fn release(&self, uid: &str) {
        lock(&self.taken).remove(uid);
    }

    /// Every address of the range once, beginning anywhere: two nodes on one machine rarely meet, and the address of
    /// a pod that just went is not the next one's.
    fn candidates(&self, uid: &str) -> impl Iterator<Item = Ipv4Addr> {
        let (first, last) = (u32::from(*self.range.start()), u32::from(*self.range.end()));
        let size = last - first + 1;
        let mut hasher = DefaultHasher::new();
        uid.hash(&mut hasher);
        let start = (hasher.finish() % u64::from(size)) as u32;
        (0..size).map(move |step| Ipv4Addr::from(first + (start + step) % size))
    }
}

fn read(dir: &PodDir) -> Option<Ipv4Addr> {
    fs::read_to_string(dir.address_file()).ok()?.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn range(last: u8) -> RangeInclusive<Ipv4Addr> {
        Ipv4Addr::new(127, 128, 0, 1)..=Ipv4Addr::new(127, 128, 0, last)
    }

    fn dir(root: &tempfile::TempDir, uid: &str) -> PodDir {
        let dir = PodDir::new(root.path(), "ns", "p", uid);
        dir.create().unwrap();
        dir
    }

    #[test]
    fn every_pod_has_its_own_until_none_is_left() {
        let root = tempfile::tempdir().unwrap();
        let addresses = Addresses::load(range(4), &[]);
        let mut given: Vec<Ipv4Addr> =
            (0..4).map(|i| addresses.assign(&dir(&root, &format!("u{i}")), None).unwrap()).collect();
        given.sort();
        assert_eq!(given, (1..=4).map(|i| Ipv4Addr::new(127, 128, 0, i)).collect::<Vec<_>>());
        assert!(addresses.assign(&dir(&root, "one-more"), None).is_err());
        addresses.release("u2");
        assert!(addresses.assign(&dir(&root, "one-more"), None).is_ok());
    }

    #[test]
    fn a_pod_keeps_its_address_over_a_restart() {
        let root = tempfile::tempdir().unwrap();
        let pod = dir(&root, "a");
        let first = Addresses::load(range(250), &[]).assign(&pod, None).unwrap();
        let again = Addresses::load(range(250), &PodDir::all(root.path()).unwrap());
        assert_eq!(again.assign(&pod, Some(Ipv4Addr::new(127, 128, 0, 9))).unwrap(), first);
        assert_ne!(again.assign(&dir(&root, "b"), Some(first)).unwrap(), first, "it is taken");
    }

    #[test]
    fn without_a_directory_the_status_remembers() {
        let root = tempfile::tempdir().unwrap();
        let addresses = Addresses::load(range(250), &[]);
        let before = Ipv4Addr::new(127, 128, 0, 7);
        assert_eq!(addresses.assign(&dir(&root, "a"), Some(before)).unwrap(), before);
        let foreign = addresses.assign(&dir(&root, "b"), Some(Ipv4Addr::LOCALHOST)).unwrap();
        assert!(range(250).contains(&foreign));
    }
}
