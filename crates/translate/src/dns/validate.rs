//! From a `DNSServer` to its checked form, or to everything that is wrong with it.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use causeway_api::{DNSServer, DNSServerSpec};
use causeway_ir::dns::Upstream;
use causeway_ir::{Name, Pattern, Problem};
use ipnet::IpNet;
use kube::ResourceExt;

use super::{Internal, Valid};
use crate::server::Problems;
use crate::services::ServiceRef;

const DNS_PORT: u16 = 53;
const TLS_PORT: u16 = 853;
/// Longer than any resolver keeps an answer.
const LONGEST_TTL: Duration = Duration::from_hours(24);

/// The checked form of this object.
///
/// # Errors
/// Everything that makes it impossible to run, by the paths of its fields.
pub fn validate(object: &DNSServer) -> Result<Valid, Vec<Problem>> {
    let mut problems = Problems::default();
    let valid = check(&mut problems, object);
    valid.filter(|_| problems.0.is_empty()).ok_or(problems.0)
}

fn check(problems: &mut Problems, object: &DNSServer) -> Option<Valid> {
    let (spec, network) = (&object.spec, &object.spec.network_config);
    problems
        .attachment(network.network_attachment_name.as_ref(), network.network_attachment_namespace.as_ref());
    let isolated = isolated(problems, spec);
    let server = problems.server("spec.networkConfig.serverIP", &network.server_ip, isolated);
    let proxy = network.proxy_ip.as_ref().and_then(|text| {
        let path = "spec.networkConfig.proxyIP";
        let address = problems.server(path, text, isolated)?;
        if Some(address) == server {
            problems.add(path, format!("{address} is this server's own: write the proxy's address"));
        }
        Some(address)
    });
    let internal = network.internal_proxy_ip.as_ref().and_then(|text| internal(problems, object, text));
    let domain = problems.take("spec.hostedClusterDomain", plain_name(&spec.hosted_cluster_domain));
    let ttl = problems.duration("spec.cacheTTL", &spec.cache_ttl).filter(|ttl| {
        let fits = *ttl <= LONGEST_TTL;
        if !fits {
            problems
                .add("spec.cacheTTL", format!("{} is longer than 24h: write at most that", spec.cache_ttl));
        }
        fits
    });
    let entries = entries(problems, spec);
    let upstreams = upstreams(problems, spec, server);
    Some(Valid {
        server: server?,
        port: network.dns_port,
        network: isolated?,
        domain: domain?,
        ttl: ttl?,
        proxy,
        internal,
        entries,
        upstreams,
        lease_names_of: spec.lease_names_of.clone(),
    })
}

/// The network whose clients get the entries' addresses.
fn isolated(problems: &mut Problems, spec: &DNSServerSpec) -> Option<IpNet> {
    let network = &spec.network_config;
    let path = "spec.networkConfig.secondaryNetworkCIDR";
    if let Some(text) = &network.secondary_network_cidr {
        let wrong = |_| format!("`{text}` is not a network: write one like 192.168.100.0/24");
        return problems.take(path, text.parse::<IpNet>().map_err(wrong));
    }
    let of_address = network.server_ip.parse::<IpNet>().ok();
    if of_address.is_none() {
        let message = "is needed, as serverIP does not say how long its network's prefix is: write the network, like \
                       192.168.100.0/24, or add the prefix length to serverIP";
        problems.add(path, message);
    }
    of_address.map(|network| network.trunc())
}

/// An address, or a Service: `NAME`, `NAME.NAMESPACE` or its whole DNS name.
fn internal(problems: &mut Problems, object: &DNSServer, text: &str) -> Option<Internal> {
    if let Ok(address) = text.parse() {
        return Some(Internal::Address(address));
    }
    let mut labels = text.split('.');
    let name = labels.next().unwrap_or_default().to_owned();
    let namespace = labels.next().map_or_else(|| object.namespace().unwrap_or_default(), str::to_owned);
    if labels.next().is_some_and(|label| label != "svc") {
        let message = format!(
            "`{text}` is no Service's name: write an address, or NAME.NAMESPACE.svc and the cluster's domain"
        );
        problems.add("spec.networkConfig.internalProxyIP", message);
        return None;
    }
    Some(Internal::Service(ServiceRef { namespace, name }))
}

fn entries(problems: &mut Problems, spec: &DNSServerSpec) -> BTreeMap<Pattern, BTreeSet<IpAddr>> {
    let mut entries: BTreeMap<Pattern, BTreeSet<IpAddr>> = BTreeMap::new();
    let mut seen: BTreeMap<(Pattern, IpAddr), usize> = BTreeMap::new();
    for (index, entry) in spec.static_entries.iter().enumerate() {
        let path = |field: &str| format!("spec.staticEntries[{index}].{field}");
        let name = problems.take(&path("hostname"), Pattern::parse(&entry.hostname));
        let address = entry.ip.parse::<IpAddr>().ok();
        let address = address.filter(|address| !address.is_unspecified() && !address.is_multicast());
        if address.is_none() {
            problems.add(
                path("ip"),
                format!("`{}` is not an address of a host: write one like 192.168.100.4", entry.ip),
            );
        }
        let (Some(name), Some(address)) = (name, address) else { continue };
        if let Some(first) = seen.insert((name.clone(), address), index) {
            let message =
                format!("{name} with {address} is already staticEntries[{first}]: remove one of the two");
            problems.add(path("hostname"), message);
        }
        entries.entry(name).or_default().insert(address);
    }
    entries
}

fn upstreams(problems: &mut Problems, spec: &DNSServerSpec, server: Option<IpAddr>) -> Vec<Upstream> {
    let mut found: Vec<Upstream> = Vec::new();
    for (index, text) in spec.upstream_dns.iter().enumerate() {
        let path = format!("spec.upstreamDNS[{index}]");
        let (is_tls, bare) = match text.strip_prefix("tls://") {
            Some(bare) => (true, bare),
            None => (false, text.as_str()),
        };
        let default_port = if is_tls { TLS_PORT } else { DNS_PORT };
        let address = bare.parse::<IpAddr>().map(|address| SocketAddr::new(address, default_port));
        let Ok(address) = address.or_else(|_| bare.parse::<SocketAddr>()) else {
            let message = format!(
                "`{text}` is no resolver: write an address, optionally with a port, like 10.0.0.53 or tls://9.9.9.9"
            );
            problems.add(path, message);
            continue;
        };
        if Some(address.ip()) == server && address.port() == spec.network_config.dns_port {
            let message = format!(
                "{address} is this server itself: name the resolver that is to be asked, or leave it out"
            );
            problems.add(path, message);
            continue;
        }
        if let Some(first) = found.iter().position(|other| other.address == address) {
            problems.add(path, format!("{address} is already upstreamDNS[{first}]: remove one of the two"));
            continue;
        }
        // Public resolvers have their address in their certificate.
        let tls_server_name = if is_tls { Name::parse(&address.ip().to_string()).ok() } else { None };
        found.push(Upstream { address, tls_server_name, tls_ca_file: None });
    }
    found
}

/// A domain without a wildcard.
fn plain_name(text: &str) -> Result<Name, String> {
    match Pattern::parse(text)? {
        Pattern::Exact(name) => Name::parse(&name),
        Pattern::Below(_) => Err(format!("`{text}` has a wildcard: write a domain, like lab.example.com")),
    }
}
