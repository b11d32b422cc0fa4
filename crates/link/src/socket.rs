//! Options of sockets: no delay, keep-alive, ending one direction, ending with a reset.

use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use rustix::net::sockopt;
use tokio::net::TcpStream;
use tokio::time::timeout;

/// A peer that vanished is noticed after about a minute and a half.
const KEEPALIVE_IDLE: Duration = Duration::from_mins(1);
const KEEPALIVE_INTERVAL: Duration = Duration::from_secs(10);
const KEEPALIVE_PROBES: u32 = 3;

/// Connects within a time.
pub async fn connect(address: SocketAddr, limit: Duration) -> io::Result<TcpStream> {
    let socket = timeout(limit, TcpStream::connect(address)).await.map_err(|_| {
        let text = format!("no answer within {} s", limit.as_secs_f32());
        io::Error::new(io::ErrorKind::TimedOut, text)
    })??;
    prepare(&socket);
    Ok(socket)
}

/// Sends small pieces at once, and has the kernel ask now and then whether the peer is still there.
pub fn prepare(socket: &TcpStream) {
    // An option that can't be set costs speed or patience, not correctness.
    let _ = socket.set_nodelay(true);
    let _ = sockopt::set_socket_keepalive(socket, true);
    let _ = sockopt::set_tcp_keepidle(socket, KEEPALIVE_IDLE);
    let _ = sockopt::set_tcp_keepintvl(socket, KEEPALIVE_INTERVAL);
    let _ = sockopt::set_tcp_keepcnt(socket, KEEPALIVE_PROBES);
}

/// The peer sees a reset, not an end, when the socket is dropped.
pub fn reset_on_close(socket: &TcpStream) {
    let _ = sockopt::set_socket_linger(socket, Some(Duration::ZERO));
}

/// Tells the peer that nothing more will come.
pub fn end_writing(socket: &TcpStream) -> io::Result<()> {
    match rustix::net::shutdown(socket, rustix::net::Shutdown::Write) {
        // The peer is gone already, and so is whoever would want to know.
        Ok(()) | Err(rustix::io::Errno::NOTCONN) => Ok(()),
        Err(error) => Err(error.into()),
    }
}
