//! The manifests for OpenShift on a cluster that knows OpenShift's kinds: Security Context Constraints, and kinds whose names are
//! like ours. Nothing here carries out the constraints, which only OpenShift does.

use causeway_testkit::blocking::eventually;
use causeway_testkit::deploy;
use serde_json::{Value, json};

use crate::bed::{Bed, IMAGE, NAMESPACE, PATIENCE, proxy_server};

const OPERATOR: &str = "deployment/causeway-operator";

/// A kind of OpenShift, by its names alone.
fn definition(group: &str, kind: &str, plural: &str, short: &[&str]) -> Value {
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": format!("{plural}.{group}")},
        "spec": {
            "group": group, "scope": "Cluster",
            "names": {"kind": kind, "plural": plural, "singular": kind.to_lowercase(), "shortNames": short},
            "versions": [{
                "name": "v1", "served": true, "storage": true,
                "schema": {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}},
            }],
        },
    })
}

#[test]
fn the_manifests_for_openshift_are_applied_beside_its_kinds() {
    let Some(bed) = Bed::new() else { return };
    let admin = &bed.kubectl;
    let kinds = [
        definition(
            "security.openshift.io",
            "SecurityContextConstraints",
            "securitycontextconstraints",
            &["scc"],
        ),
        definition("config.openshift.io", "Proxy", "proxies", &[]),
        definition("config.openshift.io", "DNS", "dnses", &[]),
        definition("config.openshift.io", "Infrastructure", "infrastructures", &[]),
    ];
    let names: Vec<String> =
        kinds.iter().map(|one| format!("crd/{}", one["metadata"]["name"].as_str().unwrap())).collect();
    for kind in &kinds {
        admin.apply(&kind.to_string()).ok();
    }
    for name in &names {
        admin.ok(&["wait", name, "--for=condition=Established", "--timeout=30s"]);
    }
    let constraints = "system:openshift:scc:nonroot-v2";
    for object in [
        json!({
            "apiVersion": "security.openshift.io/v1", "kind": "SecurityContextConstraints",
            "metadata": {"name": "nonroot-v2"}, "allowPrivilegedContainer": false,
            "runAsUser": {"type": "MustRunAsNonRoot"}, "seccompProfiles": ["runtime/default"],
        }),
        json!({
            "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": {"name": constraints},
            "rules": [{
                "apiGroups": ["security.openshift.io"], "resources": ["securitycontextconstraints"],
                "resourceNames": ["nonroot-v2"], "verbs": ["use"],
            }],
        }),
        json!({"apiVersion": "config.openshift.io/v1", "kind": "Proxy", "metadata": {"name": "cluster"}, "spec": {}}),
    ] {
        admin.apply(&object.to_string()).ok();
    }

    admin.ok(&["apply", "--server-side", "-f", deploy("crds").to_str().unwrap()]);
    admin.ok(&["apply", "--server-side", "-f", deploy("operator-openshift.yaml").to_str().unwrap()]);
    let kubectl = bed.cluster.kubectl(NAMESPACE);
    let security = ".spec.template.spec.securityContext.runAsUser";
    assert_eq!(kubectl.value(OPERATOR, security), "", "OpenShift chooses it");
    // As its admission does.
    let user = json!({"spec": {"template": {"spec": {"securityContext": {"runAsUser": 1_000_650_000}}}}});
    kubectl.ok(&["patch", OPERATOR, "--type=strategic", "-p", &user.to_string()]);
    kubectl.ok(&["rollout", "status", OPERATOR, "--timeout=120s"]);

    // A proxy's account is bound to the constraints, and the names of the two sides are told apart.
    let shop = bed.cluster.namespace("shop");
    shop.apply(&proxy_server("shop", "px").to_string()).ok();
    eventually("the proxy's account may use the constraints", PATIENCE, || {
        let roles = shop.ok(&["get", "rolebindings", "-o", "jsonpath={.items[*].roleRef.name}"]);
        if roles.split(' ').any(|role| role == constraints) { Ok(()) } else { Err(roles) }
    });
    shop.ok(&["rollout", "status", "deployment/px", "--timeout=90s"]);
    let pod = shop.ok(&["get", "pods", "-l", "app=proxy-server", "-o", "json"]);
    let pods: Value = serde_json::from_str(&pod).unwrap();
    assert_eq!(pods["items"][0]["spec"]["containers"][0]["image"], IMAGE);
    for theirs in ["proxies", "proxy"] {
        assert_eq!(admin.ok(&["get", theirs, "-o", "name"]).trim(), "proxy.config.openshift.io/cluster");
    }
    for ours in ["pxs", "proxyservers", "proxyserver"] {
        assert_eq!(shop.ok(&["get", ours, "-o", "name"]).trim(), "proxyserver.causeway.dev/px");
    }
    for none in ["infra", "dnssrv"] {
        assert_eq!(shop.run(&["get", none, "-o", "name"]).ok(), "", "ours, of which there are none");
    }

    let check = bed.causeway(&["check"]).ok();
    assert!(check.contains("one of them leads"), "{check}");
    let done = bed.causeway(&["uninstall", "--all", "--crds", "--yes"]).ok();
    assert!(done.contains("removed; nothing is left"), "{done}");
    admin.ok(&["delete", "namespace", "shop", "--timeout=60s"]);
    admin.ok(&["delete", "clusterrole", constraints]);
    admin
        .ok(&[&["delete", "--timeout=60s"], &names.iter().map(String::as_str).collect::<Vec<_>>()[..]]
            .concat());
    bed.is_as_before();
}
