//! `causeway up` and `kubectl apply`: a Gateway with routes answers on its address.

use causeway_testkit::PATIENCE;
use causeway_testkit::blocking::eventually;
use causeway_testkit::kubectl::Kubectl;
use causeway_testkit::server::Server;

use crate::backend::{Authority, backend, curl, service};
use crate::commands::run;
use crate::load::Load;

pub(crate) const GATEWAY: &str = "apiVersion: gateway.networking.k8s.io/v1
kind: Gateway
metadata: {name: web}
spec:
  gatewayClassName: causeway
  listeners:
  - {name: http, port: 8080, protocol: HTTP}
  - {name: https, port: 8443, protocol: HTTPS, tls: {certificateRefs: [{name: site}]}}
---
";

/// A route of the Gateway to a Service, with these further fields of its spec and of its rule.
pub(crate) fn route(name: &str, service: &str, spec: &str, rule: &str) -> String {
    format!(
        "apiVersion: gateway.networking.k8s.io/v1
kind: HTTPRoute
metadata: {{name: {name}}}
spec:
  parentRefs: [{{name: web}}]
  {spec}
  rules:
  - backendRefs: [{{name: {service}, port: 80}}]
    {rule}
---
"
    )
}

/// The address that a Gateway has once it is programmed.
pub(crate) fn address(kubectl: &Kubectl, name: &str) -> String {
    kubectl.ok(&["wait", "--for=condition=Programmed", &format!("gateway/{name}"), "--timeout=60s"]);
    kubectl.value(&format!("gateway/{name}"), ".status.addresses[0].value")
}

#[test]
fn requests_go_by_host_path_and_header_over_http_and_https() {
    let server = Server::start(&[]);
    let kubectl = server.kubectl();
    let authority = Authority::new();
    let (shop, cart, blue) = (backend("shop"), backend("cart"), backend("blue"));
    let mut objects = service("shop", shop) + &service("cart", cart) + &service("blue", blue) + GATEWAY;
    objects += &route("shop", "shop", "hostnames: [shop.test]", "");
    objects += &route("cart", "cart", "hostnames: [shop.test]", "matches: [{path: {value: /cart}}]");
    let header = "matches: [{headers: [{name: x-color, value: blue}]}]";
    objects += &route("blue", "blue", "hostnames: [shop.test]", header);
    objects += &authority.secret("site", "shop.test", 1);
    kubectl.apply(&objects).ok();
    let address = address(&kubectl, "web");
    assert!(address.starts_with("127.96."), "{address}");

    let at = |path: &str| format!("http://{address}:8080{path}");
    let host = ["-H", "Host: shop.test"];
    eventually("the route is served", PATIENCE, || {
        curl(&[host[0], host[1], &at("/")]).starts_with("shop GET / ")
    });
    assert!(curl(&[host[0], host[1], &at("/cart/1")]).starts_with("cart GET /cart/1 "));
    assert!(curl(&[host[0], host[1], "-H", "x-color: blue", &at("/")]).starts_with("blue "));
    assert_eq!(curl(&["-H", "Host: other.test", &at("/")]).lines().last(), Some("404"));

    let ca = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(ca.path(), authority.pem()).unwrap();
    let resolve = format!("shop.test:8443:{address}");
    let secure =
        ["--resolve", &resolve, "--cacert", ca.path().to_str().unwrap(), "https://shop.test:8443/cart"];
    eventually("HTTPS is served", PATIENCE, || curl(&secure).starts_with("cart GET /cart "));

    for (object, field) in [
        ("gateway/web", ".status.listeners[*].attachedRoutes"),
        ("httproute/shop", ".status.parents[0].controllerName"),
    ] {
        let said = kubectl.value(object, field);
        assert!(said == "3 3" || said == "causeway.dev/gateway", "{object}: {said}");
    }
    // What the account of the pods, which any pod of the namespace may use, can see.
    let account = "system:serviceaccount:default:web-causeway";
    for (what, visible) in [
        ("secret/web-causeway-0", true),
        ("secret/site", false),
        ("secrets", false),
        ("services", false),
        ("gatewayplan/web-causeway", true),
        ("gateways", false),
    ] {
        let ran = kubectl.run(&["get", what, "--as", account]);
        assert_eq!(ran.code == Some(0), visible, "{what}: {}{}", ran.stdout, ran.stderr);
    }
}

#[test]
fn edits_of_routes_and_certificates_fail_no_request() {
    let server = Server::start(&[]);
    let kubectl = server.kubectl();
    let authority = Authority::new();
    let (one, other) = (backend("one"), backend("other"));
    let objects =
        service("one", one) + &service("other", other) + GATEWAY + &authority.secret("site", "shop.test", 1);
    kubectl.apply(&objects).ok();
    kubectl.apply(&route("shop", "one", "hostnames: [shop.test]", "")).ok();
    let address = address(&kubectl, "web");
    let ca = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(ca.path(), authority.pem()).unwrap();
    let resolve = format!("shop.test:8443:{address}");
    let args = ["--resolve", &resolve, "--cacert", ca.path().to_str().unwrap(), "https://shop.test:8443/"];
    eventually("HTTPS is served", PATIENCE, || curl(&args).starts_with("one "));
    let load = Load::start(args.iter().map(|arg| (*arg).to_owned()).collect(), &["one ", "other "]);

    let serial = || {
        let mut command = std::process::Command::new("sh");
        let script = format!(
            "echo | openssl s_client -connect {address}:8443 -servername shop.test 2>/dev/null | openssl x509 -noout -serial"
        );
        causeway_testkit::kubectl::finish(command.args(["-c", &script])).stdout.trim().to_owned()
    };
    for round in 2..6_u64 {
        let target = if round % 2 == 0 { "other" } else { "one" };
        kubectl.apply(&route("shop", target, "hostnames: [shop.test]", "")).ok();
        eventually("the route leads there", PATIENCE, || curl(&args).starts_with(&format!("{target} ")));
        kubectl.apply(&authority.secret("site", "shop.test", round)).ok();
        eventually("the other certificate is shown", PATIENCE, || serial() == format!("serial={round:02}"));
    }
    // A listener that comes beside it, with a Service port of its own.
    let more =
        GATEWAY.replace("  - {name: https", "  - {name: more, port: 8081, protocol: HTTP}\n  - {name: https");
    kubectl.apply(&more).ok();
    let beside = format!("http://{address}:8081/");
    eventually("the new listener answers", PATIENCE, || {
        curl(&["-H", "Host: shop.test", &beside]).contains("GET / ")
    });
    let before = load.good();
    eventually("requests go on", PATIENCE, || load.good() > before + 20);
    let bad = load.end();
    assert!(bad.is_empty(), "{} requests failed: {:?}", bad.len(), bad.first());
}

#[test]
fn an_address_that_is_reachable_from_outside_is_told_and_served() {
    let server = Server::start(&["--listen-on", "127.77.1.9"]);
    let kubectl = server.kubectl();
    let shop = backend("shop");
    let gateway = GATEWAY.lines().filter(|line| !line.contains("https")).map(|line| format!("{line}\n"));
    let objects = service("shop", shop) + &gateway.collect::<String>() + &route("shop", "shop", "", "");
    kubectl.apply(&objects).ok();
    assert_eq!(address(&kubectl, "web"), "127.77.1.9");
    eventually("it answers", PATIENCE, || curl(&["http://127.77.1.9:8080/x"]).starts_with("shop GET /x "));
}

#[test]
fn the_port_of_a_node_is_told_wherever_the_address_is() {
    let server = Server::start(&[]);
    let kubectl = server.kubectl();
    let parameters = "apiVersion: causeway.dev/v1alpha1
kind: GatewayParameters
metadata: {name: nodes}
spec: {serviceType: NodePort}
---
apiVersion: gateway.networking.k8s.io/v1
kind: Gateway
metadata: {name: web}
spec:
  gatewayClassName: causeway
  infrastructure: {parametersRef: {group: causeway.dev, kind: GatewayParameters, name: nodes}}
  listeners: [{name: http, port: 8080, protocol: HTTP}]
---
";
    let shop = backend("shop");
    kubectl.apply(&(service("shop", shop) + parameters + &route("shop", "shop", "", ""))).ok();
    let address = address(&kubectl, "web");
    let port = kubectl.value("service/web-causeway", ".spec.ports[0].nodePort");
    let said = kubectl.value("gateway/web", ".status.conditions[?(@.type==\"Programmed\")].message");
    assert!(said.ends_with(&format!("on ports of nodes: {port} for 8080/TCP")), "{said}");
    // What is told is true.
    let url = format!("http://{address}:{port}/");
    eventually("it answers there", PATIENCE, || curl(&[&url]).starts_with("shop GET / "));
    let routes = run(&server, "routes", "gateway/web");
    assert!(routes.stdout.contains(&format!("8080/HTTP ({port} on nodes)")), "{}", routes.stdout);
    let doctor = run(&server, "doctor", "gateway/web");
    let reached = format!("{address}:{port} takes connections for port 8080");
    assert!(doctor.stdout.contains(&reached), "{}{}", doctor.stdout, doctor.stderr);
}
