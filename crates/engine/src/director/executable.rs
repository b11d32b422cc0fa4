//! What a valid plan may ask for and this engine does not do: such a plan is refused with words, and never executed in
//! part.

use causeway_ir::{Action, Change, Cluster, Plan, Problem, Protocol, Transport, changes};

use super::changes::ListenerChange;
use crate::http;

/// What this engine can't execute of a valid plan, each with the path of the field; empty when it runs all of it.
pub fn problems(plan: &Plan) -> Vec<Problem> {
    in_changes(plan, &ListenerChange::all(&[], &plan.listeners), &changes(&[], &plan.clusters))
}

/// The same of what changed in a plan.
pub(super) fn in_changes(
    plan: &Plan,
    listeners: &[ListenerChange<'_>],
    clusters: &[Change<'_, Cluster>],
) -> Vec<Problem> {
    let mut found = Vec::new();
    for change in listeners {
        let Some(listener) = change.new else { continue };
        let path = || format!("listeners[{}].protocol", place(&plan.listeners, listener));
        // Where they stand is looked for only if there is something to say.
        if let Some(http) = listener.http()
            && change
                .http
                .iter()
                .filter_map(|change| change.new)
                .any(|route| http::in_route(route).next().is_some())
        {
            let found_here = http::in_http(http);
            found.extend(
                found_here.map(|(below, message)| problem(format!("{}.http.{below}", path()), message)),
            );
        }
        let Protocol::Tls(tls) = &listener.protocol else { continue };
        for route in change.tls.iter().filter_map(|change| change.new) {
            let at = || format!("{}.tls.routes[{}].action.terminate", path(), place(&tls.routes, route));
            in_action(&mut found, &at, &route.action);
        }
        let outcomes =
            [("noServerName", &tls.no_server_name), ("unknownServerName", &tls.unknown_server_name)];
        for (field, action) in outcomes {
            in_action(&mut found, &|| format!("{}.tls.{field}.terminate", path()), action);
        }
    }
    for cluster in clusters.iter().filter_map(|change| change.new) {
        let (below, message) = match &cluster.transport {
            Transport::Tls(_) if cluster.send_proxy_protocol.is_some() => (
                "sendProxyProtocol",
                "this engine sends no PROXY header before TLS to an endpoint: leave one of them out",
            ),
            Transport::Direct | Transport::Tls(_) => continue,
            Transport::Link(_) => {
                ("transport.link", "this engine has no links yet: reach the endpoints directly")
            }
        };
        let path = format!("clusters[{}].{below}", place(&plan.clusters, cluster));
        found.push(problem(path, message));
    }
    found
}

fn in_action(found: &mut Vec<Problem>, path: &dyn Fn() -> String, action: &Action) {
    if let Action::Terminate(terminate) = action {
        let inside = http::in_terminate(terminate);
        found.extend(
            inside.into_iter().map(|(below, message)| problem(format!("{}.{below}", path()), message)),
        );
    }
}

fn problem(path: String, message: &str) -> Problem {
    Problem { path, message: message.to_owned() }
}

/// Where an item stands in its list; looked for only when there is something to report.
fn place<T>(list: &[T], item: &T) -> usize {
    list.iter().position(|other| std::ptr::eq(other, item)).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn paths(plan: &str) -> Vec<String> {
        let plan: Plan = serde_saphyr::from_str(plan).unwrap();
        assert!(plan.validate().is_empty(), "{:?}", plan.validate());
        let found = problems(&plan);
        assert!(found.iter().all(|problem| problem.message.contains("this engine")));
        found.into_iter().map(|problem| problem.path).collect()
    }

    #[test]
    fn names_what_is_not_executed_and_where() {
        let own = "filters: [{requestHeaders: {remove: [x]}}, {responseHeaders: {set: [{name: Content-Length, value: '1'}]}}]";
        let inside = format!("{{http: {{routes: [{{name: r, {own}, action: {{forward: a}}}}]}}}}");
        let terminate = format!("{{terminate: {{certificates: [c], then: {inside}}}}}");
        let plan = format!(
            "listeners:\n\
             - {{name: p, bind: '127.0.0.1:1', protocol: {{tcp: {{name: r, action: {{forward: a}}}}}}}}\n\
             - name: h\n  bind: 127.0.0.1:2\n  protocol:\n    http:\n\
             \x20     routes: [{{name: r, {own}, action: {{forward: g}}}}]\n\
             \x20     sites: [{{name: s, hosts: [s.test], routes: [{{name: t, action: {{forward: [{{cluster: a, {own}}}]}}}}]}}]\n\
             - name: t\n  bind: 127.0.0.1:3\n  protocol:\n    tls:\n      noServerName: {terminate}\n      routes:\n\
             \x20     - {{name: f, serverNames: [f.test], action: {{forward: a}}}}\n\
             \x20     - {{name: t, serverNames: [t.test], action: {terminate}}}\n\
             clusters:\n- {{name: a, endpoints: [{{address: 'unix:/run/a.sock'}}]}}\n\
             - {{name: b, transport: {{tls: {{}}}}, sendProxyProtocol: v2}}\n\
             - {{name: g, httpVersion: '2'}}\n- {{name: l, transport: {{link: x}}}}\nlinks: [{{name: x, meet: {{listen: '127.0.0.1:9'}}, identity: i, authorities: a}}]\n"
        );
        assert_eq!(
            paths(&plan),
            [
                "listeners[1].protocol.http.routes[0].filters[1].responseHeaders",
                "listeners[1].protocol.http.sites[0].routes[0].action.forward[0].filters[1].responseHeaders",
                "listeners[2].protocol.tls.routes[1].action.terminate.then.http.routes[0].filters[1].responseHeaders",
                "listeners[2].protocol.tls.noServerName.terminate.then.http.routes[0].filters[1].responseHeaders",
                "clusters[1].sendProxyProtocol",
                "clusters[3].transport.link",
            ]
        );
    }
}
