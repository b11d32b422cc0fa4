//! Rules over the whole spec of an `Infra`: addresses against the network and against each other.

use kube::core::Rule;

use crate::rules::{bare, differ, inside, outside, required, rule, when};

const CIDR: &str = "self.networkConfig.cidr";
const GATEWAY: &str = "self.networkConfig.gateway";
const RANGE_START: &str = "self.infraComponents.dhcp.rangeStart";
const RANGE_END: &str = "self.infraComponents.dhcp.rangeEnd";

/// The backends that every `Infra` has.
pub(crate) const STANDARD_BACKENDS: &str = "['kube-apiserver', 'kube-apiserver-internal', 'oauth-openshift', \
     'ignition-server', 'kube-apiserver-kubernetes-hostname', 'konnectivity-server']";

/// True when a field of a component is written.
fn written(component: &str, field: &str) -> String {
    format!("{} && has(self.infraComponents.{component}.{field})", present(component))
}

fn present(component: &str) -> String {
    format!("has(self.infraComponents) && has(self.infraComponents.{component})")
}

fn wanted(component: &str) -> String {
    format!("{} && self.infraComponents.{component}.enabled", present(component))
}

fn server(component: &str) -> String {
    bare(&format!("self.infraComponents.{component}.serverIP"))
}

fn range_written() -> String {
    format!("{} && has({RANGE_END})", written("dhcp", "rangeStart"))
}

pub(crate) fn server_inside(component: &str) -> Rule {
    rule(
        when(&written(component, "serverIP"), &inside(CIDR, &server(component))),
        &format!(".infraComponents.{component}.serverIP"),
        "must lie in networkConfig.cidr",
    )
}

pub(crate) fn additional_inside() -> Rule {
    rule(
        when(
            &written("proxy", "additionalServerIPs"),
            &format!("self.infraComponents.proxy.additionalServerIPs.all(a, {})", inside(CIDR, &bare("a"))),
        ),
        ".infraComponents.proxy.additionalServerIPs",
        "every address must lie in networkConfig.cidr",
    )
}

pub(crate) fn range_inside(field: &str) -> Rule {
    rule(
        when(&written("dhcp", field), &inside(CIDR, &format!("self.infraComponents.dhcp.{field}"))),
        &format!(".infraComponents.dhcp.{field}"),
        "must lie in networkConfig.cidr",
    )
}

pub(crate) fn range_excludes_gateway() -> Rule {
    rule(
        when(&range_written(), &outside(RANGE_START, RANGE_END, GATEWAY)),
        ".networkConfig.gateway",
        "must not be one of the addresses from infraComponents.dhcp.rangeStart to rangeEnd: choose a range without the gateway",
    )
}

pub(crate) fn range_excludes(component: &str) -> Rule {
    rule(
        when(
            &format!("{} && {}", range_written(), written(component, "serverIP")),
            &outside(RANGE_START, RANGE_END, &server(component)),
        ),
        &format!(".infraComponents.{component}.serverIP"),
        "must not be one of the addresses from infraComponents.dhcp.rangeStart to rangeEnd: choose an address outside, or a shorter range",
    )
}

pub(crate) fn addresses_differ() -> Rule {
    let servers = ["dhcp", "dns", "proxy"];
    let from_gateway = servers.map(|c| when(&written(c, "serverIP"), &differ(GATEWAY, &server(c))));
    let from_each_other = [("dhcp", "dns"), ("dhcp", "proxy"), ("dns", "proxy")].map(|(a, b)| {
        let both = format!("{} && {}", written(a, "serverIP"), written(b, "serverIP"));
        when(&both, &differ(&server(a), &server(b)))
    });
    let all: Vec<String> =
        from_gateway.iter().chain(&from_each_other).map(|pair| format!("({pair})")).collect();
    rule(
        all.join(" && "),
        ".infraComponents",
        "the gateway and the components' serverIP must all be different addresses",
    )
}

pub(crate) fn domain_for(component: &str) -> Rule {
    required(
        when(&wanted(component), &written("dns", "baseDomain")),
        ".infraComponents.dns.baseDomain",
        &format!(
            "needed by {component}: write the domain above the cluster's name, for example example.com (with dns.enabled: false if only the name is wanted)"
        ),
    )
}

/// Clients take resolvers as bare addresses, so without a DNS server of our own nothing else can be handed out.
pub(crate) fn plain_resolvers() -> Rule {
    rule(
        when(
            &format!("{} && !({}) && has(self.networkConfig.dnsServers)", wanted("dhcp"), wanted("dns")),
            "self.networkConfig.dnsServers.all(s, isIP(s))",
        ),
        ".networkConfig.dnsServers",
        "without infraComponents.dns these are handed to clients: write addresses only, without port or tls://",
    )
}

pub(crate) fn override_is_complete() -> Rule {
    required(
        format!(
            "self.name in {STANDARD_BACKENDS} || \
             (has(self.hostname) && has(self.port) && has(self.targetService) && has(self.targetPort))"
        ),
        ".hostname",
        "a backend that is not one of the six standard ones needs hostname, port, targetService and targetPort",
    )
}
