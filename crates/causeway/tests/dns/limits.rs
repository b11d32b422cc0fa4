//! What strangers can't do: recurse, use the server against others, or bring it down.

use std::io::Write;
use std::net::{TcpStream, UdpSocket};
use std::time::Duration;

use causeway_testkit::{Dice, PATIENCE};

use crate::message::{name, question, reply};
use crate::resolver::Resolver;
use crate::server::{Server, have};

const ZONES: &str = "zones: [{domain: lab.test, records: [{name: api.lab.test, addresses: [10.0.0.1]}]}]";

#[test]
fn only_those_who_may_are_answered_and_forwarded_for() {
    if !have(&["dig"]) {
        return;
    }
    let server = Server::start(&format!(
        "{{binds: ['127.0.0.1:0'], forward: {{upstreams: [{{address: '127.0.0.1:9'}}]}}, views: [\
         {{name: some, sources: [127.0.0.1/32], {ZONES}}}, {{name: no, sources: [127.0.0.2/32], recursion: [], {ZONES}}}]}}"
    ));
    for (words, status) in [
        ("-b 127.0.0.1 api.lab.test", "NOERROR"),
        ("-b 127.0.0.2 api.lab.test", "NOERROR"),
        ("-b 127.0.0.3 api.lab.test", "REFUSED"),
        ("-b 127.0.0.3 api.lab.test +tcp", "REFUSED"),
        ("-b 127.0.0.1 www.example.test", "SERVFAIL"),
        ("-b 127.0.0.2 www.example.test", "REFUSED"),
        ("-b 127.0.0.3 www.example.test", "REFUSED"),
    ] {
        let said = server.dig(words);
        assert!(said.contains(&format!("status: {status}")), "{words}: {said}");
    }
}

#[test]
fn whoever_asks_too_much_is_sent_to_tcp() {
    if !have(&["dig"]) {
        return;
    }
    let server = Server::start(&format!(
        "{{binds: ['127.0.0.1:0'], limits: {{responsesPerSecond: 10}}, views: [{{name: all, {ZONES}}}]}}"
    ));
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    socket.set_read_timeout(Some(Duration::from_millis(500))).unwrap();
    for id in 0..100 {
        socket.send_to(&question(id, "api.lab.test"), server.address).unwrap();
    }
    let (mut whole, mut cut, mut buffer) = (0, 0, [0; 512]);
    while socket.recv(&mut buffer).is_ok() {
        let is_cut = buffer[2] & 2 != 0;
        whole += u32::from(!is_cut);
        cut += u32::from(is_cut);
    }
    // A burst of a second's worth, and a little for the time that it takes.
    assert!((5..40).contains(&whole) && (20..60).contains(&cut), "{whole} whole, {cut} cut");
    assert_eq!(server.dig("+short +tcp api.lab.test"), "10.0.0.1\n");
}

#[test]
fn one_client_cannot_have_all_that_may_wait() {
    let resolver = Resolver::start(|socket, question, from| {
        if name(question) == "quick.example.test" {
            socket.send_to(&reply(question, [192, 0, 2, 1]), from).unwrap();
        }
    });
    let server = Server::start(&format!(
        "{{binds: ['127.0.0.1:0'], limits: {{forwarded: 4}}, views: [{{name: all}}], \
         forward: {{timeout: 20s, upstreams: [{{address: '{}'}}]}}}}",
        resolver.address
    ));
    let greedy = UdpSocket::bind("127.0.0.2:0").unwrap();
    greedy.set_read_timeout(Some(PATIENCE)).unwrap();
    for id in 0..10 {
        greedy.send_to(&question(id, &format!("n{id}.example.test")), server.address).unwrap();
    }
    let mut buffer = [0; 512];
    for _ in 0..8 {
        greedy.recv(&mut buffer).unwrap();
        assert_eq!(buffer[3] & 15, 2, "at once, that nobody is asked");
    }
    let other = UdpSocket::bind("127.0.0.1:0").unwrap();
    other.set_read_timeout(Some(PATIENCE)).unwrap();
    other.send_to(&question(1, "quick.example.test"), server.address).unwrap();
    let length = other.recv(&mut buffer).unwrap();
    assert_eq!(buffer[length - 4..length], [192, 0, 2, 1]);
    assert_eq!(resolver.asked(), 3);
}

#[test]
fn a_long_answer_by_tcp_is_counted_once() {
    if !have(&["dig", "curl"]) {
        return;
    }
    let addresses: Vec<String> = (0..1200).map(|i| format!("10.1.{}.{}", i / 200, i % 200 + 1)).collect();
    let server = Server::start(&format!(
        "{{binds: ['127.0.0.1:0'], views: [{{name: all, zones: [{{domain: lab.test, records: [\
         {{name: many.lab.test, addresses: [{}]}}]}}]}}]}}",
        addresses.join(", ")
    ));
    assert_eq!(server.dig("+short +tcp many.lab.test").lines().count(), 1200);
    let metrics = server.shown("/metrics");
    assert!(
        metrics.contains("causeway_dns_queries_total{view=\"all\",type=\"A\",rcode=\"NOERROR\"} 1\n"),
        "{metrics}"
    );
}

#[test]
fn rubbish_does_not_bring_it_down() {
    if !have(&["dig"]) {
        return;
    }
    let mut server = Server::start(&format!("{{binds: ['127.0.0.1:0'], views: [{{name: all, {ZONES}}}]}}"));
    let mut dice = Dice::new(7);
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    for round in 0..3000_u16 {
        let mut packet = question(round, "a.b.lab.test");
        for _ in 0..=dice.below(6) {
            let at = dice.below(packet.len() as u64) as usize;
            packet[at] = dice.below(256) as u8;
        }
        packet.truncate(dice.below(packet.len() as u64 + 1) as usize);
        socket.send_to(&packet, server.address).unwrap();
        if round.is_multiple_of(50)
            && let Ok(mut stream) = TcpStream::connect(server.address)
        {
            // What is not read is not read.
            let _ = stream.write_all(&packet);
        }
    }
    assert_eq!(server.dig("+short api.lab.test"), "10.0.0.1\n");
    assert_eq!(server.dig("+short +tcp api.lab.test"), "10.0.0.1\n");
    assert!(server.is_running());
}
