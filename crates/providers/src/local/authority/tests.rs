use std::os::unix::fs::PermissionsExt as _;

use super::*;
use crate::certificate::{Material, PrivateKey, ProofKind};

fn order(names: &[&str]) -> Order {
    Order {
        id: "test/1".into(),
        serial: 1,
        names: names.iter().map(|name| Name::parse(name).unwrap()).collect(),
        proof: ProofKind::Dns,
        key: Some(PrivateKey::generate().unwrap()),
        handle: None,
        held: None,
        replaces: None,
    }
}

async fn issued(issuer: &Issuer, order: &Order) -> Certificate {
    match issuer.look(order).await.unwrap() {
        Look::Issued(certificate) => certificate,
        other => panic!("{other:?}"),
    }
}

fn chain(certificate: &Certificate) -> String {
    match &certificate.material {
        Material::Chain(chain) => chain.clone(),
        Material::Arn(arn) => panic!("{arn}"),
    }
}

#[tokio::test]
async fn issues_once_and_again_when_names_change() {
    let issuer = Issuer::new(Authority::generate(&[]).unwrap(), Issuer::LIFETIME);
    let mut order = order(&["shop.lab.test", "*.shop.lab.test"]);
    let first = issued(&issuer, &order).await;
    assert_eq!(first.names, order.names.iter().cloned().collect());
    assert!(first.issuer.contains("Causeway local authority"), "{}", first.issuer);
    order.held = Some(chain(&first));
    assert_eq!(issued(&issuer, &order).await, first, "what fits is kept");
    let Renewal::ByOrder { at, .. } = issuer.renewal(&order).await.unwrap() else { panic!() };
    assert!(at > SystemTime::now() && at < first.not_after);
    order.names.pop();
    let second = issued(&issuer, &order).await;
    assert_ne!(second.serial, first.serial);
    order.key = Some(PrivateKey::generate().unwrap());
    order.held = Some(chain(&second));
    assert_ne!(issued(&issuer, &order).await, second, "a certificate of another key is of no use");
}

#[test]
fn is_kept_where_only_its_owner_reads_it() {
    let directory = tempfile::tempdir().unwrap();
    let place = directory.path().join("ca");
    let first = Authority::open(&place, &[]).unwrap();
    let mode = |name: &str| std::fs::metadata(place.join(name)).unwrap().permissions().mode() & 0o777;
    assert_eq!((mode("ca.pem"), mode("ca.crt")), (0o600, 0o644));
    let second = Authority::open(&place, &[]).unwrap();
    assert_eq!(first.certificate(), second.certificate());
    assert_eq!(std::fs::read_to_string(place.join("ca.crt")).unwrap(), first.certificate());
    std::fs::write(place.join("ca.pem"), "rubbish").unwrap();
    let error = Authority::open(&place, &[]).err().unwrap();
    assert!(error.to_string().contains("restore it"), "{error}");
}

/// OpenSSL says whether a leaf is good for a name by an authority.
fn verified(directory: &Path, authority: &Authority, leaf: &Certificate, name: &str) -> bool {
    std::fs::write(directory.join("ca"), authority.certificate()).unwrap();
    std::fs::write(directory.join("leaf"), chain(leaf)).unwrap();
    let mut command = std::process::Command::new("openssl");
    command.current_dir(directory).args(["verify", "-x509_strict", "-purpose", "sslserver", "-CAfile", "ca"]);
    let output = command.args(["-verify_hostname", name, "leaf"]).output().unwrap();
    output.status.success()
}

#[tokio::test]
async fn clients_accept_its_certificates_within_its_domains_only() {
    let directory = tempfile::tempdir().unwrap();
    let authority = || Authority::generate(&[Name::parse("lab.test").unwrap()]).unwrap();
    let issuer = Issuer::new(authority(), Issuer::LIFETIME);
    let inside = issued(&issuer, &order(&["shop.lab.test", "*.lab.test"])).await;
    for (name, good) in [("shop.lab.test", true), ("x.lab.test", true), ("lab.test", false)] {
        assert_eq!(verified(directory.path(), issuer.authority(), &inside, name), good, "{name}");
    }
    assert!(!verified(directory.path(), &authority(), &inside, "shop.lab.test"), "another authority");
    let outside = issued(&issuer, &order(&["bank.example"])).await;
    assert!(!verified(directory.path(), issuer.authority(), &outside, "bank.example"));
}
