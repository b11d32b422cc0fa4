//! Sockets on one interface, opened without any right but that to low ports: since Linux 5.7 a socket may be bound to an
//! interface once by anybody.

use std::io::{self, IoSliceMut};
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::os::fd::AsRawFd;

use nix::sys::socket::{ControlMessageOwned, MsgFlags, recvmsg, setsockopt, sockopt};
use socket2::{Domain, Protocol, Socket, Type};

/// Room for a burst while a group of leases is written.
const BUFFER: usize = 4 << 20;
const V4_PORT: u16 = 67;
const V6_PORT: u16 = 547;
/// All relays and servers of DHCPv6.
const V6_SERVERS: Ipv6Addr = Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 1, 2);

/// The socket that DHCPv4 clients of an interface talk to.
pub(super) fn v4(interface: &str) -> io::Result<UdpSocket> {
    let socket = on(interface, Domain::IPV4)?;
    socket.set_broadcast(true)?;
    setsockopt(&socket, sockopt::Ipv4PacketInfo, &true)?;
    socket.bind(&SocketAddr::from((Ipv4Addr::UNSPECIFIED, V4_PORT)).into())?;
    Ok(socket.into())
}

/// Takes a datagram of that socket: its length, and the address that it was sent to.
pub(super) fn receive(socket: &UdpSocket, buffer: &mut [u8]) -> io::Result<(usize, Option<Ipv4Addr>)> {
    let mut control = nix::cmsg_space!(nix::libc::in_pktinfo);
    let mut parts = [IoSliceMut::new(buffer)];
    let received = recvmsg::<()>(socket.as_raw_fd(), &mut parts, Some(&mut control), MsgFlags::empty())?;
    let to = received.cmsgs()?.find_map(|message| match message {
        ControlMessageOwned::Ipv4PacketInfo(info) => Some(u32::from_be(info.ipi_addr.s_addr).into()),
        _ => None,
    });
    Ok((received.bytes, to))
}

/// The socket that DHCPv6 clients of an interface talk to.
pub(super) fn v6(interface: &str) -> io::Result<UdpSocket> {
    let socket = on(interface, Domain::IPV6)?;
    socket.set_only_v6(true)?;
    socket.bind(&SocketAddr::from((Ipv6Addr::UNSPECIFIED, V6_PORT)).into())?;
    socket.join_multicast_v6(&V6_SERVERS, index(interface)?)?;
    Ok(socket.into())
}

/// A socket that sends to an interface.
pub(super) fn unbound(interface: &str) -> io::Result<UdpSocket> {
    Ok(on(interface, Domain::IPV4)?.into())
}

/// Where those who look for a router ask; needs the right to raw sockets.
pub(super) fn solicitations(interface: &str) -> io::Result<UdpSocket> {
    let socket = Socket::new(Domain::IPV6, Type::RAW, Some(Protocol::ICMPV6))?;
    socket.set_nonblocking(true)?;
    socket.bind_device(Some(interface.as_bytes()))?;
    let routers = Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 0, 2);
    socket.join_multicast_v6(&routers, index(interface)?)?;
    Ok(socket.into())
}

fn on(interface: &str, domain: Domain) -> io::Result<Socket> {
    let socket = Socket::new(domain, Type::DGRAM, Some(Protocol::UDP))?;
    socket.set_nonblocking(true)?;
    // The kernel gives what the system allows.
    let _ = socket.set_recv_buffer_size(BUFFER);
    socket.bind_device(Some(interface.as_bytes()))?;
    Ok(socket)
}

/// The kernel's number of an interface.
pub(super) fn index(interface: &str) -> io::Result<u32> {
    Ok(nix::net::if_::if_nametoindex(interface)?)
}
