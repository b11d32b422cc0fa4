//! What the server says of itself, and of what it does not offer.

use crate::objects::pod;
use crate::peer::shared;

#[test]
fn resources_versions_and_health() {
    let server = shared();
    let kubectl = server.kubectl();
    let resources = kubectl.ok(&["api-resources"]);
    let lines: Vec<String> =
        resources.lines().map(|l| l.split_whitespace().collect::<Vec<_>>().join(" ")).collect();
    for expected in [
        "pods po v1 true Pod",
        "deployments deploy apps/v1 true Deployment",
        "infras infra causeway.dev/v1alpha1 true Infra",
        "dnsservers dnssrv causeway.dev/v1alpha1 true DNSServer",
        "domainclaims causeway.dev/v1alpha1 false DomainClaim",
        "httproutes gateway.networking.k8s.io/v1 true HTTPRoute",
        "network-attachment-definitions net-attach-def k8s.cni.cncf.io/v1 true NetworkAttachmentDefinition",
    ] {
        assert!(lines.iter().any(|line| line == expected), "lacks {expected:?}:\n{resources}");
    }
    let wide = kubectl.ok(&["api-resources", "--api-group=causeway.dev", "-o", "wide", "--no-headers"]);
    assert_eq!(wide.lines().count(), 17, "{wide}");
    assert!(
        wide.lines().all(|l| l.contains("create,delete,deletecollection,get,list,patch,update,watch")
            || l.contains("delete,deletecollection,get,list,patch,create,update,watch")),
        "{wide}"
    );
    let versions = kubectl.ok(&["api-versions"]);
    for version in [
        "v1",
        "apps/v1",
        "causeway.dev/v1alpha1",
        "gateway.networking.k8s.io/v1",
        "rbac.authorization.k8s.io/v1",
    ] {
        assert!(versions.lines().any(|line| line == version), "lacks {version}:\n{versions}");
    }
    let info = kubectl.ok(&["cluster-info"]);
    assert!(info.contains(&server.url()), "{info}");
    let version = kubectl.ok(&["version", "-o", "json"]);
    let version: serde_json::Value = serde_json::from_str(&version).unwrap();
    assert!(version["serverVersion"]["gitVersion"].as_str().unwrap().contains("+causeway-"), "{version}");
    for path in ["/livez", "/readyz", "/healthz"] {
        assert_eq!(kubectl.ok(&["get", "--raw", path]), "ok", "{path}");
    }
    assert!(kubectl.ok(&["get", "--raw", "/metrics"]).contains("# TYPE"));
    assert!(kubectl.ok(&["get", "--raw", "/openapi/v3"]).contains("apis/causeway.dev/v1alpha1"));
}

#[test]
fn categories() {
    let kubectl = shared().namespace("categories");
    kubectl.apply("apiVersion: causeway.dev/v1alpha1\nkind: DomainClaim\nmetadata: {name: categories}\nspec: {zone: categories.example.com, namespace: categories}\n");
    let run = kubectl.run(&["get", "causeway"]);
    assert_eq!(run.code, Some(0), "{run}");
    let bare = shared().namespace("categories-none").run(&["get", "all"]);
    assert_eq!(bare.stderr, "No resources found in categories-none namespace.\n");
}

#[test]
fn what_is_not_offered_says_so() {
    let kubectl = shared().namespace("not-offered");
    kubectl.apply(&pod("one", &["main"])).ok();
    kubectl.ok(&["wait", "--for=condition=Ready", "pod/one", "--timeout=60s"]);
    let cases: [&[&str]; 3] =
        [&["exec", "one", "--", "true"], &["cp", "one:/etc/hosts", "/dev/null"], &["attach", "one"]];
    for args in cases {
        let said = kubectl.fails(args);
        assert!(said.contains("does not offer"), "{args:?}: {said}");
    }
}
