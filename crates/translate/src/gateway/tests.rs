mod attachment;
mod backends;
mod lessons;
mod listeners;
mod plans;
mod properties;
mod rules;
mod scale;
mod sets;
mod traffic;
mod unread;

use causeway_ir::http::{Http, HttpRoute};
use causeway_ir::{Action, Plan, Protocol, Then};
use kube::core::DynamicObject;
use serde_json::{Value, json};

use super::kinds::{ObjectRef, RouteKind};
use super::world::{Address, AddressKind, Observed};
use super::*;

/// A class, two namespaces, and in each of them the Services `web` and `api` with port 8080 and one endpoint.
pub(super) struct Scene {
    objects: Vec<Value>,
    observed: BTreeMap<ObjectRef, Observed>,
}

fn yaml(text: &str) -> Value {
    serde_saphyr::from_str(text).unwrap_or_else(|error| panic!("{error}: {text}"))
}

/// An object of any kind; `spec` is YAML.
pub(super) fn object(kind: &str, namespace: &str, name: &str, spec: &str) -> Value {
    let version = match kind {
        "Service" | "Namespace" | "Secret" | "ConfigMap" => "v1",
        "EndpointSlice" => "discovery.k8s.io/v1",
        "GatewayParameters" | "TrafficPolicy" => "causeway.dev/v1alpha1",
        _ => "gateway.networking.k8s.io/v1",
    };
    json!({
        "apiVersion": version, "kind": kind, "spec": yaml(spec),
        "metadata": {
            "name": name, "namespace": namespace, "generation": 2, "creationTimestamp": "2026-01-01T00:00:00Z",
        },
    })
}

/// The same, created in another year.
pub(super) fn aged(year: u16, mut object: Value) -> Value {
    object["metadata"]["creationTimestamp"] = json!(format!("{year}-01-01T00:00:00Z"));
    object
}

pub(super) fn service(namespace: &str, name: &str, ports: &str, address: &str) -> [Value; 2] {
    let service = object("Service", namespace, name, &format!("{{ports: {ports}}}"));
    let numbers: Vec<Value> = service["spec"]["ports"]
        .as_array()
        .unwrap()
        .iter()
        .map(|port| json!({"name": port["name"].as_str().unwrap_or_default(), "port": 3000, "protocol": port["protocol"]}))
        .collect();
    let slice = json!({
        "apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice", "addressType": "IPv4", "ports": numbers,
        "metadata": {
            "name": format!("{name}-1"), "namespace": namespace, "labels": {"kubernetes.io/service-name": name},
        },
        "endpoints": [{"addresses": [address]}],
    });
    [service, slice]
}

/// A Secret with a certificate for every name.
pub(super) fn secret(namespace: &str, name: &str) -> Value {
    secret_of(namespace, name, (2020, 4096))
}

/// One that counts from a year to another.
pub(super) fn secret_of(namespace: &str, name: &str, (from, to): (i32, i32)) -> Value {
    let mut params = rcgen::CertificateParams::new(["*".to_owned()]).unwrap();
    params.not_before = rcgen::date_time_ymd(from, 1, 1);
    params.not_after = rcgen::date_time_ymd(to, 1, 1);
    let key = rcgen::KeyPair::generate().unwrap();
    json!({
        "apiVersion": "v1", "kind": "Secret", "metadata": {"name": name, "namespace": namespace},
        "stringData": {"tls.crt": params.self_signed(&key).unwrap().pem(), "tls.key": key.serialize_pem()},
    })
}

/// A ConfigMap with an authority.
pub(super) fn authority(namespace: &str, name: &str) -> Value {
    let made = rcgen::generate_simple_self_signed(["ca".to_owned()]).unwrap();
    json!({
        "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "namespace": namespace},
        "data": {"ca.crt": made.cert.pem()},
    })
}

/// The Gateway `infra/gw` with these listeners.
pub(super) fn gateway(listeners: &str) -> Value {
    object("Gateway", "infra", "gw", &format!("{{gatewayClassName: causeway, listeners: {listeners}}}"))
}

/// An HTTPRoute in `infra` with one rule that leads to `web`.
pub(super) fn http_route(name: &str, rest: &str) -> Value {
    let spec = format!(
        "{{parentRefs: [{{name: gw}}], rules: [{{backendRefs: [{{name: web, port: 8080}}]}}], {rest}}}"
    );
    let spec = if rest.contains("rules:") { format!("{{parentRefs: [{{name: gw}}], {rest}}}") } else { spec };
    object("HTTPRoute", "infra", name, &spec)
}

pub(super) const HTTP: &str =
    "[{name: http, port: 80, protocol: HTTP, allowedRoutes: {namespaces: {from: All}}}]";

impl Scene {
    pub(super) fn new(objects: impl IntoIterator<Item = Value>) -> Self {
        let mut all = vec![
            object("GatewayClass", "", "causeway", "{controllerName: causeway.dev/gateway}"),
            object("GatewayClass", "", "other", "{controllerName: example.com/other}"),
            json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "infra", "labels": {"team": "platform"}}}),
            json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "apps", "labels": {"team": "shop"}}}),
        ];
        all.extend(service("infra", "web", "[{name: http, port: 8080}]", "10.0.0.1"));
        all.extend(service("infra", "api", "[{name: http, port: 8080}]", "10.0.0.2"));
        all.extend(service("apps", "web", "[{name: http, port: 8080}]", "10.0.1.1"));
        all.extend(objects);
        let served = Observed {
            addresses: vec![Address { kind: AddressKind::Ip, value: "192.0.2.1".to_owned() }],
            serving: true,
            running_generation: Some(9),
            ..Observed::default()
        };
        Self { objects: all, observed: [(ObjectRef::new("infra", "gw"), served)].into() }
    }

    pub(super) fn and(mut self, objects: impl IntoIterator<Item = Value>) -> Self {
        self.objects.extend(objects);
        self
    }

    pub(super) fn seen(mut self, observed: Observed) -> Self {
        self.observed.insert(ObjectRef::new("infra", "gw"), observed);
        self
    }

    pub(super) fn world(&self) -> World {
        let (world, unread) = self.read();
        assert_eq!(unread, []);
        world
    }

    /// The world, and what of it can't be read.
    fn read(&self) -> (World, Vec<(String, kinds::Unreadable)>) {
        let objects: Vec<DynamicObject> =
            self.objects.iter().map(|object| serde_json::from_value(object.clone()).unwrap()).collect();
        let (mut world, unread) = World::read(&objects);
        world.observed.clone_from(&self.observed);
        (world, unread)
    }

    pub(super) fn picture(&self) -> Picture {
        Self::picture_of(&self.world())
    }

    fn picture_of(world: &World) -> Picture {
        let picture = picture(world, "2026-06-01T00:00:00.5Z".parse().unwrap());
        for (at, gateway) in &picture.gateways {
            assert_eq!(gateway.plan.validate(), [], "{at}");
        }
        picture
    }
}

/// The status and reason of a condition in a list.
pub(super) fn condition<'a>(holder: &'a Value, kind: &str) -> (&'a str, &'a str) {
    let list = holder["conditions"].as_array().map(Vec::as_slice).unwrap_or_default();
    list.iter()
        .find(|condition| condition["type"] == kind)
        .map_or(("", ""), |found| (found["status"].as_str().unwrap(), found["reason"].as_str().unwrap()))
}

pub(super) fn message<'a>(holder: &'a Value, kind: &str) -> &'a str {
    let list = holder["conditions"].as_array().unwrap();
    list.iter().find(|condition| condition["type"] == kind).unwrap()["message"].as_str().unwrap()
}

impl Picture {
    pub(super) fn gateway(&self) -> &GatewayPicture {
        &self.gateways[&ObjectRef::new("infra", "gw")]
    }

    pub(super) fn gateway_status(&self) -> &Value {
        &self.gateway().status.value
    }

    /// A listener in the Gateway's status.
    pub(super) fn listener(&self, name: &str) -> &Value {
        let listeners = self.gateway_status()["listeners"].as_array().unwrap();
        listeners.iter().find(|listener| listener["name"] == name).unwrap()
    }

    /// The entry of a route's status for its reference of this place.
    pub(super) fn parent(&self, kind: RouteKind, namespace: &str, name: &str, place: usize) -> &Value {
        &self.routes[&(kind, ObjectRef::new(namespace, name))].value["parents"][place]
    }

    /// The entry of an HTTPRoute in `infra` for its first reference.
    pub(super) fn http(&self, name: &str) -> &Value {
        self.parent(RouteKind::Http, "infra", name, 0)
    }

    pub(super) fn plan(&self) -> &Plan {
        &self.gateway().plan
    }

    /// The requests of port 80.
    pub(super) fn requests(&self) -> &Http {
        requests(self.plan(), 80)
    }

    /// The rules of port 80 for all hosts.
    pub(super) fn rules(&self) -> &[HttpRoute] {
        &self.requests().routes
    }
}

/// The requests in clear text of a port.
pub(super) fn requests(plan: &Plan, port: u16) -> &Http {
    match &plan.listeners.iter().find(|listener| listener.bind.port() == port).unwrap().protocol {
        Protocol::Http(http) => http,
        other => panic!("{other:?}"),
    }
}

/// The requests inside of an action.
pub(super) fn inside(action: &Action) -> &Http {
    match action {
        Action::Terminate(terminate) => match &terminate.then {
            Then::Http(http) => http,
            Then::Tcp(other) => panic!("{other:?}"),
        },
        other => panic!("{other:?}"),
    }
}

/// The clusters that a rule forwards to, with their weights.
pub(super) fn targets(rule: &HttpRoute) -> Vec<(&str, u32)> {
    match &rule.action {
        causeway_ir::http::HttpAction::Forward(targets) => {
            targets.as_slice().iter().map(|target| (target.cluster.as_str(), target.weight)).collect()
        }
        other => panic!("{other:?}"),
    }
}

/// The status that a rule answers with.
pub(super) fn answer(rule: &HttpRoute) -> u16 {
    match &rule.action {
        causeway_ir::http::HttpAction::Respond(response) => response.status,
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_route_to_a_service_is_served() {
    let picture = Scene::new([gateway(HTTP), http_route("web", "hostnames: [a.test]")]).picture();
    assert_eq!(condition(picture.gateway_status(), "Accepted"), ("True", "Accepted"));
    assert_eq!(condition(picture.gateway_status(), "Programmed"), ("True", "Programmed"));
    assert_eq!(picture.gateway_status()["addresses"], json!([{"type": "IPAddress", "value": "192.0.2.1"}]));
    assert_eq!(picture.listener("http")["attachedRoutes"], 1);
    assert_eq!(condition(picture.http("web"), "Accepted"), ("True", "Accepted"));
    assert_eq!(condition(picture.http("web"), "ResolvedRefs"), ("True", "ResolvedRefs"));
    let [rule] = picture.rules() else { panic!("{:?}", picture.rules()) };
    assert_eq!(rule.name, "HTTPRoute/infra/web#0@http");
    assert_eq!(targets(rule), [("infra/web:8080", 1)]);
    let cluster = &picture.plan().clusters[0];
    assert_eq!((cluster.endpoints.len(), cluster.no_endpoint_status), (1, 503));
    assert_eq!(cluster.endpoints[0].address.to_string(), "10.0.0.1:3000");
    assert!(picture.gateway().plan_without_endpoints().clusters[0].endpoints.is_empty());
    assert_eq!(picture.gateway().services().len(), 1);
}

#[test]
fn endpoints_are_filled_in_by_who_runs_the_plan() {
    let scene = Scene::new([gateway(HTTP), http_route("web", "")]);
    let picture = scene.picture();
    let mut plan = picture.gateway().plan_without_endpoints();
    assert_ne!(plan, *picture.plan());
    picture::resolve(&mut plan, &picture.gateway().backends, &scene.world().services);
    assert_eq!(plan, *picture.plan());
}

#[test]
fn a_plan_moves_to_other_addresses_and_ports() {
    let picture = Scene::new([gateway(HTTP), http_route("web", "")]).picture();
    let both = ["10.0.0.9".parse().unwrap(), "::1".parse().unwrap()];
    let moved = picture::rebind(picture.plan(), &both, |_, port| port + 8000);
    let bound: Vec<_> = moved.listeners.iter().map(|l| (l.name.as_str(), l.bind.to_string())).collect();
    assert_eq!(bound, [("http/80", "10.0.0.9:8080".to_owned()), ("http/80 ::1", "[::1]:8080".to_owned())]);
    assert_eq!(moved.validate(), []);
}

#[test]
fn objects_of_older_and_newer_versions_are_read() {
    let mut old = gateway(HTTP);
    old["apiVersion"] = json!("gateway.networking.k8s.io/v1beta1");
    let mut newer = http_route(
        "web",
        "rules: [{backendRefs: [{name: web, port: 8080}], hedging: {after: 1s}}], scope: All",
    );
    newer["apiVersion"] = json!("gateway.networking.k8s.io/v9");
    assert_eq!(Scene::new([old, newer]).picture().rules().len(), 1);
}
