//! The control connection: what the host tells the container to listen on, what the container says has become of it,
//! and the renewal of the container's certificate. JSON with its length in front, over TLS.

use std::time::Duration;

use ipnet::IpNet;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};

use crate::tunnel::{Port, Protocol, Tunnel, TunnelId};

/// Both ends must speak the same; they are the same program unless somebody mixed versions.
pub const VERSION: u32 = 1;
/// Silence after which the other end is taken for gone.
pub const PATIENCE: Duration = Duration::from_secs(3);
/// How often either end says something.
pub const BEAT: Duration = Duration::from_millis(500);
/// A thousand tunnels fit several times.
const MAX_MESSAGE: usize = 4 << 20;

/// What can go wrong between the ends.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The connection failed.
    #[error("the control connection failed")]
    Io(#[from] std::io::Error),
    /// Not our language.
    #[error("the other end sent a message that can't be read: are both ends of the same version?")]
    Message(#[from] serde_json::Error),
    /// A message beyond every measure.
    #[error("the other end announced a message of {0} bytes")]
    TooLong(usize),
}

/// What the container is told of a tunnel.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Listen {
    pub id: TunnelId,
    pub protocol: Protocol,
    pub port: Port,
    pub allowed_sources: Vec<IpNet>,
    pub max_streams: u32,
    pub idle_timeout_millis: u64,
    /// Whether somebody answers on the host.
    pub open: bool,
}

impl Listen {
    pub fn new(tunnel: &Tunnel, open: bool) -> Self {
        Self {
            id: tunnel.id,
            protocol: tunnel.protocol,
            port: tunnel.port,
            allowed_sources: tunnel.allowed_sources.clone(),
            max_streams: tunnel.stream_limit(),
            idle_timeout_millis: tunnel.idle_timeout().as_millis() as u64,
            open,
        }
    }
}

/// What the host says.
#[derive(Debug, Serialize, Deserialize)]
pub enum ToContainer {
    /// The first word.
    Hello { version: u32 },
    /// All tunnels there should be.
    Carry { tunnels: Vec<Listen> },
    /// Somebody answers on the host for this one, or nobody does any longer.
    Gate { tunnel: TunnelId, open: bool },
    /// Make a new key and ask to have it signed.
    Renew,
    /// The new key's certificate.
    Certificate { pem: String },
    /// Still here.
    Beat,
}

/// What the container says.
#[derive(Debug, Serialize, Deserialize)]
pub enum ToHost {
    /// The answer to the first word: data links of this session begin with `session`.
    Welcome { version: u32, session: String },
    /// How things stand.
    Report { links: usize, tunnels: Vec<(TunnelId, Result<Door, String>)> },
    /// A new key wants a certificate.
    Request { pem: String },
    /// Still here.
    Beat,
}

/// A tunnel's port in the container.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Door {
    pub port: u16,
    /// Whether clients are taken.
    pub open: bool,
}

/// Sends one message.
pub async fn send<T: Serialize>(out: &mut (impl AsyncWrite + Unpin), message: &T) -> Result<(), Error> {
    let body = serde_json::to_vec(message)?;
    let mut bytes = Vec::with_capacity(4 + body.len());
    bytes.extend_from_slice(&(body.len() as u32).to_be_bytes());
    bytes.extend_from_slice(&body);
    out.write_all(&bytes).await?;
    Ok(out.flush().await?)
}

/// Waits for one message. Not to be cancelled: what was read of a message would be lost.
pub async fn receive<T: DeserializeOwned>(input: &mut (impl AsyncRead + Unpin)) -> Result<T, Error> {
    let length = input.read_u32().await? as usize;
    if length > MAX_MESSAGE {
        return Err(Error::TooLong(length));
    }
    let mut body = vec![0; length];
    input.read_exact(&mut body).await?;
    Ok(serde_json::from_slice(&body)?)
}
