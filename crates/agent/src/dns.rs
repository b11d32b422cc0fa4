//! DNSServers: what the pod of one follows, runs and reports.

use std::net::{IpAddr, SocketAddr};

use causeway_api::{DNSServer, names};
use causeway_ir::Problem;
use causeway_ir::dns::DnsPlan;
use causeway_translate::dns::{Facts, Internal, Valid, translate, validate};
use serde_json::Value;

use crate::followed::{Followed, Needs, State, Surroundings};
use crate::lease_names;
use crate::runner::Snapshot;
use crate::server::ServerPod;

const ROLE: &str = "dns";

/// The pod of a DNS server.
pub struct Dns(pub ServerPod);

/// What is to be said of a DNS server's plan.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct DnsNotes {
    /// Names that it answers by itself.
    pub names: usize,
    /// What is missing.
    pub missing: Option<String>,
}

impl Followed for Dns {
    type Object = DNSServer;
    type Checked = Valid;
    type Plan = DnsPlan;
    type Notes = DnsNotes;

    const IS_SUPPLIED: bool = false;

    fn check(&self, object: &DNSServer) -> Result<Valid, Vec<Problem>> {
        validate(object)
    }

    fn needs(&self, server: &Valid) -> Needs {
        let told = names::server_config_map(&self.0.name, ROLE);
        let leases = server.lease_names_of.as_deref().map(names::lease_names_config_map);
        Needs {
            addresses: vec![self.0.server_ip],
            config_maps: std::iter::once(told).chain(leases).collect(),
            ..Needs::default()
        }
    }

    fn plan(
        &self,
        server: &Valid,
        surroundings: &Surroundings,
        _: Option<&DnsPlan>,
    ) -> Result<(DnsPlan, DnsNotes), Vec<Problem>> {
        let facts = self.facts(server, surroundings);
        let binds: Vec<IpAddr> = surroundings.here.iter().copied().chain([self.0.pod_ip]).collect();
        let plan = translate(server, &binds, &facts);
        let problems = plan.validate();
        if !problems.is_empty() {
            return Err(problems);
        }
        let missing = match &server.internal {
            Some(Internal::Service(service)) if facts.internal.is_empty() => {
                Some(format!("Service {service} of internalProxyIP has no address, so pods get no answer"))
            }
            _ => None,
        };
        let zones = plan.views.first().map_or(&[][..], |view| &view.zones);
        let names = zones.iter().map(|zone| zone.records.len()).sum();
        Ok((plan, DnsNotes { names, missing }))
    }

    fn report(&self, state: &State<Self>, carried: &Snapshot<DnsPlan>) -> Value {
        let mut entry = self.0.entry(state, carried);
        entry.names = i32::try_from(state.notes.names).ok();
        let trouble: Vec<String> = entry.trouble.into_iter().chain(state.notes.missing.clone()).collect();
        entry.trouble = (!trouble.is_empty()).then(|| trouble.join("; "));
        serde_json::to_value(entry).unwrap_or_default()
    }

    fn neighbours(&self, surroundings: &Surroundings) -> Vec<SocketAddr> {
        self.0.neighbours(ROLE, surroundings)
    }

    fn reported(&self, object: &DNSServer) -> Option<Value> {
        self.0.reported(&object.status.as_ref()?.replicas)
    }

    fn is_shared(&self, object: &DNSServer) -> bool {
        object.status.as_ref().is_some_and(|status| self.0.is_shared(&status.replicas))
    }
}

impl Dns {
    fn facts(&self, server: &Valid, surroundings: &Surroundings) -> Facts {
        let maps = &surroundings.config_maps;
        let internal = self.0.told(ROLE, surroundings, names::INTERNAL_ADDRESSES);
        let leases = server.lease_names_of.as_deref().map(names::lease_names_config_map);
        let leases = leases.and_then(|name| maps.get(&name)).map(lease_names::read).unwrap_or_default();
        Facts { internal: internal.split(',').filter_map(|text| text.trim().parse().ok()).collect(), leases }
    }
}

#[cfg(test)]
mod tests {
    use causeway_api::DNSServer;
    use serde_json::json;

    use super::*;
    use crate::followed::Entries;

    #[test]
    fn names_and_addresses_that_others_tell_are_in_the_plan() {
        let pod = ServerPod {
            name: "lab".into(),
            pod: "lab-x".into(),
            pod_ip: "10.85.0.9".parse().unwrap(),
            server_ip: "192.168.100.3".parse().unwrap(),
        };
        let object: DNSServer = serde_json::from_value(json!({
            "apiVersion": "causeway.dev/v1alpha1", "kind": "DNSServer", "metadata": { "name": "lab", "namespace": "ns" },
            "spec": {
                "networkConfig": { "serverIP": "192.168.100.3/24", "internalProxyIP": "front" },
                "hostedClusterDomain": "lab.example.com", "leaseNamesOf": "lab-dhcp",
                "staticEntries": [{ "hostname": "api.lab.example.com", "ip": "192.168.100.4" }],
            },
        }))
        .unwrap();
        let dns = Dns(pod);
        let valid = dns.check(&object).unwrap();
        let needs = dns.needs(&valid);
        assert!(
            needs.config_maps.contains("lab-dns-config") && needs.config_maps.contains("lab-dhcp-dhcp-names")
        );
        let (_, notes) = dns.plan(&valid, &Surroundings::default(), None).unwrap();
        assert!(notes.missing.unwrap().contains("Service ns/front"));
        let entry = |key: &str, value: &str| [(key.to_owned(), value.to_owned())].into();
        let mut told: Entries = entry("internalAddresses", "10.96.0.20");
        told.insert("neighbours".to_owned(), "192.168.100.2:67,192.168.100.3:53,rubbish".to_owned());
        let surroundings = Surroundings {
            here: vec![dns.0.server_ip],
            config_maps: [
                ("lab-dns-config".to_owned(), told),
                ("lab-dhcp-dhcp-names".to_owned(), entry("1", "vm 192.168.100.50\n")),
            ]
            .into(),
            ..Surroundings::default()
        };
        let (plan, notes) = dns.plan(&valid, &surroundings, None).unwrap();
        assert_eq!((notes.missing, notes.names, plan.binds.len()), (None, 2, 2));
        assert_eq!(dns.neighbours(&surroundings), ["192.168.100.2:67".parse().unwrap()], "not itself");
        let text = serde_json::to_string(&plan).unwrap();
        assert!(text.contains("10.96.0.20") && text.contains("vm.lab.example.com"), "{text}");
    }
}
