//! A client certificate in several groups. rcgen keeps one value per attribute type, so the certificate it made for
//! the name alone gets its subject replaced here and is signed again.

use rcgen::{KeyPair, SigningKey};

/// DER of the algorithm identifier `ecdsa-with-SHA256`, which our authority signs with.
const ECDSA_WITH_SHA256: &[u8] = &[0x30, 0x0a, 0x06, 0x08, 0x2a, 0x86, 0x48, 0xce, 0x3d, 0x04, 0x03, 0x02];
const COMMON_NAME: &[u8] = &[0x06, 0x03, 0x55, 0x04, 0x03];
const ORGANIZATION: &[u8] = &[0x06, 0x03, 0x55, 0x04, 0x0a];

const SEQUENCE: u8 = 0x30;
const SET: u8 = 0x31;
const UTF8_STRING: u8 = 0x0c;
const BIT_STRING: u8 = 0x03;

/// `certificate` (DER) with the subject `CN=name, O=group…`, signed by `authority`.
pub(super) fn with_groups(
    certificate: &[u8],
    name: &str,
    groups: &[&str],
    authority: &KeyPair,
) -> Result<Vec<u8>, rcgen::Error> {
    let (_, parsed) = x509_parser::parse_x509_certificate(certificate)
        .map_err(|_| rcgen::Error::CouldNotParseCertificate)?;
    let old = parsed.tbs_certificate.as_ref();
    let (_, fields) = header(old).ok_or(rcgen::Error::CouldNotParseCertificate)?;
    let subject = parsed.subject().as_raw();
    // Both are slices of `certificate`, so their addresses say where one lies in the other.
    let start = subject.as_ptr().addr().wrapping_sub(fields.as_ptr().addr());
    let subject_end = start.wrapping_add(subject.len());
    if fields.get(start..subject_end) != Some(subject) {
        return Err(rcgen::Error::CouldNotParseCertificate);
    }

    let mut attributes = attribute(COMMON_NAME, name);
    for group in groups {
        attributes.extend(attribute(ORGANIZATION, group));
    }
    let signed =
        element(SEQUENCE, &[&fields[..start], &element(SEQUENCE, &[&attributes]), &fields[subject_end..]]);
    let signature = authority.sign(&signed)?;
    Ok(element(SEQUENCE, &[&signed, ECDSA_WITH_SHA256, &element(BIT_STRING, &[&[0], &signature])]))
}

/// One relative distinguished name.
fn attribute(oid: &[u8], value: &str) -> Vec<u8> {
    let value = element(UTF8_STRING, &[value.as_bytes()]);
    element(SET, &[&element(SEQUENCE, &[oid, &value])])
}

/// A DER element with the concatenated contents.
fn element(tag: u8, contents: &[&[u8]]) -> Vec<u8> {
    let length: usize = contents.iter().map(|part| part.len()).sum();
    let mut der = vec![tag];
    if length < 0x80 {
        der.push(length as u8);
    } else {
        let bytes = length.to_be_bytes();
        let significant: Vec<u8> = bytes.into_iter().skip_while(|&b| b == 0).collect();
        der.push(0x80 | significant.len() as u8);
        der.extend(significant);
    }
    for part in contents {
        der.extend_from_slice(part);
    }
    der
}

/// Splits a DER element into its header and contents.
fn header(der: &[u8]) -> Option<(&[u8], &[u8])> {
    let length = *der.get(1)?;
    let size = if length < 0x80 { 2 } else { 2 + usize::from(length & 0x7f) };
    (der.len() >= size).then(|| der.split_at(size))
}
