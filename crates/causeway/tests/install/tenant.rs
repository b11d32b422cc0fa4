//! An installation by somebody who has rights in his namespaces alone, for these: it serves them, and reaches no other.

use std::path::{Path, PathBuf};

use causeway_testkit::blocking::eventually;
use causeway_testkit::deploy;
use causeway_testkit::kubectl::{Kubectl, Ran};
use serde_json::{Value, json};

use crate::bed::{Bed, IMAGE, PATIENCE, proxy_server};

const HIS: &str = "tenant-a";
const HIS_TOO: &str = "tenant-b";
const ANOTHERS: &str = "tenant-c";
const INSTALL: [&str; 7] = [
    "install",
    "--namespace",
    HIS,
    "--namespaces",
    "tenant-a,tenant-b",
    "--set",
    "proxies.engine=native,replicas=1",
];

/// The kubeconfig of an account, with a token.
fn config_of(bed: &Bed, account: &str) -> PathBuf {
    let token = bed.kubectl.ok(&["create", "token", account, "-n", HIS, "--duration=1h"]);
    let config = bed.files.path().join(format!("{account}.kubeconfig"));
    std::fs::copy(bed.cluster.kubeconfig(), &config).unwrap();
    let kubectl = kubectl_of(&config);
    kubectl.ok(&["config", "set-credentials", account, "--token", token.trim()]);
    kubectl.ok(&["config", "set-context", "--current", "--user", account]);
    config
}

fn kubectl_of(config: &Path) -> Kubectl {
    Kubectl::new(config, config.parent().unwrap(), HIS)
}

/// What an administrator does, once for all tenants and once for this one.
fn prepare(bed: &Bed) -> PathBuf {
    let admin = &bed.kubectl;
    let files = ["crds", "tenants.yaml"].map(|name| deploy(name).display().to_string());
    admin.ok(&["apply", "--server-side", "-f", &files[0], "-f", &files[1]]);
    for name in [HIS, HIS_TOO, ANOTHERS] {
        bed.cluster.namespace(name);
        admin.ok(&["create", "secret", "generic", "hidden", "-n", name, "--from-literal=a=b"]);
    }
    admin.ok(&["create", "serviceaccount", "tenant", "-n", HIS]);
    for name in [HIS, HIS_TOO] {
        let account = format!("--serviceaccount={HIS}:tenant");
        admin.ok(&["create", "rolebinding", "tenant", "-n", name, "--clusterrole=admin", &account]);
    }
    let config = config_of(bed, "tenant");
    eventually("his role has what an operator needs", PATIENCE, || {
        let asked =
            ["auth", "can-i", "patch", "proxyservers.causeway.dev", "--subresource=status", "-n", HIS];
        kubectl_of(&config).run(&asked).stdout.starts_with("yes")
    });
    config
}

/// All that a command said that fails.
fn failed(ran: Ran) -> String {
    assert_ne!(ran.code, Some(0), "{ran}");
    ran.stdout + &ran.stderr
}

fn server(kubectl: &Kubectl) {
    let container = json!({
        "name": "server", "image": IMAGE, "imagePullPolicy": "Never",
        "args": ["echo", "--listen", "0.0.0.0:8080", "--name", "web"],
        "readinessProbe": {"tcpSocket": {"port": 8080}, "periodSeconds": 1},
    });
    let pod = json!({"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [container]}});
    let objects = [
        json!({
            "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web"},
            "spec": {"selector": {"matchLabels": {"app": "web"}}, "template": pod},
        }),
        json!({
            "apiVersion": "v1", "kind": "Service", "metadata": {"name": "web"},
            "spec": {"selector": {"app": "web"}, "ports": [{"port": 80, "targetPort": 8080}]},
        }),
    ];
    for object in objects {
        kubectl.apply(&object.to_string()).ok();
    }
}

#[test]
fn a_tenant_installs_it_for_his_namespaces_and_it_reaches_no_other() {
    let Some(bed) = Bed::new() else { return };
    let tenant = prepare(&bed);
    let by_tenant = |arguments: &[&str]| Bed::causeway_as(&tenant, arguments);
    let [his, his_too, anothers] = [HIS, HIS_TOO, ANOTHERS].map(|name| bed.cluster.kubectl(name));

    // Not for a namespace that is not his, and not for all.
    let reaching = ["install", "--namespace", HIS, "--namespaces", "tenant-a,tenant-c"];
    let refused = failed(by_tenant(&reaching));
    assert!(refused.contains("create roles.rbac.authorization.k8s.io in tenant-c"), "{refused}");
    assert!(refused.contains("nothing was changed"), "{refused}");
    failed(by_tenant(&["install", "--namespace", HIS]));

    println!("{}", by_tenant(&INSTALL).ok());
    for kubectl in [&his, &anothers] {
        server(kubectl);
    }
    anothers.apply(&proxy_server(ANOTHERS, "px").to_string()).ok();
    // One that reaches for a Service of another namespace, though that is his, too.
    let mut across = proxy_server(HIS_TOO, "across");
    across["spec"]["backends"][0]["targetNamespace"] = json!(HIS);
    his_too.apply(&across.to_string()).ok();

    // It serves his, and says that it is ready when it carries traffic.
    bed.proxy(HIS);
    let ready = ".status.conditions[?(@.type==\"Ready\")].status";
    eventually("the proxy is ready", PATIENCE, || his.value("pxs/px", ready) == "True");
    eventually("what reaches across is told why not", PATIENCE, || {
        let status = his_too.value("pxs/across", ".status");
        if status.contains("each of its namespaces by itself") { Ok(()) } else { Err(status) }
    });
    // Nobody would let go of it where a namespace goes with the operator's rights.
    assert_eq!(his_too.value("pxs/across", ".metadata.finalizers"), "");

    is_untouched(&anothers);
    has_no_rights_beyond(&bed);
    says_what_it_does_not_do(&his, &by_tenant(&["check", "--namespace", HIS]).ok());
    bears_the_loss_of_a_namespace(&bed, &his, &tenant);

    // The same rights are enough to take it out.
    let shown = failed(by_tenant(&["uninstall", "--namespace", HIS, "--yes"]));
    assert!(shown.contains("ProxyServer tenant-a/px"), "{shown}");
    let said = by_tenant(&["uninstall", "--namespace", HIS, "--all", "--yes"]).ok();
    assert!(said.contains("removed; nothing is left"), "{said}");
    let left = "deployments,roles,rolebindings,services,serviceaccounts,poddisruptionbudgets,configmaps";
    eventually("nothing of it is left", PATIENCE, || {
        let left = his.ok(&["get", left, "-o", "name", "-l", "app.kubernetes.io/part-of=causeway"]);
        if left.is_empty() { Ok(()) } else { Err(left) }
    });
    for name in [HIS, ANOTHERS] {
        bed.kubectl.ok(&["delete", "namespace", name, "--timeout=120s"]);
    }
    let files = ["crds", "tenants.yaml"].map(|name| deploy(name).display().to_string());
    bed.kubectl.ok(&["delete", "-f", &files[0], "-f", &files[1]]);
    bed.is_as_before();
}

/// What is in a namespace of somebody else.
fn is_untouched(anothers: &Kubectl) {
    let proxy: Value = serde_json::from_str(&anothers.ok(&["get", "pxs/px", "-o", "json"])).unwrap();
    assert!(proxy["status"].is_null() && proxy["metadata"]["finalizers"].is_null(), "{proxy}");
    let there = anothers.ok(&["get", "deployments,roles,rolebindings,serviceaccounts", "-o", "name"]);
    assert_eq!(
        there.split_whitespace().collect::<Vec<_>>(),
        ["deployment.apps/web", "serviceaccount/default"]
    );
}

/// What the operator's account may do, asked and tried.
fn has_no_rights_beyond(bed: &Bed) {
    let account = format!("--as=system:serviceaccount:{HIS}:causeway-operator");
    for (verb, resource, place) in [
        ("get", "secrets", ANOTHERS),
        ("list", "secrets", HIS),
        ("list", "secrets", HIS_TOO),
        ("list", "pods", ANOTHERS),
        ("create", "pods", ANOTHERS),
        ("patch", "deployments.apps", ANOTHERS),
        ("create", "rolebindings.rbac.authorization.k8s.io", ANOTHERS),
        ("list", "proxyservers.causeway.dev", ANOTHERS),
        ("patch", "proxyservers.causeway.dev/status", ANOTHERS),
        ("list", "nodes", ANOTHERS),
        ("list", "namespaces", ANOTHERS),
        ("create", "clusterrolebindings.rbac.authorization.k8s.io", ANOTHERS),
        ("get", "customresourcedefinitions.apiextensions.k8s.io", ANOTHERS),
        ("create", "pods/exec", HIS),
    ] {
        // After a slash kubectl takes a name.
        let (kind, part) = resource.split_once('/').unwrap_or((resource, ""));
        let part = format!("--subresource={part}");
        let said = bed.kubectl.run(&["auth", "can-i", verb, kind, &part, "-n", place, &account]).stdout;
        assert_eq!(said.trim(), "no", "{verb} {resource} in {place}");
    }
    let operator = kubectl_of(&config_of(bed, "causeway-operator"));
    // It does reach what is its own.
    operator.ok(&["get", "pods", "-n", HIS_TOO]);
    for arguments in [
        &["get", "secret/hidden", "-n", ANOTHERS][..],
        &["get", "secret/hidden", "-n", HIS],
        &["get", "proxyservers", "-n", ANOTHERS],
        &["get", "proxyservers", "--all-namespaces"],
        &["get", "nodes"],
        &["get", "namespaces"],
        &["delete", "deployment/web", "-n", ANOTHERS],
        &["create", "configmap", "x", "-n", ANOTHERS],
        // Nor does it get further by rights that it gives itself.
        &["create", "role", "x", "-n", HIS, "--verb=get", "--resource=secrets"],
        &[
            "create",
            "rolebinding",
            "x",
            "-n",
            HIS,
            "--clusterrole=admin",
            "--serviceaccount=tenant-a:causeway-operator",
        ],
    ] {
        let said = operator.fails(arguments);
        assert!(said.to_lowercase().contains("forbidden"), "{arguments:?}: {said}");
    }
}

fn says_what_it_does_not_do(his: &Kubectl, check: &str) {
    assert!(check.contains("off, as the operator is for tenant-a, tenant-b alone: Gateways"), "{check}");
    let log = his.ok(&["logs", "-l", "app=causeway-operator", "--tail=-1"]);
    assert!(log.contains("off in some namespaces alone: hostnames"), "{log}");
    for word in ["may not be read", "a watch failed", "forbidden"] {
        assert!(!log.contains(word), "{word} in {log}");
    }
    let pod =
        his.ok(&["get", "pods", "-l", "app=causeway-operator", "-o", "jsonpath={.items[0].metadata.name}"]);
    let readyz = his.ok(&["get", "--raw", &format!("/api/v1/namespaces/{HIS}/pods/{pod}:8081/proxy/readyz")]);
    assert!(readyz.contains("off: intercepts"), "{readyz}");
}

/// Rights that are taken away stop what is done there, and nothing else; and a namespace goes, whatever goes first in it.
fn bears_the_loss_of_a_namespace(bed: &Bed, his: &Kubectl, tenant: &Path) {
    bed.kubectl.ok(&["delete", "rolebinding/causeway-operator", "-n", HIS_TOO]);
    his.ok(&["rollout", "restart", "deployment/causeway-operator"]);
    his.ok(&["rollout", "status", "deployment/causeway-operator", "--timeout=120s"]);
    let check = failed(Bed::causeway_as(tenant, &["check", "--namespace", HIS]));
    assert!(check.contains("the operator has no rights in namespace tenant-b"), "{check}");
    his.ok(&["patch", "pxs/px", "--type=merge", "-p", r#"{"spec": {"replicas": 1}}"#]);
    eventually("his other namespace is followed", PATIENCE, || {
        his.value("pxs/px", ".status.observedGeneration") == his.value("pxs/px", ".metadata.generation")
    });
    println!("{}", Bed::causeway_as(tenant, &INSTALL).ok());
    Bed::causeway_as(tenant, &["check", "--namespace", HIS]).ok();
    bed.kubectl.ok(&["delete", "namespace", HIS_TOO, "--timeout=120s"]);
    let only =
        ["install", "--namespace", HIS, "--namespaces", HIS, "--set", "proxies.engine=native,replicas=1"];
    let ran = Bed::causeway_as(tenant, &only);
    assert!(ran.stderr.contains("tenant-b would be served no more"), "{ran}");
    println!("{}", ran.ok());
    // An administrator is told before it becomes one for all.
    let said = bed.causeway(&["check", "--pre", "--namespace", HIS]).stdout;
    assert!(said.contains("from now on it has rights in the whole cluster"), "{said}");
}
