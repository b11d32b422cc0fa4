//! The things that a fake runtime holds, and how they look in Docker's API.

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr, TcpListener};
use std::time::{SystemTime, UNIX_EPOCH};

use serde_json::{Map, Value, json};

use super::{FakeContainer, Process};
use crate::{File, Kind};

/// An error as the server answers it: status and message.
pub(super) type Refusal = (u16, String);

pub(super) struct World {
    pub architecture: String,
    pub dockerfiles: Vec<String>,
    containers: BTreeMap<String, Held>,
    networks: BTreeMap<String, Net>,
    images: BTreeMap<String, Img>,
    next: u32,
}

struct Held {
    id: String,
    name: String,
    request: Value,
    status: &'static str,
    paused: bool,
    /// On record, and nothing is left of it.
    lost: bool,
    exit_code: i64,
    started: Option<u128>,
    finished: Option<u128>,
    /// (`80/tcp`, host address); port 0 until started.
    ports: Vec<(String, SocketAddr)>,
    networks: BTreeMap<String, End>,
    files: Vec<File>,
    logs: Vec<String>,
    process: Option<Process>,
}

#[derive(Clone)]
struct End {
    aliases: Vec<String>,
    host: u32,
}

struct Net {
    id: String,
    number: u32,
    request: Value,
}

struct Img {
    id: String,
    labels: BTreeMap<String, String>,
}

pub(super) fn now_nanos() -> u128 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_nanos()
}

/// Only the seconds matter to anyone: days since 1970 as a date need no calendar here.
fn timestamp(nanos: Option<u128>) -> String {
    nanos.map_or_else(
        || "0001-01-01T00:00:00Z".to_owned(),
        |nanos| {
            let seconds = nanos / 1_000_000_000 % 86400;
            format!("2026-01-01T{:02}:{:02}:{:02}Z", seconds / 3600, seconds / 60 % 60, seconds % 60)
        },
    )
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

fn texts(value: &Value) -> Vec<String> {
    value.as_array().into_iter().flatten().map(text).collect()
}

fn map(value: &Value) -> BTreeMap<String, String> {
    value.as_object().into_iter().flatten().map(|(key, value)| (key.clone(), text(value))).collect()
}

fn event(typ: &str, action: &str, id: &str, attributes: Value) -> Value {
    json!({"Type": typ, "Action": action, "scope": "local", "Actor": {"ID": id, "Attributes": attributes}})
}

/// The name by which an image is held: with a tag, without Podman's own host.
fn image_key(reference: &str) -> String {
    let name = reference.strip_prefix("localhost/").unwrap_or(reference);
    let tagged = name.rsplit('/').next().is_some_and(|last| last.contains(':'));
    if tagged { name.to_owned() } else { format!("{name}:latest") }
}

impl World {
    pub(super) fn new() -> Self {
        let architecture = match std::env::consts::ARCH {
            "x86_64" => "amd64",
            "aarch64" => "arm64",
            other => other,
        };
        Self {
            architecture: architecture.to_owned(),
            dockerfiles: Vec::new(),
            containers: BTreeMap::new(),
            networks: BTreeMap::new(),
            images: BTreeMap::new(),
            next: 1,
        }
    }

    fn id(&mut self) -> String {
        self.next += 1;
        format!("{:064x}", self.next)
    }

    // Images.

    pub(super) fn add_image(&mut self, reference: &str, labels: BTreeMap<String, String>) {
        let id = format!("sha256:{}", self.id());
        self.images.insert(image_key(reference), Img { id, labels });
    }

    pub(super) fn image(&self, reference: &str) -> Option<Value> {
        let key = image_key(reference);
        let image = self.images.get(&key)?;
        Some(json!({
            "Id": image.id, "RepoTags": [key], "Architecture": self.architecture, "Os": "linux",
            "Config": {"Labels": image.labels, "Entrypoint": ["/causeway"]},
        }))
    }

    pub(super) fn remove_image(&mut self, reference: &str) -> bool {
        self.images.remove(&image_key(reference)).is_some()
    }

    // Networks.

    pub(super) fn add_network(&mut self, request: &Value) -> Option<Value> {
        let id = self.id();
        let name = text(&request["Name"]);
        let event = event("network", "create", &id, json!({"name": name, "type": "bridge"}));
        self.networks.insert(name, Net { id, number: self.next, request: request.clone() });
        Some(event)
    }

    fn find_network(&self, name: &str) -> Option<(&String, &Net)> {
        self.networks.iter().find(|(known, network)| *known == name || network.id == name)
    }

    pub(super) fn network_id(&self, name: &str) -> Option<String> {
        self.find_network(name).map(|(_, network)| network.id.clone())
    }

    pub(super) fn network_names(&self) -> Vec<String> {
        self.networks.keys().cloned().collect()
    }

    pub(super) fn drop_network(&mut self, name: &str) -> Option<Value> {
        let (name, id) = self.find_network(name).map(|(name, network)| (name.clone(), network.id.clone()))?;
        self.networks.remove(&name);
        Some(event("network", "destroy", &id, json!({"name": name, "type": "bridge"})))
    }

    pub(super) fn is_in_use(&self, network: &str) -> bool {
        let Some((name, _)) = self.find_network(network) else { return false };
        self.containers.values().any(|held| held.status == "running" && held.networks.contains_key(name))
    }

    pub(super) fn network(&self, name: &str) -> Option<Value> {
        let (name, network) = self.find_network(name)?;
        let attached: Map<String, Value> = self
            .containers
            .values()
            .filter(|held| held.status == "running")
            .filter_map(|held| {
                let end = held.networks.get(name)?;
                let mut entry =
                    json!({"Name": held.name, "IPv4Address": format!("{}/24", network.ipv4(end.host))});
                if network.has_ipv6() {
                    entry["IPv6Address"] = json!(format!("{}/64", network.ipv6(end.host)));
                }
                Some((held.id.clone(), entry))
            })
            .collect();
        let mut ranges = vec![json!({"Subnet": network.range(), "Gateway": network.ipv4(1)})];
        if network.has_ipv6() {
            ranges.push(json!({"Subnet": format!("{}/64", network.ipv6(0)), "Gateway": network.ipv6(1)}));
        }
        Some(json!({
            "Id": network.id, "Name": name, "Driver": "bridge", "Scope": "local",
            "EnableIPv6": network.has_ipv6(), "Internal": network.request["Internal"].as_bool().unwrap_or_default(),
            "IPAM": {"Driver": "default", "Config": ranges},
            "Labels": map(&network.request["Labels"]), "Containers": attached,
        }))
    }

    pub(super) fn attach(
        &mut self,
        container: &str,
        network: &str,
        endpoint: &Value,
    ) -> Result<Option<Value>, Refusal> {
        let (name, id) = self
            .find_network(network)
            .map(|(name, found)| (name.clone(), found.id.clone()))
            .ok_or_else(|| (404, format!("network {network} not found")))?;
        let host = self.next % 200 + 10;
        self.next += 1;
        let held = self.find_mut(container)?;
        held.networks.insert(name.clone(), End { aliases: texts(&endpoint["Aliases"]), host });
        Ok(Some(event("network", "connect", &id, json!({"name": name, "container": held.id}))))
    }

    pub(super) fn detach(&mut self, container: &str, network: &str) -> Result<Option<Value>, Refusal> {
        let (name, id) = self
            .find_network(network)
            .map(|(name, found)| (name.clone(), found.id.clone()))
            .ok_or_else(|| (404, format!("network {network} not found")))?;
        let held = self.find_mut(container)?;
        held.networks.remove(&name);
        Ok(Some(event("network", "disconnect", &id, json!({"name": name, "container": held.id}))))
    }

    // Containers.

    fn find(&self, name: &str) -> Result<&Held, Refusal> {
        self.containers
            .values()
            .find(|held| held.name == name || held.id == name)
            .ok_or_else(|| (404, format!("No such container: {name}")))
    }

    fn find_mut(&mut self, name: &str) -> Result<&mut Held, Refusal> {
        self.containers
            .values_mut()
            .find(|held| held.name == name || held.id == name)
            .ok_or_else(|| (404, format!("No such container: {name}")))
    }

    pub(super) fn create_container(
        &mut self,
        name: &str,
        request: Value,
    ) -> Result<(String, Value), Refusal> {
        if let Ok(other) = self.find(name) {
            return Err((
                409,
                format!(
                    "Conflict. The container name \"/{name}\" is already in use by container \"{}\".",
                    other.id
                ),
            ));
        }
        let image = text(&request["Image"]);
        if self.image(&image).is_none() {
            return Err((404, format!("No such image: {image}")));
        }
        let bindings = request["HostConfig"]["PortBindings"].as_object().cloned().unwrap_or_default();
        let ports = bindings
            .iter()
            .flat_map(|(port, list)| list.as_array().into_iter().flatten().map(move |one| (port, one)))
            .filter_map(|(port, one)| {
                let ip: IpAddr = text(&one["HostIp"]).parse().ok()?;
                let number = text(&one["HostPort"]).parse().unwrap_or(0);
                Some((port.clone(), SocketAddr::new(ip, number)))
            })
            .collect();
        let id = self.id();
        let attributes = json!({"name": name, "image": image});
        let endpoints =
            request["NetworkingConfig"]["EndpointsConfig"].as_object().cloned().unwrap_or_default();
        let held = Held {
            id: id.clone(),
            name: name.to_owned(),
            request,
            status: "created",
            paused: false,
            lost: false,
            exit_code: 0,
            started: None,
            finished: None,
            ports,
            networks: BTreeMap::new(),
            files: Vec::new(),
            logs: Vec::new(),
            process: None,
        };
        self.containers.insert(id.clone(), held);
        for (network, endpoint) in endpoints {
            if let Err(refusal) = self.attach(&id, &network, &endpoint) {
                self.containers.remove(&id);
                return Err(refusal);
            }
        }
        let event = event("container", "create", &id, attributes);
        Ok((id, event))
    }

    /// Starts it, unless it runs already.
    pub(super) fn start_container(&mut self, name: &str) -> Result<Option<(Value, FakeContainer)>, Refusal> {
        let missing = self.find(name)?.networks.keys().find(|network| !self.networks.contains_key(*network));
        if let Some(network) = missing {
            return Err((404, format!("network {network} not found")));
        }
        let held = self.find_mut(name)?;
        if held.status == "running" {
            return Ok(None);
        }
        for (port, host) in &mut held.ports {
            // The test that plays the container binds the port; this only asks whether that would work.
            let probe = TcpListener::bind(*host).map_err(|error| {
                let said = format!("driver failed programming external connectivity: Bind for {host} failed: port is already allocated ({port}: {error})");
                (500, said)
            })?;
            if let Ok(bound) = probe.local_addr() {
                *host = bound;
            }
        }
        held.status = "running";
        held.started = Some(now_nanos());
        let started = event("container", "start", &held.id, json!({"name": held.name}));
        let snapshot = held.snapshot();
        Ok(Some((started, snapshot)))
    }

    pub(super) fn keep_process(&mut self, id: &str, process: Process) {
        if let Ok(held) = self.find_mut(id) {
            held.process = Some(process);
        }
    }

    pub(super) fn end_container(&mut self, name: &str, code: i64) -> (Option<Value>, Option<Process>) {
        let Ok(held) = self.find_mut(name) else { return (None, None) };
        if held.status != "running" {
            return (None, None);
        }
        held.status = "exited";
        held.paused = false;
        held.exit_code = code;
        held.finished = Some(now_nanos());
        let attributes = json!({"name": held.name, "exitCode": code.to_string()});
        (Some(event("container", "die", &held.id, attributes)), held.process.take())
    }

    pub(super) fn pause_container(&mut self, name: &str, paused: bool) -> Option<Value> {
        let held = self.find_mut(name).ok().filter(|held| held.status == "running")?;
        held.paused = paused;
        let action = if paused { "pause" } else { "unpause" };
        Some(event("container", action, &held.id, json!({"name": held.name})))
    }

    pub(super) fn remove_container(&mut self, name: &str) -> Option<Value> {
        let id = self.find(name).ok()?.id.clone();
        let held = self.containers.remove(&id)?;
        Some(event("container", "destroy", &id, json!({"name": held.name})))
    }

    /// None while it runs.
    pub(super) fn exit_code(&self, name: &str) -> Result<Option<i64>, Refusal> {
        let held = self.find(name)?;
        Ok((held.status != "running").then_some(held.exit_code))
    }

    pub(super) fn copy_into(&mut self, name: &str, files: Vec<File>) -> Result<(), Refusal> {
        let held = self.find_mut(name)?;
        for file in files {
            held.files.retain(|known| known.path != file.path);
            held.files.push(file);
        }
        Ok(())
    }

    pub(super) fn write_log(&mut self, name: &str, line: &str) {
        if let Ok(held) = self.find_mut(name) {
            held.logs.push(format!("{} {line}\n", timestamp(Some(now_nanos()))));
        }
    }

    /// The lines from `start` on, and whether more may come.
    pub(super) fn logs(&self, name: &str, start: usize) -> Result<(Vec<String>, bool), Refusal> {
        let held = self.find(name)?;
        Ok((held.logs.get(start..).unwrap_or_default().to_vec(), held.status == "running"))
    }

    pub(super) fn snapshots(&self) -> Vec<FakeContainer> {
        let mut all: Vec<_> = self.containers.values().map(Held::snapshot).collect();
        all.sort_by(|a, b| a.name.cmp(&b.name));
        all
    }

    pub(super) fn list(&self, labels: &[String]) -> Value {
        let ids = self.containers.values().filter(|held| fits(&map(&held.request["Labels"]), labels));
        ids.map(|held| json!({"Id": held.id, "Names": [format!("/{}", held.name)]})).collect()
    }

    pub(super) fn list_networks(&self, labels: &[String], names: &[String]) -> Value {
        self.networks
            .iter()
            .filter(|(name, network)| {
                fits(&map(&network.request["Labels"]), labels)
                    && (names.is_empty() || names.iter().any(|part| name.contains(part.as_str())))
            })
            .filter_map(|(name, _)| self.network(name))
            .collect()
    }

    pub(super) fn lose_container(&mut self, name: &str) {
        if let Ok(held) = self.find_mut(name) {
            held.lost = true;
        }
    }

    /// As with Podman, nothing can be looked at that a lost container would be shown in.
    pub(super) fn fail_if_lost(&self) -> Result<(), Refusal> {
        let lost = self.containers.values().find(|held| held.lost);
        lost.map_or(Ok(()), |held| {
            Err((500, format!("getting container from store \"{}\": container not known", held.id)))
        })
    }

    pub(super) fn inspect(&self, name: &str, kind: Kind) -> Result<Value, Refusal> {
        let held = self.find(name)?;
        if held.lost {
            self.fail_if_lost()?;
        }
        let running = held.status == "running";
        let networks: Map<String, Value> = held
            .networks
            .iter()
            .map(|(name, end)| {
                let mut entry = json!({"Aliases": end.aliases, "IPAddress": "", "GlobalIPv6Address": ""});
                if let Some((_, network)) = self.find_network(name) {
                    entry["NetworkID"] = json!(if kind == Kind::Podman { name } else { &network.id });
                    if running {
                        entry["IPAddress"] = json!(network.ipv4(end.host));
                        if network.has_ipv6() {
                            entry["GlobalIPv6Address"] = json!(network.ipv6(end.host));
                        }
                    }
                }
                (name.clone(), entry)
            })
            .collect();
        let mut ports = Map::new();
        for (port, host) in held.ports.iter().filter(|_| running) {
            let binding = json!({"HostIp": host.ip().to_string(), "HostPort": host.port().to_string()});
            ports.insert(port.clone(), json!([binding]));
        }
        let image = text(&held.request["Image"]);
        Ok(json!({
            "Id": held.id, "Name": format!("/{}", held.name),
            "Image": self.images.get(&image_key(&image)).map(|image| image.id.clone()),
            "State": {
                "Status": if held.paused { "paused" } else { held.status }, "Running": running, "ExitCode": held.exit_code,
                "StartedAt": timestamp(held.started), "FinishedAt": timestamp(held.finished),
            },
            "Config": {"Image": image, "Labels": map(&held.request["Labels"]), "Env": held.request["Env"]},
            "NetworkSettings": {"Networks": networks, "Ports": ports},
        }))
    }
}

fn fits(labels: &BTreeMap<String, String>, wanted: &[String]) -> bool {
    wanted.iter().all(|wanted| {
        wanted.split_once('=').is_some_and(|(key, value)| labels.get(key).is_some_and(|known| known == value))
    })
}

impl Held {
    fn snapshot(&self) -> FakeContainer {
        FakeContainer {
            id: self.id.clone(),
            name: self.name.clone(),
            image: text(&self.request["Image"]),
            running: self.status == "running",
            labels: map(&self.request["Labels"]),
            networks: self.networks.iter().map(|(name, end)| (name.clone(), end.aliases.clone())).collect(),
            network_mode: text(&self.request["HostConfig"]["NetworkMode"]),
            ports: self
                .ports
                .iter()
                .filter_map(|(port, host)| Some((port.split('/').next()?.parse().ok()?, *host)))
                .collect(),
            command: texts(&self.request["Cmd"]),
            env: texts(&self.request["Env"]),
            files: self.files.clone(),
        }
    }
}

impl Net {
    fn ipv4(&self, host: u32) -> String {
        format!("10.99.{}.{host}", self.number % 256)
    }

    fn range(&self) -> String {
        format!("{}/24", self.ipv4(0))
    }

    fn ipv6(&self, host: u32) -> String {
        if host == 0 {
            format!("fd00:99:{:x}::", self.number)
        } else {
            format!("fd00:99:{:x}::{host:x}", self.number)
        }
    }

    fn has_ipv6(&self) -> bool {
        self.request["EnableIPv6"].as_bool().unwrap_or_default()
    }
}
