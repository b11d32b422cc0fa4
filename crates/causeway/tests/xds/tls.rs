//! Beyond loopback: both sides show certificates.

use std::io::Read;
use std::path::Path;
use std::sync::Arc;

use causeway_testkit::PATIENCE;
use causeway_testkit::blocking::eventually;
use rcgen::{CertificateParams, DnType, IsCa, Issuer, KeyPair};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};

use crate::backend::{backend, free_port, hello, who};
use crate::control_plane::ControlPlane;
use crate::envoy::Envoy;

/// Writes `ca.pem`, and `server` and `client` with their keys.
fn certificates(dir: &Path) {
    let write = |name: &str, text: String| std::fs::write(dir.join(name), text).unwrap();
    let ca_key = KeyPair::generate().unwrap();
    let mut ca = CertificateParams::new(Vec::<String>::new()).unwrap();
    // Who issues must not have the name of what it issues.
    ca.distinguished_name.push(DnType::CommonName, "test CA");
    ca.is_ca = IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
    write("ca.pem", ca.self_signed(&ca_key).unwrap().pem());
    let issuer = Issuer::new(ca, ca_key);
    for name in ["server", "client"] {
        let key = KeyPair::generate().unwrap();
        let params = CertificateParams::new(vec!["xds.test".to_owned()]).unwrap();
        write(&format!("{name}.pem"), params.signed_by(&key, &issuer).unwrap().pem());
        write(&format!("{name}.key"), key.serialize_pem());
    }
}

#[test]
fn envoys_with_a_certificate_are_fed_and_others_are_not() {
    let Some(program) = causeway_testkit::envoy::program() else { return };
    let dir = tempfile::tempdir().unwrap();
    certificates(dir.path());
    let file = |name: &str| dir.path().join(name).display().to_string();
    let (port, a) = (free_port(), backend("a"));
    let control_plane = ControlPlane::start_with(
        &format!(
            "{{listeners: [{{name: l, bind: '127.0.0.1:{port}', protocol: {{tcp: {{name: all, action: {{forward: a}}}}}}}}], \
             clusters: [{{name: a, endpoints: [{{address: '{a}'}}]}}]}}"
        ),
        "0.0.0.0:0",
        &[
            "--tls-cert",
            &file("server.pem"),
            "--tls-key",
            &file("server.key"),
            "--tls-client-ca",
            &file("ca.pem"),
        ],
    );
    let xds = ([127, 0, 0, 1], control_plane.address().port()).into();

    let roots = CertificateDer::from_pem_file(file("ca.pem")).unwrap();
    let mut store = RootCertStore::empty();
    store.add(roots).unwrap();
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let builder =
        ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions().unwrap();
    let mut config = builder.with_root_certificates(store).with_no_client_auth();
    config.alpn_protocols = vec![b"h2".to_vec()];
    let server = ServerName::try_from("xds.test").unwrap();
    let connection = ClientConnection::new(Arc::new(config), server).unwrap();
    let stream = std::net::TcpStream::connect::<std::net::SocketAddr>(xds).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    let refused = StreamOwned::new(connection, stream).read(&mut [0; 1]).unwrap_err();
    assert!(refused.to_string().contains("CertificateRequired"), "{refused}");

    let (text, admin) = ControlPlane::bootstrap("edge", &xds.to_string(), true);
    let mut bootstrap: serde_json::Value = serde_json::from_str(&text).unwrap();
    bootstrap["static_resources"]["clusters"][0]["transport_socket"] = serde_json::json!({
        "name": "envoy.transport_sockets.tls",
        "typed_config": {
            "@type": "type.googleapis.com/envoy.extensions.transport_sockets.tls.v3.UpstreamTlsContext",
            "sni": "xds.test",
            "common_tls_context": {
                "alpn_protocols": ["h2"],
                "tls_certificates": [{
                    "certificate_chain": { "filename": file("client.pem") },
                    "private_key": { "filename": file("client.key") },
                }],
                "validation_context": { "trusted_ca": { "filename": file("ca.pem") } },
            },
        },
    });
    let _envoy = Envoy::start(&program, dir.path(), &bootstrap.to_string(), admin);
    eventually("Envoy is fed over TLS", PATIENCE, || who(port, &hello(None)) == "a");
}
