//! A client that asks for one address: the one that it was offered, remembers, or has.

use std::net::Ipv4Addr;

use super::{Decided, Network, Silence};
use crate::lease::{Lease, Seconds};
use crate::table::{Client, Number, Table, number};

/// What a client asks for that says which address it wants, or has.
pub(super) struct Request {
    pub(super) asked: Option<Ipv4Addr>,
    pub(super) has: Option<Ipv4Addr>,
    /// It answers an offer of ours.
    pub(super) is_chosen: bool,
    /// No other server hears it.
    pub(super) is_direct: bool,
}

impl Request {
    /// Whether this server is the one that knows whose an address is. RFC 2131, §4.3.2: others are silent.
    fn is_known(table: &Table, client: Client<'_>, address: Number) -> bool {
        let pool = table.pool();
        if pool.has(address) { pool.is_ours(address) } else { table.address_of(client.id).is_some() }
    }

    pub(super) fn decide(
        &self,
        network: &mut Network,
        client: Client<'_>,
        until: Seconds,
        now: Seconds,
        changes: &mut Vec<Lease>,
    ) -> Decided {
        let table = &mut network.table;
        let Some(address) = self.has.or(self.asked) else { return Decided::Silent(Silence::Malformed) };
        if !network.cidr.contains(&address) {
            return Decided::Nak("this address is not of this network");
        }
        let wanted = number(address.into());
        // Of several servers the one that gave an address must hear that it is prolonged: who hears nothing now asks all.
        if self.is_direct && !table.pool().is_ours(wanted) && client.reserved != Some(wanted) {
            return Decided::Silent(Silence::OtherServer);
        }
        // Who comes back for an offer gets it, also if the address was offered to others since.
        let was_offered = self.is_chosen && table.is_only_offered(client, wanted);
        if !was_offered && !table.may_have(client, wanted, now) {
            // A client may have got another address, or the plan may no longer have this one.
            if table.is_of(client.id, wanted) {
                table.release(wanted, now, changes);
            } else if !self.is_chosen && !self.is_direct && !Self::is_known(table, client, wanted) {
                return Decided::Silent(Silence::UnknownLease);
            }
            return Decided::Nak("this address is not yours");
        }
        // Of what another server gives out, only that one knows who has it.
        let own = table.address_of(client.id);
        let own = own.filter(|own| *own == wanted || table.pool().is_ours(wanted));
        match own {
            // It has a new address of its own, which it gets by asking anew.
            _ if client
                .reserved
                .is_some_and(|reserved| reserved != wanted && table.may_have(client, reserved, now)) =>
            {
                Decided::Nak("another address is reserved for you")
            }
            Some(own) if own != wanted && !self.is_chosen => Decided::Nak("you have another address"),
            // Nothing is known of it. Who boots and remembers an address may be remembered by another server; who has
            // one now goes on with it, also if another server gave it.
            None if self.has.is_none() && !self.is_chosen => Decided::Silent(Silence::UnknownLease),
            _ => {
                table.grant(client, wanted, until, now, changes);
                Decided::Ack(address)
            }
        }
    }
}
