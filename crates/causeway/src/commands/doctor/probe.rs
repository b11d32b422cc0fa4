//! Real connections through a proxy: TLS with a name that it routes, TLS with one that it does not, and plaintext.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::time::Duration;

use causeway_node::UnverifiedServer;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{AlertDescription, ClientConfig, ClientConnection};
use x509_parser::extensions::GeneralName;
use x509_parser::prelude::{FromDer, X509Certificate};

use super::Finding;

const TIMEOUT: Duration = Duration::from_secs(3);
/// A name that no route can have: `.invalid` is reserved.
const UNKNOWN_NAME: &str = "nobody.causeway-doctor.invalid";

/// Whether the address accepts a connection.
pub(super) async fn connect(address: SocketAddr) -> std::io::Result<()> {
    tokio::time::timeout(TIMEOUT, tokio::net::TcpStream::connect(address)).await?.map(drop)
}

/// A TLS handshake for a name of a backend.
pub(super) async fn name(address: SocketAddr, name: &str, backend: &str) -> Finding {
    let asked = name.replace('*', "causeway-doctor");
    match off_thread(move || handshake(address, &asked)).await {
        Ok(names) => Finding::Good(format!(
            "{name} on {address} reaches {backend}, whose certificate is for {}",
            if names.is_empty() { "no name".to_owned() } else { names.join(", ") }
        )),
        Err(error) => Finding::Bad(
            format!("{name} on {address} does not reach {backend}: {error}"),
            format!("see whether the service of {backend} answers TLS on its own address"),
        ),
    }
}

/// A TLS handshake for a name that must be refused.
pub(super) async fn unknown(address: SocketAddr) -> Finding {
    match off_thread(move || handshake(address, UNKNOWN_NAME)).await {
        Ok(_) => Finding::Bad(
            format!("an unknown name on {address} was not refused"),
            "something else than this proxy answers there".into(),
        ),
        Err(error) => Finding::Good(format!("an unknown name on {address} is refused ({error})")),
    }
}

/// A request without TLS.
pub(super) async fn plaintext(address: SocketAddr, refused: bool) -> Finding {
    let answer = off_thread(move || {
        let mut stream = open(address)?;
        stream.write_all(b"GET /healthz HTTP/1.0\r\n\r\n").map_err(|e| e.to_string())?;
        let mut some = [0; 64];
        stream.read(&mut some).map_err(|e| e.to_string())
    })
    .await;
    match (refused, answer) {
        (true, Ok(0) | Err(_)) => Finding::Good(format!("plaintext on {address} is refused")),
        (true, Ok(_)) => Finding::Bad(
            format!("plaintext on {address} was answered, though the spec refuses it"),
            "something else than this proxy answers there".into(),
        ),
        (false, Ok(count)) if count > 0 => Finding::Good(format!("plaintext on {address} is answered")),
        (false, Ok(_)) => Finding::Skipped(format!(
            "plaintext on {address} goes to a backend, which closed the connection without an answer"
        )),
        (false, Err(error)) => Finding::Skipped(format!(
            "plaintext on {address} goes to a backend, which did not answer: {error}"
        )),
    }
}

async fn off_thread<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, String> + Send + 'static,
) -> Result<T, String> {
    tokio::task::spawn_blocking(work).await.map_err(|error| error.to_string())?
}

fn open(address: SocketAddr) -> Result<TcpStream, String> {
    let open = || -> std::io::Result<TcpStream> {
        let stream = TcpStream::connect_timeout(&address, TIMEOUT)?;
        stream.set_read_timeout(Some(TIMEOUT))?;
        stream.set_write_timeout(Some(TIMEOUT))?;
        Ok(stream)
    };
    open().map_err(|error| error.to_string())
}

/// The names of the certificate that answers.
fn handshake(address: SocketAddr, name: &str) -> Result<Vec<String>, String> {
    let config = ClientConfig::builder()
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(UnverifiedServer))
        .with_no_client_auth();
    let server = ServerName::try_from(name.to_owned()).map_err(|error| error.to_string())?;
    let mut tls = ClientConnection::new(Arc::new(config), server).map_err(|error| error.to_string())?;
    let mut stream = open(address)?;
    while tls.is_handshaking() {
        tls.complete_io(&mut stream).map_err(|error| explain(&error))?;
    }
    let certificate = tls.peer_certificates().and_then(|all| all.first()).cloned();
    Ok(certificate.map(|certificate| names(&certificate)).unwrap_or_default())
}

fn explain(error: &std::io::Error) -> String {
    let inner = error.get_ref().and_then(|e| e.downcast_ref::<rustls::Error>());
    match inner {
        Some(rustls::Error::AlertReceived(AlertDescription::UnrecognisedName)) => {
            "TLS alert unrecognized_name".to_owned()
        }
        Some(other) => other.to_string(),
        None => error.to_string(),
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
