//! What `causeway run` and the process that it starts in a network of its own say to each other: messages with descriptors, on
//! a pair of sockets.

use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::net::IpAddr;
use std::os::fd::{AsFd, OwnedFd};

use ipnet::IpNet;
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, SocketFlags, SocketType, recvmsg, sendmsg, socketpair,
};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

/// Longer than any message.
const LONGEST: usize = 64 << 10;

/// What the network is to be; the first message, from outside.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Wanted {
    /// The process's own addresses; all others are reached through the device.
    pub(super) addresses: Vec<IpNet>,
    /// Networks of the loopback that are the cluster's.
    pub(super) loopback: Vec<IpNet>,
    /// Files that take the place of others, which they are called after: what there is, and what it is in the process's eyes.
    pub(super) files: Vec<(String, String)>,
}

/// What comes from inside.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Inside {
    /// The network is there; the device comes with it.
    Ready,
    /// It can't be; why.
    Impossible(String),
    /// A socket comes with it.
    Socket,
    /// No socket; why.
    NoSocket(String),
    /// The command could not be started; why.
    NotStarted(String),
}

/// What is asked for from outside, after the network is there.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Ask {
    /// Start the command.
    Start,
    /// A socket of the network within, for streams.
    Stream { ipv6: bool },
    /// One for datagrams.
    Datagrams { ipv6: bool },
    /// One to ask the kernel with which ports are listened on.
    Inquirer,
    /// A signal for the command; nothing is answered.
    Signal { number: i32 },
}

impl Ask {
    pub(super) fn stream(to: IpAddr) -> Self {
        Self::Stream { ipv6: to.is_ipv6() }
    }

    pub(super) fn datagrams(to: IpAddr) -> Self {
        Self::Datagrams { ipv6: to.is_ipv6() }
    }
}

/// Two sockets that are connected with each other.
pub(super) fn pair() -> io::Result<(OwnedFd, OwnedFd)> {
    Ok(socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None)?)
}

/// Sends a message, with a descriptor if there is one.
pub(super) fn send(
    socket: impl AsFd,
    message: &impl Serialize,
    descriptor: Option<&OwnedFd>,
) -> io::Result<()> {
    let text = serde_json::to_vec(message)?;
    let descriptors = descriptor.map(|one| [one.as_fd()]);
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut beside = SendAncillaryBuffer::new(&mut space);
    if let Some(descriptors) = &descriptors {
        beside.push(SendAncillaryMessage::ScmRights(descriptors));
    }
    sendmsg(socket, &[IoSlice::new(&text)], &mut beside, SendFlags::NOSIGNAL)?;
    Ok(())
}

/// Waits for a message, and takes the descriptor that comes with it; none when the other end is gone.
pub(super) fn receive<T: DeserializeOwned>(socket: impl AsFd) -> io::Result<Option<(T, Option<OwnedFd>)>> {
    let mut text = vec![0; LONGEST];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut beside = RecvAncillaryBuffer::new(&mut space);
    let received = loop {
        match recvmsg(&socket, &mut [IoSliceMut::new(&mut text)], &mut beside, RecvFlags::CMSG_CLOEXEC) {
            Err(rustix::io::Errno::INTR) => {}
            other => break other?,
        }
    };
    if received.bytes == 0 {
        return Ok(None);
    }
    let descriptor = beside.drain().find_map(|message| match message {
        RecvAncillaryMessage::ScmRights(mut all) => all.next(),
        _ => None,
    });
    Ok(Some((serde_json::from_slice(&text[..received.bytes])?, descriptor)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_come_whole_and_with_their_descriptor() {
        let (one, other) = pair().unwrap();
        let wanted = Wanted {
            addresses: vec!["198.18.0.2/30".parse().unwrap()],
            loopback: vec!["127.96.0.0/16".parse().unwrap()],
            files: vec![("/tmp/x".to_owned(), "/etc/resolv.conf".to_owned())],
        };
        send(&one, &wanted, None).unwrap();
        send(&one, &Ask::Start, None).unwrap();
        assert_eq!(receive::<Wanted>(&other).unwrap().unwrap().0, wanted);
        assert_eq!(receive::<Ask>(&other).unwrap().unwrap().0, Ask::Start);
        let file = OwnedFd::from(std::fs::File::open("/dev/null").unwrap());
        send(&other, &Inside::Socket, Some(&file)).unwrap();
        let (said, descriptor) = receive::<Inside>(&one).unwrap().unwrap();
        assert_eq!((said, descriptor.is_some()), (Inside::Socket, true));
        drop(other);
        assert!(receive::<Inside>(&one).unwrap().is_none());
    }
}
