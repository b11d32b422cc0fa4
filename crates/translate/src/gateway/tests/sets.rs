//! ListenerSets.

use super::*;

fn open(from: &str, listeners: &str) -> Value {
    let mut gateway = gateway(listeners);
    gateway["spec"]["allowedListeners"] = json!({"namespaces": yaml(from)});
    gateway
}

fn set(namespace: &str, name: &str, listeners: &str) -> Value {
    let spec = format!("{{parentRef: {{name: gw, namespace: infra}}, listeners: {listeners}}}");
    object("ListenerSet", namespace, name, &spec)
}

const MORE: &str =
    "[{name: more, port: 80, protocol: HTTP, hostname: more.test, allowedRoutes: {namespaces: {from: All}}}]";
const GW: &str =
    "[{name: own, port: 80, protocol: HTTP, hostname: own.test, allowedRoutes: {namespaces: {from: All}}}]";

impl Picture {
    fn set(&self, namespace: &str, name: &str) -> &Value {
        &self.listener_sets[&ObjectRef::new(namespace, name)].value
    }
}

fn entry<'a>(set: &'a Value, name: &str) -> &'a Value {
    set["listeners"].as_array().unwrap().iter().find(|listener| listener["name"] == name).unwrap()
}

#[test]
fn a_gateway_says_which_sets_may_add_to_it() {
    for (from, namespace, allowed) in [
        (None, "infra", false),
        (Some("{from: None}"), "infra", false),
        (Some("{from: Same}"), "infra", true),
        (Some("{from: Same}"), "apps", false),
        (Some("{from: All}"), "apps", true),
        (Some("{from: Selector, selector: {matchLabels: {team: shop}}}"), "apps", true),
        (Some("{from: Selector, selector: {matchLabels: {team: shop}}}"), "infra", false),
    ] {
        let gateway = from.map_or_else(|| gateway(GW), |from| open(from, GW));
        let picture = Scene::new([gateway, set(namespace, "set", MORE)]).picture();
        let status = picture.set(namespace, "set");
        let expected = if allowed { ("True", "Accepted") } else { ("False", "NotAllowed") };
        assert_eq!(condition(status, "Accepted"), expected, "{from:?} {namespace}");
        let programmed = if allowed { ("True", "Programmed") } else { ("False", "NotAllowed") };
        assert_eq!(condition(status, "Programmed"), programmed, "{from:?} {namespace}");
        let count = picture.gateway_status()["attachedListenerSets"].as_u64().unwrap_or_default();
        assert_eq!(count, u64::from(allowed), "{from:?} {namespace}");
        assert_eq!(picture.requests().sites.len(), 1 + usize::from(allowed));
    }
}

#[test]
fn routes_attach_to_the_object_that_they_name_and_to_no_other() {
    let route = |name: &str, parents: &str| {
        let spec =
            format!("{{parentRefs: [{parents}], rules: [{{backendRefs: [{{name: web, port: 8080}}]}}]}}");
        object("HTTPRoute", "infra", name, &spec)
    };
    let picture = Scene::new([
        open("{from: Same}", GW),
        set("infra", "set", MORE),
        route("gateway", "{name: gw}"),
        route("set", "{kind: ListenerSet, name: set}"),
        route("both", "{name: gw}, {kind: ListenerSet, name: set}"),
        route("wrong", "{name: gw, sectionName: more}, {kind: ListenerSet, name: set, sectionName: more}"),
    ])
    .picture();
    assert_eq!(picture.listener("own")["attachedRoutes"], 2);
    assert_eq!(entry(picture.set("infra", "set"), "more")["attachedRoutes"], 3);
    let verdict = |name: &str, place: usize| {
        condition(picture.parent(RouteKind::Http, "infra", name, place), "Accepted")
    };
    assert_eq!(verdict("wrong", 0), ("False", "NoMatchingParent"));
    assert_eq!(verdict("wrong", 1), ("True", "Accepted"));
    assert_eq!((verdict("both", 0), verdict("both", 1)), (("True", "Accepted"), ("True", "Accepted")));
    let parents = &picture.routes[&(RouteKind::Http, ObjectRef::new("infra", "set"))].value["parents"];
    assert_eq!(parents.as_array().unwrap().len(), 1);
    assert_eq!(parents[0]["parentRef"]["kind"], "ListenerSet");
    let sites: Vec<_> =
        picture.requests().sites.iter().map(|site| (site.name.as_str(), site.routes.len())).collect();
    assert_eq!(sites, [("own", 2), ("infra/set/more", 3)]);
}

#[test]
fn the_gateway_comes_first_and_then_the_oldest_set() {
    let twice = "[{name: same, port: 80, protocol: HTTP, hostname: own.test}, {name: mine, port: 80, protocol: HTTP, hostname: mine.test}]";
    let late = "[{name: late, port: 80, protocol: HTTP, hostname: mine.test}]";
    let tcp = "[{name: tcp, port: 80, protocol: TCP}]";
    let picture = Scene::new([
        open("{from: Same}", GW),
        aged(2021, set("infra", "z-first", twice)),
        aged(2022, set("infra", "a-second", late)),
        aged(2022, set("infra", "third", tcp)),
    ])
    .picture();
    let first = picture.set("infra", "z-first");
    assert_eq!(condition(first, "Accepted").0, "True");
    assert_eq!(condition(first, "Programmed"), ("True", "Programmed"));
    assert_eq!(condition(entry(first, "same"), "Accepted"), ("False", "HostnameConflict"));
    assert_eq!(condition(entry(first, "mine"), "Accepted"), ("True", "Accepted"));
    for (name, listener, reason) in
        [("a-second", "late", "HostnameConflict"), ("third", "tcp", "ProtocolConflict")]
    {
        let status = picture.set("infra", name);
        assert_eq!(condition(status, "Accepted"), ("False", "ListenersNotValid"), "{name}");
        assert_eq!(condition(status, "Programmed"), ("False", "ListenersNotValid"), "{name}");
        assert_eq!(condition(entry(status, listener), "Conflicted"), ("True", reason), "{name}");
        assert_eq!(condition(entry(status, listener), "Programmed"), ("False", reason), "{name}");
    }
    assert_eq!(condition(picture.listener("own"), "Accepted"), ("True", "Accepted"));
    assert_eq!(picture.gateway_status()["attachedListenerSets"], 1);
}

#[test]
fn a_set_needs_its_own_grant() {
    let grant = |kind: &str| {
        let spec = format!(
            "{{from: [{{group: gateway.networking.k8s.io, kind: {kind}, namespace: infra}}], to: [{{group: '', kind: Secret}}]}}"
        );
        object("ReferenceGrant", "apps", "g", &spec)
    };
    let https = "[{name: https, port: 443, protocol: HTTPS, tls: {certificateRefs: [{name: cert, namespace: apps}]}}]";
    for (kind, accepted, resolved) in [
        ("ListenerSet", ("True", "Accepted"), ("True", "ResolvedRefs")),
        ("Gateway", ("False", "ListenersNotValid"), ("False", "RefNotPermitted")),
    ] {
        let picture = Scene::new([
            open("{from: Same}", GW),
            set("infra", "set", https),
            secret("apps", "cert"),
            grant(kind),
        ])
        .picture();
        let status = picture.set("infra", "set");
        assert_eq!(condition(status, "Accepted"), accepted, "{kind}");
        assert_eq!(condition(entry(status, "https"), "ResolvedRefs"), resolved, "{kind}");
    }
}

#[test]
fn same_namespace_means_that_of_the_set() {
    let same = "[{name: more, port: 80, protocol: HTTP, hostname: more.test}]";
    let spec = "{parentRefs: [{kind: ListenerSet, name: set, namespace: apps}], rules: [{backendRefs: [{name: web, port: 8080}]}]}";
    let picture = Scene::new([
        open("{from: All}", GW),
        set("apps", "set", same),
        object("HTTPRoute", "apps", "near", spec),
        object("HTTPRoute", "infra", "far", spec),
    ])
    .picture();
    let verdict = |namespace: &str, name: &str| {
        condition(picture.parent(RouteKind::Http, namespace, name, 0), "Accepted")
    };
    assert_eq!(verdict("apps", "near"), ("True", "Accepted"));
    assert_eq!(verdict("infra", "far"), ("False", "NotAllowedByListeners"));
}

#[test]
fn a_set_of_a_gateway_that_is_not_accepted_is_not_either() {
    let mut gateway = open("{from: Same}", GW);
    gateway["spec"]["addresses"] = yaml("[{type: test/fake, value: x}]");
    let picture = Scene::new([gateway, set("infra", "set", MORE)]).picture();
    assert_eq!(condition(picture.set("infra", "set"), "Accepted"), ("False", "ParentNotAccepted"));
}
