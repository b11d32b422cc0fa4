//! Certificates of Pebble, proven by DNS in Knot and BIND, and by HTTP.

use std::net::SocketAddr;
use std::time::{Duration, SystemTime};

use causeway_providers::acme::{ExternalAccount, Issuer, Settings, new_account};
use causeway_providers::certificate::{
    Certificate, CertificateIssuer as _, Look, Material, Order, PrivateKey, Proof, ProofData, ProofKind,
    Renewal, proof_records,
};
use causeway_providers::dns::{Change, DnsProvider as _, Wanted};
use causeway_providers::rfc2136::Dns;
use causeway_providers::{Error, Secret};
use causeway_testkit::eventually;
use causeway_testkit::name_server::{NameServer, Software};
use causeway_testkit::pebble::{EXTERNAL_ID, EXTERNAL_KEY, Pebble};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

use crate::rfc2136::dns;
use crate::{order, settle};

fn settings(pebble: &Pebble) -> Settings {
    Settings {
        directory: pebble.directory(),
        contacts: vec!["mailto:hostmaster@lab.test".into()],
        external_account: None,
        authorities: Some(pebble.certificate()),
        profile: None,
    }
}

async fn proofs(issuer: &Issuer, order: &Order) -> Vec<Proof> {
    match issuer.look(order).await.unwrap() {
        Look::Pending { proofs, .. } => proofs,
        other => panic!("{other:?}"),
    }
}

async fn issued(issuer: &Issuer, order: &Order) -> Certificate {
    eventually("the certificate is issued", async || match issuer.look(order).await.unwrap() {
        Look::Issued(certificate) => Ok(certificate),
        other => Err(format!("{other:?}")),
    })
    .await
}

fn chain(certificate: &Certificate) -> String {
    match &certificate.material {
        Material::Chain(chain) => chain.clone(),
        Material::Arn(arn) => panic!("{arn}"),
    }
}

/// Puts proofs in the zone, or takes them out.
async fn show(dns: &Dns, proofs: &[Proof], shown: bool) {
    let zone = dns.zone("lab.test").await.unwrap();
    for (name, wanted) in proof_records(proofs) {
        let want = if shown { wanted } else { Wanted::Nothing };
        settle(dns, &zone, Change { name, object: "team-a/shop".into(), want, settled: None }).await;
    }
}

async fn by_dns(software: Software) {
    let Some(server) = NameServer::start(software, "lab.test", "") else { return };
    let Some(pebble) = Pebble::start(server.address, false) else { return };
    let settings = settings(&pebble);
    let account = new_account(&settings).await.unwrap();
    let issuer = Issuer::open(settings.clone(), &account).await.unwrap();
    let dns = dns(&server, "one");

    // A name and its wildcard are proven by two texts at one name.
    let mut order = order("one/uid-1", &["shop.lab.test", "*.shop.lab.test"]);
    order.handle = Some(issuer.request(&order).await.unwrap());
    assert_eq!(issuer.request(&order).await.unwrap(), order.handle.clone().unwrap(), "asked for once");
    let wanted = proofs(&issuer, &order).await;
    assert_eq!((wanted.len(), proof_records(&wanted).len()), (2, 1), "{wanted:?}");
    show(&dns, &wanted, true).await;
    // Another process goes on with what was stored.
    let issuer = Issuer::open(settings, &account).await.unwrap();
    issuer.proofs_served(&order).await.unwrap();
    issuer.proofs_served(&order).await.unwrap();
    let certificate = issued(&issuer, &order).await;
    assert_eq!(certificate.names, order.names.iter().cloned().collect());
    show(&dns, &wanted, false).await;

    // Pebble says when to renew; the new certificate takes the place of the old one.
    order.held = Some(chain(&certificate));
    assert_eq!(issuer.look(&order).await.unwrap(), Look::Issued(certificate.clone()));
    let Renewal::ByOrder { at, reason, ask_again_in } = issuer.renewal(&order).await.unwrap() else {
        panic!()
    };
    assert!(reason.contains("the authority asks for it"), "{reason}");
    assert!(at > SystemTime::now() && at < certificate.not_after, "{at:?}");
    assert!(ask_again_in >= Duration::from_mins(1));
    let mut next =
        Order { serial: 2, key: Some(PrivateKey::generate().unwrap()), held: None, ..order.clone() };
    (next.handle, next.replaces) = (None, order.held.clone());
    next.handle = Some(issuer.request(&next).await.unwrap());
    assert_ne!(next.handle, order.handle);
    let renewed = eventually("the renewed certificate", async || match issuer.look(&next).await.unwrap() {
        Look::Issued(certificate) => Ok(certificate),
        Look::Pending { proofs, .. } => {
            show(&dns, &proofs, true).await;
            issuer.proofs_served(&next).await.unwrap();
            Err(format!("{proofs:?}"))
        }
        other => panic!("{other:?}"),
    })
    .await;
    assert_ne!(renewed.serial, certificate.serial);

    // Given up: revoked, and once more is fine.
    issuer.remove(&order).await.unwrap();
    issuer.remove(&order).await.unwrap();
    assert!(matches!(issuer.in_use(&order).await, Ok(by) if by.is_empty()));
}

#[tokio::test]
async fn names_and_wildcards_are_proven_in_knot() {
    by_dns(Software::Knot).await;
}

#[tokio::test]
async fn names_and_wildcards_are_proven_in_bind() {
    by_dns(Software::Bind).await;
}

/// Answers one path on a port, for as long as the test runs.
async fn answer(port: u16, path: String, body: String) {
    let listener = tokio::net::TcpListener::bind(SocketAddr::from(([127, 0, 0, 1], port))).await.unwrap();
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let mut request = vec![0; 4096];
            let length = stream.read(&mut request).await.unwrap_or_default();
            let asked = String::from_utf8_lossy(&request[..length]).into_owned();
            let status = if asked.starts_with(&format!("GET {path} ")) { "200 OK" } else { "404 Not Found" };
            let head =
                format!("HTTP/1.1 {status}\r\nContent-Length: {}\r\nConnection: close\r\n\r\n", body.len());
            let _ = stream.write_all(format!("{head}{body}").as_bytes()).await;
        }
    });
}

#[tokio::test]
async fn names_are_proven_by_http() {
    let Some(server) = NameServer::start(Software::Knot, "lab.test", "web A 127.0.0.1") else { return };
    let Some(pebble) = Pebble::with_profiles(server.address) else { return };
    let settings = Settings { profile: Some("minutes".into()), ..settings(&pebble) };
    let issuer = Issuer::open(settings.clone(), &new_account(&settings).await.unwrap()).await.unwrap();
    let mut order = Order { proof: ProofKind::Http, ..order("one/uid-2", &["web.lab.test"]) };
    order.handle = Some(issuer.request(&order).await.unwrap());
    let wanted = proofs(&issuer, &order).await;
    let ProofData::Http { host, path, body } = &wanted[0].what else { panic!("{wanted:?}") };
    assert_eq!(host.as_str(), "web.lab.test");
    answer(pebble.http_port, path.clone(), body.clone()).await;
    issuer.proofs_served(&order).await.unwrap();
    let certificate = issued(&issuer, &order).await;
    let lifetime = certificate.not_after.duration_since(certificate.not_before).unwrap();
    assert!(lifetime <= Duration::from_mins(11), "of the profile that was asked for: {lifetime:?}");
    order.held = Some(chain(&certificate));
    let Renewal::ByOrder { at, .. } = issuer.renewal(&order).await.unwrap() else { panic!() };
    assert!(at < certificate.not_after);
}

#[tokio::test]
async fn a_proof_that_is_missing_is_named() {
    let Some(server) = NameServer::start(Software::Knot, "lab.test", "") else { return };
    let Some(pebble) = Pebble::start(server.address, false) else { return };
    let settings = settings(&pebble);
    let issuer = Issuer::open(settings.clone(), &new_account(&settings).await.unwrap()).await.unwrap();
    let mut order = order("one/uid-3", &["shop.lab.test"]);
    order.handle = Some(issuer.request(&order).await.unwrap());
    issuer.proofs_served(&order).await.unwrap();
    let (reason, remedy) = eventually("the order fails", async || match issuer.look(&order).await.unwrap() {
        Look::Failed { reason, remedy } => Ok((reason, remedy)),
        other => Err(format!("{other:?}")),
    })
    .await;
    assert!(reason.contains("shop.lab.test"), "{reason}");
    assert!(remedy.contains("order again"), "{remedy}");
    // A pending one is dropped, and one that nobody knows is gone.
    let mut second = Order { serial: 2, handle: None, ..order.clone() };
    second.handle = Some(issuer.request(&second).await.unwrap());
    issuer.remove(&second).await.unwrap();
    second.handle = Some(pebble.directory().replace("/dir", "/my-order/nothing"));
    assert_eq!(issuer.look(&second).await.unwrap(), Look::Gone);
    // Names that the authority does not sign are refused in its words.
    let bad = Order { names: vec!["10.example".parse().unwrap()], handle: None, ..order };
    let outcome = issuer.request(&bad).await;
    assert!(outcome.is_ok() || matches!(outcome, Err(Error::Invalid { .. })), "{outcome:?}");
}

#[tokio::test]
async fn external_accounts_are_bound() {
    let Some(server) = NameServer::start(Software::Knot, "lab.test", "") else { return };
    let Some(pebble) = Pebble::start(server.address, true) else { return };
    let without = settings(&pebble);
    let error = Issuer::open(without.clone(), &new_account(&without).await.unwrap()).await.err().unwrap();
    assert!(error.to_string().contains("an external account"), "{error}");
    let external = ExternalAccount { id: EXTERNAL_ID.into(), key: Secret::new(EXTERNAL_KEY.into()) };
    let with = Settings { external_account: Some(external), ..without };
    let account = new_account(&with).await.unwrap();
    let issuer = Issuer::open(with, &account).await.unwrap();
    issuer.request(&order("one/uid-4", &["shop.lab.test"])).await.unwrap();
}

#[tokio::test]
async fn an_authority_that_is_not_trusted_is_not_asked() {
    let Some(server) = NameServer::start(Software::Knot, "lab.test", "") else { return };
    let Some(pebble) = Pebble::start(server.address, false) else { return };
    let settings = Settings { authorities: None, ..settings(&pebble) };
    let error = Issuer::open(settings.clone(), &new_account(&settings).await.unwrap()).await.err().unwrap();
    let text = causeway_base::report::chain(&error);
    assert!(matches!(error, Error::Unavailable { .. }) && text.contains("certificate"), "{text}");
}

#[tokio::test]
async fn what_is_of_another_account_is_gone_and_can_be_given_up() {
    let Some(server) = NameServer::start(Software::Knot, "lab.test", "") else { return };
    let Some(pebble) = Pebble::start(server.address, false) else { return };
    let settings = settings(&pebble);
    let open = async || {
        let account = new_account(&settings).await.unwrap();
        Issuer::open(settings.clone(), &account).await.unwrap()
    };
    let (before, after) = (open().await, open().await);
    let dns = dns(&server, "one");
    let mut order = order("one/uid-1", &["shop.lab.test"]);
    order.handle = Some(before.request(&order).await.unwrap());
    // One that is worked on.
    assert_eq!(after.look(&order).await.unwrap(), Look::Gone);
    after.remove(&order).await.unwrap();
    let wanted = proofs(&before, &order).await;
    show(&dns, &wanted, true).await;
    before.proofs_served(&order).await.unwrap();
    let certificate = issued(&before, &order).await;
    // And one with a certificate, which goes though it can't be revoked.
    order.held = Some(chain(&certificate));
    assert_eq!(after.look(&order).await.unwrap(), Look::Issued(certificate));
    after.remove(&order).await.unwrap();
    before.remove(&order).await.unwrap();
}

#[tokio::test]
async fn a_certificate_that_is_over_is_given_up_without_asking_anybody() {
    let Some(server) = NameServer::start(Software::Knot, "lab.test", "") else { return };
    let Some(pebble) = Pebble::start(server.address, false) else { return };
    let settings = settings(&pebble);
    let account = new_account(&settings).await.unwrap();
    let issuer = Issuer::open(settings, &account).await.unwrap();
    let mut order = order("one/uid-1", &["shop.lab.test"]);
    order.handle = Some(issuer.request(&order).await.unwrap());
    let mut params = rcgen::CertificateParams::new(vec!["shop.lab.test".to_owned()]).unwrap();
    params.not_after = rcgen::date_time_ymd(2024, 1, 1);
    let over = params.self_signed(&rcgen::KeyPair::generate().unwrap()).unwrap();
    order.held = Some(over.pem());
    drop(pebble);
    issuer.remove(&order).await.unwrap();
}
