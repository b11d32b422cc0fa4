//! Updates of BIND and Knot.

use causeway_providers::dns::{DnsProvider as _, Progress, Wanted};
use causeway_providers::rfc2136::{Algorithm, Dns, Key, Settings};
use causeway_providers::{Error, Secret};
use causeway_testkit::name_server::{FORBIDDEN, KEY, NameServer, POWERLESS, SECRET, Software, dig};

use crate::{addresses, apply, behaves, change, cname, found, name, settle};

pub(crate) fn settings(server: &NameServer, instance: &str) -> Settings {
    let key = Key { name: name(KEY), algorithm: Algorithm::HmacSha256, secret: Secret::new(SECRET.into()) };
    Settings {
        instance: instance.into(),
        server: server.address.to_string(),
        key: Some(key),
        answered_by: Vec::new(),
    }
}

pub(crate) fn dns(server: &NameServer, instance: &str) -> Dns {
    Dns::new(settings(server, instance)).unwrap()
}

async fn behaves_with(software: Software) {
    let Some(server) = NameServer::start(software, "lab.test", "foreign A 192.0.2.77") else { return };
    behaves(&dns(&server, "one"), &dns(&server, "two"), true).await;
    // As others see it: nothing is left but what was there.
    let left = dig(server.address, &["-y", &format!("hmac-sha256:{KEY}:{SECRET}"), "axfr", "lab.test"]);
    assert!(left.contains("foreign.lab.test") && !left.contains("causeway/1"), "{left}");
}

#[tokio::test]
async fn knot_does_what_every_provider_does() {
    behaves_with(Software::Knot).await;
}

#[tokio::test]
async fn bind_does_what_every_provider_does() {
    // BIND lets nobody transfer the zone by default but those who may ask; that is enough here.
    behaves_with(Software::Bind).await;
}

#[tokio::test]
async fn wrong_keys_are_told_apart() {
    for software in [Software::Knot, Software::Bind] {
        let Some(server) = NameServer::start(software, "lab.test", "") else { return };
        let said = async |key: &str, secret: &str| {
            let mut settings = settings(&server, "one");
            settings.key = Some(Key {
                name: name(key),
                algorithm: Algorithm::HmacSha256,
                secret: Secret::new(secret.into()),
            });
            let dns = Dns::new(settings).unwrap();
            let zone = dns.zone("lab.test").await.unwrap();
            let error = apply(&dns, &zone, change("a/x", "x.lab.test", addresses(&["192.0.2.1"]))).await;
            let error = error.unwrap_err();
            assert!(matches!(error, Error::Denied { .. }), "{software:?}: {error:?}");
            error.to_string()
        };
        let unknown = said("nobodys-key", SECRET).await;
        assert!(
            unknown.contains("the TSIG key nobodys-key") && unknown.contains("no key of this name"),
            "{unknown}"
        );
        let other = said(KEY, "YW5vdGhlciBzZWNyZXQgdGhhbiB0aGUgc2VydmVyJ3M=").await;
        assert!(other.contains("another secret"), "{software:?}: {other}");
        // Knot does not tell such a key from one that it does not have.
        let powerless = said(POWERLESS, SECRET).await;
        let words =
            if software == Software::Knot { "no acl that lets it update" } else { "to update x.lab.test" };
        assert!(powerless.contains(POWERLESS) && powerless.contains(words), "{software:?}: {powerless}");
        assert!(!other.contains("YW5vdGhlciBz"), "no secret in an error");
    }
}

#[tokio::test]
async fn a_record_that_comes_in_between_is_not_overwritten() {
    let Some(server) = NameServer::start(Software::Knot, "lab.test", "") else { return };
    let (one, two) = (dns(&server, "one"), dns(&server, "two"));
    let zone = one.zone("lab.test").await.unwrap();
    // Two controllers want the same names at the same moment: each name has one owner, and it is told who.
    let wants = |object: &str| -> Vec<_> {
        (0..30).map(|i| change(object, &format!("n{i}.lab.test"), addresses(&["192.0.2.1"]))).collect()
    };
    let (ours, theirs) = (wants("a/x"), wants("b/y"));
    let (ours, theirs) = tokio::join!(one.apply(&zone, &ours), two.apply(&zone, &theirs));
    for (i, (ours, theirs)) in ours.iter().zip(&theirs).enumerate() {
        assert_ne!(ours.is_ok(), theirs.is_ok(), "n{i}: {ours:?} {theirs:?}");
        let owners = found(&one, &zone, &format!("n{i}.lab.test")).await.owners;
        assert_eq!(owners.len(), 1, "n{i}");
        assert_eq!(owners.first().unwrap().instance, if ours.is_ok() { "one" } else { "two" });
    }
}

#[tokio::test]
async fn settles_when_every_server_answers() {
    let Some(primary) = NameServer::start(Software::Bind, "lab.test", "") else { return };
    let Some(other) = NameServer::start(Software::Knot, "lab.test", "") else { return };
    let mut both = settings(&primary, "one");
    both.answered_by = vec![other.address.to_string()];
    let both = Dns::new(both).unwrap();
    let zone = both.zone("lab.test").await.unwrap();
    let wanted = || change("a/x", "x.lab.test", cname("lb.example.com"));
    let Progress::Pending { waits_for } = apply(&both, &zone, wanted()).await.unwrap() else { panic!() };
    assert!(
        waits_for.contains(&other.address.to_string()) && waits_for.contains("no records"),
        "{waits_for}"
    );
    settle(&dns(&other, "one"), &zone, wanted()).await;
    assert_eq!(apply(&both, &zone, wanted()).await.unwrap(), Progress::Settled);
    // Gone at the primary, still answered by the other.
    let gone = || change("a/x", "x.lab.test", Wanted::Nothing);
    assert!(matches!(apply(&both, &zone, gone()).await.unwrap(), Progress::Pending { .. }));
    settle(&dns(&other, "one"), &zone, gone()).await;
    assert_eq!(apply(&both, &zone, gone()).await.unwrap(), Progress::Settled);
}

#[tokio::test]
async fn a_server_that_is_away_is_said_so() {
    let Some(server) = NameServer::start(Software::Knot, "lab.test", "") else { return };
    let dns = dns(&server, "one");
    let zone = dns.zone("lab.test").await.unwrap();
    let address = server.address;
    drop(server);
    let error = apply(&dns, &zone, change("a/x", "x.lab.test", addresses(&["192.0.2.1"]))).await.unwrap_err();
    assert_eq!(error.to_string(), format!("{address} is not available"));
}

#[tokio::test]
async fn one_name_that_is_refused_does_not_stop_the_others_of_its_batch() {
    let Some(server) = NameServer::start(Software::Bind, "lab.test", "") else { return };
    let dns = dns(&server, "one");
    let zone = dns.zone("lab.test").await.unwrap();
    let mut changes: Vec<_> =
        (0..20).map(|i| change("a/x", &format!("n{i}.lab.test"), addresses(&["192.0.2.1"]))).collect();
    changes.insert(7, change("b/y", &format!("x.{FORBIDDEN}.lab.test"), addresses(&["192.0.2.1"])));
    let outcomes = dns.apply(&zone, &changes).await;
    for (change, outcome) in changes.iter().zip(&outcomes) {
        if change.object == "a/x" {
            assert!(matches!(outcome, Ok(Progress::Settled)), "{}: {outcome:?}", change.name);
        } else {
            let error = outcome.as_ref().unwrap_err();
            assert!(matches!(error, Error::Denied { .. }), "{error:?}");
            assert!(error.to_string().contains(&change.name.to_string()), "{error}");
        }
    }
    // Where all are refused it is said soon.
    let forbidden: Vec<_> = (0..40)
        .map(|i| change("b/y", &format!("n{i}.{FORBIDDEN}.lab.test"), addresses(&["192.0.2.1"])))
        .collect();
    let outcomes = dns.apply(&zone, &forbidden).await;
    assert!(outcomes.iter().all(|outcome| matches!(outcome, Err(Error::Denied { .. }))), "{outcomes:?}");
}
