//! The providers with real peers: BIND and Knot for updates, Pebble for ACME, moto for AWS.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a failed step of a test should panic")]

mod acme;
#[cfg(feature = "aws")]
mod aws;
mod local;
mod rfc2136;

use std::collections::BTreeSet;

use causeway_providers::certificate::{Order, PrivateKey, ProofKind};
use causeway_providers::dns::{Change, DnsProvider, Found, Progress, Wanted, Zone};
use causeway_providers::{Error, Name};
use causeway_testkit::eventually;

fn name(text: &str) -> Name {
    Name::parse(text).unwrap()
}

fn addresses(list: &[&str]) -> Wanted {
    Wanted::Addresses { addresses: list.iter().map(|text| text.parse().unwrap()).collect(), ttl: 60 }
}

fn cname(target: &str) -> Wanted {
    Wanted::Canonical { target: name(target), ttl: 60 }
}

fn texts(list: &[&str]) -> Wanted {
    Wanted::Texts { texts: list.iter().map(|text| (*text).to_owned()).collect::<BTreeSet<_>>(), ttl: 60 }
}

fn change(object: &str, at: &str, want: Wanted) -> Change {
    Change { name: name(at), object: object.into(), want, settled: None }
}

/// Applies one change.
async fn apply(dns: &dyn DnsProvider, zone: &Zone, change: Change) -> Result<Progress, Error> {
    dns.apply(zone, &[change]).await.remove(0)
}

/// Applies one change until it is settled.
async fn settle(dns: &dyn DnsProvider, zone: &Zone, change: Change) {
    eventually(&format!("{} is settled", change.name), async || {
        match apply(dns, zone, change.clone()).await.unwrap() {
            Progress::Settled => Ok(()),
            Progress::Pending { waits_for } => Err(waits_for),
        }
    })
    .await;
}

async fn found(dns: &dyn DnsProvider, zone: &Zone, at: &str) -> Found {
    dns.observe(zone, &[name(at)]).await.unwrap().remove(&name(at)).unwrap()
}

fn order(id: &str, names: &[&str]) -> Order {
    Order {
        id: id.into(),
        serial: 1,
        names: names.iter().map(|text| name(text)).collect(),
        proof: ProofKind::Dns,
        key: Some(PrivateKey::generate().unwrap()),
        handle: None,
        held: None,
        replaces: None,
    }
}

/// What every provider of DNS does alike, in a zone `lab.test` in which `foreign` has an address that nobody of ours wrote.
async fn behaves(one: &dyn DnsProvider, two: &dyn DnsProvider, with_texts: bool) {
    let zone = one.zone("lab.test").await.unwrap();
    assert_eq!(zone.domain, name("lab.test"));
    assert!(matches!(one.zone("nowhere.test").await, Err(Error::ZoneNotFound { .. })));

    // Written, found, changed, and written by nobody else.
    let shop = |want| change("team-a/shop", "shop.lab.test", want);
    settle(one, &zone, shop(addresses(&["192.0.2.1", "2001:db8::1"]))).await;
    let first = found(one, &zone, "shop.lab.test").await;
    assert_eq!((first.records.len(), first.owners.len()), (2, 1), "{first:?}");
    settle(one, &zone, shop(addresses(&["192.0.2.2"]))).await;
    assert_eq!(found(one, &zone, "shop.lab.test").await.to_string(), "A 192.0.2.2 (ttl 60)");
    let error = apply(two, &zone, shop(addresses(&["192.0.2.3"]))).await.unwrap_err();
    assert!(error.to_string().contains("belongs to team-a/shop of controller one"), "{error}");
    settle(two, &zone, shop(Wanted::Nothing)).await;
    assert_eq!(found(one, &zone, "shop.lab.test").await.to_string(), "A 192.0.2.2 (ttl 60)");
    let taken = change("team-b/y", "shop.lab.test", addresses(&["192.0.2.9"]));
    assert!(matches!(apply(one, &zone, taken).await, Err(Error::NotOurs { .. })));

    // Foreign records stay as they are, and one refusal does not stop the others.
    let plan = [
        change("team-a/f", "foreign.lab.test", addresses(&["192.0.2.1"])),
        change("team-a/w", "*.apps.lab.test", addresses(&["192.0.2.5"])),
        change("team-a/out", "shop.example.com", addresses(&["192.0.2.5"])),
    ];
    let said = one.plan(&zone, &plan[..2]).await.unwrap().to_string();
    assert!(said.contains("! foreign.lab.test: foreign.lab.test has A 192.0.2.77"), "{said}");
    assert!(said.contains("+ *.apps.lab.test A 192.0.2.5 (ttl 60)"), "{said}");
    assert!(found(one, &zone, "*.apps.lab.test").await.is_empty(), "a plan changes nothing");
    let outcomes = one.apply(&zone, &plan[..2]).await;
    assert!(matches!(&outcomes[0], Err(Error::NotOurs { owners, .. }) if owners.is_empty()), "{outcomes:?}");
    assert!(outcomes[1].is_ok(), "{outcomes:?}");
    assert!(matches!(one.apply(&zone, &plan[2..]).await[0], Err(Error::Invalid { .. })));
    assert_eq!(found(one, &zone, "foreign.lab.test").await.to_string(), "A 192.0.2.77 (ttl 60)");

    // A name below a wildcard is not there before it is written, whatever is answered for it.
    settle(one, &zone, plan[1].clone()).await;
    assert!(found(one, &zone, "deep.apps.lab.test").await.is_empty());
    let deep = |want| change("team-c/deep", "deep.apps.lab.test", want);
    settle(one, &zone, deep(addresses(&["192.0.2.6"]))).await;
    settle(one, &zone, deep(Wanted::Nothing)).await;

    if with_texts {
        let proof = |object, want| change(object, "_acme-challenge.shop.lab.test", want);
        settle(one, &zone, proof("team-a/shop", texts(&["one", "two \"quoted\""]))).await;
        let there = found(one, &zone, "_acme-challenge.shop.lab.test").await;
        assert_eq!(there.to_string(), r#"TXT "one" "two \"quoted\"" (ttl 60)"#);
        settle(one, &zone, proof("team-a/shop", Wanted::Nothing)).await;
        // Two that want the same share it, and the last one takes it away.
        let shared = |object, want| change(object, "_proof.lab.test", want);
        settle(one, &zone, shared("team-a/x", cname("acm.example.com"))).await;
        settle(one, &zone, shared("team-b/y", cname("acm.example.com"))).await;
        settle(one, &zone, shared("team-a/x", Wanted::Nothing)).await;
        assert_eq!(found(one, &zone, "_proof.lab.test").await.owners.len(), 1);
        settle(one, &zone, shared("team-b/y", Wanted::Nothing)).await;
        assert!(found(one, &zone, "_proof.lab.test").await.is_empty());
    }

    // Nothing of it is left.
    for (object, at) in [("team-a/shop", "shop.lab.test"), ("team-a/w", "*.apps.lab.test")] {
        settle(one, &zone, change(object, at, Wanted::Nothing)).await;
        settle(one, &zone, change(object, at, Wanted::Nothing)).await;
        assert!(found(one, &zone, at).await.is_empty(), "{at}");
    }
}
