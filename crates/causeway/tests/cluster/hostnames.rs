//! A hostname that a team publishes by itself: as the shipped operator does it, with the rights that it is shipped with.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};

use causeway_testkit::blocking::eventually;
use causeway_testkit::kubectl::{Kubectl, Ran, finish};
use causeway_testkit::kubernetes::{Kubernetes, TestCluster};
use causeway_testkit::server::program;

use crate::world::{PATIENCE, World, cluster};

const ZONE: &str = "apps.hostnames.test";
const NAME: &str = "shop.apps.hostnames.test";
const EDGE: &str = "causeway-edge";
/// The name in another case, with a dot at the end, as a U-label, in full width and with another full stop.
const UNKNOWN_FORMS: [&str; 6] = [
    "SHOP.apps.hostnames.test",
    "shop.apps.hostnames.test.",
    "SHOP.apps.hostnames.test.",
    "shöp.apps.hostnames.test",
    "ｓｈｏｐ.apps.hostnames.test",
    "shop。apps.hostnames.test",
];

struct Teams {
    world: World,
    cluster: &'static TestCluster,
    rival: Kubectl,
    edge: Kubectl,
    admin: Kubectl,
}

impl Teams {
    fn request(hostname: &str) -> String {
        format!(
            "apiVersion: causeway.dev/v1alpha1\nkind: GatewayHostnameRequest\nmetadata: {{name: shop}}\n\
             spec: {{zoneId: {ZONE}, hostname: '{hostname}'}}\n"
        )
    }

    fn route(hostname: &str, gateway: &str) -> String {
        Self::route_of("HTTPRoute", hostname, gateway)
    }

    fn route_of(kind: &str, hostname: &str, gateway: &str) -> String {
        format!(
            "apiVersion: gateway.networking.k8s.io/v1\nkind: {kind}\nmetadata: {{name: shop}}\n\
             spec:\n  parentRefs: [{{name: {gateway}, namespace: {EDGE}}}]\n  hostnames: ['{hostname}']\n  \
             rules: [{{backendRefs: [{{name: shop, port: 80}}]}}]\n"
        )
    }

    fn said(kubectl: &Kubectl) -> String {
        kubectl.value("ghr/shop", ".status.conditions")
    }

    /// A client on the first node, who asks our own DNS server and trusts our own authority.
    fn curl(&self) -> Result<(), String> {
        let server = self.edge.value("service/hostnames-dns", ".spec.clusterIP");
        let dig = finish(self.cluster.on_node("dig").args([
            "+short",
            "+time=2",
            "+tries=1",
            &format!("@{server}"),
            NAME,
        ]));
        let address = dig.stdout.lines().next().unwrap_or_default().to_owned();
        if address.is_empty() {
            return Err(format!("{NAME} is not in DNS: {dig}"));
        }
        let mut curl = self.cluster.on_node("curl");
        curl.args(["-sS", "--max-time", "5", "--cacert", &self.world.file("ca.crt")]);
        curl.args(["--resolve", &format!("{NAME}:443:{address}"), &format!("https://{NAME}/")]);
        let ran = finish(&mut curl);
        if ran.stdout.starts_with("shop") { Ok(()) } else { Err(ran.to_string()) }
    }

    fn causeway(&self, args: &[&str]) -> Ran {
        // Where a user of the cluster's network would run it.
        let mut command = self.cluster.on_node(program());
        finish(command.args(args).env("KUBECONFIG", Kubernetes::kubeconfig(self.cluster)))
    }

    /// What hostnames are made of, and is there.
    fn left(&self) -> Vec<String> {
        let mut left: Vec<String> = Vec::new();
        for kind in
            ["domainclaims", "gateways", "listenersets", "httproutes", "trafficpolicies", "gatewayplans"]
        {
            left.extend(self.edge.ok(&["get", kind, "-o", "name"]).lines().map(ToOwned::to_owned));
        }
        let secrets = self.edge.ok(&["get", "secrets", "-o", "name"]);
        left.extend(secrets.lines().filter(|name| name.contains("hostname-")).map(ToOwned::to_owned));
        // Our own DNS server goes with the last record.
        let server = self.edge.ok(&["get", "configmap", "hostnames-dns", "--ignore-not-found", "-o", "name"]);
        let pods = self.edge.ok(&["get", "pods", "-o", "name"]);
        left.extend(server.lines().chain(pods.lines()).map(ToOwned::to_owned));
        left
    }
}

/// kubectl of somebody who may edit one namespace, and its routes: those are in no role of the cluster's unless an administrator says so.
fn editor(world: &World, admin: &Kubectl, namespace: &str) -> Kubectl {
    admin.ok(&["create", "serviceaccount", "mallory", "-n", namespace]);
    let account = format!("--serviceaccount={namespace}:mallory");
    admin.ok(&["create", "rolebinding", "mallory", "-n", namespace, "--clusterrole=edit", &account]);
    let routes =
        ["httproutes", "grpcroutes", "tlsroutes"].map(|kind| format!("{kind}.gateway.networking.k8s.io"));
    let routes = format!("--resource={}", routes.join(","));
    let verbs = "--verb=create,delete,get,list,patch,update,watch";
    admin.ok(&["create", "role", "routes", "-n", namespace, verbs, &routes]);
    admin.ok(&["create", "rolebinding", "routes", "-n", namespace, "--role=routes", &account]);
    let token = admin.ok(&["create", "token", "mallory", "-n", namespace, "--duration=1h"]);
    let config = world.file("mallory.kubeconfig");
    std::fs::copy(cluster().unwrap().kubeconfig(), &config).unwrap();
    let home = std::path::Path::new(&config).parent().unwrap();
    let kubectl = Kubectl::new(config.as_ref(), home, namespace);
    kubectl.ok(&["config", "set-credentials", "mallory", "--token", token.trim()]);
    kubectl.ok(&["config", "set-context", "--current", "--user=mallory"]);
    kubectl
}

#[test]
fn a_team_publishes_a_hostname_and_nobody_else_has_it() {
    let Some(world) = World::alone("hostnames") else { return };
    let Some(cluster) = cluster() else { return };
    let (admin, edge) = (cluster.kubectl(""), cluster.kubectl(EDGE));
    cluster.namespace("hostnames-rival");
    let rival = editor(&world, &admin, "hostnames-rival");
    let teams = Teams { world, cluster, rival, edge, admin };
    let (team, admin) = (&teams.world.kubectl, &teams.admin);
    teams.world.http_server("shop");

    // Where nobody uses hostnames, nobody may ask and nobody is restrained.
    team.apply(&Teams::request(NAME)).ok();
    eventually("there is no zone to ask in", PATIENCE, || {
        let said = Teams::said(team);
        if said.contains("ZoneNotFound") { Ok(()) } else { Err(said) }
    });
    teams.rival.apply(&Teams::route(NAME, "gw-01")).ok();
    teams.rival.ok(&["delete", "httproute", "shop"]);

    let zone = format!(
        "apiVersion: causeway.dev/v1alpha1\nkind: HostnameZone\nmetadata: {{name: hostnames-test}}\n\
         spec: {{zoneId: {ZONE}, domain: {ZONE}, gatewayClass: causeway}}\n"
    );
    admin.apply(&zone).ok();
    teams.world.wait("ghr/shop", "Ready");
    let gateway = team.value("ghr/shop", ".status.assignedGateway");
    team.apply(&Teams::route(NAME, &gateway)).ok();
    let authority = teams.edge.value("configmap/causeway-local-ca", ".data['ca\\.crt']");
    std::fs::write(teams.world.file("ca.crt"), authority).unwrap();
    eventually("curl is answered through the gateway", PATIENCE, || teams.curl());
    let enforced = admin.ok(&[
        "get",
        "namespace",
        EDGE,
        "-o",
        "jsonpath={.metadata.labels.pod-security\\.kubernetes\\.io/enforce}",
    ]);
    assert_eq!(enforced, "restricted", "the pods of gateway and DNS server run under it");
    let warnings = admin.ok(&[
        "get",
        "validatingadmissionpolicy",
        "causeway-hostnames",
        "-o",
        "jsonpath={.status.typeChecking}",
    ]);
    assert_eq!(warnings, "{}", "the policy's expressions fit the types");
    let doctor = teams.causeway(&["doctor", "hostname/shop", "-n", "hostnames"]);
    assert_eq!(doctor.code, Some(0), "{doctor}");
    let table = teams.causeway(&["hostnames", "-n", "hostnames"]);
    assert!(table.stdout.contains(NAME) && table.stdout.contains("Ready"), "{table}");

    others_are_refused(&teams, &gateway);
    drift_is_repaired(&teams, &gateway);
    the_operator_is_killed(&teams);

    // The one who waits is next; then nothing is left.
    team.ok(&["delete", "ghr/shop", "--timeout=60s"]);
    eventually("the other team has it", PATIENCE, || {
        let ready = teams.rival.value("ghr/shop", ".status.conditions[?(@.type==\"Ready\")].status");
        if ready == "True" { Ok(()) } else { Err(Teams::said(&teams.rival)) }
    });
    teams.rival.ok(&["delete", "ghr/shop", "--timeout=60s"]);
    team.run(&["delete", "ghr", "--all", "--timeout=60s"]).ok();
    eventually("nothing is left", PATIENCE, || {
        let left = teams.left();
        if left.is_empty() { Ok(()) } else { Err(left.join("\n")) }
    });
    admin.ok(&["delete", "hostnamezone", "hostnames-test", "--timeout=60s"]);
    eventually("nobody is restrained any more", PATIENCE, || {
        let left = admin.ok(&["get", "hostnamegrants", "-A", "-o", "name"]);
        if left.is_empty() { Ok(()) } else { Err(left) }
    });
    let logs = admin.ok(&["logs", "-n", "causeway-system", "-l", "app=causeway-operator", "--tail=-1"]);
    let refused: Vec<&str> = logs.lines().filter(|line| line.contains("forbidden")).collect();
    assert!(refused.is_empty(), "the operator lacks rights: {refused:#?}");
    admin.run(&["delete", "namespace", "hostnames-rival", "--wait=false"]).ok();
}

fn others_are_refused(teams: &Teams, gateway: &str) {
    let (rival, admin) = (&teams.rival, &teams.admin);
    rival.apply(&Teams::request(&format!("{}.", NAME.to_uppercase()))).ok();
    eventually("it is told who has the name", PATIENCE, || {
        let said = Teams::said(rival);
        if said.contains("AlreadyClaimed") && said.contains("hostnames/shop") { Ok(()) } else { Err(said) }
    });
    eventually("the API server compares routes with what is held", PATIENCE, || {
        let ran = rival.apply(&Teams::route(NAME, gateway));
        if ran.code != Some(0) && ran.stderr.contains("does not hold") {
            return Ok(());
        }
        rival.run(&["delete", "httproute", "shop"]);
        Err(ran.to_string())
    });
    for kind in ["HTTPRoute", "GRPCRoute", "TLSRoute"] {
        for form in [NAME, "*.apps.hostnames.test", "*.hostnames.test", "below.shop.apps.hostnames.test"] {
            let refused = rival.apply(&Teams::route_of(kind, form, gateway)).fails();
            assert!(refused.contains("does not hold"), "{kind} {form}: {refused}");
        }
        // In forms that Gateway API itself does not know.
        for form in UNKNOWN_FORMS {
            let refused = rival.apply(&Teams::route_of(kind, form, gateway)).fails();
            let is_refused = refused.contains("should match") || refused.contains("does not hold");
            assert!(is_refused, "{kind} {form}: {refused}");
        }
    }
    // By writing what only the operator and the platform team write.
    let owner = "{namespace: hostnames-rival, name: shop, uid: made-up}";
    for (kind, spec) in [
        ("HostnameGrant", format!("{{hostnames: [{NAME}], zones: []}}")),
        ("DomainClaim", format!("{{zoneId: other, hostname: {NAME}, ownerRef: {owner}}}")),
        ("HostnameZone", format!("{{zoneId: {ZONE}, domain: {ZONE}}}")),
    ] {
        let object = format!(
            "apiVersion: causeway.dev/v1alpha1\nkind: {kind}\nmetadata: {{name: thief}}\nspec: {spec}\n"
        );
        let refused = rival.apply(&object).fails();
        assert!(refused.contains("forbidden"), "{kind}: {refused}");
    }
    // Before the operator has seen the namespace.
    for number in 0..5 {
        let namespace = format!("hostnames-new-{number}");
        let kubectl = teams.cluster.namespace(&namespace);
        let refused = kubectl.apply(&Teams::route(NAME, gateway)).fails();
        assert!(refused.contains("does not hold"), "{refused}");
        kubectl.apply(&Teams::route("elsewhere.example", gateway)).ok();
        admin.run(&["delete", "namespace", &namespace, "--wait=false"]).ok();
    }
    for arguments in [
        &["patch", "hostnamegrant", "hostnames", "--type=merge", "-p", r#"{"spec": {"zones": []}}"#][..],
        &["delete", "hostnamegrant", "hostnames"],
        &["delete", "domainclaims", "--all"],
        &["get", "secrets", "-n", EDGE],
        &[
            "patch",
            "ghr/shop",
            "--subresource=status",
            "--type=merge",
            "-p",
            r#"{"status": {"hostnames": []}}"#,
        ],
    ] {
        let refused = rival.fails(arguments);
        assert!(refused.contains("forbidden") || refused.contains("Forbidden"), "{arguments:?}: {refused}");
    }
}

fn drift_is_repaired(teams: &Teams, gateway: &str) {
    let patch = format!(r#"{{"data": {{"zone.{ZONE}": null, "plan.json": "{{}}"}}}}"#);
    teams.edge.ok(&["patch", "configmap", "hostnames-dns", "--type=merge", "-p", &patch]);
    eventually("the record is back", PATIENCE, || {
        let zones = teams.edge.value("configmap/hostnames-dns", ".data");
        if zones.contains(NAME) { Ok(()) } else { Err(zones) }
    });
    let before = teams.edge.value(&format!("gateway/{gateway}"), ".metadata.uid");
    teams.edge.ok(&["delete", "gateway", gateway]);
    eventually("the gateway is back", PATIENCE, || {
        let now = teams.edge.run(&["get", "gateway", gateway, "-o", "jsonpath={.metadata.uid}"]);
        if now.code == Some(0) && now.stdout != before { Ok(()) } else { Err(now.to_string()) }
    });
    let certificate =
        |field: &str| teams.world.kubectl.value("ghr/shop", &format!(".status.certificate.{field}"));
    let before = certificate("serial");
    teams.edge.ok(&["delete", "secret", &certificate("secretName")]);
    eventually("another certificate is served", PATIENCE, || {
        let now = certificate("serial");
        let is_new = now != before && !now.is_empty();
        if is_new { Ok(()) } else { Err(Teams::said(&teams.world.kubectl)) }
    });
    eventually("it answers again", PATIENCE, || teams.curl());
    eventually("it is told", PATIENCE, || {
        let events = teams.world.kubectl.ok(&["get", "events"]);
        if events.contains("DriftDetected") { Ok(()) } else { Err(events) }
    });
}

/// What is served goes on; what was asked for meanwhile is done by the next.
fn the_operator_is_killed(teams: &Teams) {
    let (ends, failed) = (AtomicBool::new(false), Mutex::new(Vec::new()));
    let second = Teams::request("second.apps.hostnames.test").replace("name: shop", "name: second");
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !ends.load(Ordering::Relaxed) {
                if let Err(why) = teams.curl() {
                    failed.lock().unwrap().push(why);
                }
            }
        });
        teams.world.kubectl.apply(&second).ok();
        let kill = [
            "delete",
            "pods",
            "-n",
            "causeway-system",
            "-l",
            "app=causeway-operator",
            "--force",
            "--grace-period=0",
        ];
        teams.admin.ok(&kill);
        let outcome = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            teams.world.wait("ghr/second", "Ready");
        }));
        ends.store(true, Ordering::Relaxed);
        if let Err(panic) = outcome {
            std::panic::resume_unwind(panic);
        }
    });
    assert_eq!(*failed.lock().unwrap(), Vec::<String>::new());
    let claims = teams.admin.ok(&["get", "domainclaims", "-o", "name"]);
    assert_eq!(claims.lines().count(), 2, "{claims}");
}
