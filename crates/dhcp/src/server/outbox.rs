//! Replies on their way: those that wait until their leases are on disk, and how each is sent.

use std::io;
use std::net::{Ipv4Addr, SocketAddr, SocketAddrV6, UdpSocket};

use super::Sockets;
use crate::metrics::Metrics;
use crate::v4::answer::To;

/// Buffers that are kept to be used again.
const MOST_SPARE: usize = 256;
const RELAY_PORT: u16 = 67;
const CLIENT_PORT: u16 = 68;
pub(super) const V6_CLIENT_PORT: u16 = 546;
pub(super) const V6_RELAY_PORT: u16 = 547;

/// A reply.
pub(super) struct Reply {
    pub(super) bytes: Vec<u8>,
    pub(super) to: Destination,
    /// Its type, for metrics.
    pub(super) message: &'static str,
}

/// Where a reply goes.
#[derive(Debug, Clone, Copy)]
pub(super) enum Destination {
    V4(To),
    V6(SocketAddrV6),
}

/// All replies.
#[derive(Default)]
pub(super) struct Outbox {
    kept: Vec<Reply>,
    spare: Vec<Vec<u8>>,
}

impl Outbox {
    /// A buffer to write a reply into.
    pub(super) fn buffer(&mut self) -> Vec<u8> {
        self.spare.pop().unwrap_or_default()
    }

    /// Takes a buffer back.
    pub(super) fn give_back(&mut self, buffer: Vec<u8>) {
        if self.spare.len() < MOST_SPARE {
            self.spare.push(buffer);
        }
    }

    /// Keeps a reply until its lease is on disk.
    pub(super) fn keep(&mut self, reply: Reply) {
        self.kept.push(reply);
    }

    /// Takes out what was kept.
    pub(super) fn take(&mut self) -> Vec<Reply> {
        std::mem::take(&mut self.kept)
    }

    /// Sends a reply, as the server with this address.
    pub(super) fn send(&mut self, reply: Reply, sockets: &Sockets, server: Ipv4Addr, metrics: &Metrics) {
        let Reply { bytes, to, message } = reply;
        let sent = match (to, &sockets.v6) {
            (Destination::V4(to), _) => send_v4(&bytes, to, sockets, server),
            (Destination::V6(to), Some(socket)) => socket.send_to(&bytes, to).map(drop),
            (Destination::V6(_), None) => Ok(()),
        };
        match sent {
            Ok(()) => metrics.sent(message),
            Err(error) => {
                metrics.send_errors.inc();
                tracing::debug!(%error, ?to, "a reply could not be sent");
            }
        }
        self.give_back(bytes);
    }
}

fn send_v4(bytes: &[u8], to: To, sockets: &Sockets, server: Ipv4Addr) -> io::Result<()> {
    let socket = &sockets.v4;
    match (to, &sockets.card) {
        (To::Relay(relay), _) => send(socket, bytes, relay, RELAY_PORT),
        (To::Client(client), _) => send(socket, bytes, client, CLIENT_PORT),
        (To::Card { hardware, address }, Some(card)) => Ok(card.send(server, hardware, address, bytes)?),
        (To::Card { .. }, None) | (To::Everybody, _) => send(socket, bytes, Ipv4Addr::BROADCAST, CLIENT_PORT),
    }
}

fn send(socket: &UdpSocket, bytes: &[u8], to: Ipv4Addr, port: u16) -> io::Result<()> {
    socket.send_to(bytes, SocketAddr::from((to, port))).map(drop)
}
