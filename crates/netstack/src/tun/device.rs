//! A TUN device as a way for packets.

use std::io;
use std::os::fd::OwnedFd;
use std::task::{Context, Poll};

use tokio::io::unix::AsyncFd;

/// Packets that are read in a row.
const ROW: usize = 64;

/// An open TUN device: a [`Device`](crate::Device) for a [`Stack`](crate::Stack).
#[derive(Debug)]
pub struct Tun {
    device: AsyncFd<OwnedFd>,
    mtu: u16,
    buffer: Vec<u8>,
}

impl Tun {
    /// Watches a device that gives packets without a prefix. To be called in a runtime.
    ///
    /// # Errors
    /// When it can't be watched.
    pub fn new(device: OwnedFd, mtu: u16) -> io::Result<Self> {
        rustix::io::ioctl_fionbio(&device, true)?;
        Ok(Self { device: watched(device)?, mtu, buffer: vec![0; 1 << 16] })
    }
}

#[expect(unsafe_code, reason = "tokio watches nothing else than its own sockets without")]
fn watched(device: OwnedFd) -> io::Result<AsyncFd<OwnedFd>> {
    // SAFETY: an `OwnedFd` gives the same open descriptor as long as it is not dropped.
    Ok(unsafe { AsyncFd::register(device) }?)
}

impl crate::Device for Tun {
    fn mtu(&self) -> usize {
        self.mtu.into()
    }

    /// It comes from this machine.
    fn is_sound(&self) -> bool {
        true
    }

    fn poll_receive(&mut self, cx: &mut Context<'_>, each: &mut dyn FnMut(&[u8])) -> Poll<io::Result<()>> {
        let mut any = false;
        for _ in 0..ROW {
            let Poll::Ready(guard) = self.device.poll_read_ready(cx) else {
                return if any { Poll::Ready(Ok(())) } else { Poll::Pending };
            };
            match guard?.try_io(|device| Ok(rustix::io::read(device, &mut self.buffer)?)) {
                Ok(count) => each(&self.buffer[..count?]),
                // The readiness was outdated: asking again leaves a waker.
                Err(_) => continue,
            }
            any = true;
        }
        Poll::Ready(Ok(()))
    }

    fn has_room(&self) -> bool {
        true
    }

    fn send(&mut self, length: usize, write: impl FnOnce(&mut [u8])) {
        let Some(packet) = self.buffer.get_mut(..length) else { return };
        write(packet);
        // The kernel takes it, or it is lost as packets are.
        let _ = rustix::io::write(self.device.get_ref(), packet);
    }

    fn poll_flush(&mut self, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}
