//! The workload that a request names, its pods as they will be, and the port of them that is meant.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use causeway_api::conditions::Reason;
use causeway_api::{InterceptRequestSpec, names};
use k8s_openapi::api::core::v1::{Container, ContainerPort, PodSpec, PodTemplateSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;

use super::front;
use super::near_names;
use super::world::Near;
use crate::endpoints::Protocol;

/// The word that forbids intercepts.
const DENY: &str = "deny";

/// What kind of thing is intercepted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum TargetKind {
    /// A Deployment.
    Deployment,
    /// A StatefulSet.
    StatefulSet,
    /// A ReplicaSet.
    ReplicaSet,
    /// A Pod.
    Pod,
}

impl TargetKind {
    /// As it is written in a target.
    pub fn word(self) -> &'static str {
        match self {
            Self::Deployment => "deployment",
            Self::StatefulSet => "statefulset",
            Self::ReplicaSet => "replicaset",
            Self::Pod => "pod",
        }
    }

    /// As kubectl takes it, and as part of names.
    pub fn short(self) -> &'static str {
        match self {
            Self::Deployment => "deploy",
            Self::StatefulSet => "sts",
            Self::ReplicaSet => "rs",
            Self::Pod => "pod",
        }
    }

    /// Its kind in the API.
    pub fn kind(self) -> &'static str {
        match self {
            Self::Deployment => "Deployment",
            Self::StatefulSet => "StatefulSet",
            Self::ReplicaSet => "ReplicaSet",
            Self::Pod => "Pod",
        }
    }

    fn parse(word: &str) -> Option<Self> {
        Some(match word.to_ascii_lowercase().as_str() {
            "deploy" | "deployment" | "deployments" => Self::Deployment,
            "sts" | "statefulset" | "statefulsets" => Self::StatefulSet,
            "rs" | "replicaset" | "replicasets" => Self::ReplicaSet,
            "po" | "pod" | "pods" => Self::Pod,
            _ => return None,
        })
    }
}

/// Names a target of a namespace.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TargetRef {
    /// Its kind.
    pub kind: TargetKind,
    /// Its name.
    pub name: String,
}

impl TargetRef {
    /// Reads KIND/NAME.
    pub fn parse(text: &str) -> Option<Self> {
        let (kind, name) = text.split_once('/')?;
        Some(Self { kind: TargetKind::parse(kind)?, name: name.to_owned() })
    }

    /// The one that a spec names.
    ///
    /// # Errors
    /// What to write, if it names none.
    pub fn of(spec: &InterceptRequestSpec) -> Result<Self, String> {
        match (&spec.target, &spec.target_pod) {
            (Some(text), None) => Self::parse(text).ok_or_else(|| {
                format!("spec.target: `{text}` names no workload: write KIND/NAME, as in deployment/shop")
            }),
            (None, Some(pod)) => Ok(Self { kind: TargetKind::Pod, name: pod.clone() }),
            _ => Err("spec.target: write either target: KIND/NAME or targetPod: NAME".to_owned()),
        }
    }
}

impl fmt::Display for TargetRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.kind.word(), self.name)
    }
}

/// A target that is there.
#[derive(Debug, Clone, Copy)]
pub(super) struct Found<'a> {
    pub(super) kind: TargetKind,
    pub(super) metadata: &'a ObjectMeta,
    /// The labels of its pods.
    pub(super) labels: Option<&'a BTreeMap<String, String>>,
    /// What its pods are made of.
    pub(super) pod: Option<&'a PodSpec>,
}

impl<'a> Found<'a> {
    /// Looks for a target; if there is none, what there is.
    pub(super) fn look(near: &'a Near, target: &TargetRef) -> Result<Self, String> {
        let name = &target.name;
        let of_template = |metadata: &'a ObjectMeta, template: Option<&'a PodTemplateSpec>| Self {
            kind: target.kind,
            metadata,
            labels: template.and_then(|template| template.metadata.as_ref()?.labels.as_ref()),
            pod: template.and_then(|template| template.spec.as_ref()),
        };
        let found = match target.kind {
            TargetKind::Deployment => near
                .deployments
                .get(name)
                .map(|one| of_template(&one.metadata, one.spec.as_ref().map(|spec| &spec.template))),
            TargetKind::StatefulSet => near
                .stateful_sets
                .get(name)
                .map(|one| of_template(&one.metadata, one.spec.as_ref().map(|spec| &spec.template))),
            TargetKind::ReplicaSet => near.replica_sets.get(name).map(|one| {
                of_template(&one.metadata, one.spec.as_ref().and_then(|spec| spec.template.as_ref()))
            }),
            TargetKind::Pod => near.pods.get(name).map(|one| Self {
                kind: target.kind,
                metadata: &one.metadata,
                // Those that hide it from Services while its stand-in is found in its place are not its own.
                labels: near.stood_in.get(target).or(one.metadata.labels.as_ref()),
                pod: one.spec.as_ref(),
            }),
        };
        found.filter(|found| found.metadata.deletion_timestamp.is_none()).ok_or_else(|| {
            let near = match target.kind {
                TargetKind::Deployment => near_names(name, near.deployments.keys()),
                TargetKind::StatefulSet => near_names(name, near.stateful_sets.keys()),
                TargetKind::ReplicaSet => near_names(name, near.replica_sets.keys()),
                TargetKind::Pod => near_names(name, near.pods.keys()),
            };
            format!("there is no {} {name} in this namespace{near}", target.kind.kind())
        })
    }

    pub(super) fn uid(&self) -> &'a str {
        self.metadata.uid.as_deref().unwrap_or_default()
    }

    /// Whether its owner forbids intercepts, on itself or on its pods.
    fn denies_itself(&self) -> bool {
        let maps = [self.metadata.labels.as_ref(), self.metadata.annotations.as_ref(), self.labels];
        maps.into_iter().flatten().any(|map| map.get(names::INTERCEPT).is_some_and(|word| word == DENY))
    }

    /// Who forbids intercepts of it: itself, or what it was made by, so that nobody gets at a workload by way of its pods.
    pub(super) fn denier(&self, near: &'a Near) -> Option<TargetRef> {
        let mut found = *self;
        // Pod, ReplicaSet, Deployment: longer chains are not Kubernetes' own.
        for _ in 0..4 {
            if found.denies_itself() {
                let name = found.metadata.name.clone().unwrap_or_default();
                return Some(TargetRef { kind: found.kind, name });
            }
            let owners = found.metadata.owner_references.iter().flatten();
            let owner = owners.into_iter().find(|owner| owner.controller == Some(true))?;
            let owner = TargetRef { kind: TargetKind::parse(&owner.kind)?, name: owner.name.clone() };
            found = Found::look(near, &owner).ok()?;
        }
        None
    }

    /// Containers that serve: those of the pod, and those that start before it and stay.
    pub(super) fn containers(&self) -> impl Iterator<Item = &'a Container> + use<'a> {
        let sidecars = self.pod.into_iter().flat_map(|pod| pod.init_containers.iter().flatten());
        let sidecars = sidecars.filter(|container| container.restart_policy.as_deref() == Some("Always"));
        self.pod.into_iter().flat_map(|pod| &pod.containers).chain(sidecars)
    }

    /// All ports that containers declare.
    pub(super) fn ports(&self) -> impl Iterator<Item = (&'a Container, &'a ContainerPort)> + use<'a> {
        self.containers()
            .flat_map(|container| container.ports.iter().flatten().map(move |port| (container, port)))
    }

    /// The number of a port that a Service or a probe names.
    pub(super) fn number(&self, port: &IntOrString, protocol: Protocol) -> Option<u16> {
        match port {
            IntOrString::Int(number) => u16::try_from(*number).ok().filter(|number| *number > 0),
            IntOrString::String(name) => self.ports().find_map(|(_, port)| {
                let is_it = port.name.as_deref() == Some(name.as_str())
                    && Protocol::parse(port.protocol.as_deref()) == Some(protocol);
                u16::try_from(port.container_port).ok().filter(|_| is_it)
            }),
        }
    }
}

/// What forbids intercepts in a namespace, each with the labels of pods that it forbids them for. A ReplicaSet is not looked at by
/// itself: it may be left of an earlier rollout, and its pods are looked at.
#[derive(Debug, Default)]
pub(super) struct Deniers<'a>(Vec<(TargetRef, &'a BTreeMap<String, String>)>);

impl<'a> Deniers<'a> {
    pub(super) fn of(near: &'a Near) -> Self {
        let of = |kind: TargetKind| move |name: &String| TargetRef { kind, name: name.clone() };
        let all = near.deployments.keys().map(of(TargetKind::Deployment));
        let all = all.chain(near.stateful_sets.keys().map(of(TargetKind::StatefulSet)));
        let all = all.chain(near.pods.keys().map(of(TargetKind::Pod)));
        let found = all.filter_map(|target| Found::look(near, &target).ok());
        Self(found.filter_map(|found| Some((found.denier(near)?, found.labels?))).collect())
    }

    /// Who forbids it for a pod that this selects.
    pub(super) fn behind(&self, selector: &BTreeMap<String, String>) -> Option<&TargetRef> {
        let fits = |labels: &BTreeMap<String, String>| {
            selector.iter().all(|(key, value)| labels.get(key) == Some(value))
        };
        self.0.iter().find(|(_, labels)| fits(labels)).map(|(denier, _)| denier)
    }
}

/// Whether an object forbids intercepts, by its labels or annotations.
pub fn denies(metadata: &ObjectMeta) -> bool {
    let found = Found { kind: TargetKind::Pod, metadata, labels: None, pod: None };
    found.denies_itself()
}

/// The port that is meant.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Port {
    /// The container that declares it, if one does.
    pub(super) container: Option<String>,
    pub(super) number: u16,
    pub(super) name: Option<String>,
    pub(super) protocols: BTreeSet<Protocol>,
}

impl Port {
    /// Looks for the port that a spec names; if there is none, which there are.
    pub(super) fn look(
        near: &Near,
        found: &Found<'_>,
        spec: &InterceptRequestSpec,
    ) -> Result<Self, (Reason, String)> {
        let wanted = spec.target_container.as_deref();
        if let Some(wanted) = wanted
            && !found.containers().any(|container| container.name == wanted)
        {
            let names: Vec<&str> = found.containers().map(|container| container.name.as_str()).collect();
            let message = format!(
                "spec.targetContainer: the pods have no container {wanted}: they have {}",
                names.join(", ")
            );
            return Err((Reason::ContainerNotFound, message));
        }
        let is_meant = |port: &ContainerPort| match &spec.target_container_port {
            IntOrString::Int(number) => port.container_port == *number,
            // A number may be written as a text.
            IntOrString::String(text) => {
                port.name.as_ref() == Some(text) || text.parse() == Ok(port.container_port)
            }
        };
        let declared: Vec<_> = found
            .ports()
            .filter(|(container, port)| {
                wanted.is_none_or(|wanted| container.name == wanted) && is_meant(port)
            })
            .collect();
        if let Some((container, port)) = declared.first() {
            let protocols = declared.iter().filter(|(_, other)| other.container_port == port.container_port);
            let protocols: BTreeSet<Protocol> =
                protocols.filter_map(|(_, other)| Protocol::parse(other.protocol.as_deref())).collect();
            let number = u16::try_from(port.container_port).unwrap_or_default();
            if protocols.is_empty() || number == 0 {
                let message = format!("spec.targetContainerPort: {number} is neither of TCP nor of UDP");
                return Err((Reason::PortNotFound, message));
            }
            let container = Some(container.name.clone());
            return Ok(Self { container, number, name: port.name.clone(), protocols });
        }
        let number = match &spec.target_container_port {
            IntOrString::Int(number) => u16::try_from(*number).ok(),
            IntOrString::String(text) => text.parse().ok(),
        };
        // A container need not declare what it listens on: then a Service says so.
        let undeclared = number.filter(|number| *number > 0).and_then(|number| {
            let protocols = front::protocols_to(near, found, number);
            let container = wanted.map(ToOwned::to_owned).or_else(|| only(found));
            (!protocols.is_empty()).then_some(Self { container, number, name: None, protocols })
        });
        undeclared.ok_or_else(|| (Reason::PortNotFound, unknown(found, wanted, &spec.target_container_port)))
    }
}

/// The only container, which then has every port.
fn only(found: &Found<'_>) -> Option<String> {
    let mut all = found.containers();
    all.next().filter(|_| all.next().is_none()).map(|container| container.name.clone())
}

fn unknown(found: &Found<'_>, wanted: Option<&str>, port: &IntOrString) -> String {
    let port = match port {
        IntOrString::Int(number) => number.to_string(),
        IntOrString::String(name) => name.clone(),
    };
    let known: Vec<String> = found
        .ports()
        .filter(|(container, _)| wanted.is_none_or(|wanted| container.name == wanted))
        .map(|(container, port)| {
            let name = port.name.as_ref().map(|name| format!(" ({name})")).unwrap_or_default();
            let protocol = port.protocol.as_deref().unwrap_or("TCP");
            format!("{}/{protocol}{name} of {}", port.container_port, container.name)
        })
        .collect();
    let whose = wanted.map_or_else(|| "no container".to_owned(), |name| format!("container {name} does not"));
    let declares = if wanted.is_some() { "declare" } else { "declares" };
    let known = if known.is_empty() { "there are none".to_owned() } else { known.join(", ") };
    format!(
        "spec.targetContainerPort: {whose} {declares} port {port}, and no Service leads to it; declared ports: {known}"
    )
}
