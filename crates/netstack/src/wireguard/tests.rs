//! Peers without sockets: what one sends is given to the other by hand.

use std::net::SocketAddr;
use std::time::Instant;

use causeway_testkit::fuzz;
use smoltcp::wire::IpProtocol;

use super::peers::Peers;
use super::trains::{Endpoint, Trains};
use super::{MTU, Peer, PublicKey, SecretKey};
use crate::ip;

/// One side.
struct Side {
    key: SecretKey,
    peers: Peers,
    out: Trains,
    address: SocketAddr,
    packets: Vec<Vec<u8>>,
}

impl Side {
    fn new(port: u16) -> Self {
        let key = SecretKey::generate();
        Self {
            peers: Peers::new(&key, MTU, true, Instant::now()),
            key,
            out: Trains::new(64),
            address: ([127, 0, 0, 1], port).into(),
            packets: Vec::new(),
        }
    }

    fn public(&self) -> PublicKey {
        self.key.public()
    }

    fn send(&mut self, from: &str, to: &str, text: &[u8]) {
        let packet = packet(from, to, text);
        self.peers.send(packet.len(), |bytes| bytes.copy_from_slice(&packet), &mut self.out);
    }

    /// Datagrams that it sent, with where they go.
    fn sent(&mut self) -> Vec<(SocketAddr, Vec<u8>)> {
        let mut sent = Vec::new();
        while let Some(train) = self.out.first() {
            sent.extend(train.bytes.chunks(train.size).map(|datagram| (train.to.address, datagram.to_vec())));
            self.out.done();
        }
        sent
    }

    fn receive(&mut self, from: SocketAddr, datagram: &[u8]) {
        let from = Endpoint { address: from, local: None };
        let packets = &mut self.packets;
        let mut each = |packet: &[u8]| packets.push(ip::read(packet).unwrap().payload.to_vec());
        self.peers.receive(from, datagram.into(), Instant::now(), &mut self.out, &mut each);
    }

    fn endpoint(&self, peer: PublicKey) -> Option<SocketAddr> {
        self.peers.standings()[&peer].endpoint
    }
}

fn packet(from: &str, to: &str, text: &[u8]) -> Vec<u8> {
    let (from, to) = (from.parse().unwrap(), to.parse().unwrap());
    let mut packet = vec![0; ip::header_len(to) + text.len()];
    packet[ip::header_len(to)..].copy_from_slice(text);
    ip::write_header(&mut packet, from, to, IpProtocol::Udp);
    packet
}

/// Gives to each what the others sent, until all are silent.
fn settle(sides: &mut [&mut Side]) {
    loop {
        let mut quiet = true;
        for index in 0..sides.len() {
            let from = sides[index].address;
            for (to, datagram) in sides[index].sent() {
                quiet = false;
                if let Some(side) = sides.iter_mut().find(|side| side.address == to) {
                    side.receive(from, &datagram);
                }
            }
        }
        if quiet {
            return;
        }
    }
}

/// A hub and a laptop that know each other.
fn pair() -> (Side, Side) {
    let (mut hub, mut laptop) = (Side::new(1), Side::new(2));
    hub.peers.set(vec![of(&laptop, "10.0.0.2/32")]);
    laptop.peers.set(vec![Peer::hub(hub.public(), hub.address)]);
    (hub, laptop)
}

fn of(side: &Side, network: &str) -> Peer {
    Peer::new(side.public(), vec![network.parse().unwrap()])
}

#[test]
fn packets_wait_for_keys_and_then_go_both_ways() {
    let (mut hub, mut laptop) = pair();
    for text in ["one", "two", "three"] {
        laptop.send("10.0.0.2", "10.0.0.1", text.as_bytes());
    }
    settle(&mut [&mut hub, &mut laptop]);
    assert_eq!(hub.packets, [&b"one"[..], b"two", b"three"]);
    hub.send("10.0.0.1", "10.0.0.2", b"answer");
    settle(&mut [&mut hub, &mut laptop]);
    assert_eq!(laptop.packets, [b"answer"]);
    let standings = hub.peers.standings();
    let standing = &standings[&laptop.public()];
    assert!(standing.last_handshake.is_some() && standing.received > 0 && standing.sent > 0);
    assert_eq!(standing.endpoint, Some(laptop.address));
}

#[test]
fn who_dials_says_hello_by_itself() {
    let (mut hub, mut laptop) = pair();
    laptop.peers.tick(&mut laptop.out);
    settle(&mut [&mut hub, &mut laptop]);
    hub.send("10.0.0.1", "10.0.0.2", b"you have mail");
    settle(&mut [&mut hub, &mut laptop]);
    assert_eq!(laptop.packets, [b"you have mail"]);
}

#[test]
fn nobody_uses_an_address_that_is_not_its_own() {
    let (mut hub, mut laptop) = pair();
    let mut other = Side::new(3);
    hub.peers.set(vec![of(&laptop, "10.0.0.2/32"), of(&other, "10.0.0.3/32")]);
    other.peers.set(vec![Peer::hub(hub.public(), hub.address)]);
    laptop.send("10.0.0.3", "10.0.0.1", b"forged");
    laptop.send("10.0.0.9", "10.0.0.1", b"of nobody");
    laptop.send("10.0.0.2", "10.0.0.1", b"real");
    other.send("10.0.0.3", "10.0.0.1", b"other");
    settle(&mut [&mut hub, &mut laptop, &mut other]);
    assert_eq!(hub.packets, [&b"real"[..], b"other"]);
    hub.send("10.0.0.1", "10.0.0.9", b"to nobody");
    hub.send("10.0.0.1", "10.0.0.3", b"to the other");
    settle(&mut [&mut hub, &mut laptop, &mut other]);
    assert_eq!((laptop.packets.len(), &other.packets), (0, &vec![b"to the other".to_vec()]));
}

#[test]
fn a_change_touches_only_whom_it_names() {
    let (mut hub, mut laptop) = pair();
    let mut other = Side::new(3);
    other.peers.set(vec![Peer::hub(hub.public(), hub.address)]);
    laptop.send("10.0.0.2", "10.0.0.1", b"before");
    settle(&mut [&mut hub, &mut laptop]);
    hub.peers.set(vec![of(&other, "10.0.0.3/32"), of(&laptop, "10.0.0.2/32")]);
    hub.send("10.0.0.1", "10.0.0.2", b"still");
    let sent = hub.sent();
    assert_eq!((sent.len(), sent[0].1[0]), (1, 4), "with the same keys: no handshake");
    laptop.receive(hub.address, &sent[0].1);
    other.send("10.0.0.3", "10.0.0.1", b"new");
    settle(&mut [&mut hub, &mut laptop, &mut other]);
    // Gone is gone: neither its data nor its handshakes are taken.
    hub.peers.set(vec![of(&other, "10.0.0.3/32")]);
    laptop.send("10.0.0.2", "10.0.0.1", b"too late");
    let handshake = laptop.peers.standings();
    assert_eq!(handshake.len(), 1);
    settle(&mut [&mut hub, &mut laptop, &mut other]);
    other.send("10.0.0.3", "10.0.0.1", b"last");
    settle(&mut [&mut hub, &mut laptop, &mut other]);
    assert_eq!(hub.packets, [&b"before"[..], b"new", b"last"]);
    assert_eq!(laptop.packets, [b"still"]);
}

#[test]
fn a_peer_is_followed_where_its_key_goes_and_nobody_else() {
    let (mut hub, mut laptop) = pair();
    laptop.send("10.0.0.2", "10.0.0.1", b"home");
    settle(&mut [&mut hub, &mut laptop]);
    laptop.send("10.0.0.2", "10.0.0.1", b"away");
    let (_, datagram) = laptop.sent().remove(0);
    let thief: SocketAddr = ([192, 0, 2, 66], 6).into();
    let mut bent = datagram.clone();
    *bent.last_mut().unwrap() ^= 1;
    hub.receive(thief, &bent);
    assert_eq!(hub.endpoint(laptop.public()), Some(laptop.address), "what is not authentic moves nobody");
    let cafe: SocketAddr = ([192, 0, 2, 7], 7).into();
    hub.receive(cafe, &datagram);
    assert_eq!(hub.endpoint(laptop.public()), Some(cafe));
    hub.receive(thief, &datagram);
    assert_eq!(hub.endpoint(laptop.public()), Some(cafe), "nor does what was heard before");
    assert_eq!(hub.packets, [b"home", b"away"]);
}

#[test]
fn a_flood_of_handshakes_must_show_where_it_is() {
    let (mut hub, mut laptop) = pair();
    let mut answers = [0; 5];
    for _ in 0..500 {
        // Another one each time, since one is answered once.
        let mut flooder = Side::new(2);
        flooder.peers.set(vec![Peer::hub(hub.public(), hub.address)]);
        flooder.peers.tick(&mut flooder.out);
        let (_, init) = flooder.sent().remove(0);
        hub.receive(flooder.address, &init);
        for (_, answer) in hub.sent() {
            answers[usize::from(answer[0])] += 1;
        }
    }
    assert!(answers[3] > 400, "cookies: {answers:?}");
    // One that is really there uses its cookie.
    laptop.peers.tick(&mut laptop.out);
    let (_, init) = laptop.sent().remove(0);
    hub.receive(laptop.address, &init);
    let (_, cookie) = hub.sent().remove(0);
    assert_eq!(cookie[0], 3);
    laptop.receive(hub.address, &cookie);
}

#[test]
fn a_preshared_key_must_be_known_to_both() {
    let (mut hub, mut laptop) = pair();
    let secret = SecretKey::generate();
    let mut peer = of(&laptop, "10.0.0.2/32");
    peer.preshared = Some(secret.clone());
    hub.peers.set(vec![peer]);
    laptop.send("10.0.0.2", "10.0.0.1", b"without");
    settle(&mut [&mut hub, &mut laptop]);
    assert!(hub.packets.is_empty());
    let mut way = Peer::hub(hub.public(), hub.address);
    way.preshared = Some(secret);
    let mut knowing = Side::new(2);
    hub.peers.set(vec![Peer { preshared: way.preshared.clone(), ..of(&knowing, "10.0.0.2/32") }]);
    knowing.peers.set(vec![way]);
    knowing.send("10.0.0.2", "10.0.0.1", b"with");
    settle(&mut [&mut hub, &mut knowing]);
    assert_eq!(hub.packets, [b"with"]);
}

#[test]
fn bent_datagrams_do_no_harm() {
    let (mut hub, mut laptop) = pair();
    // One of each kind, and a cookie.
    let mut seeds = Vec::new();
    laptop.send("10.0.0.2", "10.0.0.1", b"hello");
    let (_, init) = laptop.sent().remove(0);
    hub.receive(laptop.address, &init);
    let (_, response) = hub.sent().remove(0);
    laptop.receive(hub.address, &response);
    let data: Vec<_> = laptop.sent().into_iter().map(|(_, datagram)| datagram).collect();
    seeds.extend([init, response]);
    seeds.extend(data);
    seeds.push([&[3, 0, 0, 0][..], &[7; 60]].concat());
    let sides = std::cell::RefCell::new((hub, laptop));
    fuzz::drive("wireguard", &seeds, |datagram| {
        let (hub, laptop) = &mut *sides.borrow_mut();
        let from = hub.address;
        hub.receive(laptop.address, datagram);
        laptop.receive(from, datagram);
        hub.peers.tick(&mut hub.out);
        drop((hub.sent(), laptop.sent()));
    });
    // Who is real still gets through.
    let (mut hub, mut laptop) = sides.into_inner();
    hub.packets.clear();
    laptop.send("10.0.0.2", "10.0.0.1", b"after all");
    settle(&mut [&mut hub, &mut laptop]);
    assert_eq!(hub.packets, [b"after all"]);
}
