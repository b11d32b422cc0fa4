//! From a `DHCPServer` to its checked form, or to everything that is wrong with it.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use causeway_api::{ClientSource, DHCPServer, DHCPServerSpec, DhcpIpv6, DhcpReservation};
use causeway_ir::dhcp::{
    AddressPool, Boot, ClientId, DhcpOption, DhcpPlan, HardwareAddress, Identity, Ipv6Plan, Ipv6Pool,
    Ipv6Reservation, Reservation, StaticRoute,
};
use causeway_ir::{Name, Period, Problem};
use ipnet::Ipv4Net;

use super::{Valid, options};
use crate::server::Problems;

/// The default of the plan.
const QUARANTINE: Period = const { Period::from_secs(3600) };
const PROBE: std::time::Duration = std::time::Duration::from_millis(300);
const RAS: Period = const { Period::from_secs(200) };

/// Where a field of a plan comes from; the longest beginning counts.
const ORIGINS: [(&str, &str); 14] = [
    ("server", "spec.networkConfig.serverIP"),
    ("network", "spec.networkConfig.cidr"),
    ("gateway", "spec.networkConfig.gateway"),
    ("search", "spec.networkConfig.searchDomains"),
    ("mtu", "spec.networkConfig.mtu"),
    ("pool.first", "spec.leaseConfig.rangeStart"),
    ("pool.last", "spec.leaseConfig.rangeEnd"),
    ("leaseTime", "spec.leaseConfig.leaseTime"),
    ("renewAfter", "spec.leaseConfig.renewTime"),
    ("rebindAfter", "spec.leaseConfig.rebindTime"),
    ("ipv6.pool.first", "spec.ipv6.rangeStart"),
    ("ipv6.pool.last", "spec.ipv6.rangeEnd"),
    ("ipv6.network", "spec.ipv6.cidr"),
    ("boot.file", "spec.boot.file"),
];

/// The checked form of this object.
///
/// # Errors
/// Everything that makes it impossible to run, by the paths of its fields.
pub fn validate(object: &DHCPServer) -> Result<Valid, Vec<Problem>> {
    let mut problems = Problems::default();
    let valid = check(&mut problems, &object.spec);
    if let Some(valid) = valid.as_ref().filter(|_| problems.0.is_empty()) {
        for Problem { path, message } in valid.plan.validate() {
            problems.add(origin(&path, &object.spec), message);
        }
    }
    valid.filter(|_| problems.0.is_empty()).ok_or(problems.0)
}

/// The field of the spec that a field of the plan was made of.
fn origin(path: &str, spec: &DHCPServerSpec) -> String {
    if let Some(field) = reservation(path, spec) {
        return field;
    }
    let of = ORIGINS.iter().filter(|(front, _)| path.starts_with(front)).max_by_key(|(front, _)| front.len());
    match of {
        Some((front, field)) => format!("{field}{}", &path[front.len()..]),
        None => format!("spec.{path}"),
    }
}

/// The same of reservations, which a spec has in one list for both families.
fn reservation(path: &str, spec: &DHCPServerSpec) -> Option<String> {
    let v6 = path.strip_prefix("ipv6.reservations[");
    let (index, field) = v6.or_else(|| path.strip_prefix("reservations["))?.split_once(']')?;
    let of_family = |(_, written): &(usize, &DhcpReservation)| {
        written.ip.parse::<IpAddr>().is_ok_and(|address| address.is_ipv6() == v6.is_some())
    };
    let (index, _) = spec.reservations.iter().enumerate().filter(of_family).nth(index.parse().ok()?)?;
    let field = match field {
        ".hardware" => ".mac",
        ".clientId" | ".duid" => ".clientID",
        ".address" => ".ip",
        field => field,
    };
    Some(format!("spec.reservations[{index}]{field}"))
}

fn check(problems: &mut Problems, spec: &DHCPServerSpec) -> Option<Valid> {
    let network = &spec.network_config;
    problems
        .attachment(network.network_attachment_name.as_ref(), network.network_attachment_namespace.as_ref());
    let cidr = ipv4_network(problems, "spec.networkConfig.cidr", &network.cidr);
    let servers = servers(problems, spec, cidr);
    let gateway = ipv4(problems, "spec.networkConfig.gateway", &network.gateway);
    let first = ipv4(problems, "spec.leaseConfig.rangeStart", &spec.lease_config.range_start);
    let last = ipv4(problems, "spec.leaseConfig.rangeEnd", &spec.lease_config.range_end);
    let mut period = |path: &str, text: Option<&String>| {
        let text = text?;
        let period = problems.duration(path, text).map(Period::new);
        if period == Some(None) {
            problems.add(path, "0s is no time: write at least 1m");
        }
        period.flatten()
    };
    let lease = &spec.lease_config;
    let lease_time = period("spec.leaseConfig.leaseTime", Some(&lease.lease_time));
    let renew_after = period("spec.leaseConfig.renewTime", lease.renew_time.as_ref());
    let rebind_after = period("spec.leaseConfig.rebindTime", lease.rebind_time.as_ref());
    let dns_servers = ipv4_list(problems, "spec.networkConfig.dnsServers", &network.dns_servers);
    let ntp_servers = ipv4_list(problems, "spec.networkConfig.ntpServers", &network.ntp_servers);
    let name = |problems: &mut Problems, path: &str, text: &String| problems.take(path, Name::parse(text));
    let domain = network.domain.as_ref().and_then(|text| name(problems, "spec.networkConfig.domain", text));
    let search = network.search_domains.iter().enumerate();
    let search = search
        .filter_map(|(i, text)| name(problems, &format!("spec.networkConfig.searchDomains[{i}]"), text))
        .collect();
    let routes = network.routes.iter().enumerate().filter_map(|(i, route)| {
        let to = ipv4_network(problems, &format!("spec.networkConfig.routes[{i}].to"), &route.to);
        let via = ipv4(problems, &format!("spec.networkConfig.routes[{i}].via"), &route.via);
        Some(StaticRoute { to: to?, via: via? })
    });
    let routes = routes.collect();
    let boot = spec.boot.as_ref().and_then(|boot| {
        let server = boot.server.as_ref().map(|text| ipv4(problems, "spec.boot.server", text));
        Some(Boot { file: name(problems, "spec.boot.file", &boot.file)?, server: server.flatten() })
    });
    let given = spec.options.iter().enumerate().filter_map(|(i, option)| {
        let value = problems.take(&format!("spec.options[{i}].value"), options::value(option))?;
        Some(DhcpOption { code: option.code, value })
    });
    let given = given.collect();
    let (reservations, reservations_v6) = reservations(problems, spec);
    let ipv6 = spec.ipv6.as_ref().and_then(|ipv6| self::ipv6(problems, spec, ipv6, reservations_v6));
    if let (Some(net), Some(gateway)) = (cidr, gateway)
        && net.prefix_len() < 31
        && [net.network(), net.broadcast()].contains(&gateway)
    {
        let message = format!("{gateway} is the network's own, not a machine's: write the router's address");
        problems.add("spec.networkConfig.gateway", message);
    }
    for (i, reservation) in reservations.iter().enumerate() {
        if dns_servers.contains(&reservation.address) {
            let message = format!("{} is a resolver's (dnsServers): choose another", reservation.address);
            problems.add(format!("spec.reservations[{i}].ip"), message);
        }
    }
    let (first, last) = (first?, last?);
    room(problems, spec, (first, last), &reservations);
    let plan = DhcpPlan {
        interface: Name::parse("net1").ok()?,
        server: *servers.first()?,
        network: cidr?,
        pool: AddressPool { first, last, except: Vec::new() },
        lease_time: lease_time?,
        renew_after,
        rebind_after,
        gateway: Some(gateway?),
        dns_servers,
        domain,
        search,
        mtu: network.mtu,
        routes,
        ntp_servers,
        boot,
        options: given,
        reservations,
        clients: None,
        identity: Identity::default(),
        probe: PROBE,
        quarantine: QUARANTINE,
        replica: None,
        relayed: Vec::new(),
        ipv6,
    };
    let is_for_known_clients = spec.clients != ClientSource::All;
    Some(Valid { servers, is_for_known_clients, plan })
}

/// One address for each replica.
fn servers(problems: &mut Problems, spec: &DHCPServerSpec, cidr: Option<Ipv4Net>) -> Vec<Ipv4Addr> {
    let network = &spec.network_config;
    let first = std::iter::once(("spec.networkConfig.serverIP".to_owned(), &network.server_ip));
    let further = network.additional_server_ips.iter().enumerate();
    let further = further.map(|(i, text)| (format!("spec.networkConfig.additionalServerIPs[{i}]"), text));
    let mut servers = Vec::new();
    for (path, text) in first.chain(further) {
        match problems.server(&path, text, cidr.map(Into::into)) {
            Some(IpAddr::V4(address)) if servers.contains(&address) => {
                problems.add(&path, format!("{address} is another replica's already: each needs its own"));
            }
            Some(IpAddr::V4(address)) => servers.push(address),
            Some(IpAddr::V6(_)) => {
                problems.add(&path, "must be an IPv4 address: IPv6 clients are answered by it, too");
            }
            None => {}
        }
    }
    let replicas = usize::try_from(spec.replicas).unwrap_or_default();
    let written = 1 + network.additional_server_ips.len();
    if replicas == 0 {
        problems.add("spec.replicas", "must be 1 or 2");
    } else if replicas > written {
        let message = format!(
            "{replicas} replicas need {replicas} addresses and there is {written}: list another in \
             networkConfig.additionalServerIPs, or lower replicas"
        );
        problems.add("spec.replicas", message);
    }
    servers.truncate(replicas.max(1));
    servers
}

fn ipv4(problems: &mut Problems, path: &str, text: &str) -> Option<Ipv4Addr> {
    let parsed = text.parse::<Ipv4Addr>();
    problems.take(
        path,
        parsed.map_err(|_| format!("`{text}` is not an IPv4 address: write one like 192.168.100.1")),
    )
}

fn ipv4_network(problems: &mut Problems, path: &str, text: &str) -> Option<Ipv4Net> {
    let parsed = text.parse::<Ipv4Net>().map(|network| network.trunc()).map_err(|_| {
        format!("`{text}` is not an IPv4 network: write one like 192.168.100.0/24; an IPv6 one belongs in spec.ipv6.cidr")
    });
    problems.take(path, parsed)
}

fn ipv4_list(problems: &mut Problems, path: &str, texts: &[String]) -> Vec<Ipv4Addr> {
    let each = texts.iter().enumerate();
    each.filter_map(|(i, text)| ipv4(problems, &format!("{path}[{i}]"), text)).collect()
}

/// Reservations of either family.
fn reservations(problems: &mut Problems, spec: &DHCPServerSpec) -> (Vec<Reservation>, Vec<Ipv6Reservation>) {
    let (mut v4, mut v6) = (Vec::new(), Vec::new());
    for (i, written) in spec.reservations.iter().enumerate() {
        let path = |field: &str| format!("spec.reservations[{i}].{field}");
        let hardware =
            written.mac.as_ref().and_then(|text| problems.take(&path("mac"), HardwareAddress::parse(text)));
        if hardware.is_some_and(|card| card.0[0] & 1 == 1) {
            problems.add(
                path("mac"),
                "is the address of many machines, not of one: write that of the client's card",
            );
        }
        let client_id = written
            .client_id
            .as_ref()
            .and_then(|text| problems.take(&path("clientID"), ClientId::parse(text)));
        if written.mac.is_some() == written.client_id.is_some() {
            problems.add(format!("spec.reservations[{i}]"), "write either mac or clientID");
        }
        let hostname =
            written.hostname.as_ref().and_then(|text| problems.take(&path("hostname"), Name::parse(text)));
        match written.ip.parse::<IpAddr>() {
            Ok(IpAddr::V4(address)) => v4.push(Reservation { hardware, client_id, address, hostname }),
            Ok(IpAddr::V6(_)) if spec.ipv6.is_none() => {
                let message =
                    format!("{} is an IPv6 address, and there is no spec.ipv6: write that, too", written.ip);
                problems.add(path("ip"), message);
            }
            Ok(IpAddr::V6(address)) => {
                v6.push(Ipv6Reservation { hardware, duid: client_id, address, hostname });
            }
            Err(_) => problems.add(path("ip"), format!("`{}` is not an address", written.ip)),
        }
    }
    (v4, v6)
}

/// A range of which nothing is left for others.
fn room(
    problems: &mut Problems,
    spec: &DHCPServerSpec,
    (first, last): (Ipv4Addr, Ipv4Addr),
    reservations: &[Reservation],
) {
    let size = u32::from(last).saturating_sub(u32::from(first)).saturating_add(1);
    let inside = reservations.iter().filter(|one| (first..=last).contains(&one.address)).count();
    let is_full = first <= last && u32::try_from(inside).unwrap_or(u32::MAX) >= size;
    if is_full {
        let message = format!(
            "{} leaves no address to clients without a reservation: all {size} from {first} are reserved; make the range \
             longer, or reserve addresses outside of it",
            spec.lease_config.range_end
        );
        problems.add("spec.leaseConfig.rangeEnd", message);
    }
}

fn ipv6(
    problems: &mut Problems,
    spec: &DHCPServerSpec,
    written: &DhcpIpv6,
    reservations: Vec<Ipv6Reservation>,
) -> Option<Ipv6Plan> {
    let mut v6 = |field: &str, text: &str| {
        let parsed = text.parse::<Ipv6Addr>();
        let wrong = |_| format!("`{text}` is not an IPv6 address: write one like fd00:100::1");
        problems.take(&format!("spec.ipv6.{field}"), parsed.map_err(wrong))
    };
    let ends = [("rangeStart", &written.range_start), ("rangeEnd", &written.range_end)];
    let [first, last] = ends.map(|(field, text)| text.as_ref().map(|text| v6(field, text)));
    let gateway = written.gateway.as_ref().and_then(|text| v6("gateway", text));
    let resolvers = written.dns_servers.iter().enumerate();
    let dns_servers = resolvers.filter_map(|(i, text)| v6(&format!("dnsServers[{i}]"), text)).collect();
    if first.is_some() != last.is_some() {
        problems.add("spec.ipv6.rangeEnd", "write rangeStart and rangeEnd together, or neither");
    }
    let is_raw = spec.privileges.as_ref().is_some_and(|privileges| privileges.net_raw);
    if written.advertise && !is_raw {
        let message = "routers can be advertised by a raw socket only: write privileges.netRaw: true, too, or leave it to \
                       another router";
        problems.add("spec.ipv6.advertise", message);
    }
    let network = written.cidr.parse::<ipnet::Ipv6Net>();
    let wrong = |_| format!("`{}` is not an IPv6 network: write one like fd00:100::/64", written.cidr);
    let network = problems.take("spec.ipv6.cidr", network.map(|network| network.trunc()).map_err(wrong))?;
    Some(Ipv6Plan {
        network,
        pool: first.flatten().zip(last.flatten()).map(|(first, last)| Ipv6Pool { first, last }),
        dns_servers,
        reservations,
        advertise: written.advertise,
        gateway,
        interval: RAS,
    })
}
