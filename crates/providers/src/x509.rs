//! What a chain of certificates says of itself.

use std::collections::BTreeSet;
use std::time::{Duration, SystemTime};

use x509_parser::extensions::{GeneralName, ParsedExtension};
use x509_parser::prelude::{FromDer as _, Pem, X509Certificate};

use crate::certificate::{Certificate, Material, Order, PrivateKey, Renewal};
use crate::{Error, Name};

/// The first certificate of a chain.
pub(crate) struct Leaf {
    pub(crate) certificate: Certificate,
    /// The whole of it.
    pub(crate) der: Vec<u8>,
    /// Its public key.
    pub(crate) key: Vec<u8>,
    /// Its serial number, as it is written in it.
    pub(crate) serial: Vec<u8>,
    /// What it calls the key that signed it, if it does.
    pub(crate) authority: Option<Vec<u8>>,
}

/// Reads the first certificate of a chain.
pub(crate) fn leaf(chain: &str) -> Result<Leaf, Error> {
    let broken = |what: &str| {
        Error::invalid(
            format!("the certificate can't be read ({what})"),
            "remove it, and a new one is asked for",
        )
    };
    let pem = Pem::iter_from_buffer(chain.as_bytes()).next().ok_or_else(|| broken("no PEM"))?;
    let pem = pem.map_err(|_| broken("broken PEM"))?;
    let (_, parsed) = X509Certificate::from_der(&pem.contents).map_err(|_| broken("no X.509"))?;
    let alternatives = parsed.subject_alternative_name().ok().flatten();
    let names: BTreeSet<Name> = alternatives
        .iter()
        .flat_map(|extension| &extension.value.general_names)
        .filter_map(|name| if let GeneralName::DNSName(name) = name { Name::parse(name).ok() } else { None })
        .collect();
    let time =
        |time: i64| SystemTime::UNIX_EPOCH + Duration::from_secs(u64::try_from(time).unwrap_or_default());
    let serial = hex(parsed.raw_serial());
    let certificate = Certificate {
        material: Material::Chain(chain.to_owned()),
        names,
        issuer: parsed.issuer().to_string(),
        serial,
        not_before: time(parsed.validity().not_before.timestamp()),
        not_after: time(parsed.validity().not_after.timestamp()),
    };
    let key = parsed.public_key().subject_public_key.data.to_vec();
    let authority = parsed.iter_extensions().find_map(|extension| match extension.parsed_extension() {
        ParsedExtension::AuthorityKeyIdentifier(authority) => {
            Some(authority.key_identifier.as_ref()?.0.to_vec())
        }
        _ => None,
    });
    let serial = parsed.raw_serial().to_vec();
    Ok(Leaf { certificate, der: pem.contents.clone(), key, serial, authority })
}

/// Bytes as hexadecimal digits.
pub(crate) fn hex(bytes: &[u8]) -> String {
    let digits = bytes.iter().flat_map(|byte| [byte >> 4, byte & 15]);
    digits.filter_map(|digit| char::from_digit(digit.into(), 16)).collect()
}

impl Leaf {
    /// Whether it is what the order asks for: its names, its key, and still good.
    pub(crate) fn fits(&self, order: &Order, now: SystemTime) -> Result<bool, Error> {
        let key = order.key.as_ref().map(PrivateKey::pair).transpose()?;
        let same_key = key.is_some_and(|key| key.public_key_raw() == self.key);
        let names: BTreeSet<&Name> = order.names.iter().collect();
        Ok(same_key && names == self.certificate.names.iter().collect() && self.certificate.not_after > now)
    }
}

/// When to renew without the issuer's word: after two thirds of its time, and after half of a short one.
pub(crate) fn renewal(certificate: &Certificate) -> Renewal {
    const SHORT: Duration = Duration::from_hours(24 * 10);
    let lifetime = certificate.not_after.duration_since(certificate.not_before).unwrap_or_default();
    let (share, words) = if lifetime > SHORT { (2.0 / 3.0, "two thirds") } else { (0.5, "half") };
    Renewal::ByOrder {
        at: certificate.not_before + lifetime.mul_f64(share),
        ask_again_in: Duration::from_hours(24),
        reason: format!("{words} of its time is over"),
    }
}

/// The leaf that an order holds.
pub(crate) fn held(order: &Order) -> Result<Leaf, Error> {
    let none = || Error::invalid("there is no certificate yet", "wait until it is issued");
    leaf(order.held.as_deref().ok_or_else(none)?)
}
