//! The pods that the operator makes: what a cluster refuses of them, what they are given, and what they show.

use causeway_testkit::blocking::eventually;
use causeway_testkit::deploy;
use causeway_testkit::kubectl::finish;
use serde_json::{Value, json};

use crate::replicas::{FIRST, HOST, apply, condition, patch, pods, until};
use crate::world::{PATIENCE, World};

#[test]
fn what_a_cluster_refuses_is_told_and_a_pod_template_satisfies_it() {
    let Some(world) = World::new("refusals") else { return };
    world.server("shop");
    let quota = json!({
        "apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "cpu"},
        "spec": {"hard": {"limits.cpu": "2"}},
    });
    world.kubectl.apply(&quota.to_string()).ok();
    apply(&world, &json!({ "replicas": 1 }));
    until(&world, "Ready", "False", "PodsRefused", "limits.cpu");

    let template = json!({
        "labels": {"team": "net"}, "annotations": {"example.com/note": "x"},
        "resources": {"limits": {"cpu": "500m"}},
        "nodeSelector": {"kubernetes.io/hostname": "node-1"},
        "tolerations": [{"key": "edge", "operator": "Exists"}],
        "priorityClassName": "system-cluster-critical",
        "topologySpreadConstraints": [{
            "maxSkew": 1, "topologyKey": "kubernetes.io/hostname", "whenUnsatisfiable": "ScheduleAnyway",
            "labelSelector": {"matchLabels": {"team": "net"}},
        }],
    });
    patch(&world, &json!({ "podTemplate": template }));
    world.wait("proxyserver/edge", "Ready");
    let list = world.kubectl.ok(&["get", "pods", "-l", "team=net", "-o", "json"]);
    let list: Value = serde_json::from_str(&list).unwrap();
    let pod = &list["items"][0];
    assert_eq!(
        pod["spec"]["containers"][0]["resources"]["limits"],
        json!({"cpu": "500m", "memory": "512Mi"})
    );
    assert_eq!(pod["spec"]["nodeSelector"], template["nodeSelector"]);
    assert_eq!(pod["spec"]["priorityClassName"], "system-cluster-critical");
    assert_eq!(pod["metadata"]["annotations"]["example.com/note"], "x");
    assert!(pod["spec"]["tolerations"].to_string().contains("edge"), "{}", pod["spec"]["tolerations"]);

    // Whoever may write a ProxyServer chooses no networks by it.
    let networks = json!({ "podTemplate": {"annotations": {"k8s.v1.cni.cncf.io/networks": "other/vlan"}} });
    patch(&world, &networks);
    until(&world, "Ready", "False", "InvalidSpec", "spec.podTemplate.annotations");
}

#[test]
fn a_network_that_is_not_there_is_told() {
    let Some(world) = World::new("no-network") else { return };
    world.server("shop");
    let network = json!({"serverIP": "192.168.100.4/24", "networkAttachmentName": "nowhere"});
    apply(&world, &json!({ "replicas": 1, "networkConfig": network }));
    let message = until(&world, "Ready", "False", "PodsFailing", "nowhere");
    assert!(message.contains("FailedCreatePodSandBox"), "{message}");
}

#[test]
fn a_proxy_whose_account_was_made_again_tells_the_truth_and_metrics_are_on_the_pod_network() {
    let Some(world) = World::new("accounts") else { return };
    world.server("shop");
    apply(&world, &json!({ "replicas": 1 }));
    world.wait("proxyserver/edge", "Ready");
    let [(pod, _)] = &pods(&world)[..] else { panic!("one pod") };
    world.ask(HOST, FIRST).unwrap();

    let raw = format!("/api/v1/namespaces/{}/pods/{pod}:8080/proxy/metrics", world.kubectl.namespace);
    let metrics = world.kubectl.ok(&["get", "--raw", &raw]);
    assert!(metrics.contains("causeway_"), "{metrics}");
    let annotations = world.kubectl.value(&format!("pod/{pod}"), ".metadata.annotations");
    assert!(annotations.contains(r#""prometheus.io/port":"8080""#), "{annotations}");
    let mut curl = world.vm.command("curl");
    curl.args(["--silent", "--max-time", "2", &format!("http://{FIRST}:8080/metrics")]);
    assert_ne!(finish(&mut curl).code, Some(0), "nothing but traffic on the VLAN");

    world.kubectl.ok(&["delete", "serviceaccount/edge-proxy"]);
    eventually("the pod is one with the new account", PATIENCE, || {
        let now = pods(&world);
        if now.len() == 1 && now[0].0 != *pod { Ok(()) } else { Err(format!("{now:?}")) }
    });
    patch(&world, &json!({ "connectionLimit": 1000 }));
    until(&world, "Ready", "True", "Ready", "");
    assert_eq!(condition(&world, "UpToDate").0, "True");
    eventually("it is reached again", PATIENCE, || world.ask(HOST, FIRST));
}

/// The rights that `deploy/operator-openshift.yaml` has besides, as a cluster judges them.
#[test]
fn on_openshift_the_operator_gives_its_pods_one_role_and_no_other() {
    let Some(world) = World::new("openshift") else { return };
    let bind = |role: &str| {
        let operator = "--as=system:serviceaccount:causeway-system:causeway-operator";
        let role = format!("--clusterrole={role}");
        world.kubectl.run(&[
            "create",
            "rolebinding",
            "scc",
            &role,
            "--serviceaccount=openshift:lab-dhcp",
            operator,
        ])
    };
    let (constraints, others) = ("system:openshift:scc:nonroot-v2", ["admin", "system:openshift:scc:anyuid"]);
    for name in [constraints, others[1]] {
        let role = json!({
            "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": {"name": name},
            "rules": [{
                "apiGroups": ["security.openshift.io"], "resources": ["securitycontextconstraints"], "verbs": ["use"],
            }],
        });
        world.kubectl.apply(&role.to_string()).ok();
    }
    assert!(bind(constraints).fails().contains("forbidden"));
    let manifest = deploy("operator-openshift.yaml");
    let part = "app.kubernetes.io/component=openshift";
    world.kubectl.ok(&["apply", "-f", manifest.to_str().unwrap(), "--selector", part]);
    eventually("the right is known", PATIENCE, || {
        let ran = bind(constraints);
        if ran.code == Some(0) { Ok(()) } else { Err(ran.stderr) }
    });
    world.kubectl.ok(&["delete", "rolebinding", "scc"]);
    for other in others {
        assert!(bind(other).fails().contains("forbidden"), "{other}");
    }
}
