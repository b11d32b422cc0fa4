//! Plain HTTPS to one API server, as its administrator or without a certificate.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use causeway_testkit::patience;
use http::{HeaderMap, Request};
use http_body_util::{BodyExt as _, Full};
use hyper_util::rt::TokioIo;
use kube::Config;
use kube::client::ConfigExt as _;
use kube::config::{AuthInfo, KubeConfigOptions, Kubeconfig};
use rustls::ClientConfig;
use rustls::pki_types::ServerName;
use serde_json::Value;
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

use crate::table::Row;

/// Longer than any answer takes.
const PATIENCE: Duration = Duration::from_secs(30);

/// One server, and what was learnt from its answers.
pub struct Client {
    address: String,
    administrator: Arc<ClientConfig>,
    nobody: Arc<ClientConfig>,
}

/// What a server answered.
#[derive(Debug)]
pub struct Answer {
    pub status: u16,
    pub headers: HeaderMap,
    /// JSON and YAML as a tree, the events of a watch as a list, anything else as text.
    pub body: Value,
}

impl Client {
    pub async fn new(kubeconfig: &Path) -> Self {
        let kubeconfig = Kubeconfig::read_from(kubeconfig).unwrap();
        let options = KubeConfigOptions::default();
        let mut config = Config::from_custom_kubeconfig(kubeconfig, &options).await.unwrap();
        // Only the first of the tests can install it.
        let _ = rustls::crypto::aws_lc_rs::default_provider().install_default();
        let administrator = Arc::new(config.rustls_client_config().unwrap());
        config.auth_info = AuthInfo::default();
        let nobody = Arc::new(config.rustls_client_config().unwrap());
        let address = config.cluster_url.authority().unwrap().to_string();
        Self { address, administrator, nobody }
    }

    /// Sends one request of the table, with `values` in their places.
    pub async fn send(&self, row: &Row, values: &BTreeMap<String, String>) -> Answer {
        let fill = |text: &str| fill(text, values);
        let config = if row.without_certificate { &self.nobody } else { &self.administrator };
        let mut request = Request::builder()
            .method(row.method.as_str())
            .uri(fill(&row.path))
            .header("host", &self.address)
            .header("user-agent", "differential/1.0");
        for (name, value) in &row.headers {
            request = request.header(name, fill(value));
        }
        let request =
            request.body(Full::from(fill(&row.body))).unwrap_or_else(|e| panic!("{}: {e}", row.name));
        tokio::time::timeout(patience(PATIENCE), self.exchange(config, request))
            .await
            .unwrap_or_else(|_| panic!("{}: {} did not answer", row.name, self.address))
            .unwrap_or_else(|e| panic!("{}: {}: {e}", row.name, self.address))
    }

    async fn exchange(
        &self,
        config: &Arc<ClientConfig>,
        request: Request<Full<bytes::Bytes>>,
    ) -> Result<Answer, Box<dyn std::error::Error>> {
        let tcp = TcpStream::connect(&self.address).await?;
        let name = ServerName::try_from("127.0.0.1")?;
        let tls = TlsConnector::from(config.clone()).connect(name, tcp).await?;
        let (mut sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(tls)).await?;
        tokio::spawn(connection);
        let is_watch = request.uri().query().is_some_and(|query| query.contains("watch="));
        let (head, body) = sender.send_request(request).await?.into_parts();
        let text = String::from_utf8_lossy(&body.collect().await?.to_bytes()).into_owned();
        let media = head.headers.get("content-type").and_then(|v| v.to_str().ok()).unwrap_or_default();
        let body = if is_watch && head.status.is_success() {
            text.lines().map(serde_json::from_str::<Value>).collect::<Result<_, _>>()?
        } else if media.contains("yaml") {
            serde_saphyr::from_str(&text)?
        } else {
            serde_json::from_str(&text).unwrap_or(Value::String(text))
        };
        Ok(Answer { status: head.status.as_u16(), headers: head.headers, body })
    }
}

fn fill(text: &str, values: &BTreeMap<String, String>) -> String {
    let mut pieces = text.split("{{");
    let mut filled = pieces.next().unwrap_or_default().to_owned();
    for piece in pieces {
        // Closing braces of a body's own are left alone.
        match piece.split_once("}}") {
            Some((name, rest)) if values.contains_key(name) => {
                filled += &values[name];
                filled += rest;
            }
            _ => {
                filled += "{{";
                filled += piece;
            }
        }
    }
    filled
}
