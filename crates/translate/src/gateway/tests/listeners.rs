//! Listeners, addresses, parameters and what clients show.

use super::*;
use crate::endpoints;
use crate::gateway::picture::Port;

fn https(extra: &str) -> String {
    format!(
        "{{name: https, port: 443, protocol: HTTPS, tls: {{certificateRefs: [{{name: cert}}]}}, {extra}}}"
    )
}

#[test]
fn kinds_that_do_not_fit_are_refused_and_the_others_stay() {
    for (kinds, protocol, supported) in [
        ("[{kind: InvalidRoute}]", "HTTP", json!([])),
        (
            "[{kind: InvalidRoute}, {kind: HTTPRoute}]",
            "HTTP",
            json!([{"group": kinds::GROUP, "kind": "HTTPRoute"}]),
        ),
        ("[{kind: HTTPRoute, group: example.com}]", "HTTP", json!([])),
        ("[{kind: HTTPRoute}]", "TCP", json!([])),
    ] {
        let listener =
            format!("[{{name: l, port: 80, protocol: {protocol}, allowedRoutes: {{kinds: {kinds}}}}}]");
        let picture = Scene::new([gateway(&listener)]).picture();
        let listener = picture.listener("l");
        assert_eq!(condition(listener, "ResolvedRefs"), ("False", "InvalidRouteKinds"), "{kinds}");
        assert_eq!(condition(listener, "Accepted"), ("True", "Accepted"), "{kinds}");
        assert_eq!(listener["supportedKinds"], supported, "{kinds}");
    }
}

#[test]
fn each_protocol_takes_its_kinds() {
    let tls = |mode: &str| {
        format!(
            "{{name: l, port: 443, protocol: TLS, tls: {{mode: {mode}, certificateRefs: [{{name: cert}}]}}}}"
        )
    };
    for (listener, kinds) in [
        ("{name: l, port: 80, protocol: HTTP}".to_owned(), vec!["HTTPRoute", "GRPCRoute"]),
        (https("").replace("https", "l"), vec!["HTTPRoute", "GRPCRoute"]),
        (tls("Terminate"), vec!["TLSRoute"]),
        (tls("Passthrough"), vec!["TLSRoute"]),
        ("{name: l, port: 80, protocol: TCP}".to_owned(), vec!["TCPRoute"]),
        ("{name: l, port: 80, protocol: UDP}".to_owned(), vec!["UDPRoute"]),
    ] {
        let picture = Scene::new([gateway(&format!("[{listener}]")), secret("infra", "cert")]).picture();
        let supported = picture.listener("l")["supportedKinds"].as_array().unwrap();
        let found: Vec<_> = supported.iter().map(|kind| kind["kind"].as_str().unwrap()).collect();
        assert_eq!(found, kinds, "{listener}");
    }
}

#[test]
fn who_comes_later_to_a_port_or_host_loses() {
    let listeners = "[
        {name: a, port: 80, protocol: HTTP, hostname: a.test},
        {name: b, port: 80, protocol: HTTP, hostname: b.test},
        {name: again, port: 80, protocol: HTTP, hostname: A.test},
        {name: tcp, port: 80, protocol: TCP},
        {name: udp, port: 80, protocol: UDP},
        {name: one, port: 90, protocol: TCP},
        {name: two, port: 90, protocol: TCP},
    ]";
    let picture = Scene::new([gateway(listeners)]).picture();
    for (name, accepted, conflicted, programmed) in [
        ("a", ("True", "Accepted"), ("False", "NoConflicts"), ("True", "Programmed")),
        ("b", ("True", "Accepted"), ("False", "NoConflicts"), ("True", "Programmed")),
        ("again", ("False", "HostnameConflict"), ("True", "HostnameConflict"), ("False", "HostnameConflict")),
        ("tcp", ("False", "ProtocolConflict"), ("True", "ProtocolConflict"), ("False", "ProtocolConflict")),
        ("udp", ("True", "Accepted"), ("False", "NoConflicts"), ("True", "Programmed")),
        ("one", ("True", "Accepted"), ("False", "NoConflicts"), ("True", "Programmed")),
        ("two", ("False", "HostnameConflict"), ("True", "HostnameConflict"), ("False", "HostnameConflict")),
    ] {
        let listener = picture.listener(name);
        assert_eq!(condition(listener, "Accepted"), accepted, "{name}");
        assert_eq!(condition(listener, "Conflicted"), conflicted, "{name}");
        assert_eq!(condition(listener, "Programmed"), programmed, "{name}");
    }
    let ports: Vec<_> = picture.gateway().ports.iter().map(|p| (p.protocol.as_str(), p.number)).collect();
    assert_eq!(ports, [("TCP", 80), ("TCP", 90), ("UDP", 80)]);
}

#[test]
fn what_a_listener_cannot_be_is_said() {
    for (listener, reason) in [
        ("{name: l, port: 80, protocol: HTTP, hostname: 'a b'}", "UnsupportedValue"),
        ("{name: l, port: 0, protocol: HTTP}", "PortUnavailable"),
        ("{name: l, port: 443, protocol: HTTPS, tls: {mode: Passthrough}}", "UnsupportedValue"),
        ("{name: l, port: 80, protocol: HTTP, filters: [{type: ExternalAuth}]}", "UnsupportedValue"),
        ("{name: l, port: 80, protocol: example.com/quic}", "UnsupportedProtocol"),
    ] {
        let picture = Scene::new([gateway(&format!("[{listener}]"))]).picture();
        assert_eq!(condition(picture.listener("l"), "Accepted"), ("False", reason), "{listener}");
    }
}

#[test]
fn a_grant_lets_a_gateway_use_a_certificate_and_its_going_does_not() {
    let listener = "[{name: https, port: 443, protocol: HTTPS, tls: {certificateRefs: [{name: cert, namespace: apps}]}}]";
    let grant = |from: &str, to: &str| {
        object(
            "ReferenceGrant",
            "apps",
            "g",
            &format!(
                "{{from: [{{group: gateway.networking.k8s.io, kind: {from}, namespace: infra}}], to: [{{group: '', kind: Secret{to}}}]}}"
            ),
        )
    };
    for (grant, expected) in [
        (Some(grant("Gateway", "")), ("True", "ResolvedRefs")),
        (Some(grant("Gateway", ", name: cert")), ("True", "ResolvedRefs")),
        (Some(grant("Gateway", ", name: other")), ("False", "RefNotPermitted")),
        (Some(grant("HTTPRoute", "")), ("False", "RefNotPermitted")),
        (None, ("False", "RefNotPermitted")),
    ] {
        for version in ["v1", "v1beta1"] {
            let mut grant = grant.clone();
            if let Some(grant) = &mut grant {
                grant["apiVersion"] = json!(format!("gateway.networking.k8s.io/{version}"));
            }
            let picture =
                Scene::new([gateway(listener), secret("apps", "cert")]).and(grant.clone()).picture();
            assert_eq!(condition(picture.listener("https"), "ResolvedRefs"), expected, "{grant:?}");
            assert_eq!(picture.gateway().certificates.len(), usize::from(expected.0 == "True"));
        }
    }
}

#[test]
fn an_unknown_address_type_is_refused_and_an_unusable_address_told() {
    let asking = |addresses: &str| {
        let mut gateway = gateway(HTTP);
        gateway["spec"]["addresses"] = yaml(addresses);
        gateway
    };
    let seen = |value: &str| Observed {
        addresses: ["192.0.2.1", "192.0.2.9"]
            .map(|value| Address { kind: AddressKind::Ip, value: value.to_owned() })
            .into(),
        unusable: [(value.to_owned(), "another node has it".to_owned())].into(),
        serving: true,
        running_generation: Some(2),
        ..Observed::default()
    };
    for (addresses, accepted, programmed, shown) in [
        ("[{type: test/fake, value: x}]", ("False", "UnsupportedAddress"), ("False", "Invalid"), 2),
        ("[{type: Hostname, value: a.test}]", ("False", "UnsupportedAddress"), ("False", "Invalid"), 2),
        ("[{value: nonsense}]", ("True", "Accepted"), ("False", "AddressNotUsable"), 2),
        ("[{value: 192.0.2.7}, {value: 192.0.2.9}]", ("True", "Accepted"), ("False", "AddressNotUsable"), 1),
        ("[{value: 192.0.2.8}]", ("True", "Accepted"), ("False", "AddressNotAssigned"), 0),
        ("[{type: IPAddress, value: 192.0.2.9}]", ("True", "Accepted"), ("True", "Programmed"), 1),
        ("[{type: IPAddress}]", ("True", "Accepted"), ("True", "Programmed"), 2),
        ("[{value: ''}]", ("True", "Accepted"), ("True", "Programmed"), 2),
    ] {
        let picture = Scene::new([asking(addresses)]).seen(seen("192.0.2.7")).picture();
        let status = picture.gateway_status();
        assert_eq!(condition(status, "Accepted"), accepted, "{addresses}");
        assert_eq!(condition(status, "Programmed"), programmed, "{addresses}");
        let found = status["addresses"].as_array().map(Vec::len).unwrap_or_default();
        assert_eq!(found, shown, "{addresses}");
    }
}

#[test]
fn infrastructure_and_parameters_are_handed_on() {
    let mut gateway = gateway(HTTP);
    gateway["spec"]["infrastructure"] = yaml(
        "{labels: {key2: value2}, annotations: {key1: value1}, parametersRef: {group: causeway.dev, kind: GatewayParameters, name: own}}",
    );
    let of_class = object("GatewayParameters", "infra", "class", "{serviceType: NodePort, replicas: 2}");
    let own = object("GatewayParameters", "infra", "own", "{replicas: 3, drainSeconds: 600}");
    let class = object(
        "GatewayClass",
        "",
        "causeway",
        "{controllerName: causeway.dev/gateway, parametersRef: {group: causeway.dev, kind: GatewayParameters, name: class, namespace: infra}}",
    );
    let picture = Scene::new([gateway.clone(), of_class, own, class.clone()]).picture();
    let made = picture.gateway();
    assert_eq!(made.labels["key2"], "value2");
    assert_eq!(made.annotations["key1"], "value1");
    assert_eq!(made.parameters.replicas, Some(3));
    assert_eq!(made.plan.drain_timeout.as_secs(), 600);
    assert_eq!(made.parameters.service_type, Some(causeway_api::GatewayServiceType::NodePort));
    assert_eq!(picture.parameters[&ObjectRef::new("infra", "own")].value["gateways"], 1);
    assert_eq!(condition(&picture.classes["causeway"].value, "Accepted"), ("True", "Accepted"));

    let picture = Scene::new([gateway.clone(), class]).picture();
    assert_eq!(condition(&picture.classes["causeway"].value, "Accepted"), ("False", "InvalidParameters"));
    assert_eq!(condition(picture.gateway_status(), "Accepted"), ("False", "InvalidParameters"));

    gateway["spec"]["infrastructure"]["parametersRef"] =
        yaml("{group: invalid.io, kind: InvalidParameters, name: invalid}");
    let picture = Scene::new([gateway]).picture();
    assert_eq!(condition(picture.gateway_status(), "Accepted"), ("False", "InvalidParameters"));
}

#[test]
fn a_class_tells_its_features() {
    let picture = Scene::new([]).picture();
    assert_eq!(picture.classes.len(), 1);
    let features = picture.classes["causeway"].value["supportedFeatures"].as_array().unwrap();
    assert_eq!(features.len(), features::SUPPORTED.len());
    assert_eq!(features[0], json!({"name": "BackendTLSPolicy"}));
}

fn asking_clients(frontend: &str, ports: &[u16]) -> Value {
    let listeners: Vec<String> = ports
        .iter()
        .map(|port| {
            format!(
                "{{name: p{port}, port: {port}, protocol: {}, tls: {{certificateRefs: [{{name: cert}}]}}}}",
                if *port == 80 { "HTTP" } else { "HTTPS" }
            )
        })
        .collect();
    let mut gateway = gateway(&format!("[{}]", listeners.join(", ")));
    gateway["spec"]["tls"] = json!({"frontend": yaml(frontend)});
    gateway
}

fn client_certificates(plan: &Plan, port: u16) -> Option<&causeway_ir::tls::ClientCertificates> {
    let listener = plan.listeners.iter().find(|listener| listener.bind.port() == port).unwrap();
    let Protocol::Tls(tls) = &listener.protocol else { panic!("{listener:?}") };
    let Action::Terminate(terminate) = &tls.unknown_server_name else { panic!("{tls:?}") };
    terminate.client_certificates.as_ref()
}

#[test]
fn clients_are_asked_by_default_and_by_port_and_only_the_bad_port_fails() {
    let frontend = "{
        default: {validation: {caCertificateRefs: [{group: '', kind: ConfigMap, name: ca}]}},
        perPort: [
            {port: 7443, tls: {validation: {caCertificateRefs: [{group: '', kind: ConfigMap, name: missing}]}}},
            {port: 8443, tls: {validation: {caCertificateRefs: [{group: '', kind: Service, name: web}]}}},
            {port: 6443, tls: {validation: {caCertificateRefs: [{group: '', kind: ConfigMap, name: ca, namespace: apps}]}}},
            {port: 9443, tls: {}},
        ],
    }";
    let scene = Scene::new([
        asking_clients(frontend, &[443, 7443, 8443, 6443, 9443, 80]),
        secret("infra", "cert"),
        authority("infra", "ca"),
        authority("apps", "ca"),
    ]);
    let picture = scene.picture();
    for (port, accepted, resolved) in [
        ("p443", ("True", "Accepted"), ("True", "ResolvedRefs")),
        ("p7443", ("False", "NoValidCACertificate"), ("False", "InvalidCACertificateRef")),
        ("p8443", ("False", "NoValidCACertificate"), ("False", "InvalidCACertificateKind")),
        ("p6443", ("False", "NoValidCACertificate"), ("False", "RefNotPermitted")),
        ("p9443", ("True", "Accepted"), ("True", "ResolvedRefs")),
        ("p80", ("True", "Accepted"), ("True", "ResolvedRefs")),
    ] {
        assert_eq!(condition(picture.listener(port), "Accepted"), accepted, "{port}");
        assert_eq!(condition(picture.listener(port), "ResolvedRefs"), resolved, "{port}");
    }
    let clients = client_certificates(picture.plan(), 443).unwrap();
    assert_eq!(clients.mode, causeway_ir::tls::ClientCertificateMode::Required);
    assert!(picture.gateway().authorities.contains_key(clients.authorities.0.as_str()));
    assert_eq!(client_certificates(picture.plan(), 9443), None);
    let listening: Vec<_> = picture.plan().listeners.iter().map(|listener| listener.bind.port()).collect();
    assert_eq!(listening, [80, 443, 9443]);
    assert_eq!(condition(picture.gateway_status(), "InsecureFrontendValidationMode"), ("", ""));
}

#[test]
fn insecure_fallback_is_told_while_it_lasts() {
    let frontend =
        "{default: {validation: {mode: MODE, caCertificateRefs: [{group: '', kind: ConfigMap, name: ca}]}}}";
    let objects = |mode: &str| {
        [
            asking_clients(&frontend.replace("MODE", mode), &[443]),
            secret("infra", "cert"),
            authority("infra", "ca"),
        ]
    };
    let open = Scene::new(objects("AllowInsecureFallback")).picture();
    let insecure = condition(open.gateway_status(), "InsecureFrontendValidationMode");
    assert_eq!(insecure, ("True", "ConfigurationChanged"));
    let clients = client_certificates(open.plan(), 443).unwrap();
    assert_eq!(clients.mode, causeway_ir::tls::ClientCertificateMode::InsecureFallback);
    let mut closed = objects("AllowValidOnly");
    closed[0]["status"] = open.gateway_status().clone();
    let closed = Scene::new(closed).picture();
    assert_eq!(condition(closed.gateway_status(), "InsecureFrontendValidationMode"), ("", ""));
}

#[test]
fn a_bad_certificate_for_backends_is_told_and_the_gateway_accepted() {
    for (reference, expected) in [
        ("{name: cert}", ("True", "ResolvedRefs")),
        ("{name: missing}", ("False", "InvalidClientCertificateRef")),
        ("{name: cert, kind: Wrong}", ("False", "InvalidClientCertificateRef")),
        ("{name: cert, group: wrong.io}", ("False", "InvalidClientCertificateRef")),
        ("{name: cert, namespace: apps}", ("False", "RefNotPermitted")),
    ] {
        let mut gateway = gateway(HTTP);
        gateway["spec"]["tls"] = json!({"backend": {"clientCertificateRef": yaml(reference)}});
        let picture = Scene::new([gateway, secret("infra", "cert")]).picture();
        assert_eq!(condition(picture.gateway_status(), "ResolvedRefs"), expected, "{reference}");
        assert_eq!(condition(picture.gateway_status(), "Accepted"), ("True", "Accepted"), "{reference}");
    }
}

#[test]
fn ports_of_pods_that_stand_for_others_can_not_be_had_too() {
    let listeners = "[{name: a, port: 19080, protocol: HTTP}, {name: b, port: 19180, protocol: HTTP}, \
                     {name: c, port: 20001, protocol: TCP}, {name: d, port: 19901, protocol: TCP}]";
    let picture = Scene::new([gateway(listeners)]).picture();
    for (name, accepted) in [
        ("a", ("True", "Accepted")),
        ("b", ("False", "PortUnavailable")),
        ("c", ("True", "Accepted")),
        ("d", ("False", "PortUnavailable")),
    ] {
        assert_eq!(condition(picture.listener(name), "Accepted"), accepted, "{name}");
    }
    let ports: std::collections::BTreeSet<u16> = picture
        .plan()
        .listeners
        .iter()
        .map(|listener| crate::gateway_pod::target_port(listener.bind.port()))
        .collect();
    assert_eq!(ports.len(), picture.plan().listeners.len());
}

#[test]
fn ports_of_nodes_are_told_beside_their_addresses() {
    let port = |protocol: endpoints::Protocol, number: u16| Port { protocol, number };
    let seen = Observed {
        addresses: vec![Address { kind: AddressKind::Ip, value: "192.0.2.1".to_owned() }],
        node_ports: [
            (port(endpoints::Protocol::Udp, 53), 30053),
            (port(endpoints::Protocol::Tcp, 80), 31080),
        ]
        .into(),
        serving: true,
        running_generation: Some(9),
        ..Observed::default()
    };
    let picture = Scene::new([gateway(HTTP)]).seen(seen).picture();
    assert_eq!(condition(picture.gateway_status(), "Programmed"), ("True", "Programmed"));
    let said = message(picture.gateway_status(), "Programmed");
    assert!(said.ends_with("on ports of nodes: 31080 for 80/TCP, 30053 for 53/UDP"), "{said}");
}

#[test]
fn a_gateway_whose_objects_can_not_be_made_is_not_programmed() {
    let stuck = Observed {
        addresses: vec![Address { kind: AddressKind::Ip, value: "192.0.2.1".to_owned() }],
        serving: true,
        running_generation: Some(9),
        stuck: Some("failed to apply Secret".to_owned()),
        ..Observed::default()
    };
    let picture = Scene::new([gateway(HTTP)]).seen(stuck).picture();
    assert_eq!(condition(picture.gateway_status(), "Programmed"), ("False", "Pending"));
    assert!(message(picture.gateway_status(), "Programmed").contains("failed to apply Secret"));
}
