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

fn contains(answer: String, word: &str) -> Result<String, String> {
    if answer.contains(word) { Ok(answer) } else { Err(answer) }
}
