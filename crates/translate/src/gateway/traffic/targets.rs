//! What policies are for: whether it is there, is ours, and can do what is asked.

use causeway_api::PolicyTarget;

use super::asked::{Asked, Field};
use crate::gateway::kinds::{Backend, GROUP, ObjectRef, ParentRef, RouteKind};
use crate::gateway::own::Own;
use crate::gateway::routes::Parents;
use crate::gateway::world::World;
use crate::references::Verdict;

/// A kind that policies are for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Kind {
    Gateway,
    ListenerSet,
    Route(RouteKind),
}

/// What a policy is for.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct Target {
    kind: Kind,
    at: ObjectRef,
    /// A listener or a rule.
    section: Option<String>,
}

impl Target {
    pub(super) fn gateway(at: &ObjectRef) -> Self {
        Self { kind: Kind::Gateway, at: at.clone(), section: None }
    }

    pub(super) fn listener_set(at: &ObjectRef) -> Self {
        Self { kind: Kind::ListenerSet, at: at.clone(), section: None }
    }

    pub(super) fn route(kind: RouteKind, at: &ObjectRef) -> Self {
        Self { kind: Kind::Route(kind), at: at.clone(), section: None }
    }

    /// A part of it.
    pub(super) fn section(self, name: &str) -> Self {
        Self { section: Some(name.to_owned()), ..self }
    }

    /// Whether a field makes sense for it.
    pub(super) fn takes(&self, field: Field) -> bool {
        match field {
            // A port has many listeners, and who speaks for clients is known before their requests are.
            Field::TrustedProxies => self.kind == Kind::Gateway && self.section.is_none(),
            Field::Failover => matches!(self.kind, Kind::Route(_)),
            _ => true,
        }
    }
}

/// Why what is asked makes no sense for a target.
pub(super) fn misfits(asked: &Asked, target: &Target) -> Vec<String> {
    let misfits = asked.written.iter().filter(|field| !target.takes(**field));
    misfits
        .map(|field| match field {
            Field::TrustedProxies => "trustedProxies: is for whole Gateways: target one without sectionName",
            _ => "failover: is for routes, which have the backends: target an HTTPRoute or GRPCRoute",
        })
        .map(str::to_owned)
        .collect()
}

/// A target as statuses name it.
pub(super) fn reference(target: &PolicyTarget, namespace: &str) -> ParentRef {
    ParentRef {
        group: Some(target.group.clone().unwrap_or_else(|| GROUP.to_owned())),
        kind: Some(target.kind.clone()),
        namespace: Some(namespace.to_owned()),
        name: target.name.clone(),
        section_name: target.section_name.clone(),
        port: None,
    }
}

/// Where targets are looked for.
pub(super) struct Finder<'f, 'a> {
    pub(super) world: &'f World,
    pub(super) owns: &'f [Own<'a>],
    pub(super) parents: &'f Parents,
}

impl Finder<'_, '_> {
    /// The target that the reference of this number means, or why there is none.
    pub(super) fn find(&self, reference: &ParentRef, number: usize) -> Result<Target, Verdict> {
        let ParentRef { group, kind, namespace, name, section_name, .. } = reference;
        let word = kind.as_deref().unwrap_or_default();
        let kind = match (group.as_deref(), word) {
            (Some(GROUP), "Gateway") => Kind::Gateway,
            (Some(GROUP), "ListenerSet") => Kind::ListenerSet,
            (Some(GROUP), "HTTPRoute") => Kind::Route(RouteKind::Http),
            (Some(GROUP), "GRPCRoute") => Kind::Route(RouteKind::Grpc),
            _ => {
                let message = format!(
                    "targetRefs[{number}].kind: {word} of group {} has no policies here: write Gateway, ListenerSet, \
                     HTTPRoute or GRPCRoute of group {GROUP}",
                    group.as_deref().unwrap_or_default()
                );
                return Err(Verdict::no("Invalid", message));
            }
        };
        let at = ObjectRef::new(namespace.clone().unwrap_or_default(), name);
        let missing = |why: String| Verdict::no("TargetNotFound", format!("targetRefs[{number}]: {why}"));
        let sections = match kind {
            Kind::Gateway => self.parents.gateways.get(&at).map(|own| self.listeners(*own, None)),
            Kind::ListenerSet => {
                self.parents.sets.get(&at).map(|(own, set)| self.listeners(*own, Some(*set)))
            }
            Kind::Route(kind) => self.rules(kind, &at),
        };
        let Some(sections) = sections else {
            let message = format!(
                "there is no {word} {at} of a Gateway of class causeway: create it or attach it, or correct the name"
            );
            return Err(missing(message));
        };
        if let Some(section) = section_name
            && !sections.contains(section)
        {
            let there = if sections.is_empty() { "none".to_owned() } else { sections.join(", ") };
            let what = if matches!(kind, Kind::Route(_)) { "rule" } else { "listener" };
            return Err(missing(format!("{word} {at} has no {what} named {section}; it has {there}")));
        }
        Ok(Target { kind, at, section: section_name.clone() })
    }

    fn listeners(&self, own: usize, set: Option<usize>) -> Vec<String> {
        let listeners = self.owns[own].listeners.iter();
        listeners.filter(|listener| listener.set == set).map(|listener| listener.spec.name.clone()).collect()
    }

    /// The names of a route's rules, if it refers to something of ours.
    fn rules(&self, kind: RouteKind, at: &ObjectRef) -> Option<Vec<String>> {
        let is_ours = |parents: &[ParentRef]| {
            parents.iter().any(|parent| self.parents.find(parent, &at.namespace).is_some())
        };
        if kind == RouteKind::Grpc {
            let spec = &self.world.grpc_routes.get(at)?.spec;
            return is_ours(&spec.parent_refs)
                .then(|| spec.rules.iter().filter_map(|rule| rule.name.clone()).collect());
        }
        let spec = &self.world.http_routes.get(at)?.spec;
        is_ours(&spec.parent_refs).then(|| spec.rules.iter().filter_map(|rule| rule.name.clone()).collect())
    }

    /// Backends that stand by and that no rule of the target has.
    pub(super) fn unknown_standby(&self, asked: &Asked, target: &Target) -> Vec<String> {
        let Kind::Route(kind) = target.kind else { return Vec::new() };
        let backends: Vec<&Backend> = if kind == RouteKind::Grpc {
            let rules =
                self.world.grpc_routes.get(&target.at).into_iter().flat_map(|route| &route.spec.rules);
            let rules = rules.filter(|rule| target.section.is_none() || rule.name == target.section);
            rules.flat_map(|rule| &rule.backend_refs).collect()
        } else {
            let rules =
                self.world.http_routes.get(&target.at).into_iter().flat_map(|route| &route.spec.rules);
            let rules = rules.filter(|rule| target.section.is_none() || rule.name == target.section);
            rules.flat_map(|rule| &rule.backend_refs).collect()
        };
        let has = |name: &str, namespace: &str| {
            backends.iter().any(|backend| {
                let of = backend.reference.namespace.as_deref().unwrap_or(&target.at.namespace);
                backend.reference.name == name && of == namespace
            })
        };
        let unknown = asked.standby.iter().enumerate().filter(|(_, by)| !has(&by.name, &by.namespace));
        let unknown = unknown.map(|(number, by)| {
            format!(
                "failover.standby[{number}]: no backendRef of the target is Service {}/{}: add it there, or correct the name",
                by.namespace, by.name
            )
        });
        unknown.collect()
    }
}
