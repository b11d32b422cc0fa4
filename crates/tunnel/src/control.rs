//! The control stream: what the host tells the client end to listen on, what the client end says has become of it, and
//! the renewal of the client end's certificate. JSON with its length in front, on a stream of a link of its own, so that
//! it never waits behind data.

use std::sync::Arc;
use std::time::Duration;

use causeway_ir::tunnel::{Port, Tunnel, TunnelId, TunnelProtocol};
use causeway_link::{Settings, Traffic};
use ipnet::IpNet;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tokio::time::timeout;

/// The version of these messages. The link below has one of its own, which covers everything else.
pub(crate) const VERSION: u32 = 2;
/// How long the other end has to take a message or to answer the greeting.
pub(crate) const PATIENCE: Duration = Duration::from_secs(3);
/// A thousand tunnels fit several times.
const MAX_MESSAGE: usize = 4 << 20;

/// What can go wrong between the ends.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Error {
    /// The connection failed.
    #[error("the control stream failed")]
    Io(#[from] std::io::Error),
    /// A message of another kind than expected.
    #[error("the other end sent a message that can't be read: are both ends of the same version?")]
    Message(#[from] serde_json::Error),
    /// A message longer than any that is ever sent.
    #[error("the other end announced a message of {0} bytes")]
    TooLong(usize),
    /// The other end does not take what it is sent.
    #[error("the other end did not take a message within {} s", PATIENCE.as_secs())]
    NotTaken,
}

/// What the client end is told of a tunnel.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Listen {
    pub(crate) id: TunnelId,
    pub(crate) protocol: TunnelProtocol,
    pub(crate) port: Port,
    pub(crate) allowed_sources: Vec<IpNet>,
    pub(crate) max_streams: u32,
    pub(crate) idle_timeout_millis: u64,
    /// Whether somebody answers on the host.
    pub(crate) open: bool,
}

impl Listen {
    pub(crate) fn new(tunnel: &Tunnel, open: bool) -> Self {
        Self {
            id: tunnel.id,
            protocol: tunnel.protocol,
            port: tunnel.port,
            allowed_sources: tunnel.allowed_sources.clone(),
            max_streams: tunnel.max_streams.get(),
            idle_timeout_millis: tunnel.idle_timeout().as_millis() as u64,
            open,
        }
    }
}

/// What the host says.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum ToClient {
    /// The first word, and the session to go on with, if there was one.
    Hello {
        version: u32,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        session: Option<String>,
    },
    /// All tunnels there should be.
    Carry { tunnels: Vec<Listen> },
    /// Somebody answers on the host for this one, or nobody does any longer.
    Gate { tunnel: TunnelId, open: bool },
    /// Make a new key and ask to have it signed.
    Renew,
    /// The new key's certificate.
    Certificate { pem: String },
}

/// What the client end says.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum ToHost {
    /// The answer to the first word: data links of this session begin with `session`.
    Welcome { version: u32, session: String },
    /// How things stand.
    Report {
        links: usize,
        tunnels: Vec<(TunnelId, Result<Listener, String>)>,
        /// How many clients were refused because of a limit, where any were.
        #[serde(default)]
        limited: Vec<(TunnelId, u64)>,
    },
    /// A new key wants a certificate.
    Request { pem: String },
}

/// A tunnel's port in the client end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Listener {
    pub(crate) port: u16,
    /// Whether clients are taken.
    pub(crate) open: bool,
}

/// What is asked of a control stream: it may be silent for as long as nothing changes, since the link is not.
pub(crate) fn settings() -> Settings {
    Settings { idle_timeout: Duration::MAX, traffic: Arc::new(Traffic::default()), client: None }
}

/// Sends one message.
pub(crate) async fn send<T: Serialize>(
    out: &mut (impl AsyncWrite + Unpin),
    message: &T,
) -> Result<(), Error> {
    let body = serde_json::to_vec(message)?;
    let mut bytes = Vec::with_capacity(4 + body.len());
    bytes.extend_from_slice(&(body.len() as u32).to_be_bytes());
    bytes.extend_from_slice(&body);
    Ok(timeout(PATIENCE, out.write_all(&bytes)).await.map_err(|_| Error::NotTaken)??)
}

/// Waits for one message.
///
/// # Cancellation
/// Not to be cancelled: what was read of a message would be lost.
pub(crate) async fn receive<T: DeserializeOwned>(input: &mut (impl AsyncRead + Unpin)) -> Result<T, Error> {
    let length = input.read_u32().await? as usize;
    if length > MAX_MESSAGE {
        return Err(Error::TooLong(length));
    }
    let mut body = vec![0; length];
    input.read_exact(&mut body).await?;
    Ok(serde_json::from_slice(&body)?)
}

/// Receives messages in a task of its own, since one that is half read must not be given up. The task ends with what
/// is given back, or after the first error.
pub(crate) fn messages<T: DeserializeOwned + Send + 'static>(
    mut input: impl AsyncRead + Unpin + Send + 'static,
) -> Messages<T> {
    let (heard_tx, heard_rx) = mpsc::channel(16);
    let task = tokio::spawn(async move {
        loop {
            let message = receive(&mut input).await;
            let failed = message.is_err();
            if heard_tx.send(message).await.is_err() || failed {
                return;
            }
        }
    });
    Messages { heard_rx, task }
}

/// The messages that come.
pub(crate) struct Messages<T> {
    heard_rx: mpsc::Receiver<Result<T, Error>>,
    task: JoinHandle<()>,
}

impl<T> Messages<T> {
    /// The next one.
    pub(crate) async fn next(&mut self) -> Result<T, Error> {
        self.heard_rx
            .recv()
            .await
            .unwrap_or_else(|| Err(std::io::Error::from(std::io::ErrorKind::UnexpectedEof).into()))
    }
}

impl<T> Drop for Messages<T> {
    fn drop(&mut self) {
        self.task.abort();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn an_end_that_takes_nothing_is_given_up() {
        let (mut near, _far) = tokio::io::duplex(64);
        let carry = ToClient::Renew;
        send(&mut near, &carry).await.expect("there is room");
        let many = ToClient::Certificate { pem: "x".repeat(1000) };
        assert!(matches!(send(&mut near, &many).await, Err(Error::NotTaken)));
    }

    #[test]
    fn an_older_end_is_understood() {
        let hello: ToClient = serde_json::from_str(r#"{"Hello":{"version":2}}"#).expect("reads");
        assert!(matches!(hello, ToClient::Hello { version: 2, session: None }));
        let report = r#"{"Report":{"links":1,"tunnels":[[1,{"Ok":{"port":80,"open":true}}]]}}"#;
        assert!(matches!(serde_json::from_str(report).expect("reads"), ToHost::Report { links: 1, .. }));
    }
}
