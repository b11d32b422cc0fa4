//! Turns an Infra's spec into values that `desired` can use without a second thought, or into problems that name a field
//! and what to write instead. A problem touches only the components that need the field; the others go on.

use std::net::IpAddr;

use causeway_api::{
    Backend, DhcpComponent, DnsComponent, Infra, PortDefaults, ProxyComponent, StaticEntry,
    conditions::Reason,
};
use ipnet::IpNet;
use kube::ResourceExt;

use super::{
    Component,
    addresses::{self, Chosen, Request, Server},
    backends,
    observe::Observed,
};

/// Something in the spec that cannot be carried out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// Path of the field.
    pub field: String,
    /// What is wrong and what to write.
    pub message: String,
    /// The condition reason.
    pub reason: Reason,
    /// The components that cannot be brought up to date because of it.
    pub touches: Vec<Component>,
}

/// A component's place in the spec.
#[derive(Clone, Debug, PartialEq)]
pub enum Wish<T> {
    /// Left out or disabled: the child is removed.
    Off,
    /// Wanted, but its part of the spec has problems: the child stays as it is.
    Unclear,
    /// Wanted like this.
    On(T),
}

/// The network, parsed.
#[derive(Clone, Debug, PartialEq)]
pub struct Network {
    /// The network.
    pub cidr: IpNet,
    /// Its router.
    pub gateway: IpAddr,
    /// Name of the attachment definition.
    pub attachment: String,
    /// Namespace of the attachment definition.
    pub attachment_namespace: String,
    /// Resolvers for other names.
    pub resolvers: Vec<String>,
}

/// A DHCP server that can be made.
#[derive(Clone, Debug, PartialEq)]
pub struct Dhcp {
    /// Its address.
    pub address: IpAddr,
    /// What it hands out.
    pub range: (IpAddr, IpAddr),
    /// Resolvers that clients are told.
    pub resolvers: Vec<String>,
    /// The component as written.
    pub spec: DhcpComponent,
}

/// A DNS server that can be made.
#[derive(Clone, Debug, PartialEq)]
pub struct Dns {
    /// Its address.
    pub address: IpAddr,
    /// The domain it knows.
    pub domain: String,
    /// The proxy's address, if there is a proxy.
    pub proxy: Option<IpAddr>,
    /// The names it answers.
    pub entries: Vec<StaticEntry>,
    /// Where the pod network is sent, if that is written.
    pub internal_proxy: Option<String>,
    /// The component as written.
    pub spec: DnsComponent,
}

/// A proxy that can be made.
#[derive(Clone, Debug, PartialEq)]
pub struct Proxy {
    /// The first replica's address.
    pub address: IpAddr,
    /// The other replicas' addresses.
    pub additional: Vec<IpAddr>,
    /// The services behind it.
    pub backends: Vec<Backend>,
    /// What its ports do with unmatched connections.
    pub ports: Vec<PortDefaults>,
    /// The component as written.
    pub spec: ProxyComponent,
}

/// A spec that was looked at.
#[derive(Clone, Debug)]
pub struct Valid {
    /// The network; none if it cannot be parsed, and then every wanted component is unclear.
    pub network: Option<Network>,
    /// The DHCP server.
    pub dhcp: Wish<Dhcp>,
    /// The DNS server.
    pub dns: Wish<Dns>,
    /// The proxy.
    pub proxy: Wish<Proxy>,
    /// What is wrong.
    pub problems: Vec<Problem>,
}

/// Looks at the spec.
pub fn validate(infra: &Infra, observed: &Observed) -> Valid {
    let components = infra.spec.infra_components.clone().unwrap_or_default();
    let dhcp = components.dhcp.filter(|dhcp| dhcp.enabled);
    // The domain is written under `dns` and counts for the proxy too, also while the DNS server is turned off.
    let written_dns = components.dns;
    let dns = written_dns.clone().filter(|dns| dns.enabled);
    let proxy = components.proxy.filter(|proxy| proxy.enabled);

    let mut check = Check { problems: Vec::new() };
    let network = check.network(infra);
    let chosen = network.as_ref().map(|network| {
        let request = check.addresses(
            network,
            dhcp.as_ref(),
            dns.as_ref(),
            proxy.as_ref(),
            &observed.previous,
        );
        addresses::choose(&request)
    });
    let domain = check.domain(infra, written_dns.as_ref(), dns.is_some(), proxy.is_some());
    let parsed = network.as_ref().zip(chosen.as_ref());
    let domain = domain.as_deref();

    let proxy_part = proxy
        .as_ref()
        .and_then(|spec| check.proxy(infra, parsed, domain, spec));
    let dns_part = dns
        .as_ref()
        .and_then(|spec| check.dns(parsed, domain, spec, proxy.as_ref(), proxy_part.as_ref()));
    let dhcp_part = dhcp
        .as_ref()
        .and_then(|spec| check.dhcp(parsed, spec, dns.is_some()));

    let problems = check.problems;
    Valid {
        dhcp: wish(dhcp.is_some(), dhcp_part, Component::Dhcp, &problems),
        dns: wish(dns.is_some(), dns_part, Component::Dns, &problems),
        proxy: wish(proxy.is_some(), proxy_part, Component::Proxy, &problems),
        network,
        problems,
    }
}

fn wish<T>(wanted: bool, part: Option<T>, component: Component, problems: &[Problem]) -> Wish<T> {
    let touched = problems
        .iter()
        .any(|problem| problem.touches.contains(&component));
    match part {
        _ if !wanted => Wish::Off,
        Some(part) if !touched => Wish::On(part),
        _ => Wish::Unclear,
    }
}

struct Check {
    problems: Vec<Problem>,
}

impl Check {
    fn problem(&mut self, touches: &[Component], field: impl Into<String>, message: impl Into<String>) {
        self.problem_because(Reason::InvalidSpec, touches, field, message);
    }

    fn problem_because(
        &mut self,
        reason: Reason,
        touches: &[Component],
        field: impl Into<String>,
        message: impl Into<String>,
    ) {
        let field = format!("spec.{}", field.into());
        self.problems.push(Problem {
            field,
            message: message.into(),
            reason,
            touches: touches.to_vec(),
        });
    }

    fn network(&mut self, infra: &Infra) -> Option<Network> {
        let spec = &infra.spec.network_config;
        let Ok(cidr) = spec.cidr.parse::<IpNet>() else {
            let message = format!(
                "\"{}\" is not a network: write one like 192.168.100.0/24",
                spec.cidr
            );
            self.problem(&Component::ALL, "networkConfig.cidr", message);
            return None;
        };
        let cidr = cidr.trunc();
        let gateway = spec
            .gateway
            .parse::<IpAddr>()
            .ok()
            .filter(|gateway| cidr.contains(gateway));
        let Some(gateway) = gateway else {
            let message = format!(
                "\"{}\" is not an address in {cidr}: write the router's address in it",
                spec.gateway
            );
            self.problem(&Component::ALL, "networkConfig.gateway", message);
            return None;
        };
        let (namespace, name) = match spec.network_attachment_definition.split_once('/') {
            Some((namespace, name)) => (Some(namespace.to_owned()), name),
            None => (
                spec.network_attachment_namespace.clone(),
                spec.network_attachment_definition.as_str(),
            ),
        };
        Some(Network {
            cidr,
            gateway,
            attachment: name.to_owned(),
            attachment_namespace: namespace.or_else(|| infra.namespace()).unwrap_or_default(),
            resolvers: spec.dns_servers.clone(),
        })
    }

    /// Checks the written addresses against the network and each other, and asks for the others.
    fn addresses(
        &mut self,
        network: &Network,
        dhcp: Option<&DhcpComponent>,
        dns: Option<&DnsComponent>,
        proxy: Option<&ProxyComponent>,
        previous: &Chosen,
    ) -> Request {
        let written_range = dhcp.and_then(|dhcp| self.range(network, dhcp));
        let mut used: Vec<(IpAddr, String)> = vec![(network.gateway, "networkConfig.gateway".to_owned())];
        let mut written = [None; 3];
        let servers = [
            (Component::Dhcp, dhcp.and_then(|dhcp| dhcp.server_ip.as_deref())),
            (Component::Dns, dns.and_then(|dns| dns.server_ip.as_deref())),
            (
                Component::Proxy,
                proxy.and_then(|proxy| proxy.server_ip.as_deref()),
            ),
        ];
        for (slot, (component, text)) in written.iter_mut().zip(servers) {
            let field = format!("infraComponents.{}.serverIP", component.field());
            *slot =
                text.and_then(|text| self.address(network, component, field, text, written_range, &mut used));
        }
        let mut taken = Vec::new();
        for (index, text) in proxy
            .iter()
            .flat_map(|proxy| &proxy.additional_server_ips)
            .enumerate()
        {
            let field = format!("infraComponents.proxy.additionalServerIPs[{index}]");
            taken.extend(self.address(network, Component::Proxy, field, text, written_range, &mut used));
        }
        Request {
            network: network.cidr,
            gateway: network.gateway,
            written,
            taken,
            written_range,
            previous: previous.clone(),
        }
    }

    fn address(
        &mut self,
        network: &Network,
        component: Component,
        field: String,
        text: &str,
        range: Option<(IpAddr, IpAddr)>,
        used: &mut Vec<(IpAddr, String)>,
    ) -> Option<IpAddr> {
        let cidr = network.cidr;
        let address = text
            .split('/')
            .next()
            .and_then(|bare| bare.parse::<IpAddr>().ok());
        let Some(address) = address.filter(|address| addresses::is_host(&cidr, *address)) else {
            let message = format!(
                "\"{text}\" is not a host address in {cidr}: write one, or leave it out to have one chosen"
            );
            self.problem(&[component], field, message);
            return None;
        };
        if let Some((_, other)) = used.iter().find(|(other, _)| *other == address) {
            let message = format!("{address} is also spec.{other}: write another address, or leave it out");
            self.problem(&[component], field, message);
            return None;
        }
        if let Some((start, end)) = range.filter(|range| addresses::in_range(*range, address)) {
            let message = format!(
                "{address} is one of the addresses that DHCP hands out ({start} to {end}): write one outside, or a shorter range"
            );
            self.problem(&[component, Component::Dhcp], field, message);
            return None;
        }
        used.push((address, field));
        Some(address)
    }

    fn range(&mut self, network: &Network, dhcp: &DhcpComponent) -> Option<(IpAddr, IpAddr)> {
        let cidr = network.cidr;
        let (start, end) = match (&dhcp.range_start, &dhcp.range_end) {
            (None, None) => return None,
            (Some(start), Some(end)) => (start, end),
            (start, _) => {
                let missing = if start.is_some() { "rangeEnd" } else { "rangeStart" };
                let message = "write rangeStart and rangeEnd together, or neither to have the range chosen";
                self.problem(
                    &[Component::Dhcp],
                    format!("infraComponents.dhcp.{missing}"),
                    message,
                );
                return None;
            }
        };
        let mut ends = [None; 2];
        for (slot, (name, text)) in ends.iter_mut().zip([("rangeStart", start), ("rangeEnd", end)]) {
            *slot = text
                .parse::<IpAddr>()
                .ok()
                .filter(|address| addresses::is_host(&cidr, *address));
            if slot.is_none() {
                let message = format!("\"{text}\" is not a host address in {cidr}: write one that is");
                self.problem(
                    &[Component::Dhcp],
                    format!("infraComponents.dhcp.{name}"),
                    message,
                );
            }
        }
        let (start, end) = ends[0].zip(ends[1])?;
        if start > end {
            let message = format!("{end} comes before rangeStart {start}: swap the two");
            self.problem(&[Component::Dhcp], "infraComponents.dhcp.rangeEnd", message);
            return None;
        }
        if addresses::in_range((start, end), network.gateway) {
            let message = format!(
                "the range {start} to {end} holds the gateway {}: leave it out of it",
                network.gateway
            );
            self.problem(&[Component::Dhcp], "infraComponents.dhcp.rangeStart", message);
            return None;
        }
        Some((start, end))
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
        let Some(base) = written
            .and_then(|dns| dns.base_domain.as_deref())
            .filter(|base| !base.is_empty())
        else {
            self.problem(
                &[Component::Dns, Component::Proxy],
                "infraComponents.dns.baseDomain",
                "is needed for the names of the control plane: write the domain above the cluster's name, for example \
                 example.com (with dns.enabled: false if only the name is wanted)",
            );
            return None;
        };
        let cluster = written
            .and_then(|dns| dns.cluster_name.clone())
            .unwrap_or_else(|| infra.name_any());
        Some(format!("{cluster}.{}", base.trim_end_matches('.')).to_ascii_lowercase())
    }

    fn server(&mut self, chosen: &Chosen, server: Server, component: Component) -> Option<IpAddr> {
        let address = chosen.server(server);
        let field = format!("infraComponents.{}.serverIP", component.field());
        let known = self
            .problems
            .iter()
            .any(|problem| problem.field == format!("spec.{field}"));
        if address.is_none() && !known {
            let message = "no free address is left in spec.networkConfig.cidr: widen it, shorten the DHCP range, or write an address";
            self.problem_because(Reason::AddressesExhausted, &[component], field, message);
        }
        address
    }

    fn dhcp(&mut self, parsed: Option<(&Network, &Chosen)>, spec: &DhcpComponent, dns: bool) -> Option<Dhcp> {
        let (network, chosen) = parsed?;
        let address = self.server(chosen, Server::Dhcp, Component::Dhcp);
        let resolvers = match chosen.server(Server::Dns).filter(|_| dns) {
            Some(dns) => vec![dns.to_string()],
            None => self.plain_resolvers(network),
        };
        if chosen.range.is_none() {
            self.problem_because(
                Reason::AddressesExhausted,
                &[Component::Dhcp],
                "infraComponents.dhcp.rangeStart",
                "no address is left to hand out in spec.networkConfig.cidr: widen it",
            );
        }
        Some(Dhcp {
            address: address?,
            range: chosen.range?,
            resolvers,
            spec: spec.clone(),
        })
    }

    /// DHCP can tell clients bare addresses only.
    fn plain_resolvers(&mut self, network: &Network) -> Vec<String> {
        let other = network
            .resolvers
            .iter()
            .position(|resolver| resolver.parse::<IpAddr>().is_err());
        if let Some(index) = other {
            let message = "is handed to clients while there is no DNS server here: write an address without port or tls://";
            self.problem(
                &[Component::Dhcp],
                format!("networkConfig.dnsServers[{index}]"),
                message,
            );
        }
        network.resolvers.clone()
    }

    fn dns(
        &mut self,
        parsed: Option<(&Network, &Chosen)>,
        domain: Option<&str>,
        spec: &DnsComponent,
        proxy_spec: Option<&ProxyComponent>,
        proxy: Option<&Proxy>,
    ) -> Option<Dns> {
        let (_, chosen) = parsed?;
        let address = self.server(chosen, Server::Dns, Component::Dns);
        let proxy_address = proxy_spec.and(chosen.server(Server::Proxy));
        let mut entries: Vec<StaticEntry> = Vec::new();
        for (index, extra) in spec.extra_entries.iter().enumerate() {
            let Some(ip) = extra
                .ip
                .clone()
                .or_else(|| proxy_address.map(|address| address.to_string()))
            else {
                let field = format!("infraComponents.dns.extraEntries[{index}].ip");
                self.problem(
                    &[Component::Dns],
                    field,
                    "is needed while there is no proxy: write the name's address",
                );
                continue;
            };
            entries.push(StaticEntry {
                hostname: extra.hostname.to_ascii_lowercase(),
                ip,
            });
        }
        let domain = domain?;
        if let (Some(proxy), Some(address)) = (proxy, proxy_address) {
            let written = entries.len();
            for hostname in proxied_names(proxy, domain) {
                // What the spec says of a name replaces the standard answer.
                if !entries[..written].iter().any(|entry| entry.hostname == hostname) {
                    entries.push(StaticEntry {
                        hostname,
                        ip: address.to_string(),
                    });
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

    fn proxy(
        &mut self,
        infra: &Infra,
        parsed: Option<(&Network, &Chosen)>,
        domain: Option<&str>,
        spec: &ProxyComponent,
    ) -> Option<Proxy> {
        // DNS answers with the proxy's names and address, so it cannot know better than the proxy.
        let both = [Component::Proxy, Component::Dns];
        let (_, chosen) = parsed?;
        let address = self.server(chosen, Server::Proxy, Component::Proxy);
        for (index, change) in spec.backends.iter().enumerate() {
            let field = |name: &str| format!("infraComponents.proxy.backends[{index}].{name}");
            if backends::is_standard(&change.name) {
                continue;
            }
            if change.disabled {
                let message = format!(
                    "there is no standard backend \"{}\" to drop: write one of {}",
                    change.name,
                    backends::standard_names()
                );
                self.problem(&both, field("name"), message);
            }
            for (name, missing) in [
                ("hostname", change.hostname.is_none()),
                ("port", change.port.is_none()),
                ("targetService", change.target_service.is_none()),
                ("targetPort", change.target_port.is_none()),
            ] {
                if missing && !change.disabled {
                    let message = format!(
                        "is needed, as \"{}\" is a further backend: write it, or use the name of a standard one ({})",
                        change.name,
                        backends::standard_names()
                    );
                    self.problem(&both, field(name), message);
                }
            }
        }
        let namespace = self.target_namespace(infra, spec)?;
        let merged = backends::merge(spec, domain?, &namespace);
        if let Some((hostname, port, first, second)) = backends::duplicate(&merged) {
            let message = format!(
                "backends \"{first}\" and \"{second}\" both claim {hostname} on port {port}: change a hostname or a port, or disable one"
            );
            self.problem_because(
                Reason::DuplicateHostname,
                &both,
                "infraComponents.proxy.backends",
                message,
            );
        }
        if merged.is_empty() {
            let message = "every backend is disabled: keep one, or write proxy.enabled: false";
            self.problem(&both, "infraComponents.proxy.backends", message);
        }
        let ports = backends::port_defaults(spec, &merged);
        for (index, entry) in spec.ports.iter().enumerate() {
            let outcomes = [
                ("plaintext", &entry.plaintext),
                ("noSNI", &entry.no_sni),
                ("unknownSNI", &entry.unknown_sni),
            ];
            for (name, outcome) in outcomes {
                let Some(backend) = outcome.as_ref().and_then(|outcome| outcome.backend.as_deref()) else {
                    continue;
                };
                if !merged
                    .iter()
                    .any(|known| known.name == backend && known.port == entry.port)
                {
                    let field = format!("infraComponents.proxy.ports[{index}].{name}.backend");
                    let message = format!(
                        "no backend \"{backend}\" listens on port {}: write one that does",
                        entry.port
                    );
                    self.problem(&[Component::Proxy], field, message);
                }
            }
        }
        // Texts that are no addresses were reported with the others; the proxy is unclear then.
        let additional = spec
            .additional_server_ips
            .iter()
            .filter_map(|text| text.split('/').next()?.parse().ok());
        let additional = additional.collect();
        Some(Proxy {
            address: address?,
            additional,
            backends: merged,
            ports,
            spec: spec.clone(),
        })
    }

    fn target_namespace(&mut self, infra: &Infra, spec: &ProxyComponent) -> Option<String> {
        if let Some(written) = &spec.control_plane_namespace {
            return Some(written.clone());
        }
        let derived = format!("{}-{}", infra.namespace().unwrap_or_default(), infra.name_any());
        if derived.len() <= 63 && !derived.contains('.') {
            return Some(derived);
        }
        let message = format!(
            "cannot be derived, as \"{derived}\" is no namespace name: write the control plane's namespace"
        );
        self.problem(
            &[Component::Proxy, Component::Dns],
            "infraComponents.proxy.controlPlaneNamespace",
            message,
        );
        None
    }
}

/// The names that lead to the proxy: those of its backends, and every application's.
fn proxied_names(proxy: &Proxy, domain: &str) -> Vec<String> {
    let mut names = vec![format!("*.apps.{domain}")];
    for backend in &proxy.backends {
        let of_backend = std::iter::once(&backend.hostname).chain(&backend.alternate_hostnames);
        names.extend(of_backend.map(|name| name.to_ascii_lowercase()));
    }
    names.retain(|name| !backends::IN_CLUSTER_NAMES.contains(&name.as_str()));
    names
}

#[cfg(test)]
mod tests;
