//! The little of DNS that a resolver for one process needs: it reads a question, and answers with addresses or a code.

use std::net::IpAddr;

pub(super) const A: u16 = 1;
pub(super) const AAAA: u16 = 28;
const OPT: u16 = 41;
const INTERNET: u16 = 1;

pub(super) const NO_ERROR: u8 = 0;
pub(super) const FORMAT_ERROR: u8 = 1;
pub(super) const SERVER_FAILURE: u8 = 2;
pub(super) const NO_SUCH_NAME: u8 = 3;

const HEADER: usize = 12;
/// Seconds; a Service may be gone soon.
const TTL: u32 = 5;
/// What a client takes that says nothing of its buffer.
const SMALL: usize = 512;
/// No path of today breaks it.
const LARGE: usize = 1232;

/// One question.
pub(super) struct Question<'a> {
    packet: &'a [u8],
    /// In small letters, without a dot at its end.
    pub(super) name: String,
    pub(super) kind: u16,
    end: usize,
    /// Bytes of an answer that the client takes in a datagram.
    pub(super) room: usize,
}

impl<'a> Question<'a> {
    /// Reads it; none if there is nothing that could be answered.
    pub(super) fn read(packet: &'a [u8]) -> Option<Self> {
        let is_query = packet.get(2)? & 0xf8 == 0;
        if !is_query || word(packet, 4)? != 1 {
            return None;
        }
        let mut at = HEADER;
        let mut labels = Vec::new();
        loop {
            let length = usize::from(*packet.get(at)?);
            at += 1;
            if length == 0 {
                break;
            }
            if length > 63 {
                return None;
            }
            let label = packet.get(at..at + length)?;
            labels.push(str::from_utf8(label).ok()?.to_ascii_lowercase());
            at += length;
        }
        let (kind, class) = (word(packet, at)?, word(packet, at + 2)?);
        if class != INTERNET {
            return None;
        }
        let end = at + 4;
        // The OPT record of a client stands alone behind the question.
        let is_opt = packet.get(end) == Some(&0) && word(packet, end + 1) == Some(OPT);
        let room = if is_opt { word(packet, end + 3).map_or(SMALL, usize::from) } else { SMALL };
        Some(Self { packet, name: labels.join("."), kind, end, room: room.clamp(SMALL, LARGE) })
    }

    /// The answer with these addresses, of the family that is asked for.
    pub(super) fn addresses(&self, addresses: &[IpAddr]) -> Vec<u8> {
        let mut message = self.begin(NO_ERROR);
        let mut count = 0_u16;
        for address in addresses {
            let data: &[u8] = match (address, self.kind) {
                (IpAddr::V4(address), A) => &address.octets(),
                (IpAddr::V6(address), AAAA) => &address.octets(),
                _ => continue,
            };
            if message.len() + 12 + data.len() > self.room {
                break;
            }
            // The name is the question's.
            message.extend([0xc0, HEADER as u8]);
            message.extend(self.kind.to_be_bytes());
            message.extend(INTERNET.to_be_bytes());
            message.extend(TTL.to_be_bytes());
            message.extend((data.len() as u16).to_be_bytes());
            message.extend(data);
            count += 1;
        }
        message[6..8].copy_from_slice(&count.to_be_bytes());
        message
    }

    /// The answer that there is none.
    pub(super) fn code(&self, code: u8) -> Vec<u8> {
        self.begin(code)
    }

    fn begin(&self, code: u8) -> Vec<u8> {
        let mut message = self.packet[..2].to_vec();
        // An answer, with recursion; whether the client asked for it is said back.
        message.extend([0x80 | self.packet[2] & 0x01, 0x80 | code, 0, 1, 0, 0, 0, 0, 0, 0]);
        message.extend(&self.packet[HEADER..self.end]);
        message
    }
}

/// What is said to rubbish; none if it is not even that.
pub(super) fn refusal(packet: &[u8]) -> Option<Vec<u8>> {
    let id = packet.get(..2)?;
    let is_query = packet.get(2)? & 0x80 == 0;
    is_query.then(|| [id, &[0x80, 0x80 | FORMAT_ERROR, 0, 0, 0, 0, 0, 0, 0, 0]].concat())
}

/// The code of another resolver's answer to a question; none if it is none.
pub(super) fn answered(question: &[u8], answer: &[u8]) -> Option<u8> {
    let is_answer = answer.len() >= HEADER && answer[..2] == *question.get(..2)? && answer[2] & 0x80 != 0;
    is_answer.then(|| answer[3] & 0x0f)
}

fn word(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_be_bytes(*bytes.get(at..)?.first_chunk()?))
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    pub(in super::super) fn question(name: &str, kind: u16) -> Vec<u8> {
        let mut packet = vec![0x12, 0x34, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0];
        for label in name.split('.') {
            packet.push(label.len() as u8);
            packet.extend(label.bytes());
        }
        packet.push(0);
        packet.extend(kind.to_be_bytes());
        packet.extend([0, 1]);
        packet
    }

    #[test]
    fn a_question_is_answered_with_addresses_of_its_family() {
        let packet = question("Web.Shop", A);
        let asked = Question::read(&packet).unwrap();
        assert_eq!((&*asked.name, asked.kind, asked.room), ("web.shop", A, SMALL));
        let answer = asked.addresses(&["10.0.0.7".parse().unwrap(), "fd00::7".parse().unwrap()]);
        assert_eq!(answered(&packet, &answer), Some(NO_ERROR));
        assert_eq!(answer[4..8], [0, 1, 0, 1]);
        assert_eq!(answer[answer.len() - 4..], [10, 0, 0, 7]);
        assert_eq!(answer[12..packet.len()], packet[12..], "the question as it was written");
        let none = asked.code(NO_SUCH_NAME);
        assert_eq!(answered(&packet, &none), Some(NO_SUCH_NAME));
        assert_eq!(answered(&question("a", A)[..4], &none), Some(NO_SUCH_NAME));
        assert_eq!(answered(&packet, &packet), None, "a question");
    }

    #[test]
    fn as_many_addresses_as_the_client_takes() {
        let many: Vec<IpAddr> = (0..200).map(|n| [10, 0, 0, n].into()).collect();
        let mut packet = question("web", A);
        let length = Question::read(&packet).unwrap().addresses(&many).len();
        assert!(length <= SMALL, "{length}");
        packet[11] = 1;
        packet.extend([0, 0, 41, 0x10, 0, 0, 0, 0, 0, 0, 0]);
        let asked = Question::read(&packet).unwrap();
        assert_eq!(asked.room, LARGE);
        assert!(asked.addresses(&many).len() > SMALL);
    }

    #[test]
    fn rubbish_is_never_a_question() {
        let packet = question("web.shop", A);
        for length in 0..packet.len() {
            assert!(Question::read(&packet[..length]).is_none(), "{length}");
        }
        let mut long = question("web", A);
        long[12] = 64;
        assert!(Question::read(&long).is_none());
        assert_eq!(refusal(&long).unwrap()[..4], [0x12, 0x34, 0x80, 0x81]);
        assert_eq!(refusal(&[1]), None);
        let mut answer = packet;
        answer[2] |= 0x80;
        assert!(Question::read(&answer).is_none() && refusal(&answer).is_none());
    }
}
