//! What is asked elsewhere: of a resolver that dies and returns, of ones that lie, by TLS, and in circles.

use std::net::UdpSocket;
use std::time::{Duration, Instant};

use causeway_testkit::PATIENCE;
use causeway_testkit::blocking::eventually;

use crate::message::{name, reply, reply_for};
use crate::resolver::Resolver;
use crate::server::{Server, have};
use crate::unbound::Unbound;

/// A plan that forwards all but `lab.test` to these.
fn plan(upstreams: &str) -> String {
    format!(
        "{{binds: ['127.0.0.1:0'], views: [{{name: all, zones: [{{domain: lab.test}}]}}], \
         forward: {{timeout: 1s, upstreams: [{upstreams}]}}}}"
    )
}

#[test]
fn a_resolver_dies_and_returns() {
    if !have(&["dig", "unbound", "curl"]) {
        return;
    }
    let mut unbound = Unbound::start();
    let server = Server::start(&plan(&format!("{{address: '{}'}}", unbound.address)));
    assert_eq!(server.dig("+short www.up.test"), "192.0.2.1\n");
    assert_eq!(server.dig("+short WWW.up.test AAAA +tcp"), "2001:db8::1\n");
    assert!(server.dig("nothing.up.test").contains("status: NXDOMAIN"));
    assert_eq!(server.dig("+short many.up.test").lines().count(), 200, "cut by UDP, whole by TCP");
    assert_eq!(server.dig("+short short.up.test"), "192.0.2.2\n");
    unbound.kill();
    assert_eq!(server.dig("+short www.up.test"), "192.0.2.1\n", "from the cache");
    assert!(server.dig("nothing.up.test").contains("status: NXDOMAIN"), "absence too");
    let stale = eventually("an answer past its time", PATIENCE, || {
        let said = server.dig("short.up.test");
        said.contains("EDE: 3").then_some(said)
    });
    assert!(stale.contains("192.0.2.2"), "{stale}");
    assert!(server.dig("new.up.test").contains("status: SERVFAIL"));
    eventually("it is known to be ill", PATIENCE, || {
        server.dig("another.up.test");
        server.shown("/upstreams").contains("\"healthy\": false")
    });
    unbound.start_again();
    eventually("it is known to be well", PATIENCE, || {
        server.shown("/upstreams").contains("\"healthy\": true")
    });
    eventually("new names are found", PATIENCE, || server.dig("new.up.test").contains("status: NXDOMAIN"));
    let metrics = server.shown("/metrics");
    for origin in ["cache", "stale", "upstream"] {
        let line = format!("causeway_dns_answers_total{{view=\"all\",origin=\"{origin}\"}} 0");
        assert!(!metrics.contains(&line), "{metrics}");
    }
}

#[test]
fn the_next_resolver_is_asked_when_one_is_silent() {
    if !have(&["dig", "curl"]) {
        return;
    }
    let silent = Resolver::start(|_, _, _| {});
    let good = Resolver::start(|socket, question, from| {
        socket.send_to(&reply(question, [192, 0, 2, 1]), from).unwrap();
    });
    let both = format!("{{address: '{}'}}, {{address: '{}'}}", silent.address, good.address);
    let server = Server::start(&plan(&both));
    for number in 0..4 {
        assert_eq!(server.dig(&format!("+short n{number}.example.test")), "192.0.2.1\n");
    }
    // Twice, each sent again once; then the other is asked first.
    assert!(silent.asked() >= 4 && good.asked() == 4, "{} and {}", silent.asked(), good.asked());
    eventually("it is known to be ill", PATIENCE, || {
        server.shown("/upstreams").contains("\"healthy\": false")
    });
}

#[test]
fn the_fastest_resolver_is_asked_if_the_plan_says_so() {
    let answering = |after: Duration| {
        Resolver::start(move |socket, question, from| {
            std::thread::sleep(after);
            socket.send_to(&reply(question, [192, 0, 2, 1]), from).unwrap();
        })
    };
    let (slow, quick) = (answering(Duration::from_millis(200)), answering(Duration::ZERO));
    let server = Server::start(&format!(
        "{{binds: ['127.0.0.1:0'], views: [{{name: all}}], forward: {{order: fastest, upstreams: [\
         {{address: '{}'}}, {{address: '{}'}}]}}}}",
        slow.address, quick.address
    ));
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    socket.set_read_timeout(Some(PATIENCE)).unwrap();
    for id in 0..30 {
        let question = crate::message::question(id, &format!("n{id}.example.test"));
        socket.send_to(&question, server.address).unwrap();
        socket.recv(&mut [0; 512]).unwrap();
    }
    // The others are tried now and then.
    assert!(quick.asked() > 20 && slow.asked() >= 1, "{} quick, {} slow", quick.asked(), slow.asked());
}

#[test]
fn forged_replies_are_not_believed() {
    if !have(&["dig", "curl"]) {
        return;
    }
    const TRUE: [u8; 4] = [192, 0, 2, 1];
    const FORGED: [u8; 4] = [203, 0, 113, 66];
    let liar = Resolver::start(|socket, question, from| {
        let forged = |change: fn(&mut Vec<u8>)| {
            let mut packet = reply(question, FORGED);
            change(&mut packet);
            packet
        };
        for packet in [
            forged(|packet| packet[0] ^= 1),
            forged(|packet| packet[1] ^= 0x80),
            // Another name, and another type.
            forged(|packet| packet[13] = b'z'),
            forged(|packet| {
                let end = packet.len() - 16;
                packet[end - 3] = 28;
            }),
            // A question in place of a reply.
            forged(|packet| packet[2] &= 0x7f),
            vec![0; 3],
        ] {
            socket.send_to(&packet, from).unwrap();
        }
        // All is right but where it comes from.
        let elsewhere = UdpSocket::bind("127.0.0.1:0").unwrap();
        elsewhere.send_to(&reply(question, FORGED), from).unwrap();
        socket.send_to(&reply(question, TRUE), from).unwrap();
    });
    let server = Server::start(&plan(&format!("{{address: '{}'}}", liar.address)));
    for number in 0..20 {
        let name = format!("+short n{number}.example.test");
        assert_eq!(server.dig(&name), "192.0.2.1\n");
        assert_eq!(server.dig(&name), "192.0.2.1\n", "nor kept");
    }
    assert_eq!(liar.asked(), 20);
    let metrics = server.shown("/metrics");
    let strangers = metrics.lines().find_map(|line| {
        line.strip_prefix("causeway_dns_upstream_strangers_total{")?.rsplit(' ').next()?.parse::<u32>().ok()
    });
    assert_eq!(strangers, Some(20 * 6), "{metrics}");
}

#[test]
fn names_of_the_hosted_domain_never_leave() {
    if !have(&["dig"]) {
        return;
    }
    let curious = Resolver::start(|socket, question, from| {
        assert_eq!(name(question), "xlab.test");
        socket.send_to(&reply(question, [192, 0, 2, 1]), from).unwrap();
    });
    let server = Server::start(&plan(&format!("{{address: '{}'}}", curious.address)));
    for name in
        ["lab.test", "x.lab.test", "a.b.c.LAB.test", "www.lab.test AAAA", "lab.test MX", "_a.lab.test TXT"]
    {
        server.dig(name);
    }
    assert_eq!(curious.asked(), 0);
    assert_eq!(server.dig("+short xlab.test"), "192.0.2.1\n");
    assert_eq!(curious.asked(), 1);
}

#[test]
fn equal_questions_are_asked_once() {
    let slow = Resolver::start(|socket, question, from| {
        std::thread::sleep(Duration::from_millis(300));
        socket.send_to(&reply(question, [192, 0, 2, 1]), from).unwrap();
    });
    let server = Server::start(&plan(&format!("{{address: '{}'}}", slow.address)));
    let sockets: Vec<UdpSocket> = (0..20).map(|_| UdpSocket::bind("127.0.0.1:0").unwrap()).collect();
    for (id, socket) in sockets.iter().enumerate() {
        socket.send_to(&crate::message::question(id as u16, "www.example.test"), server.address).unwrap();
    }
    for (id, socket) in sockets.iter().enumerate() {
        let mut buffer = [0; 512];
        socket.set_read_timeout(Some(PATIENCE)).unwrap();
        let length = socket.recv(&mut buffer).unwrap();
        assert_eq!((buffer[1], &buffer[length - 4..length]), (id as u8, &[192, 0, 2, 1][..]));
    }
    assert_eq!(slow.asked(), 1);
}

#[test]
fn a_name_in_use_is_asked_for_again_before_its_time_is_over() {
    if !have(&["curl"]) {
        return;
    }
    let short = Resolver::start(|socket, question, from| {
        socket.send_to(&reply_for(question, [192, 0, 2, 1], 2), from).unwrap();
    });
    let server = Server::start(&plan(&format!("{{address: '{}'}}", short.address)));
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    socket.connect(server.address).unwrap();
    socket.set_read_timeout(Some(PATIENCE)).unwrap();
    eventually("it was asked for again while it was good", PATIENCE, || {
        // Often enough to meet the last tenth of its time.
        for _ in 0..20 {
            socket.send(&crate::message::question(1, "www.example.test")).unwrap();
            socket.recv(&mut [0; 512]).unwrap();
            std::thread::sleep(Duration::from_millis(10));
        }
        !server.shown("/metrics").contains("causeway_dns_prefetches_total 0")
    });
    assert!(short.asked() >= 2, "{}", short.asked());
    // Unless the plan says no.
    let server = Server::start(&format!(
        "{{binds: ['127.0.0.1:0'], views: [{{name: all}}], cache: {{prefetch: false}}, forward: {{upstreams: [\
         {{address: '{}'}}]}}}}",
        short.address
    ));
    socket.connect(server.address).unwrap();
    let until = Instant::now() + Duration::from_millis(2500);
    while Instant::now() < until {
        socket.send(&crate::message::question(1, "www.example.test")).unwrap();
        socket.recv(&mut [0; 512]).unwrap();
        std::thread::sleep(Duration::from_millis(10));
    }
    assert!(server.shown("/metrics").contains("causeway_dns_prefetches_total 0"));
}

#[test]
fn a_resolver_is_asked_by_tls_if_its_certificate_is_right() {
    if !have(&["dig", "kdig", "unbound"]) {
        return;
    }
    let made = rcgen::generate_simple_self_signed(["dns.up.test".to_owned()]).unwrap();
    let unbound = Unbound::with_tls(&made.cert.pem(), &made.signing_key.serialize_pem());
    let directory = tempfile::tempdir().unwrap();
    let authority = directory.path().join("ca.pem");
    std::fs::write(&authority, made.cert.pem()).unwrap();
    let upstream = |name: &str| {
        format!(
            "{{address: '{}', tlsServerName: {name}, tlsCaFile: '{}'}}",
            unbound.address,
            authority.display()
        )
    };
    let server = Server::start(&plan(&upstream("dns.up.test")));
    assert_eq!(server.dig("+short www.up.test"), "192.0.2.1\n");
    assert_eq!(server.dig("+short many.up.test").lines().count(), 200);
    let other = Server::start(&plan(&upstream("other.up.test")));
    assert!(other.dig("www.up.test").contains("status: SERVFAIL"));

    // Authorities that are exchanged count for the next connection, and rubbish changes nothing.
    let strangers = rcgen::generate_simple_self_signed(["dns.up.test".to_owned()]).unwrap();
    std::fs::write(&authority, strangers.cert.pem()).unwrap();
    let server = Server::start(&plan(&upstream("dns.up.test")));
    assert!(server.dig("www.up.test").contains("status: SERVFAIL"));
    std::fs::write(&authority, "nothing").unwrap();
    assert!(server.dig("other.up.test").contains("status: SERVFAIL"));
    std::fs::write(&authority, made.cert.pem()).unwrap();
    eventually("the resolver is trusted", PATIENCE, || {
        let said = server.dig("+short www.up.test");
        if said == "192.0.2.1\n" { Ok(()) } else { Err(said) }
    });
}

#[test]
fn two_servers_that_ask_each_other_are_found_out() {
    if !have(&["dig", "curl"]) {
        return;
    }
    let mut first = Server::start(&plan("{address: '127.0.0.1:9'}"));
    let second = Server::start(&plan(&format!("{{address: '{}'}}", first.address)));
    first.change(&plan(&format!("{{address: '{}'}}", second.address)));
    eventually("one of them sees its own question", PATIENCE, || {
        first.shown("/upstreams").contains("\"loops\": true")
    });
    assert!(first.dig("www.example.test").contains("status: SERVFAIL"));
}

#[test]
fn a_circle_through_another_resolver_is_found_out() {
    if !have(&["dig", "curl", "unbound"]) {
        return;
    }
    let mut server = Server::start(&plan("{address: '127.0.0.1:9'}"));
    let unbound = Unbound::that_forwards_to(server.address);
    server.change(&plan(&format!("{{address: '{}'}}", unbound.address)));
    eventually("it sees its own question", PATIENCE, || {
        server.shown("/upstreams").contains("\"loops\": true")
    });
}

/// The reply to a question by way of an alias.
fn aliased(question: &[u8], target: &str, address: [u8; 4]) -> Vec<u8> {
    let mut packet = reply(question, address);
    let record = packet.split_off(packet.len() - 16);
    packet[7] = 2;
    packet.extend([0xc0, 12, 0, 5, 0, 1, 0, 0, 0, 60, 0, target.len() as u8 + 2]);
    let at = 0xc000 | packet.len() as u16;
    for label in target.split('.') {
        packet.push(label.len() as u8);
        packet.extend(label.bytes());
    }
    packet.push(0);
    packet.extend(at.to_be_bytes());
    packet.extend(&record[2..]);
    packet
}

#[test]
fn an_alias_into_the_hosted_domain_is_answered_from_the_plan() {
    if !have(&["dig"]) {
        return;
    }
    let stranger = Resolver::start(|socket, question, from| {
        let target = name(question).replace("corp.test", "LAB.test");
        socket.send_to(&aliased(question, &target, [203, 0, 113, 66]), from).unwrap();
    });
    let server = Server::start(&format!(
        "{{binds: ['127.0.0.1:0'], forward: {{upstreams: [{{address: '{}'}}]}}, views: [{{name: all, zones: [\
         {{domain: lab.test, records: [{{name: '*.apps.lab.test', addresses: [10.0.0.4]}}]}}]}}]}}",
        stranger.address
    ));
    for round in ["asked", "kept"] {
        for transport in ["+notcp", "+tcp"] {
            let said = server.dig(&format!("{transport} x.apps.corp.test"));
            assert!(said.contains("10.0.0.4") && !said.contains("203.0.113.66"), "{round}: {said}");
            let said = server.dig(&format!("{transport} no.corp.test"));
            assert!(said.contains("status: NXDOMAIN") && said.contains("ns.lab.test."), "{round}: {said}");
            assert!(!said.contains("203.0.113.66"), "{round}: {said}");
            assert!(server.dig(&format!("{transport} +short x.apps.other.test")).contains("203.0.113.66"));
        }
    }
    assert_eq!(stranger.asked(), 3);
}

#[test]
fn the_hosts_resolvers_are_asked_if_the_plan_names_none() {
    if !have(&["dig", "curl"]) {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("resolv.conf");
    std::fs::write(&file, "nameserver 127.0.0.53\nnameserver 127.0.0.54\n").unwrap();
    let server = Server::start_with(
        "{binds: ['127.0.0.1:0'], views: [{name: all}]}",
        &["--resolv-conf", file.to_str().unwrap()],
    );
    let shown = server.shown("/upstreams");
    assert!(shown.contains("127.0.0.53:53") && shown.contains("127.0.0.54:53"), "{shown}");
    crate::server::write(&file, "nameserver 127.0.0.55\n");
    eventually("the change is seen", PATIENCE, || {
        let shown = server.shown("/upstreams");
        shown.contains("127.0.0.55:53") && !shown.contains("127.0.0.54:53")
    });
}
