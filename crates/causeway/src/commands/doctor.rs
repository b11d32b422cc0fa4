//! `causeway doctor proxy/NAME`: the checks that a person would make to find what is wrong with a proxy, in order. Each
//! line says what was checked and, if it failed, what to do; the last checks send real connections through the proxy.

mod cluster;
mod probe;

use std::net::SocketAddr;
use std::process::ExitCode;

use causeway_api::{ProxyServer, ProxyServerStatus};
use causeway_ir::{Action, Protocol};
use causeway_translate::proxy::{BackendState, Translation, validate};

use crate::parts::output;
use crate::parts::proxy_server::{ProxyArgs, services, translation};

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    proxy: ProxyArgs,
    /// Do not send connections through the proxy.
    #[arg(long)]
    no_probes: bool,
}

/// The result of one check.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Finding {
    /// All is well.
    Good(String),
    /// Something is wrong; the second text says what to do.
    Bad(String, String),
    /// It could not be looked at from here.
    Skipped(String),
}

impl Finding {
    fn line(&self) -> String {
        match self {
            Self::Good(what) => format!("✓ {what}"),
            Self::Bad(what, cure) => format!("✗ {what}\n    {cure}"),
            Self::Skipped(what) => format!("- {what}"),
        }
    }
}

pub(crate) async fn run(args: Args) -> anyhow::Result<ExitCode> {
    let ProxyArgs { name, object } = args.proxy;
    let client = object.client().await?;
    let mut bad = 0;
    let mut print = |findings: Vec<Finding>| {
        for finding in findings {
            bad += usize::from(matches!(finding, Finding::Bad(..)));
            output::line(finding.line());
        }
    };
    let Some(proxy) = object.find::<ProxyServer>(&client, &name).await? else {
        print(vec![Finding::Bad(
            format!("there is no ProxyServer {}/{name}", object.namespace),
            "create it, or say its namespace with -n; `kubectl get proxyservers -A` lists them".into(),
        )]);
        return Ok(ExitCode::FAILURE);
    };
    print(spec(&proxy));
    print(conditions(&proxy));
    print(cluster::workload(&client, &proxy).await);
    print(replicas(&proxy));
    print(cluster::network(&client, &proxy).await);
    let (services, unread) = services(&client, &proxy).await;
    let unread = unread.into_iter().map(|text| {
        Finding::Bad(
            text,
            "you may not read them; ask for list on services, endpointslices and referencegrants".into(),
        )
    });
    print(unread.collect());
    // What is wrong with a spec that has no plan is said above.
    let translation = translation(&proxy, &services).ok();
    print(translation.iter().flat_map(|translation| backends(&translation.backends)).collect());
    print(cluster::access(&client, &proxy, &services).await);
    if let Some(translation) = translation.filter(|_| !args.no_probes) {
        print(probes(&proxy, &translation).await);
    }
    if bad == 0 {
        output::line(format_args!("\nnothing is wrong with proxy/{name}"));
        return Ok(ExitCode::SUCCESS);
    }
    output::line(format_args!("\n{bad} of the lines above need attention"));
    Ok(ExitCode::FAILURE)
}

fn spec(proxy: &ProxyServer) -> Vec<Finding> {
    let problems = match validate(proxy) {
        Ok(valid) => {
            let count = valid.backends.len();
            return vec![Finding::Good(format!("the spec is valid, with {count} backends"))];
        }
        Err(problems) => problems,
    };
    let bad = |p: &causeway_ir::Problem| {
        Finding::Bad(format!("the spec is not valid: {}", p.path), p.message.clone())
    };
    problems.iter().map(bad).collect()
}

fn status(proxy: &ProxyServer) -> ProxyServerStatus {
    proxy.status.clone().unwrap_or_default()
}

fn conditions(proxy: &ProxyServer) -> Vec<Finding> {
    let status = status(proxy);
    if status.conditions.is_empty() {
        return vec![Finding::Skipped("there are no conditions: no operator has looked at it yet".into())];
    }
    let finding = |c: &k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition| {
        let text = format!("condition {} is {} ({})", c.type_, c.status, c.reason);
        if c.status == "True" { Finding::Good(text) } else { Finding::Bad(text, c.message.clone()) }
    };
    status.conditions.iter().map(finding).collect()
}

/// What the proxies say of themselves.
fn replicas(proxy: &ProxyServer) -> Vec<Finding> {
    let status = status(proxy);
    let mut found = Vec::new();
    let wanted = usize::try_from(proxy.spec.replicas).unwrap_or_default();
    let reporting = status.replicas.len();
    if reporting < wanted {
        found.push(Finding::Bad(
            format!("{reporting} of {wanted} proxies report"),
            "look at the pods' logs; a proxy reports as soon as it reached the API server".into(),
        ));
    }
    for replica in &status.replicas {
        let name = &replica.name;
        if replica.observed_generation != proxy.metadata.generation {
            found.push(Finding::Bad(
                format!("proxy {name} has not read the newest spec"),
                "it can't reach the API server or may not watch ProxyServers: look at its log".into(),
            ));
        }
        if let Some(refused) = &replica.refused {
            found.push(Finding::Bad(
                format!("proxy {name} stays with an earlier configuration"),
                refused.clone(),
            ));
        }
        if let Some(trouble) = &replica.trouble {
            found.push(Finding::Bad(format!("proxy {name} is in trouble"), trouble.clone()));
        }
        if replica.attached == Some(false) {
            found.push(Finding::Bad(
                format!("proxy {name} has no address on the isolated network"),
                "look at the pod's k8s.v1.cni.cncf.io/network-status annotation and at the NetworkAttachmentDefinition's address range".into(),
            ));
        }
        if replica.serving {
            found.push(Finding::Good(format!("proxy {name} serves on {}", replica.listening.join(", "))));
        }
    }
    found
}

fn backends(states: &[BackendState]) -> Vec<Finding> {
    let finding = |state: &BackendState| match (&state.message, state.ready_endpoints) {
        (None, ready) => Finding::Good(format!("backend {} has {ready} ready endpoints", state.name)),
        (Some(message), 0) => {
            Finding::Bad(format!("backend {} can't be served", state.name), message.clone())
        }
        (Some(message), _) => Finding::Good(format!("backend {}: {message}", state.name)),
    };
    states.iter().map(finding).collect()
}

/// Real connections to each address that answers from here.
async fn probes(proxy: &ProxyServer, translation: &Translation) -> Vec<Finding> {
    let mut found = Vec::new();
    let addresses = addresses(&status(proxy));
    if addresses.is_empty() {
        return vec![Finding::Skipped("no proxy says where it listens, so none was tried".into())];
    }
    for address in addresses {
        let mut listeners = translation.plan.listeners.iter();
        let listener = listeners.find(|l| !l.protocol.is_udp() && l.bind.port() == address.port());
        let Some(listener) = listener else { continue };
        if let Err(error) = probe::connect(address).await {
            found.push(Finding::Skipped(format!("{address} can't be reached from here ({error})")));
            continue;
        }
        found.push(Finding::Good(format!("{address} accepts connections")));
        let Protocol::Tls(tls) = &listener.protocol else { continue };
        if listener.accept_proxy_protocol.is_some() {
            continue;
        }
        for route in &tls.routes {
            let ready = translation.backends.iter().any(|s| *s.name == *route.name && s.ready_endpoints > 0);
            for name in route.server_names.iter().filter(|_| ready) {
                found.push(probe::name(address, &name.to_string(), &route.name).await);
            }
        }
        if matches!(tls.unknown_server_name, Action::Refuse(_)) {
            found.push(probe::unknown(address).await);
        }
        let refused = matches!(tls.plaintext, Action::Refuse(_));
        found.push(probe::plaintext(address, refused).await);
    }
    found
}

/// Where the proxies say that they listen, and the Service in front of them.
fn addresses(status: &ProxyServerStatus) -> Vec<SocketAddr> {
    let mut all: Vec<SocketAddr> =
        status.replicas.iter().flat_map(|r| &r.listening).filter_map(|text| text.parse().ok()).collect();
    let service = status.service_ip.as_ref().and_then(|ip| ip.parse().ok());
    let ports: Vec<u16> = all.iter().map(SocketAddr::port).collect();
    if let Some(ip) = service {
        all.extend(ports.into_iter().map(|port| SocketAddr::new(ip, port)));
    }
    all.sort();
    all.dedup();
    all
}

#[cfg(test)]
mod tests {
    use causeway_api::{ProxyServerSpec, ReplicaStatus};

    use super::*;

    #[test]
    fn a_replica_behind_refusing_or_detached_is_told() {
        let mut proxy = ProxyServer::new("edge", ProxyServerSpec::default());
        proxy.metadata.generation = Some(2);
        let replica = ReplicaStatus {
            name: "p".into(),
            observed_generation: Some(1),
            refused: Some("spec.backends[0].port: taken".into()),
            attached: Some(false),
            ..ReplicaStatus::default()
        };
        proxy.status = Some(ProxyServerStatus { replicas: vec![replica], ..ProxyServerStatus::default() });
        let found = replicas(&proxy);
        assert_eq!(found.len(), 3);
        assert!(found.iter().all(|f| matches!(f, Finding::Bad(..))), "{found:?}");
        proxy.status = None;
        assert_eq!(replicas(&proxy)[0].line().lines().next(), Some("✗ 0 of 1 proxies report"));
    }

    #[test]
    fn the_service_is_tried_on_each_port() {
        let replica = ReplicaStatus { listening: vec!["10.0.0.1:443".into()], ..ReplicaStatus::default() };
        let status = ProxyServerStatus {
            replicas: vec![replica],
            service_ip: Some("10.96.0.1".into()),
            ..ProxyServerStatus::default()
        };
        assert_eq!(addresses(&status), ["10.0.0.1:443".parse().unwrap(), "10.96.0.1:443".parse().unwrap()]);
    }
}
