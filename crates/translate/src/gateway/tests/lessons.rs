//! Ten lessons of others, each with a test of its name.

use super::*;

fn foreign_entry() -> Value {
    json!({
        "parentRef": {"name": "theirs", "kind": "Gateway"}, "controllerName": "example.com/other",
        "conditions": [{"type": "Accepted", "status": "True", "odd": [1, {"b": 2, "a": 1}]}], "extra": "kept",
    })
}

fn parents(picture: &Picture, name: &str) -> Value {
    picture.routes[&(RouteKind::Http, ObjectRef::new("infra", name))].value["parents"].clone()
}

#[test]
fn lesson_1_foreign_entries_stay_byte_equal_and_in_place() {
    let theirs = "{gatewayClassName: other, listeners: [{name: http, port: 80, protocol: HTTP}]}";
    let theirs = object("Gateway", "infra", "theirs", theirs);
    let both =
        "{parentRefs: [{name: theirs}, {name: gw}], rules: [{backendRefs: [{name: web, port: 8080}]}]}";
    let mut route = object("HTTPRoute", "infra", "web", both);
    route["status"] = json!({"parents": [
        foreign_entry(),
        {"parentRef": {"name": "gw"}, "controllerName": CONTROLLER_NAME, "conditions": []},
        foreign_entry(),
    ]});
    let picture = Scene::new([gateway(HTTP), theirs.clone(), route]).picture();
    let parents = parents(&picture, "web");
    assert_eq!(parents.as_array().unwrap().len(), 3, "{parents}");
    assert_eq!((&parents[0], &parents[2]), (&foreign_entry(), &foreign_entry()));
    assert_eq!(condition(&parents[1], "Accepted"), ("True", "Accepted"));
    // A route of nobody but others is not ours to write.
    let only = object("HTTPRoute", "infra", "web", "{parentRefs: [{name: theirs}]}");
    let picture = Scene::new([gateway(HTTP), theirs, only]).picture();
    assert!(picture.routes.is_empty() && picture.gateways.len() == 1);
}

#[test]
fn lesson_1_foreign_conditions_of_a_gateway_stay() {
    let foreign = json!({"type": "example.com/Billed", "status": "True", "reason": "Paid", "x": 1});
    let mut ours = gateway(HTTP);
    ours["status"] = json!({"conditions": [foreign], "theirs": {"a": 1}});
    let picture = Scene::new([ours]).picture();
    assert_eq!(picture.gateway_status()["conditions"][0], foreign);
    assert_eq!(picture.gateway_status()["theirs"], json!({"a": 1}));
}

#[test]
fn lesson_2_our_entry_goes_when_the_reference_leaves_the_spec() {
    let mut route = object("HTTPRoute", "infra", "web", "{parentRefs: [{name: elsewhere}]}");
    route["status"] = json!({"parents": [
        {"parentRef": {"name": "gw"}, "controllerName": CONTROLLER_NAME, "conditions": []}, foreign_entry(),
    ]});
    let picture = Scene::new([gateway(HTTP), route]).picture();
    assert_eq!(parents(&picture, "web"), json!([foreign_entry()]));
    assert!(picture.routes[&(RouteKind::Http, ObjectRef::new("infra", "web"))].changed);
}

#[test]
fn lesson_3_all_parents_of_all_classes_are_written_at_once() {
    let second = object("GatewayClass", "", "second", "{controllerName: causeway.dev/gateway}");
    let spec = "{gatewayClassName: second, listeners: [{name: http, port: 80, protocol: HTTP}]}";
    let two = object("Gateway", "infra", "two", spec);
    let route = object("HTTPRoute", "infra", "web", "{parentRefs: [{name: gw}, {name: two}]}");
    let picture = Scene::new([second, gateway(HTTP), two, route]).picture();
    let parents = parents(&picture, "web");
    let names: Vec<_> =
        parents.as_array().unwrap().iter().map(|parent| &parent["parentRef"]["name"]).collect();
    assert_eq!(names, ["gw", "two"]);
}

#[test]
fn lesson_4_every_condition_has_the_observed_generation() {
    let route = http_route("web", "");
    let first = Scene::new([gateway(HTTP), route.clone()]).picture();
    let mut gateway = gateway(HTTP);
    gateway["status"] = first.gateway_status().clone();
    gateway["metadata"]["generation"] = json!(3);
    let mut route = route;
    route["status"] = json!({"parents": parents(&first, "web")});
    route["metadata"]["generation"] = json!(7);
    let second = Scene::new([gateway, route]).picture();
    assert!(second.gateway().status.changed);
    let of = |holder: &Value, generation: i64| {
        for condition in holder["conditions"].as_array().unwrap() {
            assert_eq!(condition["observedGeneration"], generation, "{condition}");
        }
    };
    of(second.gateway_status(), 3);
    of(second.listener("http"), 3);
    of(second.http("web"), 7);
    of(&second.classes["causeway"].value, 2);
}

#[test]
fn lesson_5_whatever_is_referred_to_changes_the_picture() {
    let https = "[{name: https, port: 443, protocol: HTTPS, tls: {certificateRefs: [{name: cert}]}}]";
    let objects =
        || vec![gateway(https), http_route("web", "rules: [{backendRefs: [{name: later, port: 80}]}]")];
    let before = Scene::new(objects()).picture();
    assert_eq!(condition(before.listener("https"), "ResolvedRefs"), ("False", "InvalidCertificateRef"));
    assert_eq!(condition(before.http("web"), "ResolvedRefs"), ("False", "BackendNotFound"));
    // What is not there yet has to be watched.
    assert!(before.references.secrets.contains(&ObjectRef::new("infra", "cert")));
    assert_eq!(before.references.services.len(), 1);
    let later = service("infra", "later", "[{port: 80}]", "10.0.0.9");
    let after = Scene::new(objects()).and([secret("infra", "cert")]).and(later).picture();
    assert_eq!(condition(after.listener("https"), "ResolvedRefs"), ("True", "ResolvedRefs"));
    assert_eq!(condition(after.http("web"), "ResolvedRefs"), ("True", "ResolvedRefs"));
}

#[test]
fn lesson_6_accepted_and_resolved_are_always_said() {
    let unknown = "rules: [{backendRefs: [{kind: Bucket, group: example.com, name: b, port: 80}]}]";
    let elsewhere = object(
        "HTTPRoute",
        "infra",
        "elsewhere",
        "{parentRefs: [{name: gw, sectionName: none}], rules: [{backendRefs: [{name: missing, port: 80}]}]}",
    );
    let picture = Scene::new([gateway(HTTP), http_route("unknown", unknown), elsewhere]).picture();
    assert_eq!(condition(picture.http("unknown"), "Accepted"), ("True", "Accepted"));
    assert_eq!(condition(picture.http("unknown"), "ResolvedRefs"), ("False", "InvalidKind"));
    assert_eq!(condition(picture.http("elsewhere"), "Accepted"), ("False", "NoMatchingParent"));
    assert_eq!(condition(picture.http("elsewhere"), "ResolvedRefs"), ("False", "BackendNotFound"));
}

#[test]
fn lesson_6_without_a_grant_nobody_learns_whether_a_secret_is_there() {
    let https = "[{name: https, port: 443, protocol: HTTPS, tls: {certificateRefs: [{name: NAME, namespace: apps}]}}]";
    for name in ["there", "missing"] {
        let picture = Scene::new([gateway(&https.replace("NAME", name)), secret("apps", "there")]).picture();
        assert_eq!(
            condition(picture.listener("https"), "ResolvedRefs"),
            ("False", "RefNotPermitted"),
            "{name}"
        );
        assert!(picture.references.secrets.is_empty());
    }
}

#[test]
fn lesson_7_a_bad_certificate_leaves_a_listener_accepted_and_its_routes_counted() {
    let https = "[{name: https, port: 443, protocol: HTTPS, tls: {certificateRefs: [{name: cert}]}}]";
    let malformed = json!({
        "apiVersion": "v1", "kind": "Secret", "metadata": {"name": "cert", "namespace": "infra"},
        "data": {"tls.crt": "SGVsbG8gd29ybGQK", "tls.key": "SGVsbG8gd29ybGQK"},
    });
    let mut wrong_key = secret("infra", "cert");
    wrong_key["stringData"]["tls.key"] = secret("infra", "other")["stringData"]["tls.key"].clone();
    for bad in [vec![], vec![malformed], vec![wrong_key]] {
        let picture = Scene::new([gateway(https), http_route("web", "")]).and(bad).picture();
        let listener = picture.listener("https");
        assert_eq!(condition(listener, "Accepted"), ("True", "Accepted"));
        assert_eq!(condition(listener, "ResolvedRefs"), ("False", "InvalidCertificateRef"));
        assert_eq!(condition(listener, "Programmed"), ("False", "Invalid"));
        assert_eq!(listener["attachedRoutes"], 1);
        // The Gateway has its address and its port, and serves nothing there.
        assert_eq!(condition(picture.gateway_status(), "Programmed"), ("True", "Programmed"));
        assert_eq!(picture.gateway().ports.len(), 1);
        assert!(picture.plan().listeners.is_empty());
    }
}

#[test]
fn lesson_8_mixed_rules_are_partially_invalid_and_never_open() {
    let rules = "rules: [
        {matches: [{path: {value: /good}}], backendRefs: [{name: web, port: 8080}]},
        {matches: [{path: {value: /auth}}], filters: [{type: ExternalAuth, externalAuth: {protocol: GRPC}}], backendRefs: [{name: web, port: 8080}]},
        {matches: [{path: {type: RegularExpression, value: '('}}], backendRefs: [{name: web, port: 8080}]},
        {matches: [{path: {value: /ext}}], filters: [{type: ExtensionRef, extensionRef: {group: a, kind: B, name: c}}], backendRefs: [{name: web, port: 8080}]},
    ]";
    let picture = Scene::new([gateway(HTTP), http_route("web", rules)]).picture();
    let entry = picture.http("web");
    assert_eq!(condition(entry, "Accepted"), ("True", "Accepted"));
    assert_eq!(condition(entry, "PartiallyInvalid"), ("True", "UnsupportedValue"));
    assert!(message(entry, "PartiallyInvalid").starts_with("Dropped Rule 1: "), "{entry}");
    assert_eq!(condition(entry, "ResolvedRefs"), ("False", "InvalidKind"));
    let [good, auth, extension] = picture.rules() else { panic!("{:?}", picture.rules()) };
    assert_eq!(targets(good), [("infra/web:8080", 1)]);
    assert_eq!((answer(auth), answer(extension)), (500, 500));
}

#[test]
fn lesson_8_invalid_backends_fail_by_their_share_and_empty_ones_are_unavailable() {
    let rules = "rules: [{backendRefs: [{name: missing, port: 8080, weight: 1}, {name: web, port: 8080, weight: 3}, {name: empty, port: 80}]}]";
    let empty = object("Service", "infra", "empty", "{ports: [{port: 80}]}");
    let picture = Scene::new([gateway(HTTP), empty, http_route("web", rules)]).picture();
    assert_eq!(
        targets(&picture.rules()[0]),
        [("infra/missing:8080 invalid", 1), ("infra/web:8080", 3), ("infra/empty:80", 1)]
    );
    let status: Vec<_> = picture
        .plan()
        .clusters
        .iter()
        .map(|cluster| (cluster.name.as_str(), cluster.endpoints.len(), cluster.no_endpoint_status))
        .collect();
    assert_eq!(
        status,
        [("infra/empty:80", 0, 503), ("infra/missing:8080 invalid", 0, 500), ("infra/web:8080", 1, 503)]
    );
    assert!(!picture.gateway().backends.contains_key("infra/missing:8080 invalid"));
    assert_eq!(condition(picture.http("web"), "ResolvedRefs"), ("False", "BackendNotFound"));
}

#[test]
fn lesson_9_programmed_waits_for_an_address_and_the_data_plane() {
    let address = || vec![Address { kind: AddressKind::Ip, value: "192.0.2.1".to_owned() }];
    let serving =
        Observed { addresses: address(), serving: true, running_generation: Some(2), ..Observed::default() };
    for (observed, reason) in [
        (Observed::default(), ("False", "AddressNotAssigned")),
        (Observed { addresses: address(), ..Observed::default() }, ("False", "Pending")),
        (Observed { running_generation: Some(1), ..serving.clone() }, ("False", "Pending")),
        (Observed { running_generation: None, ..serving.clone() }, ("False", "Pending")),
        (serving, ("True", "Programmed")),
    ] {
        let picture = Scene::new([gateway(HTTP)]).seen(observed).picture();
        assert_eq!(condition(picture.gateway_status(), "Accepted"), ("True", "Accepted"));
        assert_eq!(condition(picture.gateway_status(), "Programmed"), reason);
        assert_eq!(condition(picture.listener("http"), "Programmed").0, reason.0);
    }
}

#[test]
fn lesson_9_some_bad_listeners_are_told_and_only_bad_ones_refused() {
    let bad = "{name: bad, port: 1111, protocol: SCTP}";
    let picture =
        Scene::new([gateway(&format!("[{bad}, {{name: http, port: 80, protocol: HTTP}}]"))]).picture();
    assert_eq!(condition(picture.gateway_status(), "Accepted"), ("True", "ListenersNotValid"));
    assert_eq!(condition(picture.listener("bad"), "Accepted"), ("False", "UnsupportedProtocol"));
    assert_eq!(picture.listener("bad")["supportedKinds"], json!([]));
    let picture = Scene::new([gateway(&format!("[{bad}]"))]).picture();
    assert_eq!(condition(picture.gateway_status(), "Accepted"), ("False", "ListenersNotValid"));
    assert_eq!(condition(picture.gateway_status(), "Programmed"), ("False", "Invalid"));
    assert!(!picture.gateway().accepted);
}

#[test]
fn lesson_10_a_status_that_says_the_same_is_not_written_again() {
    let policy = object(
        "BackendTLSPolicy",
        "infra",
        "tls",
        "{targetRefs: [{group: '', kind: Service, name: web}], validation: {hostname: a.test, wellKnownCACertificates: System}}",
    );
    let set = "{parentRef: {name: gw}, listeners: [{name: more, port: 81, protocol: HTTP}]}";
    let mut open = gateway(HTTP);
    open["spec"]["allowedListeners"] = json!({"namespaces": {"from": "Same"}});
    let objects = [open, http_route("web", ""), policy, object("ListenerSet", "infra", "set", set)];
    let first = Scene::new(objects.clone()).picture();
    let status = |kind: &str, name: &str| match kind {
        "Gateway" => first.gateway_status().clone(),
        "HTTPRoute" => first.routes[&(RouteKind::Http, ObjectRef::new("infra", name))].value.clone(),
        "BackendTLSPolicy" => first.policies[&ObjectRef::new("infra", name)].value.clone(),
        "ListenerSet" => first.listener_sets[&ObjectRef::new("infra", name)].value.clone(),
        other => panic!("{other}"),
    };
    let written = objects.map(|mut object| {
        let (kind, name) = (object["kind"].as_str().unwrap(), object["metadata"]["name"].as_str().unwrap());
        object["status"] = status(kind, name);
        object
    });
    let scene = Scene::new(written);
    let later = picture(&scene.world(), "2027-01-01T00:00:00Z".parse().unwrap());
    assert!(!later.gateway().status.changed);
    assert!(later.routes.values().all(|status| !status.changed));
    assert!(later.policies.values().all(|status| !status.changed) && later.policies.len() == 1);
    assert!(later.listener_sets.values().all(|status| !status.changed) && later.listener_sets.len() == 1);
    // What changes has a new time, and only that.
    let stopped = picture(&scene.seen(Observed::default()).world(), "2027-01-01T00:00:00Z".parse().unwrap());
    let conditions = stopped.gateway_status()["conditions"].as_array().unwrap();
    let times: Vec<_> =
        conditions.iter().map(|c| (c["type"].as_str(), c["lastTransitionTime"].as_str())).collect();
    assert!(times.contains(&(Some("Programmed"), Some("2027-01-01T00:00:00Z"))), "{times:?}");
    assert!(times.contains(&(Some("Accepted"), Some("2026-06-01T00:00:00Z"))), "{times:?}");
}

#[test]
fn lesson_10_lists_have_an_end() {
    let names: Vec<String> = (0..40).map(|n| format!("g{n:02}")).collect();
    let gateways = names.iter().map(|name| {
        let spec = "{gatewayClassName: causeway, listeners: [{name: http, port: 80, protocol: HTTP}]}";
        object("Gateway", "infra", name, spec)
    });
    let parents: Vec<String> = names.iter().map(|name| format!("{{name: {name}}}")).collect();
    let spec = format!(
        "{{parentRefs: [{}], rules: [{{backendRefs: [{{name: web, port: 8080}}]}}]}}",
        parents.join(", ")
    );
    let mut route = object("HTTPRoute", "infra", "web", &spec);
    route["status"] = json!({"parents": [foreign_entry()]});
    let mut policy = object(
        "BackendTLSPolicy",
        "infra",
        "tls",
        "{targetRefs: [{group: '', kind: Service, name: web}], validation: {hostname: a.test, wellKnownCACertificates: System}}",
    );
    let theirs = json!({"ancestorRef": {"name": "x"}, "controllerName": "example.com/other"});
    policy["status"] = json!({"ancestors": [theirs, theirs]});
    let picture = Scene::new(gateways.collect::<Vec<_>>()).and([route, policy]).picture();
    let entries = self::parents(&picture, "web");
    assert_eq!((entries.as_array().unwrap().len(), &entries[0]), (32, &foreign_entry()));
    let ancestors = &picture.policies[&ObjectRef::new("infra", "tls")].value["ancestors"];
    assert_eq!((ancestors.as_array().unwrap().len(), &ancestors[1]), (16, &theirs));
}
