//! Every crossing of a cluster at once: brought in by one command, in use while a node is drained and while all of it is
//! upgraded, and taken out until the cluster is as it was.

use std::collections::BTreeSet;
use std::fs;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use causeway_testkit::asking;
use causeway_testkit::blocking::eventually;
use causeway_testkit::kubectl::{Kubectl, finish};
use causeway_testkit::kubernetes::{Image, TestCluster};
use causeway_testkit::server::program;
use serde_json::{Value, json};

use crate::intercepts::laptop::{Laptop, answers, others};
use crate::load::Load;
use crate::replicas::{FIRST, HOST, SECOND};
use crate::servers::{boot, told, volume};
use crate::world::{Installed, PATIENCE, World, cluster, enter};

/// The version that is installed over the one that the chart names.
const NEXT: &str = "0.1.0-next";
/// Where the operator puts the gateways of hostnames.
const EDGE: &str = "causeway-edge";
const PUBLISHED: &str = "shop.apps.crossings.test";
/// What changes by itself, or with what others do: none of it is an installation's.
const PASSING: [&str; 9] = [
    "componentstatuses",
    "controllerrevisions.apps",
    "endpoints",
    "endpointslices.discovery.k8s.io",
    "events",
    "events.events.k8s.io",
    "leases.coordination.k8s.io",
    "pods",
    "replicasets.apps",
];

/// All that the cluster knows, by kind and name.
fn inventory(kubectl: &Kubectl) -> BTreeSet<String> {
    let kinds = kubectl.ok(&["api-resources", "--verbs=list", "--cached=false", "-o", "name"]);
    let kinds: Vec<&str> = kinds.lines().filter(|kind| !PASSING.contains(kind)).collect();
    let listed = ["get", &kinds.join(","), "--all-namespaces", "--ignore-not-found"];
    let name = "custom-columns=KIND:.kind,NAMESPACE:.metadata.namespace,NAME:.metadata.name";
    let listed = kubectl.ok(&[&listed[..], &["--no-headers", "-o", name]].concat());
    let words = |line: &str| line.split_whitespace().collect::<Vec<_>>().join(" ");
    listed.lines().map(words).collect()
}

/// Takes pods again when this is dropped.
struct Cordoned<'a>(&'a Kubectl, &'a str);

impl<'a> Cordoned<'a> {
    fn new(kubectl: &'a Kubectl, node: &'a str) -> Self {
        kubectl.ok(&["cordon", node]);
        Self(kubectl, node)
    }
}

impl Drop for Cordoned<'_> {
    fn drop(&mut self) {
        let _ = self.0.run(&["uncordon", self.1]);
    }
}

/// An isolated network with everything on it: addresses by two servers, names, and two proxies.
fn infra(namespace: &str) -> Value {
    let mut backends: Vec<Value> = [
        "kube-apiserver",
        "kube-apiserver-internal",
        "kube-apiserver-kubernetes-hostname",
        "oauth-openshift",
        "ignition-server",
        "konnectivity-server",
    ]
    .map(|name| json!({"name": name, "disabled": true}))
    .into();
    backends.push(json!({
        "name": "shop", "hostname": HOST, "port": 443, "targetService": "shop", "targetPort": 443,
    }));
    json!({
        "apiVersion": "causeway.dev/v1alpha1", "kind": "Infra", "metadata": {"name": "lab"},
        "spec": {
            "networkConfig": {
                "cidr": "192.168.100.0/24", "gateway": "192.168.100.1", "networkAttachmentDefinition": "vlan",
            },
            "infraComponents": {
                "dhcp": {"serverIP": "192.168.100.2", "replicas": 2, "additionalServerIPs": ["192.168.100.7"]},
                "dns": {"serverIP": "192.168.100.3", "baseDomain": "example.com",
                        "extraEntries": [{"hostname": HOST}]},
                "proxy": {
                    "engine": "Native", "controlPlaneNamespace": namespace, "replicas": 2,
                    "serverIP": FIRST, "additionalServerIPs": [SECOND], "backends": backends,
                },
            },
        },
    })
}

/// A Gateway of two pods that leads to `web`, a hostname that is published, and the route for it.
fn published() -> [Value; 5] {
    let group = "gateway.networking.k8s.io/v1";
    let rules = json!([{"backendRefs": [{"name": "web", "port": 80}]}]);
    [
        json!({
            "apiVersion": "causeway.dev/v1alpha1", "kind": "GatewayParameters",
            "metadata": {"name": "front"}, "spec": {"replicas": 2},
        }),
        json!({
            "apiVersion": group, "kind": "Gateway", "metadata": {"name": "front"},
            "spec": {
                "gatewayClassName": "causeway",
                "infrastructure": {"parametersRef": {
                    "group": "causeway.dev", "kind": "GatewayParameters", "name": "front",
                }},
                "listeners": [{"name": "http", "port": 80, "protocol": "HTTP"}],
            },
        }),
        json!({
            "apiVersion": group, "kind": "HTTPRoute", "metadata": {"name": "front"},
            "spec": {"parentRefs": [{"name": "front"}], "rules": rules},
        }),
        json!({
            "apiVersion": "causeway.dev/v1alpha1", "kind": "GatewayHostnameRequest", "metadata": {"name": "shop"},
            "spec": {"zoneId": "apps.crossings.test", "hostname": PUBLISHED},
        }),
        json!({
            "apiVersion": group, "kind": "HTTPRoute", "metadata": {"name": "published"},
            "spec": {
                "parentRefs": [{"name": "gw-01", "namespace": EDGE}], "hostnames": [PUBLISHED], "rules": rules,
            },
        }),
    ]
}

/// Asks for the published hostname as its users do: by our own DNS server, with our own authority.
fn ask_published(cluster: &TestCluster, world: &World) -> Result<(), String> {
    let edge = cluster.kubectl(EDGE);
    let authority = edge.run(&["get", "configmap/causeway-local-ca", "-o", "jsonpath={.data['ca\\.crt']}"]);
    fs::write(world.file("ca.crt"), &authority.stdout).unwrap();
    let server = format!("@{}", edge.value("service/hostnames-dns", ".spec.clusterIP"));
    let found = finish(cluster.on_node("dig").args(["+short", "+time=2", "+tries=2", &server, PUBLISHED]));
    let address = found.stdout.lines().next().ok_or_else(|| format!("{PUBLISHED} is not in DNS: {found}"))?;
    let mut curl = cluster.on_node("curl");
    curl.args(["-sS", "--max-time", "5", "--cacert", &world.file("ca.crt")]);
    curl.args(["--resolve", &format!("{PUBLISHED}:443:{address}"), &format!("https://{PUBLISHED}/")]);
    let answer = finish(&mut curl);
    if answer.stdout.starts_with("web") { Ok(()) } else { Err(answer.to_string()) }
}

/// Every Deployment of more pods than one has a budget, as a drain would take them all at once otherwise.
fn budgets_are_there(admin: &Kubectl) {
    let list = |kind: &str| -> Vec<Value> {
        let ours =
            ["get", kind, "--all-namespaces", "-l", "app.kubernetes.io/part-of=causeway", "-o", "json"];
        let made =
            ["get", kind, "--all-namespaces", "-l", "app.kubernetes.io/managed-by=causeway", "-o", "json"];
        let items =
            [&ours[..], &made].map(|args| -> Value { serde_json::from_str(&admin.ok(args)).unwrap() });
        items.iter().flat_map(|list| list["items"].as_array().unwrap().clone()).collect()
    };
    let budgets = list("poddisruptionbudgets");
    let is_covered = |deployment: &Value| {
        let labels = &deployment["spec"]["template"]["metadata"]["labels"];
        budgets.iter().any(|budget| {
            let selected = budget["spec"]["selector"]["matchLabels"].as_object().unwrap();
            budget["metadata"]["namespace"] == deployment["metadata"]["namespace"]
                && selected.iter().all(|(key, value)| labels[key] == *value)
        })
    };
    let mut several = list("deployments");
    several.retain(|deployment| deployment["spec"]["replicas"].as_u64() > Some(1));
    let name = |deployment: &Value| deployment["metadata"]["name"].as_str().unwrap().to_owned();
    println!("of more than one pod: {}", several.iter().map(name).collect::<Vec<_>>().join(", "));
    // The operator, the Gateway, developers' machines and a carrier at least.
    assert!(several.len() >= 4, "{several:?}");
    let bare: Vec<String> = several.iter().filter(|one| !is_covered(one)).map(name).collect();
    assert!(bare.is_empty(), "without a budget: {bare:?}");
}

/// Asks for names on the VLAN and for the published hostname for as long as something takes. What has one pod is away while that is
/// moved: for how long is told.
fn ask_meanwhile(cluster: &TestCluster, world: &World, work: impl FnOnce()) {
    struct Over<'a>(&'a AtomicBool);
    impl Drop for Over<'_> {
        fn drop(&mut self) {
            self.0.store(true, Ordering::Relaxed);
        }
    }
    let is_over = AtomicBool::new(false);
    let each = |what: &str, ask: &dyn Fn() -> bool| {
        let (mut asked, mut failed) = (0, 0);
        while !is_over.load(Ordering::Relaxed) {
            asked += 1;
            failed += u32::from(!ask());
            thread::sleep(Duration::from_millis(100));
        }
        println!("{what}: asked {asked} times, {failed} without an answer");
        assert!(failed < asked, "{what} is never answered");
    };
    thread::scope(|scope| {
        scope.spawn(|| {
            each("names on the VLAN", &|| {
                let dig = format!("dig +short +tries=1 +time=1 @192.168.100.3 {HOST} || true");
                world.on_vm(&dig).trim() == FIRST
            });
        });
        scope.spawn(|| each("the published hostname", &|| ask_published(cluster, world).is_ok()));
        // Also when it fails.
        let _over = Over(&is_over);
        work();
    });
}

/// 50 requests a second at the Gateway's address.
fn at_the_gateway(address: &str) -> asking::Load {
    eventually("the Gateway answers", PATIENCE, || answers(address, None, "web"));
    let asked = asking::Asked {
        at: (address.to_owned(), 80),
        headers: Vec::new(),
        answerers: vec!["web"],
        pause: Duration::from_millis(40),
    };
    asking::Load::start(&asked, enter)
}

/// Everybody who uses a crossing, all the time.
struct Users {
    machine: Load,
    gateway: asking::Load,
    target: asking::Load,
}

impl Users {
    fn start(world: &World, gateway: &str, target: &str) -> Self {
        let users = Self {
            machine: Load::start(world, HOST, [FIRST, SECOND]),
            gateway: at_the_gateway(gateway),
            target: others(target),
        };
        users.go_on();
        users
    }

    fn go_on(&self) {
        let ended = self.machine.ended();
        eventually("machines are answered", PATIENCE, || self.machine.ended() > ended + 100);
        self.gateway.goes_on(50);
        self.target.goes_on(50);
    }

    /// Nobody lost a request; whoever asks beside an intercept goes on.
    fn stop(self, what: &str) -> asking::Load {
        self.machine.stop().check(&format!("{what}, machines of the VLAN"));
        self.gateway.end_well(&format!("{what}, at the Gateway"));
        self.target
    }
}

#[test]
fn all_crossings_are_brought_in_drained_upgraded_and_taken_out() {
    let Some(world) = World::alone("crossings") else { return };
    let cluster = cluster().unwrap();
    let (admin, system) = (cluster.kubectl(""), cluster.kubectl("causeway-system"));
    let next = format!("causeway.dev/causeway:{NEXT}");
    cluster.load(&Image::of_program(&next, program().as_ref(), "causeway").unwrap()).unwrap();
    let _installed = Installed;
    let ada = Laptop::new(&world, "ada", 13_081);
    eventually("nothing of other tests is left", PATIENCE, || {
        let ran = ada.run(&["uninstall", "--all", "--crds", "--yes"]);
        if ran.code == Some(0) { Ok(()) } else { Err(ran.to_string()) }
    });
    // What is reached is not of Causeway, and not what is drained.
    let cordoned = Cordoned::new(&admin, "node-2");
    world.server("shop");
    world.http_server("web");
    drop(cordoned);
    world.on_vm("ip address flush dev eth0");
    let _leases = ["", "-2"].map(|of| volume(&world, &format!("lab-dhcp-dhcp{of}-leases")));
    let before = inventory(&admin);

    // From nothing to every crossing in use.
    let began = Instant::now();
    let values = world.file("values.yaml");
    fs::write(&values, "proxies: {engine: native}\nhostnames: {domains: [apps.crossings.test]}\n").unwrap();
    ada.run(&["install", "--values", &values]).ok();
    println!("installed after {:.1?}", began.elapsed());
    let since = Instant::now();
    world.kubectl.apply(&infra(&world.kubectl.namespace).to_string()).ok();
    let [parameters, gateway, route, request, published] = published();
    for object in [parameters, gateway, route, request] {
        world.kubectl.apply(&object.to_string()).ok();
    }
    ada.connect("link");
    ada.intercept_mine("deploy/web").ok();
    for (object, condition) in [
        ("infra/lab", "Ready"),
        ("gateway/front", "Programmed"),
        ("ghr/shop", "Ready"),
        ("workstation/ada", "Ready"),
        ("interceptrequest/web-8080-ada", "Ready"),
    ] {
        world.wait(object, condition);
        println!("{object} is {condition} {:.1?} after it was applied", since.elapsed());
    }
    println!("every crossing is Ready {:.1?} after nothing was there", began.elapsed());
    let gateway = world.kubectl.value("gateway/front", ".status.addresses[0].value");
    let web = world.kubectl.value("service/web", ".spec.clusterIP");
    let lease = boot(&world, &world.vm, "one");
    assert_eq!(told(&lease, "dns"), "192.168.100.3");
    assert_eq!(world.on_vm(&format!("dig +short +tries=5 +time=1 @192.168.100.3 {HOST}")).trim(), FIRST);
    let assigned = world.kubectl.value("ghr/shop", ".status.assignedGateway");
    assert_eq!(assigned, "gw-01");
    world.kubectl.apply(&published.to_string()).ok();
    eventually("the published hostname is answered", PATIENCE, || ask_published(cluster, &world));
    eventually("the laptop gets what is its own", PATIENCE, || answers(&web, Some("ada"), "ada"));
    let check: Value = serde_json::from_str(&ada.run(&["check", "-o", "json"]).ok()).unwrap();
    assert_ne!(check["result"], "fail", "{check}");

    // A node is emptied, as for its repair.
    budgets_are_there(&admin);
    let users = Users::start(&world, &gateway, &web);
    let drain =
        ["drain", "node-2", "--ignore-daemonsets", "--delete-emptydir-data", "--force", "--timeout=180s"];
    let drained = Instant::now();
    let cordoned = Cordoned(&admin, "node-2");
    ask_meanwhile(cluster, &world, || drop(admin.ok(&drain)));
    println!("drained after {:.1?}", drained.elapsed());
    let ready = |what: &str| {
        for object in ["infra/lab", "ghr/shop", "interceptrequest/web-8080-ada"] {
            world.wait(object, "Ready");
        }
        world.wait("gateway/front", "Programmed");
        eventually(&format!("the published hostname is answered {what}"), PATIENCE, || {
            ask_published(cluster, &world)
        });
        eventually(&format!("the laptop gets what is its own {what}"), PATIENCE, || {
            answers(&web, Some("ada"), "ada")
        });
        assert_eq!(told(&boot(&world, &world.vm, "one"), "ip"), told(&lease, "ip"), "{what}");
    };
    ready("after the drain");
    users.go_on();
    users.stop("a drained node").end_well("a drained node, beside an intercept");
    drop(cordoned);

    // Everything becomes the next version.
    let users = Users::start(&world, &gateway, &web);
    let upgraded = Instant::now();
    let tag = format!("image.tag={NEXT}");
    ada.run(&["install", "--values", &values, "--set", &tag]).ok();
    let ours = "jsonpath={range .items[*]}{.metadata.name} {.spec.containers[0].image} {.metadata.deletionTimestamp}{\"\\n\"}{end}";
    eventually("every pod is of the next version", Duration::from_mins(5), || {
        let of_data_planes = ["get", "pods", "-l", "app.kubernetes.io/managed-by=causeway", "-o", ours];
        let all =
            [&world.kubectl, &system, &cluster.kubectl(EDGE)].map(|kubectl| kubectl.ok(&of_data_planes));
        let older: Vec<&str> = all
            .iter()
            .flat_map(|pods| pods.lines())
            .filter(|line| !line.trim_end().ends_with(&next))
            .collect();
        if older.is_empty() { Ok(()) } else { Err(older.join("\n")) }
    });
    println!("every pod is of the next version after {:.1?}", upgraded.elapsed());
    ready("after the upgrade");
    users.go_on();
    let target = users.stop("an upgrade");

    // And out: targets first, and nothing stays. Gateways and routes are people's own.
    world.kubectl.ok(&["delete", "gateways,httproutes", "--all", "--timeout=60s"]);
    target.note("uninstall");
    let done = ada.run(&["uninstall", "--all", "--crds", "--yes"]).ok();
    assert!(done.contains("nothing is left"), "{done}");
    answers(&web, Some("ada"), "web").unwrap();
    target.goes_on(50);
    target.end_well("an upgrade and uninstalling, beside an intercept");
    world.kubectl.run(&["delete", "pvc", "--all", "--timeout=30s"]);
    eventually("the cluster is as it was", PATIENCE, || {
        let now = inventory(&admin);
        let (more, less): (Vec<_>, Vec<_>) =
            (now.difference(&before).collect(), before.difference(&now).collect());
        if more.is_empty() && less.is_empty() { Ok(()) } else { Err(format!("more {more:?}, less {less:?}")) }
    });
    println!("{} objects before, and the same ones after", before.len());
    for volume in ["lab-dhcp-dhcp-leases", "lab-dhcp-dhcp-2-leases"] {
        admin.run(&["delete", "pv", volume, "--wait=false"]);
    }
}
