//! What another resolver answered, as a view passes it on. Where an alias leads into a zone of the view, the zone says what is
//! there: nobody else can know, and nobody else is believed.

use crate::wire::query::Query;
use crate::wire::reply::{Alias, Reply};
use crate::wire::response::{Response, Tail, Written};
use crate::wire::{code, flag, kind};
use crate::zones::{Found, Node, Zones};

/// Answers a question for the same name. `age` is taken from every time to live; with `at_most` none is longer.
pub(crate) fn answer(
    reply: &Reply,
    zones: &Zones,
    query: &Query<'_>,
    tail: Tail,
    age: u32,
    at_most: u32,
    out: &mut [u8],
) -> Option<Written> {
    let mut response = Response::to(query, tail, out);
    response.set(flag::RA);
    match alias_within(reply, zones, query.kind) {
        None => {
            if reply.is_authentic() && (tail.dnssec || query.flags & flag::AD != 0) {
                response.set(flag::AD);
            }
            response.code(reply.code);
            reply.write(&mut response, None, age, at_most);
        }
        Some((alias, node, exists)) => {
            reply.write(&mut response, Some(alias), age, at_most);
            if let Some(set) = node.set(query.kind).filter(|_| exists) {
                response.answer_as(&alias.target, &set.records);
            } else {
                response.code(if exists { code::NOERROR } else { code::NXDOMAIN });
                response.authority(&zones.whole_soa(node, &alias.target));
            }
        }
    }
    response.finish()
}

/// The first alias that leads into a zone, to which node, and whether the name itself exists. Who asks for aliases themselves
/// is not led anywhere.
fn alias_within<'r, 'z>(
    reply: &'r Reply,
    zones: &'z Zones,
    kind: u16,
) -> Option<(&'r Alias, &'z Node, bool)> {
    if matches!(kind, kind::CNAME | kind::ANY) {
        return None;
    }
    reply.aliases().iter().find_map(|alias| match zones.find(&alias.target) {
        Found::Node(node) => Some((alias, node, true)),
        Found::Missing(node) => Some((alias, node, false)),
        Found::Elsewhere => None,
    })
}

#[cfg(test)]
mod tests {
    use causeway_ir::dns::View;

    use super::*;
    use crate::wire::name;
    use crate::wire::query::{Parsed, parse, tests::question};

    const VIEW: &str = "{name: a, zones: [{domain: lab.test, negativeTtl: 7s, records: [
        {name: '*.apps.lab.test', addresses: [10.0.0.4, 10.0.0.5]}]}]}";

    /// What is passed on of a reply whose alias leads there, to an address that its owner chose.
    fn passed_on(target: &str, kind: u16, room: usize) -> (Written, Vec<u8>) {
        let view: View = serde_saphyr::from_str(VIEW).unwrap();
        let zones = Zones::new(&view, &[]);
        let asked = question("www.corp.test", kind, None);
        let mut packet = asked.clone();
        packet[2] |= 0x80;
        packet[7] = 2;
        let target = name::from_text(target);
        packet.extend([0xc0, 12, 0, 5, 0, 1, 0, 0, 0, 60, 0, target.len() as u8]);
        let at = 0xc000 | packet.len() as u16;
        packet.extend(&target);
        packet.extend(at.to_be_bytes());
        packet.extend([0, 1, 0, 1, 0, 0, 0, 60, 0, 4, 203, 0, 113, 66]);
        let reply = Reply::read(&asked, asked.len(), &packet).unwrap();
        let Parsed::Query(query) = parse(&asked) else { panic!("not read") };
        let mut out = vec![0; room];
        let written = answer(&reply, &zones, &query, Tail::default(), 10, 3600, &mut out).unwrap();
        out.truncate(written.len);
        (written, out)
    }

    #[test]
    fn a_zone_has_the_word_where_an_alias_leads_into_it() {
        let (written, out) = passed_on("x.apps.LAB.test", kind::A, 512);
        assert_eq!((written.code, &out[6..12]), (code::NOERROR, &[0, 3, 0, 0, 0, 0][..]));
        let record = |last| {
            [&name::from_text("x.apps.lab.test")[..], &[0, 1, 0, 1, 0, 0, 0, 30, 0, 4, 10, 0, 0, last]]
                .concat()
        };
        assert!(out.ends_with(&[record(4), record(5)].concat()), "{out:02x?}");
        let (written, out) = passed_on("x.apps.lab.test", kind::AAAA, 512);
        assert_eq!((written.code, &out[6..12]), (code::NOERROR, &[0, 1, 0, 1, 0, 0][..]));
        let (written, out) = passed_on("no.lab.test", kind::A, 512);
        assert_eq!((written.code, &out[6..12]), (code::NXDOMAIN, &[0, 1, 0, 1, 0, 0][..]));
        let data = [&b"\x02ns\x03lab\x04test\0"[..], b"\x0ahostmaster\x03lab\x04test\0"].concat();
        let soa = out.len() - (10 + 10 + data.len() + 20);
        assert_eq!(&out[soa..soa + 10], b"\x03lab\x04test\0");
        assert_eq!(out[soa + 10..soa + 20], [0, 6, 0, 1, 0, 0, 0, 7, 0, (data.len() + 20) as u8]);
        assert_eq!(&out[soa + 20..soa + 20 + data.len()], data);
    }

    #[test]
    fn what_leads_elsewhere_or_does_not_fit_is_as_ever() {
        let (written, out) = passed_on("x.other.test", kind::A, 512);
        assert_eq!((written.code, &out[6..8]), (code::NOERROR, &[0, 2][..]));
        assert!(out.ends_with(&[203, 0, 113, 66]));
        assert_eq!(passed_on("x.apps.lab.test", kind::CNAME, 512).1[6..8], [0, 2]);
        let (written, out) = passed_on("x.apps.lab.test", kind::A, 100);
        assert!(written.truncated && out[6..12] == [0; 6], "{out:02x?}");
    }
}
