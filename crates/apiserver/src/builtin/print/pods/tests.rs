use serde_json::{Value, json};

use super::pod;

fn row(pod_value: Value) -> (String, String, String) {
    let now = "2026-01-01T01:00:00Z".parse().unwrap();
    let cells = pod(&pod_value, now);
    let cell = |i: usize| cells[i].as_str().unwrap().to_owned();
    (cell(1), cell(2), cell(3))
}

#[test]
fn sums_up_containers_in_one_word() {
    let one = json!({"containers": [{"name": "a"}]});
    let two = json!({"containers": [{"name": "a"}, {"name": "b"}]});
    let init = json!({"containers": [{"name": "a"}], "initContainers": [{"name": "i"}, {"name": "j"}]});
    let sidecar = json!({"containers": [{"name": "a"}],
        "initContainers": [{"name": "s", "restartPolicy": "Always"}]});
    let running = json!({"name": "a", "ready": true, "state": {"running": {}}});
    let done = json!({"name": "b", "state": {"terminated": {"exitCode": 0, "reason": "Completed"}}});
    let ready = json!([{"type": "Ready", "status": "True"}]);
    let cases = [
        (&one, json!({"phase": "Pending"}), "0/1", "Pending", "0"),
        (&one, json!({"phase": "Failed", "reason": "Evicted"}), "0/1", "Evicted", "0"),
        (
            &one,
            json!({"phase": "Pending", "conditions": [{"type": "PodScheduled", "reason": "SchedulingGated"}]}),
            "0/1",
            "SchedulingGated",
            "0",
        ),
        (&one, json!({"phase": "Running", "containerStatuses": [running]}), "1/1", "Running", "0"),
        (
            &one,
            json!({"phase": "Running", "containerStatuses": [{"name": "a", "restartCount": 3,
            "state": {"waiting": {"reason": "CrashLoopBackOff"}},
            "lastState": {"terminated": {"finishedAt": "2026-01-01T00:55:00Z"}}}]}),
            "0/1",
            "CrashLoopBackOff",
            "3 (5m ago)",
        ),
        (&one, json!({"phase": "Succeeded", "containerStatuses": [done]}), "0/1", "Completed", "0"),
        (
            &one,
            json!({"phase": "Failed", "containerStatuses": [{"state": {"terminated": {"exitCode": 7}}}]}),
            "0/1",
            "ExitCode:7",
            "0",
        ),
        (
            &one,
            json!({"phase": "Failed", "containerStatuses": [{"state": {"terminated": {"exitCode": 137, "signal": 9}}}]}),
            "0/1",
            "Signal:9",
            "0",
        ),
        (
            &two,
            json!({"phase": "Running", "containerStatuses": [done, running], "conditions": ready}),
            "1/2",
            "Running",
            "0",
        ),
        (&two, json!({"phase": "Running", "containerStatuses": [done, running]}), "1/2", "NotReady", "0"),
        (
            &init,
            json!({"phase": "Pending", "initContainerStatuses": [
            {"name": "i", "state": {"terminated": {"exitCode": 0}}}, {"name": "j", "state": {"running": {}}}]}),
            "0/1",
            "Init:1/2",
            "0",
        ),
        (
            &init,
            json!({"phase": "Pending", "initContainerStatuses": [
            {"name": "i", "restartCount": 2, "state": {"waiting": {"reason": "CrashLoopBackOff"}}}]}),
            "0/1",
            "Init:CrashLoopBackOff",
            "2",
        ),
        (
            &init,
            json!({"phase": "Failed", "initContainerStatuses": [
            {"name": "i", "state": {"terminated": {"exitCode": 1, "reason": "Error"}}}]}),
            "0/1",
            "Init:Error",
            "0",
        ),
        (
            &sidecar,
            json!({"phase": "Running", "initContainerStatuses": [
            {"name": "s", "started": true, "ready": true, "state": {"running": {}}}],
            "containerStatuses": [running]}),
            "2/2",
            "Running",
            "0",
        ),
    ];
    for (spec, status, ready, word, restarts) in cases {
        let got = row(json!({"spec": spec, "status": status}));
        assert_eq!(got, (ready.to_owned(), word.to_owned(), restarts.to_owned()), "{status}");
    }
}

#[test]
fn a_deleted_pod_is_terminating_until_it_has_ended() {
    for (phase, reason, word) in
        [("Running", "", "Terminating"), ("Succeeded", "", "Succeeded"), ("Running", "NodeLost", "Unknown")]
    {
        let pod = json!({"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"},
            "status": {"phase": phase, "reason": reason}});
        assert_eq!(row(pod).1, word, "{phase} {reason}");
    }
}
