//! The proxy of an Infra: its backends after the spec's changes, the names they claim, and where they lead.

use causeway_api::{Infra, ProxyComponent, conditions::Reason};
use kube::ResourceExt;

use super::{Check, Network, Proxy};
use crate::vlan::infra::{
    Component,
    addresses::{Chosen, Server},
    backends,
};

impl Check {
    pub fn proxy(
        &mut self,
        infra: &Infra,
        parsed: Option<(&Network, &Chosen)>,
        domain: Option<&str>,
        spec: &ProxyComponent,
    ) -> Option<Proxy> {
        // DNS answers with the proxy's names and address, so it cannot know better than the proxy.
        let both = [Component::Proxy, Component::Dns];
        let (_, chosen) = parsed?;
        let address = self.server(chosen, Server::Proxy, Component::Proxy);
        for (index, change) in spec.backends.iter().enumerate() {
            let field = |name: &str| format!("infraComponents.proxy.backends[{index}].{name}");
            if backends::is_standard(&change.name) {
                continue;
            }
            if change.disabled {
                let message = format!(
                    "there is no standard backend \"{}\" to drop: write one of {}",
                    change.name,
                    backends::standard_names()
                );
                self.problem(&both, field("name"), message);
            }
            for (name, missing) in [
                ("hostname", change.hostname.is_none()),
                ("port", change.port.is_none()),
                ("targetService", change.target_service.is_none()),
                ("targetPort", change.target_port.is_none()),
            ] {
                if missing && !change.disabled {
                    let message = format!(
                        "is needed, as \"{}\" is a further backend: write it, or use the name of a standard one ({})",
                        change.name,
                        backends::standard_names()
                    );
                    self.problem(&both, field(name), message);
                }
            }
        }
        let namespace = self.target_namespace(infra, spec)?;
        let merged = backends::merge(spec, domain?, &namespace);
        if let Some((hostname, port, first, second)) = backends::duplicate(&merged) {
            let message = format!(
                "backends \"{first}\" and \"{second}\" both claim {hostname} on port {port}: change a hostname or a port, or disable one"
            );
            self.problem_because(Reason::DuplicateHostname, &both, "infraComponents.proxy.backends", message);
        }
        if merged.is_empty() {
            let message = "every backend is disabled: keep one, or write proxy.enabled: false";
            self.problem(&both, "infraComponents.proxy.backends", message);
        }
        let ports = backends::port_defaults(spec, &merged);
        for (index, entry) in spec.ports.iter().enumerate() {
            let outcomes = [
                ("plaintext", &entry.plaintext),
                ("noSNI", &entry.no_sni),
                ("unknownSNI", &entry.unknown_sni),
            ];
            for (name, outcome) in outcomes {
                let Some(backend) = outcome.as_ref().and_then(|outcome| outcome.backend.as_deref()) else {
                    continue;
                };
                if !merged.iter().any(|known| known.name == backend && known.port == entry.port) {
                    let field = format!("infraComponents.proxy.ports[{index}].{name}.backend");
                    let message = format!(
                        "no backend \"{backend}\" listens on port {}: write one that does",
                        entry.port
                    );
                    self.problem(&[Component::Proxy], field, message);
                }
            }
        }
        // Texts that are no addresses were reported with the others; the proxy is unclear then.
        let additional =
            spec.additional_server_ips.iter().filter_map(|text| text.split('/').next()?.parse().ok());
        let additional = additional.collect();
        Some(Proxy { address: address?, additional, backends: merged, ports, spec: spec.clone() })
    }

    fn target_namespace(&mut self, infra: &Infra, spec: &ProxyComponent) -> Option<String> {
        if let Some(written) = &spec.control_plane_namespace {
            return Some(written.clone());
        }
        let derived = format!("{}-{}", infra.namespace().unwrap_or_default(), infra.name_any());
        if derived.len() <= 63 && !derived.contains('.') {
            return Some(derived);
        }
        let message = format!(
            "cannot be derived, as \"{derived}\" is no namespace name: write the control plane's namespace"
        );
        self.problem(
            &[Component::Proxy, Component::Dns],
            "infraComponents.proxy.controlPlaneNamespace",
            message,
        );
        None
    }
}

/// The names that lead to the proxy: those of its backends, and every application's.
pub fn proxied_names(proxy: &Proxy, domain: &str) -> Vec<String> {
    let mut names = vec![format!("*.apps.{domain}")];
    for backend in &proxy.backends {
        let of_backend = std::iter::once(&backend.hostname).chain(&backend.alternate_hostnames);
        names.extend(of_backend.map(|name| name.to_ascii_lowercase()));
    }
    names.retain(|name| !backends::IN_CLUSTER_NAMES.contains(&name.as_str()));
    names
}
