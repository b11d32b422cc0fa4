//! One real connection: a TLS handshake, with or without a name, or a request without TLS. No secret is sent, so the
//! certificate is looked at and not trusted.

use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, LazyLock};
use std::time::Duration;

use causeway_node::UnverifiedServer;
use rustls::client::verify_server_name;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::server::ParsedCertificate;
use rustls::{AlertDescription, ClientConfig};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_rustls::TlsConnector;
use x509_parser::extensions::GeneralName;
use x509_parser::prelude::{FromDer, X509Certificate};

/// How long each of the two steps may take, to connect and to get an answer.
const TIMEOUT: Duration = Duration::from_secs(3);

/// A connection that lasts so long is one that somebody keeps.
const KEPT: Duration = Duration::from_millis(500);

static WITH_NAME: LazyLock<TlsConnector> = LazyLock::new(|| connector(true));
static WITHOUT_NAME: LazyLock<TlsConnector> = LazyLock::new(|| connector(false));

fn connector(enable_sni: bool) -> TlsConnector {
    let mut config = ClientConfig::builder()
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(UnverifiedServer))
        .with_no_client_auth();
    config.enable_sni = enable_sni;
    TlsConnector::from(Arc::new(config))
}

/// Why nothing came of a connection.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Failure {
    /// The connection itself was not accepted.
    Connect(String),
    /// It was accepted, and then there was silence.
    Silent,
    /// It was closed or reset without an answer.
    Closed,
    /// It was refused with a TLS alert.
    Alert(String),
    /// The answer makes no sense.
    Other(String),
}

impl std::fmt::Display for Failure {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Connect(why) | Self::Other(why) => f.write_str(why),
            Self::Silent => write!(f, "no answer within {} s", TIMEOUT.as_secs()),
            Self::Closed => f.write_str("the connection was closed without an answer"),
            Self::Alert(name) => write!(f, "TLS alert {name}"),
        }
    }
}

/// The certificate that answered.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Certificate {
    pub(super) names: Vec<String>,
    /// Whether it is good for the name that was asked for.
    pub(super) fits: bool,
}

/// Connects and nothing more.
pub(super) async fn connect(address: SocketAddr) -> Result<TcpStream, Failure> {
    match timeout(TIMEOUT, TcpStream::connect(address)).await {
        Err(_) => Err(Failure::Connect(format!("no connection within {} s", TIMEOUT.as_secs()))),
        Ok(Err(error)) => Err(Failure::Connect(match error.kind() {
            io::ErrorKind::ConnectionRefused => "connection refused".to_owned(),
            _ => error.to_string(),
        })),
        Ok(Ok(stream)) => Ok(stream),
    }
}

/// Connects, and sees whether the connection is closed at once: a proxy does so when it finds nobody to pass it on to.
pub(super) async fn stays_open(address: SocketAddr) -> Result<(), Failure> {
    let mut stream = connect(address).await?;
    match timeout(KEPT, stream.read(&mut [0])).await {
        Err(_) | Ok(Ok(1..)) => Ok(()),
        Ok(Ok(0)) => Err(Failure::Closed),
        Ok(Err(error)) => Err(explain(&error)),
    }
}

/// A TLS handshake that asks for this name, or for none.
pub(super) async fn handshake(address: SocketAddr, name: Option<&str>) -> Result<Certificate, Failure> {
    let asked = name.unwrap_or("no-name.invalid").to_owned();
    let server = ServerName::try_from(asked).map_err(|error| Failure::Other(error.to_string()))?;
    let connector = if name.is_some() { &*WITH_NAME } else { &*WITHOUT_NAME };
    let stream = connect(address).await?;
    let tls = match timeout(TIMEOUT, connector.connect(server.clone(), stream)).await {
        Err(_) => return Err(Failure::Silent),
        Ok(answered) => answered.map_err(|error| explain(&error))?,
    };
    let chain = tls.get_ref().1.peer_certificates();
    let certificate = chain.and_then(|all| all.first()).ok_or(Failure::Other("no certificate".to_owned()))?;
    let parsed = ParsedCertificate::try_from(certificate);
    let fits = parsed.is_ok_and(|parsed| verify_server_name(&parsed, &server).is_ok());
    Ok(Certificate { names: names(certificate), fits })
}

/// A request without TLS: how many bytes came back.
pub(super) async fn plaintext(address: SocketAddr) -> Result<usize, Failure> {
    let mut stream = connect(address).await?;
    let mut some = [0; 64];
    let talk = async {
        stream.write_all(b"GET /healthz HTTP/1.0\r\n\r\n").await?;
        stream.read(&mut some).await
    };
    match timeout(TIMEOUT, talk).await {
        Err(_) => Err(Failure::Silent),
        Ok(Err(error)) => Err(explain(&error)),
        Ok(Ok(0)) => Err(Failure::Closed),
        Ok(Ok(count)) => Ok(count),
    }
}

fn explain(error: &io::Error) -> Failure {
    let inner = error.get_ref().and_then(|e| e.downcast_ref::<rustls::Error>());
    match (inner, error.kind()) {
        (Some(rustls::Error::AlertReceived(AlertDescription::UnrecognisedName)), _) => {
            Failure::Alert("unrecognized_name".to_owned())
        }
        (Some(rustls::Error::AlertReceived(alert)), _) => Failure::Alert(format!("{alert:?}")),
        (Some(rustls::Error::InvalidMessage(_)), _) => {
            Failure::Other("what answers does not speak TLS".to_owned())
        }
        (Some(other), _) => Failure::Other(other.to_string()),
        (None, io::ErrorKind::UnexpectedEof | io::ErrorKind::ConnectionReset | io::ErrorKind::BrokenPipe) => {
            Failure::Closed
        }
        (None, _) => Failure::Other(error.to_string()),
    }
}

fn names(certificate: &CertificateDer<'_>) -> Vec<String> {
    let Ok((_, certificate)) = X509Certificate::from_der(certificate) else { return Vec::new() };
    let Ok(Some(names)) = certificate.subject_alternative_name() else { return Vec::new() };
    let text = |name: &GeneralName<'_>| match name {
        GeneralName::DNSName(name) => Some((*name).to_owned()),
        _ => None,
    };
    names.value.general_names.iter().filter_map(text).collect()
}
