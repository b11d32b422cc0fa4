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

/// Standard label: what an object belongs to. All that an installation consists of has it, and nothing that the operator makes.
pub const LABEL_PART_OF: &str = "app.kubernetes.io/part-of";
/// Value of [`LABEL_PART_OF`].
pub const PART_OF: &str = "causeway";
/// Standard label: the version that wrote an object of an installation.
pub const LABEL_VERSION: &str = "app.kubernetes.io/version";
/// Standard label: the name of an installation.
pub const LABEL_INSTANCE: &str = "app.kubernetes.io/instance";
/// Standard label: what an object of an installation is for.
pub const LABEL_PART: &str = "app.kubernetes.io/component";
/// Value of [`LABEL_MANAGED_BY`] on objects that `causeway install` made.
pub const INSTALLER: &str = "causeway-install";

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
/// Value of [`LABEL_APP`] on pods that find out whether a proxy's next image can be had.
pub const APP_IMAGE_CHECK: &str = "image-check";
/// Value of [`LABEL_APP`] on pods of a `DNSServer`.
pub const APP_DNS: &str = "dns-server";
/// Value of [`LABEL_APP`] on pods of a `DHCPServer`.
pub const APP_DHCP: &str = "dhcp-server";
/// Value of [`LABEL_APP`] on pods of a Gateway.
pub const APP_GATEWAY: &str = "gateway";
/// Value of [`LABEL_APP`] on pods of the cluster's end of workstations.
pub const APP_STOWAWAY: &str = "stowaway";
/// Value of [`LABEL_APP`] on pods that stand in front of an intercepted workload, or in its place.
pub const APP_CARRIER: &str = "carrier";
/// Name of the cluster's end of workstations and of what belongs to it, in the operator's namespace.
pub const STOWAWAY: &str = "causeway-stowaway";
/// On a workload or a namespace: `deny` forbids intercepts.
pub const INTERCEPT: &str = "causeway.dev/intercept";
/// Gateway API: the Gateway that an object was made for.
pub const LABEL_GATEWAY_NAME: &str = "gateway.networking.k8s.io/gateway-name";
/// The class of Gateways that is there from the start.
pub const GATEWAY_CLASS: &str = "causeway";

/// On what an intercept changed: what it was before, with proof that the operator wrote it.
pub const ANNOTATION_ORIGINAL: &str = "causeway.dev/original";
/// Digest of the desired state that an object was made from.
pub const ANNOTATION_SPEC_HASH: &str = "causeway.dev/spec-hash";
/// Digest of the start configuration that a pod was made with; another one makes another pod.
pub const ANNOTATION_CONFIG_HASH: &str = "causeway.dev/config-hash";
/// Digest of the pod template that a Deployment was made with; another one replaces its pod.
pub const ANNOTATION_TEMPLATE_HASH: &str = "causeway.dev/template-hash";
/// Digest of what of a spec a Deployment's pod was made of: what else changes in the pod is an update.
pub const ANNOTATION_ASKED_HASH: &str = "causeway.dev/asked-hash";
/// Uid of the ServiceAccount that a pod was made with; the token of another one of that name is void.
pub const ANNOTATION_ACCOUNT: &str = "causeway.dev/service-account-uid";
/// Id of the tunnel that an EndpointSlice was written for.
pub const ANNOTATION_TUNNEL_ID: &str = "causeway.dev/tunnel-id";
/// Multus: the networks to attach a pod to, a JSON list.
pub const ANNOTATION_NETWORKS: &str = "k8s.v1.cni.cncf.io/networks";
/// Multus: what a pod was attached to.
pub const ANNOTATION_NETWORK_STATUS: &str = "k8s.v1.cni.cncf.io/network-status";

/// Keeps a `ProxyServer` until its Roles in other namespaces are gone.
pub const FINALIZER_PROXY: &str = "causeway.dev/proxy";
/// Keeps a `DNSServer` or `DHCPServer` until its addresses in other namespaces are given up.
pub const FINALIZER_SERVER: &str = "causeway.dev/server";
/// Keeps a `ProxyServer` until the routes that were attached to it no longer say so.
pub const FINALIZER_ROUTES: &str = "causeway.dev/routes";
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

/// The one HostnameGrant of a namespace.
pub const HOSTNAME_GRANT: &str = "hostnames";
/// Namespace of the gateways that hostnames are put on.
pub const EDGE_NAMESPACE: &str = "causeway-edge";
/// On what was made for hostnames: how widely the gateway is seen.
pub const LABEL_VISIBILITY: &str = "causeway.dev/visibility";
/// On a gateway of the pool: the web application firewall that it has.
pub const ANNOTATION_WAF: &str = "causeway.dev/waf-arn";

/// Prefix of every field manager; a controller appends its own name.
pub const FIELD_MANAGER: &str = "causeway";
/// Namespace of the operator's own objects.
pub const NAMESPACE: &str = "causeway-system";
/// ServiceAccount of the operator in [`NAMESPACE`].
pub const OPERATOR_ACCOUNT: &str = "causeway-operator";
/// Lease that elects the operator's leader.
pub const LEADER_LEASE: &str = "causeway-operator";

/// The image of this binary, without a tag. The local node runs it as a child process.
pub const OWN_IMAGE: &str = "causeway.dev/causeway";
/// Envoy, where `engine: Envoy` names no `proxyImage`.
pub const ENVOY_IMAGE: &str = "envoyproxy/envoy:v1.40.0";

/// The file in the ConfigMap of [`accepted_config_map`].
pub const ACCEPTED_FILE: &str = "proxyserver.json";

/// The file in a server's ConfigMap with the last spec that its pods took.
pub const ACCEPTED_SERVER_FILE: &str = "accepted.json";
/// The entry of a DNS server's ConfigMap with the addresses that the pod network is sent to.
pub const INTERNAL_ADDRESSES: &str = "internalAddresses";
/// The entry of a DHCP server's ConfigMap with what of its network is its own: ranges and reservations, in words. Its pods take
/// no others into use.
pub const CLEARED_SHARE: &str = "share";
/// The entry of a DHCP server's ConfigMap with addresses in its range that are other servers', separated by commas.
pub const TAKEN_ADDRESSES: &str = "taken";
/// Its entry with how many servers shared the range before, and until when that matters.
pub const SHARED_BEFORE: &str = "before";
/// Its entry with addresses and ports on the isolated network that the pods try to reach.
pub const NEIGHBOURS: &str = "neighbours";
/// The entry of a DHCP server's ConfigMap with the clients that are served: lines of a card and a name.
pub const SERVED_CLIENTS: &str = "clients";

/// The ConfigMap with what the operator tells a server's pods; `role` is `dns` or `dhcp`.
pub fn server_config_map(server: &str, role: &str) -> String {
    format!("{server}-{role}-config")
}

/// The ConfigMap in which the pods of a DHCP server write the names of their clients: an entry for each replica, with lines
/// of a name and an address.
pub fn lease_names_config_map(server: &str) -> String {
    format!("{server}-dhcp-names")
}

/// The ConfigMap in which the pods of a DHCP server write their leases, for people to see: an entry for each replica.
pub fn leases_config_map(server: &str) -> String {
    format!("{server}-dhcp-leases")
}

/// The ConfigMap with the last spec of a proxy that its pods took, for as long as a newer one is refused.
pub fn accepted_config_map(proxy: &str) -> String {
    format!("{proxy}-proxy-accepted")
}

/// The field manager of one controller: `causeway-infra`.
pub fn field_manager(controller: &str) -> String {
    format!("{FIELD_MANAGER}-{controller}")
}

/// This binary's image in one version: `causeway.dev/causeway:0.1.0`.
pub fn own_image(version: &str) -> String {
    format!("{OWN_IMAGE}:{version}")
}

/// The field manager that a pod of a server writes its own entry of the status as; `role` is `dns` or `dhcp`.
pub fn server_report_manager(role: &str, pod: &str) -> String {
    field_manager(&format!("{role}-{pod}"))
}

/// The field manager that a pod of a Gateway writes its own entry of the plan's status as.
pub fn gateway_report_manager(pod: &str) -> String {
    field_manager(&format!("gateway-{pod}"))
}

/// The field manager that a pod of the cluster's end writes its own entry of a Workstation's status as.
pub fn stowaway_report_manager(pod: &str) -> String {
    field_manager(&format!("stowaway-{pod}"))
}

/// The field manager that a replica of a proxy writes its own entry of the status as.
pub fn report_manager(pod: &str) -> String {
    field_manager(&format!("proxy-{pod}"))
}
