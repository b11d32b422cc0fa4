//! IP packets ↔ TCP streams and UDP datagrams in user space, and WireGuard below them. A crate of its own because it keeps
//! WireGuard's protocol and packet formats away from others, and because it must know nothing of links or Kubernetes.
//!
//! Nothing here needs a privilege: no TUN device, no kernel module, no capability. (A TUN device can be had in a user and
//! network namespace of one's own, see [`tun`].)
//!
//! ```no_run
//! # use causeway_netstack::{Config, Incoming, Stack, wireguard};
//! # async fn example(key: wireguard::SecretKey, laptop: wireguard::PublicKey) -> std::io::Result<()> {
//! // A hub: one UDP socket, many peers.
//! let (hub, device) = wireguard::bind(wireguard::Config::new(key, "[::]:51820".parse().unwrap()))?;
//! let peer = wireguard::Peer::new(laptop, vec!["100.64.0.2/32".parse().unwrap()]);
//! hub.set_peers(vec![peer]);
//! let (stack, mut arrivals) = Stack::start(device, &Config::default());
//! // What peers open. Their source address is one that their key may use.
//! while let Some(incoming) = arrivals.next().await {
//!     match incoming {
//!         // The client has no answer before `accept`, so connect onward first; `refuse` (or drop) is a reset.
//!         Incoming::Tcp(pending) => drop(pending.accept()), // AsyncRead + AsyncWrite, half-close kept
//!         Incoming::Udp(flow) => flow.send(b"hello"),       // `flow.receive().await`; `flow.refuse()`
//!     }
//! }
//! // What is opened to peers.
//! let flow = stack.connect_tcp("100.64.0.1:0".parse().unwrap(), "100.64.0.2:3000".parse().unwrap()).await?;
//! # drop(flow); Ok(()) }
//! ```
//!
//! The other side is [`wireguard::dial`]: the same with one peer whose endpoint is known. Addresses of the stack itself
//! need no configuration: it answers for whatever address packets are sent to.

#![warn(missing_docs, unreachable_pub)]

mod config;
mod device;
mod engine;
mod flow;
mod fragments;
mod icmp;
mod ip;
mod stack;
mod tcp;
#[cfg(target_os = "linux")]
pub mod tun;
pub mod wireguard;

pub use config::Config;
pub use device::Device;
pub use flow::{Incoming, Pending, TcpFlow, UdpFlow};
pub use stack::{Arrivals, Stack};
