//! What another resolver answered: checked against what it was asked, and kept in a form that answers later questions for
//! the same name.

use super::name;
use super::response::Response;
use super::{HEADER, code, flag, kind, u16_at, u32_at};

/// Why a message is not the reply.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Wrong {
    /// To another question, or with another id: perhaps forged, so wait for the right one.
    Stranger,
    /// The name comes back in another case than it was sent: perhaps forged, so ask by a way that can't be.
    Case,
    /// To be asked again by TCP.
    Truncated,
    /// Not a message that could be passed on.
    Broken,
}

/// A reply without its EDNS, as long as it may be kept.
#[derive(Debug)]
pub(crate) struct Reply {
    /// The message after the question.
    records: Box<[u8]>,
    counts: [u16; 3],
    /// The places of the records' times to live, in `records`.
    ttls: Box<[u16]>,
    pub(crate) code: u16,
    authentic: bool,
    aliases: Box<[Alias]>,
    /// Seconds that it may be kept; 0 if it must not.
    pub(crate) ttl: u32,
}

/// An alias (CNAME) among the answers.
#[derive(Debug)]
pub(crate) struct Alias {
    /// Where it leads to, in lower case and wire format.
    pub(crate) target: Box<[u8]>,
    /// Where its record ends, in `records`.
    end: usize,
    /// How many answers there are until then.
    answers: u16,
}

impl Reply {
    /// Reads a reply to this question, which stands as it was sent with its header and nothing behind it but EDNS.
    pub(crate) fn read(asked: &[u8], question_end: usize, packet: &[u8]) -> Result<Self, Wrong> {
        let flags = u16_at(packet, 2).ok_or(Wrong::Stranger)?;
        if packet.len() < HEADER || packet[..2] != asked[..2] || flags & flag::QR == 0 {
            return Err(Wrong::Stranger);
        }
        let question = asked.get(HEADER..question_end).ok_or(Wrong::Stranger)?;
        let echoed = packet.get(HEADER..question_end);
        let is_one = u16_at(packet, 4) == Some(1) && flags & flag::OPCODE == 0;
        match echoed.filter(|_| is_one) {
            Some(echoed) if echoed == question => {}
            Some(echoed) if echoed.eq_ignore_ascii_case(question) => return Err(Wrong::Case),
            _ => return Err(Wrong::Stranger),
        }
        if flags & flag::TC != 0 {
            return Err(Wrong::Truncated);
        }
        records(packet, question_end, flags).ok_or(Wrong::Broken)
    }

    pub(crate) fn aliases(&self) -> &[Alias] {
        &self.aliases
    }

    /// Whether the resolver says that it has checked the signatures.
    pub(crate) fn is_authentic(&self) -> bool {
        self.authentic
    }

    /// Writes the records into an answer for the same name, with `until` none behind that alias. `age` is taken from every
    /// time to live; with `at_most` none is longer.
    pub(crate) fn write(&self, response: &mut Response<'_>, until: Option<&Alias>, age: u32, at_most: u32) {
        let (counts, end) = match until {
            None => (self.counts, self.records.len()),
            Some(alias) => ([alias.answers, 0, 0], alias.end),
        };
        let Some(records) = response.records(counts, &self.records[..end]) else { return };
        for at in self.ttls.iter().map(|at| usize::from(*at)).take_while(|at| *at < end) {
            let ttl = time(u32_at(records, at).unwrap_or_default()).saturating_sub(age).min(at_most);
            records[at..at + 4].copy_from_slice(&ttl.to_be_bytes());
        }
    }

    /// Memory that it takes.
    pub(crate) fn size(&self) -> usize {
        let aliases = self.aliases.iter().map(|alias| size_of::<Alias>() + alias.target.len());
        size_of::<Self>() + self.records.len() + 2 * self.ttls.len() + aliases.sum::<usize>()
    }

    /// Whether another resolver may know better.
    pub(crate) fn is_failure(&self) -> bool {
        !matches!(self.code, code::NOERROR | code::NXDOMAIN)
    }
}

/// A time with the highest bit set is none (RFC 2181 §8).
fn time(ttl: u32) -> u32 {
    if ttl > i32::MAX as u32 { 0 } else { ttl }
}

fn records(packet: &[u8], start: usize, flags: u16) -> Option<Reply> {
    let counts = [6, 8, 10].map(|at| u16_at(packet, at).unwrap_or_default());
    let (mut at, mut end) = (start, start);
    let (mut ttls, mut aliases) = (Vec::new(), Vec::new());
    let (mut shortest, mut negative) = (u32::MAX, None);
    let mut code = flags & flag::RCODE;
    let mut kept = [0_u16; 3];
    'sections: for (section, count) in counts.into_iter().enumerate() {
        for _ in 0..count {
            at = name::skip(packet, at)?;
            let (kind, ttl) = (u16_at(packet, at)?, u32_at(packet, at + 4)?);
            let length = usize::from(u16_at(packet, at + 8)?);
            let after = at + 10 + length;
            packet.get(at + 10..after)?;
            if kind == kind::OPT {
                code |= (ttl >> 24 << 4) as u16;
                // Names behind it could be pointed to; nothing that matters stands there.
                break 'sections;
            }
            let ttl = time(ttl);
            shortest = shortest.min(ttl);
            if kind == kind::SOA && section == 1 {
                let minimum = u32_at(packet, after.checked_sub(4)?)?;
                negative = Some(ttl.min(minimum));
            }
            ttls.push(u16::try_from(at + 4 - start).ok()?);
            kept[section] += 1;
            if kind == kind::CNAME && section == 0 {
                let target = name::expand(packet, at + 10)?.into();
                aliases.push(Alias { target, end: after - start, answers: kept[0] });
            }
            at = after;
            end = after;
        }
    }
    if code > flag::RCODE {
        // Longer codes are about the EDNS between us and the resolver.
        code = code::SERVFAIL;
    }
    let answered = kept[0] > 0 && code == code::NOERROR;
    // Absence may be kept as long as the zone says, also that of what an alias leads to (RFC 2308).
    let ttl = match (code, negative) {
        (code::NOERROR | code::NXDOMAIN, Some(negative)) => negative.min(shortest),
        (code::NOERROR, None) if answered => shortest,
        _ => 0,
    };
    Some(Reply {
        records: packet[start..end].into(),
        counts: kept,
        ttls: ttls.into(),
        aliases: aliases.into(),
        code,
        authentic: flags & flag::AD != 0,
        ttl,
    })
}

#[cfg(test)]
pub(crate) mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::wire::query::{Parsed, Query, parse, tests::question};
    use crate::wire::response::{Tail, Written};

    /// Answers with all that was kept.
    pub(crate) fn answer(
        reply: &Reply,
        query: &Query<'_>,
        age: u32,
        at_most: u32,
        out: &mut [u8],
    ) -> Option<Written> {
        let mut response = Response::to(query, Tail::default(), out);
        reply.write(&mut response, None, age, at_most);
        response.finish()
    }

    /// The question with an answer of one address behind it.
    pub(crate) fn reply(asked: &[u8], end: usize, ttl: u32) -> Vec<u8> {
        let mut packet = asked[..end].to_vec();
        packet[2] |= 0x80;
        packet[7] = 1;
        packet[11] = 0;
        packet.extend([0xc0, 12, 0, 1, 0, 1]);
        packet.extend(ttl.to_be_bytes());
        packet.extend([0, 4, 10, 0, 0, 1]);
        packet
    }

    #[test]
    fn takes_nothing_but_the_reply_to_its_question() {
        let asked = question("wWw.test", 1, None);
        let good = reply(&asked, asked.len(), 60);
        let read = |packet: &[u8]| Reply::read(&asked, asked.len(), packet).map(|reply| reply.ttl);
        assert_eq!(read(&good), Ok(60));
        let bent = |at: usize, bits: u8| {
            let mut packet = good.clone();
            packet[at] ^= bits;
            read(&packet)
        };
        assert_eq!(bent(0, 1), Err(Wrong::Stranger), "another id");
        assert_eq!(bent(13, 0x20), Err(Wrong::Case), "the case of a letter");
        assert_eq!(bent(13, 1), Err(Wrong::Stranger), "another name");
        assert_eq!(bent(asked.len() - 3, 4), Err(Wrong::Stranger), "another type");
        assert_eq!(bent(2, 0x80), Err(Wrong::Stranger), "a question");
        assert_eq!(bent(5, 1), Err(Wrong::Stranger), "no question");
        assert_eq!(bent(2, 2), Err(Wrong::Truncated));
        assert_eq!(read(&good[..good.len() - 1]), Err(Wrong::Broken));
    }

    #[test]
    fn answers_in_the_clients_case_and_with_what_is_left_of_the_time() {
        let asked = question("WWW.test", 1, Some(&[]));
        let end = asked.len() - 11;
        let kept = Reply::read(&asked, end, &reply(&asked, end, 60)).unwrap();
        let packet = question("www.test", 1, None);
        let Parsed::Query(query) = parse(&packet) else { panic!("not read") };
        let mut out = [0; 512];
        let written = answer(&kept, &query, 15, u32::MAX, &mut out).unwrap();
        assert_eq!(&out[12..end], &packet[12..]);
        assert_eq!(out[end + 6..end + 10], [0, 0, 0, 45]);
        assert_eq!(written.len, end + 16);
    }

    #[test]
    fn a_time_that_is_none_is_not_passed_on() {
        let asked = question("www.test", 1, None);
        let kept = Reply::read(&asked, asked.len(), &reply(&asked, asked.len(), 1 << 31)).unwrap();
        let Parsed::Query(query) = parse(&asked) else { panic!("not read") };
        let mut out = [0; 512];
        let written = answer(&kept, &query, 0, 3600, &mut out).unwrap();
        assert_eq!((kept.ttl, &out[written.len - 10..written.len - 6]), (0, &[0; 4][..]));
    }

    #[test]
    fn a_code_about_edns_is_no_clients() {
        let asked = question("www.test", 1, Some(&[]));
        let end = asked.len() - 11;
        let mut packet = asked.clone();
        packet[2] |= 0x80;
        packet[asked.len() - 6] = 1;
        assert_eq!(Reply::read(&asked, end, &packet).unwrap().code, code::SERVFAIL, "BADVERS");
    }

    #[test]
    fn absence_is_kept_as_long_as_the_zone_says() {
        let asked = question("www.test", 1, None);
        let mut packet = asked.clone();
        packet[2] |= 0x80;
        packet[3] |= 3;
        assert_eq!(Reply::read(&asked, asked.len(), &packet).unwrap().ttl, 0, "nobody says how long");
        packet[9] = 1;
        packet.extend(b"\xc0\x10\x00\x06\x00\x01\x00\x00\x00\x3c\x00\x16\x00\x00");
        packet.extend([0; 19]);
        packet.push(20);
        assert_eq!(Reply::read(&asked, asked.len(), &packet).unwrap().ttl, 20);
    }

    proptest! {
        #[test]
        fn rubbish_is_survived(bytes: Vec<u8>, at in 0..60_usize, byte: u8) {
            let asked = question("www.test", 1, None);
            let _ = Reply::read(&asked, asked.len(), &bytes);
            let mut packet = reply(&asked, asked.len(), 60);
            packet.extend(&bytes);
            if let Some(place) = packet.get_mut(at) {
                *place = byte;
            }
            let Parsed::Query(query) = parse(&asked) else { panic!("not read") };
            if let Ok(kept) = Reply::read(&asked, asked.len(), &packet) {
                let mut out = [0; 512];
                answer(&kept, &query, 1, 30, &mut out);
            }
        }
    }
}
