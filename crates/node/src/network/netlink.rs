//! What the kernel is asked to do with interfaces, addresses and routes of one network namespace: that of the thread that
//! opened the socket. A socket carries one request at a time; each is acknowledged.

use std::{
    io,
    net::{IpAddr, Ipv4Addr},
    os::fd::{AsRawFd, BorrowedFd, OwnedFd},
};

use ipnet::IpNet;
use rustix::net::{
    AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, netlink::SocketAddrNetlink, recv, sendto,
    socket_with,
};

use super::message::{CREATE, DUMP, EXCLUSIVE, HEADER, Message, aligned, attributes};

// Types of messages.
const ERROR: u16 = 2;
const DONE: u16 = 3;
const NEW_LINK: u16 = 16;
const DELETE_LINK: u16 = 17;
const GET_LINK: u16 = 18;
const NEW_ADDRESS: u16 = 20;
const GET_ADDRESS: u16 = 22;
const NEW_ROUTE: u16 = 24;

// Attributes of interfaces.
const LINK_ADDRESS: u16 = 1;
const LINK_NAME: u16 = 3;
const LINK_MTU: u16 = 4;
const LINK_LOWER: u16 = 5;
const LINK_MASTER: u16 = 10;
const LINK_INFO: u16 = 18;
const LINK_ALIAS: u16 = 20;
const LINK_NAMESPACE: u16 = 28;
const LINK_ELSEWHERE: u16 = 37;
const INFO_KIND: u16 = 1;
const INFO_DATA: u16 = 2;
const VETH_PEER: u16 = 1;
const MACVLAN_MODE: u16 = 1;
const VLAN_ID: u16 = 1;

const UP: u32 = 1;
const TABLE_LOCAL: u8 = 255;
const TABLE_MAIN: u8 = 254;
const STATIC: u8 = 4;
const SCOPE_LINK: u8 = 253;
const SCOPE_HOST: u8 = 254;
const UNICAST: u8 = 1;

/// More than the kernel puts into one datagram of replies.
const REPLY: usize = 64 * 1024;

/// A hardware address.
pub(crate) type Mac = [u8; 6];

/// How bridges begin that are not named yet.
pub(super) const UNNAMED: &str = "cw-new-";

/// An interface that there is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Link {
    pub index: u32,
    pub name: String,
    pub is_up: bool,
    /// What it is made of, such as `bridge`; a card says nothing.
    pub kind: Option<String>,
    /// The index of the bridge that it is a port of.
    pub master: Option<u32>,
    /// The index of the interface that it sits on, or whose cable it is the other end of, if that is in this namespace.
    pub lower: Option<u32>,
    pub alias: Option<String>,
    pub mac: Option<Mac>,
}

impl Link {
    pub(super) fn is_bridge(&self) -> bool {
        self.kind.as_deref() == Some("bridge")
    }
}

/// An interface that sits on one of this machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Upper {
    Macvlan { mode: u32 },
    Vlan { id: u16 },
}

/// Where a route leads.
#[derive(Clone, Copy, Debug)]
pub(super) struct Route {
    pub to: IpNet,
    pub gateway: Option<IpAddr>,
    /// The address that is sent from.
    pub source: Option<IpAddr>,
    pub table: Table,
}

/// The kernel looks into the first before the second.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Table {
    Local,
    Main,
}

/// A socket to the kernel.
pub(super) struct Netlink(OwnedFd);

impl Netlink {
    pub(super) fn open() -> io::Result<Self> {
        // The first of netlink's protocols is the one of interfaces and routes.
        Ok(Self(socket_with(AddressFamily::NETLINK, SocketType::RAW, SocketFlags::CLOEXEC, None)?))
    }

    /// A pair of interfaces that are the ends of one cable, the second in another namespace.
    pub(super) fn add_veth(
        &self,
        name: &str,
        peer: &str,
        mac: Option<Mac>,
        namespace: BorrowedFd<'_>,
    ) -> io::Result<()> {
        let make_peer = |link: Message| {
            let link = link.with_text(LINK_NAME, peer).with_u32(LINK_NAMESPACE, namespace.as_raw_fd() as u32);
            mac.iter().fold(link, |link, mac| link.with(LINK_ADDRESS, mac))
        };
        let message = new_link(0, 0).with_text(LINK_NAME, name).with_nested(LINK_INFO, &[], |info| {
            info.with(INFO_KIND, b"veth").with_nested(INFO_DATA, &[], |data| {
                data.with_nested(VETH_PEER, &link_body(0, 0, 0), make_peer)
            })
        });
        self.request(message).map(drop)
    }

    /// A bridge with a remark that says whose it is.
    pub(super) fn add_bridge(&self, name: &str, alias: &str) -> io::Result<()> {
        // A new interface takes no remark. It gets that together with its name, so that one which somebody was killed over
        // is known as well.
        let unnamed = format!("{UNNAMED}{}", std::process::id());
        self.remove(&unnamed)?;
        let message = new_link(0, 0)
            .with_text(LINK_NAME, &unnamed)
            .with_nested(LINK_INFO, &[], |info| info.with(INFO_KIND, b"bridge"));
        self.request(message)?;
        let named = self.index(&unnamed).and_then(|index| {
            let change = Message::new(NEW_LINK, 0, &link_body(index, 0, 0)).with_text(LINK_NAME, name);
            self.request(change.with(LINK_ALIAS, alias.as_bytes())).map(drop)
        });
        if named.is_err() {
            let _ = self.remove(&unnamed);
        }
        named
    }

    /// Writes a remark on an interface.
    pub(super) fn set_alias(&self, index: u32, alias: &str) -> io::Result<()> {
        self.request(Message::new(NEW_LINK, 0, &link_body(index, 0, 0)).with(LINK_ALIAS, alias.as_bytes()))
            .map(drop)
    }

    /// An interface in another namespace that sits on one of this.
    pub(super) fn add_upper(
        &self,
        kind: Upper,
        name: &str,
        lower: u32,
        mac: Option<Mac>,
        namespace: BorrowedFd<'_>,
    ) -> io::Result<()> {
        let link = new_link(0, 0)
            .with_text(LINK_NAME, name)
            .with_u32(LINK_LOWER, lower)
            .with_u32(LINK_NAMESPACE, namespace.as_raw_fd() as u32);
        let link = mac.iter().fold(link, |link, mac| link.with(LINK_ADDRESS, mac));
        let message = link.with_nested(LINK_INFO, &[], |info| match kind {
            Upper::Macvlan { mode } => info
                .with(INFO_KIND, b"macvlan")
                .with_nested(INFO_DATA, &[], |data| data.with_u32(MACVLAN_MODE, mode)),
            Upper::Vlan { id } => info
                .with(INFO_KIND, b"vlan")
                .with_nested(INFO_DATA, &[], |data| data.with(VLAN_ID, &id.to_ne_bytes())),
        });
        self.request(message).map(drop)
    }

    pub(super) fn set_master(&self, index: u32, bridge: u32) -> io::Result<()> {
        let message = Message::new(NEW_LINK, 0, &link_body(index, 0, 0)).with_u32(LINK_MASTER, bridge);
        self.request(message).map(drop)
    }

    pub(super) fn set_mtu(&self, index: u32, mtu: u32) -> io::Result<()> {
        self.request(Message::new(NEW_LINK, 0, &link_body(index, 0, 0)).with_u32(LINK_MTU, mtu)).map(drop)
    }

    pub(super) fn set_up(&self, index: u32) -> io::Result<()> {
        self.request(Message::new(NEW_LINK, 0, &link_body(index, UP, UP))).map(drop)
    }

    pub(super) fn set_down(&self, index: u32) -> io::Result<()> {
        self.request(Message::new(NEW_LINK, 0, &link_body(index, 0, UP))).map(drop)
    }

    /// Removes an interface; one that is not there is no failure.
    pub(super) fn remove(&self, name: &str) -> io::Result<()> {
        let message = Message::new(DELETE_LINK, 0, &link_body(0, 0, 0)).with_text(LINK_NAME, name);
        match self.request(message) {
            Err(error) if is_missing(&error) => Ok(()),
            other => other.map(drop),
        }
    }

    /// Every interface of the namespace.
    pub(super) fn links(&self) -> io::Result<Vec<Link>> {
        let replies = self.request(Message::new(GET_LINK, DUMP, &link_body(0, 0, 0)))?;
        Ok(replies.iter().filter_map(|reply| read_link(reply)).collect())
    }

    /// The indices of the interfaces that have an address.
    pub(super) fn addressed(&self) -> io::Result<Vec<u32>> {
        let replies = self.request(Message::new(GET_ADDRESS, DUMP, &[0; 8]))?;
        let index = |reply: &Vec<u8>| Some(u32::from_ne_bytes(reply.get(4..8)?.try_into().ok()?));
        Ok(replies.iter().filter_map(index).collect())
    }

    /// The interface of that name.
    pub(super) fn link(&self, name: &str) -> io::Result<Option<Link>> {
        Ok(self.links()?.into_iter().find(|link| link.name == name))
    }

    /// The number of an interface that must be there.
    pub(super) fn index(&self, name: &str) -> io::Result<u32> {
        let link = self.link(name)?;
        link.map(|link| link.index)
            .ok_or_else(|| io::Error::new(io::ErrorKind::NotFound, format!("there is no interface {name}")))
    }

    pub(super) fn add_address(&self, index: u32, address: IpNet) -> io::Result<()> {
        const ADDRESS: u16 = 1;
        const LOCAL: u16 = 2;
        const BROADCAST: u16 = 4;
        let scope = if address.addr().is_loopback() { SCOPE_HOST } else { 0 };
        let mut body = vec![family(address.addr()), address.prefix_len(), 0, scope];
        body.extend(index.to_ne_bytes());
        let mut message = Message::new(NEW_ADDRESS, CREATE | EXCLUSIVE, &body)
            .with_address(LOCAL, address.addr())
            .with_address(ADDRESS, address.addr());
        if let IpNet::V4(net) = address
            && net.prefix_len() < 31
        {
            message = message.with(BROADCAST, &net.broadcast().octets());
        }
        self.request(message).map(drop)
    }

    pub(super) fn add_route(&self, index: u32, route: Route) -> io::Result<()> {
        const DESTINATION: u16 = 1;
        const INTERFACE: u16 = 4;
        const GATEWAY: u16 = 5;
        const SOURCE: u16 = 7;
        let table = if route.table == Table::Local { TABLE_LOCAL } else { TABLE_MAIN };
        let scope = if route.gateway.is_none() && route.to.addr().is_ipv4() { SCOPE_LINK } else { 0 };
        let body =
            [family(route.to.addr()), route.to.prefix_len(), 0, 0, table, STATIC, scope, UNICAST, 0, 0, 0, 0];
        let mut message = Message::new(NEW_ROUTE, CREATE | EXCLUSIVE, &body)
            .with_address(DESTINATION, route.to.network())
            .with_u32(INTERFACE, index);
        if let Some(gateway) = route.gateway {
            message = message.with_address(GATEWAY, gateway);
        }
        if let Some(source) = route.source {
            message = message.with_address(SOURCE, source);
        }
        self.request(message).map(drop)
    }

    /// Sends a request; the bodies and attributes of the replies.
    fn request(&self, message: Message) -> io::Result<Vec<Vec<u8>>> {
        let kernel = SocketAddrNetlink::new(0, 0);
        sendto(&self.0, &message.finish(), SendFlags::empty(), &kernel)?;
        let mut buffer = vec![0; REPLY];
        let mut replies = Vec::new();
        loop {
            let (length, _) = recv(&self.0, &mut *buffer, RecvFlags::empty())?;
            let mut rest = buffer.get(..length).unwrap_or_default();
            while let Some((kind, reply, next)) = split(rest) {
                match kind {
                    DONE => return Ok(replies),
                    ERROR => {
                        let code = reply
                            .get(..4)
                            .and_then(|code| code.try_into().ok())
                            .map_or(0, i32::from_ne_bytes);
                        return if code == 0 {
                            Ok(replies)
                        } else {
                            Err(io::Error::from_raw_os_error(-code))
                        };
                    }
                    _ => replies.push(reply.to_vec()),
                }
                rest = next;
            }
        }
    }
}

/// The first message of a datagram: its type, what is in it, and what follows.
fn split(bytes: &[u8]) -> Option<(u16, &[u8], &[u8])> {
    let length = u32::from_ne_bytes(bytes.get(..4)?.try_into().ok()?) as usize;
    let kind = u16::from_ne_bytes(bytes.get(4..6)?.try_into().ok()?);
    let reply = bytes.get(HEADER..length)?;
    Some((kind, reply, bytes.get(aligned(length)..).unwrap_or_default()))
}

fn read_link(reply: &[u8]) -> Option<Link> {
    let word = |at: usize| Some(u32::from_ne_bytes(reply.get(at..at + 4)?.try_into().ok()?));
    let mut link = Link { index: word(4)?, is_up: word(8)? & UP != 0, ..Link::default() };
    let text = |value: &[u8]| String::from_utf8_lossy(value).trim_end_matches('\0').to_owned();
    let number = |value: &[u8]| value.try_into().ok().map(u32::from_ne_bytes);
    let mut is_elsewhere = false;
    for (kind, value) in attributes(reply.get(16..)?) {
        match kind {
            LINK_NAME => link.name = text(value),
            LINK_ALIAS => link.alias = Some(text(value)),
            LINK_MASTER => link.master = number(value),
            LINK_LOWER => link.lower = number(value),
            LINK_ELSEWHERE => is_elsewhere = true,
            LINK_INFO => {
                link.kind =
                    attributes(value).find(|(kind, _)| *kind == INFO_KIND).map(|(_, value)| text(value));
            }
            LINK_ADDRESS => link.mac = value.try_into().ok(),
            _ => {}
        }
    }
    if is_elsewhere {
        // The number of an interface of another namespace, which is another one here.
        link.lower = None;
    }
    Some(link)
}

/// A request for an interface that must not be there yet.
fn new_link(index: u32, flags: u32) -> Message {
    Message::new(NEW_LINK, CREATE | EXCLUSIVE, &link_body(index, flags, flags))
}

fn link_body(index: u32, flags: u32, change: u32) -> Vec<u8> {
    [[0; 4], index.to_ne_bytes(), flags.to_ne_bytes(), change.to_ne_bytes()].concat()
}

fn family(address: IpAddr) -> u8 {
    let family = if address.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
    family.as_raw() as u8
}

/// Whether an interface is not there.
fn is_missing(error: &io::Error) -> bool {
    error.raw_os_error() == Some(rustix::io::Errno::NODEV.raw_os_error())
}

/// The hardware address that goes with an address in IPv4: whoever has it next, its neighbours need not learn a new one.
pub(super) fn mac_of(address: Ipv4Addr) -> Mac {
    let [a, b, c, d] = address.octets();
    [0x0a, 0x58, a, b, c, d]
}
