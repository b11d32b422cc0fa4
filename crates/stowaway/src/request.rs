//! What one end asks of the other when it opens a stream or a flow. The end that is asked connects first and then sends one
//! byte 0, a datagram of it on a flow; a refusal is a reset with the reason ([`crate::refusal`]). So whoever asks knows before
//! it promises anything.
//!
//! A kind that an end does not know is refused and nothing else happens: laptops and clusters differ in their release. The
//! meaning of a kind never changes; what is new gets a new kind.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use causeway_link::{Settings, Stream, Traffic};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::time::timeout;

use crate::place::{Place, normal_name};
use crate::refusal::understood;

/// The word that says that it is connected.
pub(crate) const CONNECTED: u8 = 0;

const SERVE: u8 = 1;
const CONNECT: u8 = 2;
const DATAGRAMS: u8 = 3;
const RESOLVE: u8 = 4;
const DELIVER: u8 = 5;

/// What follows is an address of this kind, or none, or a name.
const NONE: u8 = 0;
const IPV4: u8 = 4;
const IPV6: u8 = 6;
const NAME: u8 = 1;

/// A request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Request {
    /// From the laptop: this link is the one that counts from here on. The hub answers who it is, and as long as the stream is
    /// open the link counts.
    Serve,
    /// From the laptop: a stream to a place in the cluster.
    Connect(Place),
    /// From the laptop: a flow to a place in the cluster.
    Datagrams(Place),
    /// From the laptop: the addresses of a name, one a line.
    Resolve(String),
    /// From the hub: a stream or a flow to a port of the laptop, or to one of an address behind it.
    Deliver(Delivery),
}

/// Where the hub's stream is to go.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Delivery {
    /// None is the laptop itself.
    pub(crate) address: Option<IpAddr>,
    pub(crate) port: u16,
    /// Who is connected to the hub for it.
    pub(crate) client: SocketAddr,
}

impl Request {
    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut out = Vec::new();
        match self {
            Self::Serve => out.push(SERVE),
            Self::Connect(place) => {
                out.push(CONNECT);
                put_place(&mut out, place);
            }
            Self::Datagrams(place) => {
                out.push(DATAGRAMS);
                put_place(&mut out, place);
            }
            Self::Resolve(name) => {
                out.push(RESOLVE);
                out.extend_from_slice(name.as_bytes());
            }
            Self::Deliver(Delivery { address, port, client }) => {
                out.push(DELIVER);
                out.extend(port.to_be_bytes());
                out.extend(client.port().to_be_bytes());
                put_address(&mut out, Some(client.ip()));
                put_address(&mut out, *address);
            }
        }
        out
    }

    /// Reads a request; none if this end does not know what it means.
    pub(crate) fn decode(bytes: &[u8]) -> Option<Self> {
        let (kind, rest) = bytes.split_first()?;
        Some(match *kind {
            SERVE => Self::Serve,
            CONNECT => Self::Connect(get_place(rest)?),
            DATAGRAMS => Self::Datagrams(get_place(rest)?),
            RESOLVE => Self::Resolve(normal_name(str::from_utf8(rest).ok()?)?),
            DELIVER => {
                let (port, rest) = get_port(rest)?;
                let (client_port, rest) = get_port(rest)?;
                let (client, rest) = get_address(rest)?;
                let (address, rest) = get_address(rest)?;
                let client = SocketAddr::new(client?, client_port);
                rest.is_empty().then_some(Self::Deliver(Delivery { address, port, client }))?
            }
            _ => return None,
        })
    }
}

fn put_place(out: &mut Vec<u8>, place: &Place) {
    out.extend(place.port().to_be_bytes());
    match place {
        Place::Address(address) => put_address(out, Some(address.ip())),
        Place::Name(name, _) => {
            out.push(NAME);
            out.extend_from_slice(name.as_bytes());
        }
    }
}

fn get_place(bytes: &[u8]) -> Option<Place> {
    let (port, rest) = get_port(bytes)?;
    if let [NAME, name @ ..] = rest {
        return Some(Place::Name(normal_name(str::from_utf8(name).ok()?)?, port));
    }
    let (address, rest) = get_address(rest)?;
    rest.is_empty().then_some(Place::from(SocketAddr::new(address?, port)))
}

fn put_address(out: &mut Vec<u8>, address: Option<IpAddr>) {
    match address {
        None => out.push(NONE),
        Some(IpAddr::V4(address)) => {
            out.push(IPV4);
            out.extend(address.octets());
        }
        Some(IpAddr::V6(address)) => {
            out.push(IPV6);
            out.extend(address.octets());
        }
    }
}

fn get_address(bytes: &[u8]) -> Option<(Option<IpAddr>, &[u8])> {
    let (kind, rest) = bytes.split_first()?;
    match *kind {
        NONE => Some((None, rest)),
        IPV4 => rest.split_first_chunk::<4>().map(|(octets, rest)| (Some((*octets).into()), rest)),
        IPV6 => rest
            .split_first_chunk::<16>()
            .map(|(octets, rest)| (Some(IpAddr::from(*octets).to_canonical()), rest)),
        _ => None,
    }
}

fn get_port(bytes: &[u8]) -> Option<(u16, &[u8])> {
    bytes.split_first_chunk::<2>().map(|(port, rest)| (u16::from_be_bytes(*port), rest))
}

/// Says that it is connected.
pub(crate) async fn say_connected(stream: &mut Stream) -> io::Result<()> {
    stream.write_all(&[CONNECTED]).await
}

/// Waits for the other end's word.
pub(crate) async fn hear_connected(stream: &mut Stream, limit: Duration) -> io::Result<()> {
    match timeout(limit, stream.read_u8()).await {
        Ok(Ok(CONNECTED)) => Ok(()),
        Ok(Ok(_)) => Err(io::Error::new(io::ErrorKind::InvalidData, "the other end breaks the protocol")),
        Ok(Err(error)) => Err(understood(error)),
        Err(_) => Err(no_answer(limit)),
    }
}

/// The error of an other end that says nothing.
pub(crate) fn no_answer(limit: Duration) -> io::Error {
    let text = format!("no answer from the other end within {} s", limit.as_secs_f32());
    io::Error::new(io::ErrorKind::TimedOut, text)
}

/// How long a stream may be silent. Those who keep connections for later keep them for long, and an end that vanishes is
/// noticed by the link and by the kernel.
const IDLE_STREAM: Duration = Duration::from_hours(24);
/// How long a flow may be silent.
pub(crate) const IDLE_FLOW: Duration = Duration::from_mins(1);

/// What is asked of the stream that a link counts by: it may be silent for as long as nothing changes, since the link is not.
pub(crate) fn serve_settings(traffic: &Arc<Traffic>) -> Settings {
    Settings { idle_timeout: Duration::MAX, traffic: traffic.clone(), client: None }
}

/// What is asked of a stream; unread bytes are counted for `client`.
pub(crate) fn stream_settings(traffic: &Arc<Traffic>, client: IpAddr) -> Settings {
    Settings { idle_timeout: IDLE_STREAM, traffic: traffic.clone(), client: Some(client) }
}

/// What is asked of a flow.
pub(crate) fn flow_settings(traffic: &Arc<Traffic>, client: IpAddr) -> Settings {
    Settings { idle_timeout: IDLE_FLOW, traffic: traffic.clone(), client: Some(client) }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn all() -> Vec<Request> {
        let place = |text: &str| text.parse::<Place>().unwrap();
        let deliver = |address: Option<&str>, client: &str| {
            let address = address.map(|address| address.parse().unwrap());
            Request::Deliver(Delivery { address, port: 3000, client: client.parse().unwrap() })
        };
        vec![
            Request::Serve,
            Request::Connect(place("10.0.0.7:80")),
            Request::Connect(place("[fd00::7]:80")),
            Request::Connect(place("web.shop:80")),
            Request::Datagrams(place("dns.kube-system:53")),
            Request::Resolve("web.shop".to_owned()),
            deliver(None, "10.0.0.7:4000"),
            deliver(Some("192.168.1.7"), "[fd00::7]:4000"),
            deliver(Some("fd00::9"), "10.0.0.7:4000"),
        ]
    }

    #[test]
    fn what_is_written_is_read() {
        for request in all() {
            let bytes = request.encode();
            assert!(bytes.len() < 500);
            assert_eq!(Request::decode(&bytes), Some(request));
        }
    }

    #[test]
    fn what_is_unknown_or_cut_is_not_understood() {
        assert_eq!((Request::decode(&[]), Request::decode(&[9, 1, 2])), (None, None));
        assert_eq!(Request::decode(&[CONNECT, 0, 80, NAME]), None, "no name");
        assert_eq!(Request::decode(b"\x04a name"), None, "no name that a host can have");
        for request in all().into_iter().filter(|request| !matches!(request, Request::Resolve(_))) {
            let bytes = request.encode();
            for cut in 0..bytes.len() {
                let read = Request::decode(&bytes[..cut]);
                // A name that is cut is another name.
                assert!(
                    read.is_none()
                        || matches!(
                            &read,
                            Some(Request::Connect(Place::Name(..)) | Request::Datagrams(Place::Name(..)))
                        ),
                    "{request:?} cut at {cut}"
                );
            }
        }
    }

    proptest! {
        #[test]
        fn nothing_that_comes_does_harm(bytes in proptest::collection::vec(any::<u8>(), 0..500)) {
            if let Some(request) = Request::decode(&bytes) {
                prop_assert_eq!(Request::decode(&request.encode()), Some(request));
            }
        }
    }
}
