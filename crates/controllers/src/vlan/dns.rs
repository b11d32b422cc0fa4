//! What is particular to DNSServers: a Service on the pod network, and the address that pods are sent to, which may be that
//! of another Service.

use std::net::IpAddr;

use causeway_api::{DNSServer, DNSServerStatus, ServerReplica, conditions::Reason, names};
use causeway_ir::Problem;
use causeway_translate::dns::{Internal, validate};
use k8s_openapi::{api::core::v1::Service, jiff::Timestamp};
use kube::{ResourceExt, api::DynamicObject};

use super::server::{Common, Outline, Server, State, Told};
use crate::{
    framework::{
        children::{ChildKind, Children, is_kind, typed},
        finding::Finding,
        kinds::{
            ADDRESS_CLAIM, CONFIG_MAP, DEPLOYMENT, DHCP_SERVER, DNS_SERVER, NETWORK_ATTACHMENT,
            NETWORK_POLICY, POD, POD_DISRUPTION_BUDGET, ROLE, ROLE_BINDING, SERVICE, SERVICE_ACCOUNT,
        },
    },
    grants::{Grants, REFERENCE_GRANT, Target, Users, advice_for},
    vlan::claims::Attachment,
};

/// Reconciles DNSServers.
pub(crate) type Controller = super::server::Controller<DNSServer>;

impl State for DNSServerStatus {}

impl Server for DNSServer {
    const ROLE: &'static str = "dns";
    const MANAGER: &'static str = "causeway-dns";
    const REPORTER: &'static str = "causeway.dev/dns";
    const APP: &'static str = names::APP_DNS;
    const PLURAL: &'static str = "dnsservers";
    const CHILDREN: &'static [ChildKind] = &[
        SERVICE_ACCOUNT,
        ROLE,
        ROLE_BINDING,
        CONFIG_MAP,
        DEPLOYMENT,
        POD,
        POD_DISRUPTION_BUDGET,
        NETWORK_POLICY,
    ];
    // Services of others, too, by whose addresses the pod network is sent.
    const READS: &'static [ChildKind] =
        &[SERVICE, REFERENCE_GRANT, ADDRESS_CLAIM, NETWORK_ATTACHMENT, DHCP_SERVER, DNS_SERVER];

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
        Some(Outline {
            addresses: vec![(valid.server, valid.network.prefix_len())],
            attachment: self.attachment(),
            image: spec.image.clone(),
            pod_template: spec.pod_template.clone(),
            update_policy: spec.update_policy,
            service_port: Some(valid.port),
            reads: valid.lease_names_of.iter().map(|name| names::lease_names_config_map(name)).collect(),
            ..Outline::default()
        })
    }

    fn uses(&self, address: IpAddr) -> bool {
        validate(self).is_ok_and(|valid| valid.server == address)
    }

    fn told(&self, children: &Children, grants: Option<&Grants>, _: Timestamp) -> Told {
        let named = validate(self).ok().and_then(|valid| valid.internal?.service());
        let Some(service) = named else { return Told::default() };
        let namespace = self.namespace().unwrap_or_default();
        let users = Users { group: names::GROUP, kind: "DNSServer", namespace: &namespace };
        let target = Target::service(&service.name);
        let is_permitted =
            grants.is_none_or(|grants| grants.permit_object(users, &service.namespace, target));
        if !is_permitted {
            let message = advice_for(users, &service.namespace, target);
            return Told { refusal: Some(Finding::no(Reason::RefNotPermitted, message)), ..Told::default() };
        }
        let found = children.get(SERVICE, &service.namespace, &service.name);
        let addresses =
            found.as_ref().and_then(|found| typed::<Service>(found)).map(|found| addresses(&found));
        match addresses {
            Some(addresses) if !addresses.is_empty() => {
                Told { entries: vec![(names::INTERNAL_ADDRESSES, addresses.join(","))], ..Told::default() }
            }
            Some(_) => Told::missing(format!(
                "Service {service} has no cluster address: write one that has, or an address, into \
                 spec.networkConfig.internalProxyIP"
            )),
            None => Told::missing(format!(
                "there is no Service {service}: create it, or correct spec.networkConfig.internalProxyIP"
            )),
        }
    }

    fn is_concerned(&self, read: &DynamicObject) -> bool {
        if !is_kind(read, SERVICE) {
            return false;
        }
        let is_own = read.namespace() == self.namespace() && read.name_any() == self.name_any();
        let Ok(valid) = validate(self) else {
            // An earlier spec runs on, and which Service that one names is not said in here.
            return true;
        };
        let named = valid.internal.and_then(Internal::service);
        is_own
            || named.is_some_and(|named| {
                Some(named.namespace) == read.namespace() && named.name == read.name_any()
            })
    }

    fn status_of(common: Common, reports: &[&ServerReplica]) -> DNSServerStatus {
        let mut failing: Vec<String> =
            reports.iter().flat_map(|report| &report.failing_upstreams).cloned().collect();
        failing.sort();
        failing.dedup();
        DNSServerStatus {
            conditions: common.conditions,
            observed_generation: common.observed_generation,
            names: reports.iter().filter_map(|report| report.names).min(),
            failing_upstreams: failing,
            accepted_generation: common.accepted_generation,
            replicas: Vec::new(),
            config_map_name: common.config_map_name,
            deployment_name: common.deployment_name,
            service_name: common.service_name,
            service_cluster_ip: common.service_ip,
        }
    }
}

/// The addresses of a Service that has its own.
fn addresses(service: &Service) -> Vec<String> {
    let spec = service.spec.clone().unwrap_or_default();
    let listed = spec.cluster_ips.unwrap_or_default();
    let all = if listed.is_empty() { spec.cluster_ip.into_iter().collect() } else { listed };
    all.into_iter().filter(|address| address.parse::<IpAddr>().is_ok()).collect()
}
