//! `causeway routes proxy/NAME`: where each port and name of a proxy leads, from the object, the Services behind it and
//! what its proxies report. Needs nothing but the API server.

use std::process::ExitCode;

use anyhow::bail;
use causeway_api::{Backend, ProxyServer};
use causeway_controllers::vlan::proxy::translate::{BackendState, Translation, cluster_name};
use causeway_controllers::vlan::proxy::validate::validate;
use causeway_ir::{Listener, Outcome, Protocol, Refusal, Sniff};
use kube::ResourceExt;
use serde::Serialize;

use crate::parts::output::{self, Format};
use crate::parts::proxy_server::{ProxyArgs, targets, translation};
use crate::parts::table::table;

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    proxy: ProxyArgs,
    /// How to print it.
    #[arg(long, short, value_enum, default_value_t = Format::Table)]
    output: Format,
}

pub(crate) async fn run(args: Args) -> anyhow::Result<ExitCode> {
    let ProxyArgs { name, object } = args.proxy;
    let client = object.client().await?;
    let Some(proxy) = object.find::<ProxyServer>(&client, &name).await? else {
        bail!(object.missing::<ProxyServer>(&name));
    };
    for problem in validate(&proxy.spec) {
        eprintln!("causeway: {problem}");
    }
    let (targets, unread) = targets(&client, &proxy).await;
    for message in unread {
        eprintln!("causeway: {message}");
    }
    let rows = rows(&proxy, &translation(&proxy, &targets));
    match args.output {
        Format::Table => output::line(show(&rows)),
        Format::Json => output::line(serde_json::to_string_pretty(&rows)?),
    };
    Ok(ExitCode::SUCCESS)
}

/// One line: where connections with this port and name go.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
struct Row {
    port: u16,
    protocol: Protocol,
    /// A server name, or what stands for the connections without a known one.
    name: String,
    /// The backend; absent if the connection is refused.
    #[serde(skip_serializing_if = "Option::is_none")]
    backend: Option<String>,
    endpoints: Vec<String>,
    health: String,
    /// Open connections of the whole backend; absent if no proxy reports.
    #[serde(skip_serializing_if = "Option::is_none")]
    connections: Option<i64>,
}

fn rows(proxy: &ProxyServer, translation: &Translation) -> Vec<Row> {
    let mut rows = Vec::new();
    for listener in &translation.plan.listeners {
        let row = |name: &str, to: Result<&Backend, &str>| make_row(proxy, translation, listener, name, to);
        let backend = |name: &str| proxy.spec.backends.iter().find(|b| b.name == name).ok_or("no backend");
        for route in &listener.routes {
            for name in &route.server_names {
                rows.push(row(name, backend(&route.name)));
            }
            if listener.sniff == Sniff::None {
                rows.push(row("(any)", backend(&route.name)));
            }
        }
        if listener.sniff == Sniff::None {
            continue;
        }
        for (name, outcome) in [
            ("(no SNI)", &listener.no_server_name),
            ("(unknown)", &listener.unknown_server_name),
            ("(plaintext)", &listener.plaintext),
        ] {
            let of = |cluster: &str| {
                let is = |b: &&Backend| cluster_name(&proxy.name_any(), &b.name) == cluster;
                proxy.spec.backends.iter().find(is).ok_or("no backend")
            };
            rows.push(match outcome {
                Outcome::Cluster(cluster) => row(name, of(cluster)),
                Outcome::Refuse(Refusal::Alert) => row(name, Err("refused with a TLS alert")),
                Outcome::Refuse(Refusal::Close) => row(name, Err("closed")),
            });
        }
    }
    rows
}

fn make_row(
    proxy: &ProxyServer,
    translation: &Translation,
    listener: &Listener,
    name: &str,
    to: Result<&Backend, &str>,
) -> Row {
    let blank = Row {
        port: listener.address().map(|a| a.port()).unwrap_or_default(),
        protocol: listener.protocol,
        name: name.to_owned(),
        backend: None,
        endpoints: Vec::new(),
        health: String::new(),
        connections: None,
    };
    let backend = match to {
        Ok(backend) => backend,
        Err(health) => return Row { health: health.to_owned(), ..blank },
    };
    let cluster = cluster_name(&proxy.name_any(), &backend.name);
    let endpoints =
        translation.plan.clusters.iter().find(|c| c.name == cluster).map(|c| c.endpoints.as_slice());
    let endpoints: Vec<String> = endpoints.unwrap_or_default().iter().map(|e| e.address.clone()).collect();
    let state = translation.backends.iter().find(|s| s.name == backend.name);
    Row {
        backend: Some(backend.name.clone()),
        health: state.map(|state| health(state, endpoints.len())).unwrap_or_default(),
        endpoints,
        connections: connections(proxy, &backend.name),
        ..blank
    }
}

fn health(state: &BackendState, all: usize) -> String {
    match (&state.message, state.ready_endpoints) {
        (Some(message), 0) => message.clone(),
        (Some(message), ready) => format!("{ready} of {all} ready; {message}"),
        (None, ready) => format!("{ready} of {all} ready"),
    }
}

/// The sum over the proxies that report.
fn connections(proxy: &ProxyServer, backend: &str) -> Option<i64> {
    let replicas = proxy.status.iter().flat_map(|s| &s.replicas);
    let counts =
        replicas.flat_map(|r| &r.backends).filter(|b| b.name == backend).filter_map(|b| b.connections);
    counts.reduce(|a, b| a + b)
}

fn show(rows: &[Row]) -> String {
    let cells = rows.iter().map(|row| {
        let port = match row.protocol {
            Protocol::Tcp => row.port.to_string(),
            Protocol::Udp => format!("{}/UDP", row.port),
        };
        let endpoints = match row.endpoints.as_slice() {
            [] => "-".to_owned(),
            [a] => a.clone(),
            [a, b] => format!("{a},{b}"),
            [a, b, more @ ..] => format!("{a},{b} and {} more", more.len()),
        };
        let connections = row.connections.map_or_else(|| "-".to_owned(), |c| c.to_string());
        let backend = row.backend.clone().unwrap_or_else(|| "-".to_owned());
        [port, row.name.clone(), backend, endpoints, connections, row.health.clone()]
    });
    table(["PORT", "NAME", "BACKEND", "ENDPOINTS", "CONNECTIONS", "HEALTH"], cells)
}

#[cfg(test)]
mod tests {
    use causeway_api::{BackendStatus, PortDefaults, ProxyServerSpec, ProxyServerStatus, ReplicaStatus};
    use causeway_controllers::vlan::proxy::translate::Targets;

    use super::*;

    #[test]
    fn each_name_and_each_outcome_has_its_line() {
        let backend = Backend {
            name: "web".into(),
            hostname: "web.example.test".into(),
            alternate_hostnames: vec!["*.web.example.test".into()],
            target_service: "web".into(),
            target_namespace: "apps".into(),
            ..Backend::default()
        };
        let no_sni = Some(causeway_api::Outcome { backend: Some("web".into()), refuse: None });
        let ports = vec![PortDefaults { port: 443, no_sni, ..PortDefaults::default() }];
        let spec = ProxyServerSpec { backends: vec![backend], ports, ..ProxyServerSpec::default() };
        let mut proxy = ProxyServer::new("edge", spec);
        let seen = BackendStatus { name: "web".into(), connections: Some(3), ..BackendStatus::default() };
        let replica = ReplicaStatus { backends: vec![seen], ..ReplicaStatus::default() };
        let replicas = vec![replica.clone(), replica];
        proxy.status = Some(ProxyServerStatus { replicas, ..ProxyServerStatus::default() });
        let rows = rows(&proxy, &translation(&proxy, &Targets::default()));
        let seen: Vec<(&str, Option<&str>, Option<i64>)> =
            rows.iter().map(|r| (r.name.as_str(), r.backend.as_deref(), r.connections)).collect();
        assert_eq!(
            seen,
            [
                ("web.example.test", Some("web"), Some(6)),
                ("*.web.example.test", Some("web"), Some(6)),
                ("(no SNI)", Some("web"), Some(6)),
                ("(unknown)", None, None),
                ("(plaintext)", None, None),
            ]
        );
        assert!(show(&rows).contains("there is no Service apps/web"), "{}", show(&rows));
    }
}
