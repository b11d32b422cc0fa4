//! From a container's spec to a container of Docker or Podman: command, environment, mounts, networks, limits.
//! What Kubernetes has no word for is said by annotations of the pod.

use std::{
    collections::BTreeMap,
    net::{IpAddr, Ipv4Addr, SocketAddr},
    path::{Path, PathBuf},
};

use causeway_base::Quantity;
use causeway_containers::{Attachment, ContainerSpec, Mount, PortSpec, Protocol, labels};
use k8s_openapi::api::core::v1::{Container, Pod};
use kube::ResourceExt;

use super::{
    Shared,
    env::{self, Environment},
    fields::amount,
    launch::{self, LaunchError},
    mounts::Mounts,
    runtime::KIND,
    sources::Sources,
    tracked::Role,
    trust::Trust,
};
use crate::{
    layout::PodDir,
    process::{Launch, RuntimeContainer},
};

/// Networks of the runtime that the pod is on, with commas between; the runtime's default without it.
pub(super) const NETWORKS: &str = "causeway.dev/networks";
/// Names of the pod on those networks besides its own, with commas between.
pub(super) const ALIASES: &str = "causeway.dev/network-aliases";
/// The label that tells a pod's containers apart.
pub(crate) const CONTAINER: &str = "dev.causeway/container";

/// What a container is prepared from, besides its pod.
pub(super) struct Inputs<'a> {
    pub shared: &'a Shared,
    pub dir: &'a PodDir,
    pub address: IpAddr,
    pub sources: &'a Sources,
    pub number: i32,
    pub socket: &'a Path,
    /// A container of this pod that runs: all of a pod share one network.
    pub network_of: Option<String>,
    pub trust: &'a Trust,
}

/// Decides what the runtime is asked for.
pub(super) fn prepare(inputs: &Inputs<'_>, pod: &Pod, container: &Container) -> Result<Launch, LaunchError> {
    let mut given = Environment::default();
    given.set("HOSTNAME", launch::hostname(pod));
    // The runtime gives the address when it starts the container, too late for its environment; what listens on
    // this one is reached all the same.
    let is_host = pod.spec.as_ref().and_then(|spec| spec.host_network) == Some(true);
    let address = if is_host { inputs.address } else { IpAddr::V4(Ipv4Addr::UNSPECIFIED) };
    let host = inputs.shared.host(address);
    let mounts = launch::mounts(inputs.dir, pod, container, inputs.sources, host, &given)?;
    check_sub_paths(pod, container, &mounts, inputs.trust)?;
    for network in words(pod, NETWORKS) {
        inputs.trust.check_network(network).map_err(LaunchError::Refused)?;
    }
    let environment = env::build(pod, container, host, inputs.sources, given)?;
    let mut spec = spec(pod, container, &environment, &mounts);
    spec.name = name(inputs.dir, &container.name, inputs.number);
    spec.labels = labels::Owner {
        uid: &inputs.dir.uid,
        kind: KIND,
        name: &format!("{}/{}", inputs.dir.namespace, inputs.dir.name),
        instance: inputs.shared.containers.instance(),
    }
    .labels();
    spec.labels.insert(CONTAINER.to_owned(), container.name.clone());
    spec.env = environment.into_entries();
    if let Some(other) = &inputs.network_of {
        (spec.networks, spec.ports, spec.hosts, spec.hostname) = (vec![], vec![], vec![], None);
        spec.network_of = Some(other.clone());
    }
    Ok(Launch {
        network: None,
        program: PathBuf::new(),
        args: Vec::new(),
        env: spec.env.clone(),
        working_dir: PathBuf::from("/"),
        pod_uid: inputs.dir.uid.clone(),
        container: container.name.clone(),
        image: spec.image.clone(),
        spec_hash: launch::spec_hash(container),
        restart_count: inputs.number,
        runtime_container: Some(RuntimeContainer { socket: inputs.socket.to_owned(), spec }),
    })
}

/// A name that people recognise and that no other attempt of any pod has.
fn name(dir: &PodDir, container: &str, number: i32) -> String {
    let uid = dir.uid.split('-').next().unwrap_or_default();
    format!("{}-{container}-{uid}-{number}", dir.name)
}

fn spec(pod: &Pod, container: &Container, environment: &Environment, mounts: &Mounts) -> ContainerSpec {
    let expand = |list: &Option<Vec<String>>| -> Option<Vec<String>> {
        let list: Vec<_> = list.iter().flatten().map(|text| environment.expand(text)).collect();
        (!list.is_empty()).then_some(list)
    };
    let pod_spec = pod.spec.clone().unwrap_or_default();
    let own = container.security_context.clone().unwrap_or_default();
    let pods = pod_spec.security_context.clone().unwrap_or_default();
    let (user, group) = (own.run_as_user.or(pods.run_as_user), own.run_as_group.or(pods.run_as_group));
    let capabilities = own.capabilities.unwrap_or_default();
    let limits = container.resources.clone().and_then(|resources| resources.limits).unwrap_or_default();
    let limit = |name: &str| limits.get(name).and_then(amount);
    let (networks, ports) = if pod_spec.host_network == Some(true) {
        (vec![Attachment { network: "host".to_owned(), aliases: vec![] }], vec![])
    } else {
        (networks(pod), ports(container))
    };
    ContainerSpec {
        image: container.image.clone().unwrap_or_default(),
        entrypoint: expand(&container.command),
        command: expand(&container.args),
        working_dir: container.working_dir.clone().filter(|path| !path.is_empty()),
        user: user.map(|user| match group {
            Some(group) => format!("{user}:{group}"),
            None => user.to_string(),
        }),
        hostname: (pod_spec.host_network != Some(true)).then(|| launch::hostname(pod)),
        networks,
        ports,
        mounts: mounts
            .iter()
            .map(|mount| Mount {
                source: mount.source.clone(),
                target: mount.path.to_string_lossy().into_owned(),
                // As on a cluster: what the API holds is not for containers to change.
                read_only: mount.read_only || !is_writable(pod, &mount.volume),
            })
            .collect(),
        hosts: hosts(&pod_spec.host_aliases.unwrap_or_default()),
        labels: BTreeMap::new(),
        read_only_root: own.read_only_root_filesystem == Some(true),
        no_new_privileges: own.allow_privilege_escalation == Some(false),
        drop_capabilities: capabilities.drop.unwrap_or_default(),
        add_capabilities: capabilities.add.unwrap_or_default(),
        memory: limit("memory")
            .and_then(|bytes| bytes.in_units_of(Quantity::from_units(1)))
            .map(|bytes| bytes as i64),
        milli_cpus: limit("cpu")
            .and_then(|cpus| cpus.in_units_of(Quantity::parse("1m")?))
            .map(|millis| millis as i64),
        ..ContainerSpec::default()
    }
}

/// Whether containers write to the volume; the others are made from objects of the API.
fn is_writable(pod: &Pod, volume: &str) -> bool {
    let volumes = pod.spec.iter().flat_map(|spec| spec.volumes.iter().flatten());
    volumes.filter(|one| one.name == volume).any(|one| {
        let claim = one.persistent_volume_claim.as_ref();
        one.empty_dir.is_some()
            || one.host_path.is_some()
            || claim.is_some_and(|claim| claim.read_only != Some(true))
    })
}

/// A link that a container put into a volume would lead the runtime, which often is root, to a file of the machine.
fn check_sub_paths(
    pod: &Pod,
    container: &Container,
    mounts: &Mounts,
    trust: &Trust,
) -> Result<(), LaunchError> {
    let below = mounts.iter().filter(|mount| mount.source != mount.base && is_writable(pod, &mount.volume));
    for mount in below {
        let volume = &mount.volume;
        if !trust.allows_shared_sub_paths()
            && let Some(other) = runs_beside(pod, container, volume)
        {
            return Err(LaunchError::Refused(format!(
                "container {other:?} can change volume {volume:?} while this one is started, so its subPath can't be trusted; give them volumes of their own, or mount the whole of it"
            )));
        }
        let mut path = mount.base.clone();
        for part in mount.source.strip_prefix(&mount.base).into_iter().flat_map(Path::components) {
            path.push(part);
            if path.is_symlink() {
                return Err(LaunchError::Refused(format!(
                    "subPath of volume {volume:?} leads over the link {}; name a file or directory",
                    path.strip_prefix(&mount.base).unwrap_or(&path).display()
                )));
            }
        }
    }
    Ok(())
}

/// Another container with this volume that may run while `container` is started.
fn runs_beside<'a>(pod: &'a Pod, container: &Container, volume: &str) -> Option<&'a str> {
    let spec = pod.spec.as_ref()?;
    let inits = spec.init_containers.iter().flatten();
    let is_init = inits.clone().any(|init| init.name == container.name);
    let sidecars = inits.filter(|init| Role::of_init(init) == Role::Sidecar);
    let mains = spec.containers.iter().filter(|_| !is_init);
    let mut beside = sidecars.chain(mains).filter(|other| other.name != container.name);
    beside
        .find(|other| other.volume_mounts.iter().flatten().any(|mount| mount.name == volume))
        .map(|other| other.name.as_str())
}

fn hosts(aliases: &[k8s_openapi::api::core::v1::HostAlias]) -> Vec<(String, IpAddr)> {
    aliases
        .iter()
        .filter_map(|alias| Some((alias, alias.ip.parse().ok()?)))
        .flat_map(|(alias, ip)| alias.hostnames.iter().flatten().map(move |name| (name.clone(), ip)))
        .collect()
}

fn words<'a>(pod: &'a Pod, annotation: &str) -> impl Iterator<Item = &'a str> {
    let text = pod.annotations().get(annotation).map(String::as_str).unwrap_or_default();
    text.split(',').map(str::trim).filter(|word| !word.is_empty())
}

/// Whether the pod asks for networks of the runtime by name.
pub(super) fn names_networks(pod: &Pod) -> bool {
    words(pod, NETWORKS).next().is_some()
}

fn networks(pod: &Pod) -> Vec<Attachment> {
    let aliases: Vec<String> =
        [launch::hostname(pod)].into_iter().chain(words(pod, ALIASES).map(str::to_owned)).collect();
    words(pod, NETWORKS)
        .map(|network| Attachment { network: network.to_owned(), aliases: aliases.clone() })
        .collect()
}

/// Only ports with a `hostPort` are the host's; the others are reached at the pod's own address.
fn ports(container: &Container) -> Vec<PortSpec> {
    container
        .ports
        .iter()
        .flatten()
        .filter_map(|port| {
            let ip = port.host_ip.as_deref().and_then(|ip| ip.parse().ok());
            let ip = ip.unwrap_or(IpAddr::V4(Ipv4Addr::UNSPECIFIED));
            Some(PortSpec {
                port: u16::try_from(port.container_port).ok()?,
                protocol: if port.protocol.as_deref() == Some("UDP") { Protocol::Udp } else { Protocol::Tcp },
                host: SocketAddr::new(ip, u16::try_from(port.host_port?).ok()?),
            })
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn translate(annotations: Value, mut pod_spec: Value, container: Value) -> ContainerSpec {
        pod_spec["containers"] = json!([container]);
        let pod: Pod = serde_json::from_value(json!({
            "metadata": {"name": "web", "namespace": "ns", "annotations": annotations}, "spec": pod_spec,
        }))
        .unwrap();
        let mut environment = Environment::default();
        environment.set("WHO", "you");
        let container = &pod.spec.as_ref().unwrap().containers[0];
        spec(&pod, container, &environment, &Mounts::default())
    }

    #[test]
    fn a_command_replaces_the_entry_point_and_arguments_the_command() {
        let spec = translate(
            json!({}),
            json!({}),
            json!({"name": "c", "image": "web:1", "command": ["/bin/hello"], "args": ["$(WHO)", "$(NOBODY)"]}),
        );
        assert_eq!(spec.entrypoint.unwrap(), ["/bin/hello"]);
        assert_eq!(spec.command.unwrap(), ["you", "$(NOBODY)"]);
        let plain = translate(json!({}), json!({}), json!({"name": "c", "image": "web:1"}));
        assert_eq!((plain.entrypoint, plain.command), (None, None), "the image's own");
    }

    #[test]
    fn annotations_name_networks_and_aliases() {
        let annotations = json!({NETWORKS: "blue, green", ALIASES: "api"});
        let spec = translate(annotations, json!({}), json!({"name": "c", "image": "web:1"}));
        let names: Vec<_> = spec.networks.iter().map(|attachment| attachment.network.as_str()).collect();
        assert_eq!(names, ["blue", "green"]);
        assert_eq!(spec.networks[0].aliases, ["web", "api"]);
    }

    #[test]
    fn limits_and_rights_are_kept() {
        let spec = translate(
            json!({}),
            json!({"securityContext": {"runAsUser": 1, "runAsGroup": 2}}),
            json!({
                "name": "c", "image": "web:1",
                "resources": {"limits": {"memory": "64Mi", "cpu": "250m"}},
                "securityContext": {
                    "runAsUser": 7, "readOnlyRootFilesystem": true, "allowPrivilegeEscalation": false,
                    "capabilities": {"drop": ["ALL"]},
                },
            }),
        );
        assert_eq!(spec.user.as_deref(), Some("7:2"));
        assert_eq!((spec.memory, spec.milli_cpus), (Some(64 << 20), Some(250)));
        assert!(spec.read_only_root && spec.no_new_privileges);
        assert_eq!(spec.drop_capabilities, ["ALL"]);
    }

    #[test]
    fn only_host_ports_are_published() {
        let ports =
            json!([{"containerPort": 80}, {"containerPort": 53, "hostPort": 5353, "protocol": "UDP"}]);
        let spec = translate(json!({}), json!({}), json!({"name": "c", "image": "web:1", "ports": ports}));
        assert_eq!(
            spec.ports,
            [PortSpec { port: 53, protocol: Protocol::Udp, host: "0.0.0.0:5353".parse().unwrap() }]
        );
    }

    #[test]
    fn a_hostname_is_no_longer_than_a_label() {
        let long = format!("{}-tail", "a".repeat(62));
        let pod: Pod = serde_json::from_value(json!({"metadata": {"name": long}})).unwrap();
        assert_eq!(launch::hostname(&pod), "a".repeat(62), "cut to 63, without what can't end a name");
    }

    #[test]
    fn a_sub_path_leads_over_no_link_and_is_not_raced() {
        let dir = tempfile::tempdir().unwrap();
        let base = dir.path().join("v");
        std::fs::create_dir_all(base.join("real/deep")).unwrap();
        std::os::unix::fs::symlink("/etc", base.join("real/link")).unwrap();
        let mount = |below: &str| {
            Mounts::new(vec![super::super::mounts::Mount {
                path: "/m".into(),
                volume: "v".into(),
                source: base.join(below),
                base: base.clone(),
                read_only: false,
            }])
        };
        let pod = |volume: Value, others: Value| -> Pod {
            let mut containers =
                vec![json!({"name": "c", "volumeMounts": [{"name": "v", "mountPath": "/m"}]})];
            containers.extend(others.as_array().cloned().unwrap_or_default());
            serde_json::from_value(json!({"spec": {"volumes": [volume], "containers": containers}})).unwrap()
        };
        let scratch = pod(json!({"name": "v", "emptyDir": {}}), json!([]));
        let check = |pod: &Pod, below: &str| {
            check_sub_paths(pod, &pod.spec.as_ref().unwrap().containers[0], &mount(below), &Trust::default())
                .map_err(|error| error.to_string())
        };
        assert_eq!(check(&scratch, "real/deep"), Ok(()));
        assert_eq!(check(&scratch, "not/there"), Ok(()));
        assert!(check(&scratch, "real/link/passwd").unwrap_err().contains("over the link real/link"));
        let files = pod(json!({"name": "v", "configMap": {"name": "m"}}), json!([]));
        assert_eq!(check(&files, "real/link"), Ok(()), "these links are the node's own");
        let beside = json!([{"name": "other", "volumeMounts": [{"name": "v", "mountPath": "/all"}]}]);
        let raced = pod(json!({"name": "v", "emptyDir": {}}), beside);
        assert!(check(&raced, "real/deep").unwrap_err().contains("\"other\" can change volume \"v\""));
    }

    #[test]
    fn a_network_is_a_name_and_no_mode() {
        for mode in ["host", "none", "container:abc", "ns:/proc/1/ns/net", "slirp4netns"] {
            assert!(Trust::default().check_network(mode).unwrap_err().contains("is not the name"), "{mode}");
        }
    }
}
