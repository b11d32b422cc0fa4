//! Kernel sockets: options, and reading and writing with as few system calls as can be.

use std::io;
use std::net::SocketAddr;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use rustix::io::Errno;
use rustix::net::{SendFlags, sockopt};
use tokio::io::Interest;
use tokio::net::TcpStream;
use tokio::time::timeout;

/// A peer that vanished is noticed after about a minute and a half.
const KEEPALIVE_IDLE: Duration = Duration::from_mins(1);
const KEEPALIVE_INTERVAL: Duration = Duration::from_secs(10);
const KEEPALIVE_PROBES: u32 = 3;

/// Connects within a time, and prepares the socket.
///
/// # Errors
/// When nobody answers there, or nobody does in time.
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

/// Tells the peer that nothing more will come; one that is gone already needs no telling.
pub(crate) fn end_writing(socket: &TcpStream) -> io::Result<()> {
    match rustix::net::shutdown(socket, rustix::net::Shutdown::Write) {
        Ok(()) | Err(Errno::NOTCONN) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

/// Reads what has come. A read that does not fill the buffer has emptied the socket, so the runtime is told to wait for
/// more, and nobody spends a system call on finding out.
pub(crate) fn poll_recv(
    socket: &TcpStream,
    cx: &mut Context<'_>,
    buffer: &mut [u8],
) -> Poll<io::Result<usize>> {
    loop {
        ready!(socket.poll_read_ready(cx))?;
        let mut received = None;
        let result = socket.try_io(Interest::READABLE, || {
            let count = rustix::io::read(socket, &mut *buffer)?;
            received = Some(count);
            if (1..buffer.len()).contains(&count) { Err(io::ErrorKind::WouldBlock.into()) } else { Ok(()) }
        });
        match (received, result) {
            (Some(count), _) => return Poll::Ready(Ok(count)),
            (None, Err(error)) if error.kind() != io::ErrorKind::WouldBlock => {
                return Poll::Ready(Err(error));
            }
            (None, _) => {}
        }
    }
}

/// Writes as much as the socket takes now, possibly nothing. `more` says that the rest of a larger piece follows, so
/// that the kernel need not send what does not fill a packet.
pub(crate) fn send(socket: &TcpStream, piece: &[u8], more: bool) -> io::Result<usize> {
    let mut flags = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
    flags.set(SendFlags::MORE, more);
    let ask = || match rustix::net::send(socket, piece, flags) {
        Err(Errno::AGAIN) => Ok(0),
        sent => Ok(sent?),
    };
    write_with(socket, piece.len(), ask)
}

/// The same for two pieces, one after the other.
pub(crate) fn send_both(socket: &TcpStream, pieces: (&[u8], &[u8])) -> io::Result<usize> {
    let ask = || {
        let slices = [io::IoSlice::new(pieces.0), io::IoSlice::new(pieces.1)];
        match rustix::io::writev(socket, &slices) {
            Err(Errno::AGAIN) => Ok(0),
            sent => Ok(sent?),
        }
    };
    write_with(socket, pieces.0.len() + pieces.1.len(), ask)
}

/// Asks the kernel to write. If it does not take everything, the runtime is told to wait until it can take more.
fn write_with(
    socket: &TcpStream,
    wanted: usize,
    mut ask: impl FnMut() -> io::Result<usize>,
) -> io::Result<usize> {
    let mut asked = None;
    let result = socket.try_io(Interest::WRITABLE, || {
        let sent = ask()?;
        asked = Some(sent);
        if sent < wanted { Err(io::ErrorKind::WouldBlock.into()) } else { Ok(()) }
    });
    match (asked, result) {
        (Some(sent), _) => Ok(sent),
        // The runtime does not know yet that a socket made a moment ago can be written to.
        (None, Err(error)) if error.kind() == io::ErrorKind::WouldBlock => ask(),
        (None, Err(error)) => Err(error),
        (None, Ok(())) => Ok(0),
    }
}
