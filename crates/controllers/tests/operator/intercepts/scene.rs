//! A namespace with a Deployment and a Service in front of it, a developer's machine, and the parts that others play: pods,
//! endpoints, and the cluster's end.

use std::collections::BTreeMap;

use causeway_api::{GatewayPlan, InterceptRequest, Workstation};
use causeway_controllers::operator::Config;
use causeway_link::Key;
use causeway_testkit::eventually;
use k8s_openapi::api::{
    apps::v1::Deployment,
    core::v1::{Pod, Secret, Service},
    discovery::v1::EndpointSlice,
};
use kube::{
    Api, Resource, ResourceExt as _,
    api::{DeleteParams, Patch, PatchParams, PostParams},
};
use serde::{Serialize, de::DeserializeOwned};
use serde_json::{Value, json};

use crate::cluster::{Cluster, Running};

pub(super) const SYSTEM: &str = "causeway-system";
pub(super) const ORIGINAL: &str = "causeway.dev/original";

pub(super) struct Scene {
    pub(super) cluster: Cluster,
    pub(super) operator: Running,
}

type Selector = BTreeMap<String, String>;

impl Scene {
    /// With the whole operator, Deployment and Service `web`, and the workstation `alice`.
    pub(super) async fn start() -> Self {
        Self::configured(|_| {}).await
    }

    /// The same with other settings.
    pub(super) async fn configured(change: impl FnOnce(&mut Config)) -> Self {
        let cluster = Cluster::start().await;
        let operator = cluster.configured(change);
        let scene = Self { cluster, operator };
        scene.deployment("web").await;
        scene.service("web", json!({"app": "web"})).await;
        scene.slice("web", &[("web-1", "10.1.0.1")]).await;
        scene.workstation("alice", 1).await;
        scene
    }

    pub(super) fn api<K>(&self) -> Api<K>
    where
        K: Resource<DynamicType = (), Scope = kube::core::NamespaceResourceScope>,
    {
        self.cluster.api()
    }

    pub(super) fn system<K>(&self) -> Api<K>
    where
        K: Resource<DynamicType = (), Scope = kube::core::NamespaceResourceScope>,
    {
        Api::namespaced(self.cluster.client.clone(), SYSTEM)
    }

    pub(super) async fn create<K>(&self, object: Value) -> K
    where
        K: Resource<DynamicType = (), Scope = kube::core::NamespaceResourceScope>,
        K: Clone + DeserializeOwned + Serialize + std::fmt::Debug,
    {
        let object: K = serde_json::from_value(object).unwrap();
        self.api::<K>().create(&PostParams::default(), &object).await.unwrap()
    }

    pub(super) async fn deployment(&self, name: &str) -> Deployment {
        self.create(json!({
            "metadata": {"name": name},
            "spec": {
                "selector": {"matchLabels": {"app": name}},
                "template": {
                    "metadata": {"labels": {"app": name, "tier": "front"}},
                    "spec": {"containers": [{
                        "name": "web", "image": "web:1", "command": ["/bin/web"], "args": ["--serve"],
                        "env": [{"name": "COLOR", "value": "red"}],
                        "ports": [{"containerPort": 8080, "name": "http"}],
                        "readinessProbe": {"exec": {"command": ["/bin/check"]}},
                    }]},
                },
            },
        }))
        .await
    }

    pub(super) async fn service(&self, name: &str, selector: Value) -> Service {
        let ports = json!([{"name": "http", "port": 80, "targetPort": "http"}]);
        self.create(json!({"metadata": {"name": name}, "spec": {"selector": selector, "ports": ports}})).await
    }

    pub(super) async fn workstation(&self, name: &str, key: u8) -> Workstation {
        let request = Key::new().unwrap().request().unwrap();
        self.create(json!({
            "apiVersion": "causeway.dev/v1alpha1", "kind": "Workstation", "metadata": {"name": name},
            "spec": {"publicKey": wireguard_key(key), "certificateRequest": request, "displayName": "Alice"},
        }))
        .await
    }

    /// A request for port `http` of Deployment `web`, with these further fields.
    pub(super) async fn request(&self, name: &str, fields: Value) -> InterceptRequest {
        let mut spec = json!({
            "target": "deploy/web", "targetContainerPort": "http", "workstation": "alice", "destinationPort": 3000,
        });
        for (field, value) in fields.as_object().into_iter().flatten() {
            spec[field] = value.clone();
        }
        self.create(json!({
            "apiVersion": "causeway.dev/v1alpha1", "kind": "InterceptRequest", "metadata": {"name": name}, "spec": spec,
        }))
        .await
    }

    /// Says which pods are behind a Service, as its controller would.
    pub(super) async fn slice(&self, service: &str, pods: &[(&str, &str)]) {
        let endpoints: Vec<Value> = pods
            .iter()
            .map(|(pod, address)| {
                json!({"addresses": [address], "conditions": {"ready": true}, "targetRef": {"kind": "Pod", "name": pod}})
            })
            .collect();
        let owner = self
            .api::<Service>()
            .get_opt(service)
            .await
            .unwrap()
            .and_then(|one| one.controller_owner_ref(&()));
        let slice = json!({
            "apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice",
            "metadata": {
                "name": format!("{service}-slice"), "labels": {"kubernetes.io/service-name": service},
                "ownerReferences": owner.into_iter().collect::<Vec<_>>(),
            },
            "addressType": "IPv4", "endpoints": endpoints, "ports": [{"name": "http", "port": 8080, "protocol": "TCP"}],
        });
        let params = PatchParams::apply("endpoints").force();
        let name = format!("{service}-slice");
        self.api::<EndpointSlice>().patch(&name, &params, &Patch::Apply(&slice)).await.unwrap();
    }

    /// A pod that is ready, with these labels.
    pub(super) async fn pod(
        &self,
        namespace: &str,
        name: &str,
        address: &str,
        labels: Value,
        containers: Value,
    ) {
        let api = Api::<Pod>::namespaced(self.cluster.client.clone(), namespace);
        if api.get_opt(name).await.unwrap().is_none() {
            let pod =
                json!({"metadata": {"name": name, "labels": labels}, "spec": {"containers": containers}});
            api.create(&PostParams::default(), &serde_json::from_value(pod).unwrap()).await.unwrap();
        }
        let status = json!({"status": {
            "phase": "Running", "podIP": address, "podIPs": [{"ip": address}],
            "conditions": [{"type": "Ready", "status": "True"}],
        }});
        api.patch_status(name, &PatchParams::default(), &Patch::Merge(&status)).await.unwrap();
    }

    /// A pod of the cluster's end that serves.
    pub(super) async fn stowaway(&self, name: &str, address: &str) {
        eventually("the cluster's end is installed", || async {
            self.system::<Deployment>().get_opt("causeway-stowaway").await.unwrap().is_some()
        })
        .await;
        let labels = json!({
            "app": "stowaway", "causeway.dev/owner-name": "causeway-stowaway", "causeway.dev/owner-kind": "Stowaway",
            "app.kubernetes.io/managed-by": "causeway",
        });
        self.pod(SYSTEM, name, address, labels, restricted("stowaway")).await;
    }

    /// Says what a pod of the cluster's end says of a machine that is connected to it, or that it is no longer.
    pub(super) async fn connect(&self, workstation: &str, replica: &str, is_connected: bool) {
        let entry =
            json!({"replica": replica, "way": "Link", "from": "192.0.2.7", "since": "2026-01-01T00:00:00Z"});
        let status = if is_connected { json!({"connections": [entry]}) } else { json!({}) };
        let body = json!({
            "apiVersion": "causeway.dev/v1alpha1", "kind": "Workstation", "metadata": {"name": workstation},
            "status": status,
        });
        let params = PatchParams::apply(&format!("causeway-stowaway-{replica}")).force();
        self.api::<Workstation>().patch_status(workstation, &params, &Patch::Apply(&body)).await.unwrap();
    }

    /// Plays the pod of a carrier that runs its newest plan, and who keeps the endpoints of its Service of the original pods.
    pub(super) async fn serve(&self, service: &str) {
        let plan = format!("{service}-carrier");
        let deployment = eventually("the carrier is made", || async {
            self.api::<Deployment>().get_opt(&plan).await.unwrap()
        })
        .await;
        let template = deployment.spec.unwrap().template;
        let labels = json!(template.metadata.unwrap().labels);
        let mut containers = json!(template.spec.unwrap().containers);
        // Without its volumes, which nobody mounts here.
        containers[0].as_object_mut().unwrap().remove("volumeMounts");
        let pod = format!("{plan}-pod");
        self.pod("default", &pod, "10.9.9.9", labels, containers).await;
        self.slice(&format!("{plan}-original"), &[("web-1", "10.1.0.1")]).await;
        self.slice(&plan, &[(&pod, "10.9.9.9")]).await;
        self.run_plan(&plan, &pod).await;
    }

    /// Plays the rollout of a carrier whose Service selects by this label, too.
    pub(super) async fn roll_carrier(&self, service: &str, label: &str) {
        let carrier = format!("{service}-carrier");
        eventually("the carrier's pods get the label", || async {
            let deployment = self.api::<Deployment>().get(&carrier).await.unwrap();
            let template = deployment.spec.unwrap().template;
            template.metadata.unwrap().labels.unwrap().contains_key(label)
        })
        .await;
        let now = DeleteParams::default().grace_period(0);
        self.api::<Pod>().delete(&format!("{carrier}-pod"), &now).await.unwrap();
        self.is_gone::<Pod>(&format!("{carrier}-pod")).await;
        self.serve(service).await;
    }

    /// Says that a pod runs the newest plan.
    pub(super) async fn run_plan(&self, plan: &str, pod: &str) {
        let api = self.api::<GatewayPlan>();
        let found = eventually("the plan has parts", || async {
            api.get_opt(plan).await.unwrap().filter(|found| !found.spec.parts.is_empty())
        })
        .await;
        let entry = json!({
            "apiVersion": "causeway.dev/v1alpha1", "kind": "GatewayPlan", "metadata": {"name": plan},
            "status": {"replicas": [{
                "name": pod, "serving": true, "gatewayGeneration": found.spec.gateway_generation,
                "runningGeneration": found.metadata.generation,
            }]},
        });
        let params = PatchParams::apply(&format!("causeway-gateway-{pod}")).force();
        api.patch_status(plan, &params, &Patch::Apply(&entry)).await.unwrap();
    }

    pub(super) async fn selector(&self, service: &str) -> Selector {
        let service = self.api::<Service>().get(service).await.unwrap();
        service.spec.unwrap().selector.unwrap_or_default()
    }

    /// Waits until a Service selects this.
    pub(super) async fn selects(&self, service: &str, wanted: Value) {
        let wanted: Selector = serde_json::from_value(wanted).unwrap();
        eventually(&format!("{service} selects {wanted:?}"), || async {
            self.selector(service).await == wanted
        })
        .await;
    }

    /// Takes `web` over, as far as Installed.
    pub(super) async fn take_over(&self, request: &str) {
        self.serve("web").await;
        self.moves().await;
        self.slice("web", &[("web-carrier-pod", "10.9.9.9")]).await;
        self.says(request, "Installed", "True", "Installed").await;
    }

    /// Waits until `web` leads to its carrier, whose pod runs every plan that is made meanwhile.
    pub(super) async fn moves(&self) {
        eventually("web leads to its carrier", || async {
            self.run_plan("web-carrier", "web-carrier-pod").await;
            self.selector("web").await.values().all(|value| value == "web-carrier.causeway")
        })
        .await;
    }

    /// A condition of a request: status, reason and message.
    pub(super) async fn condition(&self, request: &str, kind: &str) -> Option<(String, String, String)> {
        let object = self.api::<InterceptRequest>().get_opt(request).await.unwrap()?;
        let current = object.metadata.generation;
        let found = object.status?.conditions.into_iter().find(|one| one.type_ == kind)?;
        (found.observed_generation == current).then_some((found.status, found.reason, found.message))
    }

    /// Waits for a condition of a request; gives back its message.
    pub(super) async fn says(&self, request: &str, kind: &str, status: &str, reason: &str) -> String {
        eventually(&format!("{request}: {kind} {status} {reason}"), || async {
            let (is, why, message) = self.condition(request, kind).await?;
            (is == status && why == reason).then_some(message)
        })
        .await
    }

    /// Waits for a condition of a workstation; gives back its message.
    pub(super) async fn machine_says(&self, name: &str, kind: &str, status: &str, reason: &str) -> String {
        eventually(&format!("{name}: {kind} {status} {reason}"), || async {
            let object = self.api::<Workstation>().get(name).await.unwrap();
            let all = object.status.unwrap_or_default().conditions;
            let found = all.iter().find(|one| one.type_ == kind)?;
            (found.status == status && found.reason == reason).then(|| found.message.clone())
        })
        .await
    }

    pub(super) async fn delete<K>(&self, name: &str)
    where
        K: Resource<DynamicType = (), Scope = kube::core::NamespaceResourceScope>,
        K: Clone + DeserializeOwned + std::fmt::Debug,
    {
        self.api::<K>().delete(name, &DeleteParams::default()).await.unwrap();
    }

    pub(super) async fn is_gone<K>(&self, name: &str)
    where
        K: Resource<DynamicType = (), Scope = kube::core::NamespaceResourceScope>,
        K: Clone + DeserializeOwned + std::fmt::Debug,
    {
        eventually(&format!("{} {name} is gone", K::kind(&())), || async {
            self.api::<K>().get_opt(name).await.unwrap().is_none()
        })
        .await;
    }

    /// What the pods of the cluster's end are told, as JSON.
    pub(super) async fn told(&self) -> Value {
        let secret = self.system::<Secret>().get("causeway-stowaway").await.unwrap();
        serde_json::from_slice(&secret.data.unwrap()["told.json"].0).unwrap()
    }

    /// The reasons of Events about an object.
    pub(super) async fn events(&self, kind: &str, name: &str) -> Vec<(String, String)> {
        let api =
            Api::<k8s_openapi::api::events::v1::Event>::namespaced(self.cluster.client.clone(), "default");
        let all = api.list(&kube::api::ListParams::default()).await.unwrap().items;
        let about = |event: &k8s_openapi::api::events::v1::Event| {
            let regarding = event.regarding.clone().unwrap_or_default();
            regarding.kind.as_deref() == Some(kind) && regarding.name.as_deref() == Some(name)
        };
        let found = all.into_iter().filter(about);
        found.map(|event| (event.reason.unwrap_or_default(), event.note.unwrap_or_default())).collect()
    }

    pub(super) async fn annotation(&self, service: &str) -> Option<String> {
        self.api::<Service>().get(service).await.unwrap().annotations().get(ORIGINAL).cloned()
    }
}

pub(super) fn wireguard_key(byte: u8) -> String {
    use base64::Engine as _;
    base64::engine::general_purpose::STANDARD.encode([byte; 32])
}

/// A container that the level `restricted` takes.
pub(super) fn restricted(name: &str) -> Value {
    json!([{
        "name": name, "image": "x",
        "securityContext": {
            "allowPrivilegeEscalation": false, "capabilities": {"drop": ["ALL"]}, "runAsNonRoot": true,
            "seccompProfile": {"type": "RuntimeDefault"},
        },
    }])
}
