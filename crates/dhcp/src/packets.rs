//! Both packet paths without a socket, a disk or a clock, for those who feed them rubbish.

use std::net::Ipv6Addr;

use causeway_ir::dhcp::DhcpPlan;

use crate::clients::Clients;
use crate::lease::{Lease, Seconds};
use crate::v4::answer::Outcome;
use crate::v4::message::Message;
use crate::{v4, v6};

/// All that decides what is answered.
pub struct Packets {
    v4: v4::answer::Answerer,
    v6: Option<v6::answer::Answerer>,
    clients: Clients,
    out: Vec<u8>,
    changes: Vec<Lease>,
}

impl Packets {
    /// By a valid plan, with no leases.
    pub fn new(plan: &DhcpPlan) -> Self {
        Self {
            v4: v4::answer::Answerer::new(plan, &[]),
            v6: v6::answer::Answerer::new(plan, &[]),
            clients: Clients::new(plan),
            out: Vec::new(),
            changes: Vec::new(),
        }
    }

    /// The reply to a datagram of DHCPv4, if there is one, and the leases that are to be on disk before.
    pub fn v4(&mut self, bytes: &[u8], now: Seconds) -> (Option<&[u8]>, &[Lease]) {
        self.changes.clear();
        let Ok(message) = Message::parse(bytes) else { return (None, &[]) };
        let mut outcome = self.v4.answer(&message, &self.clients, now, &mut self.out, &mut self.changes);
        if let Outcome::Probe(address) = outcome {
            self.v4.probed(address, None, now, &mut self.changes);
            outcome = self.v4.answer(&message, &self.clients, now, &mut self.out, &mut self.changes);
        }
        (matches!(outcome, Outcome::Reply(..)).then_some(self.out.as_slice()), &self.changes)
    }

    /// The reply to a datagram of DHCPv6, if there is one, and the leases that are to be on disk before.
    pub fn v6(&mut self, bytes: &[u8], from: Ipv6Addr, now: Seconds) -> (Option<&[u8]>, &[Lease]) {
        self.changes.clear();
        let Some(v6) = &mut self.v6 else { return (None, &[]) };
        let outcome = v6.answer(bytes, from, &self.clients, now, &mut self.out, &mut self.changes);
        (matches!(outcome, v6::answer::Outcome::Reply { .. }).then_some(self.out.as_slice()), &self.changes)
    }
}
