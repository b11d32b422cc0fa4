//! What owners of stacks see.

use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use causeway_testkit::{eventually, soon};
use smoltcp::wire::IpProtocol;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

use super::wire::wire;
use crate::{Arrivals, Config, Incoming, Pending, Stack, TcpFlow, UdpFlow, ip};

fn pair(config: &Config) -> ((Stack, Arrivals), (Stack, Arrivals)) {
    let (one, two) = wire(1420);
    (Stack::start(one, config), Stack::start(two, config))
}

fn address(text: &str) -> SocketAddr {
    text.parse().unwrap()
}

async fn tcp(arrivals: &mut Arrivals) -> Pending {
    match soon("a connection", arrivals.next()).await {
        Some(Incoming::Tcp(pending)) => pending,
        other => panic!("{other:?}"),
    }
}

async fn udp(arrivals: &mut Arrivals) -> UdpFlow {
    match soon("a flow", arrivals.next()).await {
        Some(Incoming::Udp(flow)) => flow,
        other => panic!("{other:?}"),
    }
}

async fn connected(client: &Stack, arrivals: &mut Arrivals) -> (TcpFlow, TcpFlow) {
    let connecting = client.connect_tcp(address("10.0.0.2:0"), address("10.9.9.9:80"));
    let (client, server) = tokio::join!(connecting, async { tcp(arrivals).await.accept() });
    (client.unwrap(), server)
}

#[tokio::test]
async fn a_connection_carries_bytes_both_ways_and_each_ends_by_itself() {
    for (from, to) in [("10.0.0.2:0", "10.9.9.9:80"), ("[fd00::2]:0", "[fd00::9]:80")] {
        let ((client, _one), (_server, mut arrivals)) = pair(&Config::default());
        let connecting = tokio::spawn({
            let client = client.clone();
            async move { client.connect_tcp(address(from), address(to)).await }
        });
        let pending = tcp(&mut arrivals).await;
        assert_eq!((pending.to(), pending.from().ip()), (address(to), address(from).ip()));
        assert!(!connecting.is_finished(), "nothing is promised before it is accepted");
        let mut there = pending.accept();
        let mut here = soon("connected", connecting).await.unwrap().unwrap();
        assert_eq!((here.to(), here.from()), (there.to(), there.from()));
        let question: Vec<u8> = (0..3_000_000_u32).map(|n| (n / 7) as u8).collect();
        let expected = question.clone();
        let asking = tokio::spawn(async move {
            here.write_all(&question).await.unwrap();
            here.shutdown().await.unwrap();
            let mut answer = Vec::new();
            here.read_to_end(&mut answer).await.unwrap();
            answer
        });
        let mut heard = Vec::new();
        soon("the question", there.read_to_end(&mut heard)).await.unwrap();
        assert!(heard == expected);
        there.write_all(b"an answer after the end").await.unwrap();
        drop(there);
        assert_eq!(soon("the answer", asking).await.unwrap(), b"an answer after the end");
    }
}

#[tokio::test]
async fn a_refused_connection_is_refused_at_once() {
    let ((client, _one), (_server, mut arrivals)) = pair(&Config::default());
    let refusing = async { tcp(&mut arrivals).await.refuse() };
    let (result, ()) =
        tokio::join!(client.connect_tcp(address("10.0.0.2:0"), address("10.0.0.1:1")), refusing);
    assert_eq!(result.unwrap_err().kind(), io::ErrorKind::ConnectionRefused);
}

#[tokio::test]
async fn who_stops_waiting_gives_the_connection_up() {
    let ((client, _one), (_server, mut arrivals)) = pair(&Config::default());
    let connecting = client.connect_tcp(address("10.0.0.2:0"), address("10.0.0.1:1"));
    let waited = tokio::time::timeout(Duration::from_millis(20), connecting).await;
    assert!(waited.is_err());
    let mut late = tcp(&mut arrivals).await.accept();
    let error = soon("the reset", late.read(&mut [0])).await.unwrap_err();
    assert!(
        matches!(error.kind(), io::ErrorKind::ConnectionRefused | io::ErrorKind::ConnectionReset),
        "{error}"
    );
}

#[tokio::test]
async fn a_reset_is_seen_as_one() {
    let ((client, _one), (_server, mut arrivals)) = pair(&Config::default());
    let (mut here, there) = connected(&client, &mut arrivals).await;
    there.reset();
    let error = soon("the reset", here.read(&mut [0])).await.unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::ConnectionReset);
    assert_eq!(here.write(b"x").await.unwrap_err().kind(), io::ErrorKind::ConnectionReset);
}

#[tokio::test]
async fn who_is_cut_off_loses_its_flows_and_nobody_else_does() {
    let ((client, _one), (server, mut arrivals)) = pair(&Config::default());
    let (mut here, mut there) = connected(&client, &mut arrivals).await;
    let other = client.connect_tcp(address("10.0.0.3:0"), address("10.9.9.9:80"));
    let (other, other_there) = tokio::join!(other, async { tcp(&mut arrivals).await.accept() });
    let (mut other, mut other_there) = (other.unwrap(), other_there);
    server.cut("10.0.0.2".parse().unwrap());
    assert!(
        soon("here", here.read(&mut [0])).await.is_err()
            && soon("there", there.read(&mut [0])).await.is_err()
    );
    other.write_all(b"hello").await.unwrap();
    let mut heard = [0; 5];
    soon("the other", other_there.read_exact(&mut heard)).await.unwrap();
    assert_eq!(&heard, b"hello");
}

#[tokio::test]
async fn a_stack_that_ends_resets_what_is_open() {
    let ((client, _one), (server, mut arrivals)) = pair(&Config::default());
    let (mut here, mut there) = connected(&client, &mut arrivals).await;
    drop(server);
    assert!(soon("there", there.read(&mut [0])).await.is_err());
    assert_eq!(soon("here", here.read(&mut [0])).await.unwrap_err().kind(), io::ErrorKind::ConnectionReset);
    assert!(soon("the end", arrivals.next()).await.is_none());
}

#[tokio::test]
async fn datagrams_go_both_ways_whatever_their_size() {
    for (from, to) in [("10.0.0.2:0", "10.9.9.9:53"), ("[fd00::2]:0", "[fd00::9]:53")] {
        let ((client, _one), (_server, mut arrivals)) = pair(&Config::default());
        let flow = client.open_udp(address(from), address(to)).await.unwrap();
        for length in [0, 1, 1300, 5000, 60_000] {
            flow.send(&vec![length as u8; length]);
        }
        let there = udp(&mut arrivals).await;
        assert_eq!((there.from(), there.to()), (flow.from(), flow.to()));
        for length in [0, 1, 1300, 5000, 60_000] {
            let datagram = soon("a datagram", there.receive()).await.unwrap();
            assert!(datagram == vec![length as u8; length], "{length}");
            there.send(&datagram);
            assert_eq!(soon("its echo", flow.receive()).await.unwrap(), datagram);
        }
    }
}

#[tokio::test]
async fn datagrams_that_nobody_takes_are_refused() {
    let ((client, _one), (_server, mut arrivals)) = pair(&Config::default());
    let flow = client.open_udp(address("10.0.0.2:0"), address("10.9.9.9:53")).await.unwrap();
    flow.send(b"hello?");
    udp(&mut arrivals).await.refuse();
    assert_eq!(soon("the refusal", flow.receive()).await, None);
}

#[tokio::test]
async fn a_flow_of_datagrams_ends_when_nothing_moves() {
    let config = Config { udp_idle: Duration::from_millis(10), ..Config::default() };
    let ((client, _one), (_server, mut arrivals)) = pair(&config);
    let flow = client.open_udp(address("10.0.0.2:0"), address("10.9.9.9:53")).await.unwrap();
    flow.send(b"hello?");
    let there = udp(&mut arrivals).await;
    assert!(there.receive().await.is_some());
    assert_eq!(soon("the end", there.receive()).await, None);
    assert_eq!(soon("the end", flow.receive()).await, None);
}

#[tokio::test]
async fn flows_are_bounded_and_their_places_come_back() {
    let config = Config { max_flows: 8, ..Config::default() };
    let ((client, _one), (_server, mut arrivals)) = pair(&config);
    let mut flows = Vec::new();
    let error = loop {
        match client.open_udp(address("10.0.0.2:0"), address("10.9.9.9:53")).await {
            Ok(flow) => flows.push(flow),
            Err(error) => break error,
        }
    };
    assert_eq!((error.kind(), flows.len()), (io::ErrorKind::QuotaExceeded, 4), "half for one address");
    drop(flows);
    eventually("a place again", async || {
        client.open_udp(address("10.0.0.2:0"), address("10.9.9.9:53")).await.is_ok()
    })
    .await;
    let (one, two) = connected(&client, &mut arrivals).await;
    drop((one, two));
}

#[tokio::test]
async fn ended_connections_take_no_place() {
    let config = Config { max_flows: 8, ..Config::default() };
    let ((client, _one), (_server, mut arrivals)) = pair(&config);
    tokio::spawn(async move {
        while let Some(Incoming::Tcp(pending)) = arrivals.next().await {
            let mut flow = pending.accept();
            tokio::spawn(async move { flow.read_to_end(&mut Vec::new()).await });
        }
    });
    for _ in 0..50 {
        let mut flow = eventually("a place", async || {
            client.connect_tcp(address("10.0.0.2:0"), address("10.9.9.9:80")).await
        })
        .await;
        flow.shutdown().await.unwrap();
        soon("the end", flow.read_to_end(&mut Vec::new())).await.unwrap();
    }
}

#[tokio::test]
async fn a_thousand_connections_at_once() {
    let ((client, _one), (_server, mut arrivals)) = pair(&Config::default());
    tokio::spawn(async move {
        while let Some(Incoming::Tcp(pending)) = arrivals.next().await {
            tokio::spawn(async move {
                let mut flow = pending.accept();
                let (mut read, mut write) = tokio::io::split(&mut flow);
                let _ = tokio::io::copy(&mut read, &mut write).await;
                let _ = write.shutdown().await;
            });
        }
    });
    let talks = (0..1000_u32).map(|n| {
        let client = client.clone();
        tokio::spawn(async move {
            let mut flow = client.connect_tcp(address("10.0.0.2:0"), address("10.9.9.9:80")).await.unwrap();
            flow.write_all(&n.to_be_bytes().repeat(500)).await.unwrap();
            flow.shutdown().await.unwrap();
            let mut answer = Vec::new();
            flow.read_to_end(&mut answer).await.unwrap();
            assert_eq!(answer, n.to_be_bytes().repeat(500));
        })
    });
    for talk in talks.collect::<Vec<_>>() {
        soon("a talk", talk).await.unwrap();
    }
}

#[tokio::test]
async fn addresses_that_do_not_fit_are_refused_here() {
    let ((client, _one), _two) = pair(&Config::default());
    for (from, to) in
        [("10.0.0.2:0", "[fd00::9]:80"), ("10.0.0.2:0", "10.0.0.1:0"), ("10.0.0.2:0", "224.0.0.1:5")]
    {
        let error = client.connect_tcp(address(from), address(to)).await.unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::InvalidInput, "{error}");
    }
}

#[tokio::test]
async fn echoes_are_answered_and_strays_reset() {
    let (device, mut wire) = wire(1420);
    let (_stack, _arrivals) = Stack::start(device, &Config::default());
    let (from, to) = ("10.0.0.2".parse().unwrap(), "10.77.0.1".parse().unwrap());
    let mut ping = vec![0; 20 + 12];
    ping[20..].copy_from_slice(b"\x08\0\0\0\0\x07\0\x01ping");
    let sum = !smoltcp::wire::checksum::data(&ping[20..]);
    ping[22..24].copy_from_slice(&sum.to_be_bytes());
    ip::write_header(&mut ping, from, to, IpProtocol::Icmp);
    wire.put(ping);
    let answer = soon("an answer", wire.next()).await;
    let answer = ip::read(&answer).unwrap();
    assert_eq!((answer.from, answer.to, &answer.payload[8..]), (to, from, &b"ping"[..]));
    // A segment of a connection that nobody knows.
    let mut stray = vec![0; 40];
    stray[20..24].copy_from_slice(&[0, 9, 0, 80]);
    (stray[32], stray[33]) = (0x50, 0x10);
    let mut segment = smoltcp::wire::TcpPacket::new_unchecked(&mut stray[20..]);
    segment.fill_checksum(&from.into(), &to.into());
    ip::write_header(&mut stray, from, to, IpProtocol::Tcp);
    wire.put(stray);
    let reset = soon("a reset", wire.next()).await;
    let reset = smoltcp::wire::TcpPacket::new_checked(&reset[20..]).unwrap();
    assert!(reset.rst() && reset.dst_port() == 9);
}

#[tokio::test]
async fn a_short_talk_waits_for_nothing() {
    let ((client, _one), (_server, mut arrivals)) = pair(&Config::default());
    tokio::spawn(async move {
        while let Some(Incoming::Tcp(pending)) = arrivals.next().await {
            let mut flow = pending.accept();
            let _ = flow.read_u8().await;
            let _ = flow.write_u8(1).await;
        }
    });
    let began = std::time::Instant::now();
    for _ in 0..100 {
        let mut flow = client.connect_tcp(address("10.0.0.2:0"), address("10.9.9.9:80")).await.unwrap();
        flow.write_u8(1).await.unwrap();
        flow.read_u8().await.unwrap();
    }
    // A timeout in each would be twenty seconds.
    assert!(began.elapsed() < Duration::from_secs(10), "{:?}", began.elapsed());
}
