//! Routes of every kind, seen alike: what they attach to, for which hosts, and what their rules are. Only those that refer
//! to something of ours, or did, are looked at.

use std::collections::HashMap;

use causeway_ir::Pattern;
use serde_json::Value;

use super::kinds::{
    ConnectionRouteSpec, GROUP, GrpcRouteSpec, HttpRouteSpec, Meta, Object, ObjectRef, ParentRef, RouteKind,
    Unreadable,
};
use super::rules::{Compiler, Rules};
use super::status::Entries;
use super::world::World;

/// A route that refers to something of ours, or did.
pub(super) struct Route<'a> {
    pub(super) kind: RouteKind,
    pub(super) meta: &'a Meta,
    pub(super) parents: &'a [ParentRef],
    /// Its hosts as they are written.
    pub(super) hosts: Vec<Pattern>,
    /// Whether it is for every host of its listeners.
    pub(super) any_host: bool,
    pub(super) status: &'a Value,
    /// Why it can't be read, if it can't.
    pub(super) unreadable: Option<&'a Unreadable>,
    spec: &'a dyn RouteSpec,
    /// Nothing until it is known what it attaches to.
    pub(super) rules: Rules,
}

impl Route<'_> {
    /// How others speak of it.
    pub(super) fn label(&self) -> String {
        format!("{} {}", self.kind, self.meta.at)
    }

    /// Makes its rules.
    pub(super) fn compile(&mut self, compiler: &Compiler<'_>) {
        self.rules = self.spec.compile(self.kind, compiler);
    }
}

/// What routes may attach to: our Gateways by their places, and their sets by the places of both.
#[derive(Default)]
pub(super) struct Parents {
    pub(super) gateways: HashMap<ObjectRef, usize>,
    pub(super) sets: HashMap<ObjectRef, (usize, usize)>,
}

impl Parents {
    /// The Gateway, and the set, that a reference of a route in `namespace` means, if it is of ours.
    pub(super) fn find(&self, reference: &ParentRef, namespace: &str) -> Option<(usize, Option<usize>)> {
        if reference.group.as_deref().unwrap_or(GROUP) != GROUP {
            return None;
        }
        let at = ObjectRef::new(reference.namespace.as_deref().unwrap_or(namespace), &reference.name);
        match reference.kind.as_deref().unwrap_or("Gateway") {
            "Gateway" => self.gateways.get(&at).map(|gateway| (*gateway, None)),
            "ListenerSet" => self.sets.get(&at).map(|(gateway, set)| (*gateway, Some(*set))),
            _ => None,
        }
    }
}

/// The spec of a kind of routes.
trait RouteSpec {
    fn parents(&self) -> &[ParentRef];
    fn hostnames(&self) -> &[String];
    fn compile(&self, kind: RouteKind, compiler: &Compiler<'_>) -> Rules;
}

impl RouteSpec for HttpRouteSpec {
    fn parents(&self) -> &[ParentRef] {
        &self.parent_refs
    }
    fn hostnames(&self) -> &[String] {
        &self.hostnames
    }
    fn compile(&self, _: RouteKind, compiler: &Compiler<'_>) -> Rules {
        compiler.http(self)
    }
}

impl RouteSpec for GrpcRouteSpec {
    fn parents(&self) -> &[ParentRef] {
        &self.parent_refs
    }
    fn hostnames(&self) -> &[String] {
        &self.hostnames
    }
    fn compile(&self, _: RouteKind, compiler: &Compiler<'_>) -> Rules {
        compiler.grpc(self)
    }
}

impl RouteSpec for ConnectionRouteSpec {
    fn parents(&self) -> &[ParentRef] {
        &self.parent_refs
    }
    fn hostnames(&self) -> &[String] {
        &self.hostnames
    }
    fn compile(&self, kind: RouteKind, compiler: &Compiler<'_>) -> Rules {
        compiler.connections(self, kind == RouteKind::Udp)
    }
}

/// The routes of a world that are a matter of ours, in the order in which they have their say.
pub(super) fn routes<'a>(world: &'a World, parents: &Parents) -> Vec<Route<'a>> {
    let reader = Reader { parents };
    let mut found = Vec::new();
    found.extend(world.http_routes.values().filter_map(|route| reader.read(RouteKind::Http, route)));
    found.extend(world.grpc_routes.values().filter_map(|route| reader.read(RouteKind::Grpc, route)));
    found.extend(world.tls_routes.values().filter_map(|route| reader.read(RouteKind::Tls, route)));
    found.extend(world.tcp_routes.values().filter_map(|route| reader.read(RouteKind::Tcp, route)));
    found.extend(world.udp_routes.values().filter_map(|route| reader.read(RouteKind::Udp, route)));
    found.sort_by(|a: &Route<'_>, b: &Route<'_>| (a.meta.rank(), a.kind).cmp(&(b.meta.rank(), b.kind)));
    found
}

struct Reader<'p> {
    parents: &'p Parents,
}

impl Reader<'_> {
    fn read<'a, S: RouteSpec>(&self, kind: RouteKind, object: &'a Object<S>) -> Option<Route<'a>> {
        let namespace = object.meta.at.namespace.as_str();
        let parents = object.spec.parents();
        let refers = parents.iter().any(|parent| self.parents.find(parent, namespace).is_some());
        if !refers && !Entries::has_ours(&object.status["parents"]) {
            return None;
        }
        let hostnames = object.spec.hostnames();
        Some(Route {
            kind,
            meta: &object.meta,
            parents,
            // A name that no client can ask for fits no listener.
            hosts: hostnames.iter().filter_map(|host| Pattern::parse(host).ok()).collect(),
            any_host: hostnames.is_empty(),
            status: &object.status,
            unreadable: object.unreadable.as_ref(),
            spec: &object.spec,
            rules: Rules::default(),
        })
    }
}
