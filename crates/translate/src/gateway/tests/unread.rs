//! What can't be read is told, and never opens what it was to close.

use super::*;

/// The picture of a scene with one object that can't be read, as `said`.
fn unread(scene: &Scene, said: &str) -> Picture {
    let (world, unread) = scene.read();
    let [(what, why)] = &unread[..] else { panic!("{unread:?}") };
    assert!(format!("{what}: {why}").starts_with(said), "{what}: {why}");
    Scene::picture_of(&world)
}

#[test]
fn a_route_hears_of_it_and_the_rest_is_served() {
    for (field, path) in [
        ("hostnames: {a: b}", "spec.hostnames: invalid type"),
        ("rules: [{backendRefs: [{name: web, port: -1}]}]", "spec.rules[0].backendRefs[0]"),
        ("rules: [{backendRefs: [{name: web, port: 80, weight: -1}]}]", "spec.rules[0].backendRefs[0]"),
    ] {
        let scene = Scene::new([gateway(HTTP), http_route("bad", field), http_route("good", "")]);
        let picture = unread(&scene, "HTTPRoute infra/bad: spec.");
        assert_eq!(condition(picture.http("bad"), "Accepted"), ("False", "UnsupportedValue"), "{field}");
        let said = message(picture.http("bad"), "Accepted");
        assert!(said.starts_with(&format!("it can't be read: {path}")), "{said}");
        assert_eq!(condition(picture.http("good"), "Accepted"), ("True", "Accepted"));
        assert_eq!((picture.rules().len(), &picture.listener("http")["attachedRoutes"]), (1, &json!(1)));
    }
}

#[test]
fn numbers_that_make_no_sense_are_told_with_their_fields() {
    for (rule, words) in [
        ("retry: {attempts: -1}", "retry.attempts: -1 is no count"),
        ("retry: {codes: [-5]}", "retry.codes: -5 is no failure"),
        ("retry: {codes: [70000]}", "retry.codes: 70000 is no failure"),
        ("filters: [{type: RequestRedirect, requestRedirect: {statusCode: -1}}]", "-1 is no status"),
        ("filters: [{type: CORS, cors: {maxAge: -1}}]", "cors.maxAge: -1 is no count"),
        (
            "filters: [{type: RequestMirror, requestMirror: {backendRef: {name: web, port: 8080}, percent: -1}}]",
            "-1 of 100 requests can't be copied",
        ),
        (
            "filters: [{type: RequestMirror, requestMirror: {backendRef: {name: web, port: 8080}, \
             fraction: {numerator: 1, denominator: -2}}}]",
            "1 of -2 requests can't be copied",
        ),
    ] {
        let rules = format!("rules: [{{backendRefs: [{{name: web, port: 8080}}], {rule}}}]");
        let picture = Scene::new([gateway(HTTP), http_route("web", &rules)]).picture();
        let said = message(picture.http("web"), "Accepted");
        assert_eq!(condition(picture.http("web"), "Accepted"), ("False", "UnsupportedValue"), "{rule}");
        assert!(said.contains(words), "{said}");
    }
}

#[test]
fn a_gateway_stays_as_it_is_until_it_can_be_read() {
    let bad = gateway("[{name: http, port: -1, protocol: HTTP}]");
    let picture =
        unread(&Scene::new([bad, http_route("web", "")]), "Gateway infra/gw: spec.listeners[0].port");
    assert!(!picture.gateway().accepted);
    assert_eq!(condition(picture.gateway_status(), "Accepted"), ("False", "Invalid"));
    assert!(message(picture.gateway_status(), "Accepted").contains("spec.listeners[0].port"));
    assert_eq!(condition(picture.http("web"), "Accepted"), ("False", "NoMatchingParent"));
}

#[test]
fn a_gateway_without_its_class_is_nobodys_and_one_of_others_is_theirs() {
    let of = |class: &str| {
        let spec =
            format!("{{gatewayClassName: {class}, listeners: [{{name: http, port: 80, protocol: HTTP}}]}}");
        Scene::new([object("Gateway", "infra", "gw", &spec)]).picture()
    };
    let at = ObjectRef::new("infra", "gw");
    assert!(of("causeway").gateways.contains_key(&at) && of("causeway").nobodys.is_empty());
    assert!(of("gone").gateways.is_empty() && of("gone").nobodys.contains(&at));
    assert!(of("other").gateways.is_empty() && of("other").nobodys.is_empty());
}

#[test]
fn a_policy_closes_what_it_is_for() {
    let policy = |fields: &str| {
        let target =
            if fields.contains("targetRefs") { "" } else { "targetRefs: [{kind: HTTPRoute, name: web}], " };
        object("TrafficPolicy", "infra", "bad", &format!("{{{target}{fields}}}"))
    };
    for (fields, path) in [
        ("allowedClients: 10.0.0.0/8", "spec.allowedClients: invalid type"),
        ("bodyLimit: [1]", "spec.bodyLimit: invalid type"),
        ("allowedClient: [10.0.0.0/8]", "spec.allowedClient: there is no such field"),
        ("rateLimit: {requests: 1, perr: 1m}", "spec.rateLimit.perr: there is no such field"),
        (
            "bodyLimit: 1Ki, targetRefs: [{kind: HTTPRoute, name: web}, {kind: 7}]",
            "spec.targetRefs[1].kind: invalid type",
        ),
    ] {
        let scene =
            Scene::new([gateway(HTTP), http_route("web", ""), http_route("other", "hostnames: [o.test]")]);
        let picture = unread(&scene.and([policy(fields)]), &format!("TrafficPolicy infra/bad: {path}"));
        let of = |route: &str| picture.rules().iter().find(|rule| rule.name.contains(route)).unwrap();
        assert_eq!(answer(of("infra/web#")), 500, "{fields}");
        assert_eq!(targets(of("infra/other#")).len(), 1, "{fields}");
        let status = &picture.traffic_policies[&ObjectRef::new("infra", "bad")].value;
        assert_eq!(condition(status, "Accepted"), ("False", "Invalid"), "{fields}");
        assert!(message(status, "Accepted").contains(path), "{}", message(status, "Accepted"));
    }
}

#[test]
fn a_policy_for_tls_closes_the_service() {
    let policy = object(
        "BackendTLSPolicy",
        "infra",
        "bad",
        "{targetRefs: [{group: '', kind: Service, name: web}], validation: {hostname: a.test, caCertificateRefs: 7}}",
    );
    let scene = Scene::new([gateway(HTTP), http_route("web", ""), policy]);
    let picture = unread(&scene, "BackendTLSPolicy infra/bad: spec.");
    assert!(picture.plan().clusters.iter().all(|cluster| cluster.endpoints.is_empty()));
    let said = &picture.policies[&ObjectRef::new("infra", "bad")].value["ancestors"][0];
    assert_eq!(condition(said, "Accepted"), ("False", "Invalid"));
    assert!(message(said, "Accepted").contains("can't be read"));
}

#[test]
fn parameters_with_a_misspelt_field_are_none() {
    let parameters = object("GatewayParameters", "infra", "p", "{replica: 2}");
    let mut gateway = gateway(HTTP);
    gateway["spec"]["infrastructure"] =
        json!({"parametersRef": {"group": "causeway.dev", "kind": "GatewayParameters", "name": "p"}});
    let scene = Scene::new([gateway, parameters]);
    let picture = unread(&scene, "GatewayParameters infra/p: spec.replica: there is no such field");
    assert_eq!(condition(picture.gateway_status(), "Accepted"), ("False", "InvalidParameters"));
}
