use causeway_ir::Problem;
use causeway_translate::proxy::references;
use k8s_openapi::{apimachinery::pkg::apis::meta::v1::Condition, jiff::Timestamp};
use serde_json::{Value, json};

use super::*;
use crate::framework::events::Severity;
use crate::grants::Grants;
use crate::vlan::{
    fleet::{DeploymentState, PodState},
    proxy::{Settings, desired::desired, fixture},
};

fn at(second: i64) -> Time {
    Time(Timestamp::from_second(second).unwrap())
}

fn report(fields: &Value) -> ReplicaStatus {
    let mut report = json!({
        "name": "lab-x", "observedGeneration": 2, "runningGeneration": 2, "serving": true, "attached": true,
        "listening": ["192.168.100.4:443"], "readyBackends": 2,
    });
    for (key, value) in fields.as_object().into_iter().flatten() {
        report[key] = value.clone();
    }
    serde_json::from_value(report).unwrap()
}

fn running(reports: Vec<ReplicaStatus>) -> Observed {
    Observed {
        deployments: vec![DeploymentState {
            name: "lab".into(),
            is_available: true,
            ..DeploymentState::default()
        }],
        pods: vec![PodState { name: "lab-x".into(), ..PodState::default() }],
        reports,
        service_ip: Some("127.8.0.1".into()),
        ..Observed::default()
    }
}

fn judge(previous: &ProxyServerStatus, observed: &Observed, problems: &[Problem]) -> ProxyServerStatus {
    let proxy = fixture::proxy(&json!({}));
    let desired = desired(&proxy, &Settings::default(), None, None, &Observed::default());
    let input = Input {
        proxy: &proxy,
        pass: Pass { problems, ..Pass::default() },
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
        (json!({ "attached": false, "listening": [] }), "AttachmentFailed", "192.168.100.4/25"),
        (json!({ "listening": ["192.168.100.9:443"] }), "Progressing", "does not listen on 192.168.100.4/25"),
        (
            json!({ "readyBackends": 0, "backends": [
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
    // What a process refused says nothing of the spec that followed, nor of a process that has ended.
    let mended = fresh(&running(vec![report(&json!({ "refused": "duplicate", "observedGeneration": 1 }))]));
    says(&mended, "Ready", "False", "Progressing");
    says(&mended, "ConfigurationValid", "Unknown", "Progressing");
    let mut ended = running(vec![report(&json!({ "refused": "duplicate" }))]);
    ended.pods[0].trouble = Some("container proxy is in CrashLoopBackOff".into());
    says(&fresh(&ended), "Ready", "False", "PodsFailing");
    let mut observed = running(vec![report(&json!({}))]);
    observed.deployments[0].is_available = false;
    says(&fresh(&observed), "Ready", "False", "PodsStarting");
}

#[test]
fn one_backend_without_endpoints_harms_no_other() {
    let fields = json!({ "readyBackends": 1, "backends": [
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
        let desired = desired(&proxy, &Settings::default(), Some(grants), None, &Observed::default());
        let input = Input {
            proxy: &proxy,
            pass: Pass::default(),
            desired: Some(&desired),
            failures: Vec::new(),
            refusals: references::refusals(&proxy, Some(grants), |_| false),
            observed: &observed,
        };
        next(&ProxyServerStatus::default(), &input, &at(10))
    };
    let fields = json!({ "readyBackends": 1, "backends": [
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
    let granted = judge(&fixture::grants(Some("web")), &json!({}));
    says(&granted, "BackendsResolved", "True", "Resolved");
}

#[test]
fn the_fewest_endpoints_count_and_what_is_not_ready_comes_first() {
    let one =
        report(&json!({ "backends": [{ "name": "api", "readyEndpoints": 1, "message": "one is new" }] }));
    let two = report(&json!({ "name": "lab-y", "readyBackends": 1, "backends": [
        { "name": "web", "readyEndpoints": 0, "message": "its endpoint fails the health check" },
        { "name": "api", "readyEndpoints": 2, "message": "two are new" },
    ] }));
    let seen = Seen::by(&fixture::proxy(&json!({})), &[&one, &two]);
    assert_eq!(seen.ready, Some(1));
    let told: Vec<_> = seen.told.iter().map(|b| (b.name.as_str(), b.ready_endpoints)).collect();
    assert_eq!(told, [("web", 0), ("api", 1)]);
    assert_eq!(seen.told[1].message.as_deref(), Some("one is new"));
}

#[test]
fn a_status_stays_small_whatever_the_number_of_backends() {
    let backends: Vec<_> =
        (0..512).map(|i| fixture::backend(&format!("b{i}"), &format!("b{i}.example.com"), "tools")).collect();
    let proxy = fixture::proxy(&json!({ "backends": backends }));
    // As proxies do, each tells of some only.
    let told: Vec<_> = (0..16)
        .map(|i| json!({ "name": format!("b{i}"), "readyEndpoints": 0, "message": "there is no Service".repeat(10) }))
        .collect();
    let report = report(&json!({ "readyBackends": 0, "backends": told }));
    let observed = running(vec![report]);
    let desired = desired(&proxy, &Settings::default(), None, None, &Observed::default());
    let input = Input {
        proxy: &proxy,
        pass: Pass::default(),
        desired: Some(&desired),
        failures: Vec::new(),
        refusals: Vec::new(),
        observed: &observed,
    };
    let status = next(&ProxyServerStatus::default(), &input, &at(10));
    let message = &condition(&status, "BackendsResolved").message;
    assert!(message.starts_with("512 of 512 backends, among them b0: there is no Service"), "{message}");
    assert_eq!((status.backend_count, status.ready_backends), (Some(512), Some(0)));
    let size = serde_json::to_string(&status).unwrap().len();
    assert!(size < 32 << 10, "{size} bytes");
}

#[test]
fn pods_that_are_about_to_take_an_edit_are_no_news() {
    let before = fresh(&running(vec![report(&json!({}))]));
    let settles = |previous: &ProxyServerStatus, observed: &Observed| {
        let proxy = fixture::proxy(&json!({}));
        let input = Input {
            proxy: &proxy,
            pass: Pass::default(),
            desired: None,
            failures: Vec::new(),
            refusals: Vec::new(),
            observed,
        };
        is_settling(previous, &input)
    };
    let behind = running(vec![report(&json!({ "observedGeneration": 1 }))]);
    assert!(settles(&before, &behind));
    assert!(!settles(&ProxyServerStatus::default(), &behind), "it was not ready before");
    assert!(!settles(&before, &running(vec![report(&json!({}))])), "all have taken it");
    for fields in [
        json!({ "observedGeneration": 1, "serving": false }),
        json!({ "observedGeneration": 1, "trouble": "the port is taken" }),
        json!({ "observedGeneration": 1, "listening": ["192.168.100.9:443"] }),
    ] {
        assert!(!settles(&before, &running(vec![report(&fields)])), "{fields}");
    }
    let mut gone = behind.clone();
    gone.deployments[0].is_available = false;
    assert!(!settles(&before, &gone), "its pod is not ready");
}

#[test]
fn the_pod_that_serves_counts_while_another_takes_its_place() {
    let mut observed = running(vec![
        report(&json!({ "name": "lab-a", "serving": false, "readyBackends": 0, "listening": [] })),
        report(&json!({})),
        report(&json!({ "name": "lab-z", "serving": false, "readyBackends": 0, "listening": [] })),
    ]);
    for name in ["lab-a", "lab-z", "lab-zz"] {
        observed.pods.push(PodState { name: name.into(), ..PodState::default() });
    }
    observed.deployments[0].is_rolling = true;
    observed.pods[1].trouble = Some("container proxy is in ImagePullBackOff".into());
    let status = fresh(&observed);
    says(&status, "Ready", "True", "Ready");
    assert_eq!(
        condition(&status, "Ready").message,
        "1 proxy serving 2 backends; pod lab-a: container proxy is in ImagePullBackOff"
    );
    says(&status, "BackendsResolved", "True", "Resolved");
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
    let desired = desired(&proxy, &Settings::default(), None, None, &Observed::default());
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
            pass: Pass::default(),
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

/// The status for this object, whose only pod reports this, with these refusals.
fn told(proxy: &ProxyServer, fields: &Value, refusals: &[&str]) -> ProxyServerStatus {
    let observed = running(vec![report(fields)]);
    let desired = desired(proxy, &Settings::default(), None, None, &Observed::default());
    let input = Input {
        proxy,
        pass: Pass::default(),
        desired: Some(&desired),
        failures: Vec::new(),
        refusals: refusals.iter().map(|text| (*text).to_owned()).collect(),
        observed: &observed,
    };
    next(&ProxyServerStatus::default(), &input, &at(10))
}

#[test]
fn all_kinds_of_trouble_are_told_and_each_once() {
    let fields = json!({ "readyBackends": 0, "backends": [
        { "name": "api", "readyEndpoints": 0, "message": "there is no Service clusters/api" },
        { "name": "web", "readyEndpoints": 0, "message": "not granted" },
    ] });
    let refusal = "other, web: namespace tools does not let";
    let status = told(&fixture::proxy(&json!({})), &fields, &[refusal]);
    says(&status, "BackendsResolved", "False", "RefNotPermitted");
    assert_eq!(
        condition(&status, "BackendsResolved").message,
        format!("{refusal}; api: there is no Service clusters/api")
    );
}

#[test]
fn a_proxy_may_live_of_routes_alone() {
    let mut proxy = fixture::proxy(&json!({ "backends": [] }));
    let fields = json!({ "readyBackends": 0, "routes": 3, "readyRoutes": 2 });
    let nothing = told(&proxy, &fields, &[]);
    says(&nothing, "Ready", "False", "NoReadyEndpoints");
    assert!(condition(&nothing, "Ready").message.contains("attach a TLSRoute"), "{nothing:?}");

    let supply = Some(causeway_api::SupplyStatus { routes: 3, ..causeway_api::SupplyStatus::default() });
    proxy.status = Some(ProxyServerStatus { supply, ..ProxyServerStatus::default() });
    let status = told(&proxy, &fields, &[]);
    says(&status, "Ready", "True", "Ready");
    assert_eq!(condition(&status, "Ready").message, "1 proxy serving 2 of 3 routes");
    says(&status, "BackendsResolved", "False", "NoReadyEndpoints");
}

#[test]
fn a_proxy_that_neighbours_do_not_reach_is_not_ready() {
    let proxy = fixture::proxy(&json!({}));
    let observed = running(vec![report(&json!({}))]);
    let desired = desired(&proxy, &Settings::default(), None, None, &Observed::default());
    let input = Input {
        proxy: &proxy,
        pass: Pass { unreached: Some("192.168.100.4 is not reached"), ..Pass::default() },
        desired: Some(&desired),
        failures: Vec::new(),
        refusals: Vec::new(),
        observed: &observed,
    };
    let status = next(&ProxyServerStatus::default(), &input, &at(10));
    says(&status, "Ready", "False", "NotReached");
    says(&status, "NetworkAttached", "False", "NotReached");
    assert_eq!(condition(&status, "Ready").message, "192.168.100.4 is not reached");
}
