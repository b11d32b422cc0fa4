use serde_json::json;

use super::*;

/// A pod as strict as the standards want it, with `change` merged into it.
fn pod(change: Value) -> Value {
    let mut spec = json!({
        "securityContext": {"runAsNonRoot": true, "seccompProfile": {"type": "RuntimeDefault"}},
        "volumes": [{"name": "v", "emptyDir": {}}],
        "containers": [{"name": "c", "securityContext": {
            "allowPrivilegeEscalation": false, "capabilities": {"drop": ["ALL"], "add": ["NET_BIND_SERVICE"]},
        }}],
    });
    json_patch::merge(&mut spec, &change);
    spec
}

#[test]
fn a_namespace_without_a_label_is_baseline_and_a_word_that_nobody_knows_is_the_strictest() {
    for (label, level) in [
        (None, Level::Baseline),
        (Some("baseline"), Level::Baseline),
        (Some("privileged"), Level::Privileged),
        (Some("restricted"), Level::Restricted),
        (Some("privilegd"), Level::Restricted),
    ] {
        assert_eq!(Level::of(label), level, "{label:?}");
    }
}

#[test]
fn what_reaches_the_host_is_beyond_baseline() {
    let context = |context: Value| json!({"containers": [{"name": "c", "securityContext": context}]});
    for (change, said) in [
        (json!({"hostNetwork": true}), "hostNetwork=true"),
        (json!({"hostPID": true}), "hostPID=true"),
        (json!({"hostIPC": true}), "hostIPC=true"),
        (
            json!({"volumes": [{"name": "root", "hostPath": {"path": "/"}}]}),
            "hostPath volumes (volume \"root\")",
        ),
        (json!({"securityContext": {"sysctls": [{"name": "kernel.msgmax", "value": "1"}]}}), "kernel.msgmax"),
        (json!({"securityContext": {"seccompProfile": {"type": "Unconfined"}}}), "seccompProfile (pod"),
        (context(json!({"privileged": true})), "privileged=true"),
        (context(json!({"capabilities": {"add": ["SYS_ADMIN"]}})), "must not add \"SYS_ADMIN\""),
        (context(json!({"capabilities": {"add": ["ALL"]}})), "must not add \"ALL\""),
        (context(json!({"procMount": "Unmasked"})), "procMount"),
        (context(json!({"appArmorProfile": {"type": "Unconfined"}})), "appArmorProfile"),
        (context(json!({"seLinuxOptions": {"type": "spc_t"}})), "seLinuxOptions"),
        (
            json!({"containers": [{"name": "c", "ports": [{"containerPort": 1, "hostPort": 80}]}]}),
            "hostPort 80",
        ),
        (
            json!({"initContainers": [{"name": "i", "securityContext": {"privileged": true}}]}),
            "container \"i\"",
        ),
        (
            json!({"containers": [{"name": "c", "readinessProbe": {"httpGet": {"host": "10.0.0.1", "port": 1}}}]}),
            "must not name a host",
        ),
        (
            json!({"containers": [{"name": "c", "lifecycle": {"preStop": {"tcpSocket": {"host": "a", "port": 1}}}}]}),
            "must not name a host",
        ),
    ] {
        let spec = pod(change.clone());
        let found = Level::Baseline.violations(&spec);
        assert!(found.len() == 1 && found[0].contains(said), "{change} is {found:?}");
        assert_eq!(Level::Privileged.violations(&spec), [""; 0], "{change}");
    }
    assert_eq!(Level::Baseline.violations(&json!({"containers": [{"name": "c"}]})), [""; 0]);
}

#[test]
fn restricted_wants_it_said() {
    assert_eq!(Level::Restricted.violations(&pod(json!({}))), [""; 0]);
    for (change, said) in [
        (json!({"securityContext": {"runAsNonRoot": null}}), "runAsNonRoot != true"),
        (json!({"securityContext": {"runAsUser": 0}}), "runAsUser=0"),
        (json!({"securityContext": {"seccompProfile": null}}), "seccompProfile"),
        (json!({"volumes": [{"name": "v", "nfs": {"server": "s", "path": "/"}}]}), "is a nfs"),
    ] {
        let found = Level::Restricted.violations(&pod(change.clone()));
        assert!(found.len() == 1 && found[0].contains(said), "{change} is {found:?}");
    }
    let found = Level::Restricted.violations(&json!({"containers": [{"name": "c"}]}));
    assert_eq!(found.len(), 4, "{found:?}");
}
