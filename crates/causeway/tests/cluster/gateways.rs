//! A Gateway with routes, as clients of the cluster meet it.

use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use causeway_testkit::blocking::eventually;
use causeway_testkit::kubectl::finish;
use serde_json::{Value, json};

use crate::world::{PATIENCE, World, cluster};

const GROUP: &str = "gateway.networking.k8s.io/v1";

fn route(name: &str, host: &str, path: &str, service: &str) -> Value {
    json!({
        "apiVersion": GROUP, "kind": "HTTPRoute", "metadata": {"name": name},
        "spec": {
            "parentRefs": [{"name": "web"}], "hostnames": [host],
            "rules": [{"matches": [{"path": {"value": path}}], "backendRefs": [{"name": service, "port": 80}]}],
        },
    })
}

fn curl(command: &mut Command) -> Result<String, String> {
    let ran = finish(command);
    if ran.code == Some(0) { Ok(ran.stdout) } else { Err(ran.stderr) }
}

#[test]
fn a_gateway_serves_http_and_https_on_its_address_and_follows_routes() {
    let Some(world) = World::new("gateway") else { return };
    let Some(cluster) = cluster() else { return };
    world.http_server("shop");
    world.http_server("cart");
    world.kubectl.ok(&[
        "create",
        "secret",
        "tls",
        "site",
        &format!("--cert={}", world.file("cert.pem")),
        &format!("--key={}", world.file("key.pem")),
    ]);
    let gateway = json!({
        "apiVersion": GROUP, "kind": "Gateway", "metadata": {"name": "web"},
        "spec": {"gatewayClassName": "causeway", "listeners": [
            {"name": "http", "port": 80, "protocol": "HTTP"},
            {"name": "https", "port": 443, "protocol": "HTTPS", "tls": {"certificateRefs": [{"name": "site"}]}},
        ]},
    });
    let since = Instant::now();
    world.kubectl.apply(&gateway.to_string()).ok();
    world.kubectl.apply(&route("shop", "shop.example.com", "/", "shop").to_string()).ok();
    world.kubectl.apply(&route("cart", "shop.example.com", "/cart", "cart").to_string()).ok();
    world.wait("gateway/web", "Programmed");
    println!("Programmed {:.1?} after it was applied", since.elapsed());
    let address = world.kubectl.value("gateway/web", ".status.addresses[0].value");
    let http = |path: &str| {
        let mut command = cluster.on_node("curl");
        command.args(["-sS", "-m", "5", "-H", "Host: shop.example.com", &format!("http://{address}{path}")]);
        curl(&mut command)
    };
    let secure = |path: &str| {
        let mut command = cluster.on_node("curl");
        command.args(["-sS", "-m", "5", "--cacert", &world.file("cert.pem")]);
        command.args(["--resolve", &format!("shop.example.com:443:{address}")]);
        command.arg(format!("https://shop.example.com{path}"));
        curl(&mut command)
    };
    eventually("HTTP is served", PATIENCE, || http("/").and_then(|answer| contains(answer, "shop")));
    eventually("HTTPS is served", PATIENCE, || secure("/cart").and_then(|answer| contains(answer, "cart")));

    // An edit while requests run.
    let (ends, failed) = (AtomicBool::new(false), std::sync::Mutex::new(Vec::new()));
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !ends.load(Ordering::Relaxed) {
                if let Err(why) = http("/") {
                    failed.lock().unwrap().push(why);
                }
            }
        });
        world.kubectl.apply(&route("shop", "shop.example.com", "/", "cart").to_string()).ok();
        eventually("the route leads elsewhere", PATIENCE, || {
            http("/").and_then(|answer| contains(answer, "cart"))
        });
        ends.store(true, Ordering::Relaxed);
    });
    assert_eq!(*failed.lock().unwrap(), Vec::<String>::new());
    let pods = world.kubectl.ok(&["get", "pods", "-l", "app=gateway", "-o", "name"]);
    assert_eq!(pods.lines().count(), 1, "{pods}");
}

/// An address of the network of Services that no Service has.
const BALANCER: &str = "10.96.255.250";

/// GatewayParameters, and a Gateway by them with a port for HTTP.
fn gateway(name: &str, parameters: Value, port: u16) -> String {
    let made_by = json!({"group": "causeway.dev", "kind": "GatewayParameters", "name": name});
    let parameters = json!({
        "apiVersion": "causeway.dev/v1alpha1", "kind": "GatewayParameters", "metadata": {"name": name},
        "spec": parameters,
    });
    let gateway = json!({
        "apiVersion": GROUP, "kind": "Gateway", "metadata": {"name": name},
        "spec": {
            "gatewayClassName": "causeway", "infrastructure": {"parametersRef": made_by},
            "listeners": [{"name": "http", "port": port, "protocol": "HTTP"}],
        },
    });
    json!({"apiVersion": "v1", "kind": "List", "items": [parameters, gateway]}).to_string()
}

#[test]
fn addresses_are_those_of_the_balancer_and_of_nodes_with_their_ports() {
    let Some(world) = World::new("gateway-addresses") else { return };
    let Some(cluster) = cluster() else { return };
    world.http_server("shop");
    world.kubectl.apply(&gateway("web", json!({"serviceType": "LoadBalancer"}), 80)).ok();
    world.kubectl.apply(&route("shop", "shop.example.com", "/", "shop").to_string()).ok();
    let address = |name: &str| world.kubectl.value(&format!("gateway/{name}"), ".status.addresses[*].value");
    let programmed = |name: &str| {
        let path = "{.status.conditions[?(@.type=='Programmed')]}";
        world.kubectl.run(&["get", &format!("gateway/{name}"), "-o", &format!("jsonpath={path}")]).stdout
    };
    world.kubectl.ok(&["wait", "gateway/web", "--for=condition=Accepted", "--timeout=60s"]);
    eventually("the Service is there", PATIENCE, || {
        let ran = world.kubectl.run(&["rollout", "status", "deployment/web-causeway", "--timeout=5s"]);
        if ran.code == Some(0) { Ok(()) } else { Err(ran.stderr) }
    });
    // Nobody has balanced yet.
    eventually("it says that it has no address", PATIENCE, || {
        contains(programmed("web"), "AddressNotAssigned")
    });
    assert_eq!(address("web"), "");
    let balanced = json!({"status": {"loadBalancer": {"ingress": [{"ip": BALANCER}]}}});
    world.kubectl.ok(&["patch", "service/web-causeway", "--subresource=status", "-p", &balanced.to_string()]);
    world.wait("gateway/web", "Programmed");
    assert_eq!(address("web"), BALANCER);
    eventually("the address of the balancer leads there", PATIENCE, || {
        let mut command = cluster.on_node("curl");
        command.args(["-sS", "-m", "5", "-H", "Host: shop.example.com", &format!("http://{BALANCER}/")]);
        curl(&mut command).and_then(|answer| contains(answer, "shop"))
    });

    // Ports of nodes are not for every namespace.
    let allow = |level: &str| {
        let label = format!("pod-security.kubernetes.io/enforce={level}");
        world.kubectl.ok(&["label", "--overwrite", "namespace", &world.kubectl.namespace, &label]);
    };
    allow("baseline");
    world.kubectl.apply(&gateway("nodes", json!({"hostPorts": true}), 18_473)).ok();
    eventually("it says why it has no pods", PATIENCE, || contains(programmed("nodes"), "hostPort"));
    allow("privileged");
    world.wait("gateway/nodes", "Programmed");
    let of_pods = |name: &str, path: &str| {
        let (label, path) = (
            format!("gateway.networking.k8s.io/gateway-name={name}"),
            format!("jsonpath={{.items[*].{path}}}"),
        );
        world.kubectl.ok(&["get", "pods", "-l", &label, "-o", &path])
    };
    assert_eq!(of_pods("nodes", "spec.containers[0].ports[?(@.hostPort)].hostPort"), "18473");
    assert_eq!(address("nodes"), of_pods("nodes", "status.hostIP"));

    // A port of the nodes that is another than the Gateway's: it is told, and both together lead there.
    world.kubectl.apply(&gateway("ports", json!({"serviceType": "NodePort"}), 80)).ok();
    let mut to_ports = route("ports", "ports.example.com", "/", "shop");
    to_ports["spec"]["parentRefs"][0]["name"] = json!("ports");
    world.kubectl.apply(&to_ports.to_string()).ok();
    world.wait("gateway/ports", "Programmed");
    let (node, port) =
        (address("ports"), world.kubectl.value("service/ports-causeway", ".spec.ports[0].nodePort"));
    assert_eq!(node, of_pods("ports", "status.hostIP"));
    let said = programmed("ports");
    assert!(said.contains(&format!("on ports of nodes: {port} for 80/TCP")), "{said}");
    eventually("the port of the node leads there", PATIENCE, || {
        let mut command = cluster.on_node("curl");
        command.args(["-sS", "-m", "5", "-H", "Host: ports.example.com", &format!("http://{node}:{port}/")]);
        curl(&mut command).and_then(|answer| contains(answer, "shop"))
    });
}

fn contains(answer: String, word: &str) -> Result<String, String> {
    if answer.contains(word) { Ok(answer) } else { Err(answer) }
}
