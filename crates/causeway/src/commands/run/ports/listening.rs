//! The ports that are listened on in a network. The kernel is asked for sockets that listen and no others: its tables in `/proc`
//! are those of the whole machine, and reading them costs a millisecond each time.

use std::collections::BTreeMap;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::os::fd::OwnedFd;

use rustix::net::netlink::{self, SocketAddrNetlink};
use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, recv, sendto, socket_with};

/// Asks for sockets of a family (`SOCK_DIAG_BY_FAMILY`); the answers have the same type.
const BY_FAMILY: u16 = 20;
const ERROR: u16 = 2;
const DONE: u16 = 3;
/// A request for all of them.
const DUMP: u16 = 0x301;
const TCP: u8 = 6;
/// The state of a socket that listens, as a bit.
const LISTENS: u32 = 1 << 10;
const HEADER: usize = 16;
/// More than the kernel puts into one datagram.
const REPLY: usize = 64 << 10;

/// A socket to ask the kernel with, for the network of the process that makes it.
pub(in crate::commands::run) fn inquirer() -> io::Result<OwnedFd> {
    Ok(socket_with(AddressFamily::NETLINK, SocketType::RAW, SocketFlags::CLOEXEC, Some(netlink::SOCK_DIAG))?)
}

/// The ports that are listened on, each with an address that leads to it from within.
pub(super) fn listened(inquirer: &OwnedFd) -> io::Result<BTreeMap<u16, IpAddr>> {
    let mut found = BTreeMap::new();
    // The last one counts where both are listened on.
    for family in [AddressFamily::INET6, AddressFamily::INET] {
        sendto(inquirer, &request(family), SendFlags::empty(), &SocketAddrNetlink::new(0, 0))?;
        let mut buffer = vec![0; REPLY];
        'replies: loop {
            let (length, _) = recv(inquirer, &mut *buffer, RecvFlags::empty())?;
            let mut rest = buffer.get(..length).unwrap_or_default();
            while let Some((kind, reply, next)) = split(rest) {
                match kind {
                    DONE => break 'replies,
                    ERROR => return Err(io::Error::other("the kernel tells nothing of its sockets")),
                    _ => found.extend(read(reply)),
                }
                rest = next;
            }
        }
    }
    Ok(found)
}

fn request(family: AddressFamily) -> Vec<u8> {
    let mut message = Vec::with_capacity(72);
    message.extend(72_u32.to_ne_bytes());
    message.extend(BY_FAMILY.to_ne_bytes());
    message.extend(DUMP.to_ne_bytes());
    message.extend([0; 8]);
    message.extend([family.as_raw() as u8, TCP, 0, 0]);
    message.extend(LISTENS.to_ne_bytes());
    // Whatever its ports and addresses.
    message.resize(72, 0);
    message
}

/// The first message: its type, what is in it, and what follows.
fn split(bytes: &[u8]) -> Option<(u16, &[u8], &[u8])> {
    let length = u32::from_ne_bytes(*bytes.first_chunk()?) as usize;
    let kind = u16::from_ne_bytes(*bytes.get(4..)?.first_chunk()?);
    let reply = bytes.get(HEADER..length)?;
    Some((kind, reply, bytes.get(length.next_multiple_of(4)..).unwrap_or_default()))
}

/// Port and address of a socket.
fn read(reply: &[u8]) -> Option<(u16, IpAddr)> {
    let family = *reply.first()?;
    let port = u16::from_be_bytes(*reply.get(4..)?.first_chunk()?);
    let address = reply.get(8..)?;
    let address: IpAddr = if family == AddressFamily::INET.as_raw() as u8 {
        IpAddr::from(*address.first_chunk::<4>()?)
    } else {
        IpAddr::from(*address.first_chunk::<16>()?)
    };
    Some((port, reachable(address)))
}

/// Where a socket with this address is reached from within.
fn reachable(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V4(address) if address.is_unspecified() => Ipv4Addr::LOCALHOST.into(),
        IpAddr::V6(address) if address.is_unspecified() => Ipv6Addr::LOCALHOST.into(),
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use super::*;

    #[test]
    fn what_listens_is_found_and_nothing_else() {
        let inquirer = inquirer().unwrap();
        let (one, every) =
            (TcpListener::bind("127.0.0.1:0").unwrap(), TcpListener::bind("0.0.0.0:0").unwrap());
        let port = |listener: &TcpListener| listener.local_addr().unwrap().port();
        let client = std::net::TcpStream::connect(one.local_addr().unwrap()).unwrap();
        let found = listened(&inquirer).unwrap();
        for listener in [&one, &every] {
            assert_eq!(found.get(&port(listener)), Some(&Ipv4Addr::LOCALHOST.into()));
        }
        assert!(!found.contains_key(&client.local_addr().unwrap().port()), "it is only connected");
        let gone = port(&one);
        drop(one);
        assert!(!listened(&inquirer).unwrap().contains_key(&gone));
        if let Ok(listener) = TcpListener::bind("[::1]:0") {
            let found = listened(&inquirer).unwrap();
            assert_eq!(found.get(&port(&listener)), Some(&Ipv6Addr::LOCALHOST.into()));
        }
    }

    #[test]
    fn rubbish_is_no_socket() {
        for length in 0..40 {
            let _ = split(&vec![7; length]).is_some_and(|(_, reply, _)| read(reply).is_some());
            assert!(read(&vec![2; length.min(11)]).is_none());
        }
        assert!(split(&[0; 16]).is_none());
    }
}
