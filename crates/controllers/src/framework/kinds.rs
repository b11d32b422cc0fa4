//! The kinds that controllers make and read, each said once.

use causeway_api::names;

use crate::framework::children::ChildKind;

pub(crate) const SERVICE: ChildKind = core("Service", "services");
pub(crate) const CONFIG_MAP: ChildKind = core("ConfigMap", "configmaps");
pub(crate) const SERVICE_ACCOUNT: ChildKind = core("ServiceAccount", "serviceaccounts");
pub(crate) const POD: ChildKind = core("Pod", "pods");
pub(crate) const PERSISTENT_VOLUME_CLAIM: ChildKind = core("PersistentVolumeClaim", "persistentvolumeclaims");
pub(crate) const NETWORK_POLICY: ChildKind = kind("networking.k8s.io", "NetworkPolicy", "networkpolicies");
pub(crate) const NETWORK_ATTACHMENT: ChildKind =
    kind("k8s.cni.cncf.io", "NetworkAttachmentDefinition", "network-attachment-definitions");
/// KubeVirt's, which a cluster may have in an older version or not at all.
pub(crate) const VIRTUAL_MACHINE_INSTANCE: ChildKind = ChildKind {
    older: &["v1alpha3"],
    ..kind("kubevirt.io", "VirtualMachineInstance", "virtualmachineinstances")
};
pub(crate) const DEPLOYMENT: ChildKind = kind("apps", "Deployment", "deployments");
pub(crate) const STATEFUL_SET: ChildKind = kind("apps", "StatefulSet", "statefulsets");
pub(crate) const POD_DISRUPTION_BUDGET: ChildKind =
    kind("policy", "PodDisruptionBudget", "poddisruptionbudgets");
pub(crate) const ENDPOINT_SLICE: ChildKind = kind("discovery.k8s.io", "EndpointSlice", "endpointslices");
pub(crate) const ROLE: ChildKind = rbac("Role", "roles");
pub(crate) const ROLE_BINDING: ChildKind = rbac("RoleBinding", "rolebindings");
pub(crate) const NAMESPACE: ChildKind = core("Namespace", "namespaces");
pub(crate) const SUPPLY: ChildKind = own("Supply", "supplies");
pub(crate) const SECRET: ChildKind = core("Secret", "secrets");
pub(crate) const GATEWAY_PLAN: ChildKind = own("GatewayPlan", "gatewayplans");
pub(crate) const GATEWAY_PARAMETERS: ChildKind = own("GatewayParameters", "gatewayparameters");
pub(crate) const TRAFFIC_POLICY: ChildKind = own("TrafficPolicy", "trafficpolicies");
pub(crate) const GATEWAY_CLASS: ChildKind = gateway("GatewayClass", "gatewayclasses", &["v1beta1"]);
pub(crate) const GATEWAY: ChildKind = gateway("Gateway", "gateways", &["v1beta1"]);
pub(crate) const LISTENER_SET: ChildKind = gateway("ListenerSet", "listenersets", &[]);
pub(crate) const HTTP_ROUTE: ChildKind = gateway("HTTPRoute", "httproutes", &["v1beta1"]);
pub(crate) const GRPC_ROUTE: ChildKind = gateway("GRPCRoute", "grpcroutes", &["v1alpha2"]);
pub(crate) const UDP_ROUTE: ChildKind = gateway("UDPRoute", "udproutes", &["v1alpha2"]);
pub(crate) const BACKEND_TLS_POLICY: ChildKind =
    gateway("BackendTLSPolicy", "backendtlspolicies", &["v1alpha3", "v1alpha2"]);
pub(crate) const DHCP_SERVER: ChildKind = own("DHCPServer", "dhcpservers");
pub(crate) const DNS_SERVER: ChildKind = own("DNSServer", "dnsservers");
pub(crate) const ADDRESS_CLAIM: ChildKind = own("AddressClaim", "addressclaims");
pub(crate) const TLS_ROUTE: ChildKind = gateway("TLSRoute", "tlsroutes", &["v1alpha3", "v1alpha2"]);
pub(crate) const TCP_ROUTE: ChildKind = gateway("TCPRoute", "tcproutes", &["v1alpha2"]);
pub(crate) const WORKSTATION: ChildKind = own("Workstation", "workstations");
pub(crate) const INTERCEPT_REQUEST: ChildKind = own("InterceptRequest", "interceptrequests");
pub(crate) const NODE: ChildKind = core("Node", "nodes");
/// Which networks Services have addresses of; older clusters don't say.
pub(crate) const SERVICE_CIDR: ChildKind = kind("networking.k8s.io", "ServiceCIDR", "servicecidrs");
pub(crate) const CONTAINER_NETWORK: ChildKind = own("ContainerNetwork", "containernetworks");
pub(crate) const GATEWAY_HOSTNAME_REQUEST: ChildKind =
    own("GatewayHostnameRequest", "gatewayhostnamerequests");
pub(crate) const DOMAIN_CLAIM: ChildKind = own("DomainClaim", "domainclaims");
pub(crate) const HOSTNAME_GRANT: ChildKind = own("HostnameGrant", "hostnamegrants");
pub(crate) const HOSTNAME_ZONE: ChildKind = own("HostnameZone", "hostnamezones");
/// The AWS Load Balancer Controller's, which most clusters don't have.
pub(crate) const LOAD_BALANCER_CONFIGURATION: ChildKind = ChildKind {
    version: "v1beta1",
    ..kind("gateway.k8s.aws", "LoadBalancerConfiguration", "loadbalancerconfigurations")
};

/// A kind of Causeway's own.
pub(crate) const fn own(kind: &'static str, plural: &'static str) -> ChildKind {
    ChildKind { group: names::GROUP, version: names::VERSION, kind, plural, older: &[] }
}

/// A kind of the Gateway API, which a cluster may have in an older version or not at all.
pub(crate) const fn gateway(
    kind: &'static str,
    plural: &'static str,
    older: &'static [&'static str],
) -> ChildKind {
    ChildKind { group: "gateway.networking.k8s.io", version: "v1", kind, plural, older }
}

const fn core(name: &'static str, plural: &'static str) -> ChildKind {
    kind("", name, plural)
}

const fn rbac(name: &'static str, plural: &'static str) -> ChildKind {
    kind("rbac.authorization.k8s.io", name, plural)
}

const fn kind(group: &'static str, kind: &'static str, plural: &'static str) -> ChildKind {
    ChildKind { group, version: "v1", kind, plural, older: &[] }
}
