//! Turns an Infra's spec into values that `desired` can use without a second thought, or into problems that name a field
//! and what to write instead. A problem stops only the components that need the field; the others go on.

mod network;
mod proxy;
mod servers;

use std::net::IpAddr;

use causeway_api::{
    Backend, DhcpComponent, DnsComponent, Infra, PortDefaults, ProxyComponent, StaticEntry,
    conditions::Reason,
};
use causeway_ir::Problem;
use causeway_translate::proxy::bare_address;
use ipnet::IpNet;
use kube::ResourceExt;

use super::{
    Component,
    addresses::{self, Chosen, Server},
    observe::Observed,
};

/// Something in the spec that cannot be carried out, and what that keeps from being brought up to date.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ComponentProblem {
    /// The field, what is wrong with it and what to write.
    pub(crate) problem: Problem,
    /// The condition reason.
    pub(crate) reason: Reason,
    /// The components that cannot be brought up to date because of it.
    pub(crate) components: Vec<Component>,
}

/// What the spec asks of a component.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Requested<T> {
    /// Left out or disabled: the child is removed.
    Disabled,
    /// Enabled, but its part of the spec has problems: the child stays as it is.
    Invalid,
    /// Enabled like this.
    Enabled(T),
}

/// The network, parsed.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Network {
    /// The network.
    pub(crate) cidr: IpNet,
    /// Its router.
    pub(crate) gateway: IpAddr,
    /// Name of the attachment definition.
    pub(crate) attachment: String,
    /// Namespace of the attachment definition.
    pub(crate) attachment_namespace: String,
    /// Resolvers for other names.
    pub(crate) resolvers: Vec<String>,
}

/// A DHCP server that can be made.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Dhcp {
    /// Its address.
    pub(crate) address: IpAddr,
    /// What it hands out.
    pub(crate) range: (IpAddr, IpAddr),
    /// The addresses of further servers.
    pub(crate) additional: Vec<IpAddr>,
    /// Resolvers that clients are told.
    pub(crate) resolvers: Vec<String>,
    /// The clients' own domain.
    pub(crate) domain: Option<String>,
    /// The component as written.
    pub(crate) spec: DhcpComponent,
}

/// A DNS server that can be made.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Dns {
    /// Its address.
    pub(crate) address: IpAddr,
    /// The domain it knows.
    pub(crate) domain: String,
    /// The proxy's address, if there is a proxy.
    pub(crate) proxy: Option<IpAddr>,
    /// The names it answers.
    pub(crate) entries: Vec<StaticEntry>,
    /// Where the pod network is sent, if that is written.
    pub(crate) internal_proxy: Option<String>,
    /// The component as written.
    pub(crate) spec: DnsComponent,
}

/// A proxy that can be made.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Proxy {
    /// The first replica's address.
    pub(crate) address: IpAddr,
    /// The other replicas' addresses.
    pub(crate) additional: Vec<IpAddr>,
    /// The services behind it.
    pub(crate) backends: Vec<Backend>,
    /// What its ports do with unmatched connections.
    pub(crate) ports: Vec<PortDefaults>,
    /// The component as written.
    pub(crate) spec: ProxyComponent,
}

/// A spec that was looked at.
#[derive(Clone, Debug)]
pub(crate) struct Valid {
    /// The network; none if it cannot be parsed, and then every enabled component is invalid.
    pub(crate) network: Option<Network>,
    /// The DHCP server.
    pub(crate) dhcp: Requested<Dhcp>,
    /// The DNS server.
    pub(crate) dns: Requested<Dns>,
    /// The proxy.
    pub(crate) proxy: Requested<Proxy>,
    /// What is wrong.
    pub(crate) problems: Vec<ComponentProblem>,
}

/// Looks at the spec.
pub(crate) fn validate(infra: &Infra, observed: &Observed) -> Valid {
    let components = infra.spec.infra_components.clone().unwrap_or_default();
    let dhcp = components.dhcp.filter(|dhcp| dhcp.enabled);
    // The domain is written under `dns` and counts for the proxy too, also while the DNS server is turned off.
    let written_dns = components.dns;
    let dns = written_dns.clone().filter(|dns| dns.enabled);
    let proxy = components.proxy.filter(|proxy| proxy.enabled);

    let mut check = Check { problems: Vec::new() };
    let network = check.network(infra);
    let chosen = network.as_ref().map(|network| {
        let request = check.addresses(network, dhcp.as_ref(), dns.as_ref(), proxy.as_ref(), observed);
        addresses::choose(&request)
    });
    let domain = check.domain(infra, written_dns.as_ref(), dns.is_some(), proxy.is_some());
    let parsed = network.as_ref().zip(chosen.as_ref());
    let domain = domain.as_deref();

    let proxy_part = proxy.as_ref().and_then(|spec| check.proxy(infra, parsed, domain, spec));
    let dns_part =
        dns.as_ref().and_then(|spec| check.dns(parsed, domain, spec, proxy.as_ref(), proxy_part.as_ref()));
    let dhcp_part = dhcp.as_ref().and_then(|spec| check.dhcp(parsed, spec, domain.filter(|_| dns.is_some())));
    check.servers(network.as_ref(), dhcp_part.as_ref(), dns_part.as_ref());

    let problems = check.problems;
    Valid {
        dhcp: requested(dhcp.is_some(), dhcp_part, Component::Dhcp, &problems),
        dns: requested(dns.is_some(), dns_part, Component::Dns, &problems),
        proxy: requested(proxy.is_some(), proxy_part, Component::Proxy, &problems),
        network,
        problems,
    }
}

fn requested<T>(
    is_enabled: bool,
    part: Option<T>,
    component: Component,
    problems: &[ComponentProblem],
) -> Requested<T> {
    let touched = problems.iter().any(|problem| problem.components.contains(&component));
    match part {
        _ if !is_enabled => Requested::Disabled,
        Some(part) if !touched => Requested::Enabled(part),
        _ => Requested::Invalid,
    }
}

struct Check {
    problems: Vec<ComponentProblem>,
}

impl Check {
    fn problem(&mut self, components: &[Component], field: impl Into<String>, message: impl Into<String>) {
        self.problem_because(Reason::InvalidSpec, components, field, message);
    }

    fn problem_because(
        &mut self,
        reason: Reason,
        components: &[Component],
        field: impl Into<String>,
        message: impl Into<String>,
    ) {
        let problem = Problem { path: format!("spec.{}", field.into()), message: message.into() };
        self.problems.push(ComponentProblem { problem, reason, components: components.to_vec() });
    }

    fn domain(
        &mut self,
        infra: &Infra,
        written: Option<&DnsComponent>,
        dns: bool,
        proxy: bool,
    ) -> Option<String> {
        if !dns && !proxy {
            return None;
        }
        let Some(base) = written.and_then(|dns| dns.base_domain.as_deref()).filter(|base| !base.is_empty())
        else {
            self.problem(
                &[Component::Dns, Component::Proxy],
                "infraComponents.dns.baseDomain",
                "is needed for the names of the control plane: write the domain above the cluster's name, for example \
                 example.com (with dns.enabled: false if only the name is wanted)",
            );
            return None;
        };
        let cluster = written.and_then(|dns| dns.cluster_name.clone()).unwrap_or_else(|| infra.name_any());
        Some(format!("{cluster}.{}", base.trim_end_matches('.')).to_ascii_lowercase())
    }

    fn server(&mut self, chosen: &Chosen, server: Server, component: Component) -> Option<IpAddr> {
        let address = chosen.server(server);
        let field = format!("infraComponents.{}.serverIP", component.field());
        let known = self.problems.iter().any(|known| known.problem.path == format!("spec.{field}"));
        if address.is_none() && !known {
            let message = "no free address is left in spec.networkConfig.cidr: widen it, shorten the DHCP range, or write an address";
            self.problem_because(Reason::AddressesExhausted, &[component], field, message);
        }
        address
    }

    /// `domain` is that of the DNS server, if there is one.
    fn dhcp(
        &mut self,
        parsed: Option<(&Network, &Chosen)>,
        spec: &DhcpComponent,
        domain: Option<&str>,
    ) -> Option<Dhcp> {
        let (network, chosen) = parsed?;
        let address = self.server(chosen, Server::Dhcp, Component::Dhcp);
        let resolvers = match chosen.server(Server::Dns).filter(|_| domain.is_some()) {
            Some(dns) => vec![dns.to_string()],
            None => self.plain_resolvers(network),
        };
        if chosen.range.is_none() {
            self.problem_because(
                Reason::AddressesExhausted,
                &[Component::Dhcp],
                "infraComponents.dhcp.rangeStart",
                "no address is left to hand out in spec.networkConfig.cidr: widen it, or have others there hand out fewer",
            );
        }
        // Texts that are no addresses were reported with the others; the server is invalid then.
        let additional = spec.additional_server_ips.iter().filter_map(|text| bare_address(text)).collect();
        let domain = domain.map(str::to_owned);
        Some(Dhcp {
            address: address?,
            range: chosen.range?,
            additional,
            resolvers,
            domain,
            spec: spec.clone(),
        })
    }

    /// DHCP can tell clients bare addresses only.
    fn plain_resolvers(&mut self, network: &Network) -> Vec<String> {
        let other = network.resolvers.iter().position(|resolver| resolver.parse::<IpAddr>().is_err());
        if let Some(index) = other {
            let message = "is handed to clients while there is no DNS server here: write an address without port or tls://";
            self.problem(&[Component::Dhcp], format!("networkConfig.dnsServers[{index}]"), message);
        }
        network.resolvers.clone()
    }

    fn dns(
        &mut self,
        parsed: Option<(&Network, &Chosen)>,
        domain: Option<&str>,
        spec: &DnsComponent,
        proxy_spec: Option<&ProxyComponent>,
        proxy_part: Option<&Proxy>,
    ) -> Option<Dns> {
        let (_, chosen) = parsed?;
        let address = self.server(chosen, Server::Dns, Component::Dns);
        let proxy_address = proxy_spec.and(chosen.server(Server::Proxy));
        let mut entries: Vec<StaticEntry> = Vec::new();
        for (index, extra) in spec.extra_entries.iter().enumerate() {
            let Some(ip) = extra.ip.clone().or_else(|| proxy_address.map(|address| address.to_string()))
            else {
                let field = format!("infraComponents.dns.extraEntries[{index}].ip");
                self.problem(
                    &[Component::Dns],
                    field,
                    "is needed while there is no proxy: write the name's address",
                );
                continue;
            };
            entries.push(StaticEntry { hostname: extra.hostname.to_ascii_lowercase(), ip });
        }
        let domain = domain?;
        if let (Some(part), Some(address)) = (proxy_part, proxy_address) {
            let written = entries.len();
            for hostname in proxy::proxied_names(part, domain) {
                // What the spec says of a name replaces the standard answer.
                if !entries[..written].iter().any(|entry| entry.hostname == hostname) {
                    entries.push(StaticEntry { hostname, ip: address.to_string() });
                }
            }
        }
        entries.sort_by(|a, b| (&a.hostname, &a.ip).cmp(&(&b.hostname, &b.ip)));
        entries.dedup();
        Some(Dns {
            address: address?,
            domain: domain.to_owned(),
            proxy: proxy_address,
            entries,
            internal_proxy: proxy_spec.and_then(|proxy| proxy.internal_proxy_service.clone()),
            spec: spec.clone(),
        })
    }
}

#[cfg(test)]
mod tests;
