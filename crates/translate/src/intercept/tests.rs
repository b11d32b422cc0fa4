mod fronts;
mod plans;
mod swaps;
mod verdicts;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use causeway_ir::{Listener, Plan, Protocol};
use k8s_openapi::api::core::v1::Service;
use k8s_openapi::api::discovery::v1::EndpointSlice;
use kube::ResourceExt as _;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::world::{Near, Station, Stowaway, Twin};
use super::*;
use crate::grants::Grants;

/// Namespace `shop` with Deployment `web` and a Service of the same name in front of it, and two machines.
pub(super) struct Scene {
    pub(super) requests: Vec<Value>,
    pub(super) services: Vec<Value>,
    pub(super) slices: Vec<Value>,
    pub(super) deployments: Vec<Value>,
    pub(super) pods: Vec<Value>,
    pub(super) grants: Vec<Value>,
    pub(super) near: Near,
    pub(super) denied: BTreeSet<String>,
    pub(super) replica: Option<String>,
    pub(super) away: Option<&'static str>,
    pub(super) now: &'static str,
}

pub(super) fn yaml(text: &str) -> Value {
    serde_saphyr::from_str(text).unwrap_or_else(|error| panic!("{error}: {text}"))
}

fn typed<K: DeserializeOwned>(value: &Value) -> K {
    serde_json::from_value(value.clone()).unwrap_or_else(|error| panic!("{error}: {value}"))
}

pub(super) fn object(name: &str, spec: &str) -> Value {
    json!({"metadata": {"name": name, "namespace": "shop", "uid": format!("uid-{name}")}, "spec": yaml(spec)})
}

/// A request of namespace `shop` that was made in this minute.
pub(super) fn request(name: &str, minute: u8, spec: &str) -> Value {
    let mut made = object(
        name,
        "{target: deploy/web, targetContainerPort: http, workstation: alice, destinationPort: 3000}",
    );
    made["apiVersion"] = json!("causeway.dev/v1alpha1");
    made["kind"] = json!("InterceptRequest");
    made["metadata"]["creationTimestamp"] = json!(format!("2026-01-01T00:{minute:02}:00Z"));
    for (field, value) in yaml(spec).as_object().into_iter().flatten() {
        made["spec"][field] = value.clone();
    }
    made
}

pub(super) fn slice(service: &str, port: &str, addresses: &[&str]) -> Value {
    let endpoints: Vec<Value> = addresses.iter().map(|one| json!({"addresses": [one]})).collect();
    let labels = json!({"kubernetes.io/service-name": service});
    json!({
        "metadata": {"name": format!("{service}-1"), "namespace": "shop", "labels": labels},
        "addressType": "IPv4", "endpoints": endpoints, "ports": [yaml(port)],
    })
}

/// The Service of the original pods.
pub(super) fn twin(address: &str) -> Twin {
    Twin { uid: "uid-twin".to_owned(), address: address.parse().ok() }
}

pub(super) const WEB: &str = "
selector: {matchLabels: {app: web}}
template:
  metadata: {labels: {app: web, version: v1}}
  spec:
    serviceAccountName: web
    containers:
    - name: web
      image: web:1
      command: [/bin/web]
      ports: [{containerPort: 8080, name: http}, {containerPort: 9090, name: metrics}]
      readinessProbe: {httpGet: {path: /ready, port: http}}
      livenessProbe: {httpGet: {path: /, port: 8080}}
    - {name: side, image: side:1, ports: [{containerPort: 5353, name: dns, protocol: UDP}]}
";

pub(super) fn scene() -> Scene {
    Scene {
        requests: Vec::new(),
        services: vec![object(
            "web",
            "{clusterIP: 10.0.0.1, selector: {app: web}, ports: [{name: http, port: 80, targetPort: http}]}",
        )],
        slices: vec![slice("web-carrier-original", "{name: http, port: 8080}", &["10.1.0.1", "10.1.0.2"])],
        deployments: vec![object("web", WEB)],
        pods: Vec::new(),
        grants: Vec::new(),
        near: Near::default(),
        denied: BTreeSet::new(),
        replica: Some("stowaway-1".to_owned()),
        away: None,
        now: "2026-01-01T01:00:00Z",
    }
}

impl Scene {
    pub(super) fn world(&self) -> World {
        let keyed = |values: &[Value]| -> BTreeMap<String, Value> {
            let name = |value: &Value| value["metadata"]["name"].as_str().unwrap().to_owned();
            values.iter().map(|value| (name(value), value.clone())).collect()
        };
        let mut near = self.near.clone();
        near.services.extend(
            keyed(&self.services).iter().map(|(name, one)| (name.clone(), Arc::new(typed::<Service>(one)))),
        );
        near.deployments
            .extend(keyed(&self.deployments).iter().map(|(name, one)| (name.clone(), Arc::new(typed(one)))));
        near.pods.extend(keyed(&self.pods).iter().map(|(name, one)| (name.clone(), Arc::new(typed(one)))));
        for one in &self.slices {
            let one: EndpointSlice = typed(one);
            let service = one.labels()["kubernetes.io/service-name"].clone();
            near.slices.entry(service).or_default().push(Arc::new(one));
        }
        let station = |uid: &str| Station {
            uid: uid.to_owned(),
            owner: Some("Alice".to_owned()),
            unusable: None,
            replica: self.replica.clone(),
            away: self.away.map(|time| time.parse().unwrap()),
        };
        let mut workstations: BTreeMap<ObjectRef, Station> = [
            (ObjectRef::new("shop", "alice"), station("ws-alice")),
            (ObjectRef::new("shop", "bob"), station("ws-bob")),
            (ObjectRef::new("lab", "carol"), station("ws-carol")),
        ]
        .into();
        let spoiled =
            Station { unusable: Some("its key is that of shop/alice".to_owned()), ..station("ws-dave") };
        workstations.insert(ObjectRef::new("shop", "dave"), spoiled);
        let pod =
            |name: &str, address: &str| Stowaway { name: name.to_owned(), address: address.parse().unwrap() };
        let grants: Vec<_> = self.grants.iter().map(|one| Arc::new(typed(one))).collect();
        World {
            requests: keyed(&self.requests)
                .iter()
                .map(|(name, one)| (ObjectRef::new("shop", name.as_str()), Arc::new(typed(one))))
                .collect(),
            workstations,
            denied: self.denied.clone(),
            grants: Grants::read(&grants),
            near: [("shop".to_owned(), near)].into(),
            stowaways: vec![pod("stowaway-1", "10.9.0.1"), pod("stowaway-2", "10.9.0.2")],
            now: self.now.parse().unwrap(),
        }
    }

    pub(super) fn picture(&self) -> Picture {
        let picture = picture(&self.world());
        let plans = picture.fronts.values().map(|front| &front.plan);
        for plan in plans.chain(picture.swaps.values().map(|swap| &swap.plan)) {
            assert_eq!(plan.validate(), [], "{plan:#?}");
        }
        picture
    }
}

impl Picture {
    /// What becomes of a request: nothing if it is carried out, else reason and message.
    pub(super) fn refused(&self, name: &str) -> Option<(Reason, String)> {
        match &self.requests[&ObjectRef::new("shop", name)] {
            Verdict::Accepted(_) => None,
            Verdict::Refused(refused) => Some((refused.reason, refused.message.clone())),
            other => panic!("{other:?}"),
        }
    }

    pub(super) fn accepted(&self, name: &str) -> &Accepted {
        match &self.requests[&ObjectRef::new("shop", name)] {
            Verdict::Accepted(accepted) => accepted,
            other => panic!("{other:?}"),
        }
    }

    pub(super) fn front(&self, name: &str) -> &Front {
        &self.fronts[&ServiceRef { namespace: "shop".to_owned(), name: name.to_owned() }]
    }
}

pub(super) fn listener(plan: &Plan, number: u16) -> &Listener {
    plan.listeners.iter().find(|listener| listener.bind.port() == number).unwrap()
}

/// The names of the routes of requests, in the order of the plan, and where each leads: its clusters by priority.
pub(super) fn routes(plan: &Plan, number: u16) -> Vec<(String, Vec<String>)> {
    let Protocol::Http(http) = &listener(plan, number).protocol else { panic!("{plan:?}") };
    let to = |route: &causeway_ir::http::HttpRoute| route.clusters().map(ToString::to_string).collect();
    http.routes.iter().map(|route| (route.name.to_string(), to(route))).collect()
}
