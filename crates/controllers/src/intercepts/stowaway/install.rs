//! Brings the objects of the cluster's end to what they should be, and names what is in the way.

use causeway_api::{conditions::Reason, names};
use causeway_translate::stowaway_pod::Told;
use k8s_openapi::api::core::v1::Service;
use kube::ResourceExt as _;

use super::{
    Standing,
    desired::{Desired, MadeBy, entry_name},
};
use crate::{
    framework::{
        apply::{self, Action, Applier, Owner, Report, Wanted},
        children::{ChildKind, Children},
        error::Category,
        finding::Finding,
        kinds::{ROLE, ROLE_BINDING, SECRET, SERVICE, SERVICE_ACCOUNT},
        report::chain,
    },
    intercepts::settings::Settings,
    vlan::proxy,
};

/// What became of an installation.
#[derive(Default)]
pub(crate) struct Installed {
    /// What is in the way.
    pub(crate) trouble: Option<Finding>,
    /// What is not as it was asked for, though it works.
    pub(crate) note: Option<String>,
    /// What was done.
    pub(crate) report: Report,
}

/// Makes the objects.
pub(crate) struct Installer<'a> {
    pub(crate) applier: &'a Applier,
    pub(crate) settings: &'a Settings,
    pub(crate) pods: &'a proxy::Settings,
    pub(crate) owner: &'a Owner,
    pub(crate) children: &'a Children,
    pub(crate) standing: &'a Standing,
}

impl Installer<'_> {
    /// Makes everything.
    pub(crate) async fn install(&self, told: &Told) -> Installed {
        let pod_names = self.standing.pod_names();
        let asked = [self.settings.link_node_port, self.settings.wireguard_node_port];
        let mut made = MadeBy {
            settings: self.settings,
            pods: self.pods,
            pod_names: &pod_names,
            node_ports: self.node_ports(asked),
        };
        let mut desired = Desired::new(&made, told);
        let foundation = desired.foundation();
        let mut report = self.applier.apply_all(self.owner, &foundation, self.children).await;
        if let Some(trouble) = first_trouble(&report) {
            return Installed { trouble: Some(trouble), note: None, report };
        }
        let Some(account) = self.account(&report) else {
            return Installed { report, ..Installed::default() };
        };
        desired.set_account(&account);
        let (entry, note) = self.entry(&mut made, told, desired.entry.as_ref()).await;
        let mut keep: Vec<(ChildKind, String)> =
            vec![(SECRET, desired.secret.name_any()), (SERVICE_ACCOUNT, desired.service_account.name_any())];
        let connect = format!("{}-connect", names::STOWAWAY);
        for kind in [ROLE, ROLE_BINDING] {
            keep.push((kind, names::STOWAWAY.to_owned()));
            keep.push((kind, format!("{}-nonroot-scc", names::STOWAWAY)));
            if self.settings.connect_group.is_some() {
                keep.push((kind, connect.clone()));
            }
        }
        if desired.entry.is_some() {
            keep.push((SERVICE, entry_name()));
        }
        let rest = desired.rest(self.children);
        report.join(self.applier.converge(self.owner, &rest, &keep, self.children).await);
        let trouble = entry.err().as_ref().map(trouble_of).or_else(|| first_trouble(&report));
        Installed { trouble, note, report }
    }

    /// The ports to ask for: those that it has, else those of the settings.
    fn node_ports(&self, asked: [Option<u16>; 2]) -> [Option<i32>; 2] {
        let has: Vec<Option<i32>> = self
            .standing
            .entry
            .iter()
            .flat_map(|service| service.spec.iter().flat_map(|spec| spec.ports.iter().flatten()))
            .map(|port| port.node_port)
            .collect();
        match has[..] {
            [link, wireguard] => [link, wireguard],
            _ => asked.map(|port| port.map(i32::from)),
        }
    }

    /// The Service that laptops come by, with other ports than asked for if those are taken and that is allowed.
    async fn entry(
        &self,
        made: &mut MadeBy<'_>,
        told: &Told,
        wanted: Option<&Service>,
    ) -> (Result<(), apply::Error>, Option<String>) {
        let Some(wanted) = wanted else { return (Ok(()), None) };
        let apply = async |service: &Service| {
            self.applier.found(self.owner, &Wanted::new(SERVICE, service), self.children).await
        };
        let busy = match apply(wanted).await {
            Ok(_) => return (Ok(()), self.moved()),
            Err(error) if is_busy(&error) && self.settings.next_port => error,
            Err(error) => return (Err(error), None),
        };
        let [link, wireguard] = made.node_ports;
        for ports in [[None, wireguard], [link, None], [None, None]] {
            if ports == made.node_ports {
                continue;
            }
            let tried = MadeBy { node_ports: ports, ..*made };
            let Some(service) = Desired::new(&tried, told).entry else { break };
            match apply(&service).await {
                Ok(_) => return (Ok(()), Some(format!("{}; other ports were taken", chain(&busy)))),
                Err(error) if is_busy(&error) => {}
                Err(error) => return (Err(error), None),
            }
        }
        (Err(busy), None)
    }

    /// Which ports are not those that were asked for.
    fn moved(&self) -> Option<String> {
        let asked = [self.settings.link_node_port, self.settings.wireguard_node_port];
        let service = self.standing.entry.as_ref()?;
        let ports = service.spec.as_ref()?.ports.as_ref()?;
        let moved = asked.iter().zip(ports).filter_map(|(asked, port)| {
            let (asked, has) = (i32::from((*asked)?), port.node_port?);
            (asked != has).then(|| format!("node port {asked} was taken, {has} is used"))
        });
        let moved: Vec<String> = moved.collect();
        (!moved.is_empty()).then(|| moved.join("; "))
    }

    /// The uid of the pods' account.
    fn account(&self, report: &Report) -> Option<String> {
        match report.of(SERVICE_ACCOUNT, names::STOWAWAY)? {
            Ok(Action::Applied(object)) => object.uid(),
            Ok(Action::Unchanged) => {
                self.children.get(SERVICE_ACCOUNT, &self.settings.namespace, names::STOWAWAY)?.uid()
            }
            _ => None,
        }
    }
}

/// Whether a port of the nodes is somebody else's.
fn is_busy(error: &apply::Error) -> bool {
    error.category() == Category::Refused && chain(error).contains("already allocated")
}

fn first_trouble(report: &Report) -> Option<Finding> {
    report.failures().next().map(trouble_of)
}

/// What keeps an object from being as it should be, by name.
pub(crate) fn trouble_of(error: &apply::Error) -> Finding {
    let message = chain(error);
    let reason = match (error, error.category()) {
        (apply::Error::Foreign { kind: "Service", .. }, _) => Reason::ServiceExists,
        (apply::Error::Foreign { .. }, _) => Reason::AnotherInstance,
        (_, Category::Forbidden) => Reason::MissingPrivileges,
        _ if is_busy(error) => Reason::NodePortBusy,
        _ => Reason::ReconciliationFailed,
    };
    Finding::no(reason, message)
}
