//! Connects to ports of pods, for `kubectl port-forward`: at the pod's address of this machine, in a container of a runtime, or
//! in a network namespace of its own. As [`crate::logs`] it needs only the data directory.

use std::{
    fs, io,
    net::{IpAddr, SocketAddr},
    path::PathBuf,
    time::Duration,
};

use tokio::{net::TcpStream, time::timeout};

use crate::{layout::PodDir, network, process::attempt::Attempt};

/// A pod of this machine answers at once, or does not at all.
const LIMIT: Duration = Duration::from_secs(10);

/// Why a port of a pod is not reached; the text is for people.
#[derive(Debug, thiserror::Error)]
pub enum PortError {
    #[error("pod {namespace}/{name} is not on this node")]
    NotHere { namespace: String, name: String },
    #[error("no container of pod {namespace}/{name} is running")]
    NotRunning { namespace: String, name: String },
    #[error("cannot read what is known of the pod in {path}")]
    Read { path: PathBuf, source: io::Error },
    #[error("cannot connect to {address}")]
    Connect { address: SocketAddr, source: io::Error },
}

/// A pod, as the API has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PodName {
    pub namespace: String,
    pub name: String,
    pub uid: String,
    /// It has no address of its own.
    pub host_network: bool,
}

/// Connects to ports of the pods below a node's data directory.
#[derive(Clone, Debug)]
pub struct PortDialer {
    data_dir: PathBuf,
    host: IpAddr,
}

impl PortDialer {
    /// A dialer for the node with this data directory and this address.
    pub fn new(data_dir: impl Into<PathBuf>, host: IpAddr) -> Self {
        Self { data_dir: data_dir.into(), host }
    }

    /// Connects to a port of a pod.
    ///
    /// # Errors
    /// When the pod does not run here, or nothing listens there.
    pub async fn connect(&self, pod: &PodName, port: u16) -> Result<TcpStream, PortError> {
        let address = SocketAddr::new(self.address(pod)?, port);
        let failed = |source| PortError::Connect { address, source };
        let connected = timeout(LIMIT, TcpStream::connect(address)).await;
        let stream = match connected.unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into())) {
            Ok(stream) => stream,
            Err(error) => self.connect_inside(pod, port).await.unwrap_or(Err(error)).map_err(failed)?,
        };
        stream.set_nodelay(true).map_err(failed)?;
        Ok(stream)
    }

    /// In a network namespace a program may listen on nothing but its own 127.0.0.1. None for pods without one.
    async fn connect_inside(&self, pod: &PodName, port: u16) -> Option<io::Result<TcpStream>> {
        if !network::is_there(&pod.uid) {
            return None;
        }
        let uid = pod.uid.clone();
        let connected = tokio::task::spawn_blocking(move || network::connect_inside(&uid, port)).await;
        let stream = connected.unwrap_or_else(|error| Err(io::Error::other(error)));
        Some(stream.and_then(|stream| {
            stream.set_nonblocking(true)?;
            TcpStream::from_std(stream)
        }))
    }

    /// Where the pod is, if one of its containers runs.
    fn address(&self, pod: &PodName) -> Result<IpAddr, PortError> {
        let PodName { namespace, name, uid, host_network } = pod;
        let dir = PodDir::new(&self.data_dir, namespace, name, uid);
        let not_here = || PortError::NotHere { namespace: namespace.clone(), name: name.clone() };
        let failed = |source| PortError::Read { path: dir.path().to_owned(), source };
        if !dir.path().exists() {
            return Err(not_here());
        }
        let running = running(&dir).map_err(failed)?;
        if running.is_empty() {
            return Err(PortError::NotRunning { namespace: namespace.clone(), name: name.clone() });
        }
        if let Some(address) = running.iter().find_map(|attempt| attempt.address().ok().flatten()) {
            return Ok(address);
        }
        if *host_network {
            return Ok(self.host);
        }
        let address = fs::read_to_string(dir.address_file()).map_err(failed)?;
        address.trim().parse().map_err(|_| not_here())
    }
}

/// The attempts of the pod's containers that run.
fn running(dir: &PodDir) -> io::Result<Vec<Attempt>> {
    let mut running = Vec::new();
    for container in dir.containers()? {
        let Some((_, attempt)) = Attempt::newest(&dir.container(&container))? else { continue };
        let is_alive = attempt.record()?.is_some_and(|record| record.shim.is_alive());
        if is_alive && attempt.exit()?.is_none() {
            running.push(attempt);
        }
    }
    Ok(running)
}

#[cfg(test)]
mod tests {
    use std::net::{Ipv4Addr, TcpListener};

    use causeway_containers::Identity;
    use jiff::Timestamp;

    use super::*;
    use crate::process::{Exit, attempt::Record};

    fn pod(host_network: bool) -> PodName {
        PodName { namespace: "ns".into(), name: "web".into(), uid: "u".into(), host_network }
    }

    #[tokio::test]
    async fn a_pod_is_reached_while_it_runs_and_where_it_is() {
        let root = tempfile::tempdir().unwrap();
        let dialer = PortDialer::new(root.path(), Ipv4Addr::LOCALHOST.into());
        assert!(matches!(dialer.connect(&pod(false), 1).await, Err(PortError::NotHere { .. })));
        let dir = PodDir::new(root.path(), "ns", "web", "u");
        dir.create().unwrap();
        assert!(matches!(dialer.connect(&pod(false), 1).await, Err(PortError::NotRunning { .. })));

        let own = Ipv4Addr::new(127, 128, 77, 3);
        dir.write_address(own).unwrap();
        let attempt = Attempt::at(dir.attempt("main", 0));
        fs::create_dir_all(attempt.directory()).unwrap();
        // This process stands for the shim.
        let me = Record { shim: Identity::own().unwrap(), started_at: Timestamp::now() };
        attempt.write_record(&me).unwrap();
        let listener = TcpListener::bind((own, 0)).unwrap();
        let port = listener.local_addr().unwrap().port();
        let stream = dialer.connect(&pod(false), port).await.unwrap();
        assert_eq!(stream.peer_addr().unwrap(), SocketAddr::from((own, port)));
        let missing = dialer.connect(&pod(true), port).await.unwrap_err();
        assert!(matches!(missing, PortError::Connect { address, .. } if address.ip() == Ipv4Addr::LOCALHOST));

        let container = Ipv4Addr::new(127, 128, 77, 4);
        attempt.write_address(container.into()).unwrap();
        let inner = TcpListener::bind((container, 0)).unwrap().local_addr().unwrap();
        let refused = dialer.connect(&pod(false), inner.port()).await.unwrap_err();
        assert!(matches!(refused, PortError::Connect { address, .. } if address == inner), "{refused}");

        attempt.write_exit(&Exit::unseen(Timestamp::now())).unwrap();
        assert!(matches!(dialer.connect(&pod(false), port).await, Err(PortError::NotRunning { .. })));
    }
}
