//! Containers that are replaced by a carrier: what of a container changes, and what it was before. What its owner changes
//! meanwhile is seen in that it is not what was written, and becomes part of what is put back.

use causeway_api::InterceptMode;
use k8s_openapi::api::core::v1::{Container, EnvVar, PodSpec, VolumeMount};
use kube::ResourceExt as _;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::layout::Layout;
use super::picture::Swap;
use super::plan::{Draft, Taking};
use super::target::{Found, Port, TargetKind, TargetRef};
use super::world::{Near, World};

/// What is a carrier's own in a container.
pub const FIELDS: [&str; 9] = [
    "image",
    "imagePullPolicy",
    "command",
    "args",
    "workingDir",
    "lifecycle",
    "livenessProbe",
    "readinessProbe",
    "startupProbe",
];
/// What the variables of a carrier are called, and its volumes.
pub const ENV_PREFIX: &str = "CAUSEWAY_CARRIER_";
/// What its volumes are called.
pub const VOLUME_PREFIX: &str = "causeway-carrier-";

/// A container that was replaced: what it was before, and what was written in its place.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Replaced {
    /// Its name.
    pub container: String,
    /// What it was.
    pub original: Map<String, Value>,
    /// What was written.
    pub written: Map<String, Value>,
}

impl Replaced {
    /// What becomes of `original` when `carrier` takes its place.
    pub fn new(original: &Container, carrier: &Container) -> Self {
        let own = |container: &Container| {
            let mut fields = fields(container);
            fields.retain(|field, _| FIELDS.contains(&field.as_str()));
            fields
        };
        Self { container: original.name.clone(), original: own(original), written: own(carrier) }
    }

    /// The container without us: what was written is what it was, and what somebody has changed since stays.
    pub fn undone(&self, live: &Container) -> Container {
        let mut undone = fields(live);
        for field in FIELDS {
            let is_ours = match (undone.get(field), self.written.get(field)) {
                (None, None) => true,
                (Some(live), Some(written)) => covers(live, written),
                _ => false,
            };
            if !is_ours {
                continue;
            }
            match self.original.get(field) {
                Some(value) => drop(undone.insert(field.to_owned(), value.clone())),
                None => drop(undone.remove(field)),
            }
        }
        let mut undone: Container =
            serde_json::from_value(Value::Object(undone)).unwrap_or_else(|_| live.clone());
        retain(&mut undone.env, |variable| !variable.name.starts_with(ENV_PREFIX));
        retain(&mut undone.volume_mounts, |mount| !mount.name.starts_with(VOLUME_PREFIX));
        undone
    }

    /// Whether a container is as it was written.
    pub fn is_in_place(&self, live: &Container) -> bool {
        let live = fields(live);
        FIELDS.iter().all(|field| match (live.get(*field), self.written.get(*field)) {
            (None, None) => true,
            (Some(live), Some(written)) => covers(live, written),
            _ => false,
        })
    }
}

/// `carrier` in the place of `original`: with its environment, its mounts and its rights, which do not harm.
pub fn dressed(original: &Container, carrier: &Container) -> Container {
    let mut env: Vec<EnvVar> = original.env.clone().unwrap_or_default();
    env.extend(carrier.env.iter().flatten().cloned());
    let mut mounts: Vec<VolumeMount> = original.volume_mounts.clone().unwrap_or_default();
    mounts.extend(carrier.volume_mounts.iter().flatten().cloned());
    Container {
        image: carrier.image.clone(),
        image_pull_policy: carrier.image_pull_policy.clone(),
        command: carrier.command.clone(),
        args: carrier.args.clone(),
        working_dir: carrier.working_dir.clone(),
        lifecycle: carrier.lifecycle.clone(),
        liveness_probe: carrier.liveness_probe.clone(),
        readiness_probe: carrier.readiness_probe.clone(),
        startup_probe: carrier.startup_probe.clone(),
        env: Some(env).filter(|env| !env.is_empty()),
        volume_mounts: Some(mounts).filter(|mounts| !mounts.is_empty()),
        ..original.clone()
    }
}

fn fields(container: &Container) -> Map<String, Value> {
    match serde_json::to_value(container) {
        Ok(Value::Object(fields)) => fields,
        // Containers are plain structs.
        _ => Map::new(),
    }
}

fn retain<T>(list: &mut Option<Vec<T>>, keep: impl Fn(&T) -> bool) {
    if let Some(items) = list {
        items.retain(keep);
        if items.is_empty() {
            *list = None;
        }
    }
}

/// Whether `live` has all that was written; the API server fills in defaults.
fn covers(live: &Value, written: &Value) -> bool {
    match (live, written) {
        (Value::Object(live), Value::Object(written)) => {
            written.iter().all(|(key, written)| live.get(key).is_some_and(|live| covers(live, written)))
        }
        (Value::Array(live), Value::Array(written)) => {
            live.len() == written.len()
                && live.iter().zip(written).all(|(live, written)| covers(live, written))
        }
        (live, written) => live == written,
    }
}

/// Why the container of a target can't be replaced.
pub(super) fn check(near: &Near, found: &Found<'_>, port: &Port) -> Result<(), String> {
    let owner = found.metadata.owner_references.iter().flatten().find(|owner| owner.controller == Some(true));
    let of_owner = |what: &str| {
        let owner = owner.map(|owner| format!("; it belongs to {} {}", owner.kind, owner.name));
        format!("spec.target: {what}{}", owner.unwrap_or_default())
    };
    match found.kind {
        TargetKind::ReplicaSet => {
            return Err(of_owner(
                "a ReplicaSet does not follow its template: name a Deployment or a StatefulSet, or use mode: Service",
            ));
        }
        TargetKind::Pod if owner.is_some() => {
            return Err(of_owner("a pod that a workload made is replaced by that: name the workload"));
        }
        TargetKind::Deployment | TargetKind::StatefulSet | TargetKind::Pod => {}
    }
    let Some(container) = &port.container else {
        return Err(format!(
            "spec.targetContainer: say which container has port {}, since none declares it",
            port.number
        ));
    };
    let is_main = found.pod.is_some_and(|pod| pod.containers.iter().any(|one| one.name == *container));
    if !is_main {
        return Err(format!(
            "spec.targetContainer: {container} starts before the pod does: name another one"
        ));
    }
    let before = near.replaced.iter().find(|(target, replaced)| {
        target.name == found.metadata.name.as_deref().unwrap_or_default()
            && target.kind == found.kind
            && replaced.container != *container
    });
    match before {
        Some((target, replaced)) => Err(format!(
            "container {} of {target} is still being put back: it is waited for",
            replaced.container
        )),
        None => Ok(()),
    }
}

/// The container that is replaced.
pub(super) fn make(world: &World, namespace: &str, target: &TargetRef, takings: &[Taking]) -> Option<Swap> {
    let near = world.near.get(namespace)?;
    let found = Found::look(near, target).ok()?;
    let name = takings.first()?.port.container.as_ref()?;
    let live = found.pod?.containers.iter().find(|container| container.name == *name)?;
    let original = match near.replaced.get(target) {
        Some(replaced) => replaced.undone(live),
        None => live.clone(),
    };
    let layout = Layout::of_container(&found, takings);
    let placed: Vec<(Taking, Vec<usize>)> =
        takings.iter().map(|taking| (taking.clone(), Vec::new())).collect();
    let draft = Draft { world, takings: &placed, layout: &layout };
    let (plan, deliveries) = draft.of_container();
    let account = found.pod.and_then(|pod: &PodSpec| pod.service_account_name.clone());
    Some(Swap {
        uid: found.uid().to_owned(),
        original,
        account: account.filter(|name| !name.is_empty()).unwrap_or_else(|| "default".to_owned()),
        plan,
        deliveries,
        serves: takings.iter().map(|taking| (taking.uid.clone(), taking.request.clone())).collect(),
        layout,
    })
}

/// The name of what belongs to the carrier in a target's place.
pub fn carrier_name(target: &TargetRef) -> String {
    crate::naming::child(&format!("{}-{}", target.name, target.kind.short()), "-swap")
}

/// Whether a request is one of those that replace a container.
pub fn is_swap(request: &causeway_api::InterceptRequest) -> bool {
    request.spec.mode == InterceptMode::Container
}

/// The target's name in a workload's own words.
pub fn of(kind: TargetKind, object: &impl kube::Resource) -> TargetRef {
    TargetRef { kind, name: object.name_any() }
}
