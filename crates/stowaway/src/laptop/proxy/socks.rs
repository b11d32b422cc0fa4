//! SOCKS5 (RFC 1928, passwords by RFC 1929): CONNECT and UDP ASSOCIATE, to addresses and to names, which the cluster looks up.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::time::timeout;

use super::{HELLO, WayOut, associate};
use crate::place::Place;

/// The first byte of everything that is said.
pub(super) const VERSION: u8 = 5;

const NO_PASSWORD: u8 = 0;
const PASSWORD: u8 = 2;
const NO_METHOD: u8 = 0xff;

const CONNECT: u8 = 1;
const ASSOCIATE: u8 = 3;

const IPV4: u8 = 1;
const NAME: u8 = 3;
const IPV6: u8 = 4;

/// What is answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub(super) enum Reply {
    Succeeded = 0,
    Failed = 1,
    NotAllowed = 2,
    NetworkUnreachable = 3,
    HostUnreachable = 4,
    Refused = 5,
    NoSuchCommand = 7,
    NoSuchAddress = 8,
}

impl Reply {
    fn of(error: &io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::PermissionDenied => Self::NotAllowed,
            io::ErrorKind::NotConnected => Self::NetworkUnreachable,
            io::ErrorKind::NotFound | io::ErrorKind::TimedOut => Self::HostUnreachable,
            io::ErrorKind::ConnectionRefused => Self::Refused,
            _ => Self::Failed,
        }
    }
}

/// Serves one client.
pub(super) async fn serve(mut socket: TcpStream, way_out: &WayOut) -> io::Result<()> {
    let asked = timeout(HELLO, ask(&mut socket, way_out)).await.map_err(|_| io::ErrorKind::TimedOut)??;
    match asked {
        None => Ok(()),
        Some((CONNECT, Some(place))) => match way_out.laptop.connect(&place).await {
            Ok(stream) => {
                reply(&mut socket, Reply::Succeeded, nowhere()).await?;
                stream.relay(socket).await;
                Ok(())
            }
            Err(error) => {
                tracing::debug!(%place, %error, "the proxy can't connect");
                reply(&mut socket, Reply::of(&error), nowhere()).await
            }
        },
        Some((ASSOCIATE, _)) => associate::serve(socket, &way_out.laptop).await,
        Some((_, None)) => reply(&mut socket, Reply::NoSuchAddress, nowhere()).await,
        Some(_) => reply(&mut socket, Reply::NoSuchCommand, nowhere()).await,
    }
}

/// The client's wish: a command, and a place if it is one. None if it may not have any.
async fn ask(socket: &mut TcpStream, way_out: &WayOut) -> io::Result<Option<(u8, Option<Place>)>> {
    let mut head = [0; 2];
    socket.read_exact(&mut head).await?;
    let mut methods = vec![0; head[1].into()];
    socket.read_exact(&mut methods).await?;
    if !agree(socket, &methods, way_out).await? {
        return Ok(None);
    }
    let mut head = [0; 4];
    socket.read_exact(&mut head).await?;
    let [version, command, _, kind] = head;
    if version != VERSION {
        return Err(io::ErrorKind::InvalidData.into());
    }
    let host = match kind {
        IPV4 => IpAddr::from(Ipv4Addr::from(socket.read_u32().await?)).to_string(),
        IPV6 => IpAddr::from(Ipv6Addr::from(socket.read_u128().await?)).to_string(),
        NAME => {
            let mut name = vec![0; socket.read_u8().await?.into()];
            socket.read_exact(&mut name).await?;
            String::from_utf8_lossy(&name).into_owned()
        }
        _ => return Ok(Some((command, None))),
    };
    let port = socket.read_u16().await?;
    Ok(Some((command, Place::new(&host, port).ok())))
}

/// Agrees on a method; false if the client may not go on.
async fn agree(socket: &mut TcpStream, methods: &[u8], way_out: &WayOut) -> io::Result<bool> {
    let open = way_out.password.is_none();
    if open && methods.contains(&NO_PASSWORD) {
        socket.write_all(&[VERSION, NO_PASSWORD]).await?;
        return Ok(true);
    }
    // Where none is asked for, any is as good: there are clients that always give one.
    if !methods.contains(&PASSWORD) {
        socket.write_all(&[VERSION, NO_METHOD]).await?;
        return Ok(false);
    }
    socket.write_all(&[VERSION, PASSWORD]).await?;
    let _version = socket.read_u8().await?;
    let mut user = vec![0; socket.read_u8().await?.into()];
    socket.read_exact(&mut user).await?;
    let mut password = vec![0; socket.read_u8().await?.into()];
    socket.read_exact(&mut password).await?;
    let admitted = way_out.admits(Some(&password));
    socket.write_all(&[1, u8::from(!admitted)]).await?;
    Ok(admitted)
}

/// Answers the client's wish.
pub(super) async fn reply(socket: &mut TcpStream, reply: Reply, bound: SocketAddr) -> io::Result<()> {
    let mut answer = vec![VERSION, reply as u8, 0];
    put_place(&mut answer, &bound.into());
    socket.write_all(&answer).await
}

/// Nobody asks where a stream begins on the other side.
fn nowhere() -> SocketAddr {
    (Ipv4Addr::UNSPECIFIED, 0).into()
}

/// Writes a place.
pub(super) fn put_place(out: &mut Vec<u8>, place: &Place) {
    match place {
        Place::Address(SocketAddr::V4(address)) => {
            out.push(IPV4);
            out.extend(address.ip().octets());
        }
        Place::Address(SocketAddr::V6(address)) => {
            out.push(IPV6);
            out.extend(address.ip().octets());
        }
        Place::Name(name, _) => {
            // A name of DNS is shorter than that.
            let name = &name.as_bytes()[..name.len().min(255)];
            out.extend([NAME, name.len() as u8]);
            out.extend_from_slice(name);
        }
    }
    out.extend(place.port().to_be_bytes());
}

/// Reads a place from the front of a datagram; gives what is behind it.
pub(super) fn get_place(bytes: &[u8]) -> Option<(Place, &[u8])> {
    let (kind, rest) = bytes.split_first()?;
    let (host, rest) = match *kind {
        IPV4 => {
            rest.split_first_chunk::<4>().map(|(octets, rest)| (IpAddr::from(*octets).to_string(), rest))?
        }
        IPV6 => {
            rest.split_first_chunk::<16>().map(|(octets, rest)| (IpAddr::from(*octets).to_string(), rest))?
        }
        NAME => {
            let (length, rest) = rest.split_first()?;
            let (name, rest) = rest.split_at_checked((*length).into())?;
            (str::from_utf8(name).ok()?.to_owned(), rest)
        }
        _ => return None,
    };
    let (port, rest) = rest.split_first_chunk::<2>()?;
    Some((Place::new(&host, u16::from_be_bytes(*port)).ok()?, rest))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn places_are_read_as_they_were_written() {
        for text in ["10.0.0.7:80", "[fd00::7]:80", "web.shop:80"] {
            let place: Place = text.parse().unwrap();
            let mut bytes = Vec::new();
            put_place(&mut bytes, &place);
            for cut in 0..bytes.len() {
                assert_eq!(get_place(&bytes[..cut]), None, "{text} cut at {cut}");
            }
            bytes.extend_from_slice(b"rest");
            assert_eq!(get_place(&bytes), Some((place, &b"rest"[..])));
        }
        assert_eq!(get_place(&[9, 1, 2, 3, 4, 0, 80]), None);
    }

    #[test]
    fn errors_have_their_answers() {
        for (kind, wanted) in [
            (io::ErrorKind::PermissionDenied, Reply::NotAllowed),
            (io::ErrorKind::ConnectionRefused, Reply::Refused),
            (io::ErrorKind::NotFound, Reply::HostUnreachable),
            (io::ErrorKind::NotConnected, Reply::NetworkUnreachable),
            (io::ErrorKind::Other, Reply::Failed),
        ] {
            assert_eq!(Reply::of(&kind.into()), wanted);
        }
    }

    proptest! {
        #[test]
        fn nothing_that_comes_does_harm(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
            if let Some((place, _)) = get_place(&bytes) {
                let mut written = Vec::new();
                put_place(&mut written, &place);
                prop_assert_eq!(get_place(&written).map(|(place, _)| place), Some(place));
            }
        }
    }
}
