//! What proxies are supplied with: the routes that are attached to a `ProxyServer`, and the Services of other namespaces
//! that it may use, with their endpoints, in `Supply` objects beside it. So the account of its pods, which any pod of their
//! namespace can use, sees of another namespace exactly what that one agreed to. Also says in each route what became of it.

mod desired;
mod observe;
mod route_status;
mod written;

use std::{
    collections::HashMap,
    hash::Hasher as _,
    sync::{Arc, Mutex},
};

use causeway_api::{ProxyServer, RoutesFrom, SupplyStatus, names};
use causeway_base::lock::lock;
use causeway_translate::{endpoints, proxy::validate};
use k8s_openapi::api::discovery::v1::EndpointSlice;
use kube::{
    Api, Client, Resource, ResourceExt,
    api::{DynamicObject, Patch, PatchParams},
};
use serde_json::json;

use self::{
    desired::{Desired, Uses},
    observe::{Observed, ReadRoutes},
    route_status::RouteStatuses,
    written::Written,
};
use crate::{
    framework::{
        apply::{Applier, Owner},
        children::{ChildKind, Children, typed},
        error::Error,
        finalizer::Finalizer,
        kinds::{CONFIG_MAP, ENDPOINT_SLICE, NAMESPACE, SERVICE, SUPPLY, TCP_ROUTE, TLS_ROUTE},
        runner::{Reconciler, life},
        status::now,
    },
    grants::REFERENCE_GRANT,
    vlan::accepted,
};

const FIELD_MANAGER: &str = "causeway-supply";

/// Supplies ProxyServers.
pub(crate) struct Controller {
    client: Client,
    require_grants: bool,
    /// Whether each namespace is served by itself. Then nobody waits for what routes say: it would hold up a namespace
    /// whose rights go first.
    is_confined: bool,
    applier: Applier,
    finalizer: Finalizer<ProxyServer>,
    read: ReadRoutes,
    written: Written,
    routes: RouteStatuses,
    /// What was found to be of use, by the uid of the ProxyServer.
    uses: Mutex<HashMap<String, Uses>>,
}

impl Controller {
    /// A controller that asks for grants or not.
    pub(crate) fn new(client: Client, require_grants: bool, is_confined: bool) -> Self {
        Self {
            applier: Applier::new(client.clone(), FIELD_MANAGER),
            finalizer: Finalizer::new(client.clone(), names::FINALIZER_ROUTES),
            read: ReadRoutes::default(),
            written: Written::default(),
            routes: RouteStatuses::new(client.clone()),
            uses: Mutex::default(),
            require_grants,
            is_confined,
            client,
        }
    }

    /// Takes back what routes say of a proxy that goes.
    async fn clean_up(&self, proxy: &ProxyServer, children: &Children) -> Result<(), Error> {
        if !self.finalizer.is_on(proxy) {
            return Ok(());
        }
        let observed = Observed::read(proxy, &self.read, children, self.require_grants);
        if self.routes.write(proxy, &observed, &HashMap::new(), children, &now()).await? {
            self.finalizer.remove(proxy).await?;
        }
        Ok(())
    }

    /// Says in the object what its proxies are supplied with, for those who make them.
    async fn tell(&self, proxy: &ProxyServer, desired: &Desired) -> Result<(), Error> {
        if proxy.status.as_ref().and_then(|status| status.supply.as_ref()) == Some(&desired.status) {
            return Ok(());
        }
        let status: &SupplyStatus = &desired.status;
        let name = proxy.name_any();
        let body = json!({
            "apiVersion": ProxyServer::api_version(&()),
            "kind": ProxyServer::kind(&()),
            "metadata": { "name": name },
            "status": { "supply": status },
        });
        let api = Api::<ProxyServer>::namespaced(self.client.clone(), &proxy.namespace().unwrap_or_default());
        match api.patch_status(&name, &PatchParams::apply(FIELD_MANAGER).force(), &Patch::Apply(&body)).await
        {
            Ok(_) => Ok(()),
            Err(kube::Error::Api(status)) if status.code == 404 => Ok(()),
            Err(source) => Err(Error::WriteStatus { source }),
        }
    }

    fn uses(&self, proxy: &ProxyServer, is_it: impl Fn(&Uses) -> bool) -> bool {
        lock(&self.uses).get(proxy.metadata.uid.as_deref().unwrap_or_default()).is_some_and(is_it)
    }
}

impl Reconciler for Controller {
    type Primary = ProxyServer;
    const NAME: &'static str = "supply";
    /// The ConfigMap with the spec that runs is another controller's.
    const CHILDREN: &'static [ChildKind] = &[SUPPLY, CONFIG_MAP];
    const READS: &'static [ChildKind] =
        &[REFERENCE_GRANT, TLS_ROUTE, TCP_ROUTE, SERVICE, ENDPOINT_SLICE, NAMESPACE];

    async fn reconcile(&self, proxy: Arc<ProxyServer>, children: Children) -> Result<(), Error> {
        let Some(owner) = Owner::of(&*proxy) else {
            return Ok(());
        };
        if proxy.metadata.deletion_timestamp.is_some() {
            return self.clean_up(&proxy, &children).await;
        }
        // What is wrong with a spec is said elsewhere. The last good one runs on meanwhile, and what it uses changes.
        let kept = accepted::kept(&*proxy, &children);
        let running = [Some(&*proxy), kept.as_ref()];
        let Some((running, valid)) =
            running.into_iter().flatten().find_map(|spec| Some((spec, validate(spec).ok()?)))
        else {
            return Ok(());
        };
        let observed = Observed::read(&proxy, &self.read, &children, self.require_grants);
        let desired = desired::desired(running, kept.as_ref(), &valid, &observed);
        lock(&self.uses).insert(owner.uid().to_owned(), desired.uses.clone());
        let is_promised = self.is_confined
            || observed.routes.is_empty()
            || self.finalizer.is_on(&proxy)
            || self.finalizer.add(&proxy).await?;
        if !is_promised {
            return Ok(());
        }
        let namespace = proxy.namespace().unwrap_or_default();
        let todo = self.written.sort(owner.uid(), &namespace, &desired.supplies, &children);
        let report = self.applier.converge(&owner, &todo.wanted, &todo.keep, &children).await;
        self.written.note(owner.uid(), todo, &report);
        self.tell(&proxy, &desired).await?;
        self.routes.write(&proxy, &observed, &desired.parents, &children, &now()).await?;
        report.into_result()
    }

    fn wakes_on(proxy: &ProxyServer) -> Option<u64> {
        Some(life(proxy).finish())
    }

    fn is_concerned(&self, proxy: &ProxyServer, read: &DynamicObject) -> bool {
        let namespace = read.metadata.namespace.as_deref().unwrap_or_default();
        match read.types.as_ref().map(|types| types.kind.as_str()) {
            Some("TLSRoute" | "TCPRoute") => observe::concerns(read, proxy),
            Some("ReferenceGrant") => {
                proxy.spec.backends.iter().any(|backend| backend.target_namespace == namespace)
                    || self.uses(proxy, |uses| uses.services.iter().any(|at| at.namespace == namespace))
            }
            Some("Service") => {
                let name = read.metadata.name.as_deref().unwrap_or_default();
                self.uses(proxy, |uses| {
                    uses.services.iter().any(|at| at.namespace == namespace && at.name == name)
                })
            }
            Some("EndpointSlice") => {
                let slice: Option<EndpointSlice> = typed(read);
                let of = slice.as_ref().and_then(endpoints::service_of);
                of.is_some_and(|(namespace, name)| {
                    self.uses(proxy, |uses| {
                        uses.supplied.iter().any(|at| at.namespace == namespace && at.name == name)
                    })
                })
            }
            Some("Namespace") => {
                let allowed = proxy.spec.allowed_routes.as_ref().map(|allowed| allowed.namespaces.from);
                let name = read.metadata.name.as_ref();
                allowed == Some(RoutesFrom::Selector)
                    || proxy.spec.backends.iter().any(|backend| Some(&backend.target_namespace) == name)
            }
            _ => false,
        }
    }

    fn forget(&self, proxy: &ProxyServer) {
        let uid = proxy.metadata.uid.as_deref().unwrap_or_default();
        lock(&self.uses).remove(uid);
        self.written.forget(uid);
        self.routes.forget(proxy);
    }
}
