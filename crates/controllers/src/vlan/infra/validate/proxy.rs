//! The proxy of an Infra: its backends after the spec's changes, the names they claim, and where they lead.

use causeway_api::{Backend, Infra, PortDefaults, ProxyComponent, ProxyServerSpec};
use causeway_ir::Problem;
use causeway_translate::proxy::{Entry, bare_address, check_backends};
use kube::ResourceExt;

use super::{Check, ComponentProblem, Network, Proxy};
use crate::vlan::infra::{
    Component,
    addresses::{Chosen, Server},
    backends,
};

impl Check {
    pub(crate) fn proxy(
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
        let known = self.problems.len();
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
        let is_complete = self.problems.len() == known;
        let namespace = self.target_namespace(infra, spec)?;
        let merged = backends::merge(spec, domain?, &namespace);
        if merged.is_empty() {
            let message = "every backend is disabled: keep one, or write proxy.enabled: false";
            self.problem(&both, "infraComponents.proxy.backends", message);
        }
        let ports = backends::port_defaults(spec, &merged);
        if is_complete {
            self.child(spec, &merged, &ports);
        }
        // Texts that are no addresses were reported with the others; the proxy is invalid then.
        let additional = spec.additional_server_ips.iter().filter_map(|text| bare_address(text));
        let additional = additional.collect();
        Some(Proxy { address: address?, additional, backends: merged, ports, spec: spec.clone() })
    }

    /// What the child would find wrong with its backends and ports, said of the entries here.
    fn child(&mut self, spec: &ProxyComponent, merged: &[Backend], ports: &[PortDefaults]) {
        let path = |entry: Entry| {
            // An entry that is not written here is a standard one, which has a name and no place.
            let (list, written, name) = match entry {
                Entry::Backend(index) => {
                    let name = &merged[index].name;
                    ("backends", spec.backends.iter().position(|change| change.name == *name), name.clone())
                }
                Entry::Port(index) => {
                    let port = ports[index].port;
                    ("ports", spec.ports.iter().position(|entry| entry.port == port), port.to_string())
                }
            };
            let which = written.map_or(name, |index| index.to_string());
            format!("spec.infraComponents.proxy.{list}[{which}]")
        };
        let child = ProxyServerSpec {
            backends: merged.to_vec(),
            ports: ports.to_vec(),
            ..ProxyServerSpec::default()
        };
        for finding in check_backends(&child, &path) {
            // DNS answers with the names, and has no ports and no Services.
            let is_name =
                [".hostname", ".alternateHostnames["].iter().any(|field| finding.path.contains(field));
            let components: &[Component] =
                if is_name { &[Component::Proxy, Component::Dns] } else { &[Component::Proxy] };
            self.problems.push(ComponentProblem {
                problem: Problem { path: finding.path, message: finding.message },
                reason: finding.reason,
                components: components.to_vec(),
            });
        }
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
pub(crate) fn proxied_names(proxy: &Proxy, domain: &str) -> Vec<String> {
    let mut names = vec![format!("*.apps.{domain}")];
    for backend in &proxy.backends {
        let of_backend = std::iter::once(&backend.hostname).chain(&backend.alternate_hostnames);
        names.extend(of_backend.map(|name| name.to_ascii_lowercase()));
    }
    names.retain(|name| !backends::IN_CLUSTER_NAMES.contains(&name.as_str()));
    names
}
