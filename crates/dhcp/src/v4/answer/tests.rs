use std::borrow::Cow;
use std::collections::HashMap;

use proptest::prelude::*;

use super::*;
use crate::lease::State;
use crate::v4::message::{COOKIE, HEAD};

const PLAN: &str = "interface: net1\nserver: 10.0.0.2\nnetwork: 10.0.0.0/24\n\
     pool: {first: 10.0.0.1, last: 10.0.0.20, except: [10.0.0.4/31]}\nleaseTime: 1h\nprobe: 0s\n\
     gateway: 10.0.0.1\ndnsServers: [10.0.0.3, 192.0.2.53]\ndomain: lab.test\nsearch: [lab.test, test]\nmtu: 1400\n\
     routes: [{to: 10.9.0.0/16, via: 10.0.0.1}]\nntpServers: [10.0.0.3]\n\
     boot: {file: pxe.0}\noptions: [{code: 43, value: {bytes: '01:02'}}]\n\
     reservations: [{hardware: '02:00:00:00:00:63', address: 10.0.0.99, hostname: fixed}, \
     {clientId: 'ff:aa', address: 10.0.0.10}]\n\
     relayed: [{network: 10.7.0.0/16, pool: {first: 10.7.0.10, last: 10.7.0.99}, gateway: 10.7.0.1}]\n";

struct World {
    answerer: Answerer,
    clients: Clients,
    now: Seconds,
    changes: Vec<Lease>,
    out: Vec<u8>,
}

/// A client's message, as it is built up.
#[derive(Clone)]
struct Ask {
    bytes: Vec<u8>,
}

fn ask(kind: Kind, card: u8) -> Ask {
    let mut bytes = vec![0; HEAD];
    bytes[..3].copy_from_slice(&[1, 1, 6]);
    bytes[28..34].copy_from_slice(&[2, 0, 0, 0, 0, card]);
    bytes[236..].copy_from_slice(&COOKIE);
    Ask { bytes }.option(code::KIND, &[kind.number()])
}

impl Ask {
    fn option(mut self, code: u8, value: &[u8]) -> Self {
        self.bytes.extend_from_slice(&[code, value.len() as u8]);
        self.bytes.extend_from_slice(value);
        self
    }

    fn asks_for(self, last: u8) -> Self {
        self.option(code::REQUESTED, &[10, 0, 0, last])
    }

    fn of(self, server: u8) -> Self {
        self.option(code::SERVER, &[10, 0, 0, server])
    }

    fn has(mut self, address: [u8; 4]) -> Self {
        self.bytes[12..16].copy_from_slice(&address);
        self
    }

    fn by_relay(mut self, relay: [u8; 4]) -> Self {
        self.bytes[24..28].copy_from_slice(&relay);
        self
    }

    fn broadcast(mut self) -> Self {
        self.bytes[10] = 0x80;
        self
    }
}

fn world(change: impl Fn(String) -> String) -> World {
    let plan: DhcpPlan = serde_saphyr::from_str(&change(PLAN.to_owned())).unwrap();
    assert_eq!(plan.validate(), []);
    World {
        answerer: Answerer::new(&plan, &[]),
        clients: Clients::new(&plan),
        now: 1000,
        changes: Vec::new(),
        out: Vec::new(),
    }
}

fn usual() -> World {
    world(|plan| plan)
}

impl World {
    fn change(&mut self, change: impl Fn(String) -> String) {
        let plan: DhcpPlan = serde_saphyr::from_str(&change(PLAN.to_owned())).unwrap();
        let leases: Vec<Lease> = self.answerer.tables().flat_map(Table::leases).cloned().collect();
        self.answerer = Answerer::new(&plan, &["10.0.0.9".parse().unwrap()]);
        for lease in leases {
            assert_eq!(self.answerer.load(lease), None);
        }
        self.clients = Clients::new(&plan);
    }

    fn tell(&mut self, ask: &Ask) -> Outcome {
        let message = Message::parse(&ask.bytes).unwrap();
        self.answerer.answer(&message, &self.clients, self.now, &mut self.out, &mut self.changes)
    }

    /// The kind of the answer and the last byte of the address in it; what is silent is none.
    fn get(&mut self, ask: &Ask) -> Option<(Kind, u8)> {
        match self.tell(ask) {
            Outcome::Reply(kind, _) => Some((kind, self.out[19])),
            Outcome::Silent(_) | Outcome::Probe(_) => None,
        }
    }

    /// A new client gets an address.
    fn join(&mut self, card: u8) -> u8 {
        let (kind, offered) = self.get(&ask(Kind::Discover, card)).unwrap();
        assert_eq!(kind, Kind::Offer);
        let request = ask(Kind::Request, card).asks_for(offered).of(2);
        assert_eq!(self.get(&request), Some((Kind::Ack, offered)));
        offered
    }

    fn sent(&self, code: u8) -> Option<Vec<u8>> {
        let mut bytes = self.out.clone();
        bytes[0] = 1;
        Message::parse(&bytes).unwrap().option(code).map(Cow::into_owned)
    }
}

#[test]
fn a_client_gets_an_address_and_is_told_everything() {
    let mut world = usual();
    // 1 to 3 are gateway, server and resolver; 4 and 5 are left out.
    let discover = ask(Kind::Discover, 1).option(code::WANTED, &[1, 3, 121, 119, 26, 42, 28, 67]);
    assert_eq!(world.get(&discover), Some((Kind::Offer, 6)));
    assert!(world.changes.is_empty(), "an offer needs no disk");
    assert_eq!(world.join(1), 6);
    assert_eq!((world.changes.len(), world.changes[0].until), (1, 4601));
    for (code, value) in [
        (code::SERVER, &[10, 0, 0, 2][..]),
        (code::LEASE_TIME, &3600_u32.to_be_bytes()),
        (code::RENEW, &1800_u32.to_be_bytes()),
        (code::REBIND, &3150_u32.to_be_bytes()),
        (code::MASK, &[255, 255, 255, 0]),
        (code::ROUTER, &[10, 0, 0, 1]),
        (code::DNS, &[10, 0, 0, 3, 192, 0, 2, 53]),
        (code::DOMAIN, b"lab.test"),
        (code::SEARCH, b"\x03lab\x04test\x00\x04test\x00"),
        (code::MTU, &1400_u16.to_be_bytes()),
        (code::ROUTES, &[16, 10, 9, 10, 0, 0, 1, 0, 10, 0, 0, 1]),
        (code::NTP, &[10, 0, 0, 3]),
        (code::BOOT_FILE, b"pxe.0"),
        (43, &[1, 2]),
    ] {
        assert_eq!(world.sent(code).as_deref(), Some(value), "option {code}");
    }
    assert_eq!((&world.out[20..24], &world.out[108..114]), (&[10, 0, 0, 2][..], &b"pxe.0\0"[..]));
    let few = ask(Kind::Discover, 1).option(code::WANTED, &[1]);
    world.tell(&few);
    assert_eq!((world.sent(code::MTU), world.sent(43)), (None, Some(vec![1, 2])));
}

#[test]
fn each_state_of_a_client_has_its_answer() {
    let mut world = usual();
    let own = world.join(1);
    let other = world.join(2);
    let address = |last| [10, 0, 0, last];
    for (what, ask, expected) in [
        ("boots again", ask(Kind::Request, 1).asks_for(own), Some((Kind::Ack, own))),
        ("boots with another's", ask(Kind::Request, 1).asks_for(other), Some((Kind::Nak, 0))),
        ("boots, never seen", ask(Kind::Request, 9).asks_for(15), None),
        ("boots elsewhere", ask(Kind::Request, 9).option(50, &[192, 0, 2, 1]), Some((Kind::Nak, 0))),
        ("renews", ask(Kind::Request, 1).has(address(own)), Some((Kind::Ack, own))),
        ("renews another's", ask(Kind::Request, 1).has(address(other)), Some((Kind::Nak, 0))),
        (
            "goes on with what another server gave",
            ask(Kind::Request, 9).has(address(15)),
            Some((Kind::Ack, 15)),
        ),
        ("chooses another server", ask(Kind::Request, 1).asks_for(own).of(7), None),
        (
            "takes an offer from before a restart",
            ask(Kind::Request, 8).asks_for(16).of(2),
            Some((Kind::Ack, 16)),
        ),
        ("takes an offer that is gone", ask(Kind::Request, 8).asks_for(own).of(2), Some((Kind::Nak, 0))),
        ("asks for what it wants", ask(Kind::Discover, 7).asks_for(17), Some((Kind::Offer, 17))),
        ("asks for another's", ask(Kind::Discover, 7).asks_for(own), Some((Kind::Offer, 17))),
        ("asks for the gateway", ask(Kind::Discover, 6).asks_for(1), Some((Kind::Offer, 8))),
        ("only wants to know", ask(Kind::Inform, 5).has(address(200)), Some((Kind::Ack, 0))),
    ] {
        assert_eq!(world.get(&ask), expected, "{what}");
    }
    assert_eq!(world.sent(code::LEASE_TIME), None, "who only wants to know gets no lease");
}

#[test]
fn replies_go_where_they_can_be_heard() {
    let mut world = usual();
    let hardware = [2, 0, 0, 0, 0, 1];
    let address = Ipv4Addr::new(10, 0, 0, 6);
    for (ask, to) in [
        (ask(Kind::Discover, 1), To::Card { hardware, address }),
        (ask(Kind::Discover, 1).broadcast(), To::Everybody),
        (ask(Kind::Request, 1).has([10, 0, 0, 6]), To::Client(address)),
        (ask(Kind::Request, 1).option(50, &[192, 0, 2, 1]), To::Everybody),
        (ask(Kind::Discover, 1).by_relay([10, 7, 0, 1]), To::Relay(Ipv4Addr::new(10, 7, 0, 1))),
        (
            ask(Kind::Request, 1).option(50, &[192, 0, 2, 1]).by_relay([10, 7, 0, 1]),
            To::Relay(Ipv4Addr::new(10, 7, 0, 1)),
        ),
    ] {
        assert!(matches!(world.tell(&ask), Outcome::Reply(_, found) if found == to), "{to:?}");
    }
    assert_eq!(world.out[10], 0x80, "the relay tells everybody of a refusal");
}

#[test]
fn a_relay_gets_the_pool_of_its_network_and_its_options_back() {
    let mut world = usual();
    let relayed = ask(Kind::Discover, 1).by_relay([10, 7, 0, 1]).option(82, &[1, 3, b'e', b't', b'h']);
    world.tell(&relayed);
    assert_eq!(world.out[16..20], [10, 7, 0, 10]);
    assert_eq!(world.sent(82).unwrap(), [1, 3, b'e', b't', b'h']);
    assert_eq!(world.sent(code::MASK).unwrap(), [255, 255, 0, 0]);
    assert_eq!(world.sent(code::ROUTER).unwrap(), [10, 7, 0, 1]);
    // The relay speaks from elsewhere, and says which network it means.
    let selects = ask(Kind::Discover, 2).by_relay([192, 0, 2, 9]).option(82, &[5, 4, 10, 7, 0, 0]);
    world.tell(&selects);
    assert_eq!(world.out[16..20], [10, 7, 0, 11]);
    // It poses as the server.
    let poses = ask(Kind::Discover, 2).by_relay([10, 7, 0, 1]).option(82, &[11, 4, 10, 7, 0, 1]);
    world.tell(&poses);
    assert_eq!(world.sent(code::SERVER).unwrap(), [10, 7, 0, 1]);
    let strange = ask(Kind::Discover, 2).by_relay([192, 0, 2, 9]);
    assert_eq!(world.tell(&strange), Outcome::Silent(Silence::UnknownNetwork));
}

#[test]
fn reservations_are_kept_for_their_clients() {
    let mut world = usual();
    assert_eq!(world.get(&ask(Kind::Discover, 0x63)), Some((Kind::Offer, 99)));
    assert_eq!(world.sent(code::HOSTNAME).unwrap(), b"fixed");
    assert_eq!(world.get(&ask(Kind::Discover, 1).option(61, &[0xff, 0xaa])), Some((Kind::Offer, 10)));
    assert_ne!(world.get(&ask(Kind::Discover, 1).asks_for(10)), Some((Kind::Offer, 10)));
    // A client that gets a reservation while it has a lease moves at its next renewal.
    let own = world.join(3);
    world.change(|plan| plan.replace("02:00:00:00:00:63", "02:00:00:00:00:03"));
    assert_eq!(world.get(&ask(Kind::Request, 3).has([10, 0, 0, own])), Some((Kind::Nak, 0)));
    assert_eq!(world.join(3), 99);
}

#[test]
fn clients_are_known_by_their_identifier_or_their_card() {
    let mut world = usual();
    let own = world.join(1);
    let as_card = ask(Kind::Discover, 1).option(61, &[1, 2, 0, 0, 0, 0, 1]);
    assert_eq!(world.get(&as_card), Some((Kind::Offer, own)), "the card's own identifier");
    let (_, second) = world.get(&ask(Kind::Discover, 1).option(61, b"\xffvm")).unwrap();
    assert_ne!(second, own, "two clients on one card");
    world.now += 4000;
    assert_eq!(world.get(&ask(Kind::Discover, 2).option(61, b"x")).unwrap().0, Kind::Offer);
    let again = ask(Kind::Discover, 1).option(61, b"new");
    assert!(
        world.get(&again).is_some_and(|(_, last)| [own, second].contains(&last)),
        "the card's last address"
    );
    let mut world = self::world(|plan| plan + "identity: Hardware\n");
    let own = world.join(1);
    assert_eq!(world.get(&ask(Kind::Discover, 1).option(61, b"\xffvm")), Some((Kind::Offer, own)));
}

#[test]
fn only_known_clients_are_served_where_the_plan_says_so() {
    let mut world = world(|plan| plan + "clients: [{hardware: '02:00:00:00:00:01', hostname: vm}]\n");
    assert_eq!(world.tell(&ask(Kind::Discover, 2)), Outcome::Silent(Silence::UnknownClient));
    assert_eq!(world.join(1), 6);
    assert_eq!(world.sent(code::HOSTNAME).unwrap(), b"vm");
    assert_eq!(world.changes[0].hostname.as_deref(), Some("vm"));
    assert_eq!(
        world.get(&ask(Kind::Discover, 0x63)),
        Some((Kind::Offer, 99)),
        "who has a reservation is known"
    );
}

#[test]
fn a_card_that_is_served_is_one_client() {
    let mut world = world(|plan| plan + "clients: [{hardware: '02:00:00:00:00:01'}]\n");
    let own = world.join(1);
    for id in 0..40_u8 {
        let discover = ask(Kind::Discover, 1).option(61, &[9, id]);
        assert_eq!(world.get(&discover), Some((Kind::Offer, own)), "by its identifier {id}");
    }
    let reserved = ask(Kind::Discover, 1).option(61, &[0xff, 0xaa]);
    assert_eq!(world.get(&reserved), Some((Kind::Offer, 10)), "the plan knows this one");
    // A lease from when everybody was served is still its own.
    let mut world = usual();
    let by_id = |kind| ask(kind, 1).option(61, b"\xffvm");
    let (_, own) = world.get(&by_id(Kind::Discover)).unwrap();
    assert_eq!(world.get(&by_id(Kind::Request).asks_for(own).of(2)), Some((Kind::Ack, own)));
    world.change(|plan| plan + "clients: [{hardware: '02:00:00:00:00:01'}]\n");
    assert_eq!(world.get(&by_id(Kind::Discover)), Some((Kind::Offer, own)));
    assert_eq!(world.get(&by_id(Kind::Request).has([10, 0, 0, own])), Some((Kind::Ack, own)));
}

#[test]
fn what_another_server_knows_is_not_refused() {
    let mut world = usual();
    let own = world.join(1);
    // Outside of the pool, in the network: another server may lease it.
    assert_eq!(world.tell(&ask(Kind::Request, 9).asks_for(150)), Outcome::Silent(Silence::UnknownLease));
    let rebinds = ask(Kind::Request, 9).has([10, 0, 0, 150]);
    assert_eq!(world.tell(&rebinds), Outcome::Silent(Silence::UnknownLease));
    let mut renews = Message::parse(&rebinds.bytes).unwrap();
    renews.is_direct = true;
    let told = world.answerer.answer(&renews, &world.clients, 1000, &mut world.out, &mut world.changes);
    assert!(matches!(told, Outcome::Reply(Kind::Nak, _)), "it asks this server: {told:?}");
    assert_eq!(
        world.get(&ask(Kind::Request, 9).asks_for(own)),
        Some((Kind::Nak, 0)),
        "of its own pool it knows"
    );
    assert_eq!(
        world.get(&ask(Kind::Request, 1).asks_for(150)),
        Some((Kind::Nak, 0)),
        "of its own client, too"
    );

    let mut world = self::world(|plan| plan.replace("probe: 0s", "replica: {index: 0, of: 2}"));
    assert_eq!(world.get(&ask(Kind::Request, 1).has([10, 0, 0, 8])), Some((Kind::Ack, 8)));
    let boots = ask(Kind::Request, 2).asks_for(8);
    assert_eq!(
        world.tell(&boots),
        Outcome::Silent(Silence::UnknownLease),
        "the other may have given it 8 since"
    );
    // And so it has: what this one remembers is void.
    assert_eq!(world.get(&ask(Kind::Request, 2).asks_for(8).of(4)), None);
    assert_eq!(world.tell(&ask(Kind::Request, 1).asks_for(8)), Outcome::Silent(Silence::UnknownLease));
}

#[test]
fn who_comes_back_for_an_offer_gets_it_in_a_flood_of_others() {
    let mut world = usual();
    let (_, offered) = world.get(&ask(Kind::Discover, 1)).unwrap();
    for card in 100..130 {
        assert!(world.get(&ask(Kind::Discover, card)).is_some());
    }
    let request = ask(Kind::Request, 1).asks_for(offered).of(2);
    assert_eq!(world.get(&request), Some((Kind::Ack, offered)));
    let late = ask(Kind::Request, 100).asks_for(offered).of(2);
    assert_eq!(world.get(&late), Some((Kind::Nak, 0)), "it is taken now");
}

#[test]
fn a_client_without_a_card_needs_an_identifier() {
    let mut world = usual();
    let mut nobody = ask(Kind::Discover, 1);
    nobody.bytes[2] = 0;
    assert_eq!(world.tell(&nobody), Outcome::Silent(Silence::Malformed));
    let (a, b) = (nobody.clone().option(61, b"a"), nobody.option(61, b"b"));
    assert_ne!(world.get(&a).unwrap(), world.get(&b).unwrap());
    let mut world = self::world(|plan| plan + "identity: Hardware\n");
    assert_ne!(world.get(&a).unwrap(), world.get(&b).unwrap());
}

#[test]
fn what_is_given_back_or_declined_is_on_disk_and_free_in_its_time() {
    let mut world = usual();
    let own = world.join(1);
    assert_eq!(world.get(&ask(Kind::Release, 2).has([10, 0, 0, own]).of(2)), None);
    assert_eq!(world.changes.len(), 1, "nobody gives back another's");
    world.get(&ask(Kind::Release, 1).has([10, 0, 0, own]).of(2));
    assert_eq!((world.changes[1].state, world.changes[1].until), (State::Released, 1000));
    assert_eq!(world.join(1), own, "it comes back to what it had");
    world.get(&ask(Kind::Decline, 1).asks_for(own).of(2));
    assert_eq!(world.changes.last().unwrap().state, State::Declined);
    assert_ne!(world.join(1), own);
    world.now += 3600;
    assert_eq!(world.get(&ask(Kind::Discover, 9).asks_for(own)), Some((Kind::Offer, own)));
}

#[test]
fn addresses_are_looked_at_before_they_are_offered() {
    let mut world = world(|plan| plan.replace("probe: 0s", "probe: 1s"));
    let address = |last| Ipv4Addr::new(10, 0, 0, last);
    let discover = ask(Kind::Discover, 1);
    assert_eq!(world.tell(&discover), Outcome::Probe(address(6)));
    world.answerer.probed(address(6), Some(&[]), world.now, &mut world.changes);
    assert_eq!(world.changes[0].state, State::Declined);
    assert_eq!(world.tell(&discover), Outcome::Probe(address(7)));
    world.answerer.probed(address(7), None, world.now, &mut world.changes);
    assert_eq!(world.get(&discover), Some((Kind::Offer, 7)));
    world.get(&ask(Kind::Request, 1).asks_for(7).of(2));
    assert_eq!(world.get(&discover), Some((Kind::Offer, 7)), "who has an address is its user");
}

#[test]
fn replicas_prolong_each_others_leases_only_where_both_hear_it() {
    let mut world = world(|plan| plan.replace("probe: 0s", "replica: {index: 0, of: 2}"));
    let here = |last| ask(Kind::Request, 1).has([10, 0, 0, last]);
    let there = |last| ask(Kind::Request, 1).has([10, 7, 0, last]).by_relay([10, 7, 0, 1]);
    // The pools begin with 10.0.0.1 and 10.7.0.10: odd ones here and even ones there are ours.
    assert_eq!(world.get(&here(8)), Some((Kind::Ack, 8)));
    let direct = here(8);
    let mut direct = Message::parse(&direct.bytes).unwrap();
    direct.is_direct = true;
    let told = world.answerer.answer(&direct, &world.clients, 1000, &mut world.out, &mut world.changes);
    assert_eq!(told, Outcome::Silent(Silence::OtherServer), "the other would not know");
    assert_eq!(world.get(&there(12)), Some((Kind::Ack, 12)));
    assert_eq!(world.get(&there(14)), Some((Kind::Nak, 0)), "it has 12 now");
    let boots = ask(Kind::Request, 1).asks_for(14);
    assert_eq!(
        world.tell(&boots),
        Outcome::Silent(Silence::UnknownLease),
        "the other may have given it 14 since"
    );
    // A client takes an address of ours from the other, who had prolonged it.
    world.changes.clear();
    assert_eq!(world.get(&ask(Kind::Request, 3).asks_for(11).of(4)), None);
    assert_eq!((world.changes.len(), world.changes[0].until), (1, 4601));
    let other = world.tell(&ask(Kind::Discover, 4).asks_for(11));
    assert!(matches!(other, Outcome::Probe(address) if address.octets()[3] != 11), "{other:?}");
}

#[test]
fn a_full_pool_says_nothing_and_a_new_one_keeps_what_fits() {
    let mut world = usual();
    let mut cards: HashMap<u8, u8> = (1..=14).map(|card| (world.join(card), card)).collect();
    assert_eq!(world.tell(&ask(Kind::Discover, 50)), Outcome::Silent(Silence::Exhausted));
    world.change(|plan| {
        plan.replace("last: 10.0.0.20", "last: 10.0.0.12").replace("10.0.0.10}", "10.0.0.50}")
    });
    for (own, card) in cards.drain() {
        // 9 has become the interface's own.
        let fits = own <= 12 && own != 9;
        let expected = if fits { Some((Kind::Ack, own)) } else { Some((Kind::Nak, 0)) };
        assert_eq!(world.get(&ask(Kind::Request, card).has([10, 0, 0, own])), expected);
    }
}

proptest! {
    /// Whatever clients send, nothing panics and no address has two clients.
    #[test]
    fn no_address_has_two_clients(
        steps in prop::collection::vec((1..8_u8, 1..9_u8, 0..40_u8, any::<bool>(), 0..900_u64), 1..120),
    ) {
        let mut world = usual();
        let mut held: HashMap<Ipv4Addr, (u8, Seconds)> = HashMap::new();
        for (card, kind, last, has, wait) in steps {
            world.now += wait;
            let kind = Kind::ALL[usize::from(kind - 1)];
            let ask = ask(kind, card).asks_for(last);
            let ask = if has { ask.has([10, 0, 0, last]) } else { ask.of(2) };
            let acked = matches!(world.tell(&ask), Outcome::Reply(Kind::Ack, _));
            for lease in world.changes.drain(..) {
                let IpAddr::V4(address) = lease.address else { unreachable!() };
                if lease.state == State::Leased {
                    prop_assert!(acked);
                    let before = held.insert(address, (card, lease.until));
                    prop_assert!(before.is_none_or(|(who, until)| who == card || until <= world.now));
                } else {
                    held.remove(&address);
                }
            }
        }
    }
}
