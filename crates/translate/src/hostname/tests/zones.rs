//! Which zone names are asked for in, and where their records are, whatever the settings say by then.

use super::*;

#[test]
fn zones_say_who_may_ask_for_what() {
    let mut world = world();
    zone(
        &mut world,
        "one",
        json!({
            "zoneId": "Z1", "domain": "example.com", "quota": 2,
            "namespaceSelector": {"matchExpressions": [{"key": "kubernetes.io/metadata.name", "operator": "In", "values": ["a", "b"]}]},
            "patterns": ["{namespace}.example.com", "*.{namespace}.example.com"],
        }),
    );
    let asked = [
        ("a/own", "Z1", "a.example.com", None),
        ("a/below", "Z1", "*.a.example.com", None),
        ("a/more", "Z1", "x.a.example.com", Some(Reason::QuotaReached)),
        ("b/other", "Z1", "x.a.example.com", Some(Reason::NotGranted)),
        ("b/outside", "Z1", "b.example.org", Some(Reason::InvalidSpec)),
        ("b/bad", "Z1", "b..example.com", Some(Reason::InvalidSpec)),
        ("b/nowhere", "Z2", "b.example.com", Some(Reason::ZoneNotFound)),
        ("c/unchosen", "Z1", "c.example.com", Some(Reason::NotGranted)),
    ];
    for (at, zone, hostname, _) in asked {
        ask(&mut world, at, json!({"zoneId": zone, "hostname": hostname}));
    }
    let picture = settle(&mut world);
    for (at, _, hostname, wanted) in asked {
        assert_eq!(reason(&picture, at), wanted, "{at} {hostname}");
        assert_eq!(case(&picture, at).is_ready(), wanted.is_none(), "{at} {hostname}");
    }
    assert_eq!(picture.zones["one"], 2);
}

#[test]
fn settings_stand_in_for_zones() {
    let mut world = world();
    world.settings.domains = vec!["example.com".into(), "dev.example.com".into()];
    ask(&mut world, "a/one", json!({"zoneId": "Dev.example.com.", "hostname": "x.dev.example.com"}));
    ask(&mut world, "a/two", json!({"zoneId": "Z", "hostname": "x.example.org"}));
    let picture = settle(&mut world);
    let zone = case(&picture, "a/one").zone.as_ref().unwrap();
    assert_eq!((zone.domain.as_str(), zone.key.id.as_str()), ("dev.example.com", "dev.example.com"));
    assert_eq!(reason(&picture, "a/two"), Some(Reason::NotGranted));
}

#[test]
fn the_id_of_a_zone_of_the_settings_is_its_domain_and_all_names_are_in_the_same() {
    let mut world = world();
    world.settings.domains = vec!["example.com".into(), "dev.example.com".into()];
    let both = json!({
        "zoneId": "example.com", "hostname": "x.example.com", "additionalHostnames": ["x.dev.example.com"],
    });
    for (at, spec, wanted, words) in [
        (
            "a/id",
            json!({"zoneId": "Z", "hostname": "y.example.com"}),
            Reason::ZoneNotFound,
            "write example.com",
        ),
        (
            "a/other",
            json!({"zoneId": "example.com", "hostname": "y.dev.example.com"}),
            Reason::ZoneNotFound,
            "write dev.example.com",
        ),
        ("a/both", both, Reason::InvalidSpec, "a request of its own"),
    ] {
        ask(&mut world, at, spec);
        let picture = settle(&mut world);
        let (reason, why) = case(&picture, at).refusal.clone().unwrap();
        assert!(reason == wanted && why.contains(words), "{at}: {reason:?} {why}");
    }
    // Ids of Route 53 say nothing of the domain.
    world.settings.dns.provider = DnsProviderKind::Aws;
    assert_eq!(reason(&picture(&world), "a/id"), None);
}

#[test]
fn where_any_domain_may_be_asked_for_those_of_others_are_not_reached_into() {
    let mut world = world();
    name(&mut world, "a/shop", "shop.example.com");
    settle(&mut world);
    for (at, zone, wanted) in [
        ("b/above", "com", Some(Reason::Shadowed)),
        ("b/below", "deep.example.com", Some(Reason::Shadowed)),
        ("b/same", "example.com", None),
        ("b/beside", "example.org", None),
        ("a/below", "deep.example.com", None),
    ] {
        let hostname = format!("{}.{zone}", at.replace('/', "-"));
        ask(&mut world, at, json!({"zoneId": zone, "hostname": hostname}));
        assert_eq!(reason(&picture(&world), at), wanted, "{at}");
    }
}

#[test]
fn a_zone_that_comes_later_does_not_take_over_what_is_written_elsewhere() {
    let mut world = world();
    name(&mut world, "a/shop", "shop.example.com");
    settle(&mut world);
    let aws = json!({"zoneId": "example.com", "domain": "example.com", "dns": {"provider": "aws"}});
    zone(&mut world, "late", aws);
    let picture = settle(&mut world);
    let before = case(&picture, "a/shop");
    assert!(before.is_ready(), "{before:#?}");
    assert!(before.publications.iter().all(|one| one.zone.key.name.is_none()), "{:?}", before.publications);
    name(&mut world, "a/new", "new.example.com");
    let picture = settle(&mut world);
    assert_eq!(case(&picture, "a/new").zone.as_ref().unwrap().key.name.as_deref(), Some("late"));
}

#[test]
fn a_zone_that_goes_lets_nobody_ask_and_clears_up_what_is_in_it() {
    let mut world = world();
    zone(&mut world, "lab", json!({"zoneId": "example.com", "domain": "example.com"}));
    name(&mut world, "a/shop", "shop.example.com");
    settle(&mut world);
    let now = Some(Time(world.now));
    Arc::make_mut(world.zones.get_mut("lab").unwrap()).metadata.deletion_timestamp = now;
    name(&mut world, "b/late", "late.example.com");
    let picture = settle(&mut world);
    assert_eq!(reason(&picture, "b/late"), Some(Reason::ZoneNotFound));
    assert!(picture.zones_in_use.contains("lab"));
    for at in ["a/shop", "b/late"] {
        delete(&mut world, at);
    }
    let picture = settle(&mut world);
    assert!(world.claims.is_empty() && world.orders.is_empty());
    assert!(!picture.zones_in_use.contains("lab"));
}

#[test]
fn a_name_of_the_settings_stays_protected_when_the_first_zone_comes() {
    let mut world = world();
    world.settings.domains = vec!["example.com".into()];
    name(&mut world, "a/shop", "shop.example.com");
    settle(&mut world);
    zone(&mut world, "other", json!({"zoneId": "Z1", "domain": "example.org"}));
    let picture = settle(&mut world);
    assert_eq!(picture.grants["b"].zones, ["example.com", "example.org"]);
    // Nor is it by other settings, nor by those of a cloud, whose ids say nothing.
    for id in ["example.com", "Z0123"] {
        let claim = world.claims.values_mut().next().unwrap();
        Arc::make_mut(claim).spec.zone_id = id.into();
        world.settings.domains.clear();
        let picture = super::picture(&world);
        let zones = &picture.grants["b"].zones;
        assert!(zones.iter().any(|zone| name_in("shop.example.com", zone)), "{id}: {zones:?}");
    }
}

#[test]
fn a_record_is_removed_where_it_was_written_whatever_the_settings_say_by_then() {
    let mut world = world();
    world.settings.domains = vec!["example.com".into()];
    name(&mut world, "a/shop", "x.dev.example.com");
    settle(&mut world);
    for domains in
        [vec!["example.com".to_owned(), "dev.example.com".to_owned()], vec!["example.org".to_owned()]]
    {
        let mut world = world.clone();
        world.settings.domains = domains;
        delete(&mut world, "a/shop");
        let picture = picture(&world);
        let gone = |one: &&Publication| one.want == Want::Nothing;
        let removed = case(&picture, "a/shop").publications.iter().find(gone).expect("it is removed");
        assert_eq!(removed.zone.domain.as_str(), "example.com");
    }
}

#[test]
fn a_record_stays_with_the_provider_that_wrote_it_and_is_removed_there() {
    let by = |provider| ZoneDns { provider, ..ZoneDns::default() };
    let aws = by(DnsProviderKind::Aws);
    let west = ZoneDns { region: Some("eu-west-1".into()), ..aws.clone() };
    // Route 53 is one for all regions, and nobody has to be told that it is still that.
    for (before, id, after, said) in [
        (by(DnsProviderKind::Local), "example.com", west.clone(), "our own DNS server"),
        (west.clone(), "Z0123456789", by(DnsProviderKind::Local), "Route 53"),
        (west.clone(), "Z0123456789", aws.clone(), ""),
    ] {
        let mut world = world();
        world.settings.domains = vec!["example.com".into()];
        world.settings.dns = before.clone();
        ask(&mut world, "a/shop", json!({"zoneId": id, "hostname": "shop.example.com"}));
        settle(&mut world);
        let written = case(&picture(&world), "a/shop").publications[0].zone.clone();
        assert_eq!(written.dns, by(before.provider), "the region is of no zone");
        world.settings.dns = after.clone();

        // It is not written anew elsewhere, by nobody else: nobody would take the first one back.
        let kept = picture(&world);
        let kept = &case(&kept, "a/shop").publications;
        let is_same = |one: &Publication| (&one.zone.key, &one.zone.dns) == (&written.key, &written.dns);
        assert!(kept.iter().all(is_same), "{kept:#?}");
        // An id of Route 53 is none that may be asked for elsewhere: then nothing is touched.
        assert_eq!(kept.is_empty(), after.provider == DnsProviderKind::Local, "{kept:#?}");
        world.settings.domains = vec!["example.org".into()];
        delete(&mut world, "a/shop");
        let picture = act(&mut world);
        let removed = case(&picture, "a/shop").publications.iter().find(|one| one.want == Want::Nothing);
        assert_eq!(removed.expect("it is removed").zone, written);
        // What can't be removed keeps the name, and is said with where it is, if that is not where one would look.
        for told in world.records.values_mut() {
            told.progress = Progress::Failed(Reason::MissingPrivileges, "there are no credentials".into());
        }
        let picture = super::picture(&world);
        let (reason, why) = case(&picture, "a/shop").leaving.clone().unwrap();
        assert_eq!((reason, world.claims.len()), (Reason::CleanupFailed, 1));
        assert!(why.contains(said) && why.contains("there are no credentials"), "{why}");
        assert_eq!(why.contains("settings of then"), !said.is_empty(), "{why}");
        world.records.clear();
        settle(&mut world);
        assert!(world.claims.is_empty() && world.orders.is_empty());
    }
}

#[test]
fn the_id_of_a_zone_of_route_53_says_where_it_is_whatever_domains_may_be_asked_for() {
    let mut world = world();
    world.settings.dns.provider = DnsProviderKind::Aws;
    world.settings.domains = vec!["apps.example.com".into()];
    ask(&mut world, "a/shop", json!({"zoneId": "Z1", "hostname": "shop.apps.example.com"}));
    act(&mut world);
    world.settings.domains = vec!["example.com".into()];
    let picture = settle(&mut world);
    let shop = case(&picture, "a/shop");
    assert!(shop.is_ready(), "{shop:#?}");
    assert_eq!(shop.publications[0].zone.domain.as_str(), "example.com");
    // More names may be asked for by now, with those that it has.
    change(&mut world, "a/shop", |request| {
        request.spec.additional_hostnames = vec!["www.example.com".into()];
    });
    assert!(case(&settle(&mut world), "a/shop").is_ready());
    assert_eq!(world.claims.len(), 2);
    delete(&mut world, "a/shop");
    settle(&mut world);
    assert!(world.requests.is_empty() && world.claims.is_empty() && world.orders.is_empty());
}

/// A world of Route 53 with a request whose zone there is not, and the order that waits for its proof.
fn mistyped() -> World {
    let mut world = world();
    world.settings.dns.provider = DnsProviderKind::Aws;
    world.settings.domains = vec!["example.com".into()];
    ask(&mut world, "a/shop", json!({"zoneId": "Z0TYPO", "hostname": "shop.example.com"}));
    lose_the_zone(&mut world);
    act(&mut world);
    act(&mut world);
    for order in world.orders.values_mut() {
        let order = Arc::make_mut(order);
        order.issued = None;
        order.proofs = vec![Proof::Cname { name: "_x.shop.example.com".into(), target: "y.test".into() }];
    }
    world.records.clear();
    world
}

/// The provider knows nothing of the zone.
fn lose_the_zone(world: &mut World) {
    let trouble = (Reason::ZoneNotFound, "no zone Z0TYPO".to_owned());
    for case in picture(world).cases.into_values() {
        world
            .broken_zones
            .extend(case.zone.filter(|zone| zone.key.id == "Z0TYPO").map(|zone| (zone.key, trouble.clone())));
    }
}

/// Acts once; the provider knows nothing of the zone that there is not.
fn act_without_a_zone(world: &mut World) -> Picture {
    lose_the_zone(world);
    let picture = act(world);
    for (_, told) in world.records.iter_mut().filter(|((zone, ..), _)| zone.id == "Z0TYPO") {
        told.progress = Progress::Failed(Reason::ZoneNotFound, "no zone Z0TYPO".into());
    }
    picture
}

fn settle_without_a_zone(world: &mut World) -> Picture {
    for _ in 0..20 {
        act_without_a_zone(world);
    }
    picture(world)
}

#[test]
fn a_zone_that_never_was_keeps_no_name() {
    let mut world = mistyped();
    let picture = settle_without_a_zone(&mut world);
    assert!(!case(&picture, "a/shop").is_ready());
    assert_eq!((world.claims.len(), world.orders.len()), (1, 1));
    // By deletion.
    let mut deleted = world.clone();
    delete(&mut deleted, "a/shop");
    settle_without_a_zone(&mut deleted);
    assert!(deleted.requests.is_empty() && deleted.claims.is_empty() && deleted.orders.is_empty());
    // By a correction, and then by deletion at any moment.
    change(&mut world, "a/shop", |request| request.spec.zone_id = "Z1".into());
    let mut moments = vec![world.clone()];
    for _ in 0..8 {
        act_without_a_zone(&mut world);
        moments.push(world.clone());
    }
    for mut moment in moments {
        let mut deleted = moment.clone();
        let picture = settle_without_a_zone(&mut moment);
        assert!(case(&picture, "a/shop").is_ready());
        let zones: Vec<&str> = moment.claims.values().map(|claim| claim.spec.zone_id.as_str()).collect();
        assert_eq!((zones, moment.orders.len()), (vec!["Z1"], 1));
        delete(&mut deleted, "a/shop");
        settle_without_a_zone(&mut deleted);
        assert!(deleted.requests.is_empty() && deleted.claims.is_empty(), "{:#?}", deleted.claims);
    }
}

#[test]
fn a_zone_that_is_out_of_sight_keeps_what_was_written_there() {
    let mut world = mistyped();
    // It was there when the name was published.
    world.orders.clear();
    world.broken_zones.clear();
    settle(&mut world);
    delete(&mut world, "a/shop");
    let picture = settle_without_a_zone(&mut world);
    let (reason, why) = case(&picture, "a/shop").leaving.clone().unwrap();
    assert!(reason == Reason::CleanupFailed && why.contains("no zone Z0TYPO"), "{reason:?} {why}");
    assert_eq!(world.claims.len(), 1);
}

#[test]
fn a_name_stays_held_where_its_record_is_though_it_is_served_in_another_zone_by_now() {
    let mut world = mistyped();
    world.orders.clear();
    world.broken_zones.clear();
    settle(&mut world);
    change(&mut world, "a/shop", |request| request.spec.zone_id = "Z1".into());
    let picture = settle_without_a_zone(&mut world);
    let shop = case(&picture, "a/shop");
    assert!(shop.is_ready(), "{shop:#?}");
    assert_eq!(shop.leaving.as_ref().map(|(reason, _)| *reason), Some(Reason::CleanupFailed));
    assert_eq!(world.claims.len(), 2, "{:#?}", world.claims);
}

#[test]
fn a_name_stays_held_where_its_record_is_though_the_request_was_never_ready() {
    let mut world = mistyped();
    world.orders.clear();
    world.broken_zones.clear();
    change(&mut world, "a/shop", |request| {
        request.spec.additional_hostnames = vec!["taken.example.com".into()];
    });
    for _ in 0..10 {
        act(&mut world);
        for (_, told) in
            world.records.iter_mut().filter(|((_, name, _), _)| name.as_str() == "taken.example.com")
        {
            told.progress = Progress::Failed(Reason::RecordNotOwned, "it is theirs".into());
        }
    }
    let wanted = |want: &Want| matches!(want, Want::Addresses(..));
    assert!(world.records.iter().any(|(_, told)| wanted(&told.want) && told.progress == Progress::Settled));
    assert!(!case(&picture(&world), "a/shop").is_ready());
    delete(&mut world, "a/shop");
    settle_without_a_zone(&mut world);
    assert_eq!(world.claims.len(), 2, "{:#?}", world.claims);
}

#[test]
fn a_claim_that_says_nothing_of_its_provider_is_taken_back_by_the_one_of_the_settings() {
    let mut world = world();
    world.settings.domains = vec!["example.com".into()];
    name(&mut world, "a/shop", "shop.example.com");
    settle(&mut world);
    for claim in world.claims.values_mut() {
        let spec = &mut Arc::make_mut(claim).spec;
        (spec.dns, spec.domain) = (None, None);
    }
    for order in world.orders.values_mut() {
        Arc::make_mut(order).origin = None;
    }
    assert!(case(&settle(&mut world), "a/shop").is_ready());
    // It is said before the settings are others.
    let claim = world.claims.values().next().unwrap().clone();
    let origin = missing_origin(&claim.spec, &world).unwrap();
    assert_eq!((origin.dns.provider, origin.domain.as_str()), (DnsProviderKind::Local, "example.com"));
    let mut said = world.clone();
    let spec = &mut Arc::make_mut(said.claims.values_mut().next().unwrap()).spec;
    (spec.dns, spec.domain) = (Some(origin.dns), Some(origin.domain));
    assert_eq!(missing_origin(spec, &world), None);
    said.settings.dns.provider = DnsProviderKind::Aws;
    delete(&mut said, "a/shop");
    let picture = settle(&mut said);
    assert!(said.claims.is_empty() && picture.cases.is_empty(), "{picture:#?}");
    delete(&mut world, "a/shop");
    let mut elsewhere = world.clone();
    settle(&mut world);
    assert!(world.claims.is_empty());
    // Nobody knows the zone any more: what to do is said.
    elsewhere.settings.dns.provider = DnsProviderKind::Aws;
    elsewhere.settings.domains = vec!["example.org".into()];
    let picture = settle(&mut elsewhere);
    let (reason, why) = case(&picture, "a/shop").leaving.clone().unwrap();
    assert!(reason == Reason::CleanupFailed && why.contains("--hostname-domain"), "{reason:?} {why}");
    assert_eq!(elsewhere.claims.len(), 1);
}

#[test]
fn what_was_written_is_known_after_a_restart_though_its_mark_is_lost() {
    let mut world = world();
    ask(&mut world, "a/shop", json!({"zoneId": "example.com", "hostname": "old.example.com", "ttl": 77}));
    settle(&mut world);
    let written = Want::Addresses(["192.0.2.1".parse().unwrap(), "2001:db8::1".parse().unwrap()].into(), 77);
    let before = |world: &World| {
        let picture = picture(world);
        let case = case(&picture, "a/shop");
        let removed = case.publications.iter().find(|one| one.want == Want::Nothing);
        removed.expect("it is removed").before.clone()
    };
    // By deletion.
    let mut deleted = world.clone();
    delete(&mut deleted, "a/shop");
    deleted.records.clear();
    assert_eq!(before(&deleted), Some(written.clone()));
    // And by a change, also when the status has the new name already.
    change(&mut world, "a/shop", |request| request.spec.hostname = "new.example.com".into());
    let at = ObjectRef::new("a", "shop");
    for _ in 0..20 {
        let picture = picture(&world);
        let case = case(&picture, "a/shop");
        if case.publications.iter().any(|one| one.want == Want::Nothing) {
            let previous = world.requests[&at].status.clone().unwrap();
            let next = status::status(case, &previous, &world, &status::Waiting::new());
            assert!(next.hostnames == ["new.example.com"] && next.records.len() == 4, "{next:?}");
            Arc::make_mut(world.requests.get_mut(&at).unwrap()).status = Some(next);
            break;
        }
        act(&mut world);
    }
    assert_eq!(before(&world), Some(written));
    settle(&mut world);
    let status = world.requests[&at].status.clone().unwrap();
    assert!(status.records.iter().all(|record| record.name == "new.example.com"), "{:?}", status.records);
}
