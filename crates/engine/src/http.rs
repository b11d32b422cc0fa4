//! HTTP: requests are read with more care than most servers take, matched by host, path, method, headers and query, and
//! forwarded, redirected or answered. The pieces in the middle know nothing of sockets: [`h1`] turns bytes to heads and
//! bodies, [`path`] and [`target`] say what a request is for, [`router`] finds its route, [`decision`] writes what comes
//! of it. Around them [`connection`] serves a client, and [`exchange`] and [`attempt`] an endpoint.

mod answer;
mod attempt;
mod buffer;
mod connection;
mod cors;
mod decision;
mod edits;
mod exchange;
mod fault;
pub mod front;
mod h1;
mod mirror;
mod onward;
mod path;
mod pool;
mod problems;
mod record;
mod route;
mod router;
mod target;
mod tunnel;
mod waiting;
mod wire;

pub(crate) use buffer::Buffers;
pub(crate) use connection::Connection;
pub(crate) use decision::Client;
pub(crate) use mirror::Mirrors;
pub(crate) use pool::Pool;
pub(crate) use problems::{in_clusters, in_routes, in_terminate};
pub(crate) use route::Route;
pub(crate) use router::Router;
pub(crate) use waiting::Waiting;
