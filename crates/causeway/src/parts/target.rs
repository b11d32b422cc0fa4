//! The workload that a developer names: `deploy/web`, `sts/db`, `po/one`. Its pods' template, its containers and ports, and one
//! of its pods that runs, for what only a pod knows.

use std::fmt;
use std::str::FromStr;

use anyhow::{anyhow, bail, ensure};
use k8s_openapi::api::apps::v1::{DaemonSet, Deployment, ReplicaSet, StatefulSet};
use k8s_openapi::api::core::v1::{Container, Pod, PodTemplateSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use kube::api::ListParams;
use kube::core::{NamespaceResourceScope, Selector};
use kube::{Api, Client, Resource, ResourceExt};
use serde::de::DeserializeOwned;

use super::refusal;
use causeway_base::near::did_you_mean;
use causeway_translate::intercept::swap::{ENV_PREFIX, VOLUME_PREFIX};

/// A workload by kind and name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct TargetName {
    pub(crate) kind: TargetKind,
    pub(crate) name: String,
}

/// The kinds that have pods.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum TargetKind {
    Deployment,
    StatefulSet,
    ReplicaSet,
    DaemonSet,
    Pod,
}

impl TargetKind {
    const ALL: [Self; 5] =
        [Self::Deployment, Self::StatefulSet, Self::ReplicaSet, Self::DaemonSet, Self::Pod];

    /// As kubectl takes it; the first is how it is written here.
    fn names(self) -> [&'static str; 3] {
        match self {
            Self::Deployment => ["deployment", "deploy", "deployments"],
            Self::StatefulSet => ["statefulset", "sts", "statefulsets"],
            Self::ReplicaSet => ["replicaset", "rs", "replicasets"],
            Self::DaemonSet => ["daemonset", "ds", "daemonsets"],
            Self::Pod => ["pod", "po", "pods"],
        }
    }

    /// For people.
    fn title(self) -> &'static str {
        match self {
            Self::Deployment => "Deployment",
            Self::StatefulSet => "StatefulSet",
            Self::ReplicaSet => "ReplicaSet",
            Self::DaemonSet => "DaemonSet",
            Self::Pod => "Pod",
        }
    }

    /// For `kubectl get`.
    fn plural(self) -> &'static str {
        self.names()[2]
    }
}

impl FromStr for TargetName {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        const WRITE: &str = "write KIND/NAME, for example deploy/web, sts/db or pod/one";
        let (kind, name) = text.split_once('/').ok_or_else(|| format!("`{text}` names no kind: {WRITE}"))?;
        // `deployment.apps/web`, as kubectl prints it.
        let word = kind.split_once('.').map_or(kind, |(kind, _)| kind).to_lowercase();
        let known = TargetKind::ALL.into_iter().find(|known| known.names().contains(&word.as_str()));
        let kind = known.ok_or_else(|| {
            let names = TargetKind::ALL.iter().flat_map(|kind| kind.names());
            format!("`{kind}` is no kind of workload{}; {WRITE}", did_you_mean(&word, names))
        })?;
        if name.is_empty() || name.contains('/') {
            return Err(format!("`{text}` is no name of one workload: {WRITE}"));
        }
        Ok(Self { kind, name: name.to_owned() })
    }
}

impl fmt::Display for TargetName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.kind.names()[0], self.name)
    }
}

/// A workload that was found.
pub(crate) struct Target {
    pub(crate) name: TargetName,
    pub(crate) namespace: String,
    /// A pod of it: one that runs, or what its template would make.
    pub(crate) pod: Pod,
}

/// A port of a container.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct TargetPort {
    pub(crate) container: String,
    pub(crate) name: Option<String>,
    pub(crate) number: i32,
    pub(crate) protocol: String,
}

impl fmt::Display for TargetPort {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = self.name.as_ref().map(|name| format!(" ({name})")).unwrap_or_default();
        write!(f, "{}/{}{name} of {}", self.number, self.protocol, self.container)
    }
}

impl Target {
    /// Finds it.
    ///
    /// # Errors
    /// When there is none of that name, with those that are near, or it may not be read, with the right that is missing.
    pub(crate) async fn find(client: &Client, namespace: &str, name: &TargetName) -> anyhow::Result<Self> {
        let finding = Finding { client, namespace, name };
        let (template, selector) = match name.kind {
            TargetKind::Pod => {
                let mut pod: Pod = finding.get().await?;
                without_carrier(&mut pod);
                return Ok(Self { name: name.clone(), namespace: namespace.to_owned(), pod });
            }
            TargetKind::Deployment => {
                let found: Deployment = finding.get().await?;
                found.spec.map(|spec| (Some(spec.template), spec.selector))
            }
            TargetKind::StatefulSet => {
                let found: StatefulSet = finding.get().await?;
                found.spec.map(|spec| (Some(spec.template), spec.selector))
            }
            TargetKind::ReplicaSet => {
                let found: ReplicaSet = finding.get().await?;
                found.spec.map(|spec| (spec.template, spec.selector))
            }
            TargetKind::DaemonSet => {
                let found: DaemonSet = finding.get().await?;
                found.spec.map(|spec| (Some(spec.template), spec.selector))
            }
        }
        .unwrap_or_default();
        let template = template.unwrap_or_default();
        let running = running_pod(client, namespace, &selector).await;
        let pod = pod_of(namespace, template, running);
        Ok(Self { name: name.clone(), namespace: namespace.to_owned(), pod })
    }

    pub(crate) fn containers(&self) -> &[Container] {
        self.pod.spec.as_ref().map(|spec| spec.containers.as_slice()).unwrap_or_default()
    }

    /// The container of this name, or the one that is meant without one: the annotated default, else the first.
    pub(crate) fn container(&self, wanted: Option<&str>) -> anyhow::Result<&Container> {
        let all = self.containers();
        ensure!(!all.is_empty(), "{} has no containers", self.name);
        let usual = self.pod.annotations().get("kubectl.kubernetes.io/default-container");
        let Some(wanted) = wanted.or(usual.map(String::as_str)) else { return Ok(&all[0]) };
        all.iter().find(|one| one.name == wanted).ok_or_else(|| {
            let names = all.iter().map(|one| one.name.as_str());
            let list = names.clone().collect::<Vec<_>>().join(", ");
            let near = did_you_mean(wanted, names);
            anyhow!("{} has no container {wanted}{near}; it has: {list}", self.name)
        })
    }

    /// Its declared ports, of all containers or of one.
    pub(crate) fn ports(&self, container: Option<&str>) -> Vec<TargetPort> {
        let containers = self.containers().iter().filter(|one| container.is_none_or(|name| one.name == name));
        let ports = containers.flat_map(|one| {
            one.ports.iter().flatten().map(|port| TargetPort {
                container: one.name.clone(),
                name: port.name.clone(),
                number: port.container_port,
                protocol: port.protocol.clone().unwrap_or_else(|| "TCP".to_owned()),
            })
        });
        ports.collect()
    }

    /// The port of this number or name.
    ///
    /// # Errors
    /// When no container declares it, with those that are declared.
    pub(crate) fn port(&self, wanted: &IntOrString, container: Option<&str>) -> anyhow::Result<TargetPort> {
        if container.is_some() {
            self.container(container)?;
        }
        let ports = self.ports(container);
        let found = ports.iter().find(|port| match wanted {
            IntOrString::Int(number) => port.number == *number,
            IntOrString::String(name) => port.name.as_ref() == Some(name),
        });
        if let Some(found) = found {
            return Ok(found.clone());
        }
        let wanted = match wanted {
            IntOrString::Int(number) => number.to_string(),
            IntOrString::String(name) => name.clone(),
        };
        if ports.is_empty() {
            bail!(
                "{} declares no ports, so {wanted} can't be taken: add it to `ports` of the container in its template",
                self.name
            );
        }
        let names = ports.iter().filter_map(|port| port.name.as_deref());
        let near = did_you_mean(&wanted, names);
        let list: Vec<String> = ports.iter().map(ToString::to_string).collect();
        bail!("{} has no port {wanted}{near}; it has: {}", self.name, list.join(", "))
    }
}

/// What the template makes, with what is known of a pod that it has made.
fn pod_of(namespace: &str, template: PodTemplateSpec, running: Option<Pod>) -> Pod {
    let mut metadata = template.metadata.unwrap_or_default();
    metadata.namespace = Some(namespace.to_owned());
    let mut pod = Pod { metadata, spec: template.spec, status: None };
    without_carrier(&mut pod);
    if let Some(running) = running {
        pod.metadata.name = running.metadata.name;
        pod.metadata.uid = running.metadata.uid;
        pod.metadata.labels = running.metadata.labels;
        pod.status = running.status;
        if let (Some(spec), Some(other)) = (&mut pod.spec, running.spec) {
            spec.node_name = other.node_name;
        }
    }
    pod
}

/// The pod as its owner has it: a carrier in a container's place has its environment and mounts, and a few of its own besides.
fn without_carrier(pod: &mut Pod) {
    for container in pod.spec.iter_mut().flat_map(|spec| spec.containers.iter_mut()) {
        container.env.iter_mut().for_each(|env| env.retain(|one| !one.name.starts_with(ENV_PREFIX)));
        let mounts = container.volume_mounts.iter_mut();
        mounts.for_each(|mounts| mounts.retain(|one| !one.name.starts_with(VOLUME_PREFIX)));
    }
}

/// A pod that runs, ready ones first; none if there is none, or they may not be seen.
async fn running_pod(client: &Client, namespace: &str, selector: &LabelSelector) -> Option<Pod> {
    let selector: Selector = selector.clone().try_into().ok()?;
    let params = ListParams::default().labels_from(&selector);
    let pods = Api::<Pod>::namespaced(client.clone(), namespace).list(&params).await.ok()?;
    let is = |pod: &Pod, kind: &str| {
        let conditions = pod.status.as_ref().and_then(|status| status.conditions.as_ref());
        conditions.into_iter().flatten().any(|one| one.type_ == kind && one.status == "True")
    };
    let runs = |pod: &Pod| {
        let phase = pod.status.as_ref().and_then(|status| status.phase.as_deref());
        phase == Some("Running") && pod.metadata.deletion_timestamp.is_none()
    };
    let mut running: Vec<Pod> = pods.items.into_iter().filter(runs).collect();
    running.sort_by_key(|pod| !is(pod, "Ready"));
    running.into_iter().next()
}

struct Finding<'a> {
    client: &'a Client,
    namespace: &'a str,
    name: &'a TargetName,
}

impl Finding<'_> {
    async fn get<K>(&self) -> anyhow::Result<K>
    where
        K: Resource<Scope = NamespaceResourceScope, DynamicType = ()> + Clone + fmt::Debug + DeserializeOwned,
    {
        let api: Api<K> = Api::namespaced(self.client.clone(), self.namespace);
        match api.get_opt(&self.name.name).await {
            Ok(Some(found)) => Ok(found),
            Ok(None) => Err(self.missing(&api).await),
            Err(error) => Err(anyhow!("can't read {}: {}", self.name, refusal::advice(&error))),
        }
    }

    /// Says that there is none, and which ones there are.
    async fn missing<K>(&self, api: &Api<K>) -> anyhow::Error
    where
        K: Resource<DynamicType = ()> + Clone + fmt::Debug + DeserializeOwned,
    {
        let (kind, name) = (self.name.kind, &self.name.name);
        let others = api.list(&ListParams::default()).await.map(|list| list.items).unwrap_or_default();
        let names: Vec<String> = others.iter().map(ResourceExt::name_any).collect();
        let near = did_you_mean(name, names.iter().map(String::as_str));
        let namespace = self.namespace;
        let rest = if near.is_empty() {
            format!(
                "; `kubectl get {} -n {namespace}` lists them, and -n names another namespace",
                kind.plural()
            )
        } else {
            near
        };
        anyhow!("there is no {} {name} in namespace {namespace}{rest}", kind.title())
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn target() -> Target {
        let pod = json!({"metadata": {"annotations": {"kubectl.kubernetes.io/default-container": "web"}}, "spec": {"containers": [
            {"name": "side", "ports": [{"containerPort": 9090, "name": "metrics"}]},
            {"name": "web", "ports": [{"containerPort": 8080, "name": "http"}, {"containerPort": 53, "protocol": "UDP"}]},
        ]}});
        Target {
            name: "deploy/web".parse().unwrap(),
            namespace: "shop".to_owned(),
            pod: serde_json::from_value(pod).unwrap(),
        }
    }

    #[test]
    fn workloads_are_named_as_kubectl_names_them() {
        for (text, expected) in [
            ("deploy/web", "deployment/web"),
            ("Deployment/web", "deployment/web"),
            ("deployment.apps/web", "deployment/web"),
            ("sts/db", "statefulset/db"),
            ("rs/old", "replicaset/old"),
            ("ds/log", "daemonset/log"),
            ("po/one", "pod/one"),
        ] {
            assert_eq!(text.parse::<TargetName>().unwrap().to_string(), expected, "{text}");
        }
        for (text, says) in [
            ("web", "names no kind"),
            ("depoly/web", "did you mean deploy"),
            ("svc/web", "is no kind of workload"),
            ("deploy/", "is no name of one workload"),
            ("deploy/a/b", "is no name of one workload"),
        ] {
            let error = text.parse::<TargetName>().unwrap_err();
            assert!(error.contains(says) && error.contains("deploy/web"), "{text}: {error}");
        }
    }

    #[test]
    fn a_port_that_is_not_there_is_told_with_those_that_are() {
        let target = target();
        let port = |wanted: IntOrString, container| target.port(&wanted, container);
        assert_eq!(port(IntOrString::Int(8080), None).unwrap().container, "web");
        assert_eq!(port(IntOrString::String("http".into()), None).unwrap().number, 8080);
        let error = port(IntOrString::String("htp".into()), None).unwrap_err().to_string();
        assert_eq!(
            error,
            "deployment/web has no port htp; did you mean http?; it has: 9090/TCP (metrics) of side, 8080/TCP (http) of web, 53/UDP of web"
        );
        let error = port(IntOrString::Int(8080), Some("side")).unwrap_err().to_string();
        assert!(error.contains("has no port 8080; it has: 9090/TCP (metrics) of side"), "{error}");
        assert!(
            port(IntOrString::Int(1), Some("sid")).unwrap_err().to_string().contains("did you mean side?")
        );
    }

    #[test]
    fn the_container_that_is_meant() {
        let mut target = target();
        assert_eq!(target.container(None).unwrap().name, "web", "the annotated one");
        target.pod.metadata.annotations = None;
        assert_eq!(target.container(None).unwrap().name, "side", "the first");
        assert!(
            target
                .container(Some("wbe"))
                .unwrap_err()
                .to_string()
                .contains("did you mean web?; it has: side, web")
        );
    }

    #[test]
    fn what_a_carrier_has_besides_is_not_the_workloads() {
        let template = json!({"spec": {"containers": [{"name": "web",
            "env": [{"name": "A", "value": "1"}, {"name": "CAUSEWAY_CARRIER_POD", "value": "x"}],
            "volumeMounts": [{"name": "conf", "mountPath": "/c"}, {"name": "causeway-carrier-tmp", "mountPath": "/t"}]}]}});
        let pod = pod_of("shop", serde_json::from_value(template).unwrap(), None);
        let container = &pod.spec.unwrap().containers[0];
        assert_eq!(container.env.as_ref().unwrap().len(), 1);
        assert_eq!(container.volume_mounts.as_ref().unwrap()[0].name, "conf");
    }

    #[test]
    fn a_pod_that_runs_adds_what_only_it_knows() {
        let template = json!({"metadata": {"labels": {"app": "web"}}, "spec": {"containers": []}});
        let template: PodTemplateSpec = serde_json::from_value(template).unwrap();
        let running = json!({"metadata": {"name": "web-1", "uid": "u", "labels": {"app": "web", "pod-template-hash": "h"}},
            "spec": {"containers": [], "nodeName": "n"}, "status": {"podIP": "10.0.0.7"}});
        let none = pod_of("shop", template.clone(), None);
        assert_eq!((none.namespace().as_deref(), none.uid()), (Some("shop"), None));
        let pod = pod_of("shop", template, serde_json::from_value(running).unwrap());
        assert_eq!((pod.name_any(), pod.uid()), ("web-1".to_owned(), Some("u".to_owned())));
        assert_eq!(pod.spec.unwrap().node_name.as_deref(), Some("n"));
        assert_eq!(pod.status.unwrap().pod_ip.as_deref(), Some("10.0.0.7"));
    }
}
