//! What is answered to a message of DHCPv6, and what has to be on disk before. Pure: it knows no socket, no disk and no
//! clock.

#[cfg(test)]
mod tests;

use std::net::{IpAddr, Ipv6Addr};

use aws_lc_rs::digest::{SHA256, digest};
use causeway_ir::dhcp::{DhcpPlan, OptionValue};
use ipnet::Ipv6Net;

use super::message::{Association, Kind, Message, Relay, code, put};
use crate::clients::Clients;
use crate::lease::{Lease, Seconds};
use crate::table::{Client, GRACE, Number, Pool, Table, number};
use crate::v4::answer::Silence;

/// A DUID that is a UUID.
const DUID_UUID: [u8; 2] = [0, 4];
/// The longest DUID.
const LONGEST_DUID: usize = 130;
/// Associations of one message that are answered: a datagram has room for a hundred, and each is a lease.
const MOST_ASSOCIATIONS: usize = 8;

/// What is said of an address, a message or an association.
#[derive(Clone, Copy)]
enum Code {
    Success = 0,
    NoAddresses = 2,
    NoBinding = 3,
    NotOnLink = 4,
}

/// What becomes of a message; the names are for metrics.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// The reply is written.
    Reply { asked: &'static str, answer: &'static str, relayed: bool },
    /// Nothing is said, perhaps to a client whose card is known.
    Silent { asked: Option<&'static str>, why: Silence, hardware: Vec<u8> },
}

struct Times {
    lease: u32,
    renew: u32,
    rebind: u32,
    quarantine: Seconds,
}

/// All that DHCPv6 knows.
pub(crate) struct Answerer {
    duid: Vec<u8>,
    network: Ipv6Net,
    table: Table,
    times: Times,
    /// Options for every client, ready to be sent.
    told: Vec<u8>,
}

impl Answerer {
    /// By a plan, none for one without IPv6; the addresses of the interface itself are `own`.
    pub(crate) fn new(plan: &DhcpPlan, own: &[IpAddr]) -> Option<Self> {
        let ipv6 = plan.ipv6.as_ref()?;
        let seconds = |duration: std::time::Duration| u32::try_from(duration.as_secs()).unwrap_or(u32::MAX);
        let lease = plan.lease_time.get();
        let (renew, rebind) = plan.renewal();
        let times = Times {
            lease: seconds(lease),
            renew: seconds(renew),
            rebind: seconds(rebind),
            quarantine: plan.quarantine.get().as_secs().max(1),
        };
        // The first address of a network is that of any of its routers.
        let further = ipv6.dns_servers.iter().copied().chain([ipv6.network.network()]).map(IpAddr::V6);
        let own = own.iter().copied().filter(IpAddr::is_ipv6).chain(further).map(number);
        let pool = Pool {
            range: ipv6.pool.as_ref().map(|pool| (number(pool.first.into()), number(pool.last.into()))),
            except: own.map(|own| (own, own)).collect(),
            reserved: ipv6.reservations.iter().map(|own| number(own.address.into())).collect(),
            replica: plan.replica,
            is_v6: true,
        };
        let mut told = Vec::new();
        if !ipv6.dns_servers.is_empty() {
            let all: Vec<u8> = ipv6.dns_servers.iter().flat_map(Ipv6Addr::octets).collect();
            put(&mut told, code::DNS, &all);
        }
        if !plan.search.is_empty() {
            put(&mut told, code::SEARCH, &OptionValue::Domains(plan.search.clone()).bytes());
        }
        Some(Self { duid: duid(plan), network: ipv6.network, table: Table::new(pool), times, told })
    }

    /// Takes over a lease that was made before; gives it back if it is not of the network.
    pub(crate) fn load(&mut self, lease: Lease) -> Option<Lease> {
        match lease.address {
            IpAddr::V6(address) if self.network.contains(&address) => self.table.load(lease),
            _ => return Some(lease),
        }
        None
    }

    /// The addresses.
    pub(crate) fn table(&self) -> &Table {
        &self.table
    }

    /// Answers a message from `source`: writes the reply into `out`, and into `changes` what has to be on disk before it
    /// is sent.
    pub(crate) fn answer(
        &mut self,
        bytes: &[u8],
        source: Ipv6Addr,
        clients: &Clients,
        now: Seconds,
        out: &mut Vec<u8>,
        changes: &mut Vec<Lease>,
    ) -> Outcome {
        let silent = |asked, why| Outcome::Silent { asked, why, hardware: Vec::new() };
        let Some(message) = Message::parse(bytes) else { return silent(None, Silence::Malformed) };
        let asked = Some(message.kind.name());
        // The relay at the client is the innermost.
        let link = message.relays.iter().rev().find_map(Relay::link);
        if link.is_some_and(|link| !self.network.contains(&link)) {
            return silent(asked, Silence::UnknownNetwork);
        }
        let is_for_us = message.option(code::SERVER_ID).map(|server| server == self.duid);
        let expected = match message.kind {
            Kind::Solicit | Kind::Confirm | Kind::Rebind => is_for_us.is_none(),
            Kind::InformationRequest => is_for_us != Some(false),
            _ => is_for_us == Some(true),
        };
        if !expected {
            if message.kind == Kind::Request {
                self.hear(&message, source, clients, now, changes);
            }
            return silent(asked, Silence::OtherServer);
        }
        let duid = message.option(code::CLIENT_ID).unwrap_or_default();
        if duid.len() > LONGEST_DUID || (duid.is_empty() && message.kind != Kind::InformationRequest) {
            return silent(asked, Silence::Malformed);
        }
        let hardware = hardware(&message, duid, source);
        let Some(known) = clients.v6(duid, &hardware) else {
            return Outcome::Silent { asked, why: Silence::UnknownClient, hardware };
        };
        // Of several servers the one that gave an address must hear that it is prolonged: who hears nothing now asks all.
        let associations = || associations(&message);
        let is_anothers = |address: Ipv6Addr| {
            known.address != Some(address) && !self.table.pool().is_ours(number(address.into()))
        };
        if message.kind == Kind::Renew && associations().any(|own| own.addresses().any(is_anothers)) {
            return silent(asked, Silence::OtherServer);
        }
        let commits = message.kind == Kind::Solicit && message.option(code::RAPID_COMMIT).is_some();
        let answer = if message.kind == Kind::Solicit && !commits { Kind::Advertise } else { Kind::Reply };
        out.clear();
        out.push(answer as u8);
        out.extend_from_slice(message.transaction);
        put(out, code::SERVER_ID, &self.duid);
        if !duid.is_empty() {
            put(out, code::CLIENT_ID, duid);
        }
        if commits {
            put(out, code::RAPID_COMMIT, &[]);
        }
        let own_name = message.option(code::NAME).and_then(name);
        let hostname = known.hostname.or(own_name.as_deref());
        let mut reserved = known.address.map(|address| number(address.into()));
        let mut elsewhere = None;
        let (mut is_foreign, before) = (false, changes.len());
        for association in associations() {
            let id = [duid, &association.id].concat();
            // A reservation is one address, so only the first association gets it.
            let reserved = reserved.take();
            let client = Client { id: &id, hardware: &hardware, hostname, reserved, by_card: false };
            match message.kind {
                Kind::Confirm => {
                    for address in association.addresses() {
                        elsewhere = Some(elsewhere.unwrap_or(false) || !self.network.contains(&address));
                    }
                }
                Kind::Release | Kind::Decline => {
                    for address in association.addresses().map(|address| number(address.into())) {
                        if !self.table.is_of(&id, address) {
                            continue;
                        }
                        if message.kind == Kind::Release {
                            self.table.release(address, now, changes);
                        } else {
                            self.table.decline(address, &[], now + self.times.quarantine, now, changes);
                        }
                    }
                }
                Kind::InformationRequest => {}
                // Another server may know it; who has no record of it is silent.
                Kind::Rebind if self.is_foreign(&association, client) => is_foreign = true,
                kind => self.associate(&association, client, (kind, answer), now, out, changes),
            }
        }
        match (message.kind, elsewhere) {
            (Kind::Confirm, None) => return silent(asked, Silence::UnknownLease),
            (Kind::Rebind, _) if is_foreign && changes.len() == before => {
                return silent(asked, Silence::UnknownLease);
            }
            (Kind::Confirm, Some(true)) => status(out, Code::NotOnLink),
            (Kind::Confirm | Kind::Release | Kind::Decline, _) => status(out, Code::Success),
            _ => {}
        }
        out.extend_from_slice(&self.told);
        message.wrap(out);
        Outcome::Reply {
            asked: message.kind.name(),
            answer: answer.name(),
            relayed: !message.relays.is_empty(),
        }
    }

    /// Hears what a client takes from another server that shares the pool.
    fn hear(
        &mut self,
        message: &Message<'_>,
        source: Ipv6Addr,
        clients: &Clients,
        now: Seconds,
        changes: &mut Vec<Lease>,
    ) {
        let duid = message.option(code::CLIENT_ID).unwrap_or_default();
        if duid.is_empty() || duid.len() > LONGEST_DUID {
            return;
        }
        let hardware = hardware(message, duid, source);
        let Some(known) = clients.v6(duid, &hardware) else { return };
        let reserved = known.address.map(|address| number(address.into()));
        let until = now + Seconds::from(self.times.lease) + GRACE;
        for association in associations(message) {
            let id = [duid, &association.id].concat();
            let hostname = known.hostname;
            let client = Client { id: &id, hardware: &hardware, hostname, reserved, by_card: false };
            for address in association.addresses() {
                self.table.hear(client, number(address.into()), until, now, changes);
            }
        }
    }

    /// Whether an association is of addresses that this server neither leases nor has leased to the client.
    fn is_foreign(&self, association: &Association<'_>, client: Client<'_>) -> bool {
        let mut addresses = association.addresses().map(|address| number(address.into())).peekable();
        let is_known = self.table.address_of(client.id).is_some() || client.reserved.is_some();
        addresses.peek().is_some() && !is_known && !addresses.any(|address| self.table.pool().has(address))
    }

    /// Writes an association with the address that its client gets; `kinds` are those of the question and of the answer.
    fn associate(
        &mut self,
        association: &Association<'_>,
        client: Client<'_>,
        (kind, answer): (Kind, Kind),
        now: Seconds,
        out: &mut Vec<u8>,
        changes: &mut Vec<Lease>,
    ) {
        let wanted: Vec<Number> = association.addresses().map(|address| number(address.into())).collect();
        // Who has an address goes on with it, also if another server gave it.
        let goes_on = matches!(kind, Kind::Renew | Kind::Rebind);
        let is_right = |address: &Number| {
            self.table.may_have(client, *address, now)
                && (goes_on || self.table.may_give(client, *address, now))
        };
        let own = self.table.address_of(client.id).filter(is_right);
        let had = wanted.iter().copied().find(is_right);
        let reserved = client.reserved.filter(|address| self.table.may_have(client, *address, now));
        let chosen = reserved.or(own).or(had).or_else(|| self.table.choose(client, None, now));
        let mut value = association.id.to_vec();
        value.extend_from_slice(&self.times.renew.to_be_bytes());
        value.extend_from_slice(&self.times.rebind.to_be_bytes());
        if let Some(address) = chosen {
            self.table.offer(client, address, now);
            if answer == Kind::Reply {
                let until = now + Seconds::from(self.times.lease) + GRACE;
                self.table.grant(client, address, until, now, changes);
            }
            put_address(&mut value, address, self.times.rebind, self.times.lease);
        }
        // What it can't keep has no time left.
        for address in wanted.iter().filter(|address| chosen != Some(**address)) {
            if answer == Kind::Reply {
                put_address(&mut value, *address, 0, 0);
            }
        }
        if chosen.is_none() {
            status(&mut value, if goes_on { Code::NoBinding } else { Code::NoAddresses });
        }
        put(out, code::IA_NA, &value);
    }
}

fn associations<'a>(message: &Message<'a>) -> impl Iterator<Item = Association<'a>> {
    message.options(code::IA_NA).filter_map(Association::parse).take(MOST_ASSOCIATIONS)
}

fn put_address(value: &mut Vec<u8>, address: Number, preferred: u32, valid: u32) {
    let mut option = Ipv6Addr::from(address).octets().to_vec();
    option.extend_from_slice(&preferred.to_be_bytes());
    option.extend_from_slice(&valid.to_be_bytes());
    put(value, code::ADDRESS, &option);
}

fn status(bytes: &mut Vec<u8>, code: Code) {
    put(bytes, code::STATUS, &(code as u16).to_be_bytes());
}

/// The server's identifier: the same after a restart, and in another pod with the same plan.
fn duid(plan: &DhcpPlan) -> Vec<u8> {
    let replica = plan.replica.map_or(0, |replica| replica.index);
    let said = format!("causeway {} {} {replica}", plan.network, plan.server);
    let sum = digest(&SHA256, said.as_bytes());
    [&DUID_UUID, &sum.as_ref()[..16]].concat()
}

/// The name that a client gives itself (RFC 4704), if it is one: flags, and labels as in DNS.
fn name(option: &[u8]) -> Option<String> {
    let (_, mut labels) = option.split_first()?;
    let mut name = String::new();
    while let [length @ 1..=63, rest @ ..] = labels {
        let (label, rest) = rest.split_at_checked(usize::from(*length))?;
        let is_good = label.iter().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_'));
        let label = std::str::from_utf8(label).ok().filter(|_| is_good)?;
        name.extend([if name.is_empty() { "" } else { "." }, label]);
        labels = rest;
    }
    (!name.is_empty() && name.len() <= 253 && matches!(labels, [] | [0])).then_some(name)
}

/// The client's card: what the relay says, what its address is made of, or its identifier, which may be of another card of
/// the same machine.
fn hardware(message: &Message<'_>, duid: &[u8], source: Ipv6Addr) -> Vec<u8> {
    let relay = message.relays.last();
    if let Some([0, 1, card @ ..]) = relay.and_then(|relay| relay.link_layer) {
        return card.to_vec();
    }
    let here = card_of(relay.and_then(Relay::peer).unwrap_or(source));
    match duid {
        _ if here.is_some() => here.map(Vec::from).unwrap_or_default(),
        // Made of a card and a time, or of a card.
        [0, 1, 0, 1, _, _, _, _, card @ ..] | [0, 3, 0, 1, card @ ..] if card.len() == 6 => card.to_vec(),
        _ => Vec::new(),
    }
}

/// The card that a link-local address was made of, if it was (RFC 4291, appendix A).
fn card_of(address: Ipv6Addr) -> Option<[u8; 6]> {
    match address.octets() {
        [0xfe, 0x80, 0, 0, 0, 0, 0, 0, first, maker @ .., 0xff, 0xfe, x, y, z] => {
            let [second, third] = maker;
            Some([first ^ 2, second, third, x, y, z])
        }
        _ => None,
    }
}
