//! What the connections of a thread share while they are worked on, and none of them keeps.

use std::cell::{RefCell, RefMut};

use crate::http::Buffers;
use crate::tcp::copy::Pipes;

/// As large as the largest datagram.
const BUFFER: usize = 64 << 10;

pub(crate) struct Workspace {
    buffer: RefCell<Box<[u8]>>,
    pub(crate) pipes: Pipes,
    /// For requests and answers.
    pub(crate) buffers: Buffers,
}

impl Default for Workspace {
    fn default() -> Self {
        Self {
            buffer: RefCell::new(vec![0; BUFFER].into()),
            pipes: Pipes::default(),
            buffers: Buffers::default(),
        }
    }
}

impl Workspace {
    /// Lends the thread's buffer.
    ///
    /// # Panics
    /// If it is lent already: it must not be held across an await, nor while another connection is worked on.
    pub(crate) fn buffer(&self) -> RefMut<'_, [u8]> {
        RefMut::map(self.buffer.borrow_mut(), |buffer| &mut **buffer)
    }
}
