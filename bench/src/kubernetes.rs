//! The client of `causeway up`: HTTPS with HTTP/2 and the administrator's certificate, as client-go connects.

use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;

use anyhow::Context;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use http::Request;
use http_body_util::Full;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

use crate::http2::Connection;

/// Where a server is and how to prove who we are.
#[derive(Clone)]
pub(crate) struct Endpoint {
    address: SocketAddr,
    tls: Arc<ClientConfig>,
}

impl Endpoint {
    pub(crate) fn from_kubeconfig(path: &Path) -> anyhow::Result<Self> {
        let text = std::fs::read_to_string(path).with_context(|| format!("can't read {}", path.display()))?;
        // Each name occurs once in the file that `up` writes.
        let value = |name: &str| {
            let found = text.lines().find_map(|l| l.trim().strip_prefix(name)?.strip_prefix(": "));
            found.with_context(|| format!("{} has no {name}", path.display()))
        };
        let pem = |name: &str| anyhow::Ok(STANDARD.decode(value(name)?)?);
        let address = value("server")?.trim_start_matches("https://").parse()?;
        let mut roots = RootCertStore::empty();
        for certificate in CertificateDer::pem_slice_iter(&pem("certificate-authority-data")?) {
            roots.add(certificate?)?;
        }
        let chain: Vec<_> = CertificateDer::pem_slice_iter(&pem("client-certificate-data")?)
            .collect::<Result<_, _>>()
            .context("the kubeconfig's certificate can't be read")?;
        let key = PrivateKeyDer::from_pem_slice(&pem("client-key-data")?)
            .context("the kubeconfig's key can't be read")?;
        let mut tls =
            ClientConfig::builder().with_root_certificates(roots).with_client_auth_cert(chain, key)?;
        tls.alpn_protocols = vec![b"h2".to_vec()];
        Ok(Self { address, tls: Arc::new(tls) })
    }

    pub(crate) async fn connect(&self) -> anyhow::Result<Connection> {
        let tcp = TcpStream::connect(self.address).await.context("can't connect")?;
        tcp.set_nodelay(true)?;
        let name = ServerName::IpAddress(self.address.ip().into());
        let tls = TlsConnector::from(self.tls.clone()).connect(name, tcp).await.context("no TLS")?;
        Connection::over(tls).await
    }

    pub(crate) fn get(&self, path: &str) -> Request<Full<Bytes>> {
        self.request("GET", path, Bytes::new())
    }

    pub(crate) fn post(&self, path: &str, body: String) -> Request<Full<Bytes>> {
        self.request("POST", path, Bytes::from(body))
    }

    fn request(&self, method: &str, path: &str, body: Bytes) -> Request<Full<Bytes>> {
        Request::builder()
            .method(method)
            .uri(format!("https://{}{path}", self.address))
            .header("accept", "application/json")
            .header("content-type", "application/json")
            .header("user-agent", "causeway-bench/1")
            .body(Full::new(body))
            .expect("a request from valid parts")
    }
}

/// The collection of a namespace's ConfigMaps.
pub(crate) fn config_maps(namespace: &str) -> String {
    format!("/api/v1/namespaces/{namespace}/configmaps")
}

/// A ConfigMap with one value.
pub(crate) fn config_map(name: &str, value: &str) -> String {
    format!(
        r#"{{"apiVersion":"v1","kind":"ConfigMap","metadata":{{"name":"{name}"}},"data":{{"value":"{value}"}}}}"#
    )
}

pub(crate) fn namespace(name: &str) -> String {
    format!(r#"{{"apiVersion":"v1","kind":"Namespace","metadata":{{"name":"{name}"}}}}"#)
}
