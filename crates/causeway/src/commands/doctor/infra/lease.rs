//! An address, asked for as a client does that boots, and left at the offer: what it would be told, and whether somebody else
//! gives out addresses there.

use std::net::{IpAddr, Ipv4Addr};

use causeway_api::{ClientSource, DHCPServer, DHCPServerStatus, names};
use causeway_ir::dhcp::HardwareAddress;
use causeway_translate::dhcp::read_clients;
use ipnet::IpNet;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::{Api, Client, ResourceExt};

use crate::commands::doctor::finding::{Finding, listed};
use crate::commands::doctor::vantage::Vantage;
use crate::parts::dhcp_client::{self, Card, OWN_CARD, Offer};

/// Asks from a pod on the network; `resolver` is what clients should be told.
pub(super) async fn offered(
    client: &Client,
    server: &DHCPServer,
    resolver: Option<&str>,
    vantage: Option<&Vantage>,
) -> Vec<Finding> {
    let network = &server.spec.network_config;
    let Ok(IpNet::V4(net)) = network.cidr.parse::<IpNet>() else {
        return vec![Finding::skipped("no address was asked for: the network is one of IPv6")];
    };
    let (card, who) = match asker(server, &served(client, server).await) {
        Ok(asker) => asker,
        Err(finding) => return vec![finding],
    };
    let Some(vantage) = vantage else {
        return vec![Finding::unchecked(
            "no address was asked for on the isolated network: `causeway doctor` does that as root, on the machine of \
             `causeway up`, where a pod of the Infra is attached",
        )];
    };
    let offers = match vantage.work(|| dhcp_client::offers(net.broadcast(), card)) {
        Ok(Ok(offers)) => offers,
        Ok(Err(error)) | Err(error) => {
            return vec![Finding::unchecked(format!(
                "no address could be asked for from pod {}: {error}",
                vantage.pod
            ))];
        }
    };
    let own: Option<Ipv4Addr> = network.server_ip.split('/').next().and_then(|ip| ip.parse().ok());
    let more = network.additional_server_ips.iter().filter_map(|ip| ip.split('/').next()?.parse().ok());
    let ours: Vec<Ipv4Addr> = own.into_iter().chain(more).collect();
    let (mut found, strangers): (Vec<_>, Vec<_>) =
        offers.into_iter().partition(|offer| offer.server.is_some_and(|server| ours.contains(&server)));
    let mut findings: Vec<Finding> = strangers.iter().map(stranger).collect();
    let Some(offer) = found.pop() else {
        findings.push(Finding::bad(
            format!("{who} that asks for an address on the network (from pod {}) gets no offer", vantage.pod),
            cure_of_silence(server),
        ));
        return findings;
    };
    findings.extend(wrong(&offer, net.netmask(), &network.gateway, resolver));
    let address = offer.address.unwrap_or(Ipv4Addr::UNSPECIFIED);
    findings.push(Finding::good(format!("{who} on the network is offered {address} with {}", told(&offer))));
    findings
}

/// The cards of virtual machines that are served, with their names.
async fn served(client: &Client, server: &DHCPServer) -> Vec<(Card, String)> {
    if server.spec.clients != ClientSource::VirtualMachines {
        return Vec::new();
    }
    let api: Api<ConfigMap> = Api::namespaced(client.clone(), &server.namespace().unwrap_or_default());
    let found = api.get_opt(&names::server_config_map(&server.name_any(), "dhcp")).await;
    let entries = found.ok().flatten().and_then(|map| map.data).unwrap_or_default();
    let clients = read_clients(entries.get(names::SERVED_CLIENTS).map_or("", String::as_str)).into_iter();
    let named = |name: Option<causeway_ir::Name>| name.map(|name| name.to_string()).unwrap_or_default();
    clients.map(|client| (client.hardware.0, named(client.hostname))).collect()
}

/// In whose name is asked: somebody's whom the server knows, where it does not serve everybody.
fn asker(server: &DHCPServer, machines: &[(Card, String)]) -> Result<(Card, String), Finding> {
    let of_ipv4 = server.spec.reservations.iter().filter(|own| own.ip.parse::<Ipv4Addr>().is_ok());
    let mut reserved = of_ipv4.filter_map(|own| {
        let card = HardwareAddress::parse(own.mac.as_deref()?).ok()?;
        Some((card.0, format!("the client with the reservation of {}", own.ip)))
    });
    match server.spec.clients {
        ClientSource::All => Ok((OWN_CARD, "a client".to_owned())),
        ClientSource::Reserved if server.spec.reservations.is_empty() => Err(Finding::bad(
            "nobody is given an address: clients is Reserved, and there are no reservations",
            "write reservations for the machines of the network, or clients: All",
        )),
        ClientSource::Reserved => reserved.next().ok_or_else(|| {
            Finding::skipped(
                "no address was asked for: clients is Reserved, and no reservation is for a card (mac), in whose name one \
                 could be asked for",
            )
        }),
        ClientSource::VirtualMachines => {
            let mut machines = machines.iter().map(|(card, name)| (*card, format!("virtual machine {name}")));
            machines.next().or_else(|| reserved.next()).ok_or_else(|| {
                Finding::skipped(
                    "no address was asked for: clients is VirtualMachines, and no machine of KubeVirt on this network is \
                     known",
                )
            })
        }
    }
}

/// Why a server that is there gives nothing.
fn cure_of_silence(server: &DHCPServer) -> String {
    let status = server.status.clone().unwrap_or_default();
    let DHCPServerStatus { active_leases: Some(active), total_leases: Some(total), .. } = status else {
        return SEE_POD.to_owned();
    };
    let declined = status.declined_leases.unwrap_or_default();
    if total == 0 || active + declined < total {
        return SEE_POD.to_owned();
    }
    let others = if declined > 0 {
        format!(", {declined} by machines that were not given them")
    } else {
        String::new()
    };
    format!(
        "all {total} addresses of the range are in use{others}: make it larger (leaseConfig.rangeStart, rangeEnd), or leases \
         shorter (leaseTime)"
    )
}

const SEE_POD: &str = "see the log of its pod, and whether a firewall filters the bridge";

fn stranger(offer: &Offer) -> Finding {
    let server = offer.server.map_or_else(|| "an unknown server".to_owned(), |server| server.to_string());
    Finding::bad(
        format!("{server} gives out addresses on this network, too"),
        "take that DHCP server off the network, or leave dhcp out of the Infra: clients take the first offer",
    )
}

/// What a client would be told that leads it nowhere.
fn wrong(offer: &Offer, mask: Ipv4Addr, gateway: &str, resolver: Option<&str>) -> Vec<Finding> {
    let cure = "the server has not taken the newest spec, or an option of the spec overrides it: see spec.options and its log";
    let mut found = Vec::new();
    if offer.mask != Some(mask) {
        found.push(Finding::bad(format!("clients are not told the mask {mask}"), cure));
    }
    if !offer.routers.iter().any(|router| router.to_string() == gateway) {
        found.push(Finding::bad(format!("clients are not told the router {gateway}"), cure));
    }
    let resolver: Option<IpAddr> = resolver.and_then(|ip| ip.split('/').next()?.parse().ok());
    if let Some(IpAddr::V4(resolver)) = resolver
        && !offer.resolvers.contains(&resolver)
    {
        found.push(Finding::bad(format!("clients are not told the resolver {resolver}"), cure));
    }
    found
}

fn told(offer: &Offer) -> String {
    let list = |all: &[Ipv4Addr]| match all {
        [] => "none".to_owned(),
        all => listed(&all.iter().map(ToString::to_string).collect::<Vec<_>>()),
    };
    format!("router {}, resolvers {}", list(&offer.routers), list(&offer.resolvers))
}

#[cfg(test)]
mod tests {
    use causeway_api::DHCPServerSpec;
    use serde_json::json;

    use super::*;

    fn server(clients: &str, reservations: &serde_json::Value) -> DHCPServer {
        let spec = DHCPServerSpec {
            clients: serde_json::from_value(json!(clients)).unwrap(),
            reservations: serde_json::from_value(reservations.clone()).unwrap(),
            ..DHCPServerSpec::default()
        };
        DHCPServer::new("lab", spec)
    }

    #[test]
    fn is_asked_in_the_name_of_somebody_who_is_served() {
        let reservation = json!([
            {"clientID": "ff:01", "ip": "10.0.0.8"}, {"mac": "02:00:00:00:00:01", "ip": "fd00::1"},
            {"mac": "02:00:00:00:00:02", "ip": "10.0.0.9"},
        ]);
        let vm = ([2, 0, 0, 0, 0, 3], "vm-one".to_owned());
        let asker = |clients: &str, reservations: &serde_json::Value, machines: &[(Card, String)]| {
            asker(&server(clients, reservations), machines)
        };
        assert_eq!(asker("All", &reservation, &[]).unwrap().0, OWN_CARD);
        let (card, who) = asker("Reserved", &reservation, &[]).unwrap();
        assert_eq!((card, who.contains("10.0.0.9")), ([2, 0, 0, 0, 0, 2], true));
        assert_eq!(
            asker("VirtualMachines", &reservation, std::slice::from_ref(&vm)).unwrap(),
            (vm.0, "virtual machine vm-one".into())
        );
        assert_eq!(asker("VirtualMachines", &reservation, &[]).unwrap().0, [2, 0, 0, 0, 0, 2]);
        assert!(asker("Reserved", &json!([]), &[]).unwrap_err().is_bad());
        let by_id = json!([{"clientID": "ff:01", "ip": "10.0.0.8"}]);
        let said = format!("{:?}", asker("Reserved", &by_id, &[]).unwrap_err());
        assert!(said.contains("Reserved") && !said.contains("KubeVirt"), "{said}");
        assert!(!asker("VirtualMachines", &json!([]), &[]).unwrap_err().is_bad());
    }

    #[test]
    fn a_range_that_is_used_up_is_the_cause() {
        let mut server = server("All", &json!([]));
        assert_eq!(cure_of_silence(&server), SEE_POD);
        let mut status = DHCPServerStatus {
            active_leases: Some(9),
            total_leases: Some(10),
            ..DHCPServerStatus::default()
        };
        server.status = Some(status.clone());
        assert_eq!(cure_of_silence(&server), SEE_POD);
        status.declined_leases = Some(1);
        server.status = Some(status);
        assert!(
            cure_of_silence(&server).starts_with("all 10 addresses of the range are in use, 1 by machines")
        );
    }

    #[test]
    fn what_leads_a_client_nowhere_is_told() {
        let offer = Offer {
            mask: Some(Ipv4Addr::new(255, 255, 255, 0)),
            routers: vec![Ipv4Addr::new(10, 0, 0, 1)],
            resolvers: vec![Ipv4Addr::new(10, 0, 0, 3)],
            ..Offer::default()
        };
        let mask = Ipv4Addr::new(255, 255, 255, 0);
        assert!(wrong(&offer, mask, "10.0.0.1", Some("10.0.0.3/24")).is_empty());
        assert_eq!(wrong(&offer, Ipv4Addr::new(255, 0, 0, 0), "10.0.0.2", Some("10.0.0.4")).len(), 3);
    }
}
