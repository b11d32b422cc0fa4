use proptest::prelude::*;

use super::*;
use crate::forward::Forwarder;
use crate::metrics::Metrics;
use crate::wire::query::tests::question;
use causeway_ir::dns::DnsPlan;

const PLAN: &str = "
binds: ['10.0.0.2:53']
views:
- name: vlan
  sources: [10.0.0.0/24]
  reverse: [10.0.0.0/24]
  zones:
  - domain: lab.test
    ttl: 60s
    negativeTtl: 20s
    records:
    - {name: api.lab.test, addresses: [10.0.0.3, 'fd00::3']}
    - {name: '*.apps.lab.test', addresses: [10.0.0.4]}
    - {name: own.apps.lab.test, addresses: [10.0.0.5]}
    - {name: deep.below.lab.test, addresses: [10.0.0.6]}
- name: pods
  sources: [10.9.0.0/16]
  recursion: []
  zones:
  - domain: lab.test
    records: [{name: api.lab.test, addresses: [10.9.0.3]}]
";

struct Bench {
    desk: Desk,
    table: Table,
}

/// What came back.
#[derive(Debug, PartialEq, Eq)]
struct Seen {
    code: u16,
    flags: u16,
    counts: [u16; 4],
    bytes: Vec<u8>,
}

impl Bench {
    fn new(text: &str) -> Self {
        let plan: DnsPlan = serde_saphyr::from_str(text).unwrap();
        assert_eq!(plan.validate(), []);
        let metrics = Metrics::new();
        let forwarder = Forwarder::new(&plan, &[], &metrics).unwrap();
        let table = Table::new(&plan, &metrics, 1, forwarder);
        Self { desk: Desk { secret: Secret::new([1; 16]), log: QueryLog::default() }, table }
    }

    fn outcome(&self, client: &str, packet: &[u8], out: &mut [u8]) -> Outcome {
        let asker = Asker { address: client.parse().unwrap(), worker: 0, udp: true };
        answer(&self.desk, &self.table, asker, Moment { millis: 1, unix: 1 }, None, packet, out)
    }

    fn ask(&self, client: &str, packet: &[u8]) -> Option<Seen> {
        let mut out = [0; 1232];
        let Outcome::Written(written) = self.outcome(client, packet, &mut out) else { return None };
        let counts = [4, 6, 8, 10].map(|at| u16_at(&out, at).unwrap());
        let bytes = out[..written.len].to_vec();
        let flags = u16_at(&out, 2).unwrap() & !flag::RCODE;
        Some(Seen { code: written.code, flags, counts, bytes })
    }

    fn name(&self, client: &str, name: &str, kind: u16) -> Seen {
        self.ask(client, &question(name, kind, None)).unwrap()
    }
}

#[tokio::test]
async fn the_clients_network_picks_the_view() {
    let bench = Bench::new(PLAN);
    assert!(bench.name("10.0.0.9", "api.lab.test", kind::A).bytes.ends_with(&[10, 0, 0, 3]));
    assert!(bench.name("10.9.1.1", "API.LAB.test", kind::A).bytes.ends_with(&[10, 9, 0, 3]));
    assert_eq!(bench.name("192.0.2.1", "api.lab.test", kind::A).code, code::REFUSED);
}

#[tokio::test]
async fn a_record_is_kept_as_long_as_it_says_itself_or_else_as_the_zone_says() {
    let plan = PLAN.replace("own.apps.lab.test, addresses", "own.apps.lab.test, ttl: 7s, addresses");
    let bench = Bench::new(&plan);
    for (name, ttl) in [("own.apps.lab.test", 7), ("api.lab.test", 60)] {
        let bytes = bench.name("10.0.0.9", name, kind::A).bytes;
        let at = bytes.len() - 10;
        assert_eq!(bytes[at..at + 4], [0, 0, 0, ttl], "{name}");
    }
}

#[tokio::test]
async fn tells_a_name_that_is_not_there_from_one_without_such_records() {
    let bench = Bench::new(PLAN);
    for (name, kind, expected, answers) in [
        ("api.lab.test", kind::A, code::NOERROR, 1),
        ("api.lab.test", kind::AAAA, code::NOERROR, 1),
        ("api.lab.test", 16, code::NOERROR, 0),
        ("other.lab.test", kind::A, code::NXDOMAIN, 0),
        ("below.api.lab.test", kind::A, code::NXDOMAIN, 0),
        // A name between exists without records.
        ("below.lab.test", kind::A, code::NOERROR, 0),
        ("apps.lab.test", kind::A, code::NOERROR, 0),
        ("console.apps.lab.test", kind::A, code::NOERROR, 1),
        ("a.b.apps.lab.test", kind::A, code::NOERROR, 1),
        ("console.apps.lab.test", kind::AAAA, code::NOERROR, 0),
        ("*.apps.lab.test", kind::A, code::NOERROR, 1),
        // RFC 4592: what exists is not covered, nor what is below.
        ("own.apps.lab.test", kind::AAAA, code::NOERROR, 0),
        ("x.own.apps.lab.test", kind::A, code::NXDOMAIN, 0),
        ("x.*.apps.lab.test", kind::A, code::NXDOMAIN, 0),
        ("lab.test", kind::SOA, code::NOERROR, 1),
        ("lab.test", kind::NS, code::NOERROR, 1),
        ("lab.test", kind::A, code::NOERROR, 0),
        ("ns.lab.test", kind::A, code::NOERROR, 1),
        ("api.lab.test", kind::ANY, code::NOERROR, 1),
        ("3.0.0.10.in-addr.arpa", kind::PTR, code::NOERROR, 1),
        ("99.0.0.10.in-addr.arpa", kind::PTR, code::NXDOMAIN, 0),
    ] {
        let seen = bench.name("10.0.0.9", name, kind);
        let authorities = u16::from(answers == 0);
        assert_eq!((seen.code, seen.counts), (expected, [1, answers, authorities, 0]), "{name} {kind}");
        assert_eq!(seen.flags & flag::AA, flag::AA, "{name} {kind}");
    }
}

#[tokio::test]
async fn of_an_open_zone_nothing_but_its_records_is_answered() {
    let bench = Bench::new(
        "binds: ['10.0.0.2:53']
views:
- name: vlan
  zones:
  - {domain: lab.test, records: [{name: api.lab.test, addresses: [10.0.0.3]}]}
  - {domain: example.org, open: true, records: [{name: example.org, addresses: [10.0.0.4]}]}
  - {domain: example.net, open: true, records: [{name: '*.apps.example.net', addresses: [10.0.0.4]}]}
",
    );
    for (name, kind, answers) in [
        ("example.org", kind::A, Some(1)),
        // The name is ours in all its types, so that nobody is led past.
        ("example.org", kind::AAAA, Some(0)),
        ("www.example.org", kind::A, None),
        ("ns.example.org", kind::A, None),
        ("x.apps.example.net", kind::A, Some(1)),
        ("apps.example.net", kind::A, None),
        ("example.net", kind::NS, None),
        ("www.example.net", kind::A, None),
    ] {
        let mut out = [0; 1232];
        let outcome = bench.outcome("10.0.0.9", &question(name, kind, None), &mut out);
        let counted = matches!(outcome, Outcome::Written(_)).then(|| u16_at(&out, 6).unwrap());
        assert_eq!(counted, answers, "{name} {kind}: {outcome:?}");
        assert!(answers.is_some() || outcome == Outcome::Forward, "{name} {kind}: {outcome:?}");
    }
    assert_eq!(bench.name("10.0.0.9", "x.lab.test", kind::A).code, code::NXDOMAIN, "a zone of our own");
}

#[tokio::test]
async fn absence_has_the_zones_soa_and_time() {
    let bench = Bench::new(PLAN);
    let seen = bench.name("10.0.0.9", "x.lab.test", kind::A);
    let soa = &seen.bytes[12 + 12 + 4..];
    // The zone's name begins two bytes into the question's.
    assert_eq!(soa[..10], [0xc0, 14, 0, 6, 0, 1, 0, 0, 0, 20]);
    assert_eq!(soa[12..17], [2, b'n', b's', 0xc0, 14]);
    assert_eq!(soa[soa.len() - 4..], [0, 0, 0, 20]);
}

#[tokio::test]
async fn names_of_the_zone_never_leave_and_others_only_for_those_who_may() {
    let bench = Bench::new(PLAN);
    let mut out = [0; 1232];
    let elsewhere = question("www.example.test", kind::A, None);
    assert_eq!(bench.outcome("10.0.0.9", &elsewhere, &mut out), Outcome::Forward);
    assert_eq!(bench.ask("10.9.1.1", &elsewhere).unwrap().code, code::REFUSED);
    let mut without_recursion = elsewhere.clone();
    without_recursion[2] = 0;
    assert_eq!(bench.ask("10.0.0.9", &without_recursion).unwrap().code, code::REFUSED);
    for name in ["lab.test", "nothing.lab.test", "a.b.c.lab.test"] {
        assert!(matches!(
            bench.outcome("10.0.0.9", &question(name, 99, None), &mut out),
            Outcome::Written(_)
        ));
    }
}

#[tokio::test]
async fn zones_are_not_handed_out_and_cookies_are() {
    let bench = Bench::new(PLAN);
    assert_eq!(bench.name("10.0.0.9", "lab.test", kind::AXFR).code, code::REFUSED);
    let asked = question("api.lab.test", kind::A, Some(b"\x00\x0a\x00\x08abcdefgh"));
    let seen = bench.ask("10.0.0.9", &asked).unwrap();
    assert_eq!(seen.counts, [1, 1, 0, 1]);
    let at = seen.bytes.len() - 28;
    assert_eq!(&seen.bytes[at..at + 12], b"\x00\x0a\x00\x18abcdefgh");
}

#[tokio::test]
async fn what_is_too_long_for_a_datagram_is_to_be_asked_by_tcp() {
    let addresses: Vec<String> = (1..=100).map(|i| format!("10.1.0.{i}")).collect();
    let records = format!("{{name: many.lab.test, addresses: [{}]}}", addresses.join(", "));
    let plan = format!(
        "{{binds: ['[::1]:53'], views: [{{name: a, zones: [{{domain: lab.test, records: [{records}]}}]}}]}}"
    );
    let bench = Bench::new(&plan);
    let seen = bench.name("10.0.0.9", "many.lab.test", kind::A);
    assert_eq!((seen.flags & flag::TC, seen.counts), (flag::TC, [1, 0, 0, 0]));
    let asker = Asker { address: "10.0.0.9".parse().unwrap(), worker: 0, udp: false };
    let mut out = vec![0; 65_535];
    let packet = question("many.lab.test", kind::A, None);
    let outcome =
        answer(&bench.desk, &bench.table, asker, Moment { millis: 1, unix: 1 }, None, &packet, &mut out);
    assert!(matches!(outcome, Outcome::Written(written) if !written.truncated && written.len > 1600));
}

#[tokio::test]
async fn one_zone_may_be_within_another() {
    let bench = Bench::new(
        "{binds: ['[::1]:53'], views: [{name: a, zones: [
            {domain: a.b.lab.test, records: [{name: x.a.b.lab.test, addresses: [10.0.0.1]}]},
            {domain: lab.test, negativeTtl: 7s}]}]}",
    );
    assert_eq!(bench.name("10.0.0.9", "x.a.b.lab.test", kind::A).counts[1], 1);
    assert_eq!(bench.name("10.0.0.9", "b.lab.test", kind::A).code, code::NOERROR);
    assert_eq!(bench.name("10.0.0.9", "c.lab.test", kind::A).code, code::NXDOMAIN);
    let inner = bench.name("10.0.0.9", "y.a.b.lab.test", kind::A);
    assert!(inner.bytes.ends_with(&[0, 0, 0, 30]), "the inner zone's time");
}

#[test]
fn anything_at_all_is_survived() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let _inside = runtime.enter();
    let bench = Bench::new(PLAN);
    proptest!(|(bytes: Vec<u8>, at in 0..60_usize, byte: u8, room in 0..1300_usize)| {
        let mut out = vec![0; room];
        bench.outcome("10.0.0.9", &bytes, &mut out);
        let mut packet = question("x.apps.lab.test", kind::A, Some(b"\x00\x0a\x00\x08abcdefgh"));
        if let Some(place) = packet.get_mut(at) {
            *place = byte;
        }
        if let Outcome::Written(written) = bench.outcome("10.0.0.9", &packet, &mut out) {
            prop_assert!(written.len <= room);
            prop_assert_eq!(&out[..2], &packet[..2]);
            prop_assert!(out[2] & 0x80 != 0);
        }
    });
}
