use causeway_ir::Problem;
use causeway_translate::proxy::references;
use k8s_openapi::{apimachinery::pkg::apis::meta::v1::Condition, jiff::Timestamp};
use serde_json::{Value, json};

use super::*;
use crate::framework::events::Severity;
use crate::grants::Grants;
use crate::vlan::proxy::{
    Settings,
    desired::desired,
    fixture,
    observe::{DeploymentState, PodState},
};

fn at(second: i64) -> Time {
    Time(Timestamp::from_second(second).unwrap())
}

fn report(fields: &Value) -> ReplicaStatus {
    let mut report = json!({
        "name": "lab-x", "observedGeneration": 2, "serving": true, "attached": true,
        "backends": [
            { "name": "api", "readyEndpoints": 2, "connections": 3 },
            { "name": "web", "readyEndpoints": 1, "connections": 0 },
        ],
    });
    for (key, value) in fields.as_object().into_iter().flatten() {
        report[key] = value.clone();
    }
    serde_json::from_value(report).unwrap()
}

fn running(reports: Vec<ReplicaStatus>) -> Observed {
    Observed {
        deployments: vec![DeploymentState { is_available: true, index: 0 }],
        pods: vec![PodState { name: "lab-x".into(), ..PodState::default() }],
        reports,
        service_ip: Some("127.8.0.1".into()),
    }
}

fn judge(previous: &ProxyServerStatus, observed: &Observed, problems: &[Problem]) -> ProxyServerStatus {
    let proxy = fixture::proxy(&json!({}));
    let desired = desired(&proxy, &Settings::default(), None);
    let input = Input {
        proxy: &proxy,
        problems,
        desired: problems.is_empty().then_some(&desired),
        failures: Vec::new(),
        refusals: Vec::new(),
        observed,
    };
    next(previous, &input, &at(10))
}

fn fresh(observed: &Observed) -> ProxyServerStatus {
    judge(&ProxyServerStatus::default(), observed, &[])
}

fn condition<'a>(status: &'a ProxyServerStatus, kind: &str) -> &'a Condition {
    status.conditions.iter().find(|condition| condition.type_ == kind).unwrap()
}

fn said(status: &ProxyServerStatus, kind: &str) -> (String, String) {
    let condition = condition(status, kind);
    (condition.status.clone(), condition.reason.clone())
}

fn says(status: &ProxyServerStatus, kind: &str, value: &str, reason: &str) {
    assert_eq!(said(status, kind), (value.into(), reason.into()), "{:?}", condition(status, kind));
}

#[test]
fn a_proxy_that_serves_is_ready() {
    let status = fresh(&running(vec![report(&json!({}))]));
    insta::assert_yaml_snapshot!(status);
    let again = judge(&status, &running(vec![report(&json!({}))]), &[]);
    assert_eq!(again, status, "nothing moved");
    let reasons: Vec<_> =
        notes(&ProxyServerStatus::default(), &status).into_iter().map(|note| note.reason).collect();
    assert_eq!(reasons, ["BackendsResolved", "ConfigurationValid", "NetworkAttached", "Ready"]);
}

#[test]
fn while_nobody_reports_it_says_what_it_waits_for() {
    let mut observed = Observed::default();
    says(&fresh(&observed), "Ready", "False", "Progressing");
    observed = running(Vec::new());
    let status = fresh(&observed);
    says(&status, "Ready", "False", "PodsStarting");
    assert_eq!(condition(&status, "Ready").message, "pod lab-x has not reported yet");
    for kind in ["ConfigurationValid", "BackendsResolved", "NetworkAttached"] {
        says(&status, kind, "Unknown", "Progressing");
    }
    assert_eq!(notes(&ProxyServerStatus::default(), &status), [], "waiting is not news");
    observed.pods[0].trouble = Some("container proxy is in CrashLoopBackOff".into());
    says(&fresh(&observed), "Ready", "False", "PodsFailing");
}

#[test]
fn each_thing_that_keeps_traffic_from_passing_has_its_reason() {
    for (fields, reason, text) in [
        (json!({ "observedGeneration": 1 }), "Progressing", "latest change"),
        (json!({ "serving": false }), "Progressing", "does not carry traffic"),
        (json!({ "trouble": "192.168.100.4:443 is taken" }), "NotReady", "is taken"),
        (json!({ "refused": "duplicate matcher" }), "ConfigurationRejected", "duplicate matcher"),
        (json!({ "attached": false }), "AttachmentFailed", "192.168.100.4/25"),
        (
            json!({ "backends": [
                { "name": "api", "readyEndpoints": 0, "message": "there is no Service clusters/api" },
                { "name": "web", "readyEndpoints": 0 },
            ] }),
            "NoReadyEndpoints",
            "no Service clusters/api",
        ),
    ] {
        let status = fresh(&running(vec![report(&fields)]));
        says(&status, "Ready", "False", reason);
        let message = &condition(&status, "Ready").message;
        assert!(message.contains(text), "{message}");
    }
    let refused = fresh(&running(vec![report(&json!({ "refused": "duplicate matcher" }))]));
    says(&refused, "ConfigurationValid", "False", "ConfigurationRejected");
    let mut observed = running(vec![report(&json!({}))]);
    observed.deployments[0].is_available = false;
    says(&fresh(&observed), "Ready", "False", "PodsStarting");
}

#[test]
fn one_backend_without_endpoints_harms_no_other() {
    let fields = json!({ "backends": [
        { "name": "api", "readyEndpoints": 2, "connections": 3 },
        { "name": "web", "readyEndpoints": 0, "message": "there is no Service tools/web" },
    ] });
    let status = fresh(&running(vec![report(&fields)]));
    says(&status, "Ready", "True", "Ready");
    says(&status, "BackendsResolved", "False", "NoReadyEndpoints");
    assert_eq!(condition(&status, "BackendsResolved").message, "web: there is no Service tools/web");
    assert_eq!(condition(&status, "Ready").message, "1 proxy serving 1 of 2 backends");
}

#[test]
fn a_backend_that_is_not_granted_is_told_and_harms_no_other() {
    let proxy = fixture::proxy(&json!({}));
    let judge = |grants: &Grants, fields: &Value| {
        let observed = running(vec![report(fields)]);
        let desired = desired(&proxy, &Settings::default(), Some(grants));
        let input = Input {
            proxy: &proxy,
            problems: &[],
            desired: Some(&desired),
            failures: Vec::new(),
            refusals: references::refusals(&proxy, Some(grants)),
            observed: &observed,
        };
        next(&ProxyServerStatus::default(), &input, &at(10))
    };
    let fields = json!({ "backends": [
        { "name": "api", "readyEndpoints": 2, "connections": 3 },
        { "name": "web", "readyEndpoints": 0, "message": "namespace tools does not let" },
    ] });
    let status = judge(&Grants::default(), &fields);
    says(&status, "BackendsResolved", "False", "RefNotPermitted");
    let message = &condition(&status, "BackendsResolved").message;
    for part in ["web: ", "create a ReferenceGrant in tools", "ProxyServer, namespace clusters"] {
        assert!(message.contains(part), "lacks {part}: {message}");
    }
    says(&status, "Ready", "True", "Ready");
    assert_eq!(condition(&status, "Ready").message, "1 proxy serving 1 of 2 backends");
    let granted = judge(&fixture::grants("web"), &json!({}));
    says(&granted, "BackendsResolved", "True", "Resolved");
}

#[test]
fn connections_add_up_and_the_fewest_endpoints_count() {
    let one = report(&json!({}));
    let two = report(&json!({ "name": "lab-y", "backends": [
        { "name": "api", "readyEndpoints": 1, "connections": 4, "message": "one is new" },
    ] }));
    let merged = backends(&fixture::proxy(&json!({})), &[one, two]);
    assert_eq!((merged[0].ready_endpoints, merged[0].connections), (1, Some(7)));
    assert_eq!(merged[0].message.as_deref(), Some("one is new"));
    assert_eq!((merged[1].ready_endpoints, merged[1].connections), (1, Some(0)));
}

#[test]
fn problems_are_told_and_what_runs_is_still_described() {
    let before = fresh(&running(vec![report(&json!({}))]));
    let problems = [Problem { path: "spec.backends[1].hostname".into(), message: "is taken by api".into() }];
    let after = judge(&before, &running(vec![report(&json!({}))]), &problems);
    for kind in ["Ready", "ConfigurationValid"] {
        says(&after, kind, "False", "InvalidSpec");
        assert_eq!(condition(&after, kind).message, "spec.backends[1].hostname: is taken by api");
    }
    assert_eq!(after.deployment_name, before.deployment_name);
    assert_eq!(after.config_map_name, before.config_map_name);
    let notes = notes(&before, &after);
    assert_eq!(notes.len(), 1, "the same text once: {notes:?}");
    assert_eq!((notes[0].reason.as_str(), notes[0].severity), ("InvalidSpec", Severity::Warning));
}

#[test]
fn a_pod_that_leaves_is_not_counted_on() {
    let mut observed = running(vec![report(&json!({}))]);
    observed.pods[0].is_leaving = true;
    let status = fresh(&observed);
    says(&status, "Ready", "False", "PodsStarting");
    let before = fresh(&running(vec![report(&json!({}))]));
    let fallen = judge(&before, &observed, &[]);
    let reasons: Vec<_> = notes(&before, &fallen).into_iter().map(|note| note.reason).collect();
    assert_eq!(reasons, ["NotReady"]);
}

#[test]
fn the_proxies_own_reports_are_not_ours_to_write() {
    let status = ProxyServerStatus { replicas: vec![report(&json!({}))], ..ProxyServerStatus::default() };
    assert_eq!(status.own_part(), ProxyServerStatus::default());
}

#[test]
fn a_failure_elsewhere_concerns_the_backends_and_not_the_proxy() {
    let proxy = fixture::proxy(&json!({}));
    let desired = desired(&proxy, &Settings::default(), None);
    let failure = |name: &str| Error::Apply {
        kind: "Role",
        name: name.into(),
        source: kube::Error::Api(kube::core::Status::failure("no such namespace", "NotFound").boxed()),
    };
    let observed = running(vec![report(&json!({}))]);
    for (name, ready, resolved) in [
        ("tools/clusters.lab-proxy", ("True", "Ready"), ("False", "ComponentFailed")),
        ("clusters/lab-proxy", ("False", "ComponentFailed"), ("True", "Resolved")),
    ] {
        let error = failure(name);
        let input = Input {
            proxy: &proxy,
            problems: &[],
            desired: Some(&desired),
            failures: vec![&error],
            refusals: Vec::new(),
            observed: &observed,
        };
        let status = next(&ProxyServerStatus::default(), &input, &at(10));
        says(&status, "Ready", ready.0, ready.1);
        says(&status, "BackendsResolved", resolved.0, resolved.1);
    }
}
