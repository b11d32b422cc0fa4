//! Every name that Causeway gives to things in Kubernetes: group, labels, annotations, finalizers, field managers,
//! images. One file, so that two writers can't disagree.

/// The API group of all kinds.
pub const GROUP: &str = "causeway.dev";
/// The only served version.
pub const VERSION: &str = "v1alpha1";
/// What `apiVersion` says.
pub const API_VERSION: &str = "causeway.dev/v1alpha1";
/// `kubectl get causeway` lists every kind.
pub const CATEGORY: &str = "causeway";

/// Name of the object that a child was made for.
pub const LABEL_OWNER_NAME: &str = "causeway.dev/owner-name";
/// Namespace of the object that a child was made for, where that is another one than the child's.
pub const LABEL_OWNER_NAMESPACE: &str = "causeway.dev/owner-namespace";
/// Kind of the object that a child was made for.
pub const LABEL_OWNER_KIND: &str = "causeway.dev/owner-kind";
/// Uid of the object that a child was made for; the inventory that pruning works on.
pub const LABEL_INVENTORY: &str = "causeway.dev/inventory";
/// Component of an `Infra`: `dhcp`, `dns` or `proxy`.
pub const LABEL_COMPONENT: &str = "causeway.dev/component";
/// Which of a proxy's addresses a pod has: 1 for the first.
pub const LABEL_REPLICA: &str = "causeway.dev/replica";
/// Name of the CNTP that an EndpointSlice's tunnel belongs to.
pub const LABEL_TUNNEL_PROXY: &str = "causeway.dev/tunnel-proxy";
/// The `app` label that users of the prior systems select pods by.
pub const LABEL_APP: &str = "app";
/// Standard label: the tool that manages an object.
pub const LABEL_MANAGED_BY: &str = "app.kubernetes.io/managed-by";
/// Value of [`LABEL_MANAGED_BY`].
pub const MANAGED_BY: &str = "causeway";

/// Value of [`LABEL_APP`] on pods of a `ProxyServer`.
pub const APP_PROXY: &str = "proxy-server";
/// Value of [`LABEL_APP`] on pods of a `DNSServer`.
pub const APP_DNS: &str = "dns-server";
/// Value of [`LABEL_APP`] on pods of a `DHCPServer`.
pub const APP_DHCP: &str = "dhcp-server";

/// Digest of the desired state that an object was made from.
pub const ANNOTATION_SPEC_HASH: &str = "causeway.dev/spec-hash";
/// Digest of the start configuration that a pod was made with; another one makes another pod.
pub const ANNOTATION_CONFIG_HASH: &str = "causeway.dev/config-hash";
/// Id of the tunnel that an EndpointSlice was written for.
pub const ANNOTATION_TUNNEL_ID: &str = "causeway.dev/tunnel-id";
/// Multus: the networks to attach a pod to, a JSON list.
pub const ANNOTATION_NETWORKS: &str = "k8s.v1.cni.cncf.io/networks";
/// Multus: what a pod was attached to.
pub const ANNOTATION_NETWORK_STATUS: &str = "k8s.v1.cni.cncf.io/network-status";

/// Keeps a `ProxyServer` until its Roles in other namespaces are gone.
pub const FINALIZER_PROXY: &str = "causeway.dev/proxy";
/// Keeps a `ContainerNetwork` until the runtime's network is gone.
pub const FINALIZER_CONTAINER_NETWORK: &str = "causeway.dev/container-network";
/// Keeps a CNTP until its container, listeners and EndpointSlices are gone.
pub const FINALIZER_TUNNEL_PROXY: &str = "causeway.dev/tunnel-proxy";
/// Keeps a `Workstation` until its peer is removed.
pub const FINALIZER_WORKSTATION: &str = "causeway.dev/workstation";
/// Keeps an `InterceptRequest` until its target is restored.
pub const FINALIZER_INTERCEPT: &str = "causeway.dev/intercept";
/// Keeps a `GatewayHostnameRequest` until records and certificate are gone.
pub const FINALIZER_HOSTNAME: &str = "causeway.dev/hostname";

/// Prefix of every field manager; a controller appends its own name.
pub const FIELD_MANAGER: &str = "causeway";
/// Namespace of the operator's own objects.
pub const NAMESPACE: &str = "causeway-system";
/// Lease that elects the operator's leader.
pub const LEADER_LEASE: &str = "causeway-operator";

/// The image of this binary, without a tag. The local node runs it as a child process.
pub const OWN_IMAGE: &str = "causeway.dev/causeway";
/// Envoy, where `engine: Envoy` names no `proxyImage`.
pub const ENVOY_IMAGE: &str = "envoyproxy/envoy:v1.40.0";

/// The field manager of one controller: `causeway-infra`.
pub fn field_manager(controller: &str) -> String {
    format!("{FIELD_MANAGER}-{controller}")
}

/// This binary's image in one version: `causeway.dev/causeway:0.1.0`.
pub fn own_image(version: &str) -> String {
    format!("{OWN_IMAGE}:{version}")
}

/// The field manager that a replica of a proxy writes its own entry of the status as.
pub fn report_manager(pod: &str) -> String {
    field_manager(&format!("proxy-{pod}"))
}
