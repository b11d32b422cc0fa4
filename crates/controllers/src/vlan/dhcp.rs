//! What is particular to DHCPServers: leases that outlive pods, a share of a network, and the virtual machines that are served.

mod machines;
mod share;
mod sharing;

use std::net::IpAddr;

use causeway_api::{
    ClientSource, DHCPServer, DHCPServerStatus, LeaseConfig, LeaseCounts, ServerReplica,
    conditions::{ConditionType, Reason, find},
    names,
};
use causeway_ir::Problem;
use causeway_translate::dhcp::validate;
use k8s_openapi::jiff::Timestamp;
use kube::{ResourceExt, api::DynamicObject};

use self::sharing::Sharing;
use super::server::{Common, Outline, Server, State, Told};
use crate::{
    framework::{
        children::{ChildKind, Children, is_kind},
        finding::Finding,
        kinds::{
            ADDRESS_CLAIM, CONFIG_MAP, DEPLOYMENT, DHCP_SERVER, DNS_SERVER, NETWORK_ATTACHMENT,
            NETWORK_POLICY, PERSISTENT_VOLUME_CLAIM, POD, POD_DISRUPTION_BUDGET, ROLE, ROLE_BINDING,
            SERVICE_ACCOUNT, VIRTUAL_MACHINE_INSTANCE,
        },
    },
    grants::{Grants, REFERENCE_GRANT},
    vlan::claims::Attachment,
};

/// Reconciles DHCPServers.
pub(crate) type Controller = super::server::Controller<DHCPServer>;

impl State for DHCPServerStatus {}

impl Server for DHCPServer {
    const ROLE: &'static str = "dhcp";
    const MANAGER: &'static str = "causeway-dhcp";
    const REPORTER: &'static str = "causeway.dev/dhcp";
    const APP: &'static str = names::APP_DHCP;
    const PLURAL: &'static str = "dhcpservers";
    const CHILDREN: &'static [ChildKind] = &[
        SERVICE_ACCOUNT,
        ROLE,
        ROLE_BINDING,
        CONFIG_MAP,
        PERSISTENT_VOLUME_CLAIM,
        DEPLOYMENT,
        POD,
        POD_DISRUPTION_BUDGET,
        NETWORK_POLICY,
    ];
    const READS: &'static [ChildKind] = &[
        REFERENCE_GRANT,
        ADDRESS_CLAIM,
        NETWORK_ATTACHMENT,
        VIRTUAL_MACHINE_INSTANCE,
        DHCP_SERVER,
        DNS_SERVER,
    ];

    fn problems(&self) -> Vec<Problem> {
        validate(self).err().unwrap_or_default()
    }

    fn attachment(&self) -> Option<Attachment> {
        let network = &self.spec.network_config;
        let (name, namespace) = (&network.network_attachment_name, &network.network_attachment_namespace);
        Attachment::named(name.as_ref(), namespace.as_ref(), self)
    }

    fn outline(&self) -> Option<Outline> {
        let valid = validate(self).ok()?;
        let spec = &self.spec;
        let prefix = valid.network().prefix_len();
        Some(Outline {
            addresses: valid.servers.iter().map(|address| (IpAddr::V4(*address), prefix)).collect(),
            attachment: self.attachment(),
            image: spec.image.clone(),
            pod_template: spec.pod_template.clone(),
            update_policy: spec.update_policy,
            raw_sockets: spec.privileges.as_ref().is_some_and(|privileges| privileges.net_raw),
            keeps_leases: true,
            ..Outline::default()
        })
    }

    fn conflict(&self, children: &Children, grants: Option<&Grants>) -> Option<Problem> {
        share::conflict(self, children, grants)
    }

    fn uses(&self, address: IpAddr) -> bool {
        validate(self).is_ok_and(|valid| {
            let (first, last) = valid.range();
            let leases = |address| (first..=last).contains(&address) || valid.servers.contains(&address);
            valid.reserves(address) || matches!(address, IpAddr::V4(address) if leases(address))
        })
    }

    fn told(&self, children: &Children, _: Option<&Grants>, now: Timestamp) -> Told {
        let mut told = Told { entries: share::told(self, children), ..Told::default() };
        if let Some(sharing) = Sharing::next(self, children, now) {
            told.entries.push((names::SHARED_BEFORE, sharing.to_string()));
            told.kept_replicas = sharing.count;
            told.look_again = sharing.rest(now);
        }
        if self.spec.clients == ClientSource::VirtualMachines {
            let (lines, finding) = machines::told(self, children);
            told.entries.extend(lines.map(|lines| (names::SERVED_CLIENTS, lines)));
            told.clients = Some(finding);
        }
        told
    }

    fn is_concerned(&self, read: &DynamicObject) -> bool {
        if is_kind(read, VIRTUAL_MACHINE_INSTANCE) {
            return self.spec.clients == ClientSource::VirtualMachines;
        }
        // What another gives up may be had by one that waits for it.
        let conditions = self.status.as_ref().map_or(&[][..], |status| &status.conditions);
        is_kind(read, DHCP_SERVER)
            && read.uid() != self.uid()
            && find(conditions, ConditionType::ConfigurationValid)
                .is_some_and(|valid| valid.reason == Reason::InvalidSpec.as_str())
    }

    fn turns_away(&self, reports: &[&ServerReplica]) -> Option<Finding> {
        if self.spec.clients == ClientSource::Reserved {
            let message = "clients: Reserved serves those of spec.reservations alone, and there are none: reserve addresses, \
                           or write clients: All";
            return self.spec.reservations.is_empty().then(|| Finding::no(Reason::NotReady, message));
        }
        let mut counts = reports.iter().filter_map(|report| report.leases).peekable();
        counts.peek()?;
        if counts.any(|counts| counts.free > 0) {
            return None;
        }
        let LeaseConfig { range_start, range_end, .. } = &self.spec.lease_config;
        let message = format!(
            "every address from {range_start} to {range_end} is leased: a client that comes now gets none; widen \
             spec.leaseConfig.rangeEnd, or shorten spec.leaseConfig.leaseTime"
        );
        Some(Finding::no(Reason::AddressesExhausted, message))
    }

    fn status_of(common: Common, reports: &[&ServerReplica]) -> DHCPServerStatus {
        let counts: Vec<LeaseCounts> = reports.iter().filter_map(|report| report.leases).collect();
        let sum = |count: fn(&LeaseCounts) -> i32| {
            (!counts.is_empty()).then(|| counts.iter().map(count).fold(0, i32::saturating_add))
        };
        let most = |count: fn(&LeaseCounts) -> i32| counts.iter().map(count).max();
        DHCPServerStatus {
            conditions: common.conditions,
            observed_generation: common.observed_generation,
            active_leases: sum(|counts| counts.active),
            // Each server knows the whole range.
            total_leases: most(|counts| {
                counts.active.saturating_add(counts.free).saturating_add(counts.declined)
            }),
            declined_leases: most(|counts| counts.declined),
            unknown_clients: most(|counts| counts.unknown_clients),
            accepted_generation: common.accepted_generation,
            replicas: Vec::new(),
            config_map_name: common.config_map_name,
            deployment_name: common.deployment_name,
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    #[test]
    fn servers_that_would_give_a_client_nothing_turn_it_away() {
        let server = |clients: &str, reservations: Value| -> DHCPServer {
            serde_json::from_value(json!({
                "apiVersion": "causeway.dev/v1alpha1", "kind": "DHCPServer", "metadata": { "name": "lab" },
                "spec": {
                    "networkConfig": { "cidr": "10.0.0.0/24", "gateway": "10.0.0.1", "serverIP": "10.0.0.2" },
                    "leaseConfig": { "rangeStart": "10.0.0.50", "rangeEnd": "10.0.0.59" },
                    "clients": clients, "reservations": reservations,
                },
            }))
            .unwrap()
        };
        let report = |free| ServerReplica {
            leases: Some(LeaseCounts { active: 5, free, declined: 0, unknown_clients: 0 }),
            ..ServerReplica::default()
        };
        let (full, room) = (report(0), report(1));
        let all = server("All", json!([]));
        assert!(all.turns_away(&[]).is_none(), "nobody has counted yet");
        assert!(all.turns_away(&[&full, &room]).is_none(), "one of two can");
        let said = all.turns_away(&[&full, &full]).unwrap();
        assert!(said.message.contains("10.0.0.50 to 10.0.0.59"), "{}", said.message);
        let reserved = server("Reserved", json!([{ "mac": "02:00:00:00:00:01", "ip": "10.0.0.9" }]));
        assert!(reserved.turns_away(&[&full]).is_none(), "their addresses are kept for them");
        let nobody = server("Reserved", json!([])).turns_away(&[&room]).unwrap();
        assert!(nobody.message.contains("spec.reservations"), "{}", nobody.message);
    }

    #[test]
    fn what_the_servers_count_is_summed_up() {
        let report = |active, free| ServerReplica {
            leases: Some(LeaseCounts { active, free, declined: 1, unknown_clients: 0 }),
            ..ServerReplica::default()
        };
        let status = DHCPServer::status_of(Common::default(), &[&report(3, 6), &report(2, 7)]);
        assert_eq!(
            (status.active_leases, status.total_leases, status.declined_leases),
            (Some(5), Some(10), Some(1))
        );
    }
}
