//! The resources that the demo applies, and the certificates in them.

use std::net::Ipv4Addr;

use anyhow::Context;
use causeway_api::ProxyServer;
use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};
use rustls::pki_types::CertificateDer;
use serde_json::{Value, json};

pub(in crate::commands::demo) const NAMESPACE: &str = "demo";
pub(super) const PROXY: &str = "front";
pub(super) const PORT: u16 = 8443;
/// Stands for an address of the isolated network: a machine has all addresses of 127.0.0.0/8.
pub(super) const SERVER_IP: Ipv4Addr = Ipv4Addr::new(127, 77, 0, 10);

/// Signs the services' certificates; the demo's client trusts no other.
pub(in crate::commands::demo) struct Authority {
    issuer: Issuer<'static, KeyPair>,
    certificate: CertificateDer<'static>,
}

impl Authority {
    pub(in crate::commands::demo) fn new() -> anyhow::Result<Self> {
        let mut params = CertificateParams::default();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let key = KeyPair::generate().context("can't make a key")?;
        let certificate = params.self_signed(&key)?.der().clone();
        Ok(Self { issuer: Issuer::new(params, key), certificate })
    }

    pub(in crate::commands::demo) fn certificate(&self) -> CertificateDer<'static> {
        self.certificate.clone()
    }

    /// A certificate and key for one host, in PEM.
    pub(in crate::commands::demo) fn issue(&self, host: &str) -> anyhow::Result<(String, String)> {
        let key = KeyPair::generate().context("can't make a key")?;
        let certificate = CertificateParams::new([host.to_owned()])?.signed_by(&key, &self.issuer)?;
        Ok((certificate.pem(), key.serialize_pem()))
    }
}

/// The demo's namespace; a program of this machine, as Envoy is, runs only where an administrator trusts it.
pub(in crate::commands::demo) fn namespace(is_trusted: bool) -> Value {
    let labels =
        if is_trusted { json!({"pod-security.kubernetes.io/enforce": "privileged"}) } else { json!({}) };
    json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE, "labels": labels}})
}

/// Secret, Deployment and Service of a TLS server whose answers name it.
pub(in crate::commands::demo) fn tls_service(
    name: &str,
    host: &str,
    authority: &Authority,
) -> anyhow::Result<Vec<Value>> {
    let (certificate, key) = authority.issue(host)?;
    let labels = json!({"app": name});
    let secret = json!({
        "apiVersion": "v1", "kind": "Secret", "type": "kubernetes.io/tls",
        "metadata": {"name": name, "namespace": NAMESPACE},
        "stringData": {"tls.crt": certificate, "tls.key": key},
    });
    let deployment = json!({
        "apiVersion": "apps/v1", "kind": "Deployment",
        "metadata": {"name": name, "namespace": NAMESPACE},
        "spec": {
            "replicas": 1,
            "selector": {"matchLabels": labels},
            "template": {
                "metadata": {"labels": labels},
                "spec": {
                    "containers": [{
                        "name": "server",
                        "image": causeway_api::names::OWN_IMAGE,
                        "args": ["echo", "--name", name, "--listen", format!("$(POD_IP):{PORT}"),
                            "--tls-cert", "/etc/tls/tls.crt", "--tls-key", "/etc/tls/tls.key"],
                        "env": [{"name": "POD_IP", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}}],
                        "ports": [{"containerPort": PORT}],
                        "readinessProbe": {"tcpSocket": {"port": PORT}, "periodSeconds": 1},
                        "volumeMounts": [{"name": "tls", "mountPath": "/etc/tls"}],
                    }],
                    "volumes": [{"name": "tls", "secret": {"secretName": name}}],
                },
            },
        },
    });
    let service = json!({
        "apiVersion": "v1", "kind": "Service",
        "metadata": {"name": name, "namespace": NAMESPACE},
        "spec": {"selector": labels, "ports": [{"port": 443, "targetPort": PORT}]},
    });
    Ok(vec![secret, deployment, service])
}

pub(super) fn proxy_server(engine: &str) -> Value {
    json!({
        "apiVersion": "causeway.dev/v1alpha1", "kind": "ProxyServer",
        "metadata": {"name": PROXY, "namespace": NAMESPACE},
        "spec": proxy_spec(engine, "shop"),
    })
}

/// The spec with `shop.demo.test` served by this Service.
pub(super) fn proxy_spec(engine: &str, shop: &str) -> Value {
    let backend = |name: &str, service: &str| {
        json!({
            "name": name, "hostname": format!("{name}.demo.test"), "port": PORT,
            "targetService": service, "targetPort": 443, "targetNamespace": NAMESPACE, "protocol": "TLS",
        })
    };
    json!({
        "engine": engine,
        "port": PORT,
        "networkConfig": {"serverIP": SERVER_IP.to_string()},
        "backends": [backend("shop", shop), backend("blog", "blog")],
    })
}

pub(super) fn engine_of(proxy: &ProxyServer) -> String {
    format!("{:?}", proxy.spec.engine.unwrap_or_default())
}
