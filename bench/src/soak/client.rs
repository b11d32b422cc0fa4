//! A client's side of a connection: hellos, requests whose every byte is checked, and how a connection should end.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use anyhow::{Context, bail, ensure};
use rustls::pki_types::ServerName;
use rustls::{ClientConfig, ClientConnection, RootCertStore};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpStream, UdpSocket};
use tokio::time::timeout;

use super::backend::GREETING;

/// For anything that should be quick; the machine may be busy with other things.
pub(crate) const PATIENCE: Duration = Duration::from_secs(20);
/// The TLS alert `unrecognized_name`, fatal, as a record.
const UNKNOWN_NAME: [u8; 2] = [2, 112];

/// Makes ClientHellos as rustls writes them, and keeps them: nobody answers them.
pub(crate) struct Hellos {
    named: Arc<ClientConfig>,
    nameless: Arc<ClientConfig>,
    made: Mutex<HashMap<String, Arc<[u8]>>>,
}

impl Hellos {
    pub(crate) fn new() -> Self {
        let config =
            || ClientConfig::builder().with_root_certificates(RootCertStore::empty()).with_no_client_auth();
        let mut nameless = config();
        nameless.enable_sni = false;
        Self { named: Arc::new(config()), nameless: Arc::new(nameless), made: Mutex::default() }
    }

    pub(crate) fn of(&self, name: &str) -> anyhow::Result<Arc<[u8]>> {
        if let Some(hello) = self.made.lock().unwrap_or_else(PoisonError::into_inner).get(name) {
            return Ok(Arc::clone(hello));
        }
        let hello = write(&self.named, name)?;
        let mut made = self.made.lock().unwrap_or_else(PoisonError::into_inner);
        if made.len() > 2000 {
            made.clear();
        }
        made.insert(name.to_owned(), Arc::clone(&hello));
        Ok(hello)
    }

    pub(crate) fn nameless(&self) -> anyhow::Result<Arc<[u8]>> {
        write(&self.nameless, "nobody.test")
    }
}

fn write(config: &Arc<ClientConfig>, name: &str) -> anyhow::Result<Arc<[u8]>> {
    let name = ServerName::try_from(name.to_owned())?;
    let mut hello = Vec::new();
    ClientConnection::new(Arc::clone(config), name)?.write_tls(&mut hello)?;
    Ok(hello.into())
}

/// A connection that has reached an endpoint.
pub(crate) struct Connection {
    pub(crate) stream: TcpStream,
    /// Who answered.
    pub(crate) id: u16,
}

/// Connects and sends the first bytes.
pub(crate) async fn send(to: SocketAddr, first: &[u8]) -> anyhow::Result<TcpStream> {
    let connect = async {
        let mut stream = TcpStream::connect(to).await.context("can't connect")?;
        stream.set_nodelay(true)?;
        stream.write_all(first).await.context("can't send the first bytes")?;
        anyhow::Ok(stream)
    };
    timeout(PATIENCE, connect).await.context("connecting took too long")?
}

impl Connection {
    /// Connects, sends the first bytes, and reads who answers and that it got them.
    pub(crate) async fn open(to: SocketAddr, first: &[u8]) -> anyhow::Result<Self> {
        Self::greeted(send(to, first).await?, first).await
    }

    /// The endpoint speaks first, then it gives back the first bytes.
    pub(crate) async fn greeted(mut stream: TcpStream, first: &[u8]) -> anyhow::Result<Self> {
        let mut greeting = [0; GREETING];
        read(&mut stream, &mut greeting).await.context("no greeting")?;
        ensure!(greeting[0] == b'B', "a strange greeting: {greeting:?}");
        let mut connection = Self { stream, id: u16::from_be_bytes([greeting[1], greeting[2]]) };
        connection.expect(first).await.context("the first bytes did not come back")?;
        Ok(connection)
    }

    /// Sends and reads at once, so that neither side is filled up, and compares.
    pub(crate) async fn echo(&mut self, payload: &[u8]) -> anyhow::Result<()> {
        let (mut from, mut to) = self.stream.split();
        let sending = async { to.write_all(payload).await.context("can't send") };
        let mut back = vec![0; payload.len()];
        let reading = async { from.read_exact(&mut back).await.context("can't read") };
        timeout(PATIENCE, async { tokio::try_join!(sending, reading) }).await.context("no answer")??;
        ensure!(back == payload, "other bytes came back");
        Ok(())
    }

    /// Sends all, says that this was all, and reads the whole answer up to its end.
    pub(crate) async fn finish(mut self, payload: &[u8]) -> anyhow::Result<()> {
        let (mut from, mut to) = self.stream.split();
        let sending = async {
            to.write_all(payload).await.context("can't send")?;
            to.shutdown().await.context("can't half-close")
        };
        let mut back = Vec::with_capacity(payload.len());
        let reading = async { from.read_to_end(&mut back).await.context("can't read") };
        timeout(PATIENCE, async { tokio::try_join!(sending, reading) }).await.context("no end")??;
        ensure!(back.len() == payload.len(), "{} of {} bytes came back", back.len(), payload.len());
        ensure!(back == payload, "other bytes came back");
        Ok(())
    }

    async fn expect(&mut self, bytes: &[u8]) -> anyhow::Result<()> {
        let mut back = vec![0; bytes.len()];
        read(&mut self.stream, &mut back).await?;
        ensure!(back == bytes, "other bytes came back");
        Ok(())
    }
}

async fn read(stream: &mut TcpStream, bytes: &mut [u8]) -> anyhow::Result<()> {
    timeout(PATIENCE, stream.read_exact(bytes)).await.context("no answer")??;
    Ok(())
}

/// Reads until the other side ends or resets the connection; gives what came.
pub(crate) async fn end(stream: &mut TcpStream, limit: Duration) -> anyhow::Result<Vec<u8>> {
    let mut all = Vec::new();
    let reading = async {
        let mut block = [0; 4096];
        while let Ok(count @ 1..) = stream.read(&mut block).await {
            all.extend(&block[..count]);
        }
    };
    timeout(limit, reading).await.with_context(|| format!("still open after {limit:?}"))?;
    Ok(all)
}

/// The name of this hello is unknown: an alert comes and the connection ends.
pub(crate) async fn refused(to: SocketAddr, hello: &[u8]) -> anyhow::Result<()> {
    let mut stream = send(to, hello).await?;
    let said = end(&mut stream, PATIENCE).await?;
    ensure!(said.len() == 7 && said.ends_with(&UNKNOWN_NAME), "not refused with an alert but {said:?}");
    Ok(())
}

/// One datagram there and back; datagrams may be lost, so it is sent a few times.
pub(crate) async fn datagram(socket: &UdpSocket, payload: &[u8]) -> anyhow::Result<()> {
    let mut back = vec![0; 2048];
    for _ in 0..4 {
        socket.send(payload).await.context("can't send")?;
        let answer = async {
            loop {
                let count = socket.recv(&mut back).await.context("can't receive")?;
                ensure!(count >= GREETING && back[0] == b'B', "a strange answer");
                // Another one is a late answer to a datagram that was sent twice.
                if back[GREETING..count] == *payload {
                    return Ok(());
                }
            }
        };
        if let Ok(answered) = timeout(Duration::from_secs(3), answer).await {
            return answered;
        }
    }
    bail!("no answer to four datagrams")
}
