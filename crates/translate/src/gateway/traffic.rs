//! TrafficPolicies: which of them count for a rule, and what they do to it. Each field counts by itself, for one target that of
//! the oldest policy. What limits counts from every target on the way, so that nobody lifts a limit of others by one of his
//! own; of everything else that of the target which is nearest to the request. A field that can't be carried out closes what
//! it would count for: no request goes its way without what was asked for it.

mod asked;
mod limits;
mod targets;

use std::collections::{BTreeSet, HashMap};

use causeway_ir::Name;
use causeway_ir::http::{
    ErrorPage, Filter, Http, HttpAction, HttpRoute, HttpTarget, HttpTargets, Page, PathRewrite, Response,
    Rewrite,
};

use super::backends::INVALID_BACKEND;
use super::kinds::{ParentRef, TrafficPolicy};
use super::own::Own;
use super::routes::{Parents, Route};
use super::rules;
use super::world::World;
use crate::references::Verdict;

use asked::{Asked, Field};
use targets::{Target, misfits};

/// All policies, and what counts at each target.
pub(super) struct TrafficPolicies<'a> {
    /// The oldest first.
    pub(super) all: Vec<Policy<'a>>,
    by_target: HashMap<Target, Choice>,
}

/// A policy, and what became of it at each of its targets.
pub(super) struct Policy<'a> {
    pub(super) object: &'a TrafficPolicy,
    asked: Asked,
    pub(super) ends: Vec<End>,
}

/// What became of a policy at a target.
pub(super) struct End {
    pub(super) reference: ParentRef,
    pub(super) accepted: Verdict,
    /// What older policies have, if they have some of it.
    pub(super) conflicted: Option<Verdict>,
}

/// The policies that count for each field, by their places, the nearest first.
#[derive(Clone, Default)]
pub(super) struct Choice([Vec<usize>; Field::ALL.len()]);

impl Choice {
    fn all(&self, field: Field) -> &[usize] {
        &self.0[field as usize]
    }

    fn nearest(&self, field: Field) -> Option<usize> {
        self.all(field).first().copied()
    }

    /// These over those of what is around it: what limits is kept, the rest gives way.
    fn over(mut self, around: &Self) -> Self {
        for field in Field::ALL {
            let own = &mut self.0[field as usize];
            if field.limits() || own.is_empty() {
                own.extend(around.all(field));
            }
        }
        self
    }
}

impl<'a> TrafficPolicies<'a> {
    /// Reads all policies of a world.
    pub(super) fn of(world: &'a World, owns: &[Own<'_>], parents: &Parents) -> Self {
        let mut objects: Vec<&'a TrafficPolicy> =
            world.traffic_policies.values().map(|policy| &**policy).collect();
        objects.sort_by(|a, b| a.meta.rank().cmp(&b.meta.rank()));
        let finder = targets::Finder { world, owns, parents };
        let mut by_target: HashMap<Target, Choice> = HashMap::new();
        let mut all: Vec<Policy<'a>> = Vec::with_capacity(objects.len());
        for (place, object) in objects.into_iter().enumerate() {
            let asked = Asked::of(object);
            let mut ends = Vec::with_capacity(object.spec.target_refs.len());
            for (number, target) in object.spec.target_refs.iter().enumerate() {
                let reference = targets::reference(target, &object.meta.at.namespace);
                let (accepted, conflicted) = match finder.find(&reference, number) {
                    Err(verdict) => (verdict, None),
                    Ok(found) => {
                        let choice = by_target.entry(found.clone()).or_default();
                        let lost = claim(choice, place, &asked, &found);
                        let mut wrong = asked.problems();
                        wrong.extend(misfits(&asked, &found));
                        wrong.extend(finder.unknown_standby(&asked, &found));
                        verdicts(&asked, &wrong, &lost, &all)
                    }
                };
                ends.push(End { reference, accepted, conflicted });
            }
            all.push(Policy { object, asked, ends });
        }
        Self { all, by_target }
    }

    fn at(&self, target: Target) -> Choice {
        self.by_target.get(&target).cloned().unwrap_or_default()
    }

    fn at_gateway(&self, own: &Own<'_>) -> Choice {
        self.at(Target::gateway(&own.gateway.meta.at))
    }

    /// What counts at a listener.
    pub(super) fn at_listener(&self, own: &Own<'_>, place: usize) -> Choice {
        if self.by_target.is_empty() {
            return Choice::default();
        }
        let listener = &own.listeners[place];
        let gateway = self.at_gateway(own);
        match listener.set.and_then(|set| own.sets.get(set)) {
            None => {
                self.at(Target::gateway(&own.gateway.meta.at).section(&listener.spec.name)).over(&gateway)
            }
            Some(set) => {
                let target = Target::listener_set(&set.object.meta.at);
                let of_set = self.at(target.clone()).over(&gateway);
                self.at(target.section(&listener.spec.name)).over(&of_set)
            }
        }
    }

    /// What counts for a rule of a route at a listener.
    pub(super) fn at_rule(&self, at_listener: &Choice, route: &Route<'_>, rule: &str) -> Choice {
        if self.by_target.is_empty() {
            return Choice::default();
        }
        let target = Target::route(route.kind, &route.meta.at);
        let of_route = self.at(target.clone()).over(at_listener);
        match rules::name_in(rule) {
            Some(name) => self.at(target.section(name)).over(&of_route),
            None => of_route,
        }
    }

    /// What counts for requests before they have a route, on a port of these listeners.
    pub(super) fn of_port(&self, own: &Own<'_>, places: &[usize]) -> Http {
        let gateway = self.at_gateway(own);
        let asked = |place: usize| &self.all[place].asked;
        let mut pages = places.iter().map(|place| self.at_listener(own, *place).nearest(Field::ErrorPages));
        let first = pages.next().flatten();
        // Where listeners of one port differ, nobody can say whose request it is.
        let pages =
            if pages.all(|other| other == first) { first } else { gateway.nearest(Field::ErrorPages) };
        Http {
            trusted_proxies: gateway
                .nearest(Field::TrustedProxies)
                .and_then(|place| asked(place).trusted_proxies.clone()),
            error_pages: pages.map(|place| asked(place).policies.error_pages.clone()).unwrap_or_default(),
            ..Http::default()
        }
    }

    /// The pages of these names, by name.
    pub(super) fn pages(&self, used: &BTreeSet<Name>) -> Vec<Page> {
        let all = self.all.iter().flat_map(|policy| &policy.asked.pages);
        let mut pages: Vec<Page> = all.filter(|page| used.contains(&page.name)).cloned().collect();
        pages.sort_by(|a, b| a.name.cmp(&b.name));
        pages
    }

    /// Does to a rule what counts for it; `pages` are those that it has anyhow.
    pub(super) fn apply(&self, choice: &Choice, route: &mut HttpRoute, pages: &[ErrorPage]) {
        for field in Field::ALL {
            let all = || choice.all(field).iter().map(|place| &self.all[*place].asked);
            let Some(asked) = all().next() else { continue };
            if all().any(|asked| asked.is_wrong(field)) {
                respond(route, INVALID_BACKEND);
                return;
            }
            let policies = &mut route.policies;
            match field {
                // It is wrong wherever it is; and that is the port's.
                Field::Unreadable | Field::TrustedProxies => {}
                Field::AllowedClients => {
                    let lists = all().map(|asked| &*asked.policies.allowed_clients);
                    let Some(networks) = limits::networks(lists) else {
                        respond(route, NOBODY);
                        return;
                    };
                    policies.allowed_clients = networks;
                }
                Field::RateLimit => {
                    policies.rate_limit =
                        limits::rate(all().filter_map(|asked| asked.policies.rate_limit.as_ref()));
                }
                Field::BodyLimit => {
                    policies.body_limit = all().filter_map(|asked| asked.policies.body_limit).min();
                }
                Field::ErrorPages if asked.policies.error_pages == pages => {}
                Field::ErrorPages => policies.error_pages.clone_from(&asked.policies.error_pages),
                Field::DirectResponse => {
                    if let Some(response) = &asked.response {
                        route.action = HttpAction::Respond(response.clone());
                    }
                }
                Field::Connect => policies.connect = asked.policies.connect,
                Field::PathRewrite => rewrite(route, asked),
                Field::Failover => stand_by(route, asked),
            }
        }
    }
}

/// Takes every field of a policy that is free at a target; those that are not, each with its holder.
fn claim(choice: &mut Choice, place: usize, asked: &Asked, target: &Target) -> Vec<(Field, usize)> {
    let mut lost = Vec::new();
    for field in asked.written.iter().filter(|field| target.takes(**field)) {
        match choice.nearest(*field) {
            Some(holder) if holder != place => lost.push((*field, holder)),
            Some(_) => {}
            None => choice.0[*field as usize].push(place),
        }
    }
    lost
}

fn verdicts(
    asked: &Asked,
    wrong: &[String],
    lost: &[(Field, usize)],
    older: &[Policy<'_>],
) -> (Verdict, Option<Verdict>) {
    let each: Vec<String> = lost
        .iter()
        .map(|(field, holder)| {
            format!("{} is that of TrafficPolicy {}", field.as_str(), older[*holder].object.meta.at)
        })
        .collect();
    let conflicted = (!lost.is_empty())
        .then(|| Verdict::yes("Conflicted", format!("the older one counts: {}", each.join("; "))));
    let accepted = if !wrong.is_empty() {
        Verdict::no("Invalid", wrong.join("; "))
    } else if lost.len() == asked.written.len() {
        Verdict::no(
            "Conflicted",
            format!("an older policy has all that this one asks for: {}", each.join("; ")),
        )
    } else {
        Verdict::yes("Accepted", "requests of this target are treated so")
    };
    (accepted, conflicted)
}

/// The answer where no client may ask.
const NOBODY: u16 = 403;

/// Answers everything with a status.
fn respond(route: &mut HttpRoute, status: u16) {
    let response = Response { status, headers: Vec::new(), body: String::new() };
    route.filters.clear();
    route.action = HttpAction::Respond(response);
}

/// Rewrites paths, where the rule does not do it itself.
fn rewrite(route: &mut HttpRoute, asked: &Asked) {
    let has_path = |filter: &Filter| matches!(filter, Filter::Rewrite(Rewrite { path: Some(_), .. }));
    if let Some(rewrite) = &asked.rewrite
        && !route.filters.iter().any(has_path)
    {
        let path = Some(PathRewrite::Regex(rewrite.clone()));
        route.filters.push(Filter::Rewrite(Rewrite { host: None, path }));
    }
}

/// Sets those that stand by behind the others.
fn stand_by(route: &mut HttpRoute, asked: &Asked) {
    let HttpAction::Forward(targets) = &route.action else { return };
    let priority = |target: &HttpTarget| {
        asked.standby.iter().zip(1..).find(|(service, _)| service.is(&target.cluster)).map_or(0, |(_, n)| n)
    };
    let targets = targets.as_slice().iter();
    let targets = targets.map(|target| HttpTarget { priority: priority(target), ..target.clone() }).collect();
    if let Some(targets) = HttpTargets::new(targets) {
        route.action = HttpAction::Forward(targets);
    }
}
