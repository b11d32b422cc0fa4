//! Ends whose clocks differ: a certificate that was made at another time, as seen by the clock that both share here.

use std::time::{Duration, SystemTime};

use causeway_base::report::chain;
use causeway_link::{Authority, Credentials, Identity, Listener, Role, dial};
use rcgen::{CertificateParams, ExtendedKeyUsagePurpose, Issuer, KeyPair};

use crate::ends::{any, ends_at, within};

const HOUR: Duration = Duration::from_hours(1);

/// An end as an authority makes it whose clock shows that time.
fn made_at(authority: &Authority, role: Role, name: &str, time: SystemTime) -> Identity {
    let pem = authority.to_pem();
    let key = KeyPair::from_pem(&pem[pem.find("-----BEGIN PRIVATE").unwrap()..]).unwrap();
    let issuer = Issuer::from_ca_cert_pem(authority.certificate(), key).unwrap();
    let mut params = CertificateParams::new(vec![format!("{name}.link.causeway.internal")]).unwrap();
    params.extended_key_usages = vec![match role {
        Role::Dialer => ExtendedKeyUsagePurpose::ClientAuth,
        Role::Listener => ExtendedKeyUsagePurpose::ServerAuth,
    }];
    params.not_before = (time - HOUR).into();
    params.not_after = (time + 30 * 24 * HOUR).into();
    let key = KeyPair::generate().unwrap();
    let certificate = params.signed_by(&key, &issuer).unwrap();
    let text = format!("{}{}{}", certificate.pem(), key.serialize_pem(), authority.certificate());
    Identity::from_pem(&text).unwrap()
}

async fn listener(authority: &Authority, made: SystemTime) -> Listener {
    let identity = made_at(authority, Role::Listener, "box", made);
    Listener::bind(any(), Credentials::new(&identity).unwrap()).await.unwrap()
}

#[tokio::test]
async fn a_clock_that_is_a_little_off_is_borne() {
    let (authority, now) = (Authority::new().unwrap(), SystemTime::now());
    for made in [now + HOUR - Duration::from_mins(1), now - 29 * 24 * HOUR] {
        let mut listener = listener(&authority, made).await;
        let at = listener.address();
        ends_at(&authority, &mut listener, at).await;
    }
}

#[tokio::test]
async fn a_clock_that_is_far_off_is_named() {
    let (authority, now) = (Authority::new().unwrap(), SystemTime::now());
    // This end's clock is behind, or ahead.
    for made in [now + 2 * HOUR, now - 31 * 24 * HOUR] {
        let listener = listener(&authority, made).await;
        let identity = authority.issue(Role::Dialer, "laptop").unwrap();
        let dialling = dial(listener.address(), &identity, "box", b"");
        let error = within("a refusal", dialling).await.expect_err("not at this time");
        assert!(chain(&error).contains("set the clock of this machine right"), "{}", chain(&error));
    }
    // The other end's is.
    for made in [now + 2 * HOUR, now - 31 * 24 * HOUR] {
        let listener = listener(&authority, now).await;
        let identity = made_at(&authority, Role::Dialer, "laptop", made);
        let dialling = dial(listener.address(), &identity, "box", b"");
        let error = within("a refusal", dialling).await.expect_err("not at this time");
        assert!(chain(&error).contains("or that of the other end"), "{}", chain(&error));
    }
}
