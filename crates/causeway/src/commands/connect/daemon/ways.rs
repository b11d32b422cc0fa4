//! The ways to the cluster's end that a Workstation's status tells, and how each is gone.

use std::io;
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use causeway_api::WorkstationStatus;
use causeway_netstack::wireguard::{PublicKey, SecretKey};
use causeway_stowaway::Way;
use causeway_stowaway::laptop::{Approach, Dial, Duplex, WireGuard};
use k8s_openapi::api::core::v1::Pod;
use kube::{Api, Client};

use crate::parts::connection::Keys;
use crate::parts::refusal;

/// What of a status says where the cluster's end is.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Ways {
    link: Vec<String>,
    forward: Option<Forward>,
    wireguard: Option<Tunnel>,
}

/// The pods that links can be forwarded to.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Forward {
    namespace: String,
    pods: Vec<String>,
    port: u16,
}

/// The other end of a WireGuard tunnel.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Tunnel {
    /// HOST:PORT.
    endpoint: String,
    server: PublicKey,
    /// This machine's address inside.
    address: IpAddr,
}

impl Tunnel {
    /// What a status says of it; none if it does not say all.
    fn of(status: &WorkstationStatus) -> Option<Self> {
        Some(Self {
            endpoint: status.endpoint.clone()?,
            server: status.server_public_key.as_deref()?.parse().ok()?,
            address: status.address.as_deref()?.parse().ok()?,
        })
    }

    fn approach(&self, key: &SecretKey) -> Approach {
        let Self { endpoint, server, address } = self.clone();
        WireGuard { key: key.0, hub: server.0, endpoint, address }.into()
    }
}

impl Ways {
    /// Those of a status that may be used; all if none is `wanted`.
    pub(super) fn of(status: &WorkstationStatus, wanted: &[Way]) -> Self {
        let may = |way| wanted.is_empty() || wanted.contains(&way);
        let mut link = status.link_endpoints.clone();
        link.sort();
        let forward = status.stowaway.as_ref().filter(|stowaway| !stowaway.pods.is_empty()).map(|stowaway| {
            let mut pods = stowaway.pods.clone();
            pods.sort();
            Forward { namespace: stowaway.namespace.clone(), pods, port: stowaway.port }
        });
        Self {
            link: if may(Way::Link) { link } else { Vec::new() },
            forward: forward.filter(|_| may(Way::PortForward)),
            wireguard: Tunnel::of(status).filter(|_| may(Way::WireGuard)),
        }
    }

    /// How they are gone, the best first.
    pub(super) fn approaches(&self, client: &Client, keys: &Keys) -> Vec<Approach> {
        let mut all = Vec::new();
        if !self.link.is_empty() {
            all.push(Approach::Direct(self.link.clone()));
        }
        if let Some(forward) = &self.forward {
            all.push(Approach::Bridge { way: Way::PortForward, dial: forward.dial(client.clone()) });
        }
        if let Some(wireguard) = &self.wireguard {
            all.push(wireguard.approach(&keys.wireguard));
        }
        all
    }
}

impl Forward {
    /// Through the API server, to one of the pods after the other.
    fn dial(&self, client: Client) -> Dial {
        let (forward, turn) = (Arc::new(self.clone()), Arc::new(AtomicUsize::new(0)));
        Arc::new(move || {
            let (client, forward) = (client.clone(), Arc::clone(&forward));
            let first = turn.fetch_add(1, Ordering::Relaxed);
            Box::pin(async move {
                let mut last = None;
                for step in 0..forward.pods.len() {
                    let pod = &forward.pods[(first + step) % forward.pods.len()];
                    match forward.one(&client, pod).await {
                        Ok(stream) => return Ok(stream),
                        Err(error) => last = Some(error),
                    }
                }
                Err(last.unwrap_or_else(|| io::ErrorKind::NotFound.into()))
            })
        })
    }

    async fn one(&self, client: &Client, pod: &str) -> io::Result<Box<dyn Duplex>> {
        let pods: Api<Pod> = Api::namespaced(client.clone(), &self.namespace);
        let refused = |error: kube::Error| {
            io::Error::new(
                io::ErrorKind::ConnectionRefused,
                format!("pod {pod}: {}", refusal::advice(&error)),
            )
        };
        let mut forwarded = pods.portforward(pod, &[self.port]).await.map_err(refused)?;
        let stream = forwarded.take_stream(self.port).ok_or(io::ErrorKind::NotConnected)?;
        // Its task goes on until the stream is dropped.
        Ok(Box::new(stream))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_status_tells_the_ways() {
        let status: WorkstationStatus = serde_json::from_value(json!({
            "linkEndpoints": ["b:1", "a:1"],
            "stowaway": {"namespace": "causeway-system", "pods": ["two", "one"], "port": 7844},
            "address": "10.213.0.7", "endpoint": "node:31820",
            "serverPublicKey": "HIgo9xNzJMWLKASShiTqIybxZ0U3wGLiUeJ1PKf8ykw=",
        }))
        .unwrap();
        let all = Ways::of(&status, &[]);
        assert_eq!(all.link, ["a:1", "b:1"]);
        assert_eq!(all.forward.as_ref().unwrap().pods, ["one", "two"]);
        assert!(all.wireguard.is_some());
        let one = Ways::of(&status, &[Way::PortForward]);
        assert_eq!((one.link.len(), one.forward, one.wireguard), (0, all.forward, None));
        assert_eq!(Ways::of(&WorkstationStatus::default(), &[]), Ways::default());
    }
}
