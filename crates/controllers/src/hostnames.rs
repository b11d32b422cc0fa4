//! Hostnames that teams ask for. One reconciler looks at all requests together: what they mean is one picture, computed by a pure
//! function ([`causeway_translate::hostname`]), so that a name has one holder and a place on a gateway is given once. It then
//! does what is to be done next, everywhere at once: claims, certificates, gateways, records. Whatever is to be remembered is in the
//! API before anything rests on it, so that whoever is interrupted is followed by somebody who goes on.

mod grants;
mod kept;
mod local;
mod metrics;
mod observe;
mod orders;
mod pass;
mod probe;
mod records;
mod rehearsal;
mod settings;
mod status;
mod suppliers;

use std::{collections::HashMap, sync::Arc, time::Duration};

use causeway_api::{
    DomainClaim, GatewayHostnameRequest, GatewayHostnameRequestStatus, HostnameZone, HostnameZoneStatus,
    names,
};
use kube::{Client, ResourceExt as _, api::DynamicObject};
use prometheus_client::registry::Registry;

pub use self::settings::{Settings, Suppliers, SuppliersRef};
use self::{metrics::Figures, observe::Readings, orders::Orders, pass::Pass, records::Records};
use crate::framework::{
    apply::Applier,
    children::{ChildKind, Children, is_kind},
    events::Recorder,
    finalizer::Finalizer,
    kinds::{
        CONFIG_MAP, DEPLOYMENT, DOMAIN_CLAIM, GATEWAY, GATEWAY_CLASS, GATEWAY_HOSTNAME_REQUEST, GRPC_ROUTE,
        HOSTNAME_GRANT, HOSTNAME_ZONE, HTTP_ROUTE, LISTENER_SET, LOAD_BALANCER_CONFIGURATION, NAMESPACE,
        SECRET, SERVICE, TLS_ROUTE, TRAFFIC_POLICY,
    },
    overseer::{Failed, Overseer},
    status::Writer,
};

use self::suppliers::Providers;

const NAME: &str = "hostnames";
const FIELD_MANAGER: &str = "causeway-hostnames";

/// Reconciles hostnames.
pub(crate) struct Controller {
    client: Client,
    settings: Settings,
    applier: Applier,
    readings: std::sync::Mutex<Readings>,
    /// Claims that were made and that the watch has not shown yet: until then they are nobody else's.
    claims_ahead: std::sync::Mutex<HashMap<String, Arc<DomainClaim>>>,
    orders: Orders,
    records: Records,
    /// The version of our own DNS server's zones that was seen last.
    zones_version: std::sync::Mutex<Option<String>>,
    /// The plan that was said last, where nothing is done.
    said: std::sync::Mutex<Vec<String>>,
    requests: Writer<GatewayHostnameRequestStatus>,
    zones: Writer<HostnameZoneStatus>,
    finalizer: Finalizer<GatewayHostnameRequest>,
    zone_finalizer: Finalizer<HostnameZone>,
    events: Recorder,
    figures: Figures,
}

impl Controller {
    /// A controller that reports Events as the replica `identity`; its own pods are of this image.
    pub(crate) fn new(
        client: Client,
        settings: Settings,
        image: &str,
        identity: &str,
        registry: &mut Registry,
    ) -> Self {
        let suppliers = settings
            .suppliers
            .clone()
            .unwrap_or_else(|| SuppliersRef::new(Providers::new(client.clone(), &settings, image)));
        Self {
            applier: Applier::new(client.clone(), FIELD_MANAGER),
            readings: std::sync::Mutex::default(),
            claims_ahead: std::sync::Mutex::default(),
            orders: Orders::new(client.clone(), suppliers.clone(), settings.clone()),
            records: Records::new(suppliers, settings.sweep, settings.now),
            zones_version: std::sync::Mutex::default(),
            said: std::sync::Mutex::default(),
            requests: Writer::new(client.clone(), FIELD_MANAGER),
            zones: Writer::new(client.clone(), FIELD_MANAGER),
            finalizer: Finalizer::new(client.clone(), names::FINALIZER_HOSTNAME),
            zone_finalizer: Finalizer::new(client.clone(), names::FINALIZER_HOSTNAME),
            events: Recorder::new(client.clone(), "causeway.dev/hostnames", identity),
            figures: Figures::register(registry),
            settings,
            client,
        }
    }
}

impl Overseer for Controller {
    const NAME: &'static str = NAME;
    const CHILDREN: &'static [ChildKind] = &[SECRET, CONFIG_MAP, DEPLOYMENT, SERVICE];
    const READS: &'static [ChildKind] = &[
        GATEWAY_HOSTNAME_REQUEST,
        HOSTNAME_ZONE,
        DOMAIN_CLAIM,
        HOSTNAME_GRANT,
        NAMESPACE,
        GATEWAY_CLASS,
        GATEWAY,
        LISTENER_SET,
        HTTP_ROUTE,
        GRPC_ROUTE,
        TLS_ROUTE,
        TRAFFIC_POLICY,
        LOAD_BALANCER_CONFIGURATION,
    ];

    /// Of the objects that others make few are about hostnames.
    fn is_concerned(&self, object: &DynamicObject) -> bool {
        let is_child = Self::CHILDREN.iter().any(|kind| is_kind(object, *kind));
        let is_gateway = [GATEWAY, LISTENER_SET].iter().any(|kind| is_kind(object, *kind));
        let in_edge = object.namespace().as_deref() == Some(&self.settings.world.edge_namespace);
        let component = object.labels().get(names::LABEL_COMPONENT).map(String::as_str);
        let is_ours = component == Some(causeway_translate::hostname::listeners::COMPONENT);
        if is_child { is_ours } else { !is_gateway || in_edge }
    }

    async fn reconcile(&self, children: &Children) -> Result<Option<Duration>, Failed> {
        Pass::new(self, children).run().await
    }
}
