//! What a container shall be, and how that is said to a runtime.

use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::PathBuf;

use bollard::models::{
    ContainerCreateBody, DeviceMapping, HostConfig, Mount as MountModel, MountType, NetworkingConfig,
    PortBinding,
};

use serde::{Deserialize, Serialize};

use crate::network::endpoint;

/// A container to make.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct ContainerSpec {
    pub name: String,
    pub image: String,
    /// In place of the image's entry point.
    pub entrypoint: Option<Vec<String>>,
    /// In place of the image's command.
    pub command: Option<Vec<String>>,
    pub env: Vec<(String, String)>,
    pub working_dir: Option<String>,
    /// `UID`, `UID:GID` or a name that the image knows.
    pub user: Option<String>,
    pub hostname: Option<String>,
    /// The runtime's default network when there are none.
    pub networks: Vec<Attachment>,
    /// In the network of this container, in place of networks and ports of its own.
    pub network_of: Option<String>,
    pub ports: Vec<PortSpec>,
    pub mounts: Vec<Mount>,
    /// Lines for the hosts file: name and address.
    pub hosts: Vec<(String, IpAddr)>,
    pub labels: BTreeMap<String, String>,
    pub read_only_root: bool,
    pub no_new_privileges: bool,
    /// `ALL` drops every one.
    pub drop_capabilities: Vec<String>,
    pub add_capabilities: Vec<String>,
    /// Directories of its own that are written to, also where its root is not; they go with it.
    pub volumes: Vec<String>,
    /// Kernel parameters of its own namespaces.
    pub sysctls: BTreeMap<String, String>,
    /// Bytes.
    pub memory: Option<i64>,
    /// Processes and threads at the same time.
    pub pids: Option<i64>,
    /// Thousandths of a processor.
    pub milli_cpus: Option<i64>,
    /// Devices of the host that it may use, by their path.
    pub devices: Vec<String>,
    /// Removed when it ends.
    pub auto_remove: bool,
}

/// A network that a container is on, and its names there.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Attachment {
    pub network: String,
    /// Names besides the container's own.
    pub aliases: Vec<String>,
}

/// A port of the container that the host shall answer on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PortSpec {
    pub port: u16,
    pub protocol: Protocol,
    /// Port 0 lets the runtime choose.
    pub host: SocketAddr,
}

impl PortSpec {
    /// A TCP port that only the host itself can reach.
    pub fn loopback(port: u16, host_port: u16) -> Self {
        Self { port, protocol: Protocol::Tcp, host: SocketAddr::from((Ipv4Addr::LOCALHOST, host_port)) }
    }
}

/// TCP or UDP.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Protocol {
    Tcp,
    Udp,
}

impl Protocol {
    /// Reads `53/udp`.
    pub(crate) fn split(text: &str) -> Option<(u16, Self)> {
        let (port, protocol) = text.split_once('/').unwrap_or((text, "tcp"));
        let protocol = match protocol {
            "tcp" => Self::Tcp,
            "udp" => Self::Udp,
            _ => return None,
        };
        Some((port.parse().ok()?, protocol))
    }
}

impl fmt::Display for Protocol {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Tcp => "tcp",
            Self::Udp => "udp",
        })
    }
}

/// A file or directory of the host inside the container.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Mount {
    pub source: PathBuf,
    pub target: String,
    pub read_only: bool,
}

impl ContainerSpec {
    /// The request that makes it, or what is wrong with it.
    pub(crate) fn body(&self) -> Result<ContainerCreateBody, String> {
        self.check()?;
        let mut port_bindings: HashMap<String, Option<Vec<PortBinding>>> = HashMap::new();
        for port in &self.ports {
            let binding = PortBinding {
                host_ip: Some(port.host.ip().to_string()),
                host_port: Some(match port.host.port() {
                    0 => String::new(),
                    number => number.to_string(),
                }),
            };
            port_bindings
                .entry(format!("{}/{}", port.port, port.protocol))
                .or_default()
                .get_or_insert_default()
                .push(binding);
        }
        let mounts = self
            .mounts
            .iter()
            .map(|mount| {
                let source = mount
                    .source
                    .to_str()
                    .ok_or_else(|| format!("mount source {} is not UTF-8", mount.source.display()))?;
                Ok(MountModel {
                    typ: Some(MountType::BIND),
                    source: Some(source.to_owned()),
                    target: Some(mount.target.clone()),
                    read_only: Some(mount.read_only),
                    ..MountModel::default()
                })
            })
            .collect::<Result<Vec<_>, String>>()?;
        let first = self.networks.first();
        let host_config = HostConfig {
            network_mode: match &self.network_of {
                Some(other) => Some(format!("container:{other}")),
                None => first.map(|attachment| attachment.network.clone()),
            },
            mounts: (!mounts.is_empty()).then_some(mounts),
            extra_hosts: some(self.hosts.iter().map(|(name, address)| format!("{name}:{address}")).collect()),
            readonly_rootfs: Some(self.read_only_root),
            security_opt: self.no_new_privileges.then(|| vec!["no-new-privileges".to_owned()]),
            cap_drop: some(self.drop_capabilities.clone()),
            cap_add: some(self.add_capabilities.clone()),
            memory: self.memory,
            pids_limit: self.pids,
            sysctls: (!self.sysctls.is_empty()).then(|| self.sysctls.clone().into_iter().collect()),
            nano_cpus: self.milli_cpus.map(|milli| milli.saturating_mul(1_000_000)),
            port_bindings: (!port_bindings.is_empty()).then(|| port_bindings.clone()),
            devices: (!self.devices.is_empty())
                .then(|| self.devices.iter().map(|path| device(path)).collect()),
            auto_remove: Some(self.auto_remove),
            ..HostConfig::default()
        };
        Ok(ContainerCreateBody {
            image: Some(self.image.clone()),
            entrypoint: self.entrypoint.clone(),
            cmd: self.command.clone(),
            env: some(self.env.iter().map(|(name, value)| format!("{name}={value}")).collect()),
            working_dir: self.working_dir.clone(),
            user: self.user.clone(),
            hostname: self.hostname.clone(),
            labels: Some(self.labels.clone().into_iter().collect()),
            // Docker publishes only what is exposed too.
            exposed_ports: some(port_bindings.into_keys().collect()),
            networking_config: first.filter(|attachment| !is_mode(&attachment.network)).map(|attachment| {
                NetworkingConfig {
                    endpoints_config: Some(HashMap::from([(
                        attachment.network.clone(),
                        endpoint(attachment),
                    )])),
                }
            }),
            volumes: some(self.volumes.clone()),
            host_config: Some(host_config),
            ..ContainerCreateBody::default()
        })
    }

    /// Finds what the runtimes take in silence, or answer with something nobody understands.
    fn check(&self) -> Result<(), String> {
        if self.network_of.is_some() && !(self.networks.is_empty() && self.ports.is_empty()) {
            return Err("a container in another's network has no networks or ports of its own".to_owned());
        }
        let mut names = self.name.chars();
        let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '.' | '-');
        if !names.next().is_some_and(|c| c.is_ascii_alphanumeric()) || !names.all(plain) {
            return Err(format!(
                "`{}` is no name for a container: letters, digits, `_`, `.` and `-`, starting with a letter or digit",
                self.name
            ));
        }
        for alias in self.networks.iter().flat_map(|attachment| &attachment.aliases) {
            if alias.is_empty() || alias.len() > 253 || !alias.chars().all(plain) {
                return Err(format!(
                    "`{alias}` is no alias: letters, digits, `_`, `.` and `-`, at most 253 of them"
                ));
            }
        }
        if let Some((name, _)) =
            self.env.iter().find(|(name, _)| name.is_empty() || name.contains(['=', '\0']))
        {
            return Err(format!("`{name}` is no name for an environment variable"));
        }
        Ok(())
    }
}

/// The same path inside, for reading and writing.
fn device(path: &str) -> DeviceMapping {
    DeviceMapping {
        path_on_host: Some(path.to_owned()),
        path_in_container: Some(path.to_owned()),
        cgroup_permissions: Some("rw".to_owned()),
    }
}

/// Networks that are a way of having none; there is nothing to attach to.
fn is_mode(network: &str) -> bool {
    matches!(network, "host" | "none")
}

fn some(list: Vec<String>) -> Option<Vec<String>> {
    (!list.is_empty()).then_some(list)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spec() -> ContainerSpec {
        ContainerSpec { name: "web".into(), image: "web:1".into(), ..ContainerSpec::default() }
    }

    #[test]
    fn publishes_on_the_given_address_and_port() {
        let ports = vec![PortSpec::loopback(15049, 40001), PortSpec::loopback(15050, 0)];
        let body = ContainerSpec { ports, ..spec() }.body().unwrap();
        let bindings = body.host_config.unwrap().port_bindings.unwrap();
        let control = bindings["15049/tcp"].as_ref().unwrap();
        assert_eq!(control[0].host_ip.as_deref(), Some("127.0.0.1"));
        assert_eq!(control[0].host_port.as_deref(), Some("40001"));
        assert_eq!(bindings["15050/tcp"].as_ref().unwrap()[0].host_port.as_deref(), Some(""), "any port");
        assert_eq!(body.exposed_ports.unwrap().len(), 2);
    }

    #[test]
    fn puts_the_aliases_on_the_first_network() {
        let networks = vec![Attachment { network: "blue".into(), aliases: vec!["api".into(), "db".into()] }];
        let body = ContainerSpec { networks, ..spec() }.body().unwrap();
        let endpoints = body.networking_config.unwrap().endpoints_config.unwrap();
        assert_eq!(endpoints["blue"].aliases.as_deref().unwrap(), ["api", "db"]);
        assert_eq!(body.host_config.unwrap().network_mode.as_deref(), Some("blue"));
    }

    #[test]
    fn rejects_an_alias_with_a_comma() {
        let networks = vec![Attachment { network: "blue".into(), aliases: vec!["api,db".into()] }];
        let said = ContainerSpec { networks, ..spec() }.body().unwrap_err();
        assert!(said.contains("`api,db` is no alias"), "{said}");
    }

    #[test]
    fn rejects_a_name_that_no_runtime_takes() {
        for name in ["", "-web", "a b", "web/1"] {
            assert!(ContainerSpec { name: name.into(), ..spec() }.body().is_err(), "{name:?}");
        }
    }
}
