//! What has to hold for any bytes from the network; fuzz targets and tests call it.

#![allow(clippy::panic, reason = "that is how it says that something does not hold")]

use std::sync::LazyLock;

use causeway_ir::dns::DnsPlan;
use tokio::runtime::Runtime;

use crate::answer::{Asker, Desk, Outcome, answer};
use crate::clock::Moment;
use crate::cookie::Secret;
use crate::forward::Forwarder;
use crate::metrics::Metrics;
use crate::query_log::QueryLog;
use crate::relay;
use crate::table::Table;
use crate::wire::query::{Parsed, Query, parse};
use crate::wire::reply::Reply;
use crate::wire::response::Tail;
use crate::wire::{DATAGRAM, HEADER, LONGEST, flag, kind, name, u16_at, u32_at};
use crate::zones::Zones;

/// A server without sockets.
struct Server {
    desk: Desk,
    table: Table,
    _runtime: Runtime,
}

const PLAN: &str = r#"{
    "binds": ["10.0.0.2:53"],
    "views": [{"name": "all", "sources": ["10.0.0.0/24"], "reverse": ["10.0.0.0/24"], "zones": [
        {"domain": "lab.test", "records": [
            {"name": "api.lab.test", "addresses": ["10.0.0.3", "fd00::3"]},
            {"name": "*.apps.lab.test", "addresses": ["10.0.0.4"]}]}]}]
}"#;

static SERVER: LazyLock<Server> = LazyLock::new(|| {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    let _inside = runtime.enter();
    let plan: DnsPlan = serde_json::from_str(PLAN).expect("a plan");
    let metrics = Metrics::new();
    let forwarder = Forwarder::new(&plan, &[], &metrics).expect("no resolver can be wrong");
    let table = Table::new(&plan, &metrics, 1, forwarder);
    let desk = Desk { secret: Secret::new([1; 16]), log: QueryLog::default() };
    Server { desk, table, _runtime: runtime }
});

/// A client's message: it is answered with a message that every resolver can read, that is no longer than the client takes and
/// that no server would answer in turn; one that can't be a question is not answered; and no name of the zone leaves.
pub fn question(bytes: &[u8]) {
    for (udp, room) in [(true, DATAGRAM), (false, LONGEST), (false, 80)] {
        let asker = Asker { address: [10, 0, 0, 9].into(), worker: 0, udp };
        let mut out = vec![0; room];
        let now = Moment { millis: 1, unix: 1 };
        let outcome = answer(&SERVER.desk, &SERVER.table, asker, now, None, bytes, &mut out);
        match (parse(bytes), outcome) {
            (Parsed::Silence, outcome) => assert_eq!(outcome, Outcome::Silence),
            (Parsed::Query(query), Outcome::Written(written)) => {
                let packet = &out[..written.len];
                let most = if udp { query.longest_datagram() } else { room };
                assert!(written.len <= most, "{} bytes where {most} are taken", written.len);
                assert_eq!(packet[HEADER..query.question_end()], bytes[HEADER..query.question_end()]);
                assert_message(packet, bytes);
            }
            (Parsed::Query(query), Outcome::Forward) => {
                let mut names = std::iter::successors(Some(query.name.as_bytes()), |name| name::parent(name));
                assert!(names.all(|name| name != b"\x03lab\x04test\x00"), "a name of the zone leaves");
            }
            (_, Outcome::Written(written)) => assert_message(&out[..written.len], bytes),
            (_, Outcome::Silence) => assert!(room < DATAGRAM, "what was asked is not answered"),
            (_, Outcome::Forward) => panic!("what is no question is asked elsewhere"),
        }
    }
}

/// What comes in place of a reply: as it is, and with the question that was asked in front of it. Whatever is taken can be
/// answered with, again and again, and no time to live grows.
pub fn reply(bytes: &[u8]) {
    let asked = b"\x12\x34\x01\x00\x00\x01\x00\x00\x00\x00\x00\x00\x03wWw\x04test\x00\x00\x01\x00\x01";
    let Parsed::Query(query) = parse(asked) else { panic!("a question") };
    take(asked, &query, bytes);
    if let Some((counts, records)) = bytes.split_at_checked(8) {
        let mut packet = asked.to_vec();
        packet.extend(records);
        packet[2..4].copy_from_slice(&[counts[0] | 0x80, counts[1]]);
        packet[6..12].copy_from_slice(&counts[2..]);
        take(asked, &query, &packet);
    }
}

fn take(asked: &[u8], query: &Query<'_>, packet: &[u8]) {
    let Ok(reply) = Reply::read(asked, asked.len(), packet) else { return };
    assert_eq!(packet[..2], asked[..2]);
    assert_eq!(packet[HEADER..asked.len()], asked[HEADER..]);
    for (age, most) in [(0, u32::MAX), (7, 30)] {
        let mut out = vec![0; LONGEST];
        let view = SERVER.table.view([10, 0, 0, 9].into()).expect("a view");
        let mut len = 0;
        for zones in [&view.zones, &Zones::default()] {
            let written = relay::answer(&reply, zones, query, Tail::default(), age, most, &mut out);
            len = written.expect("room for a question").len;
            assert_message(&out[..len], asked);
        }
        // Those without zones are all from the reply.
        for (_, ttl) in records(&out[..len]).expect("whole records") {
            assert!(ttl <= most);
        }
    }
}

/// An answer to this message that can be read to its last byte.
fn assert_message(packet: &[u8], asked: &[u8]) {
    assert!(packet.len() >= HEADER && packet[..2] == asked[..2], "the id is another");
    assert!(u16_at(packet, 2).is_some_and(|flags| flags & flag::QR != 0), "the answer is a question");
    let records = records(packet);
    assert!(records.is_some(), "not a message: {packet:02x?}");
    let opts = records.into_iter().flatten().filter(|(kind, _)| *kind == kind::OPT).count();
    assert!(opts <= 1, "{opts} OPTs");
}

/// Type and time to live of all records, if they end where the message does.
fn records(packet: &[u8]) -> Option<Vec<(u16, u32)>> {
    let [questions, answers, authorities, additionals] = [4, 6, 8, 10].map(|at| u16_at(packet, at));
    let mut at = HEADER;
    for _ in 0..questions? {
        at = name::skip(packet, at)? + 4;
    }
    let mut found = Vec::new();
    for _ in 0..u32::from(answers?) + u32::from(authorities?) + u32::from(additionals?) {
        at = name::skip(packet, at)?;
        found.push((u16_at(packet, at)?, u32_at(packet, at + 4)?));
        at += 10 + usize::from(u16_at(packet, at + 8)?);
    }
    (at == packet.len()).then_some(found)
}

#[cfg(test)]
mod tests {
    use causeway_testkit::fuzz::drive;

    use crate::wire::query::tests::question;

    #[test]
    fn bent_questions_are_answered_as_they_should() {
        let cookie = Some(&b"\x00\x0a\x00\x08abcdefgh"[..]);
        let mut seeds = Vec::new();
        for name in [
            "api.lab.test",
            "x.y.apps.lab.test",
            "no.lab.test",
            "lab.test",
            "3.0.0.10.in-addr.arpa",
            "example.test",
            "",
        ] {
            for kind in [1, 28, 6, 12, 255, 252] {
                seeds.extend([question(name, kind, None), question(name, kind, cookie)]);
            }
        }
        drive("question", &seeds, super::question);
    }

    #[test]
    fn bent_replies_are_taken_whole_or_not_at_all() {
        // Flags, counts, and records that point to the question.
        let address = b"\xc0\x0c\x00\x01\x00\x01\x00\x00\x00\x3c\x00\x04\x0a\x00\x00\x01";
        let soa = b"\xc0\x10\x00\x06\x00\x01\x00\x00\x00\x3c\x00\x16\x00\x00\x00\x00\x00\x01\x00\x00\x00\x02\x00\x00\x00\x03\x00\x00\x00\x04\x00\x00\x00\x05";
        let alias = b"\xc0\x0c\x00\x05\x00\x01\x00\x00\x00\x3c\x00\x0a\x01x\x03lab\xc0\x10";
        let opt = b"\x00\x00\x29\x04\xd0\x00\x00\x00\x00\x00\x00";
        let seeds = [
            [&b"\x00\x80\x00\x02\x00\x00\x00\x01"[..], address, address, opt].concat(),
            [&b"\x00\x83\x00\x00\x00\x01\x00\x01"[..], soa, opt].concat(),
            [&b"\x00\x80\x00\x01\x00\x01\x00\x00"[..], address, soa].concat(),
            [&b"\x00\x80\x00\x02\x00\x00\x00\x00"[..], alias, address].concat(),
        ];
        drive("reply", &seeds, super::reply);
    }
}
