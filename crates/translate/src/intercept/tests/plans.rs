//! What carriers run.

use causeway_ir::{Action, OnRemoval, Transport};

use super::*;

const HEADER: &str = "match: [{headers: [{name: X-User, value: alice}]}]";
const ALICE: &str = "workstation p3000.ws-alice.workstation.causeway";

#[test]
fn the_plan_of_a_service_with_one_rule() {
    let mut scene = scene();
    scene.requests.push(request("me", 0, HEADER));
    let picture = scene.picture();
    insta::assert_yaml_snapshot!(picture.front("web").plan);
    assert_eq!(
        picture.accepted("me").takes,
        "requests to port 8080 (http) with header x-user equal to alice"
    );
}

#[test]
fn a_machine_that_is_not_connected_is_looked_for_everywhere() {
    let mut scene = scene();
    scene.requests.push(request("me", 0, HEADER));
    scene.replica = None;
    let picture = scene.picture();
    let count = |name: &str| {
        let plan = &picture.front("web").plan;
        plan.clusters.iter().find(|cluster| cluster.name == name).unwrap().endpoints.len()
    };
    assert_eq!((count(ALICE), count(&format!("{ALICE} elsewhere"))), (0, 2));
}

#[test]
fn without_a_rule_bytes_go_unread_unless_health_checks_can_be_told() {
    let mut scene = scene();
    scene.requests.push(request("me", 0, "healthChecks: Workstation"));
    let picture = scene.picture();
    let Protocol::Tcp(route) = &listener(&picture.front("web").plan, 8080).protocol else { panic!() };
    let to: Vec<_> =
        route.action.targets().iter().map(|target| (target.cluster.to_string(), target.priority)).collect();
    let elsewhere = format!("{ALICE} elsewhere");
    assert_eq!(to, [(ALICE.to_owned(), 0), (elsewhere.clone(), 1), ("original TCP 8080".to_owned(), 2)]);

    // The target says itself that it speaks HTTP, and where its health is.
    scene.requests = vec![request("me", 0, "{}")];
    let picture = scene.picture();
    let routes = routes(&picture.front("web").plan, 8080);
    assert_eq!(routes[0], ("health checks beside shop/me".to_owned(), vec!["original TCP 8080".to_owned()]));
    assert_eq!(routes[1].0, "shop/me");
    assert_eq!(routes[1].1, [ALICE.to_owned(), elsewhere, "original TCP 8080".to_owned()]);
    assert_eq!(routes.len(), 2);
    let Protocol::Http(http) = &listener(&picture.front("web").plan, 8080).protocol else { panic!() };
    let Some(Action::Forward(otherwise)) = http.otherwise.as_ref().map(|route| &route.action) else {
        panic!()
    };
    assert_eq!(otherwise.as_slice()[0].cluster, ALICE, "what is no request is all traffic, too");
}

#[test]
fn a_service_of_the_original_pods_is_the_last_resort() {
    let mut scene = scene();
    scene.near.twins.insert("web-carrier-original".to_owned(), twin("10.0.0.9"));
    scene.requests.push(request("me", 0, HEADER));
    let picture = scene.picture();
    let plan = &picture.front("web").plan;
    let (pods, service) = ("original TCP 8080".to_owned(), "original TCP 8080 by its Service".to_owned());
    let routes = routes(plan, 8080);
    let of = |name: &str| routes.iter().find(|(route, _)| route == name).unwrap().1.clone();
    assert_eq!(of("original"), [pods.clone(), service.clone()]);
    assert_eq!(of("shop/me"), [ALICE.to_owned(), format!("{ALICE} elsewhere"), pods, service.clone()]);
    let cluster = plan.clusters.iter().find(|cluster| cluster.name == *service).unwrap();
    assert_eq!(cluster.endpoints[0].address.to_string(), "10.0.0.9:80", "where the Service listens");
}

#[test]
fn without_fallback_there_is_one_way() {
    let mut scene = scene();
    scene.requests.push(request("me", 0, &format!("{{fallback: false, {HEADER}}}")));
    let picture = scene.picture();
    let routes = routes(&picture.front("web").plan, 8080);
    let of = |name: &str| routes.iter().find(|(route, _)| route == name).unwrap().1.clone();
    assert!(!of("shop/me").contains(&"original TCP 8080".to_owned()));
    assert_eq!(of("original"), ["original TCP 8080"]);
}

#[test]
fn health_checks_outrank_every_rule_but_one_that_asks_for_them() {
    use causeway_ir::http::precedence;
    let mut scene = scene();
    scene.requests = vec![
        request("exact", 0, "match: [{path: {value: /ready}}]"),
        request("all", 1, "match: [{headers: [{name: x-user, value: alice}], method: GET}]"),
    ];
    // Both can't be told apart, so one after the other.
    let of = |requests: Vec<Value>| {
        let scene = Scene { requests, ..super::scene() };
        let picture = scene.picture();
        let Protocol::Http(http) = listener(&picture.front("web").plan, 8080).protocol.clone() else {
            panic!()
        };
        let order = precedence::ordered(&http.routes);
        order
            .iter()
            .map(|candidate| (candidate.route.name.to_string(), candidate.request.cloned()))
            .collect::<Vec<_>>()
    };
    let order = of(vec![scene.requests[1].clone()]);
    let names: Vec<_> = order.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(
        names,
        ["health checks beside shop/all", "health checks beside shop/all", "shop/all", "original"]
    );
    let asked = order[0].1.as_ref().unwrap();
    assert!(asked.method.is_some() && asked.headers.len() == 1, "{asked:?}");

    // By its user agent it is still a health check.
    let order = of(vec![scene.requests[0].clone()]);
    assert_eq!(order[0].0, "health checks beside shop/exact");
    assert_eq!(order[0].1.as_ref().unwrap().headers[0].name.as_str(), "user-agent");
    assert_eq!(order[1].0, "shop/exact");
}

#[test]
fn a_copy_never_stands_in_the_way() {
    let mut scene = scene();
    scene.requests.push(request("me", 0, "mirror: true"));
    let picture = scene.picture();
    let front = picture.front("web");
    let Protocol::Http(http) = &listener(&front.plan, 8080).protocol else { panic!() };
    let route = http.routes.iter().find(|route| route.name == "shop/me").unwrap();
    let to: Vec<_> = route.clusters().map(ToString::to_string).collect();
    assert_eq!(to, ["original TCP 8080", ALICE]);
    assert_eq!(route.filters.len(), 1);
    assert!(http.routes.iter().all(|route| route.name != "original"), "everything is copied");
    let Some(Action::Forward(otherwise)) = http.otherwise.as_ref().map(|route| &route.action) else {
        panic!()
    };
    assert_eq!(otherwise.as_slice()[0].cluster, "original TCP 8080");
}

#[test]
fn streams_of_others_outlive_the_route_that_an_edit_takes_away() {
    let mut scene = scene();
    let with = |spec: &str| request("me", 0, spec);
    // With the rule others have a route of their own, which goes when everything is copied.
    for (spec, has_original) in [(HEADER, true), ("mirror: true", false), (HEADER, true)] {
        scene.requests = vec![with(spec)];
        let picture = scene.picture();
        let plan = &picture.front("web").plan;
        assert_eq!(routes(plan, 8080).iter().any(|(route, _)| route == "original"), has_original);
        assert_eq!(plan.on_removal, OnRemoval::Keep);
    }
    scene.requests = vec![request("me", 0, "mode: Container")];
    let picture = scene.picture();
    assert!(
        !picture.swaps.is_empty()
            && picture.swaps.values().all(|swap| swap.plan.on_removal == OnRemoval::Keep)
    );
}

#[test]
fn prefixes_are_beginnings_and_header_names_have_no_case() {
    let mut scene = scene();
    let rule = "match: [{path: {value: /api, type: Prefix}, headers: [{name: X-User, value: al, type: Prefix}], method: GET},
                        {path: {value: '/a//b'}}]";
    scene.requests.push(request("me", 0, rule));
    let picture = scene.picture();
    let Protocol::Http(http) = &listener(&picture.front("web").plan, 8080).protocol else { panic!() };
    let route = http.routes.iter().find(|route| route.name == "shop/me").unwrap();
    let [first, second] = &route.matches[..] else { panic!("{route:?}") };
    let path = first.path.as_ref().unwrap();
    assert!(
        path.is_match("/api") && path.is_match("/apiv2") && path.is_match("/api/x") && !path.is_match("/ap")
    );
    let header = &first.headers[0];
    assert!(
        header.name.as_str() == "x-user" && header.value.is_match("alice") && !header.value.is_match("bob")
    );
    assert!(second.path.as_ref().unwrap().is_match("/a//b"));
}

#[test]
fn datagrams_go_by_a_name_of_their_own() {
    let mut scene = scene();
    scene.services = vec![object(
        "dns",
        "{clusterIP: 10.0.0.2, sessionAffinity: ClientIP, selector: {app: web}, ports: [{port: 53, protocol: UDP, targetPort: dns}]}",
    )];
    scene.requests.push(request(
        "me",
        0,
        "{targetContainer: side, targetContainerPort: dns, destinationIP: 10.0.0.9}",
    ));
    let picture = scene.picture();
    let front = picture.front("dns");
    let Protocol::Udp(route) = &listener(&front.plan, 5353).protocol else { panic!() };
    let name = "u3000.a10-0-0-9.ws-alice.workstation.causeway";
    assert_eq!(route.action.targets()[0].cluster, format!("workstation {name}").as_str());
    let cluster = front.plan.clusters.iter().find(|cluster| cluster.name.contains(name)).unwrap();
    let Transport::Tls(tls) = &cluster.transport else { panic!() };
    assert_eq!(tls.server_name.as_deref(), Some(name));
    let original = front.plan.clusters.iter().find(|cluster| cluster.name == "original UDP 5353").unwrap();
    assert_eq!(original.policy, causeway_ir::Policy::SourceHash);
    let [delivery] = &front.deliveries.iter().collect::<Vec<_>>()[..] else { panic!() };
    assert!(delivery.datagrams && delivery.port == 3000);
}
