//! Hostnames in servers of others, with certificates of another authority: as the shipped operator reaches them from its pod, with the
//! rights that it is shipped with.

use causeway_testkit::blocking::eventually;
use causeway_testkit::kubectl::{Kubectl, finish};
use causeway_testkit::moto::Moto;
use causeway_testkit::name_server::{NameServer, Software, dig};
use causeway_testkit::pebble::Pebble;

use crate::world::{PATIENCE, World, cluster, there};

const EDGE: &str = "causeway-edge";

/// A team that publishes one name.
struct Team {
    world: World,
    admin: Kubectl,
    edge: Kubectl,
    name: &'static str,
}

impl Team {
    fn new(world: World, name: &'static str) -> Self {
        let [admin, edge] = ["", EDGE].map(|namespace| cluster().unwrap().kubectl(namespace));
        Self { world, admin, edge, name }
    }

    /// Asks for the name in a zone, and routes it to a server of its own; where it is served.
    fn publish(&self, zone: &str) -> String {
        let (kubectl, name) = (&self.world.kubectl, self.name);
        self.world.http_server("shop");
        let request = format!(
            "apiVersion: causeway.dev/v1alpha1\nkind: GatewayHostnameRequest\nmetadata: {{name: shop}}\n\
             spec: {{zoneId: {zone}, hostname: {name}}}\n"
        );
        kubectl.apply(&request).ok();
        self.world.wait("ghr/shop", "Ready");
        let gateway = kubectl.value("ghr/shop", ".status.assignedGateway");
        let route = format!(
            "apiVersion: gateway.networking.k8s.io/v1\nkind: HTTPRoute\nmetadata: {{name: shop}}\n\
             spec:\n  parentRefs: [{{name: {gateway}, namespace: {EDGE}}}]\n  hostnames: [{name}]\n  \
             rules: [{{backendRefs: [{{name: shop, port: 80}}]}}]\n"
        );
        kubectl.apply(&route).ok();
        kubectl.value("ghr/shop", ".status.addresses[0]")
    }

    /// The server answers a client who trusts only who signed the certificate.
    fn is_answered(&self, address: &str) {
        let secret = self.world.kubectl.value("ghr/shop", ".status.certificate.secretName");
        let path = "-o=go-template={{index .data \"tls.crt\" | base64decode}}";
        let chain = self.edge.ok(&["get", &format!("secret/{secret}"), path]);
        let authority = self.world.file("chain.pem");
        std::fs::write(&authority, chain).unwrap();
        let name = self.name;
        eventually("curl is answered through the gateway", PATIENCE, || {
            let mut curl = cluster().unwrap().on_node("curl");
            curl.args(["-sS", "--max-time", "5", "--cacert", &authority]);
            curl.args(["--resolve", &format!("{name}:443:{address}"), &format!("https://{name}/")]);
            let ran = finish(&mut curl);
            if ran.stdout.starts_with("shop") { Ok(()) } else { Err(ran.to_string()) }
        });
    }

    /// Gives the name back; nothing of it is left. Whoever made the zone and its Secrets removes them.
    fn leave(&self, zone: &str, secrets: &[&str]) {
        self.world.kubectl.ok(&["delete", "ghr/shop", "--timeout=60s"]);
        eventually("claims, gateways and certificates are gone", PATIENCE, || {
            let mut left = self.edge.ok(&["get", "domainclaims,gateways", "-o", "name"]);
            let secrets = self.edge.ok(&["get", "secrets", "-o", "name"]);
            left.extend(secrets.lines().filter(|name| name.contains("hostname-")));
            if left.is_empty() { Ok(()) } else { Err(left) }
        });
        self.admin.ok(&["delete", "hostnamezone", zone, "--timeout=60s"]);
        self.admin.ok(&[&["delete", "secrets", "-n", "causeway-system"], secrets].concat());
    }
}

fn published_with_pebble(namespace: &str, challenge: &str) {
    let Some(world) = World::alone(namespace) else { return };
    let (_, node) = cluster().unwrap().node_network();
    let Some(names) = there(|| NameServer::start_on(node.into(), Software::Knot, "lab.test", "")) else {
        return;
    };
    let Some(pebble) = there(|| Pebble::start_on(node.into(), names.address)) else { return };
    let team = Team::new(world, "shop.lab.test");
    team.admin.apply(&pebble.manifest("lab-pebble")).ok();
    let issuer = format!("{}, challenge: {challenge}", pebble.issuer("lab-pebble"));
    team.admin.apply(&names.manifests("lab", &issuer)).ok();
    let address = team.publish("lab.test");
    let answer = there(|| dig(names.address, &["+short", "a", team.name]));
    assert_eq!(answer.trim(), address, "what the server says of the name");
    let issuer = team.world.kubectl.value("ghr/shop", ".status.certificate.issuer");
    assert!(issuer.contains("Pebble"), "{issuer}");
    team.is_answered(&address);
    team.leave("lab", &["lab-key", "lab-pebble"]);
    assert_eq!(there(|| names.names()), [""; 0], "a request that is gone has nothing in DNS");
}

#[test]
fn a_name_in_knot_with_a_certificate_that_was_proven_there() {
    published_with_pebble("hostnames-acme", "DNS-01");
}

#[test]
fn a_name_in_knot_with_a_certificate_that_our_own_gateway_has_proven() {
    published_with_pebble("hostnames-http", "HTTP-01");
}

#[test]
fn a_name_in_route_53() {
    let Some(world) = World::alone("hostnames-aws") else { return };
    let (_, node) = cluster().unwrap().node_network();
    let Some(moto) = there(|| Moto::start_on(node.into())) else { return };
    let records = |zone: &str| {
        let list = format!(
            "for record in route53.list_resource_record_sets(HostedZoneId='{zone}')['ResourceRecordSets']:\n  \
             if record['Type'] not in ('NS', 'SOA'): print(record['Name'], record['Type'], record.get('ResourceRecords'))"
        );
        there(|| moto.python(&list))
    };
    let made =
        "print(route53.create_hosted_zone(Name='cloud.test', CallerReference='cloud')['HostedZone']['Id'])";
    let id = there(|| moto.python(made)).trim_start_matches("/hostedzone/").to_owned();
    let team = Team::new(world, "shop.cloud.test");
    let zone = format!(
        "apiVersion: v1\nkind: Secret\nmetadata: {{name: cloud, namespace: causeway-system}}\n\
         stringData: {{accessKeyId: cluster, secretAccessKey: test}}\n---\n\
         apiVersion: causeway.dev/v1alpha1\nkind: HostnameZone\nmetadata: {{name: cloud}}\nspec:\n  \
         zoneId: {id}\n  domain: cloud.test\n  gatewayClass: causeway\n  certificates: {{issuer: local}}\n  \
         dns: {{provider: aws, credentialsSecret: cloud, region: eu-central-1, endpoint: '{}'}}\n",
        moto.endpoint()
    );
    team.admin.apply(&zone).ok();
    let address = team.publish(&id);
    let found = records(&id);
    let own = found.lines().find(|line| line.starts_with("shop.cloud.test. A"));
    assert!(own.is_some_and(|line| line.contains(&address)), "{address}: {found}");
    team.is_answered(&address);
    team.leave("cloud", &["cloud"]);
    assert_eq!(records(&id), "", "a request that is gone has nothing in DNS");
}
