//! What a container sees: its environment and the files that the API holds for it, for people who want the same elsewhere. A
//! pod that lacks something does not start; here what can't be had is left out and named.

use std::{
    collections::BTreeMap,
    net::{IpAddr, Ipv4Addr},
    path::{Component, Path, PathBuf},
};

use k8s_openapi::api::core::v1::{
    Container, EnvVar, ObjectFieldSelector, Pod, ProjectedVolumeSource, ResourceFieldSelector, Volume,
    VolumeMount,
};

use super::{
    env::{self, EnvError, Environment},
    fields::Host,
    volume::{Content, Inputs, ROOT_CA, VolumeError, claims::Claims, content},
};
pub use super::{
    sources::{Kind, SourceRef, Sources, references},
    volume::File,
};

/// Something that a container has and that can't be had here.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lack {
    /// A variable, or a place in the container.
    pub what: String,
    pub why: String,
    /// The ConfigMap or Secret that it would come from.
    pub source: Option<(Kind, String)>,
}

/// What a container sees of the API.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Seen<T> {
    pub found: T,
    pub lacks: Vec<Lack>,
}

/// Files by their path in the container.
pub type Files = BTreeMap<PathBuf, Seeable>;

/// A file, and whether it is of a Secret.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Seeable {
    pub file: File,
    pub is_secret: bool,
}

/// The pod with this container and its volumes alone, so that nothing else is asked for.
#[must_use]
pub fn narrowed(pod: &Pod, container: &str) -> Pod {
    let mut pod = pod.clone();
    if let Some(spec) = &mut pod.spec {
        spec.containers.retain(|one| one.name == container);
        spec.init_containers = None;
        let mounts: Vec<&str> = spec
            .containers
            .iter()
            .flat_map(|one| one.volume_mounts.iter().flatten())
            .map(|m| m.name.as_str())
            .collect();
        if let Some(volumes) = &mut spec.volumes {
            volumes.retain(|volume| mounts.contains(&volume.name.as_str()));
        }
    }
    pod
}

/// The environment, on top of what is `given`: later entries replace earlier ones. A pod without a uid is none yet, and what is
/// known of running ones alone is lacking.
pub fn environment(
    pod: &Pod,
    container: &Container,
    sources: &Sources,
    given: impl IntoIterator<Item = (String, String)>,
) -> Seen<Vec<(String, String)>> {
    let mut environment = Environment::default();
    for (name, value) in given {
        environment.set(name, value);
    }
    let mut lacks = Vec::new();
    for from in container.env_from.iter().flatten() {
        if let Err(error) = env::add_source(&mut environment, from, sources) {
            lacks.push(lack("variables".to_owned(), &error));
        }
    }
    for variable in container.env.iter().flatten() {
        if let Some(why) = unknowable_variable(pod, container, variable) {
            lacks.push(Lack { what: variable.name.clone(), why, source: None });
            continue;
        }
        match env::value(pod, container, host(pod), sources, variable, &environment) {
            Ok(Some(value)) => environment.set(&variable.name, value),
            Ok(None) => {}
            Err(error) => lacks.push(lack(variable.name.clone(), &error)),
        }
    }
    Seen { found: environment.into_entries(), lacks }
}

/// The files of ConfigMaps, Secrets and the pod's own fields, by their path in the container.
pub fn files(
    pod: &Pod,
    container: &Container,
    sources: &Sources,
    environment: &[(String, String)],
) -> Seen<Files> {
    let mut seen = Seen::<Files>::default();
    let volumes = pod.spec.as_ref().and_then(|spec| spec.volumes.as_deref()).unwrap_or_default();
    let mut mounts: Vec<&VolumeMount> = container.volume_mounts.iter().flatten().collect();
    // What is mounted inside another mount hides what that one has there.
    mounts.sort_by_key(|mount| Path::new(&mount.mount_path).components().count());
    for mount in mounts {
        let Some(volume) = volumes.iter().find(|volume| volume.name == mount.name) else { continue };
        let at = Path::new(&mount.mount_path);
        // Whoever copies the files must not be led out of where they go.
        if !at.components().all(|part| matches!(part, Component::RootDir | Component::Normal(_))) {
            let why = "mountPath must not contain \"..\"".to_owned();
            seen.lacks.push(Lack { what: mount.mount_path.clone(), why, source: None });
            continue;
        }
        seen.found.retain(|path, _| !path.starts_with(at));
        let below = match sub_path(mount, environment) {
            Ok(below) => below,
            Err(why) => {
                seen.lacks.push(Lack { what: mount.mount_path.clone(), why, source: None });
                continue;
            }
        };
        for part in parts(volume) {
            match files_of(pod, container, &part, sources) {
                Ok(files) => {
                    for (path, file) in files {
                        let Ok(inside) = Path::new(&path).strip_prefix(&below) else { continue };
                        // A file that is mounted alone has the mount's own path.
                        let path = if inside == Path::new("") { at.to_owned() } else { at.join(inside) };
                        seen.found.insert(path, Seeable { file, is_secret: is_secret(&part) });
                    }
                }
                Err((why, source)) => {
                    seen.lacks.push(Lack { what: mount.mount_path.clone(), why, source });
                }
            }
        }
    }
    seen
}

fn lack(what: String, error: &EnvError) -> Lack {
    let source = match error {
        EnvError::MissingSource { kind, name } | EnvError::MissingKey { kind, name, .. } => {
            Some((*kind, name.clone()))
        }
        EnvError::Field { .. } => None,
    };
    Lack { what, why: error.to_string(), source }
}

/// What the node of a pod that runs has told of itself.
fn host(pod: &Pod) -> Host<'_> {
    let address = |text: Option<&String>| {
        text.and_then(|text| text.parse().ok()).unwrap_or(IpAddr::V4(Ipv4Addr::UNSPECIFIED))
    };
    let status = pod.status.as_ref();
    Host {
        node: pod.spec.as_ref().and_then(|spec| spec.node_name.as_deref()).unwrap_or_default(),
        address: address(status.and_then(|status| status.host_ip.as_ref())),
        pod_address: address(status.and_then(|status| status.pod_ip.as_ref())),
        cpus: 0,
        memory: 0,
    }
}

fn unknowable_variable(pod: &Pod, container: &Container, variable: &EnvVar) -> Option<String> {
    let from = variable.value_from.as_ref()?;
    let field = from.field_ref.as_ref().and_then(|field| unknowable_field(pod, field));
    field.or_else(|| unknowable_amount(container, from.resource_field_ref.as_ref()?))
}

fn unknowable_field(pod: &Pod, field: &ObjectFieldSelector) -> Option<String> {
    const OF_RUNNING: [&str; 7] = [
        "metadata.name",
        "metadata.uid",
        "spec.nodeName",
        "status.podIP",
        "status.podIPs",
        "status.hostIP",
        "status.hostIPs",
    ];
    let path = field.field_path.as_str();
    let needs_one = OF_RUNNING.contains(&path) && pod.metadata.uid.is_none();
    needs_one.then(|| format!("{path} is that of a pod, and none of it runs"))
}

/// Without a limit a container may use all of its node, and nothing here knows how much that is.
fn unknowable_amount(container: &Container, selector: &ResourceFieldSelector) -> Option<String> {
    let name = selector.resource.strip_prefix("limits.")?;
    let limits = container.resources.as_ref().and_then(|resources| resources.limits.as_ref());
    let is_set = limits.is_some_and(|limits| limits.contains_key(name));
    (!is_set).then(|| format!("{} is not set, and its node's own is not known", selector.resource))
}

/// A volume in parts that can be had or not, each by itself.
fn parts(volume: &Volume) -> Vec<Volume> {
    let Some(projected) = &volume.projected else { return vec![volume.clone()] };
    let one = |source| Volume {
        name: volume.name.clone(),
        projected: Some(ProjectedVolumeSource {
            default_mode: projected.default_mode,
            sources: Some(vec![source]),
        }),
        ..Volume::default()
    };
    projected.sources.iter().flatten().cloned().map(one).collect()
}

fn is_secret(part: &Volume) -> bool {
    let projected = part.projected.iter().flat_map(|projected| projected.sources.iter().flatten());
    part.secret.is_some() || projected.into_iter().any(|source| source.secret.is_some())
}

type Unseen = (String, Option<(Kind, String)>);

fn files_of(
    pod: &Pod,
    container: &Container,
    part: &Volume,
    sources: &Sources,
) -> Result<BTreeMap<String, File>, Unseen> {
    let projected = part.projected.as_ref().and_then(|projected| projected.sources.as_ref()?.first());
    if projected.is_some_and(|source| source.service_account_token.is_some()) {
        let why = "the token of its account is made for the pod alone; `kubectl create token` makes another";
        return Err((why.to_owned(), None));
    }
    // The node has a file for it, which is not this cluster's.
    let map = part.config_map.as_ref().map(|source| &source.name);
    let map = map.or_else(|| Some(&projected?.config_map.as_ref()?.name));
    if map.is_some_and(|name| name == ROOT_CA) && sources.get(Kind::ConfigMap, ROOT_CA).is_none() {
        let source = Some((Kind::ConfigMap, ROOT_CA.to_owned()));
        return Err((format!("configmap {ROOT_CA:?} not found"), source));
    }
    let items = part.downward_api.as_ref().and_then(|source| source.items.as_ref());
    let items = items.or_else(|| projected?.downward_api.as_ref()?.items.as_ref());
    for item in items.into_iter().flatten() {
        let field = item.field_ref.as_ref().and_then(|field| unknowable_field(pod, field));
        let amount = item.resource_field_ref.as_ref().and_then(|at| unknowable_amount(container, at));
        if let Some(why) = field.or(amount) {
            return Err((why, None));
        }
    }
    let (claims, tokens) = (Claims::default(), BTreeMap::new());
    let inputs = Inputs { pod, host: host(pod), sources, claims: &claims, tokens: &tokens, ca: "" };
    match content(part, &inputs) {
        Ok(Content::Files(files)) => Ok(files),
        Ok(Content::Empty | Content::Host(_) | Content::Claim(_))
        | Err(VolumeError::Claim { .. } | VolumeError::Unsupported { .. }) => Err((
            format!(
                "volume {} is no ConfigMap, Secret or field of the pod, and only the pod has it",
                part.name
            ),
            None,
        )),
        Err(VolumeError::MissingSource { kind, name, .. }) => {
            Err((format!("{} {name:?} not found", kind.resource()), Some((kind, name))))
        }
        Err(other) => Err((other.to_string(), None)),
    }
}

/// What of a volume is mounted.
fn sub_path(mount: &VolumeMount, environment: &[(String, String)]) -> Result<PathBuf, String> {
    let below = match (&mount.sub_path_expr, &mount.sub_path) {
        (Some(expression), _) => {
            let mut known = Environment::default();
            for (name, value) in environment {
                known.set(name, value);
            }
            known.expand(expression)
        }
        (None, Some(path)) => path.clone(),
        (None, None) => String::new(),
    };
    let is_plain = |part: Component<'_>| matches!(part, Component::Normal(_) | Component::CurDir);
    if Path::new(&below).components().all(is_plain) {
        Ok(Path::new(&below).components().filter(|part| matches!(part, Component::Normal(_))).collect())
    } else {
        Err(format!("subPath {below:?} must be relative and must not contain \"..\""))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn pod(running: bool) -> Pod {
        let mut pod = json!({"metadata": {"namespace": "ns", "labels": {"a": "b"}}, "spec": {
            "containers": [
                {"name": "side", "envFrom": [{"secretRef": {"name": "not-asked"}}]},
                {"name": "web",
                 "envFrom": [{"configMapRef": {"name": "map"}}, {"secretRef": {"name": "denied"}}],
                 "env": [
                    {"name": "URL", "value": "http://$(HOST)/$$x"},
                    {"name": "KEY", "valueFrom": {"secretKeyRef": {"name": "denied", "key": "k"}}},
                    {"name": "IP", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}},
                    {"name": "LABEL", "valueFrom": {"fieldRef": {"fieldPath": "metadata.labels['a']"}}},
                    {"name": "CPUS", "valueFrom": {"resourceFieldRef": {"resource": "limits.cpu"}}}],
                 "volumeMounts": [
                    {"name": "conf", "mountPath": "/etc/app"},
                    {"name": "conf", "mountPath": "/etc/one.yaml", "subPath": "b/one.yaml"},
                    {"name": "keys", "mountPath": "/etc/app/keys"},
                    {"name": "all", "mountPath": "/all"},
                    {"name": "data", "mountPath": "/data"}]}],
            "volumes": [
                {"name": "conf", "configMap": {"name": "map", "items": [
                    {"key": "A", "path": "a"}, {"key": "HOST", "path": "b/one.yaml", "mode": 0o440}]}},
                {"name": "keys", "secret": {"secretName": "keys", "defaultMode": 0o400}},
                {"name": "all", "projected": {"sources": [
                    {"serviceAccountToken": {"path": "token"}}, {"secret": {"name": "keys"}},
                    {"configMap": {"name": "kube-root-ca.crt"}},
                    {"downwardAPI": {"items": [{"path": "labels", "fieldRef": {"fieldPath": "metadata.labels"}}]}}]}},
                {"name": "data", "emptyDir": {}},
                {"name": "unused", "secret": {"secretName": "not-asked"}}]}});
        if running {
            pod["metadata"]["uid"] = json!("1");
            pod["status"] = json!({"podIP": "10.0.0.7", "hostIP": "10.0.0.1"});
        }
        serde_json::from_value(pod).unwrap()
    }

    fn sources() -> Sources {
        Sources::default().with(Kind::ConfigMap, "map", &[("A", "1"), ("HOST", "db")]).with(
            Kind::Secret,
            "keys",
            &[("tls.key", "secret")],
        )
    }

    fn web(pod: &Pod) -> &Container {
        pod.spec.as_ref().unwrap().containers.iter().find(|one| one.name == "web").unwrap()
    }

    #[test]
    fn only_what_the_container_has_is_asked_for() {
        let narrow = narrowed(&pod(true), "web");
        let names: Vec<String> = references(&narrow).into_iter().map(|source| source.name).collect();
        assert_eq!(names, ["kube-root-ca.crt", "map", "denied", "keys"]);
    }

    #[test]
    fn what_can_not_be_had_is_left_out_of_the_environment_and_named() {
        let pod = pod(true);
        let seen = environment(&pod, web(&pod), &sources(), [("A".to_owned(), "given".to_owned())]);
        let found: Vec<String> = seen.found.iter().map(|(name, value)| format!("{name}={value}")).collect();
        assert_eq!(found, ["A=1", "HOST=db", "URL=http://db/$x", "IP=10.0.0.7", "LABEL=b"]);
        let lacks: Vec<&str> = seen.lacks.iter().map(|lack| lack.what.as_str()).collect();
        assert_eq!(lacks, ["variables", "KEY", "CPUS"]);
        assert_eq!(seen.lacks[1].source, Some((Kind::Secret, "denied".to_owned())));
        let pod = self::pod(false);
        let lacks = environment(&pod, web(&pod), &sources(), []).lacks;
        assert!(
            lacks.iter().any(|lack| lack.what == "IP" && lack.why.contains("none of it runs")),
            "{lacks:?}"
        );
    }

    #[test]
    fn files_are_where_the_container_has_them() {
        let pod = pod(true);
        let seen = files(&pod, web(&pod), &sources(), &[]);
        let found: Vec<String> = seen
            .found
            .iter()
            .map(|(path, one)| {
                let text = String::from_utf8_lossy(&one.file.contents).into_owned();
                format!("{} {:o} {} {text:?}", path.display(), one.file.mode, one.is_secret)
            })
            .collect();
        assert_eq!(
            found,
            [
                r#"/all/labels 644 false "a=\"b\"""#,
                r#"/all/tls.key 644 true "secret""#,
                r#"/etc/app/a 644 false "1""#,
                r#"/etc/app/b/one.yaml 440 false "db""#,
                r#"/etc/app/keys/tls.key 400 true "secret""#,
                r#"/etc/one.yaml 440 false "db""#,
            ]
        );
        let lacks: Vec<&str> = seen.lacks.iter().map(|lack| lack.what.as_str()).collect();
        assert_eq!(lacks, ["/all", "/all", "/data"], "{:?}", seen.lacks);
        assert!(seen.lacks[0].why.contains("kubectl create token"), "{:?}", seen.lacks);
    }

    #[test]
    fn a_mount_that_leads_elsewhere_is_left_out() {
        let mut pod = pod(true);
        pod.spec.as_mut().unwrap().containers[1].volume_mounts.as_mut().unwrap().truncate(1);
        for path in ["/etc/app/../../home/dev/.ssh", "/..", "etc/../../app"] {
            pod.spec.as_mut().unwrap().containers[1].volume_mounts.as_mut().unwrap()[0].mount_path =
                path.to_owned();
            let seen = files(&pod, web(&pod), &sources(), &[]);
            assert_eq!(seen.found, Files::default(), "{path}");
            assert!(seen.lacks[0].what == path && seen.lacks[0].why.contains(".."), "{:?}", seen.lacks);
        }
    }
}
