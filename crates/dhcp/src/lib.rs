//! A DHCP server: leases for IPv4 and IPv6 by a plan, durable before a client is told, and router advertisements.
//!
//! For those who run one: [`Server::start`] serves a valid [`DhcpPlan`](causeway_ir::dhcp::DhcpPlan) with a file of leases
//! that is its alone. [`Server::change`] takes another plan into use and returns when it runs; who counts plans knows by
//! that which one does. [`Server::status`] says how many addresses are active, free and declined, who asked and is not
//! served, and with [`Status::problem`] why clients are not served, if so. [`Server::leases`] has who has which address
//! and by what name; [`Status::revision`] tells when to look again. It needs no right but that to its ports: without
//! CAP_NET_RAW clients without an address are answered by broadcast, and routers are not advertised, which
//! [`Status::unicast`] and [`Status::advertises`] say. All of it is sound to call from any thread.
//!
//! Of several servers of one network each has the same plan but for `server` and `replica`, a file of leases of its own,
//! and the others' addresses in `pool.except`.
//!
//! Inside out: `table` says who may have which address, `v4` and `v6` what is answered to a message (neither knows a
//! socket, a disk or a clock), `store` keeps leases on disk, and [`Server`] puts them together on an interface.
#![warn(missing_docs, unreachable_pub)]

mod clients;
mod lease;
mod metrics;
#[doc(hidden)]
pub mod packets;
mod server;
mod store;
mod table;
mod v4;
mod v6;

pub use lease::{Lease, Seconds, State};
pub use metrics::Metrics;
pub use server::{Server, StartError, Status, Unknown};
pub use store::{OpenError, read};
