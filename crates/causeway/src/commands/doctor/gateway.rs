//! A Gateway: its class, its listeners and their certificates, the routes that name it, the pods that run its plan, its
//! backends, and last connections to its address.

mod certificates;
mod reach;

use causeway_api::GatewayReplica;
use causeway_ir::Plan;
use causeway_translate::gateway::CONTROLLER_NAME;
use causeway_translate::gateway::kinds::ObjectRef;
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::api::ListParams;
use kube::{Api, Client, ResourceExt};
use serde_json::Value;

use super::Examination;
use super::conditions::conditions;
use super::finding::{Finding, listed};
use super::proxy::waiting;
use crate::parts::gateway::{Attached, Given, Reader, given};

/// Lines of one kind before the rest is counted: a Gateway may have thousands of routes.
const MOST: usize = 8;
/// Where the operator says what it does.
const OPERATOR: &str = "see whether the operator runs, and what it logs: `kubectl -n causeway-system logs deployment/causeway-operator`, or the \
     output of `causeway up`";

pub(super) async fn examine(examination: &Examination<'_>, name: &str) -> anyhow::Result<Vec<Finding>> {
    let client = &examination.client;
    let at = ObjectRef::new(examination.object.namespace.clone(), name);
    let reader = Reader::new(client).await?;
    let Some(gateway) = reader.gateway(&at).await? else {
        let cure = "create it, or say its namespace with -n; `kubectl get gateways -A` lists them";
        return Ok(vec![Finding::bad(format!("there is no Gateway {at}"), cure)]);
    };
    let (class, is_ours) = class(&reader, &gateway.spec.gateway_class_name).await?;
    let mut found = vec![class];
    if !is_ours {
        return Ok(found);
    }
    found.extend(listeners(&gateway.status));
    found.extend(certificates::examine(client, &gateway).await);
    let (attached, unread) = reader.routes(&at).await;
    found.extend(unread.into_iter().map(Finding::unchecked));
    found.extend(routes(&attached));
    match given(client, &at).await? {
        None => found.push(Finding::bad("the operator has made no plan for it", OPERATOR)),
        Some(given) => {
            let pods = pods(client, &at.namespace, &given).await;
            let runs = pods.iter().all(|finding| !finding.is_bad());
            found.extend(pods);
            found.extend(backends(&given.plan));
            if examination.probes && runs {
                found.extend(reach::examine(client, &gateway, &given).await);
            }
        }
    }
    let said = read_conditions(&gateway.status["conditions"]);
    let observed = said.iter().filter_map(|condition| condition.observed_generation).min();
    found.extend(conditions(&said, observed, Some(gateway.meta.generation), &found));
    Ok(found)
}

fn read_conditions(written: &Value) -> Vec<Condition> {
    serde_json::from_value(written.clone()).unwrap_or_default()
}

/// What is to say of its class, and whether it is one of ours.
async fn class(reader: &Reader, name: &str) -> anyhow::Result<(Finding, bool)> {
    let Some(class) = reader.get("GatewayClass", &ObjectRef::new("", name)).await? else {
        let cure =
            "write a class that there is into spec.gatewayClassName: `kubectl get gatewayclasses` lists them";
        return Ok((Finding::bad(format!("there is no GatewayClass {name}"), cure), false));
    };
    let controller = class.data["spec"]["controllerName"].as_str().unwrap_or_default();
    if controller != CONTROLLER_NAME {
        let what = format!("its class {name} is that of another controller, {controller}");
        let cure = "write causeway into spec.gatewayClassName, or ask who runs that controller";
        return Ok((Finding::bad(what, cure), false));
    }
    let said = read_conditions(&class.data["status"]["conditions"]);
    let finding = match said.iter().find(|condition| condition.type_ == "Accepted") {
        Some(condition) if condition.status == "True" => Finding::good(format!("class {name} is accepted")),
        Some(condition) => Finding::bad(format!("class {name} is not accepted"), condition.message.clone()),
        None => Finding::bad(format!("no operator has looked at class {name} yet"), OPERATOR),
    };
    Ok((finding, true))
}

/// A line for each listener that is not programmed, with the cause of it, and one for all others.
fn listeners(status: &Value) -> Vec<Finding> {
    let (mut found, mut well) = (Vec::new(), Vec::new());
    for listener in status["listeners"].as_array().into_iter().flatten() {
        let name = listener["name"].as_str().unwrap_or_default();
        let said = read_conditions(&listener["conditions"]);
        let fault = [
            ("Conflicted", "True"),
            ("Accepted", "False"),
            ("ResolvedRefs", "False"),
            ("Programmed", "False"),
        ]
        .iter()
        .find_map(|(kind, bad)| said.iter().find(|one| one.type_ == *kind && one.status == *bad));
        match fault {
            Some(fault) => {
                found.push(Finding::bad(format!("listener {name}: {}", fault.reason), fault.message.clone()));
            }
            None => well.push(name.to_owned()),
        }
    }
    if !well.is_empty() {
        found.push(Finding::good(format!("listeners that are programmed: {}", listed(&well))));
    }
    found
}

fn routes(attached: &[Attached]) -> Vec<Finding> {
    let faults = attached.iter().flat_map(|route| {
        let unseen =
            route.conditions.is_empty().then(|| (format!("{} was not looked at yet", route.route), OPERATOR));
        let faults = route.faults().map(|(reason, message)| (format!("{}: {reason}", route.route), message));
        unseen.into_iter().chain(faults)
    });
    let faults: Vec<Finding> = faults.map(|(what, cure)| Finding::bad(what, cure)).collect();
    let well =
        attached.iter().filter(|route| !route.conditions.is_empty() && route.faults().next().is_none());
    let well = well.count();
    let mut found = few(faults, "routes", "`causeway routes gateway/NAME` lists them all");
    if attached.is_empty() {
        found.push(Finding::skipped("no route names it: every request is answered with 404"));
    } else if well > 0 {
        found.push(Finding::good(format!("routes that are served as they are written: {well}")));
    }
    found
}

/// The first of many, and how many more there are.
fn few(mut all: Vec<Finding>, of: &str, cure: &str) -> Vec<Finding> {
    if all.len() > MOST {
        let more = all.len() - MOST;
        all.truncate(MOST);
        all.push(Finding::bad(format!("{more} more such lines of {of}"), cure));
    }
    all
}

/// Its Deployment, and what its pods say of the newest plan.
async fn pods(client: &Client, namespace: &str, given: &Given) -> Vec<Finding> {
    let name = given.object.name_any();
    let logs = format!("look at its log: kubectl -n {namespace} logs deployment/{name}");
    let mut found = Vec::new();
    match Api::<Deployment>::namespaced(client.clone(), namespace).get_opt(&name).await {
        Ok(Some(deployment)) => {
            let wanted = deployment.spec.as_ref().and_then(|spec| spec.replicas).unwrap_or(1);
            let ready = deployment.status.as_ref().and_then(|status| status.ready_replicas).unwrap_or(0);
            let said = format!("Deployment {name} has {ready} of {wanted} pods ready");
            found.push(if ready >= wanted && wanted > 0 {
                Finding::good(said)
            } else {
                Finding::bad(said, format!("kubectl -n {namespace} describe deployment/{name} says why"))
            });
        }
        Ok(None) => found.push(Finding::bad(format!("its Deployment {name} is gone"), OPERATOR)),
        Err(_) => found.push(Finding::unchecked("you may not read its Deployment")),
    }
    let labels = causeway_api::names::LABEL_OWNER_NAME;
    let its = ListParams::default().labels(&format!("{labels}={name}"));
    let pods = Api::<Pod>::namespaced(client.clone(), namespace).list(&its).await;
    found.extend(pods.into_iter().flatten().flat_map(|pod| waiting(&pod).collect::<Vec<_>>()));
    let replicas = given.object.status.as_ref().map_or(&[][..], |status| &status.replicas);
    if replicas.is_empty() {
        found.push(Finding::bad("no pod has said yet what it runs", logs.clone()));
    }
    found
        .extend(replicas.iter().flat_map(|replica| of_pod(replica, given.object.metadata.generation, &logs)));
    found
}

fn of_pod(replica: &GatewayReplica, newest: Option<i64>, logs: &str) -> Vec<Finding> {
    let pod = &replica.name;
    let mut found = Vec::new();
    let words = [(&replica.refused, "stays with an earlier plan"), (&replica.trouble, "is in trouble")];
    for (why, what) in words {
        found.extend(why.iter().map(|why| Finding::bad(format!("pod {pod} {what}"), why.clone())));
    }
    if found.is_empty() && replica.running_generation < newest {
        let cure = format!("it can't reach the API server, or has just been told; {logs}");
        found.push(Finding::bad(format!("pod {pod} does not run the newest plan"), cure));
    }
    if found.is_empty() && replica.serving {
        let listening = replica.listening.join(", ");
        found.push(Finding::good(format!("pod {pod} runs the newest plan, on {listening}")));
    }
    found
}

/// Those that a route names and that can't be used are told by the route.
fn backends(plan: &Plan) -> Vec<Finding> {
    let valid = plan.clusters.iter().filter(|cluster| !cluster.name.ends_with(" invalid"));
    let (well, ill): (Vec<_>, Vec<_>) =
        valid.partition(|cluster| cluster.endpoints.iter().any(|endpoint| endpoint.ready));
    let bad = ill.iter().map(|cluster| {
        let (at, service) = (cluster.name.split(':').next().unwrap_or_default(), "kubernetes.io/service-name");
        let (namespace, name) = at.split_once('/').unwrap_or_default();
        let cure = format!(
            "requests are answered with 503: see whether its pods are ready, kubectl -n {namespace} get endpointslices -l \
             {service}={name}"
        );
        Finding::bad(format!("backend {} has no ready endpoint", cluster.name), cure)
    });
    let mut found = few(bad.collect(), "backends", "`causeway routes gateway/NAME` lists them all");
    if !well.is_empty() {
        found.push(Finding::good(format!("backends with ready endpoints: {}", well.len())));
    }
    found
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn of_a_listener_the_cause_is_told_once() {
        let condition = |kind: &str, status: &str| {
            json!({"type": kind, "status": status, "reason": format!("{kind}Reason"), "message": "why",
                "lastTransitionTime": "2026-01-01T00:00:00Z"})
        };
        let status = json!({"listeners": [
            {"name": "http", "conditions": [condition("Accepted", "True"), condition("Programmed", "True")]},
            {"name": "https", "conditions": [condition("Programmed", "False"), condition("ResolvedRefs", "False")]},
        ]});
        assert_eq!(
            listeners(&status),
            [
                Finding::bad("listener https: ResolvedRefsReason", "why"),
                Finding::good("listeners that are programmed: http")
            ]
        );
    }

    #[test]
    fn a_pod_behind_or_in_trouble_is_told_with_what_it_says() {
        let pod = |running, trouble: Option<&str>| GatewayReplica {
            name: "p".to_owned(),
            running_generation: running,
            serving: trouble.is_none(),
            trouble: trouble.map(ToOwned::to_owned),
            ..GatewayReplica::default()
        };
        let said = |pod: &GatewayReplica| of_pod(pod, Some(3), "look");
        assert!(!said(&pod(Some(3), None))[0].is_bad());
        assert!(format!("{:?}", said(&pod(Some(2), None))).contains("does not run the newest plan"));
        assert_eq!(said(&pod(Some(2), Some("taken"))), [Finding::bad("pod p is in trouble", "taken")]);
    }
}
