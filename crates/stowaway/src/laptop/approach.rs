//! The ways by which a laptop can come to the cluster's end, and how each is gone.

use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use causeway_base::random;
use causeway_base::report::chain;
use causeway_link::{Connection, Identity, dial, dial_over};
use futures::future::{BoxFuture, join_all};
use futures::stream::{FuturesUnordered, StreamExt as _};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::lookup_host;
use tokio::time::{sleep, timeout};

use super::bridge::bridge;
use crate::STOWAWAY;
use crate::way::Way;

/// How long a name may take to be looked up.
const LOOKUP: Duration = Duration::from_secs(2);
/// How long an address is waited for before the next one is tried beside it.
const BESIDE: Duration = Duration::from_millis(150);
/// Addresses that are tried in one go; there may be one for each node.
const MOST: usize = 8;
/// How long a bridge may take to be there.
const BRIDGE: Duration = Duration::from_secs(10);

/// A stream of bytes both ways.
pub trait Duplex: AsyncRead + AsyncWrite + Send + Unpin + 'static {}

impl<T: AsyncRead + AsyncWrite + Send + Unpin + 'static> Duplex for T {}

/// Makes a byte stream to the hub's port for links.
pub type Dial = Arc<dyn Fn() -> BoxFuture<'static, io::Result<Box<dyn Duplex>>> + Send + Sync>;

/// A way to the hub's port for links.
#[derive(Clone)]
pub enum Approach {
    /// To one of these places (HOST:PORT), whichever answers first.
    Direct(Vec<String>),
    /// By other means: a byte stream that somebody else makes.
    Bridge {
        /// What it is.
        way: Way,
        /// Makes one.
        dial: Dial,
    },
}

impl fmt::Debug for Approach {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Direct(places) => f.debug_tuple("Direct").field(places).finish(),
            Self::Bridge { way, .. } => f.debug_struct("Bridge").field("way", way).finish_non_exhaustive(),
        }
    }
}

impl Approach {
    /// Which way it is.
    pub fn way(&self) -> Way {
        match self {
            Self::Direct(_) => Way::Link,
            Self::Bridge { way, .. } => *way,
        }
    }

    /// Whether it is the same way to the same place.
    pub(super) fn is(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Direct(one), Self::Direct(other)) => one == other,
            (Self::Bridge { way, dial }, Self::Bridge { way: other_way, dial: other_dial }) => {
                way == other_way && Arc::ptr_eq(dial, other_dial)
            }
            _ => false,
        }
    }

    /// Goes it; gives the connection and where the hub was found, or why it was not.
    pub(super) async fn go(
        &self,
        identity: &Identity,
        greeting: &[u8],
    ) -> Result<(Connection, String), String> {
        match self {
            Self::Direct(places) => dial_first(places, identity, greeting).await,
            Self::Bridge { way, dial } => {
                let made = timeout(BRIDGE, dial()).await;
                let stream = match made {
                    Ok(Ok(stream)) => stream,
                    Ok(Err(error)) => return Err(chain(&error)),
                    Err(_) => return Err(format!("no answer within {} s", BRIDGE.as_secs())),
                };
                let socket = bridge(stream).await.map_err(|error| chain(&error))?;
                let connection = dial_over(socket, identity, STOWAWAY, greeting).await;
                Ok((connection.map_err(|error| chain(&error))?, way.to_string()))
            }
        }
    }
}

/// Dials the places side by side, each a little after the one before it; the first that answers is taken.
async fn dial_first(
    places: &[String],
    identity: &Identity,
    greeting: &[u8],
) -> Result<(Connection, String), String> {
    let (addresses, mut errors) = look_up(places).await;
    let mut waiting = addresses.into_iter();
    let mut trying = FuturesUnordered::new();
    loop {
        if let Some(address) = waiting.next() {
            trying.push(async move { (address, dial(address, identity, STOWAWAY, greeting).await) });
        }
        tokio::select! {
            Some((address, dialled)) = trying.next() => match dialled {
                Ok(connection) => return Ok((connection, address.to_string())),
                Err(error) => errors.push(chain(&error)),
            },
            () = sleep(BESIDE), if waiting.len() > 0 => {}
            else => return Err(told(errors)),
        }
    }
}

/// What is told of several errors: each once.
fn told(mut errors: Vec<String>) -> String {
    if errors.is_empty() {
        return "the cluster has not said where its end takes links".to_owned();
    }
    errors.sort();
    errors.dedup();
    errors.join(", ")
}

/// Some of the addresses of these places, in any order, and what can't be looked up.
async fn look_up(places: &[String]) -> (Vec<SocketAddr>, Vec<String>) {
    let looking = places.iter().map(async |place| match timeout(LOOKUP, lookup_host(place)).await {
        Ok(Ok(found)) => Ok(found.collect::<Vec<_>>()),
        Ok(Err(error)) => Err(format!("{place}: {error}")),
        Err(_) => Err(format!("{place}: no answer from the name servers")),
    });
    let (mut addresses, mut errors) = (Vec::new(), Vec::new());
    for found in join_all(looking).await {
        match found {
            Ok(found) => addresses.extend(found),
            Err(error) => errors.push(error),
        }
    }
    addresses.sort_unstable();
    addresses.dedup();
    // Any order, so that not everybody goes to the same one.
    addresses.sort_by_cached_key(|_| random::number());
    addresses.truncate(MOST);
    (addresses, errors)
}
