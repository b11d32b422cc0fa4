use super::*;

fn plan(endpoint: &str, name: &str) -> Plan {
    serde_saphyr::from_str(&format!(
        "listeners: [{{name: l, bind: '127.0.0.1:1', protocol: {{tls: {{routes: [\
         {{name: r, serverNames: ['{name}', b.test, '*.c.test'], action: {{forward: a}}}}]}}}}}}]\n\
         clusters: [{{name: a, endpoints: [{{address: '{endpoint}'}}]}}, {{name: b}}]"
    ))
    .unwrap()
}

fn first() -> Snapshot {
    Snapshot::default().next(Arc::new(plan("10.0.0.1:1", "a.test")))
}

fn versions(snapshot: &Snapshot, kind: Kind) -> Vec<(&str, &str)> {
    let mut found: Vec<_> =
        snapshot.set(kind).values().map(|r| (r.name.as_str(), r.version.as_str())).collect();
    found.sort_unstable();
    found
}

/// What differs between two snapshots, by type and name.
fn differing<'a>(old: &'a Snapshot, new: &'a Snapshot) -> Vec<(Kind, &'a str)> {
    let of = |kind| old.set(kind).differing(new.set(kind)).map(move |name| (kind, name));
    Kind::ALL.into_iter().flat_map(of).collect()
}

#[test]
fn versions_are_by_content_and_the_same_in_every_run() {
    let (first, again) = (first(), first());
    for kind in Kind::ALL {
        assert_eq!(versions(&first, kind), versions(&again, kind), "{kind:?}");
    }
}

#[test]
fn an_endpoint_changes_one_resource_and_shares_the_rest() {
    let first = first();
    let second = first.next(Arc::new(plan("10.0.0.2:1", "a.test")));
    assert_eq!(differing(&first, &second), [(Kind::Endpoints, "a")]);
    assert_ne!(versions(&first, Kind::Endpoints), versions(&second, Kind::Endpoints));
    assert_eq!(second.number, 2);
}

#[test]
fn a_name_or_an_allowed_source_changes_the_listener_alone() {
    let first = first();
    let named = first.next(Arc::new(plan("10.0.0.1:1", "z.test")));
    let mut restricted = plan("10.0.0.1:1", "z.test");
    restricted.listeners[0].allowed_sources = vec!["10.0.0.0/8".parse().unwrap()];
    let restricted = named.next(Arc::new(restricted));
    for (old, new) in [(&first, &named), (&named, &restricted)] {
        assert_eq!(differing(old, new), [(Kind::Listener, "l")]);
        assert_ne!(versions(old, Kind::Listener), versions(new, Kind::Listener));
    }
}

#[test]
fn a_listener_follows_what_it_shows_of_its_clusters_and_of_the_limits() {
    let first = first();
    let mut next = plan("10.0.0.1:1", "a.test");
    next.clusters[0].retries = 7;
    let second = first.next(Arc::new(next.clone()));
    assert_eq!(differing(&first, &second), [(Kind::Cluster, "a"), (Kind::Listener, "l")]);
    // No listener leads to this one.
    next.clusters[1].retries = 7;
    let third = second.next(Arc::new(next.clone()));
    assert_eq!(differing(&second, &third), [(Kind::Cluster, "b")]);
    next.limits.new_connections_per_second = causeway_ir::Limit::new(5);
    let fourth = third.next(Arc::new(next));
    assert_eq!(differing(&third, &fourth), [(Kind::Listener, "l")]);
}

#[test]
fn what_leaves_the_plan_leaves_the_snapshot_and_order_does_not_matter() {
    let first = first();
    let mut turned = plan("10.0.0.1:1", "a.test");
    turned.clusters.reverse();
    let turned = first.next(Arc::new(turned));
    assert_eq!(differing(&first, &turned), []);
    let empty = turned.next(Arc::new(Plan::default()));
    for kind in Kind::ALL {
        assert_eq!(empty.set(kind).values().count(), 0, "{kind:?}");
    }
}
