//! A GatewayHostnameRequest: the step that is stuck and why, whether a route leads anywhere, and then what a client would do:
//! resolve the name, connect, and check the certificate.

use std::io::{Cursor, ErrorKind};
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use causeway_api::conditions::{self, ConditionType};
use causeway_api::{GatewayHostnameRequest, GatewayHostnameRequestStatus, names};
use causeway_ir::Pattern;
use k8s_openapi::api::core::v1::{ConfigMap, Service};
use k8s_openapi::jiff::Timestamp;
use kube::api::{DynamicObject, ListParams};
use kube::core::{ApiResource, GroupVersionKind};
use kube::{Api, Client, ResourceExt as _};
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
    found.extend(expired(&status, Timestamp::now()));
    found.extend(say(&status.conditions, status.observed_generation, generation, &found));
    let hostname = status.hostnames.first().cloned().unwrap_or_else(|| request.spec.hostname.clone());
    if let Some(gateway) = &status.assigned_gateway
        && request.metadata.deletion_timestamp.is_none()
    {
        let namespace = request.namespace().unwrap_or_default();
        found.push(routed(client, &namespace, &hostname, gateway, edge(&status)).await);
    }
    if examination.probes && !status.addresses.is_empty() {
        // A wildcard is tried by a name that it stands for.
        let hostname = hostname.replacen('*', "causeway-doctor", 1);
        found.extend(as_a_client(client, &hostname, &status).await);
    }
    Ok(found)
}

/// The namespace of the gateway.
fn edge(status: &GatewayHostnameRequestStatus) -> &str {
    status.assigned_gateway_namespace.as_deref().unwrap_or(names::EDGE_NAMESPACE)
}

/// The first step that is not done, with what it says.
fn stuck(status: &GatewayHostnameRequestStatus, generation: i64) -> Option<Finding> {
    if status.conditions.is_empty() {
        return Some(Finding::bad(
            "no operator has looked at it yet",
            "see whether it runs: `kubectl -n causeway-system get pods`, or `causeway up`; with --hostname-dry-run it only logs \
             what it would do",
        ));
    }
    if let Some(deleting) = conditions::find(&status.conditions, ConditionType::Deleting) {
        return Some(Finding::bad("it is being deleted, and not done", deleting.message.clone()));
    }
    let step = STEPS.iter().find(|step| !conditions::is_true(&status.conditions, **step, generation))?;
    let condition = conditions::find(&status.conditions, *step)?;
    Some(Finding::bad(format!("stuck at {step} ({})", condition.reason), condition.message.clone()))
}

/// A certificate that nobody would accept any more, whatever is said of it.
fn expired(status: &GatewayHostnameRequestStatus, now: Timestamp) -> Option<Finding> {
    let certificate = status.certificate.as_ref()?;
    let end = certificate.not_after.as_ref()?.0;
    (end <= now).then(|| {
        Finding::bad(
            format!(
                "the certificate ended at {}, and no other has come from {}",
                end.strftime("%Y-%m-%dT%H:%M:%SZ"),
                certificate.issuer.as_deref().unwrap_or("its issuer"),
            ),
            "see whether the operator runs, and what it says of the issuer: `kubectl -n causeway-system logs \
             deployment/causeway-operator`, or the output of `causeway up`",
        )
    })
}

/// Whether a route of the namespace leads the name anywhere, in the words of the gateway.
async fn routed(client: &Client, namespace: &str, hostname: &str, gateway: &str, edge: &str) -> Finding {
    let mut refused = None;
    for kind in ["HTTPRoute", "GRPCRoute", "TLSRoute"] {
        let resource = ApiResource::from_gvk(&GroupVersionKind::gvk("gateway.networking.k8s.io", "v1", kind));
        let api: Api<DynamicObject> = Api::namespaced_with(client.clone(), namespace, &resource);
        let routes = match api.list(&ListParams::default()).await {
            Ok(list) => list.items,
            Err(kube::Error::Api(answer)) if answer.code == 404 => continue,
            Err(error) => {
                let why = crate::parts::refusal::words(&error);
                return Finding::unchecked(format!("the {kind}s of {namespace} can't be listed: {why}"));
            }
        };
        for route in routes.iter().filter(|route| leads(route, hostname, gateway, edge)) {
            let name = format!("{kind} {namespace}/{}", route.name_any());
            match complaint(route, gateway) {
                None => return Finding::good(format!("{name} leads it to its Services")),
                Some(why) => {
                    let cure = format!(
                        "correct it; `causeway routes gateway/{gateway} -n {edge}` shows what is served"
                    );
                    refused = Some(Finding::bad(format!("{name} leads nowhere: {why}"), cure));
                }
            }
        }
    }
    refused.unwrap_or_else(|| {
        Finding::bad(
            format!("no route of namespace {namespace} leads {hostname} anywhere: the gateway answers 404"),
            format!(
                "apply an HTTPRoute with hostnames [{hostname}] and parentRefs [{{name: {gateway}, namespace: {edge}}}]"
            ),
        )
    })
}

/// Whether a route is for this name on this gateway.
fn leads(route: &DynamicObject, hostname: &str, gateway: &str, edge: &str) -> bool {
    let spec = &route.data["spec"];
    let own = route.namespace().unwrap_or_default();
    let is_meant = spec["parentRefs"]
        .as_array()
        .into_iter()
        .flatten()
        .any(|parent| parent["name"] == gateway && parent["namespace"].as_str().unwrap_or(&own) == edge);
    let hosts: Vec<&str> =
        spec["hostnames"].as_array().into_iter().flatten().filter_map(|host| host.as_str()).collect();
    let wanted = Pattern::parse(hostname).ok();
    let is_for = |host: &&str| {
        Pattern::parse(host).ok().zip(wanted.as_ref()).is_some_and(|(host, wanted)| host.covers(wanted))
    };
    is_meant && (hosts.is_empty() || hosts.iter().any(is_for))
}

/// What the gateway has against a route.
fn complaint(route: &DynamicObject, gateway: &str) -> Option<String> {
    let parents = route.data["status"]["parents"].as_array().cloned().unwrap_or_default();
    let mut of_gateway = parents.iter().filter(|parent| parent["parentRef"]["name"] == gateway);
    let Some(said) = of_gateway.next() else {
        return Some("the gateway has not looked at it yet".to_owned());
    };
    let conditions = said["conditions"].as_array().into_iter().flatten();
    let bad = conditions
        .filter(|condition| condition["status"] == "False")
        .find(|condition| ["Accepted", "ResolvedRefs"].iter().any(|kind| condition["type"] == **kind))?;
    Some(bad["message"].as_str().unwrap_or("it does not say why").to_owned())
}

async fn as_a_client(client: &Client, hostname: &str, status: &GatewayHostnameRequestStatus) -> Vec<Finding> {
    let namespace = edge(status);
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
    let kind = GroupVersionKind::gvk("gateway.networking.k8s.io", "v1", "Gateway");
    let api: Api<DynamicObject> =
        Api::namespaced_with(client.clone(), namespace, &ApiResource::from_gvk(&kind));
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
    if let Some(server) = own_server(client, hostname, namespace).await {
        return match dns_question::ask(server, hostname, status.addresses.iter().all(|one| one.contains(':')))
            .await
        {
            Ok(Answer::Addresses(addresses)) if !addresses.is_empty() => led(
                &format!("our own DNS server ({server}) leads {hostname}"),
                &addresses,
                status,
                "the operator puts that right as soon as it sees it: see whether it runs",
            ),
            Ok(Answer::Silence) | Err(_) => Finding::bad(
                format!("our own DNS server ({server}) does not answer"),
                format!(
                    "see its pods: `kubectl -n {namespace} get pods -l app={LOCAL_DNS}`; the operator makes them anew if they are gone"
                ),
            ),
            Ok(Answer::Addresses(_) | Answer::Refused(_)) => Finding::bad(
                format!("our own DNS server ({server}) has no address for {hostname}"),
                format!(
                    "the operator writes it into ConfigMap {namespace}/{LOCAL_DNS}: see whether it runs, and DnsAliasReady above"
                ),
            ),
        };
    }
    match timeout(PATIENCE, lookup_host((hostname, 443))).await {
        Ok(Ok(addresses)) => {
            let addresses: Vec<IpAddr> = addresses.map(|address| address.ip()).collect();
            led(
                &format!("{hostname} leads"),
                &addresses,
                status,
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

/// Our own DNS server, if it serves the zone that the name is in.
async fn own_server(client: &Client, hostname: &str, namespace: &str) -> Option<SocketAddr> {
    let maps: Api<ConfigMap> = Api::namespaced(client.clone(), namespace);
    let zones = maps.get_opt(LOCAL_DNS).await.ok()??.data?;
    let is_in = |domain: &str| {
        hostname == domain || hostname.strip_suffix(domain).is_some_and(|front| front.ends_with('.'))
    };
    zones.keys().filter_map(|key| key.strip_prefix("zone.")).find(|domain| is_in(domain))?;
    let services: Api<Service> = Api::namespaced(client.clone(), namespace);
    let spec = services.get_opt(LOCAL_DNS).await.ok()??.spec?;
    let port = u16::try_from(spec.ports?.first()?.port).ok()?;
    Some(SocketAddr::new(spec.cluster_ip?.parse().ok()?, port))
}

/// Whether these are the addresses of the gateway.
fn led(what: &str, addresses: &[IpAddr], status: &GatewayHostnameRequestStatus, cure: &str) -> Finding {
    let is_so = addresses.iter().any(|address| status.addresses.contains(&address.to_string()))
        || status.addresses.iter().all(|address| address.parse::<IpAddr>().is_err());
    if is_so {
        return Finding::good(format!("{what} to {}", list(addresses)));
    }
    Finding::bad(format!("{what} to {}, and not to {}", list(addresses), status.addresses.join(", ")), cure)
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
        // What is wrong with a certificate is invalid data; all else befalls the connection.
        stream.map(drop).map_err(|error| (error.kind() == ErrorKind::InvalidData, error.to_string()))
    };
    match timeout(PATIENCE, tried).await {
        Ok(Ok(())) => Finding::good(format!("{at} shows a good certificate for {hostname}")),
        Ok(Err((true, error))) => Finding::bad(
            format!("{at} does not show a good certificate for {hostname}: {error}"),
            "see `causeway doctor gateway/NAME` for the gateway of its status",
        ),
        Ok(Err((false, error))) => Finding::bad(
            format!("no pod of the gateway serves there: {at} takes no connection, or gives it up ({error})"),
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

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn route(hosts: &[&str], parent: serde_json::Value, conditions: &serde_json::Value) -> DynamicObject {
        serde_json::from_value(json!({
            "apiVersion": "gateway.networking.k8s.io/v1", "kind": "HTTPRoute",
            "metadata": {"name": "r", "namespace": "shop"},
            "spec": {"hostnames": hosts, "parentRefs": [parent]},
            "status": {"parents": [{"parentRef": {"name": "gw-01"}, "conditions": conditions}]},
        }))
        .unwrap()
    }

    #[test]
    fn a_route_leads_a_name_that_it_is_for_on_the_gateway_that_it_names() {
        let ours = json!({"name": "gw-01", "namespace": "causeway-edge"});
        for (hosts, parent, expected) in [
            (&["shop.example.com"][..], ours.clone(), true),
            (&["*.example.com"], ours.clone(), true),
            (&[], ours.clone(), true),
            (&["cart.example.com"], ours, false),
            (&["shop.example.com"], json!({"name": "gw-02", "namespace": "causeway-edge"}), false),
            (&["shop.example.com"], json!({"name": "gw-01"}), false),
        ] {
            let route = route(hosts, parent, &json!([]));
            assert_eq!(leads(&route, "shop.example.com", "gw-01", "causeway-edge"), expected, "{route:?}");
        }
        let refused = json!([{"type": "Accepted", "status": "False", "message": "not held"}]);
        assert_eq!(complaint(&route(&[], json!({}), &refused), "gw-01").as_deref(), Some("not held"));
        assert_eq!(complaint(&route(&[], json!({}), &json!([])), "gw-01"), None);
        assert!(complaint(&route(&[], json!({}), &json!([])), "gw-02").is_some());
    }

    #[test]
    fn a_certificate_that_has_ended_is_said_to_have() {
        let status: GatewayHostnameRequestStatus = serde_json::from_value(json!({
            "certificate": {"issuer": "nobody", "notAfter": "2026-01-01T00:00:00Z"},
        }))
        .unwrap();
        let at = |text: &str| expired(&status, text.parse().unwrap());
        assert!(at("2025-12-31T23:59:59Z").is_none());
        assert!(at("2026-01-01T00:00:00Z").unwrap().is_bad());
    }
}
