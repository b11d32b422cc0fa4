//! Which Services get a carrier, and its ports.

use super::*;
use crate::endpoints::Protocol as Carries;

#[test]
fn every_service_that_leads_to_the_port_is_taken_and_the_others_are_told() {
    let mut scene = scene();
    scene.requests.push(request("me", 0, "{}"));
    for (name, spec) in [
        ("number", "{clusterIP: 10.0.0.3, selector: {version: v1}, ports: [{port: 8080}]}"),
        ("headless", "{clusterIP: None, selector: {app: web}, ports: [{port: 80, targetPort: http}]}"),
        (
            "local",
            "{clusterIP: 10.0.0.4, internalTrafficPolicy: Local, selector: {app: web}, ports: [{port: 80, targetPort: 8080}]}",
        ),
        (
            "edge",
            "{clusterIP: 10.0.0.4, externalTrafficPolicy: Local, selector: {app: web}, ports: [{port: 80, targetPort: 8080}]}",
        ),
        (
            "sctp",
            "{clusterIP: 10.0.0.6, selector: {app: web}, ports: [{port: 80, targetPort: 8080}, {port: 81, protocol: SCTP}]}",
        ),
        ("metrics", "{clusterIP: 10.0.0.5, selector: {app: web}, ports: [{port: 9090}]}"),
        ("foreign", "{clusterIP: 10.0.0.7, selector: {app: other}, ports: [{port: 8080}]}"),
        ("manual", "{clusterIP: 10.0.0.8, ports: [{port: 8080}]}"),
        (
            "outside",
            "{type: ExternalName, externalName: a.test, selector: {app: web}, ports: [{port: 8080}]}",
        ),
    ] {
        scene.services.push(object(name, spec));
    }
    let mut twin = object("web-carrier-original", "{selector: {app: web}, ports: [{port: 8080}]}");
    twin["metadata"]["labels"] = json!({"causeway.dev/owner-kind": "Carrier"});
    scene.services.push(twin);
    let mut denied = object("denied", "{clusterIP: 10.0.0.9, selector: {app: web}, ports: [{port: 8080}]}");
    denied["metadata"]["labels"] = json!({"causeway.dev/intercept": "deny"});
    scene.services.push(denied);
    let picture = scene.picture();
    assert_eq!(picture.accepted("me").services, ["number", "web"]);
    let missed = picture.accepted("me").missed.join("\n");
    for name in ["headless", "local", "edge", "sctp", "denied"] {
        assert!(missed.contains(&format!("Service {name} ")), "{name} in {missed}");
    }
    assert_eq!(missed.lines().count(), 5, "{missed}");
    assert_eq!(picture.fronts.len(), 2);
}

#[test]
fn a_service_that_is_taken_over_is_still_found_by_what_it_selected() {
    let mut scene = scene();
    scene.requests.push(request("me", 0, "{}"));
    let before = scene.picture();
    scene.services[0]["spec"]["selector"] = json!({"app": "web-carrier.causeway"});
    assert_eq!(scene.picture().refused("me").unwrap().0, Reason::NoService, "without proof");
    scene.near.originals.insert("web".to_owned(), [("app".to_owned(), "web".to_owned())].into());
    assert_eq!(scene.picture().front("web"), before.front("web"));
    assert_eq!(
        names::taken(&before.front("web").selector, "web-carrier"),
        [("app".to_owned(), "web-carrier.causeway".to_owned())].into()
    );
}

#[test]
fn names_of_target_ports_have_numbers_that_nothing_else_has() {
    let mut scene = scene();
    scene.requests.push(request("me", 0, "{}"));
    scene.services[0]["spec"]["ports"] = yaml(
        "[{name: http, port: 80, targetPort: http}, {name: also, port: 81, targetPort: http},
          {name: other, port: 82, targetPort: 8080}, {name: health, port: 19080}, {name: odd, port: 83, targetPort: odd},
          {name: dns, port: 53, protocol: UDP, targetPort: 8080}]",
    );
    scene.slices.push(slice("web", "{name: odd, port: 19901}", &["10.1.0.1"]));
    let picture = scene.picture();
    let layout = &picture.front("web").layout;
    let ports: Vec<_> =
        layout.ports.iter().map(|port| (port.name.as_deref(), port.number, port.protocol)).collect();
    assert_eq!(
        ports,
        [
            (Some("http"), 8081, Carries::Tcp),
            (Some("http"), 8081, Carries::Tcp),
            (None, 8080, Carries::Tcp),
            (None, 19080, Carries::Tcp),
            (Some("odd"), 19901, Carries::Tcp),
            (None, 8080, Carries::Udp),
        ]
    );
    assert_eq!((layout.health, layout.admin), (19081, 19902));
    let plan = &picture.front("web").plan;
    let listened: Vec<_> = plan.listeners.iter().map(|listener| listener.name.to_string()).collect();
    assert_eq!(listened, ["TCP 8081", "TCP 8080", "TCP 19080", "TCP 19901", "UDP 8080"]);
}

#[test]
fn what_holds_for_the_pods_holds_for_their_carrier() {
    let policy = |name: &str, spec: &str| {
        let policy = json!({"metadata": {"name": name, "namespace": "shop"}, "spec": yaml(spec)});
        (name.to_owned(), Arc::new(typed(&policy)))
    };
    let mut scene = scene();
    scene.requests.push(request("me", 0, "{}"));
    let free = scene.picture().front("web").policies.clone();
    assert_eq!(free.keys().collect::<Vec<_>>(), ["web-carrier"], "nobody restrains the pods");
    assert_eq!(free["web-carrier"].policy_types, Some(vec!["Egress".to_owned()]));
    scene.near.policies.extend([
        policy("deny-all", "{podSelector: {}, policyTypes: [Ingress, Egress]}"),
        policy(
            "front",
            "{podSelector: {matchExpressions: [{key: app, operator: In, values: [web]}]},
              ingress: [{from: [{podSelector: {matchLabels: {app: front}}}], ports: [{port: http}]}]}",
        ),
        policy("other", "{podSelector: {matchLabels: {app: db}}, ingress: [{}]}"),
        policy("out", "{podSelector: {}, policyTypes: [Egress], egress: [{}]}"),
    ]);
    let held = scene.picture().front("web").policies.clone();
    let (of_all, of_front) = ("web-carrier-original-deny-all", "web-carrier-original-front");
    assert_eq!(held.keys().collect::<Vec<_>>(), ["web-carrier", of_all, of_front]);
    let own = serde_json::to_value(&held["web-carrier"]).unwrap();
    assert_eq!(own["policyTypes"], json!(["Ingress", "Egress"]));
    assert_eq!(
        own["ingress"],
        json!([{"from": [{"podSelector": {"matchLabels": {"app": "front"}}}], "ports": [{"port": "http"}]}])
    );
    assert_eq!(own["egress"], json!([{}]));
    let original = serde_json::to_value(&held[of_all]).unwrap();
    assert_eq!(original["podSelector"], json!({"matchLabels": {"app": "web"}}));
    let from = &original["ingress"][0]["from"][0]["podSelector"]["matchLabels"];
    assert_eq!(*from, own["podSelector"]["matchLabels"], "the carrier alone");
    assert_eq!(original["ingress"][0]["ports"], json!([{"port": "http"}]), "where the Service leads alone");
}

#[test]
fn a_policy_for_some_of_the_pods_leaves_the_others_open() {
    let mut scene = scene();
    scene.requests.push(request("me", 0, "{}"));
    let spec = yaml("{podSelector: {matchLabels: {version: v1}}, ingress: [{}]}");
    let policy = json!({"metadata": {"name": "old", "namespace": "shop"}, "spec": spec});
    scene.near.policies.insert("old".to_owned(), Arc::new(typed(&policy)));
    let made = scene.picture().front("web").policies.clone();
    let (_, original) = made.iter().find(|(name, _)| name.contains("original")).unwrap();
    let selected = serde_json::to_value(&original.pod_selector).unwrap();
    assert_eq!(selected, json!({"matchLabels": {"app": "web", "version": "v1"}}), "{made:?}");
}

#[test]
fn pods_with_policies_of_their_own_get_no_carrier_in_common() {
    let mut scene = scene();
    scene.requests.push(request("me", 0, "{}"));
    let spec = yaml("{podSelector: {matchLabels: {version: v1}}, ingress: []}");
    let policy = json!({"metadata": {"name": "old", "namespace": "shop"}, "spec": spec});
    scene.near.policies.insert("old".to_owned(), Arc::new(typed(&policy)));
    let mut open = object("web-v2", "{containers: []}");
    open["metadata"]["labels"] = json!({"app": "web", "version": "v2"});
    scene.pods.push(open);
    let (reason, message) = scene.picture().refused("me").unwrap();
    assert!(reason == Reason::NoService && message.contains("NetworkPolicy old"), "{reason:?} {message}");
    scene.pods[0]["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
    assert_eq!(scene.picture().refused("me"), None, "one that goes does not count");
}

#[test]
fn long_names_and_the_twin_fit() {
    let long = "a".repeat(63);
    assert!(front::original_name(&long).len() <= 63);
    assert_eq!(front::carrier_name("web"), "web-carrier");
    assert_eq!(front::original_name("web"), "web-carrier-original");
}

#[test]
fn original_pods_are_known_when_somebody_has_looked_for_those_of_this_very_service() {
    let knows = |twin: Option<Twin>, owner: Option<&str>, addresses: &[&str]| {
        let mut scene = scene();
        scene.requests.push(request("me", 0, "{}"));
        scene.near.twins.extend(twin.map(|twin| ("web-carrier-original".to_owned(), twin)));
        scene.slices = vec![slice("web-carrier-original", "{name: http, port: 8080}", addresses)];
        if let Some(uid) = owner {
            let owner =
                json!({"apiVersion": "v1", "kind": "Service", "name": "web-carrier-original", "uid": uid});
            scene.slices[0]["metadata"]["ownerReferences"] = json!([owner]);
        }
        scene.picture().front("web").knows_originals
    };
    let own = || Some(twin("10.0.0.9"));
    assert!(knows(own(), Some("uid-twin"), &["10.1.0.1"]));
    assert!(knows(own(), Some("uid-twin"), &[]), "it is known that there are none");
    assert!(knows(own(), None, &["10.1.0.1"]), "whoever keeps them may not say whose they are");
    assert!(!knows(own(), Some("uid-of-an-earlier-one"), &["10.1.0.1"]));
    assert!(!knows(None, Some("uid-twin"), &["10.1.0.1"]), "somebody has deleted it");
    let mut scene = scene();
    scene.requests.push(request("me", 0, "{}"));
    scene.near.twins.insert("web-carrier-original".to_owned(), twin("10.0.0.9"));
    scene.slices.clear();
    assert!(!scene.picture().front("web").knows_originals, "nobody has looked yet");
}
