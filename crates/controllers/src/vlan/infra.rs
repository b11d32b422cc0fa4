//! The Infra controller: one object asks for DHCP, DNS and a proxy on an isolated network, and becomes a `DHCPServer`,
//! a `DNSServer` and a `ProxyServer` that it owns. It writes in its own namespace only; opening the control plane's
//! namespace with a NetworkPolicy is left to that namespace's owner.

mod addresses;
mod backends;
mod desired;
#[cfg(test)]
mod fixture;
mod observe;
mod status;
mod validate;

use std::sync::Arc;

use causeway_api::{Infra, InfraStatus};
use ipnet::IpNet;
use kube::{Client, ResourceExt, api::DynamicObject};

use crate::framework::{
    apply::{Applier, Owner},
    children::{ChildKind, Children, is_kind, typed},
    error::Error,
    events::Recorder,
    kinds::{ADDRESS_CLAIM, NETWORK_ATTACHMENT, own},
    runner::Reconciler,
    status::{Writer, now},
};
use crate::vlan::claims::{self, Attachment};

/// A part of an Infra, with a child of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Component {
    /// Hands out addresses.
    Dhcp,
    /// Answers names.
    Dns,
    /// Forwards to the control plane.
    Proxy,
}

impl Component {
    /// Every component, in the order of the spec.
    pub(crate) const ALL: [Self; 3] = [Self::Dhcp, Self::Dns, Self::Proxy];

    /// The kind of its child.
    pub(crate) const fn kind(self) -> ChildKind {
        let (kind, plural) = match self {
            Self::Dhcp => ("DHCPServer", "dhcpservers"),
            Self::Dns => ("DNSServer", "dnsservers"),
            Self::Proxy => ("ProxyServer", "proxyservers"),
        };
        own(kind, plural)
    }

    /// Its field in `spec.infraComponents`, also the ending of its child's name.
    pub(crate) fn field(self) -> &'static str {
        match self {
            Self::Dhcp => "dhcp",
            Self::Dns => "dns",
            Self::Proxy => "proxy",
        }
    }

    /// What people call it.
    pub(crate) fn title(self) -> &'static str {
        match self {
            Self::Dhcp => "DHCP",
            Self::Dns => "DNS",
            Self::Proxy => "proxy",
        }
    }

    /// The name of its child in an Infra of this name.
    pub(crate) fn child_name(self, infra: &str) -> String {
        format!("{infra}-{}", self.field())
    }
}

const NAME: &str = "infra";
const FIELD_MANAGER: &str = "causeway-infra";

/// Reconciles Infras.
pub struct Controller {
    applier: Applier,
    status: Writer<InfraStatus>,
    events: Recorder,
}

impl Controller {
    /// A controller that reports Events as the replica `identity`.
    pub fn new(client: Client, identity: &str) -> Self {
        Self {
            applier: Applier::new(client.clone(), FIELD_MANAGER),
            status: Writer::new(client.clone(), FIELD_MANAGER),
            events: Recorder::new(client, "causeway.dev/infra", identity),
        }
    }
}

impl Reconciler for Controller {
    type Primary = Infra;
    const NAME: &'static str = NAME;
    const CHILDREN: &'static [ChildKind] =
        &[Component::Dhcp.kind(), Component::Dns.kind(), Component::Proxy.kind()];

    const READS: &'static [ChildKind] = &[ADDRESS_CLAIM, NETWORK_ATTACHMENT];

    async fn reconcile(&self, infra: Arc<Infra>, children: Children) -> Result<(), Error> {
        // The children of an Infra that is going away go with it: they are owned.
        let Some(owner) = Owner::of(&*infra).filter(|_| infra.metadata.deletion_timestamp.is_none()) else {
            return Ok(());
        };
        let previous = self.status.previous(&*infra);
        let observed = observe::observe(&infra, &owner, &previous, &children);
        let valid = validate::validate(&infra, &observed);
        let desired = desired::desired(&infra, &valid, &observed);
        let report = self.applier.converge(&owner, &desired.wanted(), &desired.keep, &children).await;

        let states = status::component_states(&infra, &valid, &observed, &report);
        let generation = infra.metadata.generation.unwrap_or_default();
        let next = status::next(&previous, &valid, &states, generation, &now());
        self.status.report(&*infra, &previous, &next, &self.events, status::notes).await?;
        report.into_result()
    }

    /// An address that was chosen may be somebody else's since, by whatever attachment of the network.
    fn is_concerned(&self, infra: &Infra, read: &DynamicObject) -> bool {
        if !is_kind(read, ADDRESS_CLAIM) {
            return read.namespace() == Some(attachment(infra).namespace);
        }
        let place = typed(read).and_then(|claim| claims::place(&claim));
        let network = infra.spec.network_config.cidr.parse::<IpNet>();
        place.is_some_and(|(_, address)| network.is_ok_and(|network| network.contains(&address)))
    }

    fn forget(&self, infra: &Infra) {
        self.status.forget(infra.metadata.uid.as_deref().unwrap_or_default());
    }
}

/// The attachment of an Infra's network.
pub(crate) fn attachment(infra: &Infra) -> Attachment {
    let network = &infra.spec.network_config;
    let (namespace, name) = match network.network_attachment_definition.split_once('/') {
        Some((namespace, name)) => (Some(namespace.to_owned()), name),
        None => {
            (network.network_attachment_namespace.clone(), network.network_attachment_definition.as_str())
        }
    };
    let namespace = namespace.or_else(|| infra.namespace()).unwrap_or_default();
    Attachment { namespace, name: name.to_owned() }
}

#[cfg(test)]
mod tests {
    use causeway_api::{DHCPServer, DNSServer, ProxyServer};
    use kube::Resource;

    use super::*;

    #[test]
    fn the_table_of_child_kinds_matches_the_types() {
        fn row<K: Resource<DynamicType = ()>>() -> (String, String, String, String) {
            (K::group(&()).into(), K::version(&()).into(), K::kind(&()).into(), K::plural(&()).into())
        }
        let types = [row::<DHCPServer>(), row::<DNSServer>(), row::<ProxyServer>()];
        let table: Vec<_> = Controller::CHILDREN
            .iter()
            .map(|kind| {
                (kind.group.to_owned(), kind.version.to_owned(), kind.kind.to_owned(), kind.plural.to_owned())
            })
            .collect();
        assert_eq!(table, types);
        assert_eq!(FIELD_MANAGER, causeway_api::names::field_manager(NAME));
    }
}
