//! A TUN device in a user and network namespace of one's own, which takes no root: the whole network of a program and its
//! children, whose packets a [`Stack`](crate::Stack) outside has. Linux only.
//!
//! Namespaces are entered by a process with one thread that then becomes the program: it calls [`enter`], and hands the
//! device to its parent by [`hand_over`]. The parent gets it by [`take_over`] and gives it to [`Tun::new`].

mod device;
mod namespace;
mod netlink;

use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd as _, OwnedFd};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;

use ipnet::IpNet;
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage,
    SendFlags, recvmsg, sendmsg,
};

pub use device::Tun;
pub use namespace::{enter, set_up};

/// The largest packets: nothing is lost inside of a machine, and each costs a call to the kernel.
pub const MTU: u16 = 65_520;

/// The network that a program sees.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The interface's name, at most 15 letters.
    pub name: String,
    /// The largest packet.
    pub mtu: u16,
    /// Its addresses; what is in their networks is reached through it.
    pub addresses: Vec<IpNet>,
    /// What else is reached through it.
    pub routes: Vec<IpNet>,
    /// Files that stand in the place of others for the program, such as one's own for `/etc/resolv.conf`: first the
    /// file, then its place, which must exist.
    pub files: Vec<(PathBuf, PathBuf)>,
}

impl Settings {
    /// With these addresses, and everything reached through them.
    pub fn new(addresses: Vec<IpNet>) -> Self {
        let everything = ["0.0.0.0/0", "::/0"].iter().filter_map(|network| network.parse().ok());
        let reaches =
            |network: &IpNet| addresses.iter().any(|own| own.addr().is_ipv4() == network.addr().is_ipv4());
        let routes = everything.filter(reaches).collect();
        Self { name: "causeway0".to_owned(), mtu: MTU, addresses, routes, files: Vec::new() }
    }
}

/// Gives a device to whoever is at the other end of the socket.
///
/// # Errors
/// When the other end is gone.
pub fn hand_over(socket: &UnixStream, device: &OwnedFd) -> io::Result<()> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    let descriptors = [device.as_fd()];
    control.push(SendAncillaryMessage::ScmRights(&descriptors));
    sendmsg(socket, &[IoSlice::new(&[0])], &mut control, SendFlags::NOSIGNAL)?;
    Ok(())
}

/// Takes a device that is handed over; waits for it.
///
/// # Errors
/// When the other end went away without: what it said of that is elsewhere.
pub fn take_over(socket: &UnixStream) -> io::Result<OwnedFd> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    recvmsg(socket, &mut [IoSliceMut::new(&mut [0])], &mut control, RecvFlags::CMSG_CLOEXEC)?;
    let mut descriptors = control.drain().filter_map(|message| match message {
        RecvAncillaryMessage::ScmRights(descriptors) => Some(descriptors),
        _ => None,
    });
    let device = descriptors.find_map(|mut descriptors| descriptors.next());
    device.ok_or_else(|| io::Error::new(io::ErrorKind::UnexpectedEof, "no device was handed over"))
}
