//! Who has which address of one network. A pure state machine with a flat cost: no step looks through all leases.
//!
//! Addresses are numbers here, so that IPv4 and IPv6 share this. Every address that was ever given out has an entry; it
//! is free for others when its time is over, the one that is free for longest first.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use causeway_ir::dhcp::Replica;

use crate::lease::{Lease, Seconds, State};

/// How long an offer is kept for a client that does not come back.
const OFFER: Seconds = 30;
/// Addresses of IPv6 that are remembered at most: a pool may have no end, but memory and disk do.
const MOST_V6: usize = 1 << 16;
/// Of a pool at most one part of so many is in quarantine: a client that finds fault with every address starves nobody.
const QUARANTINED_PART: Number = 4;
/// Whole seconds are counted, and a client's time begins after ours.
pub(crate) const GRACE: Seconds = 1;

/// An address as a number, IPv4 or IPv6.
pub(crate) type Number = u128;

pub(crate) fn number(address: IpAddr) -> Number {
    match address {
        IpAddr::V4(address) => u32::from(address).into(),
        IpAddr::V6(address) => address.into(),
    }
}

/// Which addresses may be given out.
#[derive(Debug, Clone, Default)]
pub(crate) struct Pool {
    /// First and last; none gives out reservations only.
    pub range: Option<(Number, Number)>,
    /// Never given out.
    pub except: Vec<(Number, Number)>,
    /// Given to one client only, which the table does not have to know.
    pub reserved: HashSet<Number>,
    pub replica: Option<Replica>,
    pub is_v6: bool,
}

impl Pool {
    /// Whether any client may have the address.
    pub(crate) fn has(&self, address: Number) -> bool {
        self.range.is_some_and(|(first, last)| (first..=last).contains(&address))
            && !self.reserved.contains(&address)
            && !self.except.iter().any(|(first, last)| (*first..=*last).contains(&address))
    }

    /// Whether the address is given to new clients here.
    pub(crate) fn gives(&self, address: Number) -> bool {
        self.is_ours(address) && !self.replica.is_some_and(|replica| replica.listens)
    }

    /// Whether the address is of this replica's part.
    pub(crate) fn is_ours(&self, address: Number) -> bool {
        let Some((replica, (first, _))) = self.replica.zip(self.range) else { return true };
        address.wrapping_sub(first) % Number::from(replica.of.max(1)) == replica.index.into()
    }

    /// How many addresses there are.
    pub(crate) fn size(&self) -> Number {
        let Some((first, last)) = self.range else { return 0 };
        let overlap = |(from, to): &(Number, Number)| (*to.min(&last) + 1).saturating_sub(*from.max(&first));
        // Ranges that overlap each other count twice, which makes the answer too small rather than too large.
        let except: Number = self.except.iter().map(overlap).sum();
        (last - first).saturating_add(1).saturating_sub(except)
    }

    pub(crate) fn address(&self, number: Number) -> IpAddr {
        if self.is_v6 { Ipv6Addr::from(number).into() } else { Ipv4Addr::from(number as u32).into() }
    }
}

/// A client that asks.
#[derive(Clone, Copy)]
pub(crate) struct Client<'a> {
    pub id: &'a [u8],
    pub hardware: &'a [u8],
    pub hostname: Option<&'a str>,
    /// The address that is this client's alone.
    pub reserved: Option<Number>,
    /// What its card has is its own, by whatever identifier.
    pub by_card: bool,
}

impl Client<'_> {
    fn has_card_of(self, lease: &Lease) -> bool {
        !self.hardware.is_empty() && *lease.hardware == *self.hardware
    }
}

const NOBODY: Client<'static> =
    Client { id: &[], hardware: &[], hostname: None, reserved: None, by_card: false };

struct Entry {
    lease: Lease,
    /// Kept for the client, who has not asked for it yet; never on disk.
    is_offer: bool,
    /// Nobody was found to use the offered address.
    is_probed: bool,
    /// What the client has until it takes this offer.
    instead_of: Option<Number>,
    /// The offer is of what the client had before, and stays its own if it is not taken.
    was_own: bool,
}

impl Entry {
    fn new(lease: Lease) -> Self {
        Self { lease, is_offer: false, is_probed: false, instead_of: None, was_own: false }
    }
}

/// The addresses of a network.
pub(crate) struct Table {
    pool: Pool,
    entries: HashMap<Number, Entry>,
    by_client: HashMap<Box<[u8]>, Number>,
    by_hardware: HashMap<Box<[u8]>, Number>,
    /// Addresses of the pool by the time when they become free.
    queue: BTreeSet<(Seconds, Number)>,
    /// Offers by the time when they are over.
    offers: BTreeSet<(Seconds, Number)>,
    /// Addresses in quarantine by the time when it is over.
    declined: BTreeSet<(Seconds, Number)>,
    /// From here on no address of the pool was ever given out.
    unused: Number,
}

impl Table {
    pub(crate) fn new(pool: Pool) -> Self {
        Self {
            unused: pool.range.map_or(0, |(first, _)| first),
            pool,
            entries: HashMap::new(),
            by_client: HashMap::new(),
            by_hardware: HashMap::new(),
            queue: BTreeSet::new(),
            offers: BTreeSet::new(),
            declined: BTreeSet::new(),
        }
    }

    pub(crate) fn pool(&self) -> &Pool {
        &self.pool
    }

    /// All that is known, offers left out.
    pub(crate) fn leases(&self) -> impl Iterator<Item = &Lease> {
        self.entries.values().filter(|entry| !entry.is_offer).map(|entry| &entry.lease)
    }

    /// Takes over a lease that was made before, also one that no longer fits: nobody else gets it in its time. Of several
    /// that a client had, the last one is its own.
    pub(crate) fn load(&mut self, lease: Lease) {
        self.set(Entry::new(lease));
    }

    /// The address that a client should have: its own, the one that it had, the one that it asks for, one that nobody had,
    /// or the one that is free for longest.
    pub(crate) fn choose(
        &mut self,
        client: Client<'_>,
        asked: Option<Number>,
        now: Seconds,
    ) -> Option<Number> {
        let own = self.by_client.get(client.id).copied();
        let had = self.by_hardware.get(client.hardware).copied().filter(|_| !client.hardware.is_empty());
        let known = [client.reserved, own, had, asked.filter(|address| self.pool.gives(*address))];
        let is_right =
            |address: &Number| self.may_give(client, *address, now) && self.may_have(client, *address, now);
        let known = known.into_iter().flatten().find(is_right);
        known
            .or_else(|| self.next_unused())
            .or_else(|| self.longest_free(now))
            .or_else(|| self.oldest_offer())
    }

    /// Whether a client may have an address: it is its own, or free.
    pub(crate) fn may_have(&self, client: Client<'_>, address: Number, now: Seconds) -> bool {
        if !self.fits(client, address) {
            return false;
        }
        let Some(Entry { lease, .. }) = self.entries.get(&address) else {
            return client.reserved == Some(address) || !self.is_full();
        };
        let is_own = match lease.state {
            // Who was found to use it is the one who asks.
            State::Declined => client.has_card_of(lease),
            // A machine may call itself otherwise while it boots.
            State::Leased | State::Released => {
                *lease.client == *client.id
                    || (client.has_card_of(lease) && (client.by_card || client.reserved == Some(address)))
            }
        };
        lease.until <= now || is_own
    }

    /// Whether it is for this server to give an address to a client anew: to new clients only those of its part, since of
    /// others it need not know who has them.
    pub(crate) fn may_give(&self, client: Client<'_>, address: Number, now: Seconds) -> bool {
        let is_active = |entry: &Entry| !entry.is_offer && entry.lease.is_active(now);
        client.reserved == Some(address)
            || self.pool.gives(address)
            || self.entries.get(&address).is_some_and(is_active)
    }

    /// Whether nobody but a client that did not come back yet would miss an address.
    pub(crate) fn is_only_offered(&self, client: Client<'_>, address: Number) -> bool {
        self.fits(client, address) && self.entries.get(&address).is_some_and(|entry| entry.is_offer)
    }

    fn is_full(&self) -> bool {
        self.pool.is_v6 && self.entries.len() >= MOST_V6
    }

    /// Whether the plan lets a client have an address.
    pub(crate) fn fits(&self, client: Client<'_>, address: Number) -> bool {
        self.pool.has(address) || client.reserved == Some(address)
    }

    /// Whether an address is a client's by lease or offer, also if its time is over but nobody else got it.
    pub(crate) fn is_of(&self, client: &[u8], address: Number) -> bool {
        let entry = self.entries.get(&address);
        entry.is_some_and(|entry| entry.lease.state != State::Declined && *entry.lease.client == *client)
    }

    /// The address that is a client's.
    pub(crate) fn address_of(&self, client: &[u8]) -> Option<Number> {
        self.by_client.get(client).copied().filter(|address| self.is_of(client, *address))
    }

    /// Whether an address can be offered to its client without looking whether somebody uses it.
    pub(crate) fn is_safe(&self, address: Number, now: Seconds) -> bool {
        let entry = self.entries.get(&address);
        entry.is_some_and(|entry| entry.is_probed || (!entry.is_offer && entry.lease.is_active(now)))
    }

    fn next_unused(&mut self) -> Option<Number> {
        let is_shut = self.is_full() || self.pool.replica.is_some_and(|replica| replica.listens);
        let (_, last) = self.pool.range.filter(|_| !is_shut)?;
        while self.unused <= last {
            let address = self.unused;
            if self.pool.is_ours(address) && self.pool.has(address) && !self.entries.contains_key(&address) {
                return Some(address);
            }
            // A range that is left out is not walked through.
            let around = |(from, to): &&(Number, Number)| (*from..=*to).contains(&address);
            let next = self.pool.except.iter().find(around).map_or(address, |(_, to)| *to);
            self.unused = next.checked_add(1)?;
        }
        None
    }

    fn longest_free(&self, now: Seconds) -> Option<Number> {
        let free = self.queue.iter().take_while(|(until, _)| *until <= now);
        free.map(|(_, address)| *address).find(|address| self.pool.gives(*address))
    }

    /// The oldest offer that was not taken up: a flood of clients that never come back starves nobody.
    fn oldest_offer(&self) -> Option<Number> {
        let mut oldest = self.offers.iter().map(|(_, address)| *address);
        oldest.find(|address| self.pool.has(*address))
    }

    /// Hears that a client takes an address from another server that shares the pool. What is ours to give is the client's
    /// from then on; of the rest only its own server knows who has it, so what is remembered here of another is void.
    pub(crate) fn hear(
        &mut self,
        client: Client<'_>,
        address: Number,
        until: Seconds,
        now: Seconds,
        changes: &mut Vec<Lease>,
    ) {
        if self.pool.replica.is_none() || !self.pool.has(address) {
            return;
        }
        if self.pool.is_ours(address) {
            if self.is_only_offered(client, address) || self.may_have(client, address, now) {
                self.grant(client, address, until, now, changes);
            }
        } else if self.entries.get(&address).is_some_and(|entry| *entry.lease.client != *client.id) {
            let lease = self.lease(NOBODY, address, State::Released, now);
            changes.push(lease.clone());
            self.set(Entry::new(lease));
        }
    }

    /// Keeps an address for a client until it asks for it.
    pub(crate) fn offer(&mut self, client: Client<'_>, address: Number, now: Seconds) {
        self.forget_offers(now);
        let entry = self.entries.get(&address);
        // It has it already, perhaps by another identifier of its card.
        if entry.is_some_and(|entry| !entry.is_offer && entry.lease.is_active(now)) {
            return;
        }
        let before = entry.filter(|entry| *entry.lease.client == *client.id);
        let is_probed = before.is_some_and(|entry| entry.is_probed);
        let was_own = before.is_some_and(|entry| !entry.is_offer || entry.was_own);
        let instead_of = self.address_of(client.id).filter(|own| *own != address);
        let lease = self.lease(client, address, State::Leased, now + OFFER);
        self.set(Entry { lease, is_offer: true, is_probed, instead_of, was_own });
    }

    /// Forgets offers that nobody took up, so that clients who only ask need no memory.
    fn forget_offers(&mut self, now: Seconds) {
        while let Some((_, address)) = self.offers.first().copied().filter(|(until, _)| *until <= now) {
            let Some(mut entry) = self.take(address) else { return };
            if entry.was_own {
                entry.is_offer = false;
                self.set(entry);
                continue;
            }
            forget(&mut self.by_client, &entry.lease.client, address);
            forget(&mut self.by_hardware, &entry.lease.hardware, address);
            if let Some(before) = entry.instead_of.filter(|before| self.is_of(&entry.lease.client, *before)) {
                remember(&mut self.by_client, &entry.lease.client, before);
            }
            if self.pool.has(address) {
                self.unused = self.unused.min(address);
            }
        }
    }

    /// Frees what was offered to a client that took another server's offer.
    pub(crate) fn withdraw(&mut self, client: &[u8], now: Seconds) {
        let offered = self.address_of(client).filter(|own| self.entries.get(own).is_some_and(|e| e.is_offer));
        if let Some(address) = offered {
            self.release(address, now, &mut Vec::new());
        }
    }

    /// Gives an address to a client; what changed is to be on disk before the client is told.
    pub(crate) fn grant(
        &mut self,
        client: Client<'_>,
        address: Number,
        until: Seconds,
        now: Seconds,
        changes: &mut Vec<Lease>,
    ) {
        let offered = self.entries.get(&address).and_then(|entry| entry.instead_of);
        for before in
            [self.address_of(client.id), offered].into_iter().flatten().filter(|own| *own != address)
        {
            if self.is_of(client.id, before) {
                self.release(before, now, changes);
            }
        }
        let lease = self.lease(client, address, State::Leased, until);
        changes.push(lease.clone());
        self.set(Entry::new(lease));
    }

    /// Takes an address back; its client gets it again if nobody else did.
    pub(crate) fn release(&mut self, address: Number, now: Seconds, changes: &mut Vec<Lease>) {
        let Some(entry) = self.entries.get(&address) else { return };
        let was_offer = entry.is_offer;
        let lease = Lease { state: State::Released, until: now, ..entry.lease.clone() };
        if !was_offer {
            changes.push(lease.clone());
        }
        self.set(Entry::new(lease));
    }

    /// Leaves an address alone that somebody else uses, by the card of who does; empty if that is not known.
    pub(crate) fn decline(
        &mut self,
        address: Number,
        card: &[u8],
        until: Seconds,
        now: Seconds,
        changes: &mut Vec<Lease>,
    ) {
        let lease = self.lease(Client { hardware: card, ..NOBODY }, address, State::Declined, until);
        changes.push(lease.clone());
        self.set(Entry::new(lease));
        let most = (self.pool.size() / QUARANTINED_PART).max(1);
        while let Some((until, oldest)) = self.declined.first().copied() {
            if until > now {
                if self.declined.len() as Number <= most {
                    return;
                }
                let lease = self.lease(NOBODY, oldest, State::Declined, now);
                changes.push(lease.clone());
                self.set(Entry::new(lease));
            }
            // Its time is over.
            self.declined.pop_first();
        }
    }

    /// Notes that nobody uses an address.
    pub(crate) fn probed(&mut self, address: Number) {
        if let Some(entry) = self.entries.get_mut(&address) {
            entry.is_probed = true;
        }
    }

    fn lease(&self, client: Client<'_>, address: Number, state: State, until: Seconds) -> Lease {
        Lease {
            address: self.pool.address(address),
            state,
            until,
            client: client.id.into(),
            hardware: client.hardware.into(),
            hostname: client.hostname.map(Into::into),
        }
    }

    fn set(&mut self, entry: Entry) {
        let address = number(entry.lease.address);
        if let Some(Entry { lease, .. }) = self.take(address) {
            if *lease.client != *entry.lease.client {
                forget(&mut self.by_client, &lease.client, address);
            }
            if *lease.hardware != *entry.lease.hardware {
                forget(&mut self.by_hardware, &lease.hardware, address);
            }
        }
        remember(&mut self.by_client, &entry.lease.client, address);
        remember(&mut self.by_hardware, &entry.lease.hardware, address);
        if self.pool.has(address) {
            self.queue.insert((entry.lease.until, address));
        }
        if entry.is_offer {
            self.offers.insert((entry.lease.until, address));
        }
        if entry.lease.state == State::Declined {
            self.declined.insert((entry.lease.until, address));
        }
        self.entries.insert(address, entry);
    }

    /// Takes an entry out; who it was of is still remembered.
    fn take(&mut self, address: Number) -> Option<Entry> {
        let entry = self.entries.remove(&address)?;
        self.queue.remove(&(entry.lease.until, address));
        self.offers.remove(&(entry.lease.until, address));
        self.declined.remove(&(entry.lease.until, address));
        Some(entry)
    }
}

fn remember(map: &mut HashMap<Box<[u8]>, Number>, key: &[u8], address: Number) {
    match map.get_mut(key) {
        Some(known) => *known = address,
        None if key.is_empty() => {}
        None => drop(map.insert(key.into(), address)),
    }
}

fn forget(map: &mut HashMap<Box<[u8]>, Number>, key: &[u8], address: Number) {
    if map.get(key) == Some(&address) {
        map.remove(key);
    }
}

#[cfg(test)]
mod tests;
