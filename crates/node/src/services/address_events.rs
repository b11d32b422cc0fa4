//! Events on a Service when one of its addresses cannot be had, and when it can again: once per change, not per attempt.

use std::{collections::BTreeMap, net::SocketAddr};

use k8s_openapi::api::core::v1::Service;
use kube::runtime::reflector::{ObjectRef, Store};
use tokio::sync::watch;

use super::translate::service_of;
use crate::events::Recorder;

/// Every listener of the plan by name: its address, and why it does not listen if it does not.
pub type Listeners = BTreeMap<String, (SocketAddr, Option<String>)>;

/// Records Events until the reports on listeners end.
pub(super) async fn run(
    recorder: Recorder,
    services: &Store<Service>,
    mut listeners_rx: watch::Receiver<Listeners>,
) {
    let mut recorded: BTreeMap<String, String> = BTreeMap::new();
    while listeners_rx.changed().await.is_ok() {
        let listeners = listeners_rx.borrow_and_update().clone();
        // A listener that is gone neither fails nor works.
        recorded.retain(|name, _| listeners.contains_key(name));
        for (name, (address, error)) in &listeners {
            if recorded.get(name) == error.as_ref() {
                continue;
            }
            let service = find(services, name);
            match (error, service) {
                (Some(error), Some(service)) => {
                    let message = failure(*address, error);
                    recorder.warning(service.as_ref(), "AddressNotAvailable", &message).await;
                    recorded.insert(name.clone(), error.clone());
                }
                (None, Some(service)) => {
                    let message = format!("{address} works now");
                    recorder.normal(service.as_ref(), "AddressAvailable", &message).await;
                    recorded.remove(name);
                }
                (_, None) => {}
            }
        }
    }
}

fn find(services: &Store<Service>, listener: &str) -> Option<std::sync::Arc<Service>> {
    let (namespace, name) = service_of(listener)?;
    services.get(&ObjectRef::new(name).within(namespace))
}

/// What is wrong and what to do.
fn failure(address: SocketAddr, error: &str) -> String {
    let low = if address.port() < 1024 {
        format!(
            "; to let every user of this machine listen on such ports: sysctl net.ipv4.ip_unprivileged_port_start={}",
            address.port()
        )
    } else {
        String::new()
    };
    format!("{error}{low}. It is tried again; other Services are not affected")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_low_port_comes_with_the_way_to_allow_it() {
        let low = failure("127.96.0.2:80".parse().unwrap(), "can't listen on 127.96.0.2:80");
        assert!(low.contains("ip_unprivileged_port_start=80"), "{low}");
        let high = failure("127.96.0.2:8080".parse().unwrap(), "can't listen on 127.96.0.2:8080");
        assert!(!high.contains("sysctl"), "{high}");
    }
}
