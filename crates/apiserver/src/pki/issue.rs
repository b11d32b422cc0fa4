//! What each kind of certificate says: the authority's own, the server's, a client's.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use aws_lc_rs::rand;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use rcgen::{
    BasicConstraints, Certificate, CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose,
    IsCa, Issuer, KeyPair, KeyUsagePurpose, SerialNumber,
};
use rustls::pki_types::CertificateDer;

use super::{Error, subject};

/// Clocks of clients may be behind ours.
const BACKDATE: Duration = Duration::from_mins(5);

/// A self-signed authority certificate, in PEM.
pub(super) fn authority(key: &KeyPair, ttl: Duration) -> Result<String, Error> {
    let name = "causeway-ca";
    let mut params = CertificateParams::default();
    params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::DigitalSignature];
    prepare(&mut params, name, ttl);
    let certificate = params.self_signed(key).map_err(|source| issue("authority", name, source))?;
    Ok(certificate.pem())
}

/// A client's certificate, in PEM.
pub(super) fn client(
    issuer: &Issuer<'_, KeyPair>,
    key: &KeyPair,
    name: &str,
    groups: &[&str],
    ttl: Duration,
) -> Result<String, Error> {
    let failed = |source| issue("client", name, source);
    let mut params = leaf(name, ttl, ExtendedKeyUsagePurpose::ClientAuth);
    if let [group] = groups {
        params.distinguished_name.push(DnType::OrganizationName, *group);
    }
    let certificate = params.signed_by(key, issuer).map_err(failed)?;
    if groups.len() < 2 {
        return Ok(certificate.pem());
    }
    let der = subject::with_groups(certificate.der(), name, groups, issuer.key()).map_err(failed)?;
    Ok(pem(&der))
}

fn pem(der: &[u8]) -> String {
    let mut text = String::from("-----BEGIN CERTIFICATE-----\n");
    let encoded = STANDARD.encode(der);
    let mut rest = encoded.as_str();
    while !rest.is_empty() {
        let (line, tail) = rest.split_at(rest.len().min(64));
        text.push_str(line);
        text.push('\n');
        rest = tail;
    }
    text.push_str("-----END CERTIFICATE-----\n");
    text
}

pub(super) fn serving(
    issuer: &Issuer<'_, KeyPair>,
    key: &KeyPair,
    names: &[String],
    ttl: Duration,
) -> Result<Certificate, Error> {
    let common = "kube-apiserver";
    let mut params = leaf(common, ttl, ExtendedKeyUsagePurpose::ServerAuth);
    params.subject_alt_names = CertificateParams::new(names)
        .map_err(|source| issue("serving", &names.join(","), source))?
        .subject_alt_names;
    params.signed_by(key, issuer).map_err(|source| issue("serving", common, source))
}

/// Whether a certificate can be our authority: a CA, of this key, not expired.
pub(super) fn check_authority(der: &CertificateDer<'_>, key: &KeyPair) -> Result<(), &'static str> {
    let (_, certificate) =
        x509_parser::parse_x509_certificate(der).map_err(|_| "is not an X.509 certificate")?;
    if !certificate.is_ca() {
        return Err("is not the certificate of an authority");
    }
    if certificate.public_key().subject_public_key.data.as_ref() != key.public_key_raw() {
        return Err("does not belong to the key in ca.key");
    }
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs() as i64;
    if certificate.validity().not_after.timestamp() <= now {
        return Err("has expired");
    }
    Ok(())
}

fn leaf(name: &str, ttl: Duration, usage: ExtendedKeyUsagePurpose) -> CertificateParams {
    let mut params = CertificateParams::default();
    params.is_ca = IsCa::ExplicitNoCa;
    params.use_authority_key_identifier_extension = true;
    params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
    params.extended_key_usages = vec![usage];
    prepare(&mut params, name, ttl);
    params
}

fn prepare(params: &mut CertificateParams, name: &str, ttl: Duration) {
    // Whole seconds: X.509 has no finer time, and rcgen would round differently from us.
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
    let now = rcgen::date_time_ymd(1970, 1, 1) + Duration::from_secs(now);
    params.not_before = now - BACKDATE;
    params.not_after = now + ttl;
    params.distinguished_name = DistinguishedName::new();
    params.distinguished_name.push(DnType::CommonName, name);
    let mut serial = [0u8; 16];
    // Without randomness rcgen derives a serial from the key, which is as unique.
    if rand::fill(&mut serial).is_ok() {
        serial[0] = serial[0] & 0x7f | 0x40;
        params.serial_number = Some(SerialNumber::from_slice(&serial));
    }
}

fn issue(what: &'static str, name: &str, source: rcgen::Error) -> Error {
    Error::Issue { what, name: name.to_owned(), source }
}
