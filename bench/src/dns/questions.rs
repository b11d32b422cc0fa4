//! The names that servers are asked for. The id of a question is its place, so that an answer tells what it should say.

use std::net::{Ipv4Addr, SocketAddrV4, UdpSocket};
use std::time::Duration;

use anyhow::{Context, ensure};

/// Names with an address in the zone.
pub(crate) const NAMES: usize = 10_000;
pub(crate) const ZONE: &str = "bench.example";
/// Where every server listens.
pub(crate) const SERVER: SocketAddrV4 = SocketAddrV4::new(Ipv4Addr::LOCALHOST, 5300);

const PATIENCE: Duration = Duration::from_millis(500);
const NOERROR: u8 = 0;
const NXDOMAIN: u8 = 3;

/// Questions and the codes of their answers.
pub(crate) struct Questions {
    packets: Vec<Vec<u8>>,
    codes: Vec<u8>,
    names: Vec<String>,
}

/// The address of a name.
pub(crate) fn address(place: usize) -> Ipv4Addr {
    Ipv4Addr::from(0x0a01_0000 + place as u32)
}

/// A name of the zone.
pub(crate) fn name(place: usize) -> String {
    format!("h{place}.{ZONE}")
}

impl Questions {
    /// Each name of the zone.
    pub(crate) fn names() -> Self {
        Self::new((0..NAMES).map(|place| (name(place), NOERROR)))
    }

    /// Names that a wildcard stands for, and names that do not exist, in turns.
    pub(crate) fn mix(count: usize) -> Self {
        Self::new((0..count).map(|place| match place % 2 {
            0 => (format!("x{place}.apps.{ZONE}"), NOERROR),
            _ => (format!("no{place}.{ZONE}"), NXDOMAIN),
        }))
    }

    /// Names that the server does not have.
    pub(crate) fn forwarded(count: usize) -> Self {
        Self::new((0..count).map(|place| (format!("n{place}.elsewhere.example"), NOERROR)))
    }

    fn new(all: impl Iterator<Item = (String, u8)>) -> Self {
        let mut questions = Self { packets: Vec::new(), codes: Vec::new(), names: Vec::new() };
        for (place, (name, code)) in all.enumerate() {
            questions.packets.push(packet(place as u16, &name));
            questions.codes.push(code);
            questions.names.push(name);
        }
        questions
    }

    pub(crate) fn len(&self) -> usize {
        self.packets.len()
    }

    pub(crate) fn packet(&self, place: usize) -> &[u8] {
        &self.packets[place % self.packets.len()]
    }

    /// Whether this is the answer that its question should have.
    pub(crate) fn is_answer(&self, packet: &[u8]) -> bool {
        let [high, low, flags, code, ..] = packet else { return false };
        let place = usize::from(u16::from_be_bytes([*high, *low]));
        flags & 0x80 != 0 && self.codes.get(place) == Some(&(code & 15))
    }

    /// The lines of a file for dnsperf.
    pub(crate) fn lines(&self) -> String {
        self.names.join(" A\n") + " A\n"
    }

    /// Whether a server answers the first and the last question.
    pub(crate) fn probe(&self, echoes: bool) -> anyhow::Result<()> {
        let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0))?;
        socket.connect(SERVER)?;
        socket.set_read_timeout(Some(PATIENCE))?;
        for place in [0, self.len() - 1] {
            let mut buffer = [0; 512];
            socket.send(self.packet(place))?;
            let length = socket.recv(&mut buffer).context("no answer")?;
            ensure!(echoes || self.is_answer(&buffer[..length]), "a wrong answer");
        }
        Ok(())
    }
}

/// A question for an address that wants recursion.
fn packet(id: u16, name: &str) -> Vec<u8> {
    let mut packet = id.to_be_bytes().to_vec();
    packet.extend([1, 0, 0, 1, 0, 0, 0, 0, 0, 0]);
    for label in name.split('.') {
        packet.push(label.len() as u8);
        packet.extend(label.bytes());
    }
    packet.extend([0, 0, 1, 0, 1]);
    packet
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_is_known_by_its_id_and_code() {
        let questions = Questions::mix(4);
        assert_eq!((questions.len(), questions.packet(5)), (4, questions.packet(1)));
        assert!(questions.is_answer(&[0, 0, 0x84, 0]) && questions.is_answer(&[0, 1, 0x84, 0x83]));
        assert!(!questions.is_answer(&[0, 1, 0x84, 0]), "it should not exist");
        assert!(!questions.is_answer(&[0, 0, 1, 0]), "a question");
        assert!(!questions.is_answer(&[0, 9, 0x84, 0]) && !questions.is_answer(&[0]));
    }
}
