//! `causeway routes proxy/NAME`: where each port and name of a proxy leads, from the object, the Services behind it and
//! what its proxies report. Needs nothing but the API server.

use std::process::ExitCode;

use anyhow::bail;
use causeway_api::{Backend, ProxyServer};
use causeway_ir::{Action, Listener, Protocol, Refusal};
use causeway_translate::proxy::{BackendState, Translation, cluster_name};
use kube::ResourceExt;
use serde::Serialize;

use crate::parts::output::{self, Format};
use crate::parts::proxy_server::{ProxyArgs, services, translation};
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
    let (services, unread) = services(&client, &proxy).await;
    for message in unread {
        eprintln!("causeway: {message}");
    }
    let translation = match translation(&proxy, &services) {
        Ok(translation) => translation,
        Err(problems) => {
            for problem in problems {
                eprintln!("causeway: {problem}");
            }
            bail!(
                "the spec is refused, so its routes are not live: a proxy that runs stays with the last good one"
            );
        }
    };
    let rows = rows(&proxy, &translation);
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
    /// `TCP` or `UDP`.
    protocol: &'static str,
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
        let tls = match &listener.protocol {
            Protocol::Tcp(route) | Protocol::Udp(route) => {
                rows.push(row("(any)", backend(&route.name)));
                continue;
            }
            Protocol::Tls(tls) => tls,
            // A ProxyServer does not look into requests.
            Protocol::Http(_) => continue,
        };
        for route in &tls.routes {
            for name in &route.server_names {
                rows.push(row(&name.to_string(), backend(&route.name)));
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
        connections: None,
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
            "UDP" => format!("{}/UDP", row.port),
            _ => row.port.to_string(),
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
    use causeway_api::{
        BackendStatus, PortDefaults, ProxyNetwork, ProxyServerSpec, ProxyServerStatus, ReplicaStatus,
    };
    use causeway_translate::services::Services;

    use super::*;

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
        let network_config = ProxyNetwork { server_ip: "192.168.100.5".into(), ..ProxyNetwork::default() };
        let spec =
            ProxyServerSpec { network_config, backends: vec![backend], ports, ..ProxyServerSpec::default() };
        let mut proxy = ProxyServer::new("edge", spec);
        let seen = BackendStatus { name: "web".into(), connections: Some(3), ..BackendStatus::default() };
        let replica = ReplicaStatus { backends: vec![seen], ..ReplicaStatus::default() };
        let replicas = vec![replica.clone(), replica];
        proxy.status = Some(ProxyServerStatus { replicas, ..ProxyServerStatus::default() });
        let rows = rows(&proxy, &translation(&proxy, &Services::default()).unwrap());
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
