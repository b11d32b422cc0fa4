//! The isolated network: which NetworkAttachmentDefinition is asked for, and what became of it on each pod.

use std::net::IpAddr;

use causeway_api::{ProxyServer, names};
use k8s_openapi::api::core::v1::{Node, Pod};
use kube::api::{ApiResource, DynamicObject, GroupVersionKind, ListParams};
use kube::{Api, Client, ResourceExt};

use crate::commands::doctor::finding::Finding;
use crate::parts::refusal;

/// What runs the pods: it decides what a lacking address can mean.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::commands::doctor) enum Place {
    /// The node of `causeway up`, whose pods have the machine's own addresses, and as root are attached to networks.
    OneMachine,
    Cluster,
}

impl Place {
    pub(in crate::commands::doctor) async fn of(client: &Client) -> Self {
        let nodes = Api::<Node>::all(client.clone()).list(&ListParams::default()).await;
        let is_ours = |node: &Node| {
            let info = node.status.as_ref().and_then(|status| status.node_info.as_ref());
            info.is_some_and(|info| info.container_runtime_version.starts_with("causeway-process://"))
        };
        if nodes.is_ok_and(|list| list.items.iter().any(is_ours)) { Self::OneMachine } else { Self::Cluster }
    }

    pub(super) fn cure_of_lacking_address(self, proxy: &ProxyServer) -> String {
        let network = &proxy.spec.network_config;
        match (self, &network.network_attachment_name) {
            (Self::OneMachine, Some(name)) if !is_loopback(proxy) => format!(
                "look at the pod's Events and at NetworkAttachmentDefinition {name}: `causeway up` attaches pods if it runs \
                 as root"
            ),
            (Self::OneMachine, _) => format!(
                "no interface of this machine has {}: add it (`ip address add`), or write an address in \
                 spec.networkConfig.serverIP that the machine has, for example one of 127.0.0.0/8",
                network.server_ip.as_deref().unwrap_or_default()
            ),
            (Self::Cluster, None) => "name a NetworkAttachmentDefinition in \
                                      spec.networkConfig.networkAttachmentName, or write an address that the node has"
                .to_owned(),
            (Self::Cluster, Some(name)) => format!(
                "look at the pod's annotation {} and at the address range of NetworkAttachmentDefinition {name}",
                names::ANNOTATION_NETWORK_STATUS
            ),
        }
    }
}

/// Whether the address that is asked for is every process's on a machine.
fn is_loopback(proxy: &ProxyServer) -> bool {
    let address = proxy.spec.network_config.server_ip.as_deref().unwrap_or_default();
    let address = address.split('/').next().unwrap_or_default();
    address.parse::<IpAddr>().is_ok_and(|address| address.is_loopback())
}

/// The attachment, if one is asked for.
pub(super) async fn attachment(
    client: &Client,
    proxy: &ProxyServer,
    pods: &[Pod],
    place: Place,
) -> Vec<Finding> {
    let wanted = &proxy.spec.network_config;
    let Some(name) = &wanted.network_attachment_name else {
        return vec![Finding::skipped("no NetworkAttachmentDefinition is asked for")];
    };
    if place == Place::OneMachine && is_loopback(proxy) {
        return vec![Finding::skipped(format!(
            "NetworkAttachmentDefinition {name} is not used: all of 127.0.0.0/8 is this machine's own"
        ))];
    }
    let own = proxy.namespace().unwrap_or_default();
    let namespace = wanted.network_attachment_namespace.clone().unwrap_or(own);
    let kind = ApiResource::from_gvk_with_plural(
        &GroupVersionKind::gvk("k8s.cni.cncf.io", "v1", "NetworkAttachmentDefinition"),
        "network-attachment-definitions",
    );
    let api: Api<DynamicObject> = Api::namespaced_with(client.clone(), &namespace, &kind);
    let definition = match api.get_opt(name).await {
        Ok(Some(_)) => Finding::good(format!("NetworkAttachmentDefinition {namespace}/{name} exists")),
        Ok(None) => {
            // No pod can be attached to what is not there.
            return vec![Finding::bad(
                format!("there is no NetworkAttachmentDefinition {namespace}/{name}"),
                "create it, or correct networkAttachmentName and networkAttachmentNamespace",
            )];
        }
        Err(error) => Finding::skipped(refusal::words(&error)),
    };
    let of_pod = |pod: &Pod| {
        let networks = pod.annotations().get(names::ANNOTATION_NETWORK_STATUS);
        let pod = pod.name_any();
        if networks.is_some_and(|text| text.contains(&format!("\"{namespace}/{name}\""))) {
            return Finding::good(format!("pod {pod} is attached to {namespace}/{name}"));
        }
        Finding::bad(
            format!("pod {pod} is not attached to {namespace}/{name}"),
            match place {
                Place::OneMachine => "the pod's Events say why".to_owned(),
                Place::Cluster => format!(
                    "its annotation {} does not name it: see whether Multus runs, and the pod's Events",
                    names::ANNOTATION_NETWORK_STATUS
                ),
            },
        )
    };
    std::iter::once(definition).chain(pods.iter().map(of_pod)).collect()
}
