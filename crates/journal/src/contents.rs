//! What was found in a journal.

use std::ops::Range;
use std::time::SystemTime;

/// The records of a journal as it was opened.
pub struct Contents {
    pub(crate) bytes: Vec<u8>,
    pub(crate) payloads: Vec<Range<usize>>,
    pub(crate) written: SystemTime,
}

impl Contents {
    /// What was written, from the first record to the last.
    pub fn payloads(&self) -> impl Iterator<Item = &[u8]> {
        self.payloads.iter().map(|place| &self.bytes[place.clone()])
    }

    /// When somebody wrote last, by the clock of the machine.
    pub fn written(&self) -> SystemTime {
        self.written
    }
}
