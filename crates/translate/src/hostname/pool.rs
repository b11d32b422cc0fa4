//! Which gateway serves which request. Where one is, it stays; the others go to the first gateway in order of names that has room
//! and is of their kind, and if there is none, another one is made. What is full is counted from what is there.

use std::collections::{BTreeMap, BTreeSet};

use causeway_api::Visibility;
use causeway_api::conditions::Reason;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;

use super::case::{Case, Held, issuer_fits};
use super::world::{Member, World};
use super::zones::chooses;

/// Who does AWS's load balancers.
const ALB_CONTROLLER: &str = "gateway.k8s.aws/alb";
/// The class that the prior system's users have.
const ALB_CLASS: &str = "aws-alb";

/// Whether load balancers of AWS are behind a class.
pub(super) fn is_alb(class: &str, world: &World) -> bool {
    class == ALB_CLASS || world.classes.get(class).is_some_and(|controller| controller == ALB_CONTROLLER)
}

/// What a request asks of its gateway.
struct Asked {
    class: String,
    visibility: Visibility,
    waf: Option<String>,
    selector: Option<LabelSelector>,
}

impl Asked {
    fn of(case: &Case) -> Self {
        let spec = case.request.as_ref().map(|request| &request.spec);
        Self {
            class: case.class(),
            visibility: case.visibility(),
            waf: spec.and_then(|spec| spec.waf_arn.clone()),
            selector: spec.and_then(|spec| spec.gateway_selector.clone()),
        }
    }

    fn is_met_by(&self, member: &Member) -> bool {
        let is_chosen = match &self.selector {
            Some(selector) => chooses(selector, &member.labels),
            None => member.is_ours && member.visibility == self.visibility,
        };
        is_chosen
            && !member.deleting
            && member.class == self.class
            && (self.waf.is_none() || member.waf == self.waf)
    }
}

/// The gateways that there are and that there will be, and how much of each is taken.
struct Pool<'a> {
    world: &'a World,
    /// Made in this very picture, or to be made again.
    new: BTreeMap<String, Member>,
    certificates: BTreeMap<String, usize>,
    /// Names that can't be given to another one.
    used: BTreeSet<String>,
}

/// Assigns a gateway to every case that holds its names.
pub(super) fn assign(world: &World, cases: &mut BTreeMap<String, Case>) {
    let mut used: BTreeSet<String> = world.gateways.keys().cloned().collect();
    used.extend(cases.values().filter_map(assigned).map(ToOwned::to_owned));
    let mut pool = Pool { world, new: BTreeMap::new(), certificates: BTreeMap::new(), used };
    let mut waiting: Vec<&mut Case> = Vec::new();
    for case in cases.values_mut().filter(|case| !case.is_leaving()) {
        if !case.is_claimed() {
            pool.count(case);
            continue;
        }
        let asked = Asked::of(case);
        if let Some(refusal) = impossible(case, &asked, world) {
            case.no_gateway = Some(refusal);
            pool.count(case);
            continue;
        }
        match pool.current(case, &asked) {
            Some(name) => pool.take(case, name),
            None => waiting.push(case),
        }
    }
    waiting.sort_by_key(|case| {
        let created = case.request.as_ref().and_then(|request| request.metadata.creation_timestamp.clone());
        (created.map(|time| time.0), case.at.clone())
    });
    for case in waiting {
        let asked = Asked::of(case);
        if let Some(name) = pool.place(case, &asked) {
            pool.take(case, name);
            continue;
        }
        let message = format!(
            "spec.gatewaySelector: no Gateway of class {} in namespace {} has these labels and room: make one, or leave the \
             selector out",
            asked.class, world.settings.edge_namespace
        );
        case.no_gateway = Some((Reason::NoGateway, message));
    }
}

/// The gateway that a request's status names.
fn assigned(case: &Case) -> Option<&str> {
    case.request.as_ref()?.status.as_ref()?.assigned_gateway.as_deref()
}

fn impossible(case: &Case, asked: &Asked, world: &World) -> Option<(Reason, String)> {
    if !world.classes.contains_key(&asked.class) {
        let known: Vec<&str> = world.classes.keys().map(String::as_str).collect();
        let message = format!(
            "spec.gatewayClass: there is no GatewayClass {}: write one of {}, or leave it out",
            asked.class,
            known.join(", ")
        );
        return Some((Reason::NotFound, message));
    }
    let is_alb = is_alb(&asked.class, world);
    if asked.waf.is_some() && !is_alb {
        let message =
            "spec.wafArn: only gateways of class aws-alb have a firewall: leave it out, or choose that class";
        return Some((Reason::InvalidSpec, message.to_owned()));
    }
    let issuer = case.zone.as_ref().map(|zone| zone.certificates.issuer).unwrap_or_default();
    let fits = issuer_fits(issuer, is_alb);
    fits.err().map(|why| (Reason::InvalidSpec, format!("spec.gatewayClass: {why}")))
}

impl Pool<'_> {
    /// Where a case is already, if that still does.
    fn current(&self, case: &Case, asked: &Asked) -> Option<String> {
        let serves = |member: &Member| {
            case.names.iter().any(|name| {
                member.listeners.get(name).is_some_and(|there| there.namespace == case.at.namespace)
            })
        };
        let live = self.world.gateways.iter().find(|(_, member)| asked.is_met_by(member) && serves(member));
        live.map(|(name, _)| name.clone())
    }

    /// A place for a case that has none.
    fn place(&mut self, case: &Case, asked: &Asked) -> Option<String> {
        // One that somebody removed is made again under its name, which routes refer to.
        if let Some(name) = assigned(case).filter(|name| name.starts_with("gw-") && asked.selector.is_none())
        {
            match self.world.gateways.get(name).or_else(|| self.new.get(name)) {
                // Its place is its own, however much others have come to since.
                Some(member) if asked.is_met_by(member) => return Some(name.to_owned()),
                None => {
                    self.new.insert(name.to_owned(), member(asked));
                    return Some(name.to_owned());
                }
                Some(_) => {}
            }
        }
        let all = self.world.gateways.iter().chain(&self.new);
        let mut fitting: Vec<&String> = all
            .filter(|(name, member)| asked.is_met_by(member) && self.has_room(name, member))
            .map(|(name, _)| name)
            .collect();
        fitting.sort();
        if let Some(name) = fitting.first() {
            return Some((*name).clone());
        }
        if asked.selector.is_some() {
            return None;
        }
        // There is a free one among so many.
        let numbers = 1..=self.used.len() + 1;
        let name = numbers.map(|number| format!("gw-{number:02}")).find(|name| !self.used.contains(name))?;
        self.used.insert(name.clone());
        self.new.insert(name.clone(), member(asked));
        Some(name)
    }

    fn has_room(&self, name: &str, member: &Member) -> bool {
        let settings = &self.world.settings;
        self.certificates.get(name).copied().unwrap_or_default() < settings.most_certificates
            && member.rules < settings.most_rules
    }

    /// Counts what a case has though it can't have what it asks for.
    fn count(&mut self, case: &Case) {
        for (name, member) in &self.world.gateways {
            let serves = |held: &Held| {
                let listening = member.listeners.get(&held.name);
                listening.is_some_and(|there| there.namespace == case.at.namespace)
            };
            if case.held.iter().any(serves) {
                *self.certificates.entry(name.clone()).or_default() += 1;
            }
        }
    }

    fn take(&mut self, case: &mut Case, name: String) {
        *self.certificates.entry(name.clone()).or_default() += 1;
        case.gateway = Some(name);
    }
}

fn member(asked: &Asked) -> Member {
    Member {
        is_ours: true,
        class: asked.class.clone(),
        visibility: asked.visibility,
        waf: asked.waf.clone(),
        ..Member::default()
    }
}
