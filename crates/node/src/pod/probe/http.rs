//! An HTTP GET as the kubelet does it: any status from 200 to 399 is a success, certificates are not verified.

use std::sync::{Arc, OnceLock};

use bytes::Bytes;
use http::{Request, StatusCode, header};
use http_body_util::Empty;
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use rustls::{ClientConfig, crypto::aws_lc_rs, pki_types::ServerName};
use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::TcpStream,
};
use tokio_rustls::TlsConnector;

use crate::unverified::UnverifiedServer;

/// A request with everything resolved.
#[derive(Clone, Debug)]
pub(crate) struct Get {
    pub host: String,
    pub port: u16,
    pub path: String,
    pub tls: bool,
    pub headers: Vec<(String, String)>,
}

impl Get {
    /// The URL for messages.
    pub(crate) fn url(&self) -> String {
        let scheme = if self.tls { "https" } else { "http" };
        format!("{scheme}://{}{}", self.authority(), self.path)
    }

    fn authority(&self) -> String {
        if self.host.contains(':') {
            format!("[{}]:{}", self.host, self.port)
        } else {
            format!("{}:{}", self.host, self.port)
        }
    }

    /// Sends the request.
    pub(crate) async fn run(&self) -> Result<(), String> {
        let failed = |error: &dyn std::fmt::Display| format!("Get {:?}: {error}", self.url());
        let stream =
            TcpStream::connect((self.host.as_str(), self.port)).await.map_err(|error| failed(&error))?;
        let status = if self.tls {
            let name = ServerName::try_from(self.host.clone()).map_err(|error| failed(&error))?;
            let stream = TlsConnector::from(client_config()?)
                .connect(name, stream)
                .await
                .map_err(|error| failed(&error))?;
            self.send(stream).await
        } else {
            self.send(stream).await
        }
        .map_err(|error| failed(&error))?;
        if status.as_u16() >= 200 && status.as_u16() < 400 {
            return Ok(());
        }
        Err(format!("HTTP probe failed with statuscode: {}", status.as_u16()))
    }

    async fn send(
        &self,
        stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
    ) -> Result<StatusCode, String> {
        let (mut sender, connection) =
            http1::handshake(TokioIo::new(stream)).await.map_err(|error| error.to_string())?;
        let path = if self.path.starts_with('/') { self.path.clone() } else { format!("/{}", self.path) };
        let mut request = Request::get(path);
        let has = |name: &str| self.headers.iter().any(|(own, _)| own.eq_ignore_ascii_case(name));
        if !has("host") {
            request = request.header(header::HOST, self.authority());
        }
        if !has("user-agent") {
            request = request.header(header::USER_AGENT, "kube-probe/1.34");
        }
        if !has("accept") {
            request = request.header(header::ACCEPT, "*/*");
        }
        for (name, value) in &self.headers {
            request = request.header(name, value);
        }
        let request = request.body(Empty::<Bytes>::new()).map_err(|error| error.to_string())?;
        // Driven here, not in a task of its own: the time limit of the probe then ends the connection, too.
        let mut connection = std::pin::pin!(connection);
        let mut response = std::pin::pin!(sender.send_request(request));
        tokio::select! {
            response = &mut response => response.map(|response| response.status()).map_err(|error| error.to_string()),
            ended = &mut connection => match ended {
                Ok(()) => response.await.map(|response| response.status()).map_err(|error| error.to_string()),
                Err(error) => Err(error.to_string()),
            },
        }
    }
}

fn client_config() -> Result<Arc<ClientConfig>, String> {
    static CONFIG: OnceLock<Arc<ClientConfig>> = OnceLock::new();
    if let Some(config) = CONFIG.get() {
        return Ok(config.clone());
    }
    let config = ClientConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()))
        .with_safe_default_protocol_versions()
        .map_err(|error| error.to_string())?
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(UnverifiedServer))
        .with_no_client_auth();
    Ok(CONFIG.get_or_init(|| Arc::new(config)).clone())
}

#[cfg(test)]
mod tests {
    use tokio::{
        io::{AsyncReadExt, AsyncWriteExt},
        net::TcpListener,
    };

    use super::*;

    async fn answer(status: &'static str) -> (Result<(), String>, String) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let server = tokio::spawn(async move {
            let (mut stream, _) = listener.accept().await.unwrap();
            let mut request = vec![0; 4096];
            let n = stream.read(&mut request).await.unwrap();
            stream
                .write_all(format!("HTTP/1.1 {status}\r\ncontent-length: 0\r\n\r\n").as_bytes())
                .await
                .unwrap();
            String::from_utf8_lossy(&request[..n]).into_owned()
        });
        let headers = vec![("X-Test".to_owned(), "1".to_owned())];
        let get = Get { host: "127.0.0.1".into(), port, path: "/healthz".into(), tls: false, headers };
        (get.run().await, server.await.unwrap())
    }

    #[tokio::test]
    async fn two_and_three_hundreds_pass() {
        let (result, request) = answer("200 OK").await;
        assert_eq!(result, Ok(()));
        assert!(
            request.starts_with("GET /healthz HTTP/1.1\r\n") && request.contains("x-test: 1"),
            "{request}"
        );
        assert_eq!(answer("302 Found").await.0, Ok(()));
        assert_eq!(answer("503 No").await.0, Err("HTTP probe failed with statuscode: 503".into()));
    }

    #[tokio::test]
    async fn a_closed_port_is_a_failure() {
        let port = TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap().port();
        let get = Get { host: "127.0.0.1".into(), port, path: "/".into(), tls: false, headers: Vec::new() };
        assert!(get.run().await.unwrap_err().contains("refused"));
    }
}
