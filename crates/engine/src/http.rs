//! HTTP: requests are read with more care than most servers take, matched by host, path, method, headers and query, and
//! forwarded, redirected or answered. The pieces in the middle know nothing of sockets: [`h1`] turns bytes to heads and
//! bodies, [`path`] and [`target`] say what a request is for, [`router`] finds its route, [`decision`] writes what comes
//! of it; [`h2`] gives streams the same form. Around them [`connection`] serves a client, and [`exchange`] and [`attempt`]
//! an endpoint.

mod answer;
mod attempt;
pub(crate) mod buffer;
mod common;
mod connection;
mod cors;
mod decision;
mod edits;
mod exchange;
mod fault;
mod forwarded;
pub mod front;
mod h1;
mod h2;
mod introduction;
mod mirror;
mod onward;
mod origin;
mod pages;
mod path;
mod persistence;
mod policies;
mod pool;
mod problems;
mod rates;
mod reach;
mod record;
mod reply;
mod route;
mod router;
mod sink;
mod source;
mod target;
mod tunnel;
mod waiting;
pub(crate) mod wire;

pub(crate) use buffer::Buffers;
pub(crate) use common::Common;
pub(crate) use connection::Connection;
pub(crate) use decision::Client;
pub(crate) use h2::{ALPN as H2, Hands, Job};
pub(crate) use mirror::Mirrors;
pub(crate) use pages::PageSet;
pub(crate) use persistence::Key as SessionKey;
pub(crate) use pool::Pool;
pub(crate) use problems::{in_http, in_route, in_terminate};
pub(crate) use rates::Rates;
pub(crate) use route::Route;
pub(crate) use router::{Router, Routes};
pub(crate) use waiting::Waiting;
