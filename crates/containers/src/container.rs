//! Containers: made, started, stopped, removed, looked at.

pub(crate) mod spec;

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use bollard::errors::Error as Bollard;
use bollard::models::{ContainerInspectResponse, ContainerStateStatusEnum, EndpointSettings};
use bollard::query_parameters::{
    CreateContainerOptions, KillContainerOptions, ListContainersOptions, RemoveContainerOptions,
    StopContainerOptions, WaitContainerOptions,
};
use futures::{StreamExt as _, TryStreamExt as _, stream};

use crate::container::spec::{ContainerSpec, Protocol};
use crate::labels::filter;
use crate::network::address;
use crate::runtime::{is_unreadable, is_unsettled, plain_name, settled};
use crate::{Error, ErrorKind, Result, Runtime};

/// The runtime's id of a container.
pub type ContainerId = String;

/// A container as the runtime has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Container {
    pub id: ContainerId,
    pub name: String,
    /// The image as it was asked for.
    pub image: String,
    pub image_id: String,
    pub state: State,
    /// How it ended; none while it runs and before it ran.
    pub exit_code: Option<i64>,
    /// It was ended for using too much memory.
    pub out_of_memory: bool,
    /// Why the runtime could not start it, in the runtime's words.
    pub error: Option<String>,
    /// In RFC 3339; none before it ran.
    pub started_at: Option<String>,
    /// In RFC 3339; none before it ended.
    pub finished_at: Option<String>,
    /// What asks it to end; SIGTERM unless its image says otherwise.
    pub stop_signal: String,
    pub published: Vec<Published>,
    /// By the network's name.
    pub networks: BTreeMap<String, Address>,
    pub labels: BTreeMap<String, String>,
}

/// Where a container is in its life.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum State {
    Created,
    Running,
    Paused,
    Restarting,
    Stopping,
    Removing,
    Exited,
    Dead,
}

/// A port of the container that the host answers on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Published {
    pub port: u16,
    pub protocol: Protocol,
    pub host: SocketAddr,
}

/// Where a container is on one network; the addresses are there while it runs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Address {
    /// Docker's id of the network; Podman gives its name here.
    pub network: String,
    pub ipv4: Option<IpAddr>,
    pub ipv6: Option<IpAddr>,
    pub aliases: Vec<String>,
}

impl Container {
    /// True while its process runs.
    pub fn is_running(&self) -> bool {
        self.state == State::Running
    }

    /// The host's address that leads to this port of the container.
    pub fn published(&self, port: u16, protocol: Protocol) -> Option<SocketAddr> {
        self.published.iter().find(|one| one.port == port && one.protocol == protocol).map(|one| one.host)
    }
}

impl Runtime {
    /// Makes a container and attaches it to its networks, without starting it.
    ///
    /// # Errors
    /// A name in use is [`ErrorKind::NameTaken`], a missing image [`ErrorKind::NotFound`]. After
    /// [`ErrorKind::Timeout`] the container may be there all the same: look for it by name.
    pub async fn create(&self, spec: &ContainerSpec) -> Result<ContainerId> {
        let what = format!("create container {} from image {}", spec.name, spec.image);
        let options =
            CreateContainerOptions { name: Some(spec.name.clone()), ..CreateContainerOptions::default() };
        let body = spec.body().map_err(|why| Error::invalid(what.as_str(), why))?;
        let created =
            self.call(what, self.limits.create, self.docker.create_container(Some(options), body)).await?;
        // Docker before version 25 takes one network at creation; the others follow.
        for attachment in spec.networks.iter().skip(1) {
            if let Err(error) = self.attach(&created.id, attachment).await {
                if let Err(left) = self.remove(&created.id).await {
                    tracing::warn!(
                        container = spec.name,
                        error = left.report(),
                        "container could not be removed"
                    );
                }
                return Err(error);
            }
        }
        Ok(created.id)
    }

    /// Starts a container; one that runs already is fine.
    ///
    /// # Errors
    /// When there is no such container, a port is taken, or the runtime refuses.
    pub async fn start(&self, id: &str) -> Result<()> {
        let id = plain_name("start container", id)?;
        self.call(format!("start container {id}"), self.limits.create, self.docker.start_container(id, None))
            .await
    }

    /// Asks it to end, ends it after `grace`, and comes back when it has ended; one that does not run is fine.
    ///
    /// # Errors
    /// When there is no such container, or it has not ended some time after `grace`.
    pub async fn stop(&self, id: &str, grace: Duration) -> Result<()> {
        let id = plain_name("stop container", id)?;
        let seconds = i32::try_from(grace.as_secs_f64().ceil() as i64).unwrap_or(i32::MAX);
        let options = StopContainerOptions { t: Some(seconds), ..StopContainerOptions::default() };
        let limit = grace.saturating_add(self.limits.call);
        self.call(format!("stop container {id}"), limit, self.docker.stop_container(id, Some(options))).await
    }

    /// Sends a signal (`SIGHUP`, `SIGKILL`).
    ///
    /// # Errors
    /// When there is no such container or it does not run.
    pub async fn kill(&self, id: &str, signal: &str) -> Result<()> {
        let id = plain_name("signal container", id)?;
        let options = KillContainerOptions { signal: signal.to_owned() };
        self.call(
            format!("send {signal} to container {id}"),
            self.limits.call,
            self.docker.kill_container(id, Some(options)),
        )
        .await
    }

    /// Removes a container, running or not, with the volumes made for it; one that is gone already is fine.
    ///
    /// # Errors
    /// When the runtime can't remove it, however often it is asked.
    pub async fn remove(&self, id: &str) -> Result<()> {
        let id = plain_name("remove container", id)?;
        let what = format!("remove container {id}");
        let options = RemoveContainerOptions { v: true, force: true, link: false };
        let removed =
            self.call(what.as_str(), self.limits.call, self.docker.remove_container(id, Some(options))).await;
        match removed {
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
            // Another call removes it: that is as good, once it is done.
            Err(error) if error.kind() == ErrorKind::InUse => self.wait_until_gone(id, error).await,
            other => other,
        }
    }

    async fn wait_until_gone(&self, id: &str, busy: Error) -> Result<()> {
        let deadline = tokio::time::Instant::now() + self.limits.call;
        while tokio::time::Instant::now() < deadline {
            match self.container(id).await {
                Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
                _ => tokio::time::sleep(Duration::from_millis(100)).await,
            }
        }
        Err(busy)
    }

    /// Looks a container up by id or name.
    ///
    /// # Errors
    /// [`ErrorKind::NotFound`] when there is none, [`ErrorKind::Broken`] when the runtime has lost what it is made of.
    pub async fn container(&self, id_or_name: &str) -> Result<Container> {
        let name = plain_name("inspect container", id_or_name)?;
        settled(is_unreadable, || self.inspect(name)).await
    }

    async fn inspect(&self, name: &str) -> Result<Container> {
        self.call(
            format!("inspect container {name}"),
            self.limits.call,
            self.docker.inspect_container(name, None),
        )
        .await
        .map(Container::from)
    }

    /// The containers, running or not, that carry all of these labels.
    ///
    /// # Errors
    /// When the runtime does not answer. One that goes meanwhile is left out.
    pub async fn containers(&self, labels: &[(&str, &str)]) -> Result<Vec<Container>> {
        let options = ListContainersOptions {
            all: true,
            filters: Some(filter(labels)),
            ..ListContainersOptions::default()
        };
        let list = || {
            self.call("list containers", self.limits.call, self.docker.list_containers(Some(options.clone())))
        };
        let found = settled(is_unsettled, list).await?;
        stream::iter(found.into_iter().filter_map(|container| container.id))
            .map(|id| async move {
                match settled(is_unsettled, || self.inspect(&id)).await {
                    Ok(container) => Ok(Some(container)),
                    Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
                    Err(error) => Err(error),
                }
            })
            .buffered(8)
            .try_filter_map(|container| async move { Ok(container) })
            .try_collect()
            .await
    }

    /// Waits until the container does not run and gives its exit code. There is no limit of time.
    ///
    /// # Errors
    /// When there is no such container, or the runtime goes away meanwhile.
    pub async fn wait(&self, id: &str) -> Result<i64> {
        let id = plain_name("wait for container", id)?;
        let what = format!("wait for container {id}");
        let options = WaitContainerOptions { condition: "not-running".to_owned() };
        // The runtime answers the request at once and the wait itself at the end, so the limit is for the former.
        let mut answers = std::pin::pin!(self.docker.wait_container(id, Some(options)));
        match answers.next().await {
            Some(Ok(answer)) => Ok(answer.status_code),
            Some(Err(Bollard::DockerContainerWaitError { code, .. })) => Ok(code),
            Some(Err(error)) => Err(Error::new(what, error)),
            None => {
                Err(Error::invalid(what, "the runtime closed the connection")
                    .with_kind(ErrorKind::Unreachable))
            }
        }
    }
}

impl From<ContainerInspectResponse> for Container {
    fn from(found: ContainerInspectResponse) -> Self {
        let state = found.state.unwrap_or_default();
        let config = found.config.unwrap_or_default();
        let settings = found.network_settings.unwrap_or_default();
        let status = match state.status {
            Some(ContainerStateStatusEnum::RUNNING) => State::Running,
            Some(ContainerStateStatusEnum::PAUSED) => State::Paused,
            Some(ContainerStateStatusEnum::RESTARTING) => State::Restarting,
            Some(ContainerStateStatusEnum::STOPPING) => State::Stopping,
            Some(ContainerStateStatusEnum::REMOVING) => State::Removing,
            Some(ContainerStateStatusEnum::EXITED) => State::Exited,
            Some(ContainerStateStatusEnum::DEAD) => State::Dead,
            Some(ContainerStateStatusEnum::CREATED | ContainerStateStatusEnum::EMPTY) | None => {
                State::Created
            }
        };
        let mut published: Vec<Published> = settings
            .ports
            .unwrap_or_default()
            .into_iter()
            .flat_map(|(port, bindings)| {
                bindings.unwrap_or_default().into_iter().filter_map(move |binding| {
                    let (port, protocol) = Protocol::split(&port)?;
                    let ip = match binding.host_ip.as_deref() {
                        None | Some("") => IpAddr::from([0, 0, 0, 0]),
                        Some(ip) => ip.parse().ok()?,
                    };
                    let host = SocketAddr::new(ip, binding.host_port?.parse().ok()?);
                    Some(Published { port, protocol, host })
                })
            })
            .collect();
        published.sort_unstable();
        Self {
            id: found.id.unwrap_or_default(),
            name: found.name.unwrap_or_default().trim_start_matches('/').to_owned(),
            image: config.image.unwrap_or_default(),
            image_id: found.image.unwrap_or_default(),
            state: status,
            exit_code: state.exit_code.filter(|_| matches!(status, State::Exited | State::Dead)),
            out_of_memory: state.oom_killed.unwrap_or_default(),
            error: state.error.filter(|error| !error.is_empty()),
            started_at: state.started_at.and_then(time),
            finished_at: state.finished_at.and_then(time),
            stop_signal: config
                .stop_signal
                .filter(|signal| !signal.is_empty())
                .unwrap_or_else(|| "SIGTERM".to_owned()),
            published,
            networks: settings
                .networks
                .unwrap_or_default()
                .into_iter()
                .map(|(name, endpoint)| (name, Address::from(endpoint)))
                .collect(),
            labels: config.labels.unwrap_or_default().into_iter().collect(),
        }
    }
}

impl From<EndpointSettings> for Address {
    fn from(endpoint: EndpointSettings) -> Self {
        Self {
            network: endpoint.network_id.unwrap_or_default(),
            ipv4: endpoint.ip_address.as_deref().and_then(address),
            ipv6: endpoint.global_ipv6_address.as_deref().and_then(address),
            aliases: endpoint.aliases.unwrap_or_default(),
        }
    }
}

/// A time that never was is written as the year 1.
fn time(text: String) -> Option<String> {
    (!text.is_empty() && !text.starts_with("0001-")).then_some(text)
}
