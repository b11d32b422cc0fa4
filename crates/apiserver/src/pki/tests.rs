use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::time::Duration;

use super::*;

const HOUR: Duration = Duration::from_hours(1);

#[test]
fn keeps_its_keys_over_a_restart() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("pki");
    let first = Pki::open(&path).unwrap();
    let second = Pki::open(&path).unwrap();
    assert_eq!(first.ca_pem(), second.ca_pem());
    assert_eq!(first.token_key().serialize_der(), second.token_key().serialize_der());
}

#[test]
fn files_are_private() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("pki");
    Pki::open(&path).unwrap();
    assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o700);
    let mut names = Vec::new();
    for entry in fs::read_dir(&path).unwrap() {
        let entry = entry.unwrap();
        assert_eq!(entry.metadata().unwrap().permissions().mode() & 0o777, 0o600, "{:?}", entry.path());
        names.push(entry.file_name().into_string().unwrap());
    }
    names.sort();
    assert_eq!(names, [CA_CERTIFICATE, CA_KEY, TOKEN_KEY]);
}

#[test]
fn finishes_what_a_crash_left_half_made() {
    let dir = tempfile::tempdir().unwrap();
    Pki::open(dir.path()).unwrap();
    let key = fs::read(dir.path().join(CA_KEY)).unwrap();
    fs::remove_file(dir.path().join(CA_CERTIFICATE)).unwrap();
    Pki::open(dir.path()).unwrap();
    assert_eq!(fs::read(dir.path().join(CA_KEY)).unwrap(), key);
    assert!(dir.path().join(CA_CERTIFICATE).exists());
}

#[test]
fn unusable_files_are_named_with_a_remedy() {
    let cases: [(&str, &[u8], &str); 4] = [
        (CA_KEY, b"garbage", "is not a PEM private key"),
        (CA_CERTIFICATE, b"garbage", "is not a PEM certificate"),
        (CA_CERTIFICATE, b"\xff\xfe", "is not a PEM file"),
        (TOKEN_KEY, b"", "is not a PEM private key"),
    ];
    for (name, contents, problem) in cases {
        let dir = tempfile::tempdir().unwrap();
        Pki::open(dir.path()).unwrap();
        fs::write(dir.path().join(name), contents).unwrap();
        let message = Pki::open(dir.path()).err().unwrap().to_string();
        assert!(message.contains(name) && message.contains(problem), "{message}");
        assert!(message.contains("restore it from a backup"), "{message}");
    }
}

#[test]
fn a_certificate_of_another_key_is_refused() {
    let (one, other) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    Pki::open(one.path()).unwrap();
    Pki::open(other.path()).unwrap();
    fs::copy(other.path().join(CA_CERTIFICATE), one.path().join(CA_CERTIFICATE)).unwrap();
    let message = Pki::open(one.path()).err().unwrap().to_string();
    assert!(message.contains("does not belong to the key in ca.key"), "{message}");
}

#[test]
fn a_lost_key_is_not_replaced_silently() {
    let dir = tempfile::tempdir().unwrap();
    Pki::open(dir.path()).unwrap();
    fs::remove_file(dir.path().join(CA_KEY)).unwrap();
    let message = Pki::open(dir.path()).err().unwrap().to_string();
    assert!(message.contains("is missing although its certificate is there"), "{message}");
}

#[test]
fn client_certificates_name_user_and_groups() {
    let pki = Pki::ephemeral().unwrap();
    // Long enough for lengths of more than one byte.
    let long = "g".repeat(300);
    let cases: [(&[&str], String); 4] = [
        (&[], "CN=alice".to_owned()),
        (&["devs"], "CN=alice, O=devs".to_owned()),
        (&["a", "b", "c"], "CN=alice, O=a, O=b, O=c".to_owned()),
        (&["a", &long], format!("CN=alice, O=a, O={long}")),
    ];
    for (groups, subject) in cases {
        let pair = pki.client_certificate("alice", groups, HOUR).unwrap();
        let der = CertificateDer::from_pem_slice(pair.certificate.as_bytes()).unwrap();
        let (rest, certificate) = x509_parser::parse_x509_certificate(&der).unwrap();
        assert!(rest.is_empty());
        assert_eq!(certificate.subject().to_string(), subject);
    }
}

#[test]
fn serving_certificates_carry_names_and_addresses() {
    let pki = Pki::ephemeral().unwrap();
    let names = ["localhost".to_owned(), "127.0.0.1".to_owned(), "::1".to_owned()];
    let serving = pki.serving_certificate(&names, HOUR).unwrap();
    let (_, certificate) = x509_parser::parse_x509_certificate(&serving.certificate).unwrap();
    let alternatives = certificate.subject_alternative_name().unwrap().unwrap();
    assert_eq!(alternatives.value.general_names.len(), 3);
}
