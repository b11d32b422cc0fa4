//! The ports of pods (`pods/portforward`), as the node reaches them.

use causeway_api::names;
use causeway_apiserver::{PodPorts, PodTarget};
use causeway_base::report;
use causeway_node::{PodName, PortDialer};
use causeway_translate::intercept::names::LINK_PORT;
use futures::future::BoxFuture;
use tokio::net::TcpStream;

/// What connects to the pods of the node in this process.
pub(super) struct NodePorts(pub PortDialer);

/// Whether a port of a pod may be forwarded. Whoever is signed in may forward those of the cluster's end for workstations, whose
/// address is the machine's: with other ports than its own they would reach whatever listens there.
fn may_forward(pod: &PodTarget, port: u16) -> bool {
    let is_shared = pod.namespace == names::NAMESPACE && pod.name.starts_with(names::STOWAWAY);
    !is_shared || port == LINK_PORT
}

impl PodPorts for NodePorts {
    fn connect(&self, pod: PodTarget, port: u16) -> BoxFuture<'static, Result<TcpStream, String>> {
        let dialer = self.0.clone();
        Box::pin(async move {
            if !may_forward(&pod, port) {
                return Err(format!("of pod {} only port {LINK_PORT} can be forwarded", pod.name));
            }
            let PodTarget { namespace, name, uid, host_network } = pod;
            let pod = PodName { namespace, name, uid, host_network };
            dialer.connect(&pod, port).await.map_err(|error| report::chain(&error))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_the_end_for_workstations_only_the_port_for_links_is_forwarded() {
        let pod = |namespace: &str, name: &str| PodTarget {
            namespace: namespace.to_owned(),
            name: name.to_owned(),
            uid: "u".to_owned(),
            host_network: false,
        };
        let shared = pod("causeway-system", "causeway-stowaway-5d9f-x");
        assert!(may_forward(&shared, LINK_PORT) && !may_forward(&shared, 22) && !may_forward(&shared, 9080));
        assert!(may_forward(&pod("shop", "causeway-stowaway-x"), 22) && may_forward(&pod("shop", "web"), 80));
    }
}
