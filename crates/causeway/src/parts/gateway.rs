//! The Gateway that a command is about: the object, the plan that its pods were given, and what became of the routes that
//! name it.

use std::collections::BTreeSet;

use anyhow::anyhow;
use causeway_api::{GatewayPlan, Supply, names};
use causeway_ir::Plan;
use causeway_translate::gateway::CONTROLLER_NAME;
use causeway_translate::gateway::kinds::{Gateway, ListenerSet, Object, ObjectRef};
use causeway_translate::gateway_pod::parts;
use k8s_openapi::api::core::v1::Service;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::api::{ApiResource, DynamicObject, ListParams};
use kube::discovery::{self, ApiGroup};
use kube::{Api, Client, ResourceExt};
use serde_json::Value;

use super::refusal::{self, words};

const GROUP: &str = "gateway.networking.k8s.io";
const ROUTE_KINDS: [&str; 5] = ["HTTPRoute", "GRPCRoute", "TLSRoute", "TCPRoute", "UDPRoute"];

/// The name in `gateway/NAME`, with the words that kubectl takes for this kind.
pub(crate) fn name_of(text: &str) -> Option<&str> {
    let (kind, name) = text.split_once('/')?;
    let is_it = ["gateway", "gateways", "gtw"].iter().any(|known| known.eq_ignore_ascii_case(kind));
    (is_it && !name.is_empty()).then_some(name)
}

/// Reads what belongs to Gateway API, in the versions that the cluster has.
pub(crate) struct Reader {
    client: Client,
    group: ApiGroup,
}

impl Reader {
    pub(crate) async fn new(client: &Client) -> anyhow::Result<Self> {
        let group = discovery::group(client, GROUP).await.map_err(|error| {
            anyhow!("this cluster has no Gateway API, or does not say so: {}", words(&error))
        })?;
        Ok(Self { client: client.clone(), group })
    }

    fn resource(&self, kind: &str) -> Option<ApiResource> {
        self.group.recommended_kind(kind).map(|(resource, _)| resource)
    }

    /// An object of this kind; none if there is none.
    pub(crate) async fn get(&self, kind: &str, at: &ObjectRef) -> anyhow::Result<Option<DynamicObject>> {
        let Some(resource) = self.resource(kind) else { return Ok(None) };
        let api: Api<DynamicObject> = match at.namespace.as_str() {
            "" => Api::all_with(self.client.clone(), &resource),
            namespace => Api::namespaced_with(self.client.clone(), namespace, &resource),
        };
        let read = api.get_opt(&at.name).await;
        read.map_err(|error| anyhow!("can't read {kind} {at}: {}", words(&error)))
    }

    /// The Gateway; none if there is none.
    pub(crate) async fn gateway(&self, at: &ObjectRef) -> anyhow::Result<Option<Gateway>> {
        let found = self.get("Gateway", at).await?;
        let read = |object| {
            let gateway: Gateway = Object::read(&object);
            match &gateway.unreadable {
                Some(why) => Err(anyhow!("Gateway {at}: {why}")),
                None => Ok(gateway),
            }
        };
        found.map(read).transpose()
    }

    /// All objects of a kind; of the namespace alone where others may not be read, which `unread` is told.
    async fn list(&self, kind: &str, namespace: &str, unread: &mut Vec<String>) -> Vec<DynamicObject> {
        let Some(resource) = self.resource(kind) else { return Vec::new() };
        let everywhere = Api::<DynamicObject>::all_with(self.client.clone(), &resource);
        let mut read = everywhere.list(&ListParams::default()).await;
        if read.as_ref().is_err_and(refusal::is_forbidden) {
            unread
                .push(format!("you may not list {} of other namespaces: they are left out", resource.plural));
            let here = Api::<DynamicObject>::namespaced_with(self.client.clone(), namespace, &resource);
            read = here.list(&ListParams::default()).await;
        }
        match read {
            Ok(list) => list.items,
            Err(error) => {
                unread.push(format!("can't list {}: {}", resource.plural, words(&error)));
                Vec::new()
            }
        }
    }

    /// What became of the routes that name a Gateway, or a ListenerSet of it; and what could not be read.
    pub(crate) async fn routes(&self, gateway: &ObjectRef) -> (Vec<Attached>, Vec<String>) {
        let mut unread = Vec::new();
        let mut parents = BTreeSet::from([("Gateway", gateway.clone())]);
        for object in self.list("ListenerSet", &gateway.namespace, &mut unread).await {
            let set = ListenerSet::read(&object);
            if parent(&object.data["spec"]["parentRef"], &set.meta.at.namespace) == *gateway {
                parents.insert(("ListenerSet", set.meta.at));
            }
        }
        let mut attached = Vec::new();
        for kind in ROUTE_KINDS {
            for object in self.list(kind, &gateway.namespace, &mut unread).await {
                attached.extend(Attached::read(kind, &object, &parents));
            }
        }
        (attached, unread)
    }
}

/// The object that a reference of this namespace names.
fn parent(reference: &Value, namespace: &str) -> ObjectRef {
    let text = |field: &str| reference[field].as_str();
    ObjectRef::new(text("namespace").unwrap_or(namespace), text("name").unwrap_or_default())
}

/// What became of a route at a Gateway, by one of its references.
pub(crate) struct Attached {
    /// `HTTPRoute shop/web`.
    pub(crate) route: String,
    /// Empty while nobody has looked at it.
    pub(crate) conditions: Vec<Condition>,
}

impl Attached {
    fn read(kind: &str, object: &DynamicObject, parents: &BTreeSet<(&str, ObjectRef)>) -> Vec<Self> {
        let at = ObjectRef::new(object.namespace().unwrap_or_default(), object.name_any());
        let is_ours = |reference: &&Value| {
            let kind = reference["kind"].as_str().unwrap_or("Gateway");
            let parent = parent(reference, &at.namespace);
            parents.iter().any(|(known, of)| *known == kind && *of == parent)
        };
        let said = |reference: &Value| {
            let entries = object.data["status"]["parents"].as_array().into_iter().flatten();
            let entry = entries.into_iter().find(|entry| {
                entry["controllerName"] == CONTROLLER_NAME && is_same(&entry["parentRef"], reference)
            });
            let conditions = entry.map(|entry| entry["conditions"].clone()).unwrap_or_default();
            serde_json::from_value(conditions).unwrap_or_default()
        };
        let references = object.data["spec"]["parentRefs"].as_array().into_iter().flatten();
        let own = references.filter(is_ours);
        own.map(|reference| Self { route: format!("{kind} {at}"), conditions: said(reference) }).collect()
    }

    /// Why some of it is not served as it is written: reason and message of each condition.
    pub(crate) fn faults(&self) -> impl Iterator<Item = (&str, &str)> {
        let is_fault = |condition: &&Condition| match condition.type_.as_str() {
            "Accepted" | "ResolvedRefs" => condition.status != "True",
            _ => condition.status == "True",
        };
        let faults = self.conditions.iter().filter(is_fault);
        faults.map(|condition| (condition.reason.as_str(), condition.message.as_str()))
    }
}

/// Whether two references say the same, with what an API server fills in or not.
fn is_same(one: &Value, other: &Value) -> bool {
    ["name", "namespace", "kind", "sectionName", "port"].iter().all(|field| {
        let default = if *field == "kind" { Value::from("Gateway") } else { Value::Null };
        let of = |reference: &Value| reference.get(*field).cloned().unwrap_or(default.clone());
        of(one) == of(other)
    })
}

/// What the pods of a Gateway were given.
pub(crate) struct Given {
    pub(crate) object: GatewayPlan,
    /// Its parts, put together.
    pub(crate) plan: Plan,
}

impl Given {
    /// The Service in front of its pods; none if there is none, or it may not be read.
    pub(crate) async fn service(&self, client: &Client) -> Option<Service> {
        let namespace = self.object.namespace()?;
        let services: Api<Service> = Api::namespaced(client.clone(), &namespace);
        services.get_opt(&self.object.name_any()).await.ok().flatten()
    }
}

/// The newest plan of a Gateway; none if the operator has made none.
///
/// # Errors
/// When it can't be read.
pub(crate) async fn given(client: &Client, at: &ObjectRef) -> anyhow::Result<Option<Given>> {
    let refused = |error: kube::Error| anyhow!("can't read the plan of Gateway {at}: {}", words(&error));
    let plans: Api<GatewayPlan> = Api::namespaced(client.clone(), &at.namespace);
    let all = plans.list(&ListParams::default()).await.map_err(refused)?;
    let Some(object) = all.items.into_iter().find(|plan| plan.spec.gateway == at.name) else {
        return Ok(None);
    };
    let labels =
        format!("{}=GatewayPlan,{}={}", names::LABEL_OWNER_KIND, names::LABEL_OWNER_NAME, object.name_any());
    let supplies: Api<Supply> = Api::namespaced(client.clone(), &at.namespace);
    let supplies = supplies.list(&ListParams::default().labels(&labels)).await.map_err(refused)?;
    let text = |digest: &String| {
        let mut parts = supplies.items.iter().filter_map(|supply| supply.spec.plan.as_ref());
        parts.find(|part| part.digest == *digest).map(|part| part.text.as_str())
    };
    let texts: Option<Vec<&str>> = object.spec.parts.iter().map(text).collect();
    let texts = texts.ok_or_else(|| anyhow!("the plan of Gateway {at} changes just now: ask again"))?;
    let plan = parts::join(texts.into_iter())?;
    Ok(Some(Given { object, plan }))
}
