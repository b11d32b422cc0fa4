//! Where connections are tried from: on one machine, as root, from inside the network namespace of a pod, which is on the
//! isolated network as clients are.

use std::future::Future;
use std::io;
use std::path::{Path, PathBuf};

use causeway_node::networks;
use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt;

use crate::parts::network_namespace::from_inside;

/// The network namespace of a pod of this machine.
#[derive(Debug, Clone)]
pub(super) struct Vantage {
    path: PathBuf,
    uid: String,
    /// The pod, for people.
    pub(super) pod: String,
}

impl Vantage {
    /// That of the first of these pods that has one here which may be entered.
    pub(super) fn of<'a>(pods: impl IntoIterator<Item = &'a Pod>) -> Option<Self> {
        pods.into_iter().find_map(|pod| {
            let uid = pod.uid()?;
            let path = Path::new("/run/netns").join(format!("causeway-{uid}"));
            let may_enter = path.exists() && rustix::process::geteuid().is_root();
            may_enter.then(|| Self { path, uid, pod: pod.name_any() })
        })
    }

    /// The bridge of this machine that the pod is plugged into.
    pub(super) fn bridge(&self) -> Option<String> {
        networks::bridge_of(&self.uid)
    }

    /// Does something whose sockets are all of that namespace.
    ///
    /// # Errors
    /// When the namespace can't be entered.
    pub(super) fn work<T: Send, F: Future<Output = T>>(
        &self,
        work: impl FnOnce() -> F + Send,
    ) -> io::Result<T> {
        from_inside(&self.path, work)
    }
}
