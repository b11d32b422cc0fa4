//! What routes say of the proxies that they name: our entries of `status.parents`, and nobody else's. All entries for one
//! proxy are written at once, and only when something is different.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex},
};

use causeway_api::ProxyServer;
use causeway_base::lock::lock;
use causeway_translate::proxy::routes::{CONTROLLER_NAME, Parent, ParentRef, Route, Verdict};
use futures::{StreamExt, TryStreamExt, stream};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::{
    Client, ResourceExt,
    api::{DynamicObject, Patch, PatchParams},
};
use serde::Deserialize as _;
use serde_json::{Value, json};

use super::observe::{Observed, ReadRoute, is_of, list};
use crate::framework::{
    children::{Children, dynamic_api},
    error::Error,
    kinds::{TCP_ROUTE, TLS_ROUTE},
    report,
};

/// Routes that are written at the same time.
const AT_ONCE: usize = 16;
/// What the Gateway API lets a route's status hold.
const MOST_PARENTS: usize = 32;

/// Writes the status of routes.
pub(crate) struct RouteStatuses {
    client: Client,
    /// By the uid of a proxy and the place of a route in memory, what the route is known to say.
    settled: Mutex<HashMap<String, Settled>>,
}

/// The routes are held, so that no other can be in their place.
type Settled = HashMap<usize, (Arc<ReadRoute>, Vec<Parent>)>;

impl RouteStatuses {
    pub(crate) fn new(client: Client) -> Self {
        Self { client, settled: Mutex::default() }
    }

    /// Forgets a proxy that is gone.
    pub(crate) fn forget(&self, proxy: &ProxyServer) {
        lock(&self.settled).remove(proxy.metadata.uid.as_deref().unwrap_or_default());
    }

    /// Brings the entries for `proxy` to what `parents` says, by the routes' places; the others lose theirs. False if others
    /// wrote to some at the same time: the watch brings what they wrote, and with it the next try.
    pub(crate) async fn write(
        &self,
        proxy: &ProxyServer,
        observed: &Observed,
        parents: &HashMap<usize, Vec<Parent>>,
        children: &Children,
        now: &Time,
    ) -> Result<bool, Error> {
        let uid = proxy.metadata.uid.clone().unwrap_or_default();
        let mut known = lock(&self.settled).remove(&uid).unwrap_or_default();
        let (mut settled, mut changes, none) = (Settled::new(), Vec::new(), Vec::new());
        for (place, read) in observed.routes.iter().enumerate() {
            let parents = parents.get(&place).unwrap_or(&none);
            let at = Arc::as_ptr(&read.object).addr();
            if let Some(same) = known.remove(&at).filter(|(_, said)| said == parents) {
                settled.insert(at, same);
                continue;
            }
            let next = next(proxy, &read.object, &read.route, parents, now);
            if next == list(&read.object, "/status/parents") {
                settled.insert(at, (read.clone(), parents.clone()));
            } else {
                changes.push(self.replace(read.object.clone(), next, children));
            }
        }
        lock(&self.settled).insert(uid, settled);
        let written: Vec<bool> = stream::iter(changes).buffer_unordered(AT_ONCE).try_collect().await?;
        Ok(written.into_iter().all(|written| written))
    }

    async fn replace(
        &self,
        object: Arc<DynamicObject>,
        parents: Vec<Value>,
        children: &Children,
    ) -> Result<bool, Error> {
        let is_tcp = object.types.as_ref().is_some_and(|types| types.kind == TCP_ROUTE.kind);
        let Some(resource) = children.served(if is_tcp { TCP_ROUTE } else { TLS_ROUTE }) else {
            return Ok(true);
        };
        let api = dynamic_api(self.client.clone(), &object.namespace().unwrap_or_default(), &resource);
        // The version keeps it off what others have written since.
        let patch = json!({
            "metadata": { "resourceVersion": object.metadata.resource_version },
            "status": { "parents": parents },
        });
        match api.patch_status(&object.name_any(), &PatchParams::default(), &Patch::Merge(&patch)).await {
            Ok(_) => Ok(true),
            Err(kube::Error::Api(status)) if status.code == 404 => Ok(true),
            Err(kube::Error::Api(status)) if status.code == 409 => Ok(false),
            Err(source) => Err(Error::WriteStatus { source }),
        }
    }
}

/// The list of parents with our entries for this proxy in their places, and all others as they are.
fn next(
    proxy: &ProxyServer,
    object: &DynamicObject,
    route: &Route,
    parents: &[Parent],
    now: &Time,
) -> Vec<Value> {
    let before = list(object, "/status/parents");
    let is_ours = |entry: &Value| {
        entry["controllerName"] == CONTROLLER_NAME
            && ParentRef::deserialize(&entry["parentRef"]).is_ok_and(|parent| is_of(&parent, object, proxy))
    };
    let mut wanted: Vec<Value> = parents.iter().map(|parent| json!(parent.reference)).collect();
    let mut next = Vec::new();
    let entry = |reference: &Value, old: Option<&Value>| {
        let parent = parents.iter().find(|parent| json!(parent.reference) == *reference)?;
        Some(json!({
            "parentRef": reference,
            "controllerName": CONTROLLER_NAME,
            "conditions": [
                condition("Accepted", &parent.accepted, route, old, now),
                condition("ResolvedRefs", &parent.resolved, route, old, now),
            ],
        }))
    };
    for old in before {
        if !is_ours(old) {
            next.push(old.clone());
            continue;
        }
        let reference = &old["parentRef"];
        if let Some(at) = wanted.iter().position(|wanted| wanted == reference) {
            wanted.remove(at);
            next.extend(entry(reference, Some(old)));
        }
    }
    next.extend(wanted.iter().filter_map(|reference| entry(reference, None)));
    next.truncate(MOST_PARENTS);
    next
}

/// A condition; its time stays while its status does.
fn condition(kind: &str, verdict: &Verdict, route: &Route, old: Option<&Value>, now: &Time) -> Value {
    let status = if verdict.holds { "True" } else { "False" };
    let old = old.and_then(|entry| entry["conditions"].as_array()?.iter().find(|old| old["type"] == kind));
    let since = old.filter(|old| old["status"] == status).map(|old| old["lastTransitionTime"].clone());
    json!({
        "type": kind,
        "status": status,
        "reason": verdict.reason,
        "message": report::cut(&verdict.message, report::NOTE_LIMIT),
        "observedGeneration": route.generation,
        "lastTransitionTime": since.unwrap_or_else(|| json!(now)),
    })
}
