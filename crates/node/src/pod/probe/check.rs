//! One check of a container, for probes and lifecycle hooks: HTTP, TCP, gRPC or a command.

use std::{
    net::IpAddr,
    path::{Path, PathBuf},
    time::Duration,
};

use k8s_openapi::{
    api::core::v1::{
        Container, ExecAction, GRPCAction, HTTPGetAction, LifecycleHandler, Probe, TCPSocketAction,
    },
    apimachinery::pkg::util::intstr::IntOrString,
};
use tokio::net::TcpStream;

use super::{exec, grpc, http};
use crate::{
    config::{Config, ShimCommand},
    layout::PodDir,
    pod::{confine, image::Entrypoint, mounts::Mounts},
    process::{Launch, RuntimeContainer},
};

/// A check with everything resolved.
#[derive(Clone, Debug)]
pub(crate) enum Check {
    Http(http::Get),
    Tcp {
        host: String,
        port: u16,
    },
    Grpc {
        host: String,
        port: u16,
        service: String,
    },
    Exec(exec::Command),
    /// A command inside a container of a runtime.
    Inside {
        container: Box<RuntimeContainer>,
        command: Vec<String>,
    },
    Sleep(Duration),
}

/// What a check is resolved against.
pub(crate) struct Target<'a> {
    pub container: &'a Container,
    pub launch: &'a Launch,
    pub mounts: &'a Mounts,
    pub address: IpAddr,
    pub config: &'a Config,
    pub dir: &'a PodDir,
}

impl Check {
    /// The check of a probe.
    pub(crate) fn of_probe(probe: &Probe, target: &Target<'_>) -> Result<Self, String> {
        if let Some(action) = &probe.grpc {
            return Self::of_grpc(action, target);
        }
        Self::of_actions(probe.exec.as_ref(), probe.http_get.as_ref(), probe.tcp_socket.as_ref(), target)
    }

    /// The action of a lifecycle hook.
    pub(crate) fn of_hook(hook: &LifecycleHandler, target: &Target<'_>) -> Result<Self, String> {
        if let Some(sleep) = &hook.sleep {
            return Ok(Self::Sleep(Duration::from_secs(sleep.seconds.max(0) as u64)));
        }
        Self::of_actions(hook.exec.as_ref(), hook.http_get.as_ref(), hook.tcp_socket.as_ref(), target)
    }

    fn of_actions(
        exec: Option<&ExecAction>,
        get: Option<&HTTPGetAction>,
        tcp: Option<&TCPSocketAction>,
        target: &Target<'_>,
    ) -> Result<Self, String> {
        let host = |host: &Option<String>| {
            host.clone().filter(|host| !host.is_empty()).unwrap_or_else(|| target.address.to_string())
        };
        if let (Some(action), Some(container)) = (exec, &target.launch.runtime_container) {
            let command = action.command.clone().unwrap_or_default();
            return Ok(Self::Inside { container: Box::new(container.clone()), command });
        }
        if let Some(action) = exec {
            let command: Vec<String> =
                action.command.iter().flatten().map(|argument| target.mounts.rewrite(argument)).collect();
            if command.is_empty() {
                return Err("exec has no command".to_owned());
            }
            let image = target.container.image.as_deref().unwrap_or_default();
            let policy = target.config.commands;
            let resolved = Entrypoint::of(target.config, image).and_then(|entrypoint| {
                let (program, args) = entrypoint.resolve(policy, &command, &[])?;
                if entrypoint.is_confined(policy) {
                    let is_attached = target.launch.network.is_some();
                    let own = &target.config.own_namespace;
                    confine::check_command(&args, is_attached, &target.dir.namespace, own)?;
                    confine::check_arguments(&args, &target.launch.working_dir, target.dir, target.mounts)?;
                }
                Ok((program, args))
            });
            let (program, args) = resolved.map_err(|error| error.to_string())?;
            let (program, args) = match &target.launch.network {
                Some(network) => inside(network, &target.config.shim, program, args),
                None => (program, args),
            };
            return Ok(Self::Exec(exec::Command {
                program,
                args,
                env: target.launch.env.clone(),
                working_dir: target.launch.working_dir.clone(),
            }));
        }
        if let Some(action) = get {
            return Ok(Self::Http(http::Get {
                host: host(&action.host),
                port: port(&action.port, target.container)?,
                path: action.path.clone().filter(|path| !path.is_empty()).unwrap_or_else(|| "/".to_owned()),
                tls: action.scheme.as_deref() == Some("HTTPS"),
                headers: action
                    .http_headers
                    .iter()
                    .flatten()
                    .map(|header| (header.name.clone(), header.value.clone()))
                    .collect(),
            }));
        }
        if let Some(action) = tcp {
            return Ok(Self::Tcp { host: host(&action.host), port: port(&action.port, target.container)? });
        }
        Err("the probe or hook names no action".to_owned())
    }

    fn of_grpc(action: &GRPCAction, target: &Target<'_>) -> Result<Self, String> {
        Ok(Self::Grpc {
            host: target.address.to_string(),
            port: u16::try_from(action.port)
                .map_err(|_| format!("grpc port {} is out of range", action.port))?,
            service: action.service.clone().unwrap_or_default(),
        })
    }

    /// Runs the check once.
    pub(crate) async fn run(&self) -> Result<(), String> {
        match self {
            Self::Http(get) => get.run().await,
            Self::Tcp { host, port } => match TcpStream::connect((host.as_str(), *port)).await {
                Ok(_) => Ok(()),
                Err(error) => Err(format!("dial tcp {host}:{port}: {error}")),
            },
            Self::Grpc { host, port, service } => grpc::check(host, *port, service).await,
            Self::Exec(command) => command.run().await,
            Self::Inside { container, command } => exec::inside(container, command).await,
            Self::Sleep(time) => {
                tokio::time::sleep(*time).await;
                Ok(())
            }
        }
    }

    /// What to say when the check took longer than its limit.
    pub(crate) fn timeout_message(&self, limit: Duration) -> String {
        match self {
            Self::Http(get) => format!(
                "Get {:?}: context deadline exceeded (Client.Timeout exceeded while awaiting headers)",
                get.url()
            ),
            Self::Tcp { host, port } => format!("dial tcp {host}:{port}: i/o timeout"),
            Self::Grpc { host, port, .. } => {
                format!("timeout: failed to connect service \"{host}:{port}\" within {limit:?}")
            }
            Self::Exec(_) | Self::Inside { .. } | Self::Sleep(_) => {
                format!("command timed out after {limit:?}")
            }
        }
    }
}

/// The command line that runs another one in a network namespace.
fn inside(network: &Path, shim: &ShimCommand, program: PathBuf, args: Vec<String>) -> (PathBuf, Vec<String>) {
    let own = shim.args.iter().map(|arg| arg.to_string_lossy().into_owned());
    let places = [network, &program].map(|place| place.to_string_lossy().into_owned());
    let all = own.chain(["enter".to_owned()]).chain(places).chain(args).collect();
    (shim.program.clone(), all)
}

/// A port by number, or by its name in the container.
fn port(port: &IntOrString, container: &Container) -> Result<u16, String> {
    let number = match port {
        IntOrString::Int(number) => *number,
        IntOrString::String(name) => {
            let ports = container.ports.as_deref().unwrap_or_default();
            let named = ports.iter().find(|port| port.name.as_deref() == Some(name.as_str()));
            let number = named.map(|port| port.container_port).or_else(|| name.parse().ok());
            number.ok_or_else(|| format!("couldn't find port: {name:?} in container {:?}", container.name))?
        }
    };
    u16::try_from(number)
        .ok()
        .filter(|port| *port > 0)
        .ok_or_else(|| format!("invalid port number: {number}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ports_have_numbers_or_names() {
        let container: Container = serde_json::from_value(
            serde_json::json!({"name": "c", "ports": [{"name": "web", "containerPort": 8080}]}),
        )
        .unwrap();
        let resolve = |text: IntOrString| port(&text, &container);
        assert_eq!(resolve(IntOrString::Int(80)), Ok(80));
        assert_eq!(resolve(IntOrString::String("web".into())), Ok(8080));
        assert_eq!(resolve(IntOrString::String("81".into())), Ok(81));
        assert!(resolve(IntOrString::String("none".into())).unwrap_err().contains("none"));
        assert!(resolve(IntOrString::Int(70000)).is_err());
    }
}
