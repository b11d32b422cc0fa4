//! How backends are spoken to: by what their Service says, and by policies.

use causeway_ir::tls::UpstreamTls;
use causeway_ir::{Cluster, HttpVersion, SubjectName, Transport};

use super::*;

fn policy(name: &str, target: &str, validation: &str) -> Value {
    let spec =
        format!("{{targetRefs: [{{group: '', kind: Service, name: {target}}}], validation: {validation}}}");
    object("BackendTLSPolicy", "infra", name, &spec)
}

const TRUSTED: &str = "{hostname: a.test, caCertificateRefs: [{group: '', kind: ConfigMap, name: ca}]}";

fn secure() -> Vec<Value> {
    let mut all =
        service("infra", "secure", "[{name: one, port: 443}, {name: two, port: 8443}]", "10.0.0.5").to_vec();
    all.push(authority("infra", "ca"));
    all.push(gateway(HTTP));
    all.push(http_route(
        "web",
        "rules: [{backendRefs: [{name: secure, port: 443}]}, {backendRefs: [{name: secure, port: 8443}]}]",
    ));
    all
}

fn tls(cluster: &Cluster) -> &UpstreamTls {
    match &cluster.transport {
        Transport::Tls(tls) => tls,
        other => panic!("{other:?}"),
    }
}

fn cluster<'a>(picture: &'a Picture, name: &str) -> &'a Cluster {
    picture.plan().clusters.iter().find(|cluster| cluster.name == *name).unwrap()
}

/// The condition of a policy at its first ancestor.
fn said<'a>(picture: &'a Picture, policy: &str, kind: &str) -> (&'a str, &'a str) {
    condition(&picture.policies[&ObjectRef::new("infra", policy)].value["ancestors"][0], kind)
}

#[test]
fn a_service_says_what_it_speaks() {
    for (app, used, version, secured) in [
        ("", "Http", HttpVersion::Http1, false),
        ("kubernetes.io/h2c", "Http", HttpVersion::Http2, false),
        ("kubernetes.io/ws", "Http", HttpVersion::Http1, false),
        ("kubernetes.io/wss", "Http", HttpVersion::Http1, true),
        ("https", "Http", HttpVersion::Auto, true),
        ("HTTPS", "Http", HttpVersion::Auto, true),
        ("mysql", "Http", HttpVersion::Http1, false),
        ("", "GRPC", HttpVersion::Http2, false),
        ("https", "GRPC", HttpVersion::Http2, true),
    ] {
        let ports = format!("[{{port: 80, appProtocol: '{app}'}}]");
        let spec = "{parentRefs: [{name: gw}], rules: [{backendRefs: [{name: speaks, port: 80}]}]}";
        let route = object(&format!("{}Route", used.to_uppercase()), "infra", "web", spec);
        let picture =
            Scene::new([gateway(HTTP), route]).and(service("infra", "speaks", &ports, "10.0.0.5")).picture();
        let [cluster] = picture.plan().clusters.as_slice() else { panic!("{:?}", picture.plan().clusters) };
        assert_eq!(cluster.http_version, version, "{app} {used}");
        assert_eq!(matches!(cluster.transport, Transport::Tls(_)), secured, "{app} {used}");
    }
    let ports = "[{port: 80, appProtocol: kubernetes.io/future}]";
    let route = http_route("web", "rules: [{backendRefs: [{name: speaks, port: 80}]}]");
    let picture =
        Scene::new([gateway(HTTP), route]).and(service("infra", "speaks", ports, "10.0.0.5")).picture();
    assert_eq!(condition(picture.http("web"), "ResolvedRefs"), ("False", "UnsupportedProtocol"));
}

#[test]
fn a_service_without_endpoints_of_its_own_is_refused() {
    let external =
        object("Service", "infra", "out", "{type: ExternalName, externalName: x.test, ports: [{port: 80}]}");
    let route = http_route("web", "rules: [{backendRefs: [{name: out, port: 80}]}]");
    let picture = Scene::new([gateway(HTTP), external, route]).picture();
    assert_eq!(condition(picture.http("web"), "ResolvedRefs"), ("False", "UnsupportedValue"));
    assert_eq!(targets(&picture.rules()[0]), [("infra/out:80 invalid", 1)]);
}

#[test]
fn a_policy_makes_tls_with_its_name_and_authorities() {
    let picture = Scene::new(secure()).and([policy("tls", "secure", TRUSTED)]).picture();
    let secured = cluster(&picture, "infra/secure:443 tls");
    assert_eq!(secured.http_version, HttpVersion::Auto);
    assert_eq!(tls(secured).server_name.as_deref(), Some("a.test"));
    let authorities = tls(secured).authorities.as_ref().unwrap();
    assert!(picture.gateway().authorities[authorities.0.as_str()].authorities.certificates.contains("BEGIN"));
    assert_eq!(tls(secured).certificate, None);
    assert_eq!(said(&picture, "tls", "Accepted"), ("True", "Accepted"));
    assert_eq!(said(&picture, "tls", "ResolvedRefs"), ("True", "ResolvedRefs"));
    let ancestor = &picture.policies[&ObjectRef::new("infra", "tls")].value["ancestors"][0];
    assert_eq!(
        ancestor["ancestorRef"],
        json!({"group": "gateway.networking.k8s.io", "kind": "Gateway", "namespace": "infra", "name": "gw"})
    );
    assert_eq!(ancestor["controllerName"], CONTROLLER_NAME);
}

#[test]
fn the_system_is_trusted_where_it_is_asked_for_and_names_are_checked() {
    let names = "{hostname: a.test, wellKnownCACertificates: System, subjectAltNames: [{type: Hostname, hostname: '*.b.test'}, {type: URI, uri: 'spiffe://c/ns/d'}]}";
    let picture = Scene::new(secure()).and([policy("tls", "secure", names)]).picture();
    let secured = tls(cluster(&picture, "infra/secure:443 tls"));
    assert_eq!(secured.authorities, None);
    assert_eq!(secured.subject_names[1], SubjectName::Uri("spiffe://c/ns/d".to_owned()));
    assert_eq!(secured.subject_names.len(), 2);
}

#[test]
fn a_policy_that_cannot_be_kept_closes_the_service() {
    for (validation, accepted, resolved) in [
        (
            "{hostname: a.test, caCertificateRefs: [{group: '', kind: ConfigMap, name: none}]}",
            "NoValidCACertificate",
            "InvalidCACertificateRef",
        ),
        (
            "{hostname: a.test, caCertificateRefs: [{group: '', kind: ConfigMap, name: bad}]}",
            "NoValidCACertificate",
            "InvalidCACertificateRef",
        ),
        (
            "{hostname: a.test, caCertificateRefs: [{group: a.io, kind: Other, name: ca}]}",
            "NoValidCACertificate",
            "InvalidKind",
        ),
        ("{hostname: a.test}", "NoValidCACertificate", "ResolvedRefs"),
        ("{hostname: a.test, wellKnownCACertificates: Mine}", "Invalid", "ResolvedRefs"),
        ("{hostname: '*.a.test', wellKnownCACertificates: System}", "Invalid", "ResolvedRefs"),
        (
            "{hostname: a.test, wellKnownCACertificates: System, subjectAltNames: [{type: URI, uri: nonsense}]}",
            "Invalid",
            "ResolvedRefs",
        ),
    ] {
        let bad = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "bad", "namespace": "infra"}, "data": {"ca.crt": "no"}});
        let picture = Scene::new(secure()).and([bad, policy("tls", "secure", validation)]).picture();
        assert_eq!(said(&picture, "tls", "Accepted"), ("False", accepted), "{validation}");
        assert_eq!(said(&picture, "tls", "ResolvedRefs").1, resolved, "{validation}");
        assert!(picture.gateway().backends.is_empty(), "{validation}");
        for cluster in &picture.plan().clusters {
            assert!(cluster.endpoints.is_empty(), "{validation}");
            assert_eq!((cluster.no_endpoint_status, &cluster.transport), (500, &Transport::Direct));
        }
    }
}

#[test]
fn one_good_authority_is_enough_and_the_bad_one_is_told() {
    let both = "{hostname: a.test, caCertificateRefs: [{group: '', kind: ConfigMap, name: none}, {group: '', kind: ConfigMap, name: ca}]}";
    let picture = Scene::new(secure()).and([policy("tls", "secure", both)]).picture();
    assert_eq!(said(&picture, "tls", "Accepted"), ("True", "Accepted"));
    assert_eq!(said(&picture, "tls", "ResolvedRefs"), ("False", "InvalidCACertificateRef"));
    assert!(tls(cluster(&picture, "infra/secure:443 tls")).authorities.is_some());
}

#[test]
fn the_oldest_policy_holds_and_one_for_a_port_before_one_for_all() {
    let named = |host: &str| format!("{{hostname: {host}, wellKnownCACertificates: System}}");
    let picture = Scene::new(secure())
        .and([
            aged(2020, policy("z-old", "secure", &named("old.test"))),
            aged(2024, policy("a-new", "secure", &named("new.test"))),
            aged(2024, policy("port", "secure, sectionName: one", &named("port.test"))),
            aged(2025, policy("late", "secure, sectionName: one", &named("late.test"))),
            policy("nowhere", "secure, sectionName: three", &named("x.test")),
        ])
        .picture();
    let name =
        |cluster_name: &str| tls(cluster(&picture, cluster_name)).server_name.as_deref().unwrap().to_owned();
    assert_eq!(name("infra/secure:443 tls"), "port.test");
    assert_eq!(name("infra/secure:8443 tls"), "old.test");
    for (policy, expected) in [
        ("z-old", ("True", "Accepted")),
        ("a-new", ("False", "Conflicted")),
        ("port", ("True", "Accepted")),
        ("late", ("False", "Conflicted")),
        ("nowhere", ("False", "TargetNotFound")),
    ] {
        assert_eq!(said(&picture, policy, "Accepted"), expected, "{policy}");
    }
}

#[test]
fn a_policy_that_nobody_uses_is_left_alone_and_foreign_entries_stay() {
    let mut unused = policy("tls", "api", TRUSTED);
    let theirs =
        json!({"ancestorRef": {"name": "x"}, "controllerName": "example.com/other", "conditions": [1]});
    unused["status"] = json!({"ancestors": [theirs]});
    assert!(Scene::new(secure()).and([unused.clone()]).picture().policies.is_empty());
    // Ours goes when the last route has gone.
    unused["status"]["ancestors"] = json!([
        {"ancestorRef": {"name": "gw"}, "controllerName": CONTROLLER_NAME, "conditions": []}, theirs,
    ]);
    let picture = Scene::new(secure()).and([unused]).picture();
    assert_eq!(picture.policies[&ObjectRef::new("infra", "tls")].value, json!({"ancestors": [theirs]}));
}

#[test]
fn backends_are_shown_the_gateways_certificate() {
    let mut objects = secure();
    objects[3]["spec"]["tls"] = yaml("{backend: {clientCertificateRef: {name: client}}}");
    let picture =
        Scene::new(objects).and([policy("tls", "secure", TRUSTED), secret("infra", "client")]).picture();
    let certificate = tls(cluster(&picture, "infra/secure:443 tls")).certificate.clone().unwrap();
    assert_eq!(certificate.0, "infra/client");
    assert_eq!(picture.gateway().certificates["infra/client"].secret, ObjectRef::new("infra", "client"));
}

#[test]
fn calls_too_go_through_tls_where_a_policy_says_so() {
    let spec = "{parentRefs: [{name: gw}], rules: [{backendRefs: [{name: secure, port: 443}]}]}";
    let mut objects = secure();
    objects.push(object("GRPCRoute", "infra", "calls", spec));
    let picture = Scene::new(objects).and([policy("tls", "secure", TRUSTED)]).picture();
    let calls = cluster(&picture, "infra/secure:443 h2 tls");
    assert_eq!((calls.http_version, tls(calls).server_name.as_deref()), (HttpVersion::Http2, Some("a.test")));
}

#[test]
fn the_words_of_an_older_version_are_understood() {
    let mut old = object(
        "BackendTLSPolicy",
        "infra",
        "old",
        "{targetRef: {group: '', kind: Service, name: secure}, \
         tls: {hostname: a.test, caCertRefs: [{group: '', kind: ConfigMap, name: ca}]}}",
    );
    old["apiVersion"] = json!("gateway.networking.k8s.io/v1alpha2");
    let picture = Scene::new(secure()).and([old]).picture();
    assert_eq!(said(&picture, "old", "Accepted"), ("True", "Accepted"));
    assert!(picture.plan().clusters.iter().all(|cluster| matches!(cluster.transport, Transport::Tls(_))));
    let mut system = object(
        "BackendTLSPolicy",
        "infra",
        "old",
        "{targetRef: {kind: Service, name: secure}, tls: {hostname: a.test, wellKnownCACerts: System}}",
    );
    system["apiVersion"] = json!("gateway.networking.k8s.io/v1alpha2");
    let picture = Scene::new(secure()).and([system]).picture();
    assert_eq!(said(&picture, "old", "Accepted"), ("True", "Accepted"));
}

#[test]
fn authorities_that_no_secret_could_hold_are_refused_by_themselves() {
    let large = |name: &str, times: usize| {
        let mut made = authority("infra", name);
        let one = made["data"]["ca.crt"].as_str().unwrap().to_owned();
        made["data"]["ca.crt"] = json!(one.repeat(times));
        made
    };
    let refs = "{hostname: a.test, caCertificateRefs: [{group: '', kind: ConfigMap, name: small}, \
                {group: '', kind: ConfigMap, name: half}, {group: '', kind: ConfigMap, name: again}]}";
    let objects = [large("small", 1), large("half", 700), large("again", 700), policy("tls", "secure", refs)];
    let picture = Scene::new(secure()).and(objects).picture();
    // Two fit, and the third does not.
    let end = &picture.policies[&ObjectRef::new("infra", "tls")].value["ancestors"][0];
    assert_eq!(condition(end, "Accepted"), ("True", "Accepted"));
    assert_eq!(condition(end, "ResolvedRefs"), ("False", "InvalidCACertificateRef"));
    assert!(
        message(end, "ResolvedRefs").contains("ConfigMap infra/again has"),
        "{}",
        message(end, "ResolvedRefs")
    );
    let texts = crate::gateway_pod::keys::Keys::from(picture.gateway()).texts();
    assert!(texts.iter().all(|text| text.len() < 1 << 20));
    // One that is too large by itself is no authority.
    let alone = "{hostname: a.test, caCertificateRefs: [{group: '', kind: ConfigMap, name: huge}]}";
    let picture = Scene::new(secure()).and([large("huge", 1500), policy("tls", "secure", alone)]).picture();
    assert_eq!(said(&picture, "tls", "Accepted"), ("False", "NoValidCACertificate"));
}
