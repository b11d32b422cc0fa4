//! A GatewayHostnameRequest: the step that is stuck and why, and then what a client would do: resolve the name, connect, and check
//! the certificate.

use std::io::Cursor;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use causeway_api::conditions::{self, ConditionType};
use causeway_api::{GatewayHostnameRequest, GatewayHostnameRequestStatus, names};
use k8s_openapi::api::core::v1::Service;
use kube::{Api, Client};
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use tokio::net::{TcpStream, lookup_host};
use tokio::time::timeout;
use tokio_rustls::TlsConnector;

use super::Examination;
use super::conditions::conditions as say;
use super::finding::Finding;
use crate::commands::trust;
use crate::parts::dns_question::{self, Answer};

const PATIENCE: Duration = Duration::from_secs(3);
/// The Service of our own DNS server.
const LOCAL_DNS: &str = "hostnames-dns";
const STEPS: [ConditionType; 6] = [
    ConditionType::Claimed,
    ConditionType::CertificateRequested,
    ConditionType::DnsValidated,
    ConditionType::CertificateIssued,
    ConditionType::ListenerAttached,
    ConditionType::DnsAliasReady,
];

pub(super) async fn examine(examination: &Examination<'_>, name: &str) -> anyhow::Result<Vec<Finding>> {
    let client = &examination.client;
    let Some(request) = examination.object.find::<GatewayHostnameRequest>(client, name).await? else {
        return Ok(vec![examination.missing::<GatewayHostnameRequest>(name)]);
    };
    let status = request.status.clone().unwrap_or_default();
    let generation = request.metadata.generation;
    let mut found: Vec<Finding> = stuck(&status, generation.unwrap_or_default()).into_iter().collect();
    found.extend(say(&status.conditions, status.observed_generation, generation, &found));
    if examination.probes && !status.addresses.is_empty() {
        let hostname = status.hostnames.first().cloned().unwrap_or_else(|| request.spec.hostname.clone());
        // A wildcard is tried by a name that it stands for.
        let hostname = hostname.replacen('*', "causeway-doctor", 1);
        found.extend(as_a_client(client, &hostname, &status).await);
    }
    Ok(found)
}

/// The first step that is not done, with what it says.
fn stuck(status: &GatewayHostnameRequestStatus, generation: i64) -> Option<Finding> {
    if let Some(deleting) = conditions::find(&status.conditions, ConditionType::Deleting) {
        return Some(Finding::bad("it is being deleted, and not done", deleting.message.clone()));
    }
    let step = STEPS.iter().find(|step| !conditions::is_true(&status.conditions, **step, generation))?;
    let condition = conditions::find(&status.conditions, *step)?;
    Some(Finding::bad(format!("stuck at {step} ({})", condition.reason), condition.message.clone()))
}

async fn as_a_client(client: &Client, hostname: &str, status: &GatewayHostnameRequestStatus) -> Vec<Finding> {
    let namespace = status.assigned_gateway_namespace.as_deref().unwrap_or(names::EDGE_NAMESPACE);
    let mut found = vec![resolve(client, hostname, namespace, status).await];
    let addresses = status.addresses.iter().filter_map(|address| address.parse::<IpAddr>().ok());
    let addresses: Vec<IpAddr> = addresses.collect();
    let port = port(client, namespace, status).await.unwrap_or(443);
    for address in addresses {
        found.push(connect(client, SocketAddr::new(address, port), hostname, namespace).await);
    }
    found
}

/// The port of TLS: the Gateway's listener for the name has it.
async fn port(client: &Client, namespace: &str, status: &GatewayHostnameRequestStatus) -> Option<u16> {
    let kind = kube::core::GroupVersionKind::gvk("gateway.networking.k8s.io", "v1", "Gateway");
    let api: Api<kube::api::DynamicObject> =
        Api::namespaced_with(client.clone(), namespace, &kube::core::ApiResource::from_gvk(&kind));
    let gateway = api.get_opt(status.assigned_gateway.as_deref()?).await.ok()??;
    let listeners = gateway.data["spec"]["listeners"].as_array()?.clone();
    let https = listeners.iter().find(|listener| listener["protocol"] == "HTTPS")?;
    https["port"].as_u64().and_then(|port| u16::try_from(port).ok())
}

async fn resolve(
    client: &Client,
    hostname: &str,
    namespace: &str,
    status: &GatewayHostnameRequestStatus,
) -> Finding {
    let services: Api<Service> = Api::namespaced(client.clone(), namespace);
    let own = services.get_opt(LOCAL_DNS).await.ok().flatten().and_then(|service| {
        let spec = service.spec?;
        let port = spec.ports?.first()?.port;
        Some(SocketAddr::new(spec.cluster_ip?.parse().ok()?, u16::try_from(port).ok()?))
    });
    if let Some(server) = own
        && let Ok(Answer::Addresses(addresses)) = dns_question::ask(server, hostname, false).await
        && !addresses.is_empty()
    {
        return Finding::good(format!(
            "our own DNS server ({server}) leads {hostname} to {}",
            list(&addresses)
        ));
    }
    match timeout(PATIENCE, lookup_host((hostname, 443))).await {
        Ok(Ok(addresses)) => {
            let addresses: Vec<IpAddr> = addresses.map(|address| address.ip()).collect();
            let is_so = addresses.iter().any(|address| status.addresses.contains(&address.to_string()))
                || status.addresses.iter().all(|address| address.parse::<IpAddr>().is_err());
            if is_so {
                return Finding::good(format!("{hostname} leads to {}", list(&addresses)));
            }
            Finding::bad(
                format!(
                    "{hostname} leads to {} from here, and not to {}",
                    list(&addresses),
                    status.addresses.join(", ")
                ),
                "a resolver on the way keeps an older answer, or another zone answers for the name: see `dig +trace`",
            )
        }
        Ok(Err(error)) => Finding::bad(
            format!("{hostname} is not known to the resolver of this machine: {error}"),
            "see whether the zone is delegated to the name servers that the records were written to",
        ),
        Err(_) => Finding::unchecked(format!("the resolver of this machine does not answer for {hostname}")),
    }
}

async fn connect(client: &Client, at: SocketAddr, hostname: &str, namespace: &str) -> Finding {
    let mut roots = RootCertStore::empty();
    roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
    if let Ok(own) = trust::certificate(client, namespace).await {
        let own = CertificateDer::pem_reader_iter(Cursor::new(own)).filter_map(Result::ok);
        roots.add_parsable_certificates(own);
    }
    let config = ClientConfig::builder().with_root_certificates(roots).with_no_client_auth();
    let Ok(name) = ServerName::try_from(hostname.to_owned()) else {
        return Finding::unchecked(format!("{hostname} can't be asked for"));
    };
    let tried = async {
        let stream = TcpStream::connect(at).await.map_err(|error| (false, error.to_string()))?;
        let stream = TlsConnector::from(Arc::new(config)).connect(name, stream).await;
        stream.map(drop).map_err(|error| (true, error.to_string()))
    };
    match timeout(PATIENCE, tried).await {
        Ok(Ok(())) => Finding::good(format!("{at} shows a good certificate for {hostname}")),
        Ok(Err((true, error))) => Finding::bad(
            format!("{at} does not show a good certificate for {hostname}: {error}"),
            "see `causeway doctor gateway/NAME` for the gateway of its status",
        ),
        Ok(Err((false, error))) => Finding::bad(
            format!("{at} takes no connection: {error}"),
            "see `causeway doctor gateway/NAME` for the gateway of its status, and firewalls on the way",
        ),
        Err(_) => Finding::bad(
            format!("{at} does not answer within {} s", PATIENCE.as_secs()),
            "see `causeway doctor gateway/NAME` for the gateway of its status, and firewalls on the way",
        ),
    }
}

fn list(addresses: &[IpAddr]) -> String {
    let addresses: Vec<String> = addresses.iter().map(ToString::to_string).collect();
    addresses.join(", ")
}
