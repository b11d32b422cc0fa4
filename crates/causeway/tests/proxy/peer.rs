//! TLS servers that say their name and then repeat what they hear, and a client that trusts one of them only.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::time::Duration;

use rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore, ServerConfig, ServerConnection, StreamOwned};

const LIMIT: Duration = Duration::from_secs(10);

/// A TLS server with a certificate of its own. It lasts as long as the test program.
pub struct TlsBackend {
    pub address: SocketAddr,
    certificate: CertificateDer<'static>,
}

fn provider() -> Arc<rustls::crypto::CryptoProvider> {
    Arc::new(rustls::crypto::aws_lc_rs::default_provider())
}

impl TlsBackend {
    pub fn start(word: &'static str, names: &[&str]) -> Self {
        let names: Vec<String> = names.iter().map(|n| (*n).to_owned()).collect();
        let made = rcgen::generate_simple_self_signed(names).unwrap();
        let certificate = made.cert.der().clone();
        let key = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(made.signing_key.serialize_der()));
        let config = ServerConfig::builder_with_provider(provider())
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(vec![certificate.clone()], key)
            .unwrap();
        let config = Arc::new(config);
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let config = Arc::clone(&config);
                // A peer that goes away is its own business.
                std::thread::spawn(move || -> std::io::Result<()> {
                    let tls = ServerConnection::new(config).map_err(std::io::Error::other)?;
                    let mut tls = StreamOwned::new(tls, stream);
                    tls.write_all(format!("{word}\n").as_bytes())?;
                    let mut some = [0; 1024];
                    loop {
                        let count = tls.read(&mut some)?;
                        if count == 0 {
                            return Ok(());
                        }
                        tls.write_all(&some[..count])?;
                    }
                });
            }
        });
        Self { address, certificate }
    }

    /// Connects to `through`, asks for `name` and reads this server's word.
    pub fn connect(&self, through: SocketAddr, name: &str) -> Result<Client, String> {
        let mut roots = RootCertStore::empty();
        roots.add(self.certificate.clone()).unwrap();
        let config = ClientConfig::builder_with_provider(provider())
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_root_certificates(roots)
            .with_no_client_auth();
        let server = ServerName::try_from(name.to_owned()).unwrap();
        let tls = ClientConnection::new(Arc::new(config), server).map_err(|e| e.to_string())?;
        let stream = TcpStream::connect_timeout(&through, LIMIT).map_err(|e| e.to_string())?;
        stream.set_read_timeout(Some(LIMIT)).unwrap();
        let mut client = Client { tls: StreamOwned::new(tls, stream), word: String::new() };
        client.word = client.line()?;
        Ok(client)
    }
}

/// An open connection.
pub struct Client {
    tls: StreamOwned<ClientConnection, TcpStream>,
    /// What the server said first.
    pub word: String,
}

impl Client {
    /// Sends a line and reads it back.
    pub fn echo(&mut self, text: &str) -> Result<(), String> {
        self.tls.write_all(format!("{text}\n").as_bytes()).map_err(|e| e.to_string())?;
        let back = self.line()?;
        if back == text { Ok(()) } else { Err(format!("{back:?} instead of {text:?}")) }
    }

    fn line(&mut self) -> Result<String, String> {
        let mut line = Vec::new();
        let mut one = [0; 1];
        loop {
            match self.tls.read(&mut one) {
                Ok(0) => return Err("the connection ended".into()),
                Ok(_) if one[0] == b'\n' => return String::from_utf8(line).map_err(|e| e.to_string()),
                Ok(_) => line.push(one[0]),
                Err(error) => return Err(error.to_string()),
            }
        }
    }
}

/// The status and body of a plain GET.
pub fn get(at: SocketAddr, path: &str) -> Result<(u16, String), String> {
    let ask = || -> std::io::Result<String> {
        let mut stream = TcpStream::connect_timeout(&at, LIMIT)?;
        stream.set_read_timeout(Some(LIMIT))?;
        write!(stream, "GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")?;
        let mut text = String::new();
        stream.read_to_string(&mut text)?;
        Ok(text)
    };
    let text = ask().map_err(|e| e.to_string())?;
    let code = text.split(' ').nth(1).and_then(|c| c.parse().ok()).ok_or("not HTTP")?;
    Ok((code, text))
}
