//! The ports of pods (`pods/portforward`), as the node reaches them.

use causeway_apiserver::{PodPorts, PodTarget};
use causeway_base::report;
use causeway_node::{PodName, PortDialer};
use futures::future::BoxFuture;
use tokio::net::TcpStream;

/// What connects to the pods of the node in this process.
pub(super) struct NodePorts(pub PortDialer);

impl PodPorts for NodePorts {
    fn connect(&self, pod: PodTarget, port: u16) -> BoxFuture<'static, Result<TcpStream, String>> {
        let dialer = self.0.clone();
        Box::pin(async move {
            let PodTarget { namespace, name, uid, host_network } = pod;
            let pod = PodName { namespace, name, uid, host_network };
            dialer.connect(&pod, port).await.map_err(|error| report::chain(&error))
        })
    }
}
