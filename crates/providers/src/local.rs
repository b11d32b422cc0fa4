//! What one machine has without asking anybody: an authority of its own, and our own DNS server.

mod authority;
mod shelf;

pub use authority::{Authority, Issuer};
pub use shelf::{Dns, Shelf, Stored};
