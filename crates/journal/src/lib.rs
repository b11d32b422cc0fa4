//! A durable log in one file: records of any bytes, each written and synced in one step, read once at the start, and
//! written anew when most of it is history. A crate of its own because two stores stand on it, the API server's objects
//! and the leases of DHCP, and what survives a power cut must not be thought out twice.
//!
//! What a record says is its owner's business; here are its frame ([`record`](self)), the file, and its holder.
#![warn(missing_docs, unreachable_pub)]

mod contents;
mod file;
mod record;
#[cfg(test)]
mod tests;

pub use contents::Contents;
pub use file::{AppendError, Fresh, Journal, OpenError, read};

/// What the journals of one owner look like.
#[derive(Debug)]
pub struct Form {
    /// The file begins with this; the last byte is the format that is written.
    pub header: [u8; 16],
    /// Older formats that differ in nothing that matters to a reader; the file is then said to be of the newest.
    pub older: &'static [u8],
    /// Each record begins with this.
    pub magic: [u8; 4],
    /// Space is filled with zeros ahead in steps of this many bytes: a sync of what overwrites them has no length and no
    /// extents to record.
    pub step: u64,
    /// A journal smaller than this is never written anew.
    pub small: u64,
}
