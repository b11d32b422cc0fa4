//! Pipes that bulk goes through without entering user space. A thread keeps some for its next bulk stream.

use std::cell::RefCell;
use std::io;
use std::os::fd::OwnedFd;

use rustix::pipe::{PipeFlags, fcntl_setpipe_size, pipe_with};

pub(super) const SIZE: usize = 256 << 10;
/// Pipes that a thread keeps for the next bulk stream.
const SPARE: usize = 32;

pub(super) struct Pipe {
    pub(super) read: OwnedFd,
    pub(super) write: OwnedFd,
}

impl Pipe {
    fn new(size: usize) -> io::Result<Self> {
        let (read, write) = pipe_with(PipeFlags::CLOEXEC | PipeFlags::NONBLOCK)?;
        // Beyond a user's share of pipe memory the kernel makes pipes of two pages and lets none grow. Copying is
        // faster than splicing through one of those.
        fcntl_setpipe_size(&write, size)?;
        Ok(Self { read, write })
    }
}

/// The empty pipes of a thread.
pub(crate) struct Pipes {
    size: usize,
    spare: RefCell<Vec<Pipe>>,
}

impl Default for Pipes {
    fn default() -> Self {
        Self { size: SIZE, spare: RefCell::default() }
    }
}

impl Pipes {
    /// An empty pipe of full size; an error means that bytes have to be copied.
    pub(super) fn take(&self) -> io::Result<Pipe> {
        let spare = self.spare.borrow_mut().pop();
        spare.map_or_else(|| Pipe::new(self.size), Ok)
    }

    /// Takes an empty pipe back.
    pub(super) fn give_back(&self, pipe: Pipe) {
        let mut spare = self.spare.borrow_mut();
        if spare.len() < SPARE {
            spare.push(pipe);
        }
    }

    /// Pipes of a size that no kernel gives: all that is carried has to be copied.
    #[cfg(test)]
    pub(super) fn impossible() -> Self {
        Self { size: 1 << 40, spare: RefCell::default() }
    }

    #[cfg(test)]
    pub(super) fn spares(&self) -> usize {
        self.spare.borrow().len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pipe_that_stays_small_is_not_used() {
        assert!(Pipes::impossible().take().is_err());
        let pipes = Pipes::default();
        let pipe = pipes.take().unwrap();
        assert!(rustix::pipe::fcntl_getpipe_size(&pipe.write).unwrap() >= SIZE);
        pipes.give_back(pipe);
        assert_eq!(pipes.spares(), 1);
    }
}
