//! `causeway routes proxy/NAME`: where each port and name of a proxy leads, from the object, the Services behind it and
//! what its proxies report. Needs nothing but the API server.

use std::collections::BTreeSet;
use std::fmt::Write;
use std::net::{IpAddr, Ipv4Addr};
use std::path::PathBuf;
use std::sync::Arc;

use anyhow::{Context, bail};
use causeway_api::conditions::{ConditionType, Reason, find};
use causeway_api::{Backend, ProxyServer};
use causeway_controllers::grants::ReferenceGrant;
use causeway_controllers::vlan::proxy::translate::{
    BackendState, Bind, Place, Targets, Translation, cluster_name, translate,
};
use causeway_controllers::vlan::proxy::validate::validate;
use causeway_ir::{Listener, Outcome, Protocol, Refusal, Sniff};
use k8s_openapi::api::core::v1::Service;
use k8s_openapi::api::discovery::v1::EndpointSlice;
use kube::api::ListParams;
use kube::{Api, Client, ResourceExt};
use serde::Serialize;

use crate::commands::status;
use crate::parts::data_dir::DataDirArg;

#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(flatten)]
    pub target: Target,
    /// How to print it.
    #[arg(long, short, value_enum, default_value_t = Output::Table)]
    output: Output,
}

/// Which proxy, and of which cluster.
#[derive(Debug, clap::Args)]
pub struct Target {
    /// The proxy, as proxy/NAME.
    #[arg(value_name = "proxy/NAME", value_parser = proxy_name)]
    pub name: String,
    #[command(flatten)]
    data_dir: DataDirArg,
    /// Ask this cluster instead of the control plane on this machine.
    #[arg(long, env = "KUBECONFIG", value_name = "FILE")]
    kubeconfig: Option<PathBuf>,
    /// Its namespace.
    #[arg(long, short, default_value = "default", value_name = "NAMESPACE")]
    pub namespace: String,
}

#[derive(Debug, Clone, Copy, clap::ValueEnum)]
enum Output {
    Table,
    Json,
}

impl Target {
    pub async fn client(&self) -> anyhow::Result<Client> {
        status::client(&self.data_dir, self.kubeconfig.as_deref()).await
    }

    /// The object; `None` if there is none of this name.
    pub async fn find(&self, client: &Client) -> anyhow::Result<Option<ProxyServer>> {
        let api: Api<ProxyServer> = Api::namespaced(client.clone(), &self.namespace);
        api.get_opt(&self.name)
            .await
            .with_context(|| format!("can't read ProxyServer {}/{}", self.namespace, self.name))
    }
}

fn proxy_name(text: &str) -> Result<String, String> {
    match text.split_once('/') {
        Some(("proxy" | "proxies" | "proxyserver" | "proxyservers", name)) if !name.is_empty() => {
            Ok(name.to_owned())
        }
        None if !text.is_empty() => Ok(text.to_owned()),
        _ => Err("write proxy/NAME".to_owned()),
    }
}

pub async fn run(args: Args) -> anyhow::Result<()> {
    let client = args.target.client().await?;
    let Some(proxy) = args.target.find(&client).await? else {
        bail!(
            "there is no ProxyServer {} in namespace {}; `kubectl get proxyservers -A` lists them",
            args.target.name,
            args.target.namespace
        );
    };
    for problem in validate(&proxy.spec) {
        eprintln!("causeway: {problem}");
    }
    let (targets, unread) = targets(&client, &proxy).await;
    for message in unread {
        eprintln!("causeway: {message}");
    }
    let made = meaning(&proxy, &targets);
    let rows = rows(&proxy, &made);
    match args.output {
        Output::Table => print!("{}", table(&rows)),
        Output::Json => println!("{}", serde_json::to_string_pretty(&rows)?),
    }
    Ok(())
}

/// The Services, slices and grants of the namespaces that backends name, and which of them can't be read.
pub async fn targets(client: &Client, proxy: &ProxyServer) -> (Targets, Vec<String>) {
    let namespaces: BTreeSet<&str> =
        proxy.spec.backends.iter().map(|b| b.target_namespace.as_str()).collect();
    let (mut services, mut slices, mut unread) = (Vec::new(), Vec::new(), Vec::new());
    let (asks, mut grants) = (needs_grants(proxy), Vec::<Arc<ReferenceGrant>>::new());
    for namespace in namespaces {
        let all = ListParams::default();
        match Api::<Service>::namespaced(client.clone(), namespace).list(&all).await {
            Ok(list) => services.extend(list.items.into_iter().map(Into::into)),
            Err(error) => {
                unread.push(format!("the Services of namespace {namespace} can't be read: {error}"));
            }
        }
        match Api::<EndpointSlice>::namespaced(client.clone(), namespace).list(&all).await {
            Ok(list) => slices.extend(list.items.into_iter().map(Into::into)),
            Err(error) => {
                unread.push(format!("the EndpointSlices of namespace {namespace} can't be read: {error}"));
            }
        }
        if !asks || proxy.metadata.namespace.as_deref() == Some(namespace) {
            continue;
        }
        match Api::<ReferenceGrant>::namespaced(client.clone(), namespace).list(&all).await {
            Ok(list) => grants.extend(list.items.into_iter().map(Into::into)),
            // Where nobody has defined grants, there are none.
            Err(kube::Error::Api(status)) if status.code == 404 => {}
            Err(error) => {
                unread.push(format!("the ReferenceGrants of namespace {namespace} can't be read: {error}"));
            }
        }
    }
    let targets = Targets::new(services, slices);
    (if asks { targets.granted_by(grants.into_iter().collect()) } else { targets }, unread)
}

/// Whether grants count: the operator may have been told that they do not, and says what it has found.
fn needs_grants(proxy: &ProxyServer) -> bool {
    let conditions = proxy.status.as_ref().map_or(&[][..], |status| &status.conditions);
    find(conditions, ConditionType::BackendsResolved)
        .is_none_or(|condition| condition.reason == Reason::RefNotPermitted.as_str())
}

/// What the object means on any address.
pub fn meaning(proxy: &ProxyServer, targets: &Targets) -> Translation {
    let anywhere = Bind { address: IpAddr::V4(Ipv4Addr::UNSPECIFIED), place: Place::Server };
    translate(proxy, &[anywhere], targets)
}

/// One line: what arrives here goes there.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Row {
    pub port: u16,
    pub protocol: Protocol,
    /// A server name, or what stands for the connections without a known one.
    pub name: String,
    /// The backend; absent if the connection is refused.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub backend: Option<String>,
    pub endpoints: Vec<String>,
    pub health: String,
    /// Open connections of the whole backend; absent if no proxy reports.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub connections: Option<i64>,
}

pub fn rows(proxy: &ProxyServer, made: &Translation) -> Vec<Row> {
    let mut rows = Vec::new();
    for listener in &made.plan.listeners {
        let row = |name: &str, to: Result<&Backend, &str>| make_row(proxy, made, listener, name, to);
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
    made: &Translation,
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
    let endpoints = made.plan.clusters.iter().find(|c| c.name == cluster).map(|c| c.endpoints.as_slice());
    let endpoints: Vec<String> = endpoints.unwrap_or_default().iter().map(|e| e.address.clone()).collect();
    let state = made.backends.iter().find(|s| s.name == backend.name);
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

fn table(rows: &[Row]) -> String {
    let head = ["PORT", "NAME", "BACKEND", "ENDPOINTS", "CONNECTIONS", "HEALTH"].map(ToOwned::to_owned);
    let line = |row: &Row| {
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
    };
    let cells: Vec<[String; 6]> = std::iter::once(head).chain(rows.iter().map(line)).collect();
    let widths: [usize; 5] =
        std::array::from_fn(|i| cells.iter().map(|row| row[i].chars().count()).max().unwrap_or(0));
    let mut text = String::new();
    for row in &cells {
        for (cell, width) in row.iter().zip(widths) {
            let _ = write!(text, "{cell:width$}  ");
        }
        let _ = writeln!(text, "{}", row[5]);
    }
    text
}

#[cfg(test)]
mod tests {
    use causeway_api::{BackendStatus, PortDefaults, ProxyServerSpec, ProxyServerStatus, ReplicaStatus};

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
        let rows = rows(&proxy, &meaning(&proxy, &Targets::default()));
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
        assert!(table(&rows).contains("there is no Service apps/web"), "{}", table(&rows));
    }

    #[test]
    fn takes_the_spellings_of_a_proxy() {
        for text in ["proxy/edge", "proxyserver/edge", "edge"] {
            assert_eq!(proxy_name(text).as_deref(), Ok("edge"), "{text}");
        }
        for text in ["infra/edge", "proxy/", ""] {
            assert!(proxy_name(text).is_err(), "{text}");
        }
    }
}
