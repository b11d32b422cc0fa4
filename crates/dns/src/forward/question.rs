//! A question of ours to another resolver.

use crate::cache::Key;
use crate::wire::query::Query;
use crate::wire::{CLASS_IN, DATAGRAM, HEADER, flag, kind, name};

/// What is asked, for whoever asked us.
pub(crate) struct Question {
    pub(crate) key: Key,
    /// Name in lower case, type and class.
    wire: Vec<u8>,
    checking_disabled: bool,
    dnssec: bool,
}

/// A question as it is sent.
pub(crate) struct Sent {
    pub(crate) packet: Vec<u8>,
    pub(crate) question_end: usize,
}

impl Question {
    pub(crate) fn of(query: &Query<'_>) -> Self {
        Self {
            key: Key::of(query),
            wire: wire(query.name.as_bytes(), query.kind),
            checking_disabled: query.flags & flag::CD != 0,
            dnssec: query.wants_dnssec(),
        }
    }

    /// The question with an id that nobody can guess and, with `mixed`, a case of letters that nobody can guess either: whoever
    /// forges an answer has to know both (draft-vixie-dnsext-dns0x20).
    pub(crate) fn sent(&self, mixed: bool) -> Sent {
        let flags = if self.checking_disabled { flag::RD | flag::CD } else { flag::RD };
        sent(&self.wire, flags, self.dnssec, mixed)
    }
}

/// A question that nobody asked us.
pub(super) fn plain(text: &str, kind: u16, recursion: bool) -> Sent {
    sent(&wire(&name::from_text(text), kind), if recursion { flag::RD } else { 0 }, false, true)
}

fn wire(name: &[u8], kind: u16) -> Vec<u8> {
    [name, &kind.to_be_bytes(), &CLASS_IN.to_be_bytes()].concat()
}

fn sent(wire: &[u8], flags: u16, dnssec: bool, mixed: bool) -> Sent {
    let mut chance = [0; 34];
    random(&mut chance);
    let mut packet = Vec::with_capacity(HEADER + wire.len() + 11);
    packet.extend(&chance[..2]);
    packet.extend(flags.to_be_bytes());
    packet.extend([0, 1, 0, 0, 0, 0, 0, 1]);
    packet.extend(wire);
    if mixed {
        let letters = packet[HEADER..HEADER + wire.len() - 4].iter_mut().enumerate();
        // A length is below 64 and no letter.
        for (i, letter) in letters.filter(|(_, byte)| byte.is_ascii_lowercase()) {
            *letter ^= (chance[2 + i / 8 % 32] >> (i % 8) & 1) << 5;
        }
    }
    let question_end = packet.len();
    packet.push(0);
    packet.extend(kind::OPT.to_be_bytes());
    packet.extend((DATAGRAM as u16).to_be_bytes());
    packet.extend([0, 0, if dnssec { 0x80 } else { 0 }, 0, 0, 0]);
    Sent { packet, question_end }
}

/// Bytes that nobody can guess.
pub(crate) fn random(bytes: &mut [u8]) {
    let flags = rustix::rand::GetRandomFlags::empty();
    let filled = rustix::io::retry_on_intr(|| rustix::rand::getrandom(&mut *bytes, flags));
    assert_eq!(filled, Ok(bytes.len()), "the kernel gives as many as are asked for, up to 256");
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::query::{Parsed, parse};

    #[test]
    fn questions_differ_in_id_and_case_and_are_the_same_name() {
        let sent: Vec<Sent> = (0..20).map(|_| plain("a-long-name.example.test", 1, true)).collect();
        let ids: std::collections::HashSet<&[u8]> = sent.iter().map(|sent| &sent.packet[..2]).collect();
        let cases: std::collections::HashSet<&[u8]> = sent.iter().map(|sent| &sent.packet[12..30]).collect();
        assert!(ids.len() > 18 && cases.len() > 15);
        for sent in &sent {
            let Parsed::Query(query) = parse(&sent.packet) else { panic!("not a question") };
            assert_eq!(query.name.as_bytes(), name::from_text("a-long-name.example.test"));
            assert_eq!(query.question_end(), sent.question_end);
        }
    }
}
