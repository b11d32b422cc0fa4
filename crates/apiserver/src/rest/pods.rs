//! What pods have beyond other kinds: logs, which the node gives, and the binding to a node.

use std::borrow::Cow;

use axum::body::Body;
use axum::response::Response;
use bytes::Bytes;
use futures::future::BoxFuture;
use futures::stream::BoxStream;
use http::StatusCode;
use serde_json::{Value, json};

use super::write::{self, Ownership, Part};
use super::{Call, body, read};
use crate::admission::policies::{Act, Other};
use crate::error::{ApiError, Reason};
use crate::object;

/// Which part of a container's log.
#[derive(Debug, Clone, Default)]
pub struct PodLogOptions {
    pub container: String,
    pub follow: bool,
    pub previous: bool,
    pub timestamps: bool,
    pub tail_lines: Option<u64>,
    pub since_seconds: Option<u64>,
    pub since_time: Option<String>,
    pub limit_bytes: Option<u64>,
}

/// The part of this process that runs pods and keeps their logs.
pub trait PodLogs: Send + Sync {
    fn open(
        &self,
        namespace: String,
        pod: String,
        options: PodLogOptions,
    ) -> BoxFuture<'static, Result<BoxStream<'static, std::io::Result<Bytes>>, ApiError>>;
}

/// Why a way into a running pod is refused; nothing for other subresources.
pub(crate) fn stream_refusal(plural: &str, subresource: &str) -> Option<ApiError> {
    let known = match plural {
        "pods" => matches!(subresource, "attach" | "exec" | "proxy"),
        "services" | "nodes" => subresource == "proxy",
        _ => false,
    };
    known.then(|| {
        let message = format!(
            "this server does not offer {plural}/{subresource}: pods are processes of this machine, so use their ports (kubectl port-forward), files and logs directly"
        );
        ApiError::new(501, Reason::NotImplemented, message)
    })
}

pub(crate) async fn log(call: &Call<'_>, name: &str) -> Result<Response, ApiError> {
    let pod = read::view(call.resource, &*read::require(call, &call.key(name))?);
    let options = PodLogOptions {
        container: pick_container(&pod, call.options.other("container").unwrap_or_default())?,
        follow: call.options.flag("follow"),
        previous: call.options.flag("previous"),
        timestamps: call.options.flag("timestamps"),
        tail_lines: call.options.whole("tailLines")?,
        since_seconds: call.options.whole("sinceSeconds")?,
        since_time: call.options.other("sinceTime").map(str::to_owned),
        limit_bytes: call.options.whole("limitBytes")?,
    };
    let Some(logs) = call.server.pod_logs() else {
        return Err(ApiError::new(
            503,
            Reason::ServiceUnavailable,
            "no node runs beside this server, so there are no logs to read",
        ));
    };
    if let Some(error) = kept_from_starting(&pod, &options) {
        return Err(error);
    }
    let namespace = call.namespace.clone().unwrap_or_default();
    let lines = logs.open(namespace, name.to_owned(), options).await?;
    Ok(body::raw(StatusCode::OK, "text/plain", Body::from_stream(lines)))
}

/// Why there is no log of a container that something keeps from starting at all.
fn kept_from_starting(pod: &Value, options: &PodLogOptions) -> Option<ApiError> {
    let statuses = ["containerStatuses", "initContainerStatuses"].map(|list| pod["status"][list].as_array());
    let status = statuses.into_iter().flatten().flatten().find(|s| s["name"] == *options.container)?;
    let waiting = &status["state"]["waiting"];
    let reason = waiting["reason"].as_str()?;
    let ran = status["lastState"]["terminated"].is_object();
    // A container that is about to start may have started since.
    if options.previous || ran || matches!(reason, "ContainerCreating" | "PodInitializing") {
        return None;
    }
    let why = waiting["message"].as_str().map_or_else(String::new, |message| format!(": {message}"));
    Some(ApiError::bad_request(format!(
        "container {:?} in pod {:?} is waiting to start: {reason}{why}",
        options.container,
        object::name(pod)
    )))
}

/// The container that is meant, in Kubernetes' words when that is not clear.
fn pick_container(pod: &Value, wanted: &str) -> Result<String, ApiError> {
    let names = |field: &str| -> Vec<String> {
        pod["spec"][field]
            .as_array()
            .into_iter()
            .flatten()
            .filter_map(|c| c["name"].as_str())
            .map(str::to_owned)
            .collect()
    };
    let (containers, inits) = (names("containers"), names("initContainers"));
    if wanted.is_empty() {
        return match containers.as_slice() {
            [only] => Ok(only.clone()),
            many => {
                let init = if inits.is_empty() {
                    String::new()
                } else {
                    format!(" or one of the init containers: {inits:?}")
                };
                Err(ApiError::bad_request(format!(
                    "a container name must be specified for pod {}, choose one of: {many:?}{init}",
                    object::name(pod)
                )))
            }
        };
    }
    if containers.iter().chain(&inits).any(|n| n == wanted) {
        return Ok(wanted.to_owned());
    }
    Err(ApiError::bad_request(format!("container {wanted} is not valid for pod {}", object::name(pod))))
}

/// The subresource that puts a pod on a node.
pub(super) const BINDING: &str = "binding";

/// Puts a pod on a node, once.
pub(crate) async fn bind(call: &mut Call<'_>, name: &str, binding: Value) -> Result<Response, ApiError> {
    let node = binding["target"]["name"].as_str().unwrap_or_default().to_owned();
    if node.is_empty() {
        return Err(ApiError::bad_request("target.name: Required value: write the name of the node"));
    }
    let asked = Some(Cow::Borrowed(&binding));
    call.check_policies(Act::Create, Some(Other::BINDING), name, asked, None)?;
    let (group, plural) = (call.resource.group.clone(), call.resource.plural.clone());
    let uid = object::meta(&binding, "uid").to_owned();
    write::update(call, name, Part::Main, Ownership::Track, |_, live| {
        let found = object::meta(live, "uid");
        if !uid.is_empty() && uid != found {
            let why = format!("Precondition failed: UID in precondition: {uid}, UID in object meta: {found}");
            return Err(ApiError::conflict(&group, &format!("{plural}/binding"), name, &why));
        }
        if let Some(bound) = live["spec"]["nodeName"].as_str().filter(|n| !n.is_empty()) {
            let why = format!("pod {name} is already assigned to node {bound:?}");
            return Err(ApiError::conflict(&group, &format!("{plural}/binding"), name, &why));
        }
        let mut new = live.clone();
        new["spec"]["nodeName"] = json!(node);
        Ok(new)
    })
    .await?;
    let status =
        json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "code": 201});
    Ok(body::respond(StatusCode::CREATED, &status, call.headers, call.options.pretty))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_container_must_be_clear() {
        let pod = json!({"metadata": {"name": "p"}, "spec": {"containers": [{"name": "a"}, {"name": "b"}],
            "initContainers": [{"name": "i"}]}});
        assert_eq!(pick_container(&pod, "i").unwrap(), "i");
        assert!(pick_container(&pod, "").unwrap_err().message.contains("choose one of"));
        assert!(pick_container(&pod, "x").unwrap_err().message.contains("not valid for pod p"));
    }
}
