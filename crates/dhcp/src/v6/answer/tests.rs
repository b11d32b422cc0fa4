use proptest::prelude::*;

use super::*;
use crate::lease::State;

const PLAN: &str = "interface: net1\nserver: 10.0.0.2\nnetwork: 10.0.0.0/24\n\
     pool: {first: 10.0.0.5, last: 10.0.0.20}\nleaseTime: 1h\nsearch: [lab.test]\n\
     ipv6: {network: 'fd00::/64', pool: {first: 'fd00::10', last: 'fd00::13'}, dnsServers: ['fd00::53'], \
     reservations: [{hardware: '02:00:00:00:00:63', address: 'fd00::99'}]}\n";

struct World {
    answerer: Answerer,
    clients: Clients,
    changes: Vec<Lease>,
    out: Vec<u8>,
}

fn world(more: &str) -> World {
    let plan: DhcpPlan = serde_saphyr::from_str(&format!("{PLAN}{more}")).unwrap();
    assert_eq!(plan.validate(), []);
    let answerer = Answerer::new(&plan, &["fd00::11".parse().unwrap()]).unwrap();
    World { answerer, clients: Clients::new(&plan), changes: Vec::new(), out: Vec::new() }
}

/// A message of the client with this card, with one association and the addresses in it.
fn ask(kind: Kind, card: u8, server: Option<&[u8]>, addresses: &[&str]) -> Vec<u8> {
    let mut bytes = vec![kind as u8, 1, 2, 3];
    put(&mut bytes, code::CLIENT_ID, &[0, 3, 0, 1, 2, 0, 0, 0, 0, card]);
    if let Some(server) = server {
        put(&mut bytes, code::SERVER_ID, server);
    }
    let mut association = vec![0, 0, 0, 7, 0, 0, 0, 0, 0, 0, 0, 0];
    for address in addresses {
        put_address(&mut association, number(address.parse().unwrap()), 0, 0);
    }
    put(&mut bytes, code::IA_NA, &association);
    bytes
}

impl World {
    fn tell(&mut self, bytes: &[u8]) -> Outcome {
        let source = "fe80::1".parse().unwrap();
        self.answerer.answer(bytes, source, &self.clients, 1000, &mut self.out, &mut self.changes)
    }

    /// The addresses in the answer with the time that each has left; none for silence.
    fn get(&mut self, bytes: &[u8]) -> Option<Vec<(String, u32)>> {
        let Outcome::Reply { .. } = self.tell(bytes) else { return None };
        let mut reply = self.out.clone();
        reply[0] = Kind::Request as u8;
        let message = Message::parse(&reply).unwrap();
        let value = message.option(code::IA_NA)?;
        let association = Association::parse(value).unwrap();
        let times = |address: Ipv6Addr| {
            let place = value.windows(16).position(|bytes| bytes == address.octets()).unwrap();
            u32::from_be_bytes(value[place + 20..place + 24].try_into().unwrap())
        };
        Some(association.addresses().map(|address| (address.to_string(), times(address))).collect())
    }
}

fn one(address: &str) -> Option<Vec<(String, u32)>> {
    Some(vec![(address.to_owned(), 3600)])
}

#[test]
fn a_client_gets_an_address_keeps_it_and_gives_it_back() {
    let mut world = world("");
    let duid = world.answerer.duid.clone();
    let ours = Some(&duid[..]);
    assert_eq!(world.get(&ask(Kind::Solicit, 1, None, &[])), one("fd00::10"));
    assert!(world.changes.is_empty() && world.out[0] == Kind::Advertise as u8);
    assert_eq!(world.get(&ask(Kind::Request, 1, ours, &["fd00::10"])), one("fd00::10"));
    assert_eq!((world.changes.len(), world.changes[0].until), (1, 4601));
    assert_eq!(&*world.changes[0].hardware, [2, 0, 0, 0, 0, 1]);
    assert_eq!(world.get(&ask(Kind::Renew, 1, ours, &["fd00::10"])), one("fd00::10"));
    assert_eq!(world.get(&ask(Kind::Rebind, 1, None, &["fd00::10"])), one("fd00::10"));
    assert_eq!(world.get(&ask(Kind::Rebind, 2, None, &["fd00::12"])), one("fd00::12"), "of another server");
    let moved = Some(vec![("fd00::13".to_owned(), 3600), ("fd00::10".to_owned(), 0)]);
    assert_eq!(world.get(&ask(Kind::Renew, 3, ours, &["fd00::10"])), moved, "another's is no longer valid");
    world.changes.clear();
    world.tell(&ask(Kind::Release, 1, ours, &["fd00::10"]));
    world.tell(&ask(Kind::Release, 1, ours, &["fd00::12"]));
    assert_eq!((world.changes.len(), world.changes[0].state), (1, State::Released));
    world.tell(&ask(Kind::Decline, 2, ours, &["fd00::12"]));
    assert_eq!(world.changes[1].state, State::Declined);
    assert_eq!(world.get(&ask(Kind::Solicit, 0x63, None, &[])), one("fd00::99"));
}

#[test]
fn options_alone_confirmations_and_quick_answers() {
    let mut world = world("");
    let mut asks = vec![Kind::InformationRequest as u8, 1, 2, 3];
    assert!(matches!(world.tell(&asks), Outcome::Reply { .. }));
    let dns: Ipv6Addr = "fd00::53".parse().unwrap();
    assert!(world.out.windows(16).any(|bytes| bytes == dns.octets()));
    put(&mut asks, code::SERVER_ID, b"another");
    assert!(matches!(world.tell(&asks), Outcome::Silent { why: Silence::OtherServer, .. }));
    let has_status = |out: &[u8], code: u8| out.windows(6).any(|bytes| bytes == [0, 13, 0, 2, 0, code]);
    world.tell(&ask(Kind::Confirm, 1, None, &["fd00::7"]));
    assert!(has_status(&world.out, 0));
    world.tell(&ask(Kind::Confirm, 1, None, &["fd99::7"]));
    assert!(has_status(&world.out, 4));
    let mut quick = ask(Kind::Solicit, 1, None, &[]);
    put(&mut quick, code::RAPID_COMMIT, &[]);
    assert_eq!(world.get(&quick), one("fd00::10"));
    assert_eq!((world.out[0], world.changes.len()), (Kind::Reply as u8, 1));
    for card in 2..=4 {
        let mut quick = ask(Kind::Solicit, card, None, &[]);
        put(&mut quick, code::RAPID_COMMIT, &[]);
        world.tell(&quick);
    }
    assert_eq!(world.get(&ask(Kind::Solicit, 9, None, &[])), Some(vec![]));
    assert!(has_status(&world.out, 2), "no address is left");
}

#[test]
fn relays_get_their_own_back_and_strangers_nothing() {
    let mut world = world("clients: [{hardware: '02:00:00:00:00:05'}]\n");
    let relayed = |link: &str, inner: &[u8]| {
        let mut outer = vec![12, 0];
        outer.extend_from_slice(&link.parse::<Ipv6Addr>().unwrap().octets());
        outer.extend_from_slice(&"fe80::9".parse::<Ipv6Addr>().unwrap().octets());
        put(&mut outer, code::INTERFACE_ID, b"port");
        put(&mut outer, code::LINK_LAYER, &[0, 1, 2, 0, 0, 0, 0, 5]);
        put(&mut outer, code::RELAYED, inner);
        outer
    };
    // The relay knows the card, whatever the client says.
    let solicit = ask(Kind::Solicit, 1, None, &[]);
    let twice = relayed("::", &relayed("fd00::1", &solicit));
    assert!(matches!(world.tell(&twice), Outcome::Reply { relayed: true, .. }));
    assert_eq!((world.out[0], &world.out[2..34]), (13, &twice[2..34]));
    assert_eq!(world.out[38..42], *b"port");
    assert!(matches!(
        world.tell(&relayed("fd77::1", &solicit)),
        Outcome::Silent { why: Silence::UnknownNetwork, .. }
    ));
    let stranger = Outcome::Silent {
        asked: Some("solicit"),
        why: Silence::UnknownClient,
        hardware: vec![2, 0, 0, 0, 0, 1],
    };
    assert_eq!(world.tell(&solicit), stranger);
}

#[test]
fn of_two_servers_the_one_that_gave_an_address_hears_when_it_is_prolonged() {
    let mut world = world("replica: {index: 0, of: 2}\n");
    let duid = world.answerer.duid.clone();
    assert_eq!(world.get(&ask(Kind::Renew, 1, Some(&duid), &["fd00::10"])), one("fd00::10"));
    assert_eq!(world.get(&ask(Kind::Renew, 2, Some(&duid), &["fd00::13"])), None);
    assert_eq!(world.get(&ask(Kind::Rebind, 2, None, &["fd00::13"])), one("fd00::13"));
}

#[test]
fn of_two_servers_each_gives_new_clients_its_own_part() {
    let mut world = world("replica: {index: 0, of: 2}\n");
    let duid = world.answerer.duid.clone();
    let ours = Some(&duid[..]);
    assert_eq!(
        world.get(&ask(Kind::Solicit, 1, None, &["fd00::13"])),
        one("fd00::10"),
        "a wish for the other's"
    );
    let moved = Some(vec![("fd00::10".to_owned(), 3600), ("fd00::13".to_owned(), 0)]);
    assert_eq!(world.get(&ask(Kind::Request, 1, ours, &["fd00::13"])), moved);
    // A client takes an address of ours from the other, who had prolonged it.
    world.changes.clear();
    assert_eq!(world.get(&ask(Kind::Request, 2, Some(b"the other"), &["fd00::12"])), None);
    assert_eq!((world.changes.len(), world.changes[0].state), (1, State::Leased));
    assert_eq!(world.get(&ask(Kind::Solicit, 3, None, &["fd00::12"])), Some(vec![]), "ours are all in use");
}

#[test]
fn what_another_server_leases_is_not_taken_away() {
    let mut world = world("");
    assert_eq!(world.get(&ask(Kind::Rebind, 1, None, &["fd00::77"])), None);
    assert_eq!(world.get(&ask(Kind::Rebind, 1, None, &[])), one("fd00::10"));
    let moved = Some(vec![("fd00::10".to_owned(), 3600), ("fd00::77".to_owned(), 0)]);
    assert_eq!(world.get(&ask(Kind::Rebind, 1, None, &["fd00::77"])), moved, "of its own client it knows");
}

#[test]
fn a_message_is_no_way_to_a_hundred_addresses() {
    let wide = PLAN.replace("fd00::13", "fd00::ffff");
    let plan: DhcpPlan = serde_saphyr::from_str(&wide).unwrap();
    let mut world = World { answerer: Answerer::new(&plan, &[]).unwrap(), ..world("") };
    let mut quick = ask(Kind::Solicit, 1, None, &[]);
    put(&mut quick, code::RAPID_COMMIT, &[]);
    for i in 0..100 {
        put(&mut quick, code::IA_NA, &[1, 0, 0, i, 0, 0, 0, 0, 0, 0, 0, 0]);
    }
    world.tell(&quick);
    assert_eq!(world.changes.len(), MOST_ASSOCIATIONS);
}

#[test]
fn a_client_is_known_by_the_card_that_it_speaks_from() {
    let mut world = world("clients: [{hardware: '02:00:00:00:00:05'}]\n");
    // Its identifier is of another card of the machine.
    let solicit = ask(Kind::Solicit, 1, None, &[]);
    let source = "fe80::ff:fe00:5".parse().unwrap();
    let told =
        world.answerer.answer(&solicit, source, &world.clients, 1000, &mut world.out, &mut world.changes);
    assert!(matches!(told, Outcome::Reply { .. }), "{told:?}");
}

#[test]
fn a_client_is_known_by_the_name_that_it_gives_itself() {
    for (option, expected) in [
        (&b"\x01\x02vm\x03lab\x00"[..], Some("vm.lab")),
        (b"\x00\x02vm", Some("vm")),
        (b"\x00\x03vm", None),
        (b"\x00\x02v ", None),
        (b"\x00", None),
        (b"\x00\x02vm\xc0\x00", None),
    ] {
        let mut world = world("");
        let mut quick = ask(Kind::Solicit, 1, None, &[]);
        put(&mut quick, code::RAPID_COMMIT, &[]);
        put(&mut quick, code::NAME, option);
        world.tell(&quick);
        assert_eq!(world.changes[0].hostname.as_deref(), expected, "{option:?}");
    }
}

proptest! {
    #[test]
    fn rubbish_never_panics(mut bytes in prop::collection::vec(any::<u8>(), 0..200), kind in 0..14_u8) {
        let mut world = world("");
        world.tell(&bytes);
        if let Some(first) = bytes.first_mut() {
            *first = kind;
        }
        world.tell(&bytes);
    }

    #[test]
    fn bent_messages_never_panic(place in 0..60_usize, byte in any::<u8>(), cut in 0..80_usize) {
        let mut world = world("");
        let mut bytes = ask(Kind::Solicit, 1, None, &["fd00::10"]);
        let length = bytes.len();
        bytes[place % length] = byte;
        bytes.truncate(cut.max(1));
        world.tell(&bytes);
    }
}
