//! Has the runtime of a thread watch a socket.

use std::io;
use std::os::fd::OwnedFd;

use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

/// Registers a non-blocking socket.
///
/// # Errors
/// If the kernel has no room for it.
///
/// # Panics
/// Outside of a runtime.
#[expect(unsafe_code, reason = "tokio watches nothing else than its own sockets without")]
pub(super) fn watch(socket: OwnedFd, interest: Interest) -> io::Result<AsyncFd<OwnedFd>> {
    // SAFETY: an OwnedFd is open and stays the same descriptor until it is dropped, which only AsyncFd does.
    Ok(unsafe { AsyncFd::register_with_interest(socket, interest) }?)
}
