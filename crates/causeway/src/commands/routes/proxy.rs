//! The ports and names of a proxy, from the object, the Services behind it and what its proxies report.

use std::process::ExitCode;

use anyhow::bail;
use causeway_api::{Backend, BackendStatus, ProxyServer, names};
use causeway_ir::{Action, Listener, Problem, Protocol, Refusal};
use causeway_translate::proxy::{BackendState, Translation, cluster_name};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::{Api, Client, ResourceExt};
use serde::Serialize;

use crate::parts::answer::{Answer, FormatArg};
use crate::parts::object::ObjectArgs;
use crate::parts::output;
use crate::parts::paint::{Paint, Tone};
use crate::parts::proxy_server::{services, translation};
use crate::parts::table::{Cell, table};

pub(super) async fn run(name: &str, object: &ObjectArgs, format: &FormatArg) -> anyhow::Result<ExitCode> {
    let client = object.client().await?;
    let Some(proxy) = object.find::<ProxyServer>(&client, name).await? else {
        bail!(object.missing::<ProxyServer>(name));
    };
    let (services, unread) = services(&client, &proxy).await;
    for message in &unread {
        output::note(format_args!("causeway: {message}"));
    }
    let translated = translation(&proxy, &services);
    let refused: Vec<Refused> = match &translated {
        Ok(_) => Refused::by_proxies(&proxy).collect(),
        Err(problems) => problems.iter().map(Refused::of).collect(),
    };
    let routes = match translated {
        Ok(translation) if refused.is_empty() => rows(&proxy, &translation),
        _ => match accepted(&client, &proxy).await {
            Some(live) => {
                translation(&live, &services).map(|translation| rows(&live, &translation)).unwrap_or_default()
            }
            None => Vec::new(),
        },
    };
    let routes = Routes { routes, refused };
    format.print(&routes)?;
    let is_whole = routes.refused.is_empty() && unread.is_empty();
    Ok(if is_whole { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// The last form of the object that its proxies took; the operator keeps it while a newer one is refused.
async fn accepted(client: &Client, proxy: &ProxyServer) -> Option<ProxyServer> {
    let api: Api<ConfigMap> = Api::namespaced(client.clone(), &proxy.namespace()?);
    let kept = api.get_opt(&names::accepted_config_map(&proxy.name_any())).await.ok()??;
    let kept: ProxyServer = serde_json::from_str(kept.data?.get(names::ACCEPTED_FILE)?).ok()?;
    // Another object of the same name has nothing to do with this one.
    (kept.uid() == proxy.uid()).then(|| ProxyServer { status: proxy.status.clone(), ..kept })
}

/// The answer.
#[derive(Debug, Serialize)]
struct Routes {
    /// What is live.
    routes: Vec<Row>,
    /// Why the spec is refused, so that none of its routes is live; the last good one goes on.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    refused: Vec<Refused>,
}

/// A mistake of the spec.
#[derive(Debug, Serialize)]
struct Refused {
    /// The field, or the proxy that refuses it.
    path: String,
    message: String,
}

impl Refused {
    fn of(problem: &Problem) -> Self {
        Self { path: problem.path.clone(), message: problem.message.clone() }
    }

    /// What is wrong with the spec in the words of those who should run it, such as an Envoy.
    fn by_proxies(proxy: &ProxyServer) -> impl Iterator<Item = Self> {
        let replicas = proxy.status.iter().flat_map(|status| &status.replicas);
        replicas.filter_map(|replica| {
            Some(Self { path: format!("proxy {}", replica.name), message: replica.refused.clone()? })
        })
    }
}

/// One line: where connections with this port and name go.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
struct Row {
    port: u16,
    /// `TCP` or `UDP`.
    protocol: &'static str,
    /// A server name, or what stands for the connections without a known one.
    name: String,
    /// The backend; absent if the connection is refused.
    #[serde(skip_serializing_if = "Option::is_none")]
    backend: Option<String>,
    endpoints: Vec<String>,
    health: String,
}

fn rows(proxy: &ProxyServer, translation: &Translation) -> Vec<Row> {
    let mut rows = Vec::new();
    for listener in &translation.plan.listeners {
        let row = |name: &str, to: Result<&Backend, &str>| make_row(proxy, translation, listener, name, to);
        let backend = |name: &str| proxy.spec.backends.iter().find(|b| b.name == name).ok_or("no backend");
        let tls = match &listener.protocol {
            Protocol::Tcp(route) | Protocol::Udp(route) => {
                let attached = attached(translation, listener, "(any)", &route.name, &route.action);
                rows.push(attached.unwrap_or_else(|| row("(any)", backend(&route.name))));
                continue;
            }
            Protocol::Tls(tls) => tls,
            // A ProxyServer does not look into requests.
            Protocol::Http(_) => continue,
        };
        for route in &tls.routes {
            for name in &route.server_names {
                let name = name.to_string();
                let attached = attached(translation, listener, &name, &route.name, &route.action);
                rows.push(attached.unwrap_or_else(|| row(&name, backend(&route.name))));
            }
        }
        for (name, action) in [
            ("(no SNI)", &tls.no_server_name),
            ("(unknown)", &tls.unknown_server_name),
            ("(plaintext)", &tls.plaintext),
        ] {
            let of = |cluster: &str| {
                let is = |b: &&Backend| cluster_name(&proxy.name_any(), &b.name) == cluster;
                proxy.spec.backends.iter().find(is).ok_or("no backend")
            };
            match action {
                Action::Forward(targets) => {
                    rows.extend(targets.as_slice().iter().map(|target| row(name, of(&target.cluster))));
                }
                Action::Refuse(Refusal::Alert) => rows.push(row(name, Err("refused with a TLS alert"))),
                Action::Refuse(Refusal::Close) => rows.push(row(name, Err("closed"))),
                Action::Terminate(_) => rows.push(row(name, Err("TLS ends in the proxy"))),
            }
        }
    }
    rows
}

/// The line of a TLSRoute or TCPRoute; none if it is a backend of the spec.
fn attached(
    translation: &Translation,
    listener: &Listener,
    name: &str,
    route: &str,
    action: &Action,
) -> Option<Row> {
    let state = translation.routes.iter().find(|state| state.name == route)?;
    let clusters = translation.plan.clusters.iter();
    let behind = clusters.filter(|cluster| action.targets().iter().any(|to| to.cluster == cluster.name));
    let endpoints: Vec<String> =
        behind.flat_map(|cluster| &cluster.endpoints).map(|endpoint| endpoint.address.to_string()).collect();
    let ready = format!("{} of {} ready", state.ready_endpoints, endpoints.len());
    Some(Row {
        port: listener.bind.port(),
        protocol: "TCP",
        name: name.to_owned(),
        backend: Some(route.to_owned()),
        health: state.message.as_ref().map_or(ready.clone(), |message| format!("{ready}; {message}")),
        endpoints,
    })
}

fn make_row(
    proxy: &ProxyServer,
    translation: &Translation,
    listener: &Listener,
    name: &str,
    to: Result<&Backend, &str>,
) -> Row {
    let blank = Row {
        port: listener.bind.port(),
        protocol: if listener.protocol.is_udp() { "UDP" } else { "TCP" },
        name: name.to_owned(),
        backend: None,
        endpoints: Vec::new(),
        health: String::new(),
    };
    let backend = match to {
        Ok(backend) => backend,
        Err(health) => return Row { health: health.to_owned(), ..blank },
    };
    let cluster = cluster_name(&proxy.name_any(), &backend.name);
    let endpoints =
        translation.plan.clusters.iter().find(|c| *c.name == *cluster).map(|c| c.endpoints.as_slice());
    let endpoints: Vec<String> =
        endpoints.unwrap_or_default().iter().map(|e| e.address.to_string()).collect();
    let state = translation.backends.iter().find(|s| s.name == backend.name);
    Row {
        backend: Some(backend.name.clone()),
        health: state
            .map(|state| health(state, reported(proxy, &backend.name), endpoints.len()))
            .unwrap_or_default(),
        endpoints,
        ..blank
    }
}

/// By its Service, and by the proxies' own health checks.
fn health(state: &BackendState, reported: Option<&BackendStatus>, all: usize) -> String {
    let seen = reported.and_then(|seen| usize::try_from(seen.ready_endpoints).ok());
    let ready = seen.map_or(state.ready_endpoints, |seen| seen.min(state.ready_endpoints));
    let message = match reported {
        Some(seen) if ready < state.ready_endpoints => &seen.message,
        _ => &state.message,
    };
    match (message, ready) {
        (Some(message), 0) => message.clone(),
        (Some(message), ready) => format!("{ready} of {all} ready; {message}"),
        (None, ready) => format!("{ready} of {all} ready"),
    }
}

/// What the proxy that sees the fewest endpoints says of a backend; nothing if none has anything to say.
fn reported<'a>(proxy: &'a ProxyServer, backend: &str) -> Option<&'a BackendStatus> {
    let replicas = proxy.status.iter().flat_map(|status| &status.replicas);
    replicas.flat_map(|r| &r.backends).filter(|b| b.name == backend).min_by_key(|b| b.ready_endpoints)
}

impl Answer for Routes {
    fn text(&self, paint: Paint) -> String {
        let rows = table(
            paint,
            ["PORT", "NAME", "BACKEND", "ENDPOINTS", "HEALTH"],
            self.routes.iter().map(Row::cells),
        );
        if self.refused.is_empty() {
            return rows;
        }
        let refused = self.refused.iter().map(|one| format!("  {}: {}", one.path, one.message));
        let refused = refused.collect::<Vec<_>>().join("\n");
        let head = paint.tint(Tone::Bad, "the newest spec is refused");
        let live = match self.routes.as_slice() {
            [] => "no earlier one is known: nothing is live, or it can't be seen from here".to_owned(),
            _ => format!("the last good one stays live:\n\n{rows}"),
        };
        format!("{head}:\n{refused}\n{live}")
    }
}

impl Row {
    fn cells(&self) -> [Cell; 5] {
        let port = match self.protocol {
            "UDP" => format!("{}/UDP", self.port),
            _ => self.port.to_string(),
        };
        let endpoints = match self.endpoints.as_slice() {
            [] => "-".to_owned(),
            [a] => a.clone(),
            [a, b] => format!("{a},{b}"),
            [a, b, more @ ..] => format!("{a},{b} and {} more", more.len()),
        };
        let backend = self.backend.clone().unwrap_or_else(|| "-".to_owned());
        [port, self.name.clone(), backend, endpoints, self.health.clone()].map(Cell::from)
    }
}

#[cfg(test)]
mod tests {
    use causeway_api::{PortDefaults, ProxyNetwork, ProxyServerSpec, ProxyServerStatus, ReplicaStatus};

    use super::*;
    use crate::parts::proxy_server::Surroundings;

    #[test]
    fn each_name_and_each_outcome_has_its_line() {
        let backend = Backend {
            name: "web".into(),
            hostname: "web.example.test".into(),
            alternate_hostnames: vec!["*.web.example.test".into()],
            target_service: "web".into(),
            target_port: 443,
            target_namespace: "apps".into(),
            ..Backend::default()
        };
        let no_sni = Some(causeway_api::Outcome { backend: Some("web".into()), refuse: None });
        let ports = vec![PortDefaults { port: 443, no_sni, ..PortDefaults::default() }];
        let network_config =
            ProxyNetwork { server_ip: Some("192.168.100.5".into()), ..ProxyNetwork::default() };
        let spec =
            ProxyServerSpec { network_config, backends: vec![backend], ports, ..ProxyServerSpec::default() };
        let proxy = ProxyServer::new("edge", spec);
        let rows = rows(&proxy, &translation(&proxy, &Surroundings::default()).unwrap());
        let seen: Vec<(&str, Option<&str>)> =
            rows.iter().map(|r| (r.name.as_str(), r.backend.as_deref())).collect();
        assert_eq!(
            seen,
            [
                ("web.example.test", Some("web")),
                ("*.web.example.test", Some("web")),
                ("(no SNI)", Some("web")),
                ("(unknown)", None),
                ("(plaintext)", None),
            ]
        );
        let text = Routes { routes: rows, refused: Vec::new() }.text(Paint::Plain);
        assert!(text.contains("there is no Service apps/web"), "{text}");
    }

    #[test]
    fn endpoints_that_fail_a_proxys_health_check_are_not_ready() {
        let state = BackendState { name: "web".into(), ready_endpoints: 2, message: None };
        let seen = |ready_endpoints: i32| BackendStatus {
            name: "web".into(),
            ready_endpoints,
            message: Some("fail the health check".into()),
        };
        let mut proxy = ProxyServer::new("edge", ProxyServerSpec::default());
        let report = |seen| ReplicaStatus { backends: vec![seen], ..ReplicaStatus::default() };
        let replicas = vec![report(seen(1)), report(seen(0))];
        proxy.status = Some(ProxyServerStatus { replicas, ..ProxyServerStatus::default() });
        assert_eq!(health(&state, reported(&proxy, "web"), 2), "fail the health check");
        assert_eq!(health(&state, Some(&seen(1)), 2), "1 of 2 ready; fail the health check");
        assert_eq!(health(&state, reported(&proxy, "other"), 2), "2 of 2 ready");
    }
}
