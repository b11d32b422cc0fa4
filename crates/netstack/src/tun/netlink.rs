//! The few things that are asked of the kernel for a new interface: its size, its addresses, its routes.

use std::io;
use std::net::IpAddr;
use std::os::fd::OwnedFd;

use ipnet::IpNet;
use rustix::net::netlink::SocketAddrNetlink;
use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, recv, sendto, socket_with};

const ERROR: u16 = 2;
const NEW_LINK: u16 = 16;
const NEW_ADDRESS: u16 = 20;
const NEW_ROUTE: u16 = 24;
/// A request that is acknowledged, and one that makes something.
const REQUEST: u16 = 0x5;
const CREATE: u16 = 0x600;
const UP: u32 = 1;
const HEADER: usize = 16;

/// A socket to the kernel.
pub(super) struct Netlink(OwnedFd);

impl Netlink {
    pub(super) fn open() -> io::Result<Self> {
        // The first of netlink's protocols is the one of interfaces and routes.
        Ok(Self(socket_with(AddressFamily::NETLINK, SocketType::RAW, SocketFlags::CLOEXEC, None)?))
    }

    /// The number of an interface.
    pub(super) fn index(&self, name: &str) -> io::Result<u32> {
        Ok(rustix::net::netdevice::name_to_index(&self.0, name)?)
    }

    /// Switches an interface on.
    pub(super) fn set_up(&self, index: u32, mtu: Option<u16>) -> io::Result<()> {
        const MTU: u16 = 4;
        let body = [[0; 4], index.to_ne_bytes(), UP.to_ne_bytes(), UP.to_ne_bytes()].concat();
        let mut message = message(NEW_LINK, REQUEST, &body);
        if let Some(mtu) = mtu {
            attribute(&mut message, MTU, &u32::from(mtu).to_ne_bytes());
        }
        self.request(message)
    }

    pub(super) fn add_address(&self, index: u32, address: IpNet) -> io::Result<()> {
        const ADDRESS: u16 = 1;
        const LOCAL: u16 = 2;
        // Nobody else is there who could have it.
        const UNCHECKED: u8 = 2;
        let mut body = vec![family(address.addr()), address.prefix_len(), UNCHECKED, 0];
        body.extend(index.to_ne_bytes());
        let mut message = message(NEW_ADDRESS, REQUEST | CREATE, &body);
        attribute(&mut message, LOCAL, &octets(address.addr()));
        attribute(&mut message, ADDRESS, &octets(address.addr()));
        self.request(message)
    }

    pub(super) fn add_route(&self, index: u32, to: IpNet) -> io::Result<()> {
        const DESTINATION: u16 = 1;
        const INTERFACE: u16 = 4;
        const MAIN: u8 = 254;
        const STATIC: u8 = 4;
        const UNICAST: u8 = 1;
        const ON_LINK: u8 = 253;
        let scope = if to.addr().is_ipv4() { ON_LINK } else { 0 };
        let body = [family(to.addr()), to.prefix_len(), 0, 0, MAIN, STATIC, scope, UNICAST, 0, 0, 0, 0];
        let mut message = message(NEW_ROUTE, REQUEST | CREATE, &body);
        attribute(&mut message, DESTINATION, &octets(to.network()));
        attribute(&mut message, INTERFACE, &index.to_ne_bytes());
        self.request(message)
    }

    fn request(&self, mut message: Vec<u8>) -> io::Result<()> {
        let length = (message.len() as u32).to_ne_bytes();
        message[..4].copy_from_slice(&length);
        sendto(&self.0, &message, SendFlags::empty(), &SocketAddrNetlink::new(0, 0))?;
        let mut reply = [0; 4096];
        loop {
            let (count, _) = recv(&self.0, &mut reply, RecvFlags::empty())?;
            let reply = &reply[..count];
            let kind = reply.get(4..6).and_then(|kind| kind.try_into().ok()).map(u16::from_ne_bytes);
            let code =
                reply.get(HEADER..HEADER + 4).and_then(|code| code.try_into().ok()).map(i32::from_ne_bytes);
            match (kind, code) {
                (Some(ERROR), Some(0)) => return Ok(()),
                (Some(ERROR), Some(code)) => return Err(io::Error::from_raw_os_error(-code)),
                (None, _) => return Err(io::ErrorKind::UnexpectedEof.into()),
                _ => {}
            }
        }
    }
}

fn message(kind: u16, flags: u16, body: &[u8]) -> Vec<u8> {
    let mut bytes = vec![0; 4];
    bytes.extend(kind.to_ne_bytes());
    bytes.extend(flags.to_ne_bytes());
    bytes.extend([0; 8]);
    bytes.extend(body);
    bytes
}

fn attribute(message: &mut Vec<u8>, kind: u16, value: &[u8]) {
    message.extend((4 + value.len() as u16).to_ne_bytes());
    message.extend(kind.to_ne_bytes());
    message.extend(value);
    message.resize(message.len().next_multiple_of(4), 0);
}

fn family(address: IpAddr) -> u8 {
    let family = if address.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
    family.as_raw() as u8
}

fn octets(address: IpAddr) -> Vec<u8> {
    match address {
        IpAddr::V4(address) => address.octets().to_vec(),
        IpAddr::V6(address) => address.octets().to_vec(),
    }
}
