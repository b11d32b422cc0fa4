//! `pods/portforward`: who may, which pod, and the connection that is taken over for it.

use std::borrow::Cow;
use std::sync::Arc;

use axum::body::Body;
use axum::response::Response;
use http::StatusCode;
use hyper::upgrade::OnUpgrade;
use hyper_util::rt::TokioIo;
use serde_json::{Value, json};

use super::{Call, read};
use crate::access::Attributes;
use crate::admission::policies::{Act, Other};
use crate::error::{ApiError, Reason};
use crate::object;
use crate::port_forward::{PodPorts, PodTarget, Session, negotiate};
use crate::serve::Hold;

pub(crate) const PORT_FORWARD: &str = "portforward";

/// Answers with the change to the other protocol, and speaks it beside what answers requests.
pub(super) fn port_forward(call: &mut Call<'_>, name: &str) -> Result<Response, ApiError> {
    // A WebSocket begins with GET, but whoever forwards ports does more than read.
    call.server.access.authorize(
        call.user,
        &Attributes {
            verb: "create",
            group: &call.target.group,
            resource: &call.target.plural,
            subresource: PORT_FORWARD,
            namespace: call.namespace.as_deref().unwrap_or_default(),
            name,
            path: None,
        },
    )?;
    let asked = json!({"kind": "PodPortForwardOptions", "apiVersion": "v1"});
    let asked = Some(Cow::Owned(asked));
    call.check_policies(Act::Connect, Some(Other::PORT_FORWARD), name, asked, None)?;
    let pod = read::view(call.resource, &*read::require(call, &call.key(name))?);
    let ports = reach(call, &pod)?;
    let asked = call.options.others.iter().filter(|(key, _)| key == "ports" || key == "port");
    let (form, headers) = negotiate(call.headers, asked.map(|(_, value)| value.as_str()))?;
    // HTTP/2 has no upgrades, and callers inside this process no connection.
    let Some(upgrade) = call.extensions.get::<OnUpgrade>().cloned() else {
        return Err(ApiError::bad_request("Upgrade request required"));
    };
    is_running(&pod)?;
    let Some(place) = call.server.places.session(&call.user.name) else {
        let message = "too many clients, or too many of this user, forward ports at the moment; try again when one has left";
        return Err(ApiError::new(429, Reason::TooManyRequests, message));
    };
    let hold = call.extensions.get::<Hold>().cloned();
    let session = Session {
        pod: target(&pod),
        ports,
        places: call.server.places.clone(),
        shutdown: call.server.shutdown.clone(),
    };
    call.server.spawn(async move {
        match upgrade.await {
            Ok(io) => session.run(TokioIo::new(io), form).await,
            Err(error) => {
                tracing::debug!(
                    error = &error as &dyn std::error::Error,
                    "a client left before it could forward ports"
                );
            }
        }
        drop((hold, place));
    });
    let mut response = Response::new(Body::empty());
    *response.status_mut() = StatusCode::SWITCHING_PROTOCOLS;
    response.headers_mut().extend(headers);
    Ok(response)
}

/// Who reaches the pod.
fn reach(call: &Call<'_>, pod: &Value) -> Result<Arc<dyn PodPorts>, ApiError> {
    if pod["spec"]["nodeName"].as_str().is_none_or(str::is_empty) {
        let message = format!("pod {} does not have a host assigned", object::name(pod));
        return Err(ApiError::bad_request(message));
    }
    call.server.pod_ports().cloned().ok_or_else(|| {
        let message = "no node runs beside this server, so there are no pods to reach";
        ApiError::new(503, Reason::ServiceUnavailable, message)
    })
}

fn is_running(pod: &Value) -> Result<(), ApiError> {
    match pod["status"]["phase"].as_str().unwrap_or_default() {
        "Running" => Ok(()),
        phase => Err(ApiError::bad_request(format!(
            "unable to forward port because pod {} is not running: its phase is {phase}",
            object::name(pod)
        ))),
    }
}

fn target(pod: &Value) -> PodTarget {
    PodTarget {
        namespace: object::namespace(pod).to_owned(),
        name: object::name(pod).to_owned(),
        uid: object::meta(pod, "uid").to_owned(),
        host_network: pod["spec"]["hostNetwork"] == true,
    }
}
