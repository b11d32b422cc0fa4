//! What the kernel knows of a socket and no library asks for.

use std::os::fd::AsFd;

/// Bytes that were written and that the peer has not acknowledged; none when the socket can't be asked.
#[expect(unsafe_code, reason = "rustix has no function for this ioctl")]
pub fn unacknowledged(socket: impl AsFd) -> i32 {
    const SIOCOUTQ: rustix::ioctl::Opcode = 0x5411;
    // SAFETY: SIOCOUTQ on a socket writes one int and nothing else.
    unsafe {
        let question = rustix::ioctl::Getter::<SIOCOUTQ, i32>::new();
        rustix::ioctl::ioctl(socket, question).unwrap_or(0)
    }
}
