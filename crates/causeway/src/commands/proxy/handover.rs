//! Sockets that pass from one pod of a replica to the next where both run on one machine: each process has a door, a Unix
//! socket in the place that the node has for the pods of its namespace, and a successor takes copies of what listens
//! behind the doors that are there. Both serve until the predecessor is told to end, so that nobody is ever refused.

use std::collections::HashSet;
use std::fs::File;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::net::IpAddr;
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use causeway_base::report::chain;
use causeway_base::well_known::HANDOVER_DIR;
use causeway_engine::handover::{Claim, Handed, Socket};

use super::runner::Carrier;

/// The place of the doors.
pub(super) struct Doors {
    /// Held open: by its descriptor the way to a socket is short enough, wherever the place is.
    dir: File,
    path: PathBuf,
    /// What all doors of this replica begin with.
    prefix: String,
}

/// What was found behind the doors of predecessors.
#[derive(Default)]
pub(super) struct Found {
    claims: Vec<Claim>,
    /// Their listening sockets.
    pub(super) sockets: Vec<Handed>,
}

impl Doors {
    /// Where this machine's node wants doors; none where pods do not share a machine's network.
    pub(super) fn new(proxy: &str, server_ip: Option<IpAddr>) -> Option<Self> {
        let path = PathBuf::from(std::env::var_os(HANDOVER_DIR)?);
        let dir = File::open(&path).inspect_err(
            |error| tracing::warn!(%error, path = %path.display(), "no sockets are handed over"),
        );
        let mut hasher = DefaultHasher::new();
        (proxy, server_ip).hash(&mut hasher);
        Some(Self { dir: dir.ok()?, path, prefix: format!("{:016x}.", hasher.finish()) })
    }

    /// Takes copies of what predecessors listen with, the newest first.
    pub(super) async fn find(&self) -> Found {
        let doors = self.others();
        let taken = tokio::task::spawn_blocking(move || {
            let mut found = Found::default();
            let mut known = HashSet::new();
            for door in doors {
                match Claim::take(&door) {
                    Ok(None) => {}
                    Ok(Some(mut claim)) => {
                        let new = claim.remove_listeners().into_iter();
                        found.sockets.extend(new.filter(|handed| known.insert(handed.purpose.clone())));
                        found.claims.push(claim);
                    }
                    Err(error) => tracing::warn!("{}; listening beside it", chain(&error)),
                }
            }
            found
        });
        taken.await.unwrap_or_default()
    }

    /// Tells the predecessors that this process serves, once it does, and then waits for successors until dropped.
    pub(super) async fn serve(self: Arc<Self>, found: Found, carrier: Arc<Carrier>, pod_ip: IpAddr) {
        carrier.serves().await;
        for claim in found.claims {
            // One that has ended meanwhile needs no word.
            let _ = claim.ready();
        }
        let socket = match Socket::open(&self.way_to(&self.own_name())) {
            Ok(socket) => socket,
            Err(error) => return tracing::warn!("no sockets are handed over: {}", chain(&error)),
        };
        let _removed = RemoveLater(self.path.join(self.own_name()));
        loop {
            let successor = socket.handed_over(|| carrier.sockets(pod_ip)).await;
            tracing::info!(successor, "another process listens on this one's addresses too");
            carrier.leave_datagrams(pod_ip).await;
        }
    }

    /// Whether another process of this replica serves, with whom addresses are shared until one of the two ends.
    pub(super) fn has_others(&self) -> bool {
        !self.others().is_empty()
    }

    fn own_name(&self) -> String {
        format!("{}{}", self.prefix, std::process::id())
    }

    fn way_to(&self, name: &str) -> PathBuf {
        Path::new("/proc/self/fd").join(self.dir.as_raw_fd().to_string()).join(name)
    }

    /// The doors of other processes of this replica, the newest first. Those that killed processes left are removed.
    fn others(&self) -> Vec<PathBuf> {
        let entries = std::fs::read_dir(&self.path).into_iter().flatten().flatten();
        let mut doors = Vec::new();
        for entry in entries {
            let Some(name) = entry.file_name().to_str().map(ToOwned::to_owned) else { continue };
            let process = name.rsplit_once('.').and_then(|(_, id)| id.parse::<u32>().ok());
            if !process.is_some_and(|id| Path::new("/proc").join(id.to_string()).exists()) {
                // Somebody else may have removed it.
                let _ = std::fs::remove_file(entry.path());
            } else if name.starts_with(&self.prefix) && name != self.own_name() {
                let made = entry.metadata().and_then(|meta| meta.modified()).ok();
                doors.push((made, self.way_to(&name)));
            }
        }
        doors.sort();
        doors.into_iter().rev().map(|(_, door)| door).collect()
    }
}

/// Removes a door when nobody waits behind it any more.
struct RemoveLater(PathBuf);

impl Drop for RemoveLater {
    fn drop(&mut self) {
        // A successor may have removed it already.
        let _ = std::fs::remove_file(&self.0);
    }
}
