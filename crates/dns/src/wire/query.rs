//! What a client asks.

use super::name::{self, Name};
use super::{CLASS_IN, DATAGRAM, HEADER, SMALL_DATAGRAM, code, flag, kind, u16_at, u32_at};

const OPTION_COOKIE: u16 = 10;
const DO: u32 = 1 << 15;

/// A question and what came with it.
pub(crate) struct Query<'a> {
    /// The whole message.
    pub(crate) packet: &'a [u8],
    pub(crate) id: u16,
    pub(crate) flags: u16,
    /// In lower case; as the client wrote it, it is in the packet.
    pub(crate) name: Name,
    pub(crate) kind: u16,
    pub(crate) class: u16,
    pub(crate) edns: Option<Edns<'a>>,
}

/// The client's side of EDNS.
#[derive(Clone, Copy)]
pub(crate) struct Edns<'a> {
    /// What the client takes by UDP.
    pub(crate) size: u16,
    /// Whether it wants signatures.
    pub(crate) dnssec: bool,
    pub(crate) cookie: Option<&'a [u8]>,
}

/// What there is to do with a message.
#[expect(clippy::large_enum_variant, reason = "it is taken apart at once, and nothing here allocates")]
pub(crate) enum Parsed<'a> {
    Query(Query<'a>),
    /// Not a query, or nothing that could be answered.
    Silence,
    /// Answered with this code and no more than the id.
    Bad(u16),
    /// Nothing is asked but a cookie (RFC 7873 §5.4).
    CookieOnly(Edns<'a>),
}

impl Query<'_> {
    /// Where the question ends.
    pub(crate) fn question_end(&self) -> usize {
        HEADER + self.name.len() + 4
    }

    /// The longest answer that the client takes by UDP.
    pub(crate) fn longest_datagram(&self) -> usize {
        let size = self.edns.map_or(SMALL_DATAGRAM, |edns| usize::from(edns.size));
        size.clamp(SMALL_DATAGRAM, DATAGRAM)
    }

    pub(crate) fn wants_dnssec(&self) -> bool {
        self.edns.is_some_and(|edns| edns.dnssec)
    }

    /// Whether it is of the class that everything is in.
    pub(crate) fn is_internet(&self) -> bool {
        self.class == CLASS_IN
    }
}

/// Reads a message of a client. It never panics, whatever the bytes are.
pub(crate) fn parse(packet: &[u8]) -> Parsed<'_> {
    let (Some(id), Some(flags)) = (u16_at(packet, 0), u16_at(packet, 2)) else { return Parsed::Silence };
    if packet.len() < HEADER || flags & flag::QR != 0 {
        return Parsed::Silence;
    }
    if flags & flag::OPCODE != 0 {
        return Parsed::Bad(code::NOTIMP);
    }
    question(packet, id, flags).unwrap_or(Parsed::Bad(code::FORMERR))
}

fn question(packet: &[u8], id: u16, flags: u16) -> Option<Parsed<'_>> {
    let counts = [4, 6, 8, 10].map(|at| u16_at(packet, at).unwrap_or_default());
    if counts[0] == 0 {
        let edns = records(packet, HEADER, counts)?.ok()??;
        return edns.cookie.map(|_| Parsed::CookieOnly(edns));
    }
    if counts[0] != 1 {
        return None;
    }
    let name = Name::read(packet, HEADER)?;
    let after = HEADER + name.len();
    let (kind, class) = (u16_at(packet, after)?, u16_at(packet, after + 2)?);
    // Most questions have at most an OPT behind them.
    match records(packet, after + 4, counts)? {
        Ok(edns) => Some(Parsed::Query(Query { packet, id, flags, name, kind, class, edns })),
        Err(BadVersion) => Some(Parsed::Bad(code::BADVERS)),
    }
}

/// A version of EDNS other than 0.
struct BadVersion;

/// Looks for the one OPT among the records behind the question; none if they are broken.
fn records(packet: &[u8], mut at: usize, counts: [u16; 4]) -> Option<Result<Option<Edns<'_>>, BadVersion>> {
    let [_, answers, authorities, additionals] = counts;
    let before = u32::from(answers) + u32::from(authorities);
    let mut found = None;
    for index in 0..before + u32::from(additionals) {
        let owner = at;
        at = name::skip(packet, at)?;
        let kind = u16_at(packet, at)?;
        let length = usize::from(u16_at(packet, at + 8)?);
        let data = packet.get(at + 10..at + 10 + length)?;
        if kind == kind::OPT {
            if found.is_some() || index < before || packet[owner] != 0 {
                return None;
            }
            let ttl = u32_at(packet, at + 4)?;
            if ttl >> 16 & 0xff != 0 {
                return Some(Err(BadVersion));
            }
            let size = u16_at(packet, at + 2)?;
            found = Some(Edns { size, dnssec: ttl & DO != 0, cookie: cookie(data).ok()? });
        }
        at += 10 + length;
    }
    // What follows the last record was not sent by a resolver.
    (at == packet.len()).then_some(Ok(found))
}

/// Options that can't be told apart, or a cookie that is none.
struct BadOptions;

/// The cookie among the options.
fn cookie(mut options: &[u8]) -> Result<Option<&[u8]>, BadOptions> {
    let mut found = None;
    while !options.is_empty() {
        let (code, length) = u16_at(options, 0).zip(u16_at(options, 2)).ok_or(BadOptions)?;
        let length = usize::from(length);
        let value = options.get(4..4 + length).ok_or(BadOptions)?;
        if code == OPTION_COOKIE && found.is_none() {
            if length != 8 && !(16..=40).contains(&length) {
                return Err(BadOptions);
            }
            found = Some(value);
        }
        options = &options[4 + length..];
    }
    Ok(found)
}

#[cfg(test)]
pub(crate) mod tests {
    use proptest::prelude::*;

    use super::*;

    /// A question as a client sends it.
    pub(crate) fn question(name: &str, kind: u16, edns: Option<&[u8]>) -> Vec<u8> {
        let mut packet = vec![0x12, 0x34, 1, 0, 0, 1, 0, 0, 0, 0, 0, u8::from(edns.is_some())];
        for label in name.split('.').filter(|label| !label.is_empty()) {
            packet.push(label.len() as u8);
            packet.extend(label.bytes());
        }
        packet.push(0);
        packet.extend(kind.to_be_bytes());
        packet.extend([0, 1]);
        if let Some(options) = edns {
            packet.extend([0, 0, 41, 0x10, 0, 0, 0, 0, 0]);
            packet.extend((options.len() as u16).to_be_bytes());
            packet.extend(options);
        }
        packet
    }

    fn code_of(packet: &[u8]) -> Option<u16> {
        match parse(packet) {
            Parsed::Bad(code) => Some(code),
            _ => None,
        }
    }

    #[test]
    fn reads_a_question_with_a_cookie() {
        let packet = question("API.lab.test", 28, Some(b"\x00\x0a\x00\x0812345678"));
        let Parsed::Query(query) = parse(&packet) else { panic!("not read") };
        assert_eq!(
            (query.id, query.kind, query.name.as_bytes()),
            (0x1234, 28, &b"\x03api\x03lab\x04test\x00"[..])
        );
        assert_eq!(query.edns.unwrap().cookie, Some(&b"12345678"[..]));
        assert_eq!(query.longest_datagram(), DATAGRAM);
    }

    #[test]
    fn answers_or_drops_bad_questions_as_the_documents_say() {
        let good = question("a.test", 1, Some(&[]));
        assert!(matches!(parse(&good[..11]), Parsed::Silence));
        let with = |at: usize, byte: u8| {
            let mut packet = good.clone();
            packet[at] = byte;
            packet
        };
        assert!(matches!(parse(&with(2, 0x80)), Parsed::Silence), "an answer");
        assert_eq!(code_of(&with(2, 0x28)), Some(code::NOTIMP), "an update");
        assert_eq!(code_of(&with(5, 2)), Some(code::FORMERR), "two questions");
        assert_eq!(code_of(&with(5, 0)), Some(code::FORMERR), "no question");
        assert_eq!(code_of(&with(12, 0xc0)), Some(code::FORMERR), "a compressed question");
        assert_eq!(code_of(&good[..good.len() - 1]), Some(code::FORMERR), "cut off");
        assert_eq!(code_of(&[&good[..], b"x"].concat()), Some(code::FORMERR), "more behind it");
        let version = good.len() - 5;
        assert_eq!(code_of(&with(version, 1)), Some(code::BADVERS));
        let mut two = [&good[..], &good[good.len() - 11..]].concat();
        two[11] = 2;
        assert_eq!(code_of(&two), Some(code::FORMERR), "two OPTs");
        assert_eq!(
            code_of(&question("a.test", 1, Some(b"\x00\x0a\x00\x0212"))),
            Some(code::FORMERR),
            "a short cookie"
        );
    }

    #[test]
    fn a_cookie_can_be_all_that_is_asked_for() {
        let whole = question("", 1, Some(b"\x00\x0a\x00\x0812345678"));
        let mut packet = [&whole[..12], &whole[17..]].concat();
        packet[5] = 0;
        assert!(matches!(parse(&packet), Parsed::CookieOnly(_)));
    }

    proptest! {
        #[test]
        fn rubbish_is_survived(bytes: Vec<u8>) {
            parse(&bytes);
        }

        #[test]
        fn bent_questions_are_survived(at in 0..60_usize, byte: u8, cut in 0..60_usize) {
            let mut packet = question("a.b.test", 1, Some(b"\x00\x0a\x00\x0812345678"));
            if let Some(place) = packet.get_mut(at) {
                *place = byte;
            }
            packet.truncate(packet.len().saturating_sub(cut));
            if let Parsed::Query(query) = parse(&packet) {
                assert!(query.question_end() <= packet.len());
            }
        }
    }
}
