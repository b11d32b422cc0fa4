//! Where packets come from and go to.

use std::io;
use std::task::{Context, Poll};

/// A way for IP packets: a WireGuard socket, a TUN device, or whatever else carries them. A [`Stack`](crate::Stack) owns it
/// and calls it from one task.
pub trait Device: Send + 'static {
    /// The largest packet that goes through.
    fn mtu(&self) -> usize;

    /// Whether what comes cannot have been damaged on its way, so that checksums need no look.
    fn is_sound(&self) -> bool {
        false
    }

    /// Gives each packet that has come to `each`, at least one unless nothing has come.
    ///
    /// # Errors
    /// When nothing will ever come or go any more; the stack ends.
    fn poll_receive(&mut self, cx: &mut Context<'_>, each: &mut dyn FnMut(&[u8])) -> Poll<io::Result<()>>;

    /// Whether the way was renewed since this was last asked, so that what seemed lost is worth sending again at once.
    fn take_renewed(&mut self) -> bool {
        false
    }

    /// Whether another packet can be taken now; if not, after [`Device::poll_flush`].
    fn has_room(&self) -> bool;

    /// Takes a packet of that length, which `write` fills. What can't be sent is dropped, as any network does.
    fn send(&mut self, length: usize, write: impl FnOnce(&mut [u8]))
    where
        Self: Sized;

    /// Hands what was taken to the system.
    ///
    /// # Errors
    /// When nothing will ever come or go any more.
    fn poll_flush(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>>;
}
