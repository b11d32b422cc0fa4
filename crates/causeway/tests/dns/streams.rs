//! Questions by TCP as no tool asks them.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use causeway_testkit::PATIENCE;

use crate::message::{framed, name, question, reply};
use crate::resolver::Resolver;
use crate::server::Server;

fn read(stream: &mut TcpStream) -> Vec<u8> {
    let mut length = [0; 2];
    stream.read_exact(&mut length).unwrap();
    let mut packet = vec![0; usize::from(u16::from_be_bytes(length))];
    stream.read_exact(&mut packet).unwrap();
    packet
}

fn plan(upstream: std::net::SocketAddr) -> String {
    format!(
        "{{binds: ['127.0.0.1:0'], limits: {{tcpIdleTimeout: 1s}}, forward: {{upstreams: [{{address: '{upstream}'}}]}}, \
         views: [{{name: all, zones: [{{domain: lab.test, records: [\
         {{name: api.lab.test, addresses: [10.0.0.1]}}]}}]}}]}}"
    )
}

#[test]
fn a_slow_answer_holds_up_no_other() {
    let slow = Resolver::start(|socket, question, from| {
        std::thread::sleep(Duration::from_millis(300));
        socket.send_to(&reply(question, [192, 0, 2, 1]), from).unwrap();
    });
    let server = Server::start(&plan(slow.address));
    let mut stream = TcpStream::connect(server.address).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    let mut bytes = framed(&question(1, "www.example.test"));
    for id in 2..=200 {
        bytes.extend(framed(&question(id, "api.lab.test")));
    }
    // Cut anywhere, as the network may.
    let (front, back) = bytes.split_at(77);
    stream.write_all(front).unwrap();
    stream.write_all(back).unwrap();
    for id in 2..=200_u16 {
        let packet = read(&mut stream);
        assert_eq!((&packet[..2], name(&packet).as_str()), (&id.to_be_bytes()[..], "api.lab.test"));
    }
    let last = read(&mut stream);
    assert_eq!((&last[..2], &last[last.len() - 4..]), (&[0, 1][..], &[192, 0, 2, 1][..]));
}

#[test]
fn what_was_asked_before_the_client_closed_its_side_is_answered() {
    let slow = Resolver::start(|socket, question, from| {
        std::thread::sleep(Duration::from_millis(100));
        socket.send_to(&reply(question, [192, 0, 2, 1]), from).unwrap();
    });
    let server = Server::start(&plan(slow.address));
    let mut stream = TcpStream::connect(server.address).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream.write_all(&framed(&question(1, "www.example.test"))).unwrap();
    stream.shutdown(std::net::Shutdown::Write).unwrap();
    assert_eq!(read(&mut stream)[..2], [0, 1]);
    assert_eq!(stream.read(&mut [0; 1]).unwrap(), 0);
}

#[test]
fn a_client_that_says_nothing_is_let_go() {
    let server = Server::start(&plan("127.0.0.1:9".parse().unwrap()));
    let mut silent = TcpStream::connect(server.address).unwrap();
    let mut half = TcpStream::connect(server.address).unwrap();
    half.write_all(&[0]).unwrap();
    // As if a question of 40,000 bytes were to come.
    let mut long = TcpStream::connect(server.address).unwrap();
    long.write_all(&40_000_u16.to_be_bytes()).unwrap();
    for stream in [&mut long, &mut silent, &mut half] {
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        assert_eq!(stream.read(&mut [0; 1]).unwrap(), 0);
    }
}

#[test]
fn whoever_asks_nothing_for_longest_makes_room_for_others() {
    let server = Server::start(
        "{binds: ['127.0.0.1:0', '127.0.0.2:0'], limits: {tcpConnections: 2, tcpIdleTimeout: 1h}, views: [{name: all, zones: [\
         {domain: lab.test, records: [{name: api.lab.test, addresses: [10.0.0.1]}]}]}]}",
    );
    let mut streams: Vec<TcpStream> = Vec::new();
    for _ in 0..4 {
        let mut stream = TcpStream::connect(server.address).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream.write_all(&framed(&question(1, "api.lab.test"))).unwrap();
        assert_eq!(read(&mut stream)[..2], [0, 1], "whoever asks is answered");
        streams.push(stream);
    }
    for stream in &mut streams[..2] {
        assert_eq!(stream.read(&mut [0; 1]).unwrap(), 0, "let go");
    }
    for stream in &mut streams[2..] {
        stream.write_all(&framed(&question(2, "api.lab.test"))).unwrap();
        assert_eq!(read(stream)[..2], [0, 2]);
    }
}

#[test]
fn a_connection_follows_the_plan() {
    let plan = |idle: &str, last: u8| {
        format!(
            "{{binds: ['127.0.0.1:0'], limits: {{tcpIdleTimeout: {idle}}}, views: [{{name: all, zones: [\
             {{domain: lab.test, records: [{{name: api.lab.test, addresses: [10.0.0.{last}]}}]}}]}}]}}"
        )
    };
    let mut server = Server::start(&plan("1h", 1));
    let mut stream = TcpStream::connect(server.address).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    let mut ask = |id| {
        stream.write_all(&framed(&question(id, "api.lab.test"))).unwrap();
        read(&mut stream).last().copied()
    };
    assert_eq!(ask(1), Some(1));
    server.change(&plan("1s", 2));
    assert_eq!(ask(2), Some(2));
    assert_eq!(stream.read(&mut [0; 1]).unwrap(), 0, "let go after a second, not after an hour");
}
