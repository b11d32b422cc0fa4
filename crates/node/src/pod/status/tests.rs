use serde_json::json;

use super::*;
use crate::process::Exit;

/// A container that never ran, runs, or ended with a code.
#[derive(Clone, Copy, Debug)]
enum Run {
    Never,
    Now,
    Ended(i32),
}

use Run::{Ended as Code, Never, Now};

fn at(second: i64) -> Timestamp {
    Timestamp::from_second(second).unwrap()
}

fn ended(code: i32) -> Ended {
    let exit = Exit { code, signal: None, reason: "Error".into(), message: None, finished_at: at(20) };
    Ended { id: "id".into(), started_at: at(10), exit }
}

fn pod(policy: &str) -> Pod {
    serde_json::from_value(json!({"metadata": {"name": "p", "generation": 1}, "spec": {"restartPolicy": policy, "containers": []}})).unwrap()
}

fn container(name: &str) -> Container {
    serde_json::from_value(json!({"name": name, "image": "i"})).unwrap()
}

fn view(container: &Container, role: Role, run: Run) -> View<'_> {
    let running = matches!(run, Now);
    View {
        container,
        role,
        run: match run {
            Never => None,
            Now => Some((at(10), None)),
            Code(code) => Some((at(10), Some(ended(code)))),
        },
        last: None,
        waiting: None,
        ready: running,
        started: running,
        restarts: 0,
        id: "id".into(),
    }
}

fn status(pod: &Pod, views: &[View<'_>]) -> PodStatus {
    let inputs = Inputs {
        pod,
        address: "127.0.0.1".parse().unwrap(),
        pod_address: "127.128.0.1".parse().unwrap(),
        start_time: at(1),
        not_runnable: None,
        terminated: false,
        now: at(30),
    };
    build(&inputs, views)
}

fn condition(status: &PodStatus, type_: &str) -> (String, Option<String>) {
    let found =
        status.conditions.as_ref().unwrap().iter().find(|condition| condition.type_ == type_).unwrap();
    (found.status.clone(), found.reason.clone())
}

#[test]
fn phases_follow_containers_and_policy() {
    let c = container("c");
    let d = container("d");
    let cases: [(&str, &[Run], &str); 10] = [
        ("Always", &[Never], "Pending"),
        ("Always", &[Now], "Running"),
        ("Always", &[Code(1)], "Running"),
        ("Always", &[Code(0)], "Running"),
        ("OnFailure", &[Code(1)], "Running"),
        ("OnFailure", &[Code(0)], "Succeeded"),
        ("Never", &[Code(1), Code(0)], "Failed"),
        ("Never", &[Code(0), Code(0)], "Succeeded"),
        ("Never", &[Code(0), Now], "Running"),
        ("Never", &[Code(0), Never], "Pending"),
    ];
    for (policy, runs, expected) in cases {
        let views: Vec<_> =
            runs.iter().zip([&c, &d]).map(|(run, container)| view(container, Role::Main, *run)).collect();
        assert_eq!(status(&pod(policy), &views).phase.as_deref(), Some(expected), "{policy} {runs:?}");
    }
}

#[test]
fn init_containers_hold_the_pod_back() {
    let (i, c) = (container("i"), container("c"));
    let pending = status(&pod("Always"), &[view(&i, Role::Init, Now), view(&c, Role::Main, Never)]);
    assert_eq!(pending.phase.as_deref(), Some("Pending"));
    assert_eq!(condition(&pending, "Initialized"), ("False".into(), Some("ContainersNotInitialized".into())));
    let waiting = pending.container_statuses.unwrap()[0].state.clone().unwrap().waiting.unwrap();
    assert_eq!(waiting.reason.as_deref(), Some("PodInitializing"));
    let failed = status(&pod("Never"), &[view(&i, Role::Init, Code(1)), view(&c, Role::Main, Never)]);
    assert_eq!(failed.phase.as_deref(), Some("Failed"));
    let up = status(&pod("Always"), &[view(&i, Role::Init, Code(0)), view(&c, Role::Main, Now)]);
    assert_eq!(condition(&up, "Ready"), ("True".into(), None));
    assert!(up.init_container_statuses.unwrap()[0].ready);
}

#[test]
fn a_crash_loop_waits_with_its_last_state() {
    let c = container("c");
    let mut crashed = view(&c, Role::Main, Code(3));
    crashed.waiting = Some(Waiting { reason: "CrashLoopBackOff".into(), message: "back-off".into() });
    let status = status(&pod("Always"), &[crashed]);
    let shown = &status.container_statuses.as_ref().unwrap()[0];
    assert_eq!(
        shown.state.as_ref().unwrap().waiting.as_ref().unwrap().reason.as_deref(),
        Some("CrashLoopBackOff")
    );
    assert_eq!(shown.last_state.as_ref().unwrap().terminated.as_ref().unwrap().exit_code, 3);
    assert_eq!(condition(&status, "Ready"), ("False".into(), Some("ContainersNotReady".into())));
}

#[test]
fn readiness_gates_and_foreign_conditions_are_kept() {
    let c = container("c");
    let mut gated = pod("Always");
    gated.spec.as_mut().unwrap().readiness_gates =
        serde_json::from_value(json!([{"conditionType": "x/y"}])).unwrap();
    let views = [view(&c, Role::Main, Now)];
    assert_eq!(
        condition(&status(&gated, &views), "Ready"),
        ("False".into(), Some("ReadinessGatesNotReady".into()))
    );
    gated.status =
        serde_json::from_value(json!({"conditions": [{"type": "x/y", "status": "True"}]})).unwrap();
    let open = status(&gated, &views);
    assert_eq!(condition(&open, "Ready"), ("True".into(), None));
    assert_eq!(condition(&open, "x/y").0, "True");
}

#[test]
fn a_status_does_not_change_by_itself() {
    let c = container("c");
    let mut pod = pod("Always");
    let views = [view(&c, Role::Main, Now)];
    let first = status(&pod, &views);
    pod.status = Some(first.clone());
    let inputs = Inputs {
        pod: &pod,
        address: "127.0.0.1".parse().unwrap(),
        pod_address: "127.128.0.1".parse().unwrap(),
        start_time: at(99),
        not_runnable: None,
        terminated: false,
        now: at(99),
    };
    assert_eq!(build(&inputs, &views), first);
}

#[test]
fn qos_follows_requests_and_limits() {
    let with = |resources: serde_json::Value| -> Pod {
        serde_json::from_value(json!({"spec": {"containers": [{"name": "c", "resources": resources}]}}))
            .unwrap()
    };
    assert_eq!(qos_class(&with(json!({}))), "BestEffort");
    assert_eq!(qos_class(&with(json!({"requests": {"cpu": "1"}}))), "Burstable");
    assert_eq!(qos_class(&with(json!({"limits": {"cpu": "1", "memory": "1Gi"}}))), "Guaranteed");
}
