//! Worlds and what follows from them. A world is made as objects are written; a test carries out what the picture asks for.

mod zones;

use std::sync::Arc;

use causeway_api::conditions::{ConditionType, Reason};
use causeway_api::{DnsProviderKind, DomainClaim, GatewayHostnameRequest, HostnameZone, ZoneDns};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use k8s_openapi::jiff::Timestamp;
use kube::core::ObjectMeta;
use serde_json::{Value, json};

use super::order::{Failure, Issued, Order, Proof};
use super::world::{Listening, Member, Progress, Told};
use super::*;
use crate::gateway::kinds::ObjectRef;

const NOW: i64 = 1_800_000_000;

fn world() -> World {
    let mut world = World { now: Timestamp::from_second(NOW).unwrap(), ..World::default() };
    world.classes.insert("causeway".into(), "causeway.dev/gateway".into());
    world.classes.insert("aws-alb".into(), "gateway.k8s.aws/alb".into());
    for namespace in ["a", "b", "c"] {
        let labels = [("kubernetes.io/metadata.name".to_owned(), namespace.to_owned())];
        world.namespaces.insert(namespace.into(), labels.into());
    }
    world
}

/// Adds a request `namespace/name`; its age is its place.
fn ask(world: &mut World, at: &str, spec: Value) {
    let (namespace, name) = at.split_once('/').unwrap();
    let mut request: GatewayHostnameRequest = serde_json::from_value(json!({
        "apiVersion": "causeway.dev/v1alpha1", "kind": "GatewayHostnameRequest",
        "metadata": {"namespace": namespace, "name": name, "uid": at, "generation": 1},
        "spec": spec,
    }))
    .unwrap();
    let age = world.requests.len() as i64;
    request.metadata.creation_timestamp = Some(Time(Timestamp::from_second(NOW - 1000 + age).unwrap()));
    world.requests.insert(ObjectRef::new(namespace, name), Arc::new(request));
}

fn name(world: &mut World, at: &str, hostname: &str) {
    ask(world, at, json!({"zoneId": "example.com", "hostname": hostname}));
}

fn change(world: &mut World, at: &str, edit: impl FnOnce(&mut GatewayHostnameRequest)) {
    let (namespace, name) = at.split_once('/').unwrap();
    let request = world.requests.get_mut(&ObjectRef::new(namespace, name)).unwrap();
    edit(Arc::make_mut(request));
}

fn delete(world: &mut World, at: &str) {
    let now = Some(Time(world.now));
    change(world, at, |request| request.metadata.deletion_timestamp = now);
}

fn zone(world: &mut World, name: &str, spec: Value) {
    let zone: HostnameZone = serde_json::from_value(json!({
        "apiVersion": "causeway.dev/v1alpha1", "kind": "HostnameZone", "metadata": {"name": name}, "spec": spec,
    }))
    .unwrap();
    world.zones.insert(name.into(), Arc::new(zone));
}

/// Does everything that a picture asks for, once: as the API server, the issuers, the gateways and DNS would.
fn act(world: &mut World) -> Picture {
    let picture = picture(world);
    for case in picture.cases.values() {
        let zone = case.zone.as_ref();
        for name in &case.claim {
            let zone = zone.unwrap();
            let claim = DomainClaim {
                metadata: ObjectMeta { name: Some(claim_name(&zone.key.id, name)), ..ObjectMeta::default() },
                spec: claim_spec(case, zone, name),
                status: None,
            };
            let before = world.claims.insert(claim_name(&zone.key.id, name), Arc::new(claim));
            assert!(before.is_none(), "{name} was claimed twice");
        }
        if let Some((serial, zone)) = case.certificate.start.zip(case.certificate.zone.as_ref()) {
            let secret = format!("{}-{serial}", case.uid.replace('/', "-"));
            let order = Order {
                secret: secret.clone(),
                at: case.at.clone(),
                uid: case.uid.clone(),
                serial,
                names: case.certificate.names.iter().map(ToString::to_string).collect(),
                issuer: zone.issuer(),
                hostname_zone: zone.key.name.clone(),
                zone_id: zone.key.id.clone(),
                origin: zone.key.origin.clone(),
                handle: Some("x".into()),
                issued: Some(Issued {
                    not_after: world.now.as_second() + 1000,
                    renew_at: Some(world.now.as_second() + 500),
                    ..Issued::default()
                }),
                ..Order::default()
            };
            world.orders.insert(secret, Arc::new(order));
        }
        for secret in &case.remove_orders {
            world.orders.remove(secret);
        }
        let is_there = |zone: &Zone| world.broken_zones.keys().all(|broken| broken.id != zone.key.id);
        if zone.is_some_and(is_there) {
            for held in case.held.iter().filter(|held| held.zone.id == zone.unwrap().key.id) {
                let claim = Arc::make_mut(world.claims.get_mut(&held.claim).unwrap());
                claim.status.get_or_insert_default().may_have_records = true;
            }
        }
        for claim in &case.release {
            world.claims.remove(claim);
        }
        for publication in &case.publications {
            let key = (publication.zone.key.clone(), publication.name.clone(), case.uid.clone());
            let told = Told { want: publication.want.clone(), progress: Progress::Settled };
            world.records.insert(key, told);
        }
        if case.is_gone() {
            world.requests.remove(&case.at);
        }
        if let Some(request) = world.requests.get(&case.at).cloned() {
            let previous = request.status.clone().unwrap_or_default();
            let next = status::status(case, &previous, world, &status::Waiting::new());
            Arc::make_mut(world.requests.get_mut(&case.at).unwrap()).status = Some(next);
        }
    }
    world.gateways.retain(|name, member| !member.is_ours || picture.gateways.contains_key(name));
    for (number, (name, gateway)) in picture.gateways.iter().enumerate() {
        let member = world.gateways.entry(name.clone()).or_insert_with(|| Member {
            is_ours: true,
            addresses: vec![format!("192.0.2.{}", number + 1), "2001:db8::1".into()],
            ..Member::default()
        });
        member.class.clone_from(&gateway.class);
        member.visibility = gateway.visibility;
        member.listeners = gateway
            .entries
            .iter()
            .map(|(name, entry)| {
                let listening = Listening {
                    certificate: entry.certificate.clone(),
                    namespace: entry.namespace.clone(),
                    set: entry.set,
                    programmed: true,
                    pending_since: None,
                    trouble: None,
                };
                (name.clone(), listening)
            })
            .collect();
    }
    picture
}

/// Acts until nothing changes; the picture of that.
fn settle(world: &mut World) -> Picture {
    for _ in 0..30 {
        let before = format!("{world:?}");
        act(world);
        if before == format!("{world:?}") {
            return picture(world);
        }
    }
    panic!("it never comes to rest");
}

fn case<'a>(picture: &'a Picture, at: &str) -> &'a Case {
    &picture.cases[at]
}

fn reason(picture: &Picture, at: &str) -> Option<Reason> {
    let case = case(picture, at);
    case.refusal.as_ref().map(|(reason, _)| *reason).or(case.blocked.as_ref().map(|blocked| blocked.reason))
}

#[test]
fn the_grant_of_the_gateways_namespace_lists_who_holds_anything() {
    let mut world = world();
    world.namespaces.insert("causeway-edge".into(), BTreeMap::new());
    assert!(picture(&world).grants.is_empty(), "where nobody uses hostnames, nobody is restrained");
    name(&mut world, "a/shop", "shop.example.com");
    name(&mut world, "b/shop", "shop.example.com");
    let picture = settle(&mut world);
    assert_eq!(picture.grants["causeway-edge"].holders, ["a"]);
    assert_eq!(picture.grants["causeway-edge"].zones, ["example.com"]);
    assert_eq!(picture.grants["a"].holders, [""; 0]);
}

#[test]
fn without_zones_and_domains_nobody_may_ask_unless_that_is_said() {
    let mut world = world();
    world.settings.any_domain = false;
    name(&mut world, "a/shop", "shop.example.com");
    let picture = settle(&mut world);
    assert_eq!(reason(&picture, "a/shop"), Some(Reason::ZoneNotFound));
    assert!(picture.grants.is_empty(), "who asks for what he can't have restrains nobody");
}

#[test]
fn a_request_becomes_a_claim_a_certificate_a_listener_and_records() {
    let mut world = world();
    name(&mut world, "a/shop", "Shop.Example.com.");
    let picture = settle(&mut world);
    let case = case(&picture, "a/shop");
    assert!(case.is_ready(), "{case:#?}");
    assert_eq!(case.gateway.as_deref(), Some("gw-01"));
    assert_eq!(picture.grants["a"].hostnames, ["shop.example.com"]);
    assert_eq!(picture.grants["b"].hostnames, [""; 0]);
    assert_eq!(picture.grants["b"].zones, ["example.com"]);
    let status = world.requests.values().next().unwrap().status.clone().unwrap();
    let records: Vec<_> =
        status.records.iter().map(|record| (record.type_.as_str(), record.value.as_str())).collect();
    assert_eq!(records, [("A", "192.0.2.1"), ("AAAA", "2001:db8::1")]);
    assert!(status.conditions.iter().all(|condition| condition.status == "True"), "{:#?}", status.conditions);
    let gateway = picture.gateways["gw-01"].gateway(&world.settings).unwrap();
    let listener = &gateway["spec"]["listeners"][1];
    assert_eq!(listener["hostname"], "shop.example.com");
    assert_eq!(
        listener["allowedRoutes"]["namespaces"]["selector"]["matchLabels"]["kubernetes.io/metadata.name"],
        "a"
    );

    delete(&mut world, "a/shop");
    settle(&mut world);
    assert!(world.requests.is_empty() && world.claims.is_empty() && world.orders.is_empty());
    assert!(world.gateways.is_empty(), "{:?}", world.gateways);
}

#[test]
fn nothing_goes_before_what_rests_on_it() {
    let mut world = world();
    name(&mut world, "a/shop", "shop.example.com");
    settle(&mut world);
    delete(&mut world, "a/shop");
    // The record can't be removed: all stays, and nobody else gets the name.
    name(&mut world, "b/thief", "shop.example.com");
    let stuck = Progress::Failed(Reason::ProviderFailed, "no answer".into());
    for _ in 0..5 {
        let picture = act(&mut world);
        for told in world.records.values_mut().filter(|told| told.want == Want::Nothing) {
            told.progress = stuck.clone();
        }
        assert_eq!(reason(&picture, "b/thief"), Some(Reason::AlreadyClaimed));
    }
    let before = picture(&world);
    assert!(before.gateways["gw-01"].entries.contains_key(&Hostname::parse("shop.example.com").unwrap()));
    let (reason, why) = case(&before, "a/shop").leaving.clone().unwrap();
    assert!(reason == Reason::CleanupFailed && why.contains("could not be removed"), "{reason:?} {why}");
    assert_eq!((world.claims.len(), world.orders.len()), (1, 1));
    for told in world.records.values_mut() {
        told.progress = Progress::Settled;
    }
    let after = settle(&mut world);
    assert!(case(&after, "b/thief").is_ready(), "it is promoted");
    assert_eq!(world.claims.len(), 1);
}

#[test]
fn names_have_one_holder_however_they_are_written() {
    for (first, second, wins) in [
        ("shop.example.com", "SHOP.example.COM.", Some(Reason::AlreadyClaimed)),
        ("münchen.example.com", "xn--mnchen-3ya.example.com", Some(Reason::AlreadyClaimed)),
        ("*.example.com", "shop.example.com", Some(Reason::Shadowed)),
        ("shop.example.com", "*.example.com", Some(Reason::Shadowed)),
        ("a.b.example.com", "*.example.com", Some(Reason::Shadowed)),
        ("*.example.com", "*.b.example.com", Some(Reason::Shadowed)),
        ("example.com", "*.example.com", None),
        ("shop.example.com", "shop2.example.com", None),
    ] {
        let mut world = world();
        name(&mut world, "a/first", first);
        name(&mut world, "b/second", second);
        let picture = settle(&mut world);
        assert!(case(&picture, "a/first").is_ready(), "{first}");
        assert_eq!(reason(&picture, "b/second"), wins, "{first} {second}");
        if wins.is_some() {
            assert_eq!(picture.grants["b"].hostnames, [""; 0], "{first} {second}");
            let blocked = case(&picture, "b/second").blocked.as_ref().unwrap();
            assert!(blocked.message.contains("a/first"), "{}", blocked.message);
        }
    }
    // Of one namespace, both.
    let mut world = world();
    name(&mut world, "a/first", "*.example.com");
    name(&mut world, "a/second", "shop.example.com");
    let picture = settle(&mut world);
    assert!(case(&picture, "a/first").is_ready() && case(&picture, "a/second").is_ready());
}

#[test]
fn the_owner_of_a_wildcard_may_let_others_in() {
    let mut world = world();
    ask(
        &mut world,
        "a/all",
        json!({"zoneId": "example.com", "hostname": "*.example.com", "allowNamesBelow": true}),
    );
    name(&mut world, "b/shop", "shop.example.com");
    let picture = settle(&mut world);
    assert!(case(&picture, "a/all").is_ready() && case(&picture, "b/shop").is_ready());
    assert_eq!(picture.grants["a"].except, ["shop.example.com"]);
}

#[test]
fn a_request_gets_all_its_names_or_none_and_the_oldest_is_first() {
    let mut world = world();
    name(&mut world, "a/one", "one.example.com");
    settle(&mut world);
    let both = |first: &str, second: &str| json!({"zoneId": "example.com", "hostname": first, "additionalHostnames": [second]});
    ask(&mut world, "b/both", both("two.example.com", "one.example.com"));
    ask(&mut world, "c/both", both("three.example.com", "two.example.com"));
    let picture = settle(&mut world);
    assert_eq!(reason(&picture, "b/both"), Some(Reason::AlreadyClaimed));
    assert!(case(&picture, "c/both").is_ready(), "nobody holds what he can't use");
    assert_eq!(world.claims.len(), 3);
}

#[test]
fn what_is_served_is_renewed_though_the_request_is_refused_or_waits() {
    type Edit = fn(&mut World);
    let edits: [(&str, Edit); 3] = [
        ("outside", |world| {
            change(world, "a/shop", |request| {
                request.spec.additional_hostnames = vec!["x.example.org".into()];
            });
        }),
        ("taken", |world| {
            change(world, "a/shop", |request| {
                request.spec.additional_hostnames = vec!["b.example.com".into()];
            });
        }),
        ("not chosen", |world| {
            let zone = Arc::make_mut(world.zones.get_mut("lab").unwrap());
            zone.spec.namespace_selector =
                serde_json::from_value(json!({"matchLabels": {"x": "y"}})).unwrap();
        }),
    ];
    for (what, edit) in edits {
        let mut world = world();
        zone(&mut world, "lab", json!({"zoneId": "example.com", "domain": "example.com"}));
        name(&mut world, "a/shop", "shop.example.com");
        name(&mut world, "b/other", "b.example.com");
        settle(&mut world);
        edit(&mut world);
        let before = settle(&mut world);
        assert!(!case(&before, "a/shop").is_claimed(), "{what}");
        world.now = Timestamp::from_second(NOW + 600).unwrap();
        settle(&mut world);
        let listening = &world.gateways["gw-01"].listeners[&Hostname::parse("shop.example.com").unwrap()];
        let served = world.orders.values().find(|order| order.secret == listening.certificate).unwrap();
        assert_eq!(
            (served.serial, served.names.as_slice()),
            (2, ["shop.example.com".to_owned()].as_slice()),
            "{what}"
        );
        // The one before goes when it is of no use any more.
        world.now = Timestamp::from_second(NOW + 1050).unwrap();
        settle(&mut world);
        let own: Vec<u32> =
            world.orders.values().filter(|order| order.uid == "a/shop").map(|order| order.serial).collect();
        assert_eq!(own, [2], "{what}");
    }
}

#[test]
fn proofs_of_an_order_that_came_to_nothing_are_taken_back_at_once() {
    let mut world = world();
    name(&mut world, "a/shop", "shop.example.com");
    act(&mut world);
    let order = Order {
        secret: "a-shop-1".into(),
        at: ObjectRef::new("a", "shop"),
        uid: "a/shop".into(),
        serial: 1,
        names: vec!["shop.example.com".into()],
        issuer: "local".into(),
        zone_id: "example.com".into(),
        proofs: vec![Proof::Txt { name: "_acme-challenge.shop.example.com".into(), text: "x".into() }],
        failed: Some(Failure { message: "no".into(), at: NOW, times: 1 }),
        ..Order::default()
    };
    world.orders = [("a-shop-1".to_owned(), Arc::new(order))].into();
    let picture = picture(&world);
    let publications = &case(&picture, "a/shop").publications;
    let wants: Vec<(&str, &Want)> = publications.iter().map(|one| (one.name.as_str(), &one.want)).collect();
    assert_eq!(wants, [("_acme-challenge.shop.example.com", &Want::Nothing)]);
}

#[test]
fn an_order_is_given_up_at_its_own_issuer() {
    let mut world = world();
    let certificates =
        json!({"issuer": "acme", "directory": "https://new.example/dir", "credentialsSecret": "eab"});
    zone(
        &mut world,
        "lab",
        json!({"zoneId": "example.com", "domain": "example.com", "certificates": certificates}),
    );
    let order = |issuer: &str| Order {
        names: vec!["shop.example.com".into()],
        issuer: issuer.into(),
        hostname_zone: Some("lab".into()),
        zone_id: "example.com".into(),
        ..Order::default()
    };
    for (issuer, credentials) in [
        ("acme https://new.example/dir", Some("eab")),
        ("acme https://old.example/dir", Some("eab")),
        ("aws eu-west-1", None),
        ("local", None),
    ] {
        let zone = zone_of_order(&order(issuer), &world).unwrap();
        assert_eq!(zone.issuer(), issuer);
        assert_eq!(zone.certificates.credentials_secret.as_deref(), credentials, "{issuer}");
    }
}

#[test]
fn a_name_that_a_neighbour_holds_in_another_zone_is_given_up_while_he_serves_it() {
    let mut world = world();
    for (name, id) in [("inside", "Z1"), ("outside", "Z2")] {
        zone(&mut world, name, json!({"zoneId": id, "domain": "example.com"}));
    }
    ask(&mut world, "a/inside", json!({"zoneId": "Z1", "hostname": "shop.example.com"}));
    ask(&mut world, "a/outside", json!({"zoneId": "Z2", "hostname": "shop.example.com"}));
    settle(&mut world);
    assert_eq!(world.claims.len(), 2);
    delete(&mut world, "a/inside");
    let picture = settle(&mut world);
    assert!(case(&picture, "a/outside").is_ready());
    assert!(!picture.cases.contains_key("a/inside"), "{:#?}", case(&picture, "a/inside").leaving);
}

#[test]
fn a_changed_name_is_published_before_the_old_one_goes() {
    let mut world = world();
    name(&mut world, "a/shop", "old.example.com");
    settle(&mut world);
    change(&mut world, "a/shop", |request| request.spec.hostname = "new.example.com".into());
    let (old, new) =
        (Hostname::parse("old.example.com").unwrap(), Hostname::parse("new.example.com").unwrap());
    let mut steps = 0;
    loop {
        let picture = act(&mut world);
        let listens =
            |name: &Hostname| world.gateways.values().any(|member| member.listeners.contains_key(name));
        let removing =
            world.records.iter().any(|((_, name, _), told)| *name == old && told.want == Want::Nothing);
        if !case(&picture, "a/shop").is_ready() {
            assert!(listens(&old) && !removing, "the old one goes too soon");
        }
        steps += 1;
        if listens(&new) && !listens(&old) {
            break;
        }
        assert!(steps < 20);
    }
    settle(&mut world);
    assert_eq!((world.claims.len(), world.orders.len()), (1, 1));
}

#[test]
fn a_bad_edit_disturbs_nothing() {
    let mut world = world();
    name(&mut world, "a/shop", "shop.example.com");
    settle(&mut world);
    let before = (world.gateways.clone(), world.claims.len(), world.orders.len());
    for edit in ["x..example.com", "shop.example.org"] {
        change(&mut world, "a/shop", |request| request.spec.hostname = edit.into());
        let picture = settle(&mut world);
        assert_eq!(reason(&picture, "a/shop"), Some(Reason::InvalidSpec));
        assert_eq!((world.gateways.clone(), world.claims.len(), world.orders.len()), before, "{edit}");
        assert_eq!(picture.grants["a"].hostnames, ["shop.example.com"]);
    }
    // A name that is taken is waited for with the old one in place.
    name(&mut world, "b/other", "other.example.com");
    settle(&mut world);
    change(&mut world, "a/shop", |request| request.spec.hostname = "other.example.com".into());
    let picture = settle(&mut world);
    assert_eq!(reason(&picture, "a/shop"), Some(Reason::AlreadyClaimed));
    assert_eq!(picture.grants["a"].hostnames, ["shop.example.com"]);
}

#[test]
fn the_pool_grows_by_kind_and_capacity_and_stays_put() {
    let mut world = world();
    world.settings.most_certificates = 3;
    for number in 0..7 {
        name(&mut world, &format!("a/r{number}"), &format!("n{number}.example.com"));
    }
    ask(
        &mut world,
        "b/inside",
        json!({"zoneId": "example.com", "hostname": "in.example.com", "visibility": "internal"}),
    );
    let first = settle(&mut world);
    let places = |picture: &Picture| -> Vec<(String, String)> {
        picture
            .cases
            .values()
            .map(|case| (case.uid.clone(), case.gateway.clone().unwrap_or_default()))
            .collect()
    };
    assert_eq!(world.gateways.len(), 4, "{:?}", places(&first));
    // One goes: nobody moves. The next one takes its place.
    let before: Vec<_> = places(&first).into_iter().filter(|(uid, _)| uid != "a/r0").collect();
    delete(&mut world, "a/r0");
    let second = settle(&mut world);
    assert_eq!(places(&second), before);
    name(&mut world, "a/new", "new.example.com");
    let third = settle(&mut world);
    assert_eq!(case(&third, "a/new").gateway.as_deref(), Some("gw-01"));
    // Rules of routes fill a gateway, too.
    world.gateways.get_mut("gw-03").unwrap().rules = 100;
    name(&mut world, "a/last", "last.example.com");
    let fourth = settle(&mut world);
    assert_eq!(case(&fourth, "a/last").gateway.as_deref(), Some("gw-05"));
    // Whose place it is already keeps it, though his listener is not there yet.
    let full = &Hostname::parse("n6.example.com").unwrap();
    let place = case(&fourth, "a/r6").gateway.clone().unwrap();
    let member = world.gateways.get_mut(&place).unwrap();
    (member.rules, _) = (100, member.listeners.remove(full));
    let fifth = picture(&world);
    assert_eq!(case(&fifth, "a/r6").gateway.as_ref(), Some(&place));
    settle(&mut world);
    // One that somebody removed comes back under its name.
    world.gateways.remove("gw-02");
    settle(&mut world);
    assert!(world.gateways.contains_key("gw-02"));
    for at in world.requests.keys().cloned().collect::<Vec<_>>() {
        delete(&mut world, &at.to_string());
    }
    settle(&mut world);
    assert!(world.gateways.is_empty() && world.claims.is_empty());
}

#[test]
fn what_can_not_be_served_is_said() {
    let mut world = world();
    let ask_for = |world: &mut World, at: &str, extra: Value| {
        let mut spec =
            json!({"zoneId": "example.com", "hostname": format!("{}.example.com", at.replace('/', "-"))});
        spec.as_object_mut().unwrap().extend(extra.as_object().unwrap().clone());
        ask(world, at, spec);
    };
    ask_for(&mut world, "a/class", json!({"gatewayClass": "nobodys"}));
    ask_for(&mut world, "a/selector", json!({"gatewaySelector": {"matchLabels": {"team": "a"}}}));
    ask_for(&mut world, "a/alb", json!({"gatewayClass": "aws-alb"}));
    ask_for(&mut world, "a/waf", json!({"wafArn": "arn:aws:wafv2:eu-west-1:1:regional/webacl/x/y"}));
    let picture = settle(&mut world);
    for (at, wanted) in [
        ("a/class", Reason::NotFound),
        ("a/selector", Reason::NoGateway),
        ("a/alb", Reason::InvalidSpec),
        ("a/waf", Reason::InvalidSpec),
    ] {
        assert_eq!(case(&picture, at).no_gateway.as_ref().unwrap().0, wanted, "{at}");
    }
}

#[test]
fn many_names_are_in_listener_sets() {
    let mut world = world();
    world.settings.most_listeners = 4;
    for number in 0..3 {
        let more: Vec<String> = (0..4).map(|more| format!("m{more}.n{number}.example.com")).collect();
        let hostname = format!("n{number}.example.com");
        ask(
            &mut world,
            &format!("a/r{number}"),
            json!({"zoneId": "example.com", "hostname": hostname, "additionalHostnames": more}),
        );
    }
    let picture = settle(&mut world);
    let gateway = &picture.gateways["gw-01"];
    assert_eq!(gateway.gateway(&world.settings).unwrap()["spec"]["listeners"].as_array().unwrap().len(), 4);
    let sets = gateway.listener_sets(&world.settings);
    let counts: Vec<usize> =
        sets.iter().map(|set| set["spec"]["listeners"].as_array().unwrap().len()).collect();
    assert_eq!(counts, [4, 4, 4]);
}

#[test]
fn a_certificate_is_renewed_before_its_end_and_replaced_when_it_is_lost() {
    let mut world = world();
    name(&mut world, "a/shop", "shop.example.com");
    settle(&mut world);
    world.now = Timestamp::from_second(NOW + 600).unwrap();
    let picture = settle(&mut world);
    assert!(case(&picture, "a/shop").is_ready());
    let serials: Vec<u32> = world.orders.values().map(|order| order.serial).collect();
    assert_eq!(serials, [2], "the first one is given up after the second serves");
    for order in world.orders.values_mut() {
        Arc::make_mut(order).lost = true;
    }
    settle(&mut world);
    let serials: Vec<u32> = world.orders.values().map(|order| order.serial).collect();
    assert_eq!(serials, [3]);
}

#[test]
fn what_a_request_left_behind_is_cleared_up() {
    let mut world = world();
    name(&mut world, "a/shop", "shop.example.com");
    settle(&mut world);
    // Somebody took its finalizer away.
    world.requests.clear();
    settle(&mut world);
    assert!(world.claims.is_empty() && world.orders.is_empty() && world.gateways.is_empty());
}

#[test]
fn load_balancers_of_aws_are_told_both_ways() {
    let mut world = world();
    zone(
        &mut world,
        "one",
        json!({
            "zoneId": "Z1", "domain": "example.com", "gatewayClass": "aws-alb",
            "dns": {"provider": "aws"}, "certificates": {"issuer": "aws", "region": "eu-west-1"},
        }),
    );
    ask(&mut world, "a/shop", json!({"zoneId": "Z1", "hostname": "shop.example.com"}));
    for _ in 0..5 {
        act(&mut world);
        for order in world.orders.values_mut() {
            let issued = Arc::make_mut(order).issued.as_mut().unwrap();
            issued.arn = Some("arn:aws:acm:eu-west-1:1:certificate/x".into());
        }
        for member in world.gateways.values_mut() {
            member.addresses = vec!["lb-1.eu-west-1.elb.amazonaws.com".into()];
        }
    }
    let picture = settle(&mut world);
    assert!(case(&picture, "a/shop").is_ready(), "{:#?}", case(&picture, "a/shop"));
    let gateway = &picture.gateways["gw-01"];
    let configuration = gateway.load_balancer_configuration(&world.settings).unwrap();
    let listener = &configuration["spec"]["listenerConfigurations"][0];
    assert_eq!(listener["defaultCertificate"], "arn:aws:acm:eu-west-1:1:certificate/x");
    let object = gateway.gateway(&world.settings).unwrap();
    assert_eq!(
        object["metadata"]["annotations"]["alb.ingress.kubernetes.io/certificate-arn"],
        "arn:aws:acm:eu-west-1:1:certificate/x"
    );
    let want = Want::Balancer("lb-1.eu-west-1.elb.amazonaws.com".into(), 300);
    assert!(case(&picture, "a/shop").publications.iter().any(|publication| publication.want == want));
}

#[test]
fn the_edge_may_answer_for_a_name_while_it_is_proven_there_and_no_longer() {
    let mut world = world();
    world.namespaces.insert("causeway-edge".into(), [].into());
    name(&mut world, "a/shop", "shop.example.com");
    act(&mut world);
    let proof = Proof::Http {
        host: "shop.example.com".into(),
        path: "/.well-known/acme-challenge/x".into(),
        body: "x".into(),
    };
    let order = Order {
        secret: "a-shop-1".into(),
        at: ObjectRef::new("a", "shop"),
        uid: "a/shop".into(),
        serial: 1,
        names: vec!["shop.example.com".into()],
        issuer: "local".into(),
        zone_id: "example.com".into(),
        handle: Some("x".into()),
        proofs: vec![proof],
        ..Order::default()
    };
    world.orders = [("a-shop-1".to_owned(), Arc::new(order.clone()))].into();
    let pending = picture(&world);
    assert_eq!(pending.grants["causeway-edge"].hostnames, ["shop.example.com"]);
    assert_eq!(pending.grants["a"].hostnames, ["shop.example.com"]);
    let issued = Issued { not_after: NOW + 1000, ..Issued::default() };
    let order = Order { issued: Some(issued), ..order };
    world.orders = [("a-shop-1".to_owned(), Arc::new(order))].into();
    assert_eq!(picture(&world).grants["causeway-edge"].hostnames, [""; 0]);
}

#[test]
fn the_edge_answers_for_no_name_that_no_gateway_is_for() {
    let mut world = world();
    world.namespaces.insert("causeway-edge".into(), [].into());
    ask(
        &mut world,
        "a/shop",
        json!({"zoneId": "example.com", "hostname": "shop.example.com", "gatewayClass": "none"}),
    );
    act(&mut world);
    act(&mut world);
    let order = Arc::make_mut(world.orders.values_mut().next().unwrap());
    order.issued = None;
    order.proofs = vec![Proof::Http { host: "shop.example.com".into(), path: "/x".into(), body: "x".into() }];
    let picture = picture(&world);
    assert!(case(&picture, "a/shop").certificate.pending.is_some());
    assert_eq!(picture.grants["causeway-edge"].hostnames, [""; 0]);
}

#[test]
fn routes_of_those_who_hold_nothing_there_are_not_for_a_gateway() {
    let mut world = world();
    name(&mut world, "a/shop", "shop.example.com");
    settle(&mut world);
    assert!(world.gateways["gw-01"].takes_routes_of("a") && !world.gateways["gw-01"].takes_routes_of("b"));
}

fn name_in(name: &str, domain: &str) -> bool {
    Hostname::parse(name).unwrap().is_in(domain)
}

#[test]
fn who_takes_back_that_others_are_let_in_shuts_nobody_out_while_one_is_in() {
    let mut world = world();
    name(&mut world, "b/shop", "shop.example.com");
    settle(&mut world);
    ask(
        &mut world,
        "a/all",
        json!({"zoneId": "example.com", "hostname": "*.example.com", "allowNamesBelow": true}),
    );
    settle(&mut world);
    change(&mut world, "a/all", |request| request.spec.allow_names_below = false);
    name(&mut world, "c/other", "other.example.com");
    let picture = settle(&mut world);
    assert!(case(&picture, "c/other").is_ready(), "{:?}", case(&picture, "c/other").blocked);
    let said = condition(&world, "a/all", ConditionType::Claimed);
    assert!(said.contains("b/shop") || said.contains("c/other"), "{said}");
    // When the last one is gone it counts.
    for at in ["b/shop", "c/other"] {
        delete(&mut world, at);
    }
    settle(&mut world);
    name(&mut world, "c/late", "late.example.com");
    assert_eq!(reason(&settle(&mut world), "c/late"), Some(Reason::Shadowed));
}

/// What a condition of a request says.
fn condition(world: &World, at: &str, kind: ConditionType) -> String {
    let (namespace, name) = at.split_once('/').unwrap();
    let status = world.requests[&ObjectRef::new(namespace, name)].status.clone().unwrap();
    causeway_api::conditions::find(&status.conditions, kind).unwrap().message.clone()
}

#[test]
fn who_is_served_takes_a_place_though_he_asks_for_something_else_in_vain() {
    let mut world = world();
    world.settings.most_certificates = 1;
    name(&mut world, "a/one", "one.example.com");
    settle(&mut world);
    change(&mut world, "a/one", |request| request.spec.hostname = "x..example.com".into());
    name(&mut world, "b/two", "two.example.com");
    let picture = settle(&mut world);
    assert_eq!(case(&picture, "b/two").gateway.as_deref(), Some("gw-02"));
}

#[test]
fn a_namespace_has_no_more_names_than_its_grant() {
    let mut world = world();
    name(&mut world, "a/shop", "shop.example.com");
    settle(&mut world);
    let one = world.claims.values().next().unwrap().clone();
    for number in 1..4096 {
        let mut claim = one.clone();
        Arc::make_mut(&mut claim).spec.hostname = format!("n{number}.example.com");
        world.claims.insert(number.to_string(), claim);
    }
    name(&mut world, "a/more", "more.example.com");
    name(&mut world, "b/other", "other.example.com");
    let picture = picture(&world);
    assert_eq!(reason(&picture, "a/more"), Some(Reason::QuotaReached));
    let said = &case(&picture, "a/more").blocked.as_ref().unwrap().message;
    assert!(said.contains("4096"), "{said}");
    assert_eq!(picture.grants["a"].hostnames.len(), 4096);
    assert_eq!(reason(&picture, "b/other"), None);
}

#[test]
fn a_name_in_two_zones_on_one_gateway_is_explained() {
    let mut world = world();
    for (name, id) in [("inside", "Z1"), ("outside", "Z2")] {
        zone(&mut world, name, json!({"zoneId": id, "domain": "example.com"}));
    }
    ask(&mut world, "a/inside", json!({"zoneId": "Z1", "hostname": "shop.example.com"}));
    ask(&mut world, "a/outside", json!({"zoneId": "Z2", "hostname": "shop.example.com"}));
    let picture = settle(&mut world);
    let (waits, serves) = if case(&picture, "a/inside").is_ready() {
        ("a/outside", "a/inside")
    } else {
        ("a/inside", "a/outside")
    };
    assert!(case(&picture, serves).is_ready());
    let said = condition(&world, waits, ConditionType::ListenerAttached);
    assert!(said.contains(serves) && said.contains("gatewaySelector"), "{said}");
}

#[test]
fn a_certificate_is_waited_for_since_the_first_of_a_series_that_came_to_nothing() {
    let mut world = world();
    world.classes.remove("causeway");
    name(&mut world, "a/shop", "shop.example.com");
    act(&mut world);
    // Nobody could be asked yet: since the name is held.
    let claim = world.claims.values_mut().next().unwrap();
    Arc::make_mut(claim).metadata.creation_timestamp = Some(Time(Timestamp::from_second(NOW - 900).unwrap()));
    assert_eq!(case(&picture(&world), "a/shop").waits_since(&world), Some(NOW - 900));
    // An order that is worked on, or came to nothing: since the first of them.
    let order = Order {
        secret: "x".into(),
        at: ObjectRef::new("a", "shop"),
        uid: "a/shop".into(),
        serial: 3,
        names: vec!["shop.example.com".into()],
        issuer: "local".into(),
        zone_id: "example.com".into(),
        begun: NOW - 10,
        since: Some(NOW - 700),
        ..Order::default()
    };
    let failed = Failure { message: "no".into(), at: NOW - 1, times: 3 };
    for (order, wanted) in [
        (order.clone(), Some(NOW - 700)),
        (Order { since: None, ..order.clone() }, Some(NOW - 10)),
        (Order { failed: Some(failed), ..order.clone() }, Some(NOW - 700)),
        (Order { issued: Some(Issued { not_after: NOW + 100, ..Issued::default() }), ..order.clone() }, None),
        // One that is due, and that nobody could ask for the successor of.
        (
            Order {
                issued: Some(Issued { not_after: NOW + 100, renew_at: Some(NOW - 50), ..Issued::default() }),
                ..order
            },
            Some(NOW - 50),
        ),
    ] {
        world.orders.insert("x".into(), Arc::new(order.clone()));
        assert_eq!(case(&picture(&world), "a/shop").waits_since(&world), wanted, "{order:?}");
    }
}

#[test]
fn a_listener_stays_where_routes_look_for_it_and_its_place_is_told() {
    let mut world = world();
    world.settings.most_listeners = 3;
    for number in ["b", "c", "d"] {
        name(&mut world, &format!("a/{number}"), &format!("{number}.example.com"));
        settle(&mut world);
    }
    let sets = |world: &World| -> Vec<(String, usize)> {
        let listeners = world.gateways["gw-01"].listeners.iter();
        listeners.map(|(name, listening)| (name.to_string(), listening.set)).collect()
    };
    let there = |names: [(&str, usize); 3]| names.map(|(name, set)| (name.to_owned(), set)).to_vec();
    assert_eq!(sets(&world), there([("b.example.com", 0), ("c.example.com", 0), ("d.example.com", 1)]));
    let said = condition(&world, "a/d", ConditionType::ListenerAttached);
    assert!(said.contains("routes for d.example.com have the parent gw-01-1 of kind ListenerSet"), "{said}");
    // One that sorts before the others takes nobody's place, and who is left alone is not moved.
    name(&mut world, "a/a", "a.example.com");
    settle(&mut world);
    assert_eq!(sets(&world)[0], ("a.example.com".to_owned(), 1));
    for at in ["a/b", "a/a"] {
        delete(&mut world, at);
    }
    settle(&mut world);
    assert_eq!(sets(&world), [("c.example.com".to_owned(), 0), ("d.example.com".to_owned(), 1)]);
    // Whoever comes then fills the gap.
    name(&mut world, "a/e", "e.example.com");
    settle(&mut world);
    assert_eq!(sets(&world)[2], ("e.example.com".to_owned(), 0));
}
