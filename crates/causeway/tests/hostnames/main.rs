//! Hostnames on one machine, as a user meets them: `causeway up`, kubectl, dig's questions and curl.

#![allow(clippy::unwrap_used, clippy::panic)]

use std::process::Command;

use causeway_testkit::PATIENCE;
use causeway_testkit::blocking::eventually;
use causeway_testkit::kubectl::{Kubectl, finish};
use causeway_testkit::server::{Server, program};

const TEAMS: &str = r#"
apiVersion: v1
kind: Namespace
metadata: {name: shop}
---
apiVersion: v1
kind: Namespace
metadata: {name: rival}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: shop, namespace: shop}
spec:
  selector: {matchLabels: {app: shop}}
  template:
    metadata: {labels: {app: shop}}
    spec:
      containers:
        - name: shop
          image: causeway.dev/causeway
          args: [echo, --name, shop, --listen, "$(POD_IP):8080"]
          env:
            - name: POD_IP
              valueFrom: {fieldRef: {fieldPath: status.podIP}}
          readinessProbe: {tcpSocket: {port: 8080}, periodSeconds: 1}
---
apiVersion: v1
kind: Service
metadata: {name: shop, namespace: shop}
spec:
  selector: {app: shop}
  ports: [{port: 80, targetPort: 8080}]
"#;

fn request(namespace: &str, hostname: &str) -> String {
    format!(
        "apiVersion: causeway.dev/v1alpha1\nkind: GatewayHostnameRequest\nmetadata: {{name: shop, namespace: {namespace}}}\n\
         spec: {{zoneId: apps.test, hostname: {hostname}}}\n"
    )
}

fn route(namespace: &str, hostname: &str) -> String {
    format!(
        "apiVersion: gateway.networking.k8s.io/v1\nkind: HTTPRoute\nmetadata: {{name: shop, namespace: {namespace}}}\n\
         spec:\n  parentRefs: [{{name: gw-01, namespace: causeway-edge}}]\n  hostnames: [{hostname}]\n  \
         rules: [{{backendRefs: [{{name: shop, port: 80}}]}}]\n"
    )
}

fn get(kubectl: &Kubectl, object: &str, path: &str) -> String {
    kubectl.ok(&["get", "-n", "shop", object, "-o", &format!("jsonpath={{{path}}}")])
}

#[test]
fn curl_answers_for_a_name_that_was_applied_and_nobody_else_can_have_it() {
    let server = Server::start(&[]);
    let kubectl = server.kubectl();
    kubectl.apply(TEAMS).ok();
    kubectl.apply(&request("shop", "shop.apps.test")).ok();
    kubectl.ok(&["wait", "-n", "shop", "ghr/shop", "--for=condition=Ready", "--timeout=60s"]);
    kubectl.apply(&route("shop", "shop.apps.test")).ok();

    let directory = tempfile::tempdir().unwrap();
    let authority = directory.path().join("ca.crt");
    let causeway =
        |args: &[&str]| finish(Command::new(program()).args(args).env("KUBECONFIG", server.kubeconfig()));
    causeway(&["trust", "--file", authority.to_str().unwrap()]).ok();
    let address = get(&kubectl, "ghr/shop", ".status.addresses[0]");
    let port = kubectl.ok(&[
        "get",
        "-n",
        "causeway-edge",
        "gateway/gw-01",
        "-o",
        "jsonpath={.spec.listeners[?(@.protocol==\"HTTPS\")].port}",
    ]);
    let curl = |name: &str| {
        finish(Command::new("curl").args(["-sS", "--max-time", "5", "--cacert"]).arg(&authority).args([
            "--resolve",
            &format!("{name}:{port}:{address}"),
            &format!("https://{name}:{port}/"),
        ]))
    };
    eventually("curl is answered by the service", PATIENCE, || {
        curl("shop.apps.test").stdout.starts_with("shop")
    });
    let doctor = causeway(&["doctor", "hostname/shop", "-n", "shop"]);
    assert_eq!(doctor.code, Some(0), "{doctor}");
    for line in ["our own DNS server", "shows a good certificate for shop.apps.test"] {
        assert!(doctor.stdout.contains(line), "lacks {line:?}: {doctor}");
    }
    let table = causeway(&["hostnames", "-A"]);
    assert!(table.stdout.contains("shop.apps.test") && table.stdout.contains("gw-01"), "{table}");

    // Another team: neither by a request, nor by a route.
    kubectl.apply(&request("rival", "SHOP.apps.test.")).ok();
    eventually("it is told who has it", PATIENCE, || {
        let said = kubectl.ok(&["get", "-n", "rival", "ghr/shop", "-o", "jsonpath={.status.conditions}"]);
        said.contains("AlreadyClaimed") && said.contains("shop/shop")
    });
    let refused = kubectl.apply(&route("rival", "shop.apps.test")).fails();
    assert!(refused.contains("does not hold shop.apps.test"), "{refused}");

    // Nothing is left.
    kubectl.ok(&["delete", "-n", "rival", "ghr/shop"]);
    kubectl.ok(&["delete", "-n", "shop", "ghr/shop", "--timeout=60s"]);
    eventually("claims and gateways are gone", PATIENCE, || {
        kubectl.ok(&["get", "domainclaims", "-o", "name"]).is_empty()
            && kubectl.ok(&["get", "gateways", "-n", "causeway-edge", "-o", "name"]).is_empty()
    });
}
