//! The objects that every cluster has: namespaces, default roles, the preinstalled CRDs and the API server's own
//! Service. Written at each start where they are missing or older than this version.

mod foreign;

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;

use causeway_base::well_known::{API_SERVER_ADDRESS, SERVICE_NAME_LABEL};
use http::{Method, Request, header};
use serde::Deserialize;
use serde_json::{Value, json};
use tower::ServiceExt;

use crate::access::default_roles;
use crate::error::{ApiError, Reason};
use crate::object;
use crate::rest::{Trusted, Vetted};
use crate::server::Server;

const NAMESPACES: [&str; 4] = ["default", "kube-system", "kube-public", "kube-node-lease"];
/// Remembers what a preinstalled object was written from, so that an unchanged one costs nothing at the next start.
const SOURCE: &str = "causeway.dev/source-hash";

/// How the operator is installed on a cluster. Here it is no Deployment, but has the same account and the same rights.
const OPERATOR: &str = include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/../../deploy/operator.yaml"));

const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
/// What is in there for its pods alone.
const OF_PODS: [&str; 5] = ["Deployment", "PodDisruptionBudget", "Service", "NetworkPolicy", "ConfigMap"];

pub(crate) async fn run(server: &Arc<Server>) -> Result<(), String> {
    let operator = operator()?;
    let (namespaces, operator): (Vec<Value>, Vec<Value>) =
        operator.into_iter().partition(|object| object["kind"] == "Namespace");
    let own = NAMESPACES
        .iter()
        .map(|name| json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}));
    // Together, so that they share syncs; and before the rest, which lives in them.
    let namespaces =
        own.chain(namespaces).map(|namespace| ensure(server, "/api/v1/namespaces".into(), namespace));
    futures::future::try_join_all(namespaces).await?;
    let mut wanted: Vec<(String, Value)> = Vec::new();
    for object in default_roles().into_iter().chain(operator) {
        wanted.push((collection_of(&object)?, object));
    }
    for crd in causeway_api::crds() {
        wanted.push((DEFINITIONS.into(), serde_json::to_value(crd).map_err(|e| e.to_string())?));
    }
    let service = json!({
        "apiVersion": "v1", "kind": "Service",
        "metadata": {"name": "kubernetes", "labels": {"component": "apiserver", "provider": "kubernetes"}},
        "spec": {"clusterIP": API_SERVER_ADDRESS.to_string(), "ports": [{"name": "https", "port": 443, "targetPort": 443}]},
    });
    wanted.push(("/api/v1/namespaces/default/services".into(), service));
    let writes = wanted.into_iter().map(|(collection, object)| ensure(server, collection, object));
    let foreign = foreign::ALL.iter().map(|definition| {
        ensure_from(server, DEFINITIONS.into(), definition.name, hash_of(definition.packed), || {
            definition.object()
        })
    });
    let writes = futures::future::try_join_all(writes);
    futures::future::try_join(writes, futures::future::try_join_all(foreign)).await.map(drop)
}

/// The endpoints of the `kubernetes` Service, which change with the address that is listened on.
pub(crate) async fn advertise(server: &Arc<Server>, address: SocketAddr) -> Result<(), String> {
    let (ip, port) = (address.ip().to_string(), address.port());
    let family = if address.is_ipv4() { "IPv4" } else { "IPv6" };
    let slice = json!({
        "apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice",
        "metadata": {"name": "kubernetes", "labels": {SERVICE_NAME_LABEL: "kubernetes"}},
        "addressType": family,
        "endpoints": [{"addresses": [ip], "conditions": {"ready": true}}],
        "ports": [{"name": "https", "port": port, "protocol": "TCP"}],
    });
    let endpoints = json!({
        "apiVersion": "v1", "kind": "Endpoints",
        "metadata": {"name": "kubernetes", "labels": {"endpointslice.kubernetes.io/skip-mirror": "true"}},
        "subsets": [{"addresses": [{"ip": ip}], "ports": [{"name": "https", "port": port, "protocol": "TCP"}]}],
    });
    let slice = ensure(server, "/apis/discovery.k8s.io/v1/namespaces/default/endpointslices".into(), slice);
    let endpoints = ensure(server, "/api/v1/namespaces/default/endpoints".into(), endpoints);
    futures::future::try_join(slice, endpoints).await.map(drop)
}

/// The operator's namespace, account and rights.
fn operator() -> Result<Vec<Value>, String> {
    let documents = OPERATOR.split("\n---\n").map(serde_saphyr::from_str);
    let objects: Vec<Value> = documents.collect::<Result<_, _>>().map_err(|e| e.to_string())?;
    // The roles of people are among this server's own.
    let is_for_people = |object: &Value| object::name(object).starts_with("causeway:aggregate-to-");
    let is_left_out = |object: &Value| {
        let kind = object["kind"].as_str().unwrap_or_default();
        OF_PODS.contains(&kind) || is_for_people(object)
    };
    Ok(objects.into_iter().filter(|object| !is_left_out(object)).collect())
}

/// Where objects of this kind are created.
fn collection_of(object: &Value) -> Result<String, String> {
    let rbac = "/apis/rbac.authorization.k8s.io/v1";
    let admission = "/apis/admissionregistration.k8s.io/v1";
    let namespace = object::namespace(object);
    Ok(match object["kind"].as_str() {
        Some("ClusterRole") => format!("{rbac}/clusterroles"),
        Some("ClusterRoleBinding") => format!("{rbac}/clusterrolebindings"),
        Some("Role") => format!("{rbac}/namespaces/{namespace}/roles"),
        Some("RoleBinding") => format!("{rbac}/namespaces/{namespace}/rolebindings"),
        Some("ServiceAccount") => format!("/api/v1/namespaces/{namespace}/serviceaccounts"),
        Some("ValidatingAdmissionPolicy") => format!("{admission}/validatingadmissionpolicies"),
        Some("ValidatingAdmissionPolicyBinding") => format!("{admission}/validatingadmissionpolicybindings"),
        kind => return Err(format!("{kind:?} is not a kind that a start writes")),
    })
}

/// Creates an object, or replaces it where it was written from something else.
async fn ensure(server: &Arc<Server>, collection: String, wanted: Value) -> Result<(), String> {
    let hash = hash_of(wanted.to_string().as_bytes());
    let name = object::name(&wanted).to_owned();
    ensure_from(server, collection, &name, hash, || Ok(wanted)).await
}

/// The same, for an object that is made only where it has to be written: `hash` stands for what it is made from.
async fn ensure_from(
    server: &Arc<Server>,
    collection: String,
    name: &str,
    hash: String,
    wanted: impl FnOnce() -> Result<Value, String>,
) -> Result<(), String> {
    let path = format!("{collection}/{}", name.replace(':', "%3A"));
    let found = match send(server, Method::GET, &path, None).await {
        // An administrator's own object under this name is left alone: the annotation is missing.
        Ok(found) if found.annotations.get(SOURCE).is_none_or(|source| *source == hash) => return Ok(()),
        Ok(found) => Some(found),
        Err(error) if error.reason == Reason::NotFound => None,
        Err(error) => return Err(format!("{name}: {error}")),
    };
    let mut wanted = wanted()?;
    object::map_at(&mut wanted["metadata"], "annotations").insert(SOURCE.into(), json!(hash));
    let written = match found {
        Some(found) => {
            wanted["metadata"]["resourceVersion"] = json!(found.resource_version);
            send(server, Method::PUT, &path, Some(&wanted)).await
        }
        None => send(server, Method::POST, &collection, Some(&wanted)).await,
    };
    written.map(drop).map_err(|error| format!("{name}: {error}"))
}

/// FNV-1a: stable over versions, and all it has to notice is our own edits.
fn hash_of(bytes: &[u8]) -> String {
    let mut hash = 0xcbf2_9ce4_8422_2325_u64;
    for byte in bytes {
        hash = (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
    }
    format!("{hash:016x}")
}

/// A definition as a whole, in each answer, would be most of the work of a start.
const HEAD_ONLY: &str = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1";

/// What is read of an answer.
#[derive(Default, Deserialize)]
#[serde(default)]
struct Answer {
    metadata: Head,
    message: String,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Head {
    resource_version: String,
    annotations: BTreeMap<String, String>,
}

/// One request through the server's own door, with all rights.
async fn send(
    server: &Arc<Server>,
    method: Method,
    path: &str,
    body: Option<&Value>,
) -> Result<Head, ApiError> {
    let mut request = Request::builder()
        .method(method)
        .uri(format!("{path}?fieldManager=causeway-bootstrap&fieldValidation=Ignore"))
        .header(header::CONTENT_TYPE, "application/json")
        .header(header::ACCEPT, HEAD_ONLY)
        .body(axum::body::Body::from(body.map(ToString::to_string).unwrap_or_default()))
        .expect("a request from constant parts");
    request.extensions_mut().insert(Trusted(crate::server::administrator()));
    if path.starts_with(DEFINITIONS) {
        request.extensions_mut().insert(Vetted);
    }
    let response = server.router().oneshot(request).await.unwrap_or_else(|never| match never {});
    let code = response.status().as_u16();
    let bytes = axum::body::to_bytes(response.into_body(), usize::MAX)
        .await
        .map_err(|e| ApiError::internal(e.to_string()))?;
    let answer: Answer = serde_json::from_slice(&bytes).map_err(|e| ApiError::internal(e.to_string()))?;
    if code < 400 {
        return Ok(answer.metadata);
    }
    let reason = if code == 404 { Reason::NotFound } else { Reason::InternalError };
    Err(ApiError::new(code, reason, answer.message))
}

/// Every definition that a server has from the start.
#[cfg(test)]
pub(crate) fn definitions() -> Vec<Value> {
    let own = causeway_api::crds().into_iter().map(|crd| serde_json::to_value(crd).expect("it is JSON"));
    let foreign = foreign::ALL.iter().map(|definition| {
        let object = definition.object().expect("it was packed");
        assert_eq!(object::name(&object), definition.name);
        object
    });
    own.chain(foreign).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn definitions_are_good() {
        for mut definition in definitions() {
            crate::crd::default(&mut definition);
            let errors: Vec<String> =
                crate::crd::validate(&definition, None).iter().map(ToString::to_string).collect();
            assert_eq!(errors, [""; 0], "{}", object::name(&definition));
        }
    }
}
