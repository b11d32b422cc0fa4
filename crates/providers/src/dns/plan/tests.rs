use super::*;

fn name(text: &str) -> Name {
    Name::parse(text).unwrap()
}

fn zone() -> Zone {
    Zone { id: "Z1".into(), domain: name("example.com") }
}

fn addresses(list: &[&str]) -> Wanted {
    Wanted::Addresses { addresses: list.iter().map(|text| text.parse().unwrap()).collect(), ttl: 60 }
}

fn cname(target: &str) -> Wanted {
    Wanted::Canonical { target: name(target), ttl: 60 }
}

fn change(object: &str, at: &str, want: Wanted) -> Change {
    Change { name: name(at), object: object.into(), want, settled: None }
}

/// Applies changes one by one to what there is, as a provider does.
struct World {
    lingers: bool,
    instance: &'static str,
    found: BTreeMap<Name, Found>,
}

impl World {
    fn new(lingers: bool) -> Self {
        Self { lingers, instance: "one", found: BTreeMap::new() }
    }

    fn foreign(mut self, at: &str, kind: Kind, records: Records) -> Self {
        self.found.entry(name(at)).or_default().records.insert(kind, records);
        self
    }

    fn plan(&self, changes: &[Change]) -> Plan {
        let zone = zone();
        let planner =
            Planner { instance: self.instance, zone: &zone, lingers: self.lingers, balancer: records };
        planner.plan(changes, self.found.clone())
    }

    /// What is said of it: `kept`, `wrote`, or why it was refused.
    fn apply(&mut self, change: Change) -> String {
        let Step { name, verdict } = self.plan(&[change]).steps.remove(0);
        match verdict {
            Verdict::Keep => "kept".into(),
            Verdict::Refuse(error) => error.to_string(),
            Verdict::Write { after, .. } => {
                self.found.insert(name, after);
                "wrote".into()
            }
        }
    }

    fn at(&self, at: &str) -> Found {
        self.found.get(&name(at)).cloned().unwrap_or_default()
    }
}

#[test]
fn writes_once_and_removes_without_a_trace() {
    let mut world = World::new(false);
    let want = addresses(&["192.0.2.1", "2001:db8::1"]);
    assert_eq!(world.apply(change("a/x", "x.example.com", want.clone())), "wrote");
    assert_eq!(world.apply(change("a/x", "x.example.com", want)), "kept");
    assert_eq!(world.at("x.example.com").records.len(), 2);
    assert_eq!(world.apply(change("a/x", "x.example.com", addresses(&["192.0.2.2"]))), "wrote");
    assert_eq!(world.at("x.example.com").records.len(), 1, "AAAA is gone");
    assert_eq!(world.apply(change("a/x", "x.example.com", cname("lb.test"))), "wrote");
    assert!(world.at("x.example.com").records.contains_key(&Kind::Cname));
    assert_eq!(world.apply(change("a/x", "x.example.com", Wanted::Nothing)), "wrote");
    assert!(world.at("x.example.com").is_empty());
    assert_eq!(world.apply(change("a/x", "x.example.com", Wanted::Nothing)), "kept");
}

#[test]
fn refuses_what_it_did_not_write() {
    let spf = || Records::Txt(["v=spf1 -all".into()].into(), 60);
    let mut world = World::new(false)
        .foreign("a.example.com", Kind::A, Records::A(["192.0.2.9".parse().unwrap()].into(), 60))
        .foreign("c.example.com", Kind::Cname, Records::Cname(name("old.test"), 60))
        .foreign("example.com", Kind::Txt, spf());
    let said = world.apply(change("a/x", "a.example.com", addresses(&["2001:db8::1"])));
    assert_eq!(
        said,
        "a.example.com has A 192.0.2.9 (ttl 60), which nobody here wrote: remove that, or use another name"
    );
    for (at, want) in [
        ("c.example.com", addresses(&["192.0.2.1"])),
        ("c.example.com", Wanted::Texts { texts: ["t".into()].into(), ttl: 60 }),
        ("a.example.com", cname("lb.test")),
        ("example.com", Wanted::Texts { texts: ["t".into()].into(), ttl: 60 }),
    ] {
        assert!(world.apply(change("a/x", at, want)).contains("nobody here wrote"), "{at}");
    }
    // Texts of others beside addresses are no matter, and outlive them.
    assert_eq!(world.apply(change("a/x", "example.com", addresses(&["192.0.2.1"]))), "wrote");
    assert_eq!(world.apply(change("a/x", "example.com", Wanted::Nothing)), "wrote");
    assert_eq!(world.at("example.com").records, [(Kind::Txt, spf())].into());
    // Not ours, so there is nothing to remove.
    assert_eq!(world.apply(change("a/x", "a.example.com", Wanted::Nothing)), "kept");
}

#[test]
fn two_controllers_do_not_fight() {
    let mut world = World::new(false);
    assert_eq!(world.apply(change("a/x", "x.example.com", addresses(&["192.0.2.1"]))), "wrote");
    world.instance = "two";
    let said = world.apply(change("a/x", "x.example.com", addresses(&["192.0.2.1"])));
    assert!(said.contains("belongs to a/x of controller one"), "{said}");
    assert_eq!(world.apply(change("a/x", "x.example.com", Wanted::Nothing)), "kept");
    assert_eq!(world.at("x.example.com").records.len(), 1);
}

#[test]
fn objects_share_what_they_want_alike() {
    let mut world = World::new(false);
    let at = "_proof.example.com";
    assert_eq!(world.apply(change("a/x", at, cname("acm.test"))), "wrote");
    let said = world.apply(change("b/y", at, cname("other.test")));
    assert!(said.contains("belongs to a/x of controller one"), "{said}");
    assert_eq!(world.apply(change("b/y", at, cname("acm.test"))), "wrote");
    assert_eq!(world.apply(change("a/x", at, cname("acm.test"))), "kept");
    assert_eq!(world.apply(change("a/x", at, Wanted::Nothing)), "wrote");
    assert_eq!(world.at(at).records.len(), 1, "b/y still wants it");
    assert_eq!(world.apply(change("b/y", at, Wanted::Nothing)), "wrote");
    assert!(world.at(at).is_empty());
}

#[test]
fn a_mark_lingers_until_nobody_serves_the_records() {
    let mut world = World::new(true);
    assert_eq!(world.apply(change("a/x", "x.example.com", addresses(&["192.0.2.1"]))), "wrote");
    assert_eq!(world.apply(change("a/x", "x.example.com", Wanted::Nothing)), "wrote");
    let left = world.at("x.example.com");
    assert!(left.records.is_empty() && left.owners.iter().all(|owner| owner.leaving) && !left.is_empty());
    assert_eq!(world.apply(change("a/x", "x.example.com", Wanted::Nothing)), "kept");
    assert_eq!(world.at("x.example.com"), left);
    // The name may be written again, also for somebody else.
    assert_eq!(world.apply(change("b/y", "x.example.com", addresses(&["192.0.2.2"]))), "wrote");
    assert_eq!(world.at("x.example.com").owners.len(), 1);
}

#[test]
fn a_lost_mark_is_repaired_and_never_leaves_a_record_behind() {
    let want = addresses(&["192.0.2.1"]);
    let lost = || {
        let records = Records::A(["192.0.2.1".parse().unwrap()].into(), 60);
        World::new(false).foreign("x.example.com", Kind::A, records)
    };
    let known = |want: Wanted| Change {
        settled: Some(addresses(&["192.0.2.1"])),
        ..change("a/x", "x.example.com", want)
    };
    let mut world = lost();
    assert_eq!(world.apply(known(want.clone())), "wrote");
    assert_eq!(world.at("x.example.com").owners.len(), 1);
    let mut world = lost();
    assert_eq!(world.apply(known(Wanted::Nothing)), "wrote");
    assert!(world.at("x.example.com").is_empty());
    // Somebody else has the name now.
    let other = Records::A(["192.0.2.7".parse().unwrap()].into(), 60);
    let mut world = World::new(false).foreign("x.example.com", Kind::A, other);
    assert_eq!(world.apply(known(Wanted::Nothing)), "kept");
    assert!(world.apply(known(want)).contains("nobody here wrote"));
}

#[test]
fn bad_changes_are_refused_with_a_remedy() {
    let mut world = World::new(false);
    for (change, says) in [
        (change("a/x", "x.example.org", cname("lb.test")), "not in the zone example.com"),
        (change("a/x", "example.com", cname("lb.test")), "top of its zone"),
        (change("a/x", "x.example.com", addresses(&[])), "no address"),
        (change("a x", "x.example.com", cname("lb.test")), "can't be an object"),
        (
            change("a/x", "x.example.com", Wanted::Texts { texts: ["x".repeat(256)].into(), ttl: 1 }),
            "up to 255",
        ),
    ] {
        let said = world.apply(change);
        assert!(said.contains(says), "{said}");
    }
    // What can't be there needs no removal.
    assert_eq!(world.apply(change("a/x", "x.example.org", Wanted::Nothing)), "kept");
}

#[test]
fn people_see_what_would_be_done() {
    let mut world = World::new(false).foreign(
        "taken.example.com",
        Kind::A,
        Records::A(["192.0.2.9".parse().unwrap()].into(), 300),
    );
    world.apply(change("a/x", "x.example.com", addresses(&["192.0.2.1"])));
    world.apply(change("a/y", "y.example.com", cname("lb.test")));
    let plan = world.plan(&[
        change("a/x", "x.example.com", addresses(&["192.0.2.2", "2001:db8::2"])),
        change("a/y", "y.example.com", Wanted::Nothing),
        change("a/z", "*.z.example.com", cname("lb.test")),
        change("a/t", "taken.example.com", cname("lb.test")),
        change("a/y", "y.example.com", Wanted::Nothing),
    ]);
    let expected = "\
zone example.com
~ x.example.com A 192.0.2.1 (ttl 60) → 192.0.2.2 (ttl 60)
+ x.example.com AAAA 2001:db8::2 (ttl 60)
+ x.example.com mark of a/x of controller one
- x.example.com mark of a/x of controller one
- y.example.com CNAME lb.test (ttl 60)
- y.example.com mark of a/y of controller one
+ *.z.example.com CNAME lb.test (ttl 60)
+ *.z.example.com mark of a/z of controller one
! taken.example.com: taken.example.com has A 192.0.2.9 (ttl 300), which nobody here wrote: remove that, or use another name
= y.example.com
";
    assert_eq!(plan.to_string(), expected);
}
