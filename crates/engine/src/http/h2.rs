//! HTTP/2 on both sides, framed by the `h2` crate. Heads become the lines that HTTP/1.1 would have: whatever decides on a
//! request, or changes one, sees the same whichever way it came.

pub(crate) mod as_is;
mod flow;
mod guard;
mod hands;
pub(crate) mod head;
mod incoming;
mod pipe;
mod trunk;
pub(crate) mod websocket;

pub(crate) use flow::{Inflow, Outflow};
pub(crate) use hands::Hands;
pub(crate) use incoming::{Job, serve, settings};
pub(crate) use trunk::{Pulse, Share, Trunk};

/// What a client begins with, up to where a reader of HTTP/1.1 takes it for a head.
pub(crate) const PREFACE_HEAD: &[u8] = b"PRI * HTTP/2.0\r\n\r\n";
/// The protocol as TLS calls it.
pub(crate) const ALPN: &[u8] = b"h2";

/// What a peer may send on a stream before it is asked for more.
const STREAM_WINDOW: u32 = 64 << 10;
/// Bytes of a stream that wait for the socket, at most.
const SEND_BUFFER: usize = 32 << 10;
