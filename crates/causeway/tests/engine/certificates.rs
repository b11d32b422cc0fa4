//! Certificates and authorities in a directory, with curl as the client.

use std::fs;
use std::path::Path;
use std::process::Command;

use causeway_testkit::PATIENCE;
use causeway_testkit::blocking::eventually;
use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair};

use super::Engine;

struct Authority {
    issuer: Issuer<'static, KeyPair>,
    pem: String,
}

impl Authority {
    fn new(name: &str) -> Self {
        let key = KeyPair::generate().unwrap();
        let mut parameters = CertificateParams::new(Vec::new()).unwrap();
        parameters.distinguished_name.push(DnType::CommonName, name);
        parameters.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let pem = parameters.self_signed(&key).unwrap().pem();
        Self { issuer: Issuer::new(parameters, key), pem }
    }

    /// Writes a certificate and its key to a directory.
    fn issue(&self, name: &str, directory: &Path) {
        fs::create_dir_all(directory).unwrap();
        let key = KeyPair::generate().unwrap();
        let parameters = CertificateParams::new(vec![name.to_owned()]).unwrap();
        let certificate = parameters.signed_by(&key, &self.issuer).unwrap();
        fs::write(directory.join("tls.crt"), certificate.pem()).unwrap();
        fs::write(directory.join("tls.key"), key.serialize_pem()).unwrap();
    }
}

#[test]
fn curl_shows_its_certificate_and_other_authorities_count_at_once() {
    let root = tempfile::tempdir().unwrap();
    let at = |name: &str| root.path().join(name);
    let (server, staff, others) =
        (Authority::new("server"), Authority::new("staff"), Authority::new("others"));
    server.issue("a.test", &at("certificates/a"));
    fs::create_dir_all(at("certificates/staff")).unwrap();
    fs::write(at("certificates/staff/ca.crt"), &staff.pem).unwrap();
    fs::write(at("server.crt"), &server.pem).unwrap();
    staff.issue("ann.test", &at("ann"));
    let plan = "listeners:\n- name: in\n  bind: 127.0.0.1:0\n  protocol:\n    tls:\n      routes:\n\
                \x20     - name: t\n        serverNames: [a.test]\n        action:\n          terminate:\n\
                \x20           certificates: [a]\n            clientCertificates: {authorities: staff}\n\
                \x20           then: {http: {routes: [{name: all, action: {respond: {status: 200, body: welcome}}}]}}\n";
    fs::write(at("plan.yaml"), plan).unwrap();
    let mut engine = Engine::new(&at("plan.yaml"), &["--certificates", at("certificates").to_str().unwrap()]);
    let port = engine.address("in").port();
    let ask = |url: &str, more: &[&Path]| {
        let mut curl = Command::new("curl");
        curl.args([
            "--silent",
            "--max-time",
            "20",
            "--resolve",
            &format!("a.test:{port}:127.0.0.1"),
            "--cacert",
        ]);
        curl.arg(at("server.crt"));
        if let [certificate, key] = more {
            curl.arg("--cert").arg(certificate).arg("--key").arg(key);
        }
        String::from_utf8(curl.arg(url).output().unwrap().stdout).unwrap()
    };
    let url = format!("https://a.test:{port}/");
    let (certificate, key) = (at("ann/tls.crt"), at("ann/tls.key"));
    let own = [certificate.as_path(), key.as_path()];
    assert_eq!(ask(&url, &own), "welcome");
    assert_eq!(ask(&url, &[]), "");
    assert!(ask(&url.replace("https", "http"), &[]).contains("This port speaks HTTPS"));
    fs::write(at("certificates/staff/ca.crt"), &others.pem).unwrap();
    eventually("the other authorities", PATIENCE, || ask(&url, &own).is_empty());
    fs::write(at("certificates/staff/ca.crt"), &staff.pem).unwrap();
    eventually("the first ones again", PATIENCE, || ask(&url, &own) == "welcome");
}
