//! `causeway dns` as a process, asked with dig and kdig, beside Knot with the same records, and forwarding to a real Unbound and
//! to resolvers that lie.
#![allow(clippy::unwrap_used, clippy::panic)]

mod answers;
mod forwarding;
mod knot;
mod limits;
mod message;
mod resolver;
mod server;
mod streams;
mod unbound;
