//! Backends that are dead: one refuses connections, the other never answers. The second is a listener whose queue is
//! full, where the kernel drops every new connection's first packet, as it is with a host that is gone.

use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4};
use std::os::fd::OwnedFd;
use std::time::Duration;

use anyhow::bail;
use rustix::event::PollFlags;
use rustix::net::{AddressFamily, SocketFlags, SocketType, bind, listen, socket_with};

use crate::compare::net;

const SILENT: SocketAddrV4 = SocketAddrV4::new(Ipv4Addr::new(127, 0, 0, 8), 9100);
const REFUSING: SocketAddrV4 = SocketAddrV4::new(Ipv4Addr::new(127, 0, 0, 9), 9100);
/// Long enough for loopback, shorter than the first time a packet is sent again.
const ANSWER: Duration = Duration::from_millis(300);
const MOST: usize = 64;

/// Holds the listener and the connections that fill its queue.
pub(crate) struct Dead {
    _sockets: Vec<OwnedFd>,
}

impl Dead {
    pub(crate) fn new() -> anyhow::Result<Self> {
        let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
        let listener = socket_with(AddressFamily::INET, SocketType::STREAM, flags, None)?;
        bind(&listener, &SILENT)?;
        listen(&listener, 0)?;
        let mut sockets = vec![listener];
        for turn in 0..MOST {
            let socket = net::connect(SILENT, turn)?;
            let silent = net::wait(&socket, PollFlags::OUT, ANSWER)?.is_empty();
            sockets.push(socket);
            if silent {
                return Ok(Self { _sockets: sockets });
            }
        }
        bail!("the queue of a listener took {MOST} connections and was not full")
    }

    /// While one value is held, nobody answers at the first and the second refuses.
    pub(crate) const ADDRESSES: [SocketAddr; 2] = [SocketAddr::V4(SILENT), SocketAddr::V4(REFUSING)];
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_connection_to_the_silent_one_hangs_and_to_the_other_is_refused() {
        let _dead = Dead::new().unwrap();
        let [silent, refusing] = Dead::ADDRESSES;
        let connect = |to| std::net::TcpStream::connect_timeout(&to, ANSWER).unwrap_err().kind();
        assert_eq!(connect(silent), std::io::ErrorKind::TimedOut);
        assert_eq!(connect(refusing), std::io::ErrorKind::ConnectionRefused);
    }
}
