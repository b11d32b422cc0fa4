//! The hosts and paths of a Gateway, from the plan that its pods were given, and what of its routes is not served, in the
//! words of their statuses.

use std::collections::{BTreeMap, HashSet};
use std::process::ExitCode;

use anyhow::bail;
use causeway_ir::http::{Http, HttpAction, HttpRoute, PathMatch, RequestMatch, ValueMatch};
use causeway_ir::{Action, Cluster, Listener, Name, Plan, Protocol, Then};
use causeway_translate::endpoints;
use causeway_translate::gateway::kinds::ObjectRef;
use causeway_translate::gateway::picture::{Port, node_ports};
use serde::Serialize;

use crate::parts::answer::{Answer, FormatArg};
use crate::parts::gateway::{Attached, Reader, given};
use crate::parts::object::ObjectArgs;
use crate::parts::output;
use crate::parts::paint::{Paint, Tone};
use crate::parts::table::{Cell, table};

pub(super) async fn run(name: &str, object: &ObjectArgs, format: &FormatArg) -> anyhow::Result<ExitCode> {
    let client = object.client().await?;
    let at = ObjectRef::new(object.namespace.clone(), name);
    let reader = Reader::new(&client).await?;
    if reader.gateway(&at).await?.is_none() {
        bail!(
            "there is no Gateway {name} in namespace {}; `kubectl get gateways -A` lists them",
            at.namespace
        );
    }
    let Some(given) = given(&client, &at).await? else {
        bail!(
            "the operator has made no plan for Gateway {at}: `causeway doctor gateway/{name} -n {}` says why",
            at.namespace
        );
    };
    let (attached, unread) = reader.routes(&at).await;
    for message in &unread {
        output::note(format_args!("causeway: {message}"));
    }
    let on_nodes = given.service(&client).await.as_ref().map(node_ports).unwrap_or_default();
    let routes = Routes {
        routes: rows(&given.plan, &on_nodes),
        not_served: attached.iter().flat_map(not_served).collect(),
    };
    format.print(&routes)?;
    let is_whole = routes.not_served.is_empty() && unread.is_empty();
    Ok(if is_whole { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// The answer.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Routes {
    routes: Vec<Row>,
    /// What of the routes that name the Gateway is not served as it is written.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    not_served: Vec<NotServed>,
}

#[derive(Debug, PartialEq, Serialize)]
struct NotServed {
    /// Kind, namespace and name.
    route: String,
    reason: String,
    message: String,
}

fn not_served(attached: &Attached) -> impl Iterator<Item = NotServed> {
    attached.faults().map(|(reason, message)| NotServed {
        route: attached.route.clone(),
        reason: reason.to_owned(),
        message: message.to_owned(),
    })
}

/// One line: where requests or connections that look like this go.
#[derive(Debug, PartialEq, Serialize)]
struct Row {
    port: u16,
    /// The port of the nodes that leads there, where clients need it.
    #[serde(rename = "nodePort", skip_serializing_if = "Option::is_none")]
    node_port: Option<u16>,
    /// `HTTP`, `HTTPS`, `TLS`, `TCP` or `UDP`.
    protocol: &'static str,
    host: String,
    /// What the request looks like besides; empty if it does not matter.
    #[serde(rename = "match", skip_serializing_if = "String::is_empty")]
    matches: String,
    /// Kind, namespace and name of the route.
    route: String,
    /// Its rule, by number or name.
    #[serde(skip_serializing_if = "Option::is_none")]
    rule: Option<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    backends: Vec<Share>,
    /// What is answered in place of a backend.
    #[serde(skip_serializing_if = "Option::is_none")]
    answer: Option<String>,
}

/// A backend and its share.
#[derive(Debug, Clone, PartialEq, Serialize)]
struct Share {
    name: String,
    weight: u32,
    ready: usize,
    endpoints: usize,
}

impl Share {
    fn of(plan: &Plan, cluster: &Name, weight: u32) -> Self {
        let endpoints = plan.clusters.iter().find(|known| known.name == *cluster);
        let endpoints = endpoints.map_or(&[][..], |cluster: &Cluster| &cluster.endpoints);
        let ready = endpoints.iter().filter(|endpoint| endpoint.ready).count();
        Self { name: cluster.to_string(), weight, ready, endpoints: endpoints.len() }
    }

    fn text(&self, is_alone: bool) -> String {
        let weight = if is_alone { String::new() } else { format!(", weight {}", self.weight) };
        match self.name.strip_suffix(" invalid") {
            Some(name) => format!("{name} (invalid{weight})"),
            None => format!("{} ({} of {} ready{weight})", self.name, self.ready, self.endpoints),
        }
    }
}

/// The lines of a plan, by port and host. The same way may be in it several times, for TLS clients with and without a name.
fn rows(plan: &Plan, on_nodes: &BTreeMap<Port, Option<u16>>) -> Vec<Row> {
    let mut rows: Vec<Row> = plan.listeners.iter().flat_map(|listener| of_listener(plan, listener)).collect();
    for row in &mut rows {
        let carried = if row.protocol == "UDP" { endpoints::Protocol::Udp } else { endpoints::Protocol::Tcp };
        row.node_port = on_nodes.get(&Port { protocol: carried, number: row.port }).copied().flatten();
    }
    let mut seen = HashSet::new();
    rows.retain(|row| {
        seen.insert((row.port, row.host.clone(), row.matches.clone(), row.route.clone(), row.rule.clone()))
    });
    rows.sort_by(|one, other| (one.port, &one.host).cmp(&(other.port, &other.host)));
    rows
}

fn of_listener(plan: &Plan, listener: &Listener) -> Vec<Row> {
    let port = listener.bind.port();
    match &listener.protocol {
        Protocol::Http(http) => requests(plan, port, "HTTP", http),
        Protocol::Tcp(route) => connections(plan, (port, "TCP"), "*", &route.name, &route.action),
        Protocol::Udp(route) => connections(plan, (port, "UDP"), "*", &route.name, &route.action),
        Protocol::Tls(tls) => {
            let named = tls.routes.iter().flat_map(|route| {
                let names = route.server_names.iter();
                names.map(|name| (name.to_string(), route.name.as_str(), &route.action))
            });
            let others = tls.outcomes().map(|(name, action)| ("*".to_owned(), name, action));
            let all = named.chain(others);
            all.flat_map(|(host, name, action)| connections(plan, (port, "TLS"), &host, name, action))
                .collect()
        }
    }
}

/// Connections, and what is inside of them where TLS ends.
fn connections(
    plan: &Plan,
    (port, protocol): (u16, &'static str),
    host: &str,
    name: &str,
    action: &Action,
) -> Vec<Row> {
    if let Action::Terminate(terminate) = action {
        return match &terminate.then {
            Then::Http(http) => requests(plan, port, "HTTPS", http),
            Then::Tcp(route) => connections(plan, (port, "TLS"), host, &route.name, &route.action),
        };
    }
    let Some((route, rule)) = origin(name) else { return Vec::new() };
    let share = |to: &causeway_ir::Target| Share::of(plan, &to.cluster, to.weight);
    let backends: Vec<Share> = action.targets().iter().map(share).collect();
    let answer = backends.is_empty().then(|| "refused".to_owned());
    let (host, matches) = (host.to_owned(), String::new());
    vec![Row { port, node_port: None, protocol, host, matches, route, rule, backends, answer }]
}

fn requests(plan: &Plan, port: u16, protocol: &'static str, http: &Http) -> Vec<Row> {
    http.all_routes().flat_map(|route| of_route(plan, (port, protocol), route)).collect()
}

/// A line for each host and each match of a route.
fn of_route(plan: &Plan, (port, protocol): (u16, &'static str), route: &HttpRoute) -> Vec<Row> {
    let Some((from, rule)) = origin(&route.name) else { return Vec::new() };
    let (mut backends, mut answer) = (Vec::new(), None);
    match &route.action {
        HttpAction::Forward(targets) => {
            let targets = targets.as_slice().iter();
            backends = targets.map(|to| Share::of(plan, &to.cluster, to.weight)).collect();
        }
        HttpAction::Redirect(redirect) => {
            let status = serde_json::to_value(redirect.status).unwrap_or_default();
            answer = Some(format!("redirected ({status})"));
        }
        HttpAction::Respond(response) => answer = Some(format!("answered with {}", response.status)),
    }
    let hosts: Vec<String> = route.hosts.iter().map(ToString::to_string).collect();
    let hosts = if hosts.is_empty() { vec!["*".to_owned()] } else { hosts };
    let matches: Vec<String> = route.matches.iter().map(look).collect();
    let matches = if matches.is_empty() { vec![String::new()] } else { matches };
    let row = |host: &String, matches: &String| Row {
        port,
        node_port: None,
        protocol,
        host: host.clone(),
        matches: matches.clone(),
        route: from.clone(),
        rule: rule.clone(),
        backends: backends.clone(),
        answer: answer.clone(),
    };
    hosts.iter().flat_map(|host| matches.iter().map(move |matches| row(host, matches))).collect()
}

/// The route and the rule that a name of the plan was made of: `HTTPRoute/shop/web#0@http`. What the plan has of its own has
/// none.
fn origin(name: &str) -> Option<(String, Option<String>)> {
    let (route, _) = name.rsplit_once('@')?;
    let (route, rule) = match route.rsplit_once('#') {
        Some((route, rule)) => (route, Some(rule.to_owned())),
        None => (route, None),
    };
    let (kind, at) = route.split_once('/')?;
    Some((format!("{kind} {at}"), rule))
}

/// What a request looks like, in a few words.
fn look(matches: &RequestMatch) -> String {
    let value = |value: &ValueMatch| match value {
        ValueMatch::Exact(exact) => format!("={exact}"),
        ValueMatch::Regex(regex) => format!("~{regex}"),
    };
    let method = matches.method.iter().map(ToString::to_string);
    let path = matches.path.iter().map(|path| match path {
        PathMatch::Exact(path) => format!("={path}"),
        PathMatch::Prefix(path) => format!("{}/*", path.as_str().trim_end_matches('/')),
        PathMatch::Regex(regex) => format!("~{regex}"),
        PathMatch::Call(method) => format!("*{method}"),
    });
    let headers = matches.headers.iter().map(|header| format!("{}{}", header.name, value(&header.value)));
    let query = matches.query.iter().map(|query| format!("?{}{}", query.name, value(&query.value)));
    method.chain(path).chain(headers).chain(query).collect::<Vec<_>>().join(" ")
}

impl Answer for Routes {
    fn text(&self, paint: Paint) -> String {
        let rows =
            table(paint, ["PORT", "HOST", "MATCH", "ROUTE", "BACKENDS"], self.routes.iter().map(Row::cells));
        if self.not_served.is_empty() {
            return rows;
        }
        let lines =
            self.not_served.iter().map(|one| format!("  {}: {}: {}", one.route, one.reason, one.message));
        let lines = lines.collect::<Vec<_>>().join("\n");
        format!("{rows}\n\n{}:\n{lines}", paint.tint(Tone::Bad, "not served as it is written"))
    }
}

impl Row {
    fn cells(&self) -> [Cell; 5] {
        let rule = self.rule.as_ref().map(|rule| format!("#{rule}")).unwrap_or_default();
        let is_alone = self.backends.len() == 1;
        let backends: Vec<String> = self.backends.iter().map(|share| share.text(is_alone)).collect();
        let to = self.answer.clone().unwrap_or_else(|| backends.join(", "));
        let matches = if self.matches.is_empty() { "*".to_owned() } else { self.matches.clone() };
        let on_nodes = self.node_port.map(|port| format!(" ({port} on nodes)")).unwrap_or_default();
        [
            format!("{}/{}{on_nodes}", self.port, self.protocol),
            self.host.clone(),
            matches,
            format!("{}{rule}", self.route),
            to,
        ]
        .map(Cell::from)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_way_has_a_line_and_each_line_one_way() {
        let plan: Plan = serde_saphyr::from_str(
            "listeners:
- name: http/80
  bind: '[::]:80'
  protocol:
    http:
      routes:
      - name: 'HTTPRoute/shop/web#0@http'
        hosts: [b.test, a.test]
        matches: [{path: {prefix: /api}, method: GET}, {headers: [{name: x-color, value: {exact: blue}}]}]
        action: {forward: [{cluster: 'shop/api:80', weight: 9}, {cluster: 'shop/gone:1 invalid', weight: 1}]}
      - {name: 'HTTPRoute/shop/web#old@http', action: {redirect: {scheme: https, status: 301}}}
- name: tls/443
  bind: '[::]:443'
  protocol:
    tls:
      noServerName: &all
        terminate:
          certificates: [shop/cert]
          then:
            http:
              routes:
              - {name: misdirected, action: {respond: {status: 421, body: ''}}}
              - {name: 'HTTPRoute/shop/web#0@https', action: {forward: 'shop/api:80'}}
      unknownServerName: *all
      routes:
      - {name: 'TLSRoute/shop/db@tls', serverNames: [db.test], action: {forward: 'shop/db:5432'}}
clusters:
- {name: 'shop/api:80', endpoints: [{address: '10.0.0.1:80'}, {address: '10.0.0.2:80', ready: false}]}
- {name: 'shop/db:5432', endpoints: []}
- {name: 'shop/gone:1 invalid', endpoints: []}
",
        )
        .unwrap();
        let port = |number: u16| Port { protocol: endpoints::Protocol::Tcp, number };
        let on_nodes = BTreeMap::from([(port(443), Some(30443)), (port(80), None)]);
        let routes = Routes {
            routes: rows(&plan, &on_nodes),
            not_served: vec![NotServed {
                route: "HTTPRoute b/c".into(),
                reason: "R".into(),
                message: "why".into(),
            }],
        };
        let text = routes.text(Paint::Plain);
        let backends = "shop/api:80 (1 of 2 ready, weight 9), shop/gone:1 (invalid, weight 1)";
        let expected = [
            "PORT HOST MATCH ROUTE BACKENDS".to_owned(),
            "80/HTTP * * HTTPRoute shop/web#old redirected (301)".to_owned(),
            format!("80/HTTP a.test GET /api/* HTTPRoute shop/web#0 {backends}"),
            format!("80/HTTP a.test x-color=blue HTTPRoute shop/web#0 {backends}"),
            format!("80/HTTP b.test GET /api/* HTTPRoute shop/web#0 {backends}"),
            format!("80/HTTP b.test x-color=blue HTTPRoute shop/web#0 {backends}"),
            "443/HTTPS (30443 on nodes) * * HTTPRoute shop/web#0 shop/api:80 (1 of 2 ready)".to_owned(),
            "443/TLS (30443 on nodes) db.test * TLSRoute shop/db shop/db:5432 (0 of 0 ready)".to_owned(),
            String::new(),
            "not served as it is written:".to_owned(),
            "HTTPRoute b/c: R: why".to_owned(),
        ];
        let said: Vec<String> =
            text.lines().map(|line| line.split_whitespace().collect::<Vec<_>>().join(" ")).collect();
        assert_eq!(said, expected, "{text}");
    }
}
