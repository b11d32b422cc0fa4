//! `causeway dhcp` as clients meet it: real ones, in network namespaces with a bridge between them and no way out. Needs
//! root and the clients of `scripts/test-deps.sh`.

#![allow(clippy::unwrap_used, clippy::panic)]

mod client;
mod clients;
mod commands;
mod crash;
mod load;
mod network;
mod relay;
mod server;
