//! The services behind an Infra's proxy: the six of a hosted control plane, changed and extended by the spec, and what
//! each port does with connections that no name matches.

use causeway_api::{Backend, BackendOverride, Outcome, PortDefaults, ProxyComponent};

/// Names by which pods know the API server inside their own cluster. The proxy serves them; DNS never answers them.
pub(crate) const IN_CLUSTER_NAMES: [&str; 4] =
    ["kubernetes", "kubernetes.default", "kubernetes.default.svc", "kubernetes.default.svc.cluster.local"];

/// One standard backend.
struct Standard {
    name: &'static str,
    /// Label below the cluster's domain.
    label: &'static str,
    alternates: &'static [&'static str],
    port: u16,
    /// Service of the control plane; none for the API server's, whose name is a field of the spec.
    service: Option<&'static str>,
    target_port: u16,
}

const STANDARD: [Standard; 6] = [
    Standard {
        name: "kube-apiserver",
        label: "api",
        alternates: &[],
        port: 6443,
        service: None,
        target_port: 6443,
    },
    Standard {
        name: "kube-apiserver-internal",
        label: "api-int",
        alternates: &[],
        port: 6443,
        service: None,
        target_port: 6443,
    },
    Standard {
        name: "oauth-openshift",
        label: "oauth",
        alternates: &[],
        port: 443,
        service: Some("oauth-openshift"),
        target_port: 6443,
    },
    Standard {
        name: "ignition-server",
        label: "ignition",
        alternates: &[],
        port: 443,
        service: Some("ignition-server-proxy"),
        target_port: 443,
    },
    Standard {
        name: "kube-apiserver-kubernetes-hostname",
        label: "kubernetes",
        alternates: &IN_CLUSTER_NAMES,
        port: 443,
        service: None,
        target_port: 6443,
    },
    Standard {
        name: "konnectivity-server",
        label: "konnectivity",
        alternates: &[],
        port: 443,
        service: Some("konnectivity-server"),
        target_port: 8091,
    },
];

/// Where unmatched connections of a standard port go: health checks of the nodes speak plain HTTP to 6443, and
/// konnectivity agents dial 443 by address, without a name.
const STANDARD_DEFAULTS: [(u16, &str); 2] = [(443, "konnectivity-server"), (6443, "kube-apiserver")];

/// True for the name of a standard backend.
pub(crate) fn is_standard(name: &str) -> bool {
    STANDARD.iter().any(|standard| standard.name == name)
}

/// The names of the standard backends, for messages.
pub(crate) fn standard_names() -> String {
    STANDARD.map(|standard| standard.name).join(", ")
}

/// The backends in effect: the standard ones in their order, then those that the spec adds, in its order.
pub(crate) fn merge(component: &ProxyComponent, domain: &str, target_namespace: &str) -> Vec<Backend> {
    let change = |name: &str| component.backends.iter().find(|change| change.name == name);
    let mut merged = Vec::with_capacity(STANDARD.len() + component.backends.len());
    for standard in &STANDARD {
        let mut backend = Backend {
            name: standard.name.to_owned(),
            hostname: format!("{}.{domain}", standard.label),
            alternate_hostnames: standard.alternates.iter().map(|name| (*name).to_owned()).collect(),
            port: standard.port,
            target_service: standard.service.unwrap_or(&component.api_server_service).to_owned(),
            target_port: standard.target_port,
            target_namespace: target_namespace.to_owned(),
            ..Backend::default()
        };
        match change(standard.name) {
            Some(change) if change.disabled => continue,
            Some(change) => overlay(&mut backend, change),
            None => {}
        }
        merged.push(backend);
    }
    for further in component.backends.iter().filter(|change| !is_standard(&change.name) && !change.disabled) {
        let mut backend = Backend {
            name: further.name.clone(),
            target_namespace: target_namespace.to_owned(),
            ..Backend::default()
        };
        overlay(&mut backend, further);
        merged.push(backend);
    }
    merged
}

fn overlay(backend: &mut Backend, change: &BackendOverride) {
    fn put<T: Clone>(field: &mut T, change: Option<&T>) {
        if let Some(value) = change {
            field.clone_from(value);
        }
    }
    put(&mut backend.hostname, change.hostname.as_ref());
    put(&mut backend.alternate_hostnames, change.alternate_hostnames.as_ref());
    put(&mut backend.port, change.port.as_ref());
    put(&mut backend.target_service, change.target_service.as_ref());
    put(&mut backend.target_port, change.target_port.as_ref());
    put(&mut backend.target_namespace, change.target_namespace.as_ref());
    put(&mut backend.protocol, change.protocol.as_ref());
    put(&mut backend.timeout_seconds, change.timeout_seconds.as_ref());
}

/// What each port does with unmatched connections, by port: the spec's entry, or the standard one if its backend is there.
pub(crate) fn port_defaults(component: &ProxyComponent, backends: &[Backend]) -> Vec<PortDefaults> {
    let mut defaults = component.ports.clone();
    for (port, name) in STANDARD_DEFAULTS {
        let served = backends.iter().any(|backend| backend.name == name && backend.port == port);
        if served && !defaults.iter().any(|entry| entry.port == port) {
            let outcome = Some(Outcome { backend: Some(name.to_owned()), refuse: None });
            defaults.push(PortDefaults {
                port,
                plaintext: outcome.clone(),
                no_sni: outcome.clone(),
                unknown_sni: outcome,
                ..PortDefaults::default()
            });
        }
    }
    defaults.sort_by_key(|entry| entry.port);
    defaults
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use causeway_api::{ProxyNetwork, ProxyServer, ProxyServerSpec};
    use causeway_base::well_known::SERVICE_NAME_LABEL;
    use causeway_translate::proxy::{Bind, Network, translate, validate};
    use causeway_translate::services::Services;
    use serde_json::json;

    use super::*;

    fn change(name: &str) -> BackendOverride {
        BackendOverride { name: name.into(), ..BackendOverride::default() }
    }

    #[test]
    fn the_spec_changes_drops_and_adds_backends() {
        let component = ProxyComponent {
            backends: vec![
                BackendOverride {
                    hostname: Some("ignition-server-clusters.apps.mgmt.example.com".into()),
                    ..change("ignition-server")
                },
                BackendOverride { disabled: true, ..change("oauth-openshift") },
                BackendOverride {
                    hostname: Some("registry.lab.example.com".into()),
                    port: Some(5000),
                    target_service: Some("registry".into()),
                    target_port: Some(5000),
                    target_namespace: Some("tools".into()),
                    ..change("registry")
                },
            ],
            ..ProxyComponent::default()
        };
        let merged = merge(&component, "lab.example.com", "clusters-lab");
        let lines: Vec<_> = merged
            .iter()
            .map(|b| {
                format!(
                    "{} {}:{} {}/{}:{}",
                    b.name, b.hostname, b.port, b.target_namespace, b.target_service, b.target_port
                )
            })
            .collect();
        insta::assert_snapshot!(lines.join("\n"));
    }

    #[test]
    fn a_standard_default_needs_its_backend_on_its_port() {
        let ports = |component: &ProxyComponent| {
            let backends = merge(component, "d", "ns");
            let defaults = port_defaults(component, &backends);
            defaults.into_iter().map(|d| (d.port, d.plaintext.and_then(|o| o.backend))).collect::<Vec<_>>()
        };
        let mut component = ProxyComponent::default();
        let konnectivity = (443, Some("konnectivity-server".to_owned()));
        let apiserver = (6443, Some("kube-apiserver".to_owned()));
        assert_eq!(ports(&component), [konnectivity, apiserver.clone()]);
        component.backends = vec![BackendOverride { port: Some(8091), ..change("konnectivity-server") }];
        assert_eq!(ports(&component), std::slice::from_ref(&apiserver));
        component.ports = vec![PortDefaults { port: 6443, ..PortDefaults::default() }];
        assert_eq!(ports(&component), [(6443, None)], "the spec's entry replaces the standard one");
    }

    #[test]
    fn a_hosted_control_plane_keeps_its_ways() {
        let component = ProxyComponent::default();
        let backends = merge(&component, "west.example.test", "cp");
        let ports = port_defaults(&component, &backends);
        let network_config =
            ProxyNetwork { server_ip: Some("192.168.100.5".into()), ..ProxyNetwork::default() };
        let spec = ProxyServerSpec { network_config, backends, ports, ..ProxyServerSpec::default() };
        let pair = |name: &str, port: u16, addresses: &[&str]| {
            let service = json!({
                "metadata": {"namespace": "cp", "name": name}, "spec": {"ports": [{"port": port}]},
            });
            let endpoints: Vec<_> = addresses.iter().map(|address| json!({"addresses": [address]})).collect();
            let slice = json!({
                "metadata": {"namespace": "cp", "name": format!("{name}-1"), "labels": {SERVICE_NAME_LABEL: name}},
                "addressType": "IPv4", "ports": [{"name": "", "port": port}], "endpoints": endpoints,
            });
            (
                Arc::new(serde_json::from_value(service).unwrap()),
                Arc::new(serde_json::from_value(slice).unwrap()),
            )
        };
        let (services, slices): (Vec<_>, Vec<_>) = [
            pair(&component.api_server_service, 6443, &["10.0.0.1", "10.0.0.2"]),
            pair("oauth-openshift", 6443, &["10.0.0.3"]),
            pair("konnectivity-server", 8091, &["10.0.0.4"]),
        ]
        .into_iter()
        .unzip();
        let bind = |text: &str, network| Bind { address: text.parse().unwrap(), network };
        let valid = validate(&ProxyServer::new("edge", spec)).unwrap();
        let made = translate(
            &valid,
            &[],
            &[bind("192.168.100.5", Network::Isolated), bind("10.128.0.9", Network::Pod)],
            &Services::new(services, slices),
        );
        assert_eq!(made.plan.validate(), []);
        let states: Vec<String> = made
            .backends
            .iter()
            .map(|b| format!("{} {} {}", b.name, b.ready_endpoints, b.message.as_deref().unwrap_or("-")))
            .collect();
        insta::assert_snapshot!("six_backends", states.join("\n"));
        insta::assert_json_snapshot!("six_backends_plan", made.plan);
    }
}
