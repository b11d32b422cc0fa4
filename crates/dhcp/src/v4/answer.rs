//! What is answered to a message of DHCPv4, and what has to be on disk before. Pure: it knows no socket, no disk and no
//! clock.

mod relay;
mod request;
#[cfg(test)]
mod tests;

use std::net::{IpAddr, Ipv4Addr};

use causeway_ir::dhcp::{AddressPool, DhcpPlan, Identity};
use ipnet::Ipv4Net;

use self::request::Request;
use super::message::{Kind, Message, code};
use super::reply::{Reply, USUAL_SIZE};
use super::told::{self, Told};
use crate::clients::Clients;
use crate::lease::{Lease, Seconds};
use crate::table::{Client, GRACE, Pool, Table, number};

/// The size of message that a client can take at least and we send at most.
const SIZES: (usize, usize) = (USUAL_SIZE, 1472);
/// The longest options of a relay that are echoed: more leaves too little room for an answer.
const LONGEST_RELAY: usize = 255;
/// IP's and UDP's heads, which count in a client's largest message.
const IP_AND_UDP: usize = 28;

/// Where a reply goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum To {
    /// To the relay that passed the question on.
    Relay(Ipv4Addr),
    /// To the address that the client has.
    Client(Ipv4Addr),
    /// To a client that does not have its address yet, but takes unicast to it.
    Card { hardware: [u8; 6], address: Ipv4Addr },
    /// To everybody on the network.
    Everybody,
}

/// What becomes of a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// The reply is written.
    Reply(Kind, To),
    /// It is to be found out first whether somebody uses this address; then the message is answered again.
    Probe(Ipv4Addr),
    /// Nothing is said.
    Silent(Silence),
}

/// Why nothing is said.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Silence {
    /// It needs no answer.
    Done,
    /// Not a message of a client.
    Malformed,
    /// It is for another server.
    OtherServer,
    /// The client is none of those that are served.
    UnknownClient,
    /// No network of the plan is the client's.
    UnknownNetwork,
    /// No address is free.
    Exhausted,
    /// Nothing is known of what the client says it has.
    UnknownLease,
}

/// A network and its addresses.
struct Network {
    cidr: Ipv4Net,
    table: Table,
    told: Vec<Told>,
}

/// Times in seconds.
struct Times {
    lease: u32,
    renew: u32,
    rebind: u32,
    quarantine: Seconds,
}

/// All that DHCPv4 knows.
pub(crate) struct Answerer {
    server: Ipv4Addr,
    identity: Identity,
    boot: Option<(Ipv4Addr, String)>,
    times: Times,
    probes: bool,
    networks: Vec<Network>,
}

impl Answerer {
    /// By a plan; the addresses of the interface itself are `own`.
    pub(crate) fn new(plan: &DhcpPlan, own: &[IpAddr]) -> Self {
        let seconds = |duration: std::time::Duration| u32::try_from(duration.as_secs()).unwrap_or(u32::MAX);
        let lease = plan.lease_time.get();
        let (renew, rebind) = plan.renewal();
        let boot = plan.boot.as_ref();
        let network = |(network, _, gateway): (Ipv4Net, &AddressPool, Option<Ipv4Addr>)| Network {
            cidr: network,
            table: Table::new(pool(plan, network, own)),
            told: told::options(plan, network, gateway),
        };
        Self {
            server: plan.server,
            identity: plan.identity,
            boot: boot.map(|boot| (boot.server.unwrap_or(plan.server), boot.file.as_str().to_owned())),
            times: Times {
                lease: seconds(lease),
                renew: seconds(renew),
                rebind: seconds(rebind),
                quarantine: plan.quarantine.get().as_secs().max(1),
            },
            probes: !plan.probe.is_zero(),
            networks: plan.networks().map(network).collect(),
        }
    }

    /// Takes over a lease that was made before; gives it back if it is of none of the networks.
    pub(crate) fn load(&mut self, lease: Lease) -> Option<Lease> {
        let IpAddr::V4(address) = lease.address else { return Some(lease) };
        match self.networks.iter_mut().find(|network| network.cidr.contains(&address)) {
            Some(network) => network.table.load(lease),
            None => return Some(lease),
        }
        None
    }

    /// The addresses of each network.
    pub(crate) fn tables(&self) -> impl Iterator<Item = &Table> {
        self.networks.iter().map(|network| &network.table)
    }

    /// Notes who uses an address, by its card, empty if that is not known; none if nobody does.
    pub(crate) fn probed(
        &mut self,
        address: Ipv4Addr,
        user: Option<&[u8]>,
        now: Seconds,
        changes: &mut Vec<Lease>,
    ) {
        let Some(network) = self.networks.iter_mut().find(|n| n.cidr.contains(&address)) else { return };
        let address = number(address.into());
        match user {
            Some(card) => network.table.decline(address, card, now + self.times.quarantine, now, changes),
            None => network.table.probed(address),
        }
    }

    /// Answers a message: writes the reply into `out`, and into `changes` what has to be on disk before it is sent.
    pub(crate) fn answer(
        &mut self,
        message: &Message<'_>,
        clients: &Clients,
        now: Seconds,
        out: &mut Vec<u8>,
        changes: &mut Vec<Lease>,
    ) -> Outcome {
        let options = message.option(code::RELAY).filter(|options| options.len() <= LONGEST_RELAY);
        let relayed = relay::Relayed::of(message, options.as_deref());
        let server = relayed.server.unwrap_or(self.server);
        let place = relayed.network.or(message.client());
        let index = match place {
            Some(place) => self.networks.iter().position(|network| network.cidr.contains(&place)),
            None => Some(0),
        };
        let Some(network) = index.and_then(|index| self.networks.get_mut(index)) else {
            return Outcome::Silent(Silence::UnknownNetwork);
        };
        let here = network.cidr;
        let (card_kind, hardware) = message.hardware();
        let sent_id = message.option(code::CLIENT_ID).filter(|id| !id.is_empty());
        let Some(known) = clients.v4(sent_id.as_deref().unwrap_or_default(), hardware, |a| here.contains(&a))
        else {
            return Outcome::Silent(Silence::UnknownClient);
        };
        let by_card = (known.by_card || self.identity == Identity::Hardware) && !hardware.is_empty();
        let card: Vec<u8> = std::iter::once(card_kind).chain(hardware.iter().copied()).collect();
        let id = match &sent_id {
            Some(id) if !by_card => id.as_ref(),
            None if hardware.is_empty() => return Outcome::Silent(Silence::Malformed),
            _ => &card,
        };
        if id.len() > 255 {
            return Outcome::Silent(Silence::Malformed);
        }
        let own_name = message.option(code::HOSTNAME);
        let client = Client {
            id,
            hardware,
            hostname: known.hostname.or(own_name.as_deref().and_then(hostname)),
            reserved: known.address.map(|address| number(address.into())),
            by_card,
        };
        let asked = message.address(code::REQUESTED);
        let chosen = message.address(code::SERVER);
        let until = now + Seconds::from(self.times.lease) + GRACE;
        let decided = match message.kind {
            Kind::Discover => discover(&mut network.table, client, asked, self.probes, now),
            Kind::Request if chosen.is_some_and(|chosen| chosen != server) => {
                network.table.withdraw(client.id, now);
                if let Some(address) = asked {
                    network.table.hear(client, number(address.into()), until, now, changes);
                }
                Decided::Silent(Silence::OtherServer)
            }
            Kind::Request => {
                let request = Request {
                    asked,
                    has: message.client(),
                    is_chosen: chosen.is_some(),
                    is_direct: message.is_direct && message.relay().is_none(),
                };
                request.decide(network, client, until, now, changes)
            }
            Kind::Decline | Kind::Release if chosen.is_some_and(|chosen| chosen != server) => {
                Decided::Silent(Silence::OtherServer)
            }
            Kind::Decline => {
                if let Some(address) = asked.map(|a| number(a.into())).filter(|a| network.table.is_of(id, *a))
                {
                    network.table.decline(address, &[], now + self.times.quarantine, now, changes);
                }
                Decided::Silent(Silence::Done)
            }
            Kind::Release => {
                let address = message.client().map(|address| number(address.into()));
                if let Some(address) = address.filter(|address| network.table.is_of(id, *address)) {
                    network.table.release(address, now, changes);
                }
                Decided::Silent(Silence::Done)
            }
            Kind::Inform => Decided::Inform,
            Kind::Offer | Kind::Ack | Kind::Nak => Decided::Silent(Silence::Malformed),
        };
        let kind = match decided {
            Decided::Silent(why) => return Outcome::Silent(why),
            Decided::Probe(address) => return Outcome::Probe(address),
            Decided::Offer(_) => Kind::Offer,
            Decided::Ack(_) | Decided::Inform => Kind::Ack,
            Decided::Nak(_) => Kind::Nak,
        };
        let said = message.option(code::MAX_SIZE).and_then(|size| <[u8; 2]>::try_from(size.as_ref()).ok());
        let most =
            said.map_or(SIZES.0, |size| usize::from(u16::from_be_bytes(size)).saturating_sub(IP_AND_UDP));
        // The relay's options are echoed at the end, whatever else there is no room for.
        let echoed = options.as_deref().map_or(0, |options| options.len() + 4);
        let most = most.clamp(SIZES.0, SIZES.1).saturating_sub(echoed);
        let mut reply = Reply::begin(out, message, kind, most);
        reply.option(code::SERVER, &server.octets());
        match decided {
            Decided::Nak(why) => {
                reply.option(code::MESSAGE, why.as_bytes());
            }
            Decided::Offer(address) | Decided::Ack(address) => {
                reply.yours(address);
                for (code, time) in [
                    (code::LEASE_TIME, self.times.lease),
                    (code::RENEW, self.times.renew),
                    (code::REBIND, self.times.rebind),
                ] {
                    reply.option(code, &time.to_be_bytes());
                }
            }
            _ => {}
        }
        if kind != Kind::Nak {
            // RFC 2131 §4.3.5 and table 3: an offer has no `ciaddr`.
            if let Some(address) = message.client().filter(|_| kind == Kind::Ack) {
                reply.client(address);
            }
            if let Some((server, file)) = &self.boot {
                reply.boot(*server, file);
            }
            let wanted = message.option(code::WANTED);
            let is_wanted = |code| wanted.as_deref().is_none_or(|wanted| wanted.contains(&code));
            if let Some(name) = known.hostname {
                reply.option(code::HOSTNAME, name.as_bytes());
            }
            for told in network.told.iter().filter(|told| told.always || is_wanted(told.code)) {
                reply.option(told.code, &told.value);
            }
        }
        // RFC 6842: clients that share a card tell their replies apart by it.
        if let Some(id) = &sent_id {
            reply.option(code::CLIENT_ID, id);
        }
        reply.end();
        if let Some(options) = options.as_deref() {
            relay::echo(out, options);
        }
        Outcome::Reply(kind, destination(message, kind, decided, out))
    }
}

/// What a message leads to, before it is written.
#[derive(Clone, Copy)]
enum Decided {
    Offer(Ipv4Addr),
    Ack(Ipv4Addr),
    Nak(&'static str),
    Inform,
    Probe(Ipv4Addr),
    Silent(Silence),
}

fn discover(
    table: &mut Table,
    client: Client<'_>,
    asked: Option<Ipv4Addr>,
    probes: bool,
    now: Seconds,
) -> Decided {
    let asked = asked.map(|address| number(address.into()));
    let Some(chosen) = table.choose(client, asked, now) else { return Decided::Silent(Silence::Exhausted) };
    table.offer(client, chosen, now);
    let address = Ipv4Addr::from(chosen as u32);
    if probes && !table.is_safe(chosen, now) { Decided::Probe(address) } else { Decided::Offer(address) }
}

fn destination(message: &Message<'_>, kind: Kind, decided: Decided, out: &mut [u8]) -> To {
    if let Some(relay) = message.relay() {
        if kind == Kind::Nak {
            // The client may not take unicast to an address that it is just told not to use.
            out[10] |= 0x80;
        }
        return To::Relay(relay);
    }
    if kind == Kind::Nak {
        return To::Everybody;
    }
    if let Some(address) = message.client() {
        return To::Client(address);
    }
    let hardware = <[u8; 6]>::try_from(message.hardware().1).ok().filter(|_| !message.wants_broadcast());
    match (decided, hardware) {
        (Decided::Offer(address) | Decided::Ack(address), Some(hardware)) => To::Card { hardware, address },
        _ => To::Everybody,
    }
}

/// A name that a client gives itself, if it is one.
fn hostname(name: &[u8]) -> Option<&str> {
    let name = name.strip_suffix(b"\0").unwrap_or(name);
    let is_good = |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_');
    let good = !name.is_empty() && name.len() <= 253 && name.iter().all(is_good);
    good.then(|| std::str::from_utf8(name).ok()).flatten()
}

/// The addresses of a network that may be given out.
fn pool(plan: &DhcpPlan, network: Ipv4Net, own: &[IpAddr]) -> Pool {
    let Some((_, pool, _)) = plan.networks().find(|(other, ..)| *other == network) else {
        return Pool::default();
    };
    let never = plan.never_leased(network, pool).into_iter();
    let never = never.map(|(first, last)| (number(first.into()), number(last.into())));
    let own = own.iter().filter(|own| own.is_ipv4()).map(|own| (number(*own), number(*own)));
    let except = never.chain(own).collect();
    Pool {
        range: Some((number(pool.first.into()), number(pool.last.into()))),
        except,
        reserved: plan.reservations.iter().map(|own| number(own.address.into())).collect(),
        replica: plan.replica,
        is_v6: false,
    }
}
