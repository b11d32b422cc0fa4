//! The engine with real sockets: everything listens on port 0 of loopback.
#![allow(clippy::unwrap_used, clippy::panic)]

mod abuse;
mod changes;
mod copying;
mod endpoints;
mod http;
mod limits;
mod observing;
mod pki;
mod proxy_header;
mod sni;
mod support;
mod tls;
mod udp;
