//! What a target's container sees, read with the rights of whoever asks: variables and files of ConfigMaps, Secrets and the pod
//! itself. What may not be read is left out, and told with the right that is missing.

use std::collections::HashMap;

use causeway_node::view::{self, Files, Kind, Lack, Sources};
use futures::future::join_all;
use k8s_openapi::api::core::v1::{Container, Service};
use kube::api::ListParams;
use kube::{Api, Client, ResourceExt};

use super::refusal;
use super::target::Target;

/// The variables of a container.
#[derive(Debug, Default)]
pub(crate) struct Variables {
    pub(crate) found: Vec<(String, String)>,
    /// What is missing, in words.
    pub(crate) lacks: Vec<String>,
}

/// What was read for one container of a target.
pub(crate) struct Seen<'a> {
    target: &'a Target,
    container: &'a Container,
    sources: Sources,
    /// Why a source could not be read.
    refused: HashMap<(Kind, String), String>,
    /// Variables that lead to the Services of the namespace.
    links: Vec<(String, String)>,
    notes: Vec<String>,
}

impl<'a> Seen<'a> {
    /// Reads all that the container refers to; with `links`, the Services that Kubernetes tells it of, too.
    ///
    /// # Errors
    /// When there is no such container.
    pub(crate) async fn read(
        client: &Client,
        target: &'a Target,
        container: Option<&str>,
        links: bool,
    ) -> anyhow::Result<Self> {
        let container = target.container(container)?;
        let references = view::references(&view::narrowed(&target.pod, &container.name));
        let contents = references.into_iter().map(async |source| {
            let read = source.fetch(client).await;
            (source, read)
        });
        let (mut sources, mut refused) = (Sources::default(), HashMap::new());
        for (source, read) in join_all(contents).await {
            match read {
                Ok(Some(contents)) => sources.insert(source, contents),
                Ok(None) => {}
                Err(error) => drop(refused.insert((source.kind, source.name), refusal::advice(&error))),
            }
        }
        let mut seen = Self { target, container, sources, refused, links: Vec::new(), notes: Vec::new() };
        let wants_links = target.pod.spec.as_ref().and_then(|spec| spec.enable_service_links).unwrap_or(true);
        if links && wants_links {
            let services: Api<Service> = Api::namespaced(client.clone(), &target.namespace);
            match services.list(&ListParams::default()).await {
                Ok(list) => seen.links = list.iter().flat_map(service_link).collect(),
                Err(error) => {
                    seen.notes.push(format!("variables of Services: {}", refusal::advice(&error)));
                }
            }
        }
        Ok(seen)
    }

    pub(crate) fn variables(&self) -> Variables {
        let seen = view::environment(&self.target.pod, self.container, &self.sources, self.links.clone());
        let mut lacks = self.notes.clone();
        lacks.extend(seen.lacks.iter().map(|lack| self.words(lack)));
        Variables { found: seen.found, lacks }
    }

    /// The files, and what is missing in words.
    pub(crate) fn files(&self) -> (Files, Vec<String>) {
        let variables = self.variables().found;
        let seen = view::files(&self.target.pod, self.container, &self.sources, &variables);
        (seen.found, seen.lacks.iter().map(|lack| self.words(lack)).collect())
    }

    fn words(&self, lack: &Lack) -> String {
        let refused = lack.source.as_ref().and_then(|source| self.refused.get(source));
        match (&lack.source, refused) {
            (Some((kind, name)), Some(why)) => {
                format!("{}: {} {name} can't be read: {why}", lack.what, kind.resource())
            }
            _ => format!("{}: {}", lack.what, lack.why),
        }
    }
}

/// The variables that Kubernetes tells a container of a Service.
fn service_link(service: &Service) -> Vec<(String, String)> {
    let spec = service.spec.as_ref();
    let address = spec.and_then(|spec| spec.cluster_ip.as_deref());
    let Some(address) = address.filter(|address| !address.is_empty() && *address != "None") else {
        return Vec::new();
    };
    let ports = spec.and_then(|spec| spec.ports.as_deref()).unwrap_or_default();
    let upper = |name: &str| name.to_uppercase().replace('-', "_");
    let name = upper(&service.name_any());
    let host = if address.contains(':') { format!("[{address}]") } else { address.to_owned() };
    let mut links = vec![(format!("{name}_SERVICE_HOST"), address.to_owned())];
    let url = |protocol: &str, port: i32| format!("{}://{host}:{port}", protocol.to_lowercase());
    let protocol = |port: &k8s_openapi::api::core::v1::ServicePort| {
        port.protocol.clone().unwrap_or_else(|| "TCP".to_owned())
    };
    if let Some(first) = ports.first() {
        links.push((format!("{name}_SERVICE_PORT"), first.port.to_string()));
        links.push((format!("{name}_PORT"), url(&protocol(first), first.port)));
    }
    for port in ports {
        if let Some(called) = port.name.as_deref().filter(|called| !called.is_empty()) {
            links.push((format!("{name}_SERVICE_PORT_{}", upper(called)), port.port.to_string()));
        }
        let protocol = protocol(port);
        let prefix = format!("{name}_PORT_{}_{}", port.port, protocol.to_uppercase());
        links.push((prefix.clone(), url(&protocol, port.port)));
        links.push((format!("{prefix}_PROTO"), protocol.to_lowercase()));
        links.push((format!("{prefix}_PORT"), port.port.to_string()));
        links.push((format!("{prefix}_ADDR"), address.to_owned()));
    }
    links
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn services_are_told_as_kubernetes_tells_them() {
        let service = |spec: serde_json::Value| -> Service {
            serde_json::from_value(json!({"metadata": {"name": "redis-primary"}, "spec": spec})).unwrap()
        };
        let links = service_link(&service(json!({"clusterIP": "10.0.0.11",
            "ports": [{"port": 6379, "name": "tcp-redis"}, {"port": 53, "protocol": "UDP"}]})));
        let lines: Vec<String> = links.iter().map(|(name, value)| format!("{name}={value}")).collect();
        assert_eq!(
            lines,
            [
                "REDIS_PRIMARY_SERVICE_HOST=10.0.0.11",
                "REDIS_PRIMARY_SERVICE_PORT=6379",
                "REDIS_PRIMARY_PORT=tcp://10.0.0.11:6379",
                "REDIS_PRIMARY_SERVICE_PORT_TCP_REDIS=6379",
                "REDIS_PRIMARY_PORT_6379_TCP=tcp://10.0.0.11:6379",
                "REDIS_PRIMARY_PORT_6379_TCP_PROTO=tcp",
                "REDIS_PRIMARY_PORT_6379_TCP_PORT=6379",
                "REDIS_PRIMARY_PORT_6379_TCP_ADDR=10.0.0.11",
                "REDIS_PRIMARY_PORT_53_UDP=udp://10.0.0.11:53",
                "REDIS_PRIMARY_PORT_53_UDP_PROTO=udp",
                "REDIS_PRIMARY_PORT_53_UDP_PORT=53",
                "REDIS_PRIMARY_PORT_53_UDP_ADDR=10.0.0.11",
            ]
        );
        assert_eq!(service_link(&service(json!({"clusterIP": "None", "ports": [{"port": 1}]}))), []);
        assert_eq!(service_link(&service(json!({}))), []);
        let v6 = service_link(&service(json!({"clusterIP": "fd00::1", "ports": [{"port": 80}]})));
        assert!(v6.contains(&("REDIS_PRIMARY_PORT".to_owned(), "tcp://[fd00::1]:80".to_owned())), "{v6:?}");
    }
}
