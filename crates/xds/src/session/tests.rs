use causeway_ir::Plan;

use super::*;

fn snapshot(before: &Snapshot, text: &str) -> Snapshot {
    let plan: Plan = serde_saphyr::from_str(text).unwrap();
    before.next(Arc::new(plan))
}

fn one_route(cluster: &str, clusters: &str) -> String {
    format!(
        "{{listeners: [{{name: l, bind: '127.0.0.1:1', protocol: {{tcp: {{name: r, action: {{forward: {cluster}}}}}}}}}], \
         clusters: [{clusters}]}}"
    )
}

/// A client that asks as Envoy does.
struct Client {
    session: Session,
    now: Instant,
}

impl Client {
    fn new(delta: bool) -> Self {
        let now = Instant::now();
        Self { session: Session::new(delta, now), now }
    }

    fn ask(&mut self, kind: Kind, names: &[&str], nonce: &str, error: Option<&str>) {
        let names: Vec<String> = names.iter().map(|&name| name.to_owned()).collect();
        let names = if self.session.delta {
            Names::Change { subscribe: names, unsubscribe: Vec::new() }
        } else {
            Names::Exactly(names)
        };
        let request = Request {
            kind,
            names,
            initial_versions: HashMap::new(),
            nonce: nonce.to_owned(),
            error: error.map(str::to_owned),
        };
        assert!(self.session.receive(request, self.now));
    }

    fn sends(&mut self, snapshot: &Snapshot) -> Response {
        match self.session.next(snapshot, self.now) {
            Next::Send(response) => response,
            other => panic!("should send: {other:?}"),
        }
    }

    fn is_silent(&mut self, snapshot: &Snapshot) {
        let next = self.session.next(snapshot, self.now);
        assert!(matches!(next, Next::Nothing), "{next:?}");
    }

    /// Brings a client to the state of a snapshot.
    fn settle(&mut self, snapshot: &Snapshot, endpoints: &[&str]) {
        self.ask(Kind::Cluster, &[], "", None);
        let clusters = self.sends(snapshot);
        self.ask(Kind::Endpoints, endpoints, "", None);
        self.acknowledge(&clusters, &[]);
        let assigned = self.sends(snapshot);
        assert_eq!(assigned.kind, Kind::Endpoints);
        self.acknowledge(&assigned, endpoints);
        self.ask(Kind::Listener, &[], "", None);
        let listeners = self.sends(snapshot);
        assert_eq!(listeners.kind, Kind::Listener);
        self.acknowledge(&listeners, &[]);
        self.is_silent(snapshot);
        assert!(self.session.is_settled(snapshot));
    }

    fn acknowledge(&mut self, response: &Response, names: &[&str]) {
        let names = if self.session.delta { &[] } else { names };
        self.ask(response.kind, names, &response.nonce, None);
    }
}

fn names(response: &Response) -> Vec<&str> {
    let mut names: Vec<&str> = response.resources.iter().map(|resource| resource.name.as_str()).collect();
    names.sort_unstable();
    names
}

#[test]
fn a_change_of_one_endpoint_sends_one_assignment() {
    for delta in [true, false] {
        let first = snapshot(&Snapshot::default(), &one_route("a", "{name: a}, {name: b}"));
        let mut client = Client::new(delta);
        client.settle(&first, &["a", "b"]);
        let second =
            snapshot(&first, &one_route("a", "{name: a}, {name: b, endpoints: [{address: '10.0.0.1:1'}]}"));
        let sent = client.sends(&second);
        assert_eq!((sent.kind, names(&sent)), (Kind::Endpoints, vec!["b"]), "delta {delta}");
        client.is_silent(&second);
        assert!(!client.session.is_settled(&second));
        client.acknowledge(&sent, &["a", "b"]);
        client.is_silent(&second);
        assert!(client.session.is_settled(&second));
    }
}

#[test]
fn makes_before_it_breaks() {
    for delta in [true, false] {
        let first = snapshot(&Snapshot::default(), &one_route("a", "{name: a}"));
        let mut client = Client::new(delta);
        client.settle(&first, &["a"]);
        let second = snapshot(&first, &one_route("b", "{name: b}"));
        let clusters = client.sends(&second);
        let expected = if delta { vec!["b"] } else { vec!["a", "b"] };
        assert_eq!((clusters.kind, names(&clusters)), (Kind::Cluster, expected));
        assert!(clusters.removed.is_empty());
        client.is_silent(&second);
        client.acknowledge(&clusters, &[]);
        // The new cluster is known, but not yet its endpoints: the listener waits.
        assert!(matches!(client.session.next(&second, client.now), Next::Wait(_)));
        client.ask(Kind::Endpoints, if delta { &["b"] } else { &["a", "b"] }, "", None);
        let endpoints = client.sends(&second);
        assert_eq!((endpoints.kind, names(&endpoints)), (Kind::Endpoints, vec!["b"]));
        client.acknowledge(&endpoints, &["a", "b"]);
        let listeners = client.sends(&second);
        assert_eq!((listeners.kind, names(&listeners)), (Kind::Listener, vec!["l"]));
        client.is_silent(&second);
        client.acknowledge(&listeners, &[]);
        let removal = client.sends(&second);
        assert_eq!(removal.kind, Kind::Cluster);
        if delta {
            assert_eq!((removal.removed.as_slice(), names(&removal)), (&["a".to_owned()][..], vec![]));
        } else {
            assert_eq!(names(&removal), ["b"]);
        }
        client.acknowledge(&removal, &[]);
        client.is_silent(&second);
        assert!(client.session.is_settled(&second));
    }
}

#[test]
fn a_refused_version_is_kept_with_its_words_and_not_sent_again() {
    for delta in [true, false] {
        let first = snapshot(&Snapshot::default(), &one_route("a", "{name: a}"));
        let mut client = Client::new(delta);
        client.settle(&first, &["a"]);
        let bad = snapshot(&first, &one_route("a", "{name: a}").replace("127.0.0.1:1", "192.0.2.1:1"));
        let sent = client.sends(&bad);
        client.ask(Kind::Listener, &[], &sent.nonce, Some("listener l: cannot bind"));
        client.is_silent(&bad);
        assert!(client.session.is_settled(&bad));
        let nack = client.session.nacks().next().unwrap().clone();
        assert_eq!((nack.kind, nack.resources.as_slice()), ("listener", &["l".to_owned()][..]));
        assert_eq!(nack.message, "listener l: cannot bind");
        let mended = snapshot(&bad, &one_route("a", "{name: a}").replace("127.0.0.1:1", "127.0.0.1:2"));
        let sent = client.sends(&mended);
        assert_eq!(sent.kind, Kind::Listener);
        client.acknowledge(&sent, &[]);
        client.is_silent(&mended);
        assert_eq!(client.session.nacks().count(), 0);
    }
}

#[test]
fn clusters_stay_while_a_refused_listener_may_use_the_old_ones() {
    let first = snapshot(&Snapshot::default(), &one_route("a", "{name: a}"));
    let mut client = Client::new(true);
    client.settle(&first, &["a"]);
    let bad = snapshot(&first, &one_route("b", "{name: b}"));
    let clusters = client.sends(&bad);
    client.ask(Kind::Endpoints, &["b"], "", None);
    client.acknowledge(&clusters, &[]);
    let endpoints = client.sends(&bad);
    client.acknowledge(&endpoints, &[]);
    let listeners = client.sends(&bad);
    client.ask(Kind::Listener, &[], &listeners.nonce, Some("no"));
    client.is_silent(&bad);
    assert!(client.session.is_settled(&bad));
}

#[test]
fn a_changed_cluster_gets_its_endpoints_again() {
    for delta in [true, false] {
        let first = snapshot(&Snapshot::default(), &one_route("a", "{name: a}"));
        let mut client = Client::new(delta);
        client.settle(&first, &["a"]);
        let second = snapshot(&first, &one_route("a", "{name: a, connectTimeout: 1s}"));
        let clusters = client.sends(&second);
        assert_eq!(clusters.kind, Kind::Cluster);
        client.acknowledge(&clusters, &[]);
        let endpoints = client.sends(&second);
        assert_eq!((endpoints.kind, names(&endpoints)), (Kind::Endpoints, vec!["a"]));
    }
}

#[test]
fn endpoints_do_not_wait_until_their_cluster_is_acknowledged_and_listeners_do() {
    for delta in [true, false] {
        let first = snapshot(&Snapshot::default(), &one_route("a", "{name: a}"));
        let mut client = Client::new(delta);
        client.settle(&first, &["a"]);
        let second = snapshot(&first, &one_route("b", "{name: a, connectTimeout: 1s}, {name: b}"));
        let clusters = client.sends(&second);
        let wanted: &[&str] = if delta { &["b"] } else { &["a", "b"] };
        client.ask(Kind::Endpoints, wanted, "", None);
        let endpoints = client.sends(&second);
        assert_eq!((endpoints.kind, endpoints.resources.len()), (Kind::Endpoints, 2));
        client.acknowledge(&endpoints, &["a", "b"]);
        client.is_silent(&second);
        client.acknowledge(&clusters, &[]);
        assert_eq!(client.sends(&second).kind, Kind::Listener);
    }
}

#[test]
fn who_comes_back_gets_only_what_differs() {
    let first = snapshot(&Snapshot::default(), &one_route("a", "{name: a}, {name: b}, {name: old}"));
    let versions = |kind, snapshot: &Snapshot| -> HashMap<String, String> {
        snapshot.set(kind).values().map(|r| (r.name.clone(), r.version.clone())).collect()
    };
    let second =
        snapshot(&first, &one_route("a", "{name: a}, {name: b, endpoints: [{address: '10.0.0.1:1'}]}"));
    let mut client = Client::new(true);
    let now = client.now;
    for (kind, subscribe) in
        [(Kind::Cluster, vec![]), (Kind::Endpoints, vec!["a", "b", "old"]), (Kind::Listener, vec![])]
    {
        let request = Request {
            kind,
            names: Names::Change {
                subscribe: subscribe.into_iter().map(str::to_owned).collect(),
                unsubscribe: Vec::new(),
            },
            initial_versions: versions(kind, &first),
            nonce: String::new(),
            error: None,
        };
        assert!(client.session.receive(request, now));
    }
    let clusters = client.sends(&second);
    assert_eq!((clusters.kind, names(&clusters)), (Kind::Cluster, vec![]));
    client.acknowledge(&clusters, &[]);
    let endpoints = client.sends(&second);
    assert_eq!((endpoints.kind, names(&endpoints)), (Kind::Endpoints, vec!["b"]));
    client.acknowledge(&endpoints, &[]);
    let listeners = client.sends(&second);
    assert_eq!((listeners.kind, names(&listeners)), (Kind::Listener, vec![]));
    client.acknowledge(&listeners, &[]);
    let removal = client.sends(&second);
    assert_eq!(removal.removed, ["old"]);
}

#[test]
fn an_empty_plan_is_answered_too() {
    for delta in [true, false] {
        let empty = snapshot(&Snapshot::default(), "{}");
        let mut client = Client::new(delta);
        client.ask(Kind::Cluster, &[], "", None);
        let sent = client.sends(&empty);
        assert!(sent.resources.is_empty());
        client.is_silent(&empty);
    }
}

#[test]
fn a_stale_answer_is_no_acknowledgement() {
    let first = snapshot(&Snapshot::default(), &one_route("a", "{name: a}"));
    let mut client = Client::new(true);
    client.ask(Kind::Cluster, &[], "", None);
    client.sends(&first);
    client.ask(Kind::Cluster, &[], "99", None);
    client.is_silent(&first);
    assert!(!client.session.is_settled(&first));
}

#[test]
fn nothing_is_said_before_there_is_a_plan() {
    let mut client = Client::new(true);
    client.ask(Kind::Cluster, &[], "", None);
    client.is_silent(&Snapshot::default());
}

#[test]
fn names_that_do_not_exist_are_said_to_be_absent_once() {
    let first = snapshot(&Snapshot::default(), &one_route("a", "{name: a}"));
    let mut client = Client::new(true);
    client.ask(Kind::Endpoints, &["ghost"], "", None);
    let sent = client.sends(&first);
    assert_eq!(sent.removed, ["ghost"]);
    client.acknowledge(&sent, &[]);
    client.is_silent(&first);
}

/// What is sent while a cluster's endpoints are under way must reach the cluster that takes their place.
#[test]
fn endpoints_that_were_under_way_when_their_cluster_changed_are_sent_again() {
    for delta in [true, false] {
        let first = snapshot(&Snapshot::default(), &one_route("a", "{name: a}"));
        let mut client = Client::new(delta);
        client.settle(&first, &["a"]);
        let moved = "{name: a, endpoints: [{address: '10.0.0.1:1'}]}";
        let second = snapshot(&first, &one_route("a", moved));
        let endpoints = client.sends(&second);
        assert_eq!(endpoints.kind, Kind::Endpoints);
        let changed = "{name: a, connectTimeout: 1s, endpoints: [{address: '10.0.0.1:1'}]}";
        let third = snapshot(&second, &one_route("a", changed));
        let clusters = client.sends(&third);
        assert_eq!(clusters.kind, Kind::Cluster);
        // Envoy has taken them for the old cluster, and only then hears of the new one.
        client.acknowledge(&endpoints, &["a"]);
        let again = client.sends(&third);
        assert_eq!((again.kind, names(&again)), (Kind::Endpoints, vec!["a"]), "delta {delta}");
        client.acknowledge(&again, &["a"]);
        client.acknowledge(&clusters, &[]);
        client.is_silent(&third);
        assert!(client.session.is_settled(&third));
    }
}

#[test]
fn a_client_without_clusters_asks_for_no_endpoints_and_gets_none() {
    for delta in [true, false] {
        let first = snapshot(&Snapshot::default(), &one_route("a", "{name: a}"));
        let mut client = Client::new(delta);
        client.ask(Kind::Endpoints, &[], "", None);
        client.is_silent(&first);
    }
}

#[test]
fn a_client_that_has_named_resources_wants_none_when_it_names_none() {
    let first = snapshot(&Snapshot::default(), &one_route("a", "{name: a}, {name: b}"));
    let mut client = Client::new(false);
    client.ask(Kind::Cluster, &["a"], "", None);
    let sent = client.sends(&first);
    assert_eq!(names(&sent), ["a"]);
    client.ask(Kind::Cluster, &[], &sent.nonce, None);
    client.is_silent(&first);
}

#[test]
fn what_came_and_went_while_it_was_under_way_is_removed() {
    let first = snapshot(&Snapshot::default(), &one_route("a", "{name: a}"));
    let mut client = Client::new(true);
    client.settle(&first, &["a"]);
    let second = snapshot(&first, &one_route("a", "{name: a}, {name: brief}"));
    let sent = client.sends(&second);
    assert_eq!(names(&sent), ["brief"]);
    let third = snapshot(&second, &one_route("a", "{name: a}"));
    client.acknowledge(&sent, &[]);
    let removal = client.sends(&third);
    assert_eq!((removal.kind, removal.removed.as_slice()), (Kind::Cluster, &["brief".to_owned()][..]));
    client.acknowledge(&removal, &[]);
    client.is_silent(&third);
    assert!(client.session.is_settled(&third));
}

#[test]
fn a_client_that_asks_again_is_sent_it_again() {
    let first = snapshot(&Snapshot::default(), &one_route("a", "{name: a}"));
    let mut client = Client::new(true);
    client.settle(&first, &["a"]);
    client.ask(Kind::Endpoints, &["a"], "", None);
    assert_eq!(names(&client.sends(&first)), ["a"]);
}

#[test]
fn a_client_of_the_state_of_the_world_that_comes_again_keeps_its_clusters_until_its_listeners_have_gone() {
    let before = snapshot(&Snapshot::default(), &one_route("a", "{name: a}"));
    let mut client = Client::new(false);
    client.settle(&before, &["a"]);
    // The stream breaks, and the plan changes before the next one.
    let after = snapshot(&before, &one_route("b", "{name: b}"));
    let had = client.session.clusters();
    let mut client = Client::new(false);
    client.session.remember(had, &after);
    client.ask(Kind::Cluster, &[], "", None);
    let names = |response: &Response| -> Vec<String> {
        response.resources.iter().map(|resource| resource.name.clone()).collect()
    };
    let clusters = client.sends(&after);
    assert_eq!(names(&clusters), ["a", "b"], "the old one is still used");
    client.ask(Kind::Endpoints, &["a", "b"], "", None);
    client.acknowledge(&clusters, &[]);
    let endpoints = client.sends(&after);
    client.acknowledge(&endpoints, &["a", "b"]);
    client.ask(Kind::Listener, &[], "", None);
    let listeners = client.sends(&after);
    assert_eq!(listeners.kind, Kind::Listener);
    client.acknowledge(&listeners, &[]);
    let last = client.sends(&after);
    assert_eq!((last.kind, names(&last)), (Kind::Cluster, vec!["b".to_owned()]));
    client.acknowledge(&last, &[]);
    client.is_silent(&after);
}
