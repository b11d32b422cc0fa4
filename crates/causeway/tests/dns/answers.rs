//! What is answered from the plan: tables of names by view and transport, the same as Knot's, changed while it is asked.

use std::net::{SocketAddr, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};
use std::time::{Duration, Instant};

use causeway_testkit::blocking::eventually;
use causeway_testkit::{PATIENCE, patience};

use crate::knot::Knot;
use crate::message::{name, question};
use crate::server::{Server, dig, have, kdig, write};

const PLAN: &str = "
binds: ['127.0.0.1:0', '[::1]:0', '0.0.0.0:0']
views:
- name: pods
  sources: [127.0.0.2/32]
  zones:
  - domain: lab.test
    records: [{name: api.lab.test, addresses: [10.9.0.3]}]
- name: vlan
  sources: [127.0.0.0/8, '::1/128']
  reverse: [10.0.0.0/24]
  zones:
  - domain: lab.test
    records:
    - {name: api.lab.test, addresses: [10.0.0.3, 'fd00::3']}
    - {name: '*.apps.lab.test', addresses: [10.0.0.4, 10.0.0.14]}
    - {name: own.apps.lab.test, addresses: [10.0.0.5]}
    - {name: deep.below.lab.test, addresses: ['fd00::6']}
    - {name: ns.lab.test, addresses: [127.0.0.1]}
forward: {upstreams: [{address: '127.0.0.1:9'}]}
";

/// The same records as the second view's.
const ZONE: &str = "
$ORIGIN lab.test.
$TTL 30
@ SOA ns hostmaster 1 3600 600 86400 30
@ NS ns
ns A 127.0.0.1
api A 10.0.0.3
api AAAA fd00::3
*.apps A 10.0.0.4
*.apps A 10.0.0.14
own.apps A 10.0.0.5
deep.below AAAA fd00::6
";

#[test]
fn tools_get_the_answers_of_their_view_by_every_way() {
    if !have(&["dig", "kdig", "curl"]) {
        return;
    }
    let server = Server::start(PLAN);
    let listeners = server.shown("/listeners");
    let port = |ip: &str| {
        let found = listeners.lines().find_map(|line| line.split_once(&format!("\"address\": \"{ip}:")));
        found.unwrap().1.trim_matches(['"', ',']).to_owned()
    };
    let v6: SocketAddr = format!("[::1]:{}", port("[::1]")).parse().unwrap();
    // dig takes no answer from another address than the one that it asked.
    let any: SocketAddr = format!("127.0.0.7:{}", port("0.0.0.0")).parse().unwrap();
    for (address, transport) in
        [server.address, v6, any].into_iter().flat_map(|at| [(at, "+notcp"), (at, "+tcp")])
    {
        for (words, expected) in [
            ("api.lab.test", "10.0.0.3\n"),
            ("API.Lab.TEST AAAA", "fd00::3\n"),
            ("own.apps.lab.test", "10.0.0.5\n"),
            ("a.b.apps.lab.test", "10.0.0.4\n10.0.0.14\n"),
            ("-x 10.0.0.3", "api.lab.test.\n"),
            ("-x fd00::6", "deep.below.lab.test.\n"),
            ("lab.test NS", "ns.lab.test.\n"),
            ("nothing.lab.test", ""),
        ] {
            assert_eq!(
                dig(address, &format!("{transport} +short {words}")),
                expected,
                "{words} {address} {transport}"
            );
        }
        for (words, expected) in [
            ("nothing.lab.test", "status: NXDOMAIN"),
            ("api.lab.test TXT", "status: NOERROR"),
            ("-x 10.0.0.99", "status: NXDOMAIN"),
            ("api.lab.test CH", "status: REFUSED"),
            ("+norecurse www.example.test", "status: REFUSED"),
            ("+edns=1 +noednsneg api.lab.test", "status: BADVERS"),
            ("+opcode=NOTIFY api.lab.test", "status: NOTIMP"),
            ("+cookie api.lab.test", "(good)"),
        ] {
            let said = dig(address, &format!("{transport} {words}"));
            assert!(said.contains(expected), "{words} {address} {transport}: {said}");
        }
    }
    assert!(server.dig("lab.test AXFR +tcp").contains("Transfer failed"));
    assert_eq!(kdig(v6, "+short +tcp api.lab.test AAAA"), "fd00::3\n");
    // The other view: one name and the way back to it, and no other.
    for transport in ["+notcp", "+tcp"] {
        let pods = |words: &str| server.dig(&format!("-b 127.0.0.2 {transport} {words}"));
        assert_eq!(pods("+short api.lab.test"), "10.9.0.3\n");
        assert!(
            pods("api.lab.test AAAA").contains("status: NOERROR")
                && pods("+short api.lab.test AAAA").is_empty()
        );
        assert!(pods("x.apps.lab.test").contains("status: NXDOMAIN"));
        assert_eq!(pods("+short -x 10.9.0.3"), "api.lab.test.\n");
    }
    assert_eq!(server.shown("/ready"), "ready\n");
    let views = server.shown("/views");
    assert!(views.contains("\"name\": \"pods\"") && views.contains("\"names\": "), "{views}");
    let metrics = server.shown("/metrics");
    for line in [
        "causeway_dns_queries_total{view=\"pods\",type=\"A\",rcode=\"NOERROR\"} 2",
        "causeway_dns_queries_total{view=\"pods\",type=\"A\",rcode=\"NXDOMAIN\"} 2",
        "causeway_dns_queries_total{view=\"pods\",type=\"AAAA\",rcode=\"NOERROR\"} 4",
    ] {
        assert!(metrics.contains(line), "{line}: {metrics}");
    }
    let logged = r#""view":"pods","client":"127.0.0.2","transport":"tcp","name":"api.lab.test.","type":"A","rcode":"NOERROR","origin":"plan"}"#;
    eventually("the log has the question", PATIENCE, || {
        server.queries().lines().any(|line| line.ends_with(logged))
    });
    assert!(server.queries().starts_with("{\"time\":\"20"));
}

#[test]
fn answers_are_those_of_knot_with_the_same_records() {
    if !have(&["dig", "knotd"]) {
        return;
    }
    let (server, knot) = (Server::start(PLAN), Knot::start(ZONE));
    let names = [
        "lab.test",
        "ns.lab.test",
        "api.lab.test",
        "API.lab.test",
        "x.api.lab.test",
        "apps.lab.test",
        "x.apps.lab.test",
        "x.y.apps.lab.test",
        "*.apps.lab.test",
        "x.*.apps.lab.test",
        "own.apps.lab.test",
        "x.own.apps.lab.test",
        "below.lab.test",
        "deep.below.lab.test",
        "x.deep.below.lab.test",
        "nothing.lab.test",
    ];
    let kinds = ["A", "AAAA", "NS", "SOA", "TXT", "PTR", "MX"];
    let questions: Vec<String> =
        names.iter().flat_map(|name| kinds.iter().map(move |kind| format!("{name} {kind}"))).collect();
    for transport in ["+notcp", "+tcp"] {
        let words = format!("{transport} +norecurse +noedns {}", questions.join(" "));
        let [ours, theirs] = [server.address, knot.address].map(|address| dig(address, &words));
        let answers = |said: &str| said.split(";; Got answer:").skip(1).map(essence).collect::<Vec<_>>();
        let (ours, theirs) = (answers(&ours), answers(&theirs));
        assert_eq!((ours.len(), theirs.len()), (questions.len(), questions.len()));
        for ((ours, theirs), question) in ours.iter().zip(&theirs).zip(&questions) {
            assert_eq!(ours, theirs, "{transport} {question}");
        }
    }
}

/// What an answer says, in an order of its own.
fn essence(said: &str) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    let mut additional = false;
    for line in said.lines() {
        additional |= line.contains("ADDITIONAL SECTION");
        if let Some((_, status)) = line.split_once("status: ") {
            lines.push(status.split(',').next().unwrap_or_default().to_owned());
        } else if line.starts_with(";; flags:") {
            lines.push(if line.contains(" aa") { "aa".to_owned() } else { "not aa".to_owned() });
        } else if !line.starts_with(';') && !line.is_empty() && !additional {
            let mut words: Vec<&str> = line.split_whitespace().collect();
            if words.get(3) == Some(&"SOA") {
                // The serial number.
                words.remove(6);
            }
            lines.push(words.join(" "));
        }
    }
    lines.sort();
    lines
}

#[test]
fn a_change_of_the_plan_loses_no_question() {
    let plan = |last: u8| {
        format!(
            "{{binds: ['127.0.0.1:0'], forward: {{upstreams: [{{address: '127.0.0.1:9'}}]}}, views: [{{name: all, zones: [\
             {{domain: lab.test, records: [{{name: api.lab.test, addresses: [10.0.0.{last}]}}]}}]}}]}}"
        )
    };
    let server = Server::start(&plan(1));
    let (stop, newest) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicUsize::new(0)));
    let asking = std::thread::spawn({
        let (stop, newest, address) = (Arc::clone(&stop), Arc::clone(&newest), server.address);
        move || {
            let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
            socket.connect(address).unwrap();
            socket.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
            let (mut buffer, mut count) = ([0; 512], 0_u16);
            while !stop.load(Relaxed) {
                count = count.wrapping_add(1);
                socket.send(&question(count, "api.lab.test")).unwrap();
                let length = socket.recv(&mut buffer).expect("an answer to every question");
                assert_eq!(
                    (&buffer[..2], name(&buffer).as_str()),
                    (&count.to_be_bytes()[..], "api.lab.test")
                );
                newest.store(usize::from(buffer[length - 1]), Relaxed);
            }
        }
    });
    let mut times = Vec::new();
    for last in 2..=6 {
        let began = Instant::now();
        write(&server.config(), &plan(last));
        let what = format!("the address ends with {last}");
        eventually(&what, PATIENCE, || newest.load(Relaxed) == usize::from(last));
        times.push(began.elapsed());
    }
    stop.store(true, Relaxed);
    asking.join().unwrap();
    // One of them may meet a moment without a processor.
    times.sort();
    assert!(times[2] < patience(Duration::from_secs(1)), "{times:?}");
}

#[test]
fn a_bad_plan_is_refused_with_its_line_and_the_last_one_runs_on() {
    if !have(&["dig"]) {
        return;
    }
    let mut server = Server::start(PLAN);
    for (bad, place, words) in [
        (
            "binds: [127.0.0.1]\nviews: []\n",
            "zone.yaml:1",
            "`127.0.0.1` is not an address with a port: write one, like",
        ),
        (
            "binds: ['127.0.0.1:0']\nviews:\n- {name: a, sources: [10.0.0.0/99]}\n",
            "zone.yaml:3",
            "`10.0.0.0/99` is not an address: write one, like",
        ),
        ("binds: ['127.0.0.1:0']\nviews:\n- name: a\n  sources: []\n", "zone.yaml:4", "leave the field out"),
        (
            "binds: ['0.0.0.0:53']\nviews: []\nforward:\n  upstreams:\n  - address: 127.0.0.1:53\n",
            "zone.yaml:5",
            "forward.upstreams[0].address: 127.0.0.1:53 is this server itself",
        ),
        (
            "binds: ['127.0.0.1:0']\nviews: []\nforward:\n  upstreams:\n  - address: 192.0.2.1:853\n    \
             tlsServerName: dns.test\n    tlsCaFile: /no/such/file\n",
            "zone.yaml:7",
            "can't read the authorities /no/such/file",
        ),
    ] {
        write(&server.config(), bad);
        let checked = std::process::Command::new(causeway_testkit::server::program())
            .args(["dns", "--check", "--config"])
            .arg(server.config())
            .output()
            .unwrap();
        let said = String::from_utf8(checked.stderr).unwrap();
        assert!(!checked.status.success() && said.contains(place) && said.contains(words), "{said}");
    }
    assert_eq!(server.dig("+short api.lab.test"), "10.0.0.3\n");
    server.change(&PLAN.replace("[10.0.0.3, 'fd00::3']", "[10.0.0.33]"));
    assert_eq!(server.dig("+short api.lab.test"), "10.0.0.33\n");
    assert!(server.is_running());
}
