//! What somebody may do who was given `edit` in one namespace, against a name of another: nothing, by any way.

use std::process::Command;

use causeway_testkit::PATIENCE;
use causeway_testkit::blocking::eventually;
use causeway_testkit::kubectl::{Kubectl, finish};
use tempfile::TempDir;

use crate::world::{World, request_in, route, route_of};

const POOL: &str = "name: gw-01, namespace: causeway-edge";
/// How the name of another, and what is above and below, may be written.
const FORMS: [&str; 9] = [
    "shop.apps.test",
    "Shop.Apps.TEST",
    "shop.apps.test.",
    "SHOP.apps.test.",
    "*.apps.test",
    "*.test",
    "*.shop.apps.test",
    "below.shop.apps.test",
    "ｓｈｏｐ.apps.test",
];

/// kubectl with the credentials of somebody who may edit team rival's namespace, and nothing else.
struct Rival {
    kubectl: Kubectl,
    _home: TempDir,
}

impl Rival {
    fn new(world: &World) -> Self {
        let admin = &world.kubectl;
        admin.ok(&["create", "serviceaccount", "mallory", "-n", "rival"]);
        let grant = ["create", "rolebinding", "mallory", "-n", "rival", "--clusterrole=edit"];
        admin.ok(&[&grant[..], &["--serviceaccount=rival:mallory"]].concat());
        let token = admin.ok(&["create", "token", "mallory", "-n", "rival", "--duration=1h"]);
        let home = tempfile::tempdir().unwrap();
        let config = home.path().join("config");
        std::fs::copy(world.server.kubeconfig(), &config).unwrap();
        let kubectl = Kubectl::new(&config, home.path(), "rival");
        kubectl.ok(&["config", "set-credentials", "mallory", "--token", token.trim()]);
        kubectl.ok(&["config", "set-context", "--current", "--user=mallory"]);
        kubectl.ok(&["config", "delete-user", "causeway"]);
        Self { kubectl, _home: home }
    }

    /// A route for a name in this form is refused, by the definition where that knows no such form, else by the policy.
    fn is_refused(&self, kind: &str, form: &str) {
        let route = route_of(kind, "rival", "thief", &format!("'{form}'"), POOL);
        let refused = self.kubectl.apply(&route).fails();
        let is_malformed = refused.contains("in body should match");
        assert!(is_malformed || refused.contains("does not hold"), "{kind} for {form}: {refused}");
    }
}

#[test]
fn nobody_routes_claims_or_shadows_the_name_of_another() {
    let world = World::published(&[], "shop.apps.test");
    let rival = Rival::new(&world);

    // By a route, in any form, of any kind, new or changed, and before the namespace has a grant of its own.
    for form in FORMS {
        for kind in ["HTTPRoute", "GRPCRoute", "TLSRoute"] {
            rival.is_refused(kind, form);
        }
    }
    let harmless = route_of("HTTPRoute", "rival", "mine", "mine.example", POOL);
    rival.kubectl.apply(&harmless).ok();
    let mixed = route_of("HTTPRoute", "rival", "mine", "mine.example, shop.apps.test", POOL);
    assert!(rival.kubectl.apply(&mixed).fails().contains("does not hold shop.apps.test"));
    let patch = r#"[{"op": "add", "path": "/spec/hostnames/-", "value": "shop.apps.test"}]"#;
    let refused = rival.kubectl.fails(&["patch", "httproute", "mine", "--type=json", "-p", patch]);
    assert!(refused.contains("does not hold shop.apps.test"), "{refused}");
    for number in 0..10 {
        let namespace = format!("new-{number}");
        world.kubectl.ok(&["create", "namespace", &namespace]);
        let refused = world.kubectl.apply(&route(&namespace, "shop.apps.test")).fails();
        assert!(refused.contains("does not hold shop.apps.test"), "{refused}");
        world.kubectl.apply(&route(&namespace, "elsewhere.example")).ok();
    }

    // By writing what only the operator and the platform team write.
    let owner = "{namespace: rival, name: thief, uid: made-up}";
    for (kind, spec) in [
        ("HostnameGrant", "{hostnames: [shop.apps.test], zones: []}".to_owned()),
        ("DomainClaim", format!("{{zoneId: other, hostname: shop.apps.test, ownerRef: {owner}}}")),
        ("HostnameZone", "{zoneId: apps.test, domain: apps.test}".to_owned()),
    ] {
        let object = format!(
            "---\n{{apiVersion: causeway.dev/v1alpha1, kind: {kind}, metadata: {{name: thief}}, spec: {spec}}}"
        );
        let refused = rival.kubectl.apply(&object).fails();
        assert!(refused.contains("forbidden"), "{kind}: {refused}");
    }
    for arguments in [
        &[
            "patch",
            "hostnamegrant",
            "hostnames",
            "--type=merge",
            "-p",
            r#"{"spec": {"hostnames": ["shop.apps.test"]}}"#,
        ][..],
        &["delete", "hostnamegrant", "hostnames"],
        &["delete", "domainclaims", "--all"],
        &["get", "secrets", "-n", "causeway-edge"],
        &["get", "secrets", "-n", "causeway-system"],
        &["delete", "validatingadmissionpolicybinding", "causeway-hostnames"],
    ] {
        let refused = rival.kubectl.fails(arguments);
        assert!(refused.contains("forbidden"), "{arguments:?}: {refused}");
    }

    // By a request, in any form, in this zone or another.
    let mut asked = Vec::new();
    for (zone, forms) in [("apps.test", &FORMS[..]), ("test", &FORMS[..]), ("shop.apps.test", &FORMS[..4])] {
        for form in forms {
            // Nobody stands in the way of names below a plain one, and nobody can ask for a whole top-level domain.
            if form.ends_with(".shop.apps.test") || *form == "*.test" {
                continue;
            }
            let name = format!("thief-{}", asked.len());
            rival.kubectl.apply(&request_in("rival", &name, zone, form)).ok();
            asked.push((name, zone, *form));
        }
    }
    for (name, zone, form) in &asked {
        eventually(&format!("{form} in {zone} is refused"), PATIENCE, || {
            let said = world.said("rival", name);
            let is_refused = ["AlreadyClaimed", "Shadowed"].iter().any(|reason| said.contains(reason));
            if is_refused && said.contains("shop/shop") { Ok(()) } else { Err(said) }
        });
    }
    let made_up =
        r#"{"status": {"conditions": [], "hostnames": ["shop.apps.test"], "assignedGateway": "gw-01"}}"#;
    let first = format!("ghr/{}", asked[0].0);
    let refused =
        rival.kubectl.fails(&["patch", &first, "--subresource=status", "--type=merge", "-p", made_up]);
    assert!(refused.contains("forbidden"), "{refused}");
    let claims =
        world.kubectl.ok(&["get", "domainclaims", "-o", "jsonpath={.items[*].spec.ownerRef.namespace}"]);
    assert_eq!(claims, "shop", "one claim, of team shop");

    // International names have one form.
    world.kubectl.apply(&request_in("shop", "umlaut", "apps.test", "München.apps.test")).ok();
    world.ready("shop", "umlaut");
    for (name, form) in [
        ("i-1", "xn--mnchen-3ya.apps.test"),
        ("i-2", "MÜNCHEN.apps.test."),
        ("i-3", "mu\u{308}nchen.apps.test"),
    ] {
        rival.kubectl.apply(&request_in("rival", name, "apps.test", form)).ok();
        eventually(&format!("{form} is refused"), PATIENCE, || {
            let said = world.said("rival", name);
            if said.contains("AlreadyClaimed") { Ok(()) } else { Err(said) }
        });
        rival.is_refused("HTTPRoute", form);
    }

    // The name's own team is served all the while.
    assert!(world.curl("shop.apps.test").stdout.starts_with("shop"));
}

#[test]
fn no_gateway_and_no_listener_of_another_serves_the_name() {
    let world = World::published(&[], "shop.apps.test");
    let rival = Rival::new(&world);
    rival.kubectl.apply(&crate::world::TEAMS.replace("namespace: shop", "namespace: rival").replace("--name, shop", "--name, thief").replace("apiVersion: v1\nkind: Namespace\nmetadata: {name: shop}\n---\napiVersion: v1\nkind: Namespace\nmetadata: {name: rival}\n---\n", "")).ok();

    // A route without hostnames takes those of the listener: of a pool gateway, and of a Gateway of its own.
    let catch_all = |name: &str, parent: &str| {
        let route = route_of("HTTPRoute", "rival", name, "", parent);
        rival.kubectl.apply(&route.replace("  hostnames: []\n", "")).ok();
    };
    catch_all("onto-the-pool", &format!("{POOL}, sectionName: exact.shop.apps.test"));
    catch_all("onto-its-http", &format!("{POOL}, sectionName: http"));
    let gateway = "---\n{apiVersion: gateway.networking.k8s.io/v1, kind: Gateway, metadata: {name: own}, spec: {gatewayClassName: causeway, listeners: [\
        {name: exact, port: 8090, protocol: HTTP, hostname: shop.apps.test}, {name: above, port: 8090, protocol: HTTP, hostname: '*.apps.test'}, \
        {name: free, port: 8090, protocol: HTTP, hostname: free.example}]}}";
    rival.kubectl.apply(gateway).ok();
    catch_all("exact", "name: own, sectionName: exact");
    catch_all("above", "name: own, sectionName: above");
    catch_all("free", "name: own, sectionName: free");
    let set = "---\n{apiVersion: gateway.networking.k8s.io/v1, kind: ListenerSet, metadata: {name: guest}, spec: {parentRef: {group: gateway.networking.k8s.io, kind: Gateway, name: gw-01, namespace: causeway-edge}, \
        listeners: [{name: guest, port: 8443, protocol: HTTP, hostname: shop.apps.test}]}}";
    rival.kubectl.apply(set).ok();

    let accepted = |route: &str| {
        let path = ".status.parents[0].conditions[?(@.type==\"Accepted\")]";
        rival.kubectl.value(&format!("httproute/{route}"), path)
    };
    for (route, words) in [
        ("onto-the-pool", "takes no routes of namespace rival"),
        ("onto-its-http", "takes no routes of namespace rival"),
        ("exact", "does not hold shop.apps.test"),
        ("above", "does not hold *.apps.test"),
    ] {
        eventually(&format!("route {route} is not taken"), PATIENCE, || {
            let said = accepted(route);
            if said.contains("\"False\"") && said.contains(words) { Ok(()) } else { Err(said) }
        });
    }
    eventually("the route for what nobody has to hold is taken", PATIENCE, || {
        accepted("free").contains("\"True\"")
    });
    eventually("the listeners of a guest are not taken", PATIENCE, || {
        let said = rival.kubectl.value("listenerset/guest", ".status.conditions[?(@.type==\"Accepted\")]");
        if said.contains("\"False\"") { Ok(()) } else { Err(said) }
    });
    let address = rival.kubectl.value("gateway/own", ".status.addresses[0].value");
    let ask = |host: &str| {
        let url = format!("http://{address}:8090/");
        finish(Command::new("curl").args(["-sS", "--max-time", "5", "-H", &format!("Host: {host}"), &url]))
    };
    eventually("its own Gateway serves what it may", PATIENCE, || {
        let ran = ask("free.example");
        if ran.stdout.starts_with("thief") { Ok(()) } else { Err(ran.to_string()) }
    });
    for host in ["shop.apps.test", "SHOP.apps.test", "shop.apps.test.", "other.apps.test"] {
        let ran = ask(host);
        assert!(!ran.stdout.starts_with("thief"), "{host}: {ran}");
    }
    assert!(world.curl("shop.apps.test").stdout.starts_with("shop"));
}
