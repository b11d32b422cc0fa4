//! The world of hostnames as the caches have it.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use causeway_api::{DomainClaim, GatewayHostnameRequest, HostnameZone, conditions::Reason, names};
use causeway_translate::{
    gateway::kinds::ObjectRef,
    hostname::{
        Hostname, World,
        listeners::{CERTIFICATE_OPTION, COMPONENT, NAMESPACE_NAME, read_visibility, set_number},
        world::{Listening, Member},
    },
};
use jiff::Timestamp;
use kube::{ResourceExt as _, api::DynamicObject};
use serde_json::Value;

use super::{kept::Kept, settings::Settings};
use crate::framework::{
    children::{ChildKind, Children},
    kinds::{
        DOMAIN_CLAIM, GATEWAY, GATEWAY_CLASS, GATEWAY_HOSTNAME_REQUEST, GRPC_ROUTE, HOSTNAME_ZONE,
        HTTP_ROUTE, LISTENER_SET, NAMESPACE, TLS_ROUTE,
    },
};

/// How long what is said of a listener may be over in the next moment, in seconds.
const SETTLES: i64 = 10;

/// Every object as it was read last.
#[derive(Default)]
pub(super) struct Readings {
    requests: Kept<GatewayHostnameRequest>,
    zones: Kept<HostnameZone>,
    claims: Kept<DomainClaim>,
}

impl Readings {
    /// Everything but orders and what providers said.
    pub(super) fn world(&mut self, children: &Children, settings: &Settings) -> World {
        let requests = self.requests.read(children, GATEWAY_HOSTNAME_REQUEST).into_iter();
        let zones = self.zones.read(children, HOSTNAME_ZONE).into_iter();
        let claims = self.claims.read(children, DOMAIN_CLAIM).into_iter();
        let controller = |class: &DynamicObject| {
            class.data["spec"]["controllerName"].as_str().unwrap_or_default().to_owned()
        };
        World {
            now: (settings.now)(),
            settings: settings.world.clone(),
            requests: requests
                .map(|request| {
                    (ObjectRef::new(request.namespace().unwrap_or_default(), request.name_any()), request)
                })
                .collect(),
            // A zone that goes lets nobody ask, but what is in it is still cleared up.
            zones: zones.map(|zone| (zone.name_any(), zone)).collect(),
            // One that goes is as good as gone, but for those who would make it anew.
            claims: claims.map(|claim| (claim.name_any(), claim)).collect(),
            namespaces: namespaces(children),
            classes: children
                .all(GATEWAY_CLASS)
                .iter()
                .map(|class| (class.name_any(), controller(class)))
                .collect(),
            gateways: members(children, settings),
            ..World::default()
        }
    }
}

/// The labels of each namespace that is not on its way out.
fn namespaces(children: &Children) -> BTreeMap<String, BTreeMap<String, String>> {
    let all = children.all(NAMESPACE);
    let lasting = all.iter().filter(|one| one.metadata.deletion_timestamp.is_none());
    lasting.map(|one| (one.name_any(), one.labels().clone())).collect()
}

fn in_edge(children: &Children, kind: ChildKind, settings: &Settings) -> Vec<Arc<DynamicObject>> {
    let mut all = children.all(kind);
    all.retain(|object| object.namespace().as_deref() == Some(&settings.world.edge_namespace));
    all
}

fn members(children: &Children, settings: &Settings) -> BTreeMap<String, Member> {
    let now = (settings.now)();
    let mut members: BTreeMap<String, Member> = BTreeMap::new();
    for gateway in in_edge(children, GATEWAY, settings) {
        let member = member(&gateway, now);
        members.insert(gateway.name_any(), member);
    }
    let sets = in_edge(children, LISTENER_SET, settings);
    let sets: Vec<(String, &str, &Arc<DynamicObject>)> = sets
        .iter()
        .filter(|set| is_ours(set))
        .map(|set| (set.name_any(), set.data["spec"]["parentRef"]["name"].as_str().unwrap_or_default(), set))
        .collect();
    for (name, parent, set) in &sets {
        let parent = *parent;
        if let Some(member) = members.get_mut(parent) {
            let programmed = condition(&set.data["status"]["conditions"], "Programmed", generation(set));
            let number = set_number(parent, name);
            let in_set = listeners(set, programmed.is_none(), now).into_iter();
            member.listeners.extend(in_set.map(|(name, one)| (name, Listening { set: number, ..one })));
        }
    }
    let sets = sets.iter().map(|(name, parent, _)| (name.as_str(), *parent)).collect();
    count_rules(children, settings, &sets, &mut members);
    members
}

fn is_ours(object: &DynamicObject) -> bool {
    let label = |key: &str| object.labels().get(key).map(String::as_str);
    label(names::LABEL_COMPONENT) == Some(COMPONENT)
        && label(names::LABEL_MANAGED_BY) == Some(names::MANAGED_BY)
}

fn generation(object: &DynamicObject) -> i64 {
    object.metadata.generation.unwrap_or_default()
}

fn member(gateway: &DynamicObject, now: Timestamp) -> Member {
    let (spec, status) = (&gateway.data["spec"], &gateway.data["status"]);
    let trouble = condition(&status["conditions"], "Accepted", generation(gateway))
        .or_else(|| condition(&status["conditions"], "Programmed", generation(gateway)));
    let addresses = status["addresses"].as_array().map(Vec::as_slice).unwrap_or_default();
    Member {
        is_ours: is_ours(gateway),
        deleting: gateway.metadata.deletion_timestamp.is_some(),
        class: spec["gatewayClassName"].as_str().unwrap_or_default().to_owned(),
        visibility: read_visibility(gateway.labels().get(names::LABEL_VISIBILITY).map(String::as_str)),
        waf: gateway.annotations().get(names::ANNOTATION_WAF).cloned(),
        labels: gateway.labels().clone(),
        listeners: listeners(gateway, trouble.is_none(), now),
        addresses: addresses.iter().filter_map(|one| Some(one["value"].as_str()?.to_owned())).collect(),
        answers: BTreeSet::new(),
        rules: 0,
        trouble: worded(trouble, &status["conditions"], now),
    }
}

/// Why a condition is not true for this generation; empty if nobody has said so yet.
fn condition(conditions: &Value, type_: &str, generation: i64) -> Option<String> {
    let found = conditions.as_array().into_iter().flatten().find(|one| one["type"] == type_);
    let Some(found) = found else { return Some(String::new()) };
    let is_current = found["observedGeneration"].as_i64().is_none_or(|seen| seen >= generation);
    if !is_current {
        return Some(String::new());
    }
    if found["status"] == "True" {
        return None;
    }
    Some(found["message"].as_str().unwrap_or_default().to_owned())
}

/// What is wrong with something, unless nobody has said it. What was said a moment ago may be over in the next: a gateway sees
/// a certificate a little later than what names it.
fn worded(wrong: Option<String>, conditions: &Value, now: Timestamp) -> Option<(Reason, String)> {
    let said = programmed(conditions).and_then(transition);
    let is_new = said.is_some_and(|since| now.as_second() - since < SETTLES);
    let is_pending = pending_since(conditions).is_some() || is_new;
    let reason = if is_pending { Reason::Progressing } else { Reason::AttachmentFailed };
    Some((reason, wrong.filter(|why| !why.is_empty())?))
}

fn programmed(conditions: &Value) -> Option<&Value> {
    conditions.as_array()?.iter().find(|one| one["type"] == "Programmed")
}

fn transition(condition: &Value) -> Option<i64> {
    Some(condition["lastTransitionTime"].as_str()?.parse::<Timestamp>().ok()?.as_second())
}

/// Since when something is not programmed, only as it is on its way; or since ever, if nobody has looked at the newest spec yet.
fn pending_since(conditions: &Value) -> Option<i64> {
    let found = programmed(conditions)?;
    let is_pending = found["status"] == "True" || found["reason"] == "Pending";
    let since = transition(found)?;
    // What was said of an older one holds until somebody looks.
    let since = if found["status"] == "True" { i64::MAX } else { since };
    is_pending.then_some(since)
}

/// The listeners for hostnames of a Gateway or a ListenerSet; `programmed` says whether it is as a whole.
fn listeners(object: &DynamicObject, programmed: bool, now: Timestamp) -> BTreeMap<Hostname, Listening> {
    let specs = object.data["spec"]["listeners"].as_array().map(Vec::as_slice).unwrap_or_default();
    let statuses = object.data["status"]["listeners"].as_array().map(Vec::as_slice).unwrap_or_default();
    let mut found = BTreeMap::new();
    for spec in specs {
        let Some(name) = spec["hostname"].as_str().and_then(|text| Hostname::parse(text).ok()) else {
            continue;
        };
        let status = statuses.iter().find(|status| status["name"] == spec["name"]);
        let wrong = status.map(|status| &status["conditions"]).and_then(|conditions| {
            condition(conditions, "Programmed", generation(object))
                .map(|why| condition(conditions, "ResolvedRefs", generation(object)).unwrap_or(why))
        });
        let said = status.map_or(&Value::Null, |status| &status["conditions"]);
        let secret = spec["tls"]["certificateRefs"][0]["name"].as_str();
        let certificate = secret.or_else(|| spec["tls"]["options"][CERTIFICATE_OPTION].as_str());
        let chosen = &spec["allowedRoutes"]["namespaces"]["selector"]["matchLabels"][NAMESPACE_NAME];
        found.insert(
            name,
            Listening {
                certificate: certificate.unwrap_or_default().to_owned(),
                namespace: chosen.as_str().unwrap_or_default().to_owned(),
                set: 0,
                programmed: programmed && status.is_some() && wrong.is_none(),
                pending_since: pending_since(said),
                trouble: worded(wrong, said, now),
            },
        );
    }
    found
}

/// Rules of the routes that a gateway takes: those that name it and are of a namespace that it listens for names of. Nobody else
/// can fill it. `sets` are the ListenerSets that were made, and their gateways: a route may name one of those instead.
fn count_rules(
    children: &Children,
    settings: &Settings,
    sets: &BTreeMap<&str, &str>,
    members: &mut BTreeMap<String, Member>,
) {
    for kind in [HTTP_ROUTE, GRPC_ROUTE, TLS_ROUTE] {
        for route in children.all(kind).iter().filter(|route| !is_ours(route)) {
            let own = route.namespace().unwrap_or_default();
            let rules = route.data["spec"]["rules"].as_array().map_or(0, Vec::len);
            let parents = route.data["spec"]["parentRefs"].as_array().into_iter().flatten();
            let in_edge = parents.filter(|parent| {
                parent["namespace"].as_str().unwrap_or(&own) == settings.world.edge_namespace
            });
            // It may name several listeners of one.
            let gateway = |parent: &Value| {
                let name = parent["name"].as_str()?;
                let name = if parent["kind"] == "ListenerSet" { sets.get(name).copied()? } else { name };
                Some(name.to_owned())
            };
            let named: BTreeSet<String> = in_edge.filter_map(gateway).collect();
            for name in named {
                if let Some(member) = members.get_mut(&name).filter(|member| member.takes_routes_of(&own)) {
                    member.rules += rules;
                }
            }
        }
    }
}
