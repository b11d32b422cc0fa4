//! From the rules of a route to those of a plan, once for all Gateways that it attaches to. A rule that can't be carried out
//! is never left out silently: what it matches is answered with 500 if it can be told, and its author reads why.

mod budget;
mod filters;
mod labels;
mod matches;
mod persistence;

use std::collections::BTreeSet;

use causeway_ir::http::{
    HttpAction, HttpRoute, HttpTarget, HttpTargets, Policies, RequestMatch, Response, Retry, Timeouts,
};
use causeway_ir::{Limit, Period, Target, duration};

use super::backends::{Backends, Found, INVALID_BACKEND, Use};
use super::kinds::{
    self, BackendRef, ConnectionRouteSpec, Filter, GrpcRouteSpec, HttpRouteSpec, HttpRule, ObjectRef,
};
use crate::grants::Users;
use crate::naming::name;
use crate::references::Verdict;
use crate::services::ServiceRef;

use budget::Budget;
use filters::Step;
use labels::Labels;
pub(super) use labels::name_in;

/// The rules of a route, as far as they are the same everywhere.
#[derive(Default)]
pub(super) struct Rules {
    /// Of an HTTPRoute or GRPCRoute; the names are labels that are unique in the route.
    pub(super) requests: Vec<HttpRoute>,
    /// Of a TLSRoute, TCPRoute or UDPRoute.
    pub(super) connections: Connections,
    /// Rules that are not carried out as written.
    pub(super) invalid: Vec<Invalid>,
    /// How many rules were written.
    pub(super) count: usize,
    /// What is wrong with its references, if anything.
    pub(super) wrong: Option<Verdict>,
    /// Services that policies can be for.
    pub(super) services: BTreeSet<ServiceRef>,
}

/// Where connections go.
#[derive(Default)]
pub(super) struct Connections {
    /// Bytes that the Gateway has opened, or that were never sealed.
    pub(super) open: Vec<Target>,
    /// TLS that goes on as it is.
    pub(super) sealed: Vec<Target>,
}

/// A rule that is not carried out as written.
pub(super) struct Invalid {
    /// Which one: its number, and its name.
    pub(super) rule: String,
    /// In the words of the specification.
    pub(super) reason: &'static str,
    /// For people.
    pub(super) message: String,
}

/// Why a rule, or a part of it, can't be carried out.
pub(super) struct Problem {
    reason: &'static str,
    message: String,
    /// Whether it is a reference that is wrong, and not the rule.
    is_reference: bool,
}

impl Problem {
    fn unsupported(message: impl Into<String>) -> Self {
        Self { reason: "UnsupportedValue", message: message.into(), is_reference: false }
    }

    fn incompatible(message: impl Into<String>) -> Self {
        Self { reason: "IncompatibleFilters", message: message.into(), is_reference: false }
    }

    fn unknown_kind(message: impl Into<String>) -> Self {
        Self { reason: "InvalidKind", message: message.into(), is_reference: true }
    }
}

/// A rule of an HTTPRoute or of a GRPCRoute.
struct Written<'a> {
    name: Option<&'a str>,
    matches: Result<Vec<RequestMatch>, String>,
    /// Whether every path that it matches begins with a prefix that could be replaced.
    by_prefix: bool,
    filters: &'a [Filter],
    backends: &'a [kinds::Backend],
    timeouts: Option<&'a kinds::Timeouts>,
    retry: Option<&'a kinds::Retry>,
    persistence: Option<&'a kinds::SessionPersistence>,
}

/// Who compiles for whom.
pub(super) struct Compiler<'a> {
    pub(super) backends: &'a Backends<'a>,
    pub(super) users: Users<'a>,
    /// The route.
    pub(super) at: &'a ObjectRef,
    /// Whether a listener takes it. What no request is compared with costs nothing.
    pub(super) attaches: bool,
}

impl Compiler<'_> {
    /// The rules of an HTTPRoute.
    pub(super) fn http(&self, spec: &HttpRouteSpec) -> Rules {
        let only = [HttpRule::default()];
        let written = if spec.rules.is_empty() { only.as_slice() } else { spec.rules.as_slice() };
        let mut budget = Budget::new(self.attaches);
        let written = written.iter().map(|rule| Written {
            name: rule.name.as_deref(),
            matches: budget.matches(&rule.matches, matches::http),
            by_prefix: rule.matches.iter().all(matches::is_prefix),
            filters: &rule.filters,
            backends: &rule.backend_refs,
            timeouts: rule.timeouts.as_ref(),
            retry: rule.retry.as_ref(),
            persistence: rule.session_persistence.as_ref(),
        });
        self.requests(written, Use::Http)
    }

    /// The rules of a GRPCRoute.
    pub(super) fn grpc(&self, spec: &GrpcRouteSpec) -> Rules {
        let mut budget = Budget::new(self.attaches);
        let written = spec.rules.iter().map(|rule| Written {
            name: rule.name.as_deref(),
            matches: budget.matches(&rule.matches, matches::grpc),
            by_prefix: false,
            filters: &rule.filters,
            backends: &rule.backend_refs,
            timeouts: None,
            retry: None,
            persistence: rule.session_persistence.as_ref(),
        });
        self.requests(written, Use::Grpc)
    }

    fn requests<'w>(&self, written: impl Iterator<Item = Written<'w>>, used: Use) -> Rules {
        let mut rules = Rules::default();
        let mut labels = Labels::default();
        for (number, rule) in written.enumerate() {
            rules.count += 1;
            let label = labels.of(number, rule.name);
            let matches = match &rule.matches {
                Ok(matches) => matches.clone(),
                Err(message) => {
                    let message = message.clone();
                    let rule = place(number, rule.name);
                    rules.invalid.push(Invalid { rule, reason: "UnsupportedValue", message });
                    continue;
                }
            };
            let made = self.rule(&rule, &label, used, &mut rules).unwrap_or_else(|problem| {
                let Problem { reason, message, is_reference } = problem;
                if is_reference {
                    rules.wrong.get_or_insert(Verdict::no(reason, message));
                } else {
                    rules.invalid.push(Invalid { rule: place(number, rule.name), reason, message });
                }
                fail()
            });
            rules.requests.push(HttpRoute { name: name(&label), matches, ..made });
        }
        rules
    }

    /// What is done with the requests of a rule.
    fn rule(
        &self,
        rule: &Written<'_>,
        label: &str,
        used: Use,
        rules: &mut Rules,
    ) -> Result<HttpRoute, Problem> {
        // References are looked at whatever else is wrong.
        let mut targets = Vec::with_capacity(rule.backends.len());
        let mut problem = None;
        for backend in rule.backends {
            let found = self.find(&backend.reference, used, rules);
            let filters = filters::of_backend(backend, rule.by_prefix);
            let filters = filters.unwrap_or_else(|found| {
                problem.get_or_insert(found);
                Vec::new()
            });
            let weight = backend.reference.weight.unwrap_or(1);
            targets.push(HttpTarget { cluster: found.cluster, weight, priority: 0, filters });
        }
        let mut filters = Vec::new();
        let mut redirect = None;
        for filter in rule.filters {
            match self.filter(filter, rule.by_prefix, used, rules) {
                Ok(Step::Filter(filter)) => filters.push(filter),
                Ok(Step::Redirect(found)) => redirect = Some(found),
                Ok(Step::Nothing) => {}
                Err(found) => {
                    problem.get_or_insert(found);
                }
            }
        }
        if redirect.is_some() && filters.iter().any(|f| matches!(f, causeway_ir::http::Filter::Rewrite(_))) {
            problem.get_or_insert(Problem::incompatible("a request is redirected or rewritten, not both"));
        }
        if let Some(problem) = problem {
            return Err(problem);
        }
        let action = match (redirect, HttpTargets::new(targets)) {
            (Some(redirect), _) => HttpAction::Redirect(redirect),
            (None, Some(targets)) => HttpAction::Forward(targets),
            (None, None) => fail().action,
        };
        let timeouts = timeouts(rule.timeouts)?;
        let retry = retry(rule.retry)?;
        let session = || format!("{} {} {label}", self.users.kind, self.at);
        let persistence = persistence::persistence(rule.persistence, session)?;
        let policies = Policies { persistence, ..Policies::default() };
        Ok(HttpRoute { filters, timeouts, retry, policies, action, ..fail() })
    }

    /// Finds a backend and remembers what is wrong with it.
    fn find(&self, reference: &BackendRef, used: Use, rules: &mut Rules) -> Found {
        let found = self.backends.find(self.users, reference, used);
        if let Some(wrong) = &found.wrong {
            rules.wrong.get_or_insert_with(|| wrong.clone());
        }
        rules.services.extend(found.service.clone());
        found
    }

    /// The rules of a TLSRoute, TCPRoute or UDPRoute. Nothing tells the connections of several rules apart: the first one
    /// has them.
    pub(super) fn connections(&self, spec: &ConnectionRouteSpec, datagrams: bool) -> Rules {
        let mut rules = Rules { count: spec.rules.len(), ..Rules::default() };
        for backend in spec.rules.first().map(|rule| rule.backend_refs.as_slice()).unwrap_or_default() {
            let weight = backend.weight.unwrap_or(1);
            let used = if datagrams { Use::Datagrams } else { Use::Bytes };
            let open = self.find(backend, used, &mut rules).cluster;
            rules.connections.open.push(Target { cluster: open, weight, priority: 0 });
            if !datagrams {
                let sealed = self.find(backend, Use::Sealed, &mut rules).cluster;
                rules.connections.sealed.push(Target { cluster: sealed, weight, priority: 0 });
            }
        }
        for (number, rule) in spec.rules.iter().enumerate().skip(1) {
            let label = place(number, rule.name.as_deref());
            let message = "nothing tells its connections from those of the first rule".to_owned();
            rules.invalid.push(Invalid { rule: label, reason: "UnsupportedValue", message });
        }
        rules
    }
}

/// A rule as its author finds it.
fn place(number: usize, name: Option<&str>) -> String {
    name.map_or(number.to_string(), |name| format!("{number} {name}"))
}

/// A route that answers everything with the status of a rule that leads nowhere.
fn fail() -> HttpRoute {
    let response = Response { status: INVALID_BACKEND, headers: Vec::new(), body: String::new() };
    HttpRoute {
        name: name("rule"),
        hosts: Vec::new(),
        matches: Vec::new(),
        filters: Vec::new(),
        timeouts: Timeouts::default(),
        retry: None,
        policies: Policies::default(),
        action: HttpAction::Respond(response),
    }
}

fn timeouts(written: Option<&kinds::Timeouts>) -> Result<Timeouts, Problem> {
    let Some(written) = written else { return Ok(Timeouts::default()) };
    Ok(Timeouts {
        request: period("timeouts.request", written.request.as_deref())?,
        attempt: period("timeouts.backendRequest", written.backend_request.as_deref())?,
    })
}

fn retry(written: Option<&kinds::Retry>) -> Result<Option<Retry>, Problem> {
    let Some(written) = written else { return Ok(None) };
    let backoff = period("retry.backoff", written.backoff.as_deref())?;
    let code = |code: &i64| {
        let failure = u16::try_from(*code).ok().filter(|code| (400..600).contains(code));
        failure.ok_or_else(|| {
            Problem::unsupported(format!("retry.codes: {code} is no failure: write 400 to 599"))
        })
    };
    let statuses = written.codes.iter().map(code).collect::<Result<_, _>>()?;
    let attempts = count("retry.attempts", written.attempts.unwrap_or(1))?;
    Ok(Limit::new(attempts).map(|attempts| Retry { attempts, statuses, backoff }))
}

/// A number of things.
fn count(path: &str, number: i64) -> Result<u32, Problem> {
    u32::try_from(number)
        .map_err(|_| Problem::unsupported(format!("{path}: {number} is no count: write 0 or more")))
}

/// A duration as Gateway API writes it; none is no limit, and so is 0.
fn period(path: &str, text: Option<&str>) -> Result<Option<Period>, Problem> {
    let Some(text) = text else { return Ok(None) };
    let found = duration::parse(text).map_err(|why| Problem::unsupported(format!("{path}: {why}")))?;
    Ok(Period::new(found))
}
