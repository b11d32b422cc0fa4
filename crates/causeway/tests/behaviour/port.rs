//! Ports that nobody else gets while a test runs: Envoy's own choice for port 0 would have to be asked for, and would
//! be another one after a change.

use std::net::SocketAddr;

use tokio::net::TcpSocket;

/// A port that is held by a socket that never listens; whoever shares ports can listen beside it.
pub struct Port {
    pub address: SocketAddr,
    _held: TcpSocket,
}

impl Port {
    /// Takes a free port of this IP address.
    pub fn reserve(mut address: SocketAddr) -> Self {
        address.set_port(0);
        loop {
            let socket = if address.is_ipv4() { TcpSocket::new_v4() } else { TcpSocket::new_v6() };
            let socket = socket.expect("a socket");
            socket.set_reuseaddr(true).expect("an option of the socket");
            socket.set_reuseport(true).expect("an option of the socket");
            socket.bind(address).expect("a free port");
            let taken = socket.local_addr().expect("the address of a bound socket");
            // The same number has to be free for datagrams too.
            if std::net::UdpSocket::bind(taken).is_ok() {
                return Self { address: taken, _held: socket };
            }
        }
    }
}
