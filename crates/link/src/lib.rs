//! Links: an authenticated, encrypted connection between two ends that carries streams and datagrams both ways.
//! A crate of its own because tunnels and the engine use it, and because it must know nothing of either, nor of
//! Kubernetes. Either end may dial, either may open streams; everything is mutual TLS 1.3 with an authority of its own.
//! Streams share a few long-lived connections, so that opening one costs no handshake.
//!
//! A connection begins with [`dial`] or [`Listener::accept`], becomes a [`Link`] with [`Connection::start`], and is
//! driven by its [`Driver`]. The other end's streams come to the [`Handler`], which turns them into a [`Stream`]
//! (any caller's `AsyncRead + AsyncWrite`, or joined to a socket by [`Stream::relay`]) or a [`Flow`] of datagrams.

#![warn(missing_docs, unreachable_pub)]

mod connection;
mod dialer;
mod driver;
mod flow;
mod frame;
mod handshakes;
mod identity;
mod inbound;
mod link;
mod listener;
mod memory;
mod outbox;
mod relay;
mod socket;
mod stream;
mod tls;
mod traffic;
mod vouch;
mod waiting;
mod window;

pub use connection::{Connection, Error};
pub use dialer::{dial, dial_over};
pub use driver::{Driver, Ended};
pub use flow::{Flow, Sink};
pub use handshakes::{Handshakes, Underway};
pub use identity::{Authority, Error as IdentityError, Identity, Key, KeyId, Renewal, Role, name_of, token};
pub use link::{Handler, Incoming, Link, Unusable};
pub use listener::{Credentials, Listener};
pub use relay::RelayEnd;
pub use socket::{connect, prepare, reset_on_close};
pub use stream::{Settings, Stream};
pub use traffic::Traffic;
pub use vouch::is_due;
