//! Packets that came in parts, put together: bounded in number, size and time, so that parts that never come cost little.

use std::collections::HashMap;
use std::net::IpAddr;
use std::time::{Duration, Instant};

use smoltcp::wire::IpProtocol;

use crate::ip::{self, Fragment, Packet};

/// Packets under construction at a time; the oldest makes room.
const MOST: usize = 64;
/// No packet is larger.
const LONGEST: usize = 65_535;
/// No sender makes more of one packet.
const PARTS: usize = 128;
const PATIENCE: Duration = Duration::from_secs(5);

/// Which packet a part is of.
type Key = (IpAddr, IpAddr, u32);

/// One packet under construction.
#[derive(Debug)]
struct Whole {
    began: Instant,
    protocol: IpProtocol,
    bytes: Vec<u8>,
    /// Where parts begin and end, in order.
    parts: Vec<(usize, usize)>,
    length: Option<usize>,
}

/// All packets of which parts are missing.
#[derive(Debug, Default)]
pub(crate) struct Fragments(HashMap<Key, Whole>);

impl Fragments {
    /// Adds a part; what it completes, with its protocol.
    pub(crate) fn add(
        &mut self,
        packet: &Packet<'_>,
        part: Fragment,
        now: Instant,
    ) -> Option<(IpProtocol, Vec<u8>)> {
        let key = (packet.from, packet.to, part.id);
        let end = part.offset + packet.payload.len();
        // All but the last are as long as places can be counted.
        if end > LONGEST
            || packet.payload.is_empty()
            || (!part.is_last && !packet.payload.len().is_multiple_of(8))
        {
            return None;
        }
        if !self.0.contains_key(&key) && self.0.len() >= MOST {
            let oldest = self.0.iter().min_by_key(|(_, whole)| whole.began).map(|(key, _)| *key);
            self.0.remove(&oldest?);
        }
        let whole = self.0.entry(key).or_insert_with(|| Whole {
            began: now,
            protocol: packet.protocol,
            bytes: Vec::new(),
            parts: Vec::new(),
            length: None,
        });
        if part.offset == 0 {
            whole.protocol = packet.protocol;
        }
        let at = whole.parts.partition_point(|known| known.0 < part.offset);
        let before = at.checked_sub(1).and_then(|at| whole.parts.get(at));
        let overlaps = before.is_some_and(|known| known.1 > part.offset)
            || whole.parts.get(at).is_some_and(|known| known.0 < end);
        let contradicts = part.is_last && whole.length.is_some_and(|length| length != end)
            || whole.length.is_some_and(|length| end > length)
            || part.is_last && whole.parts.last().is_some_and(|known| known.1 > end);
        if whole.parts.get(at) == Some(&(part.offset, end)) {
            return None;
        }
        if overlaps || contradicts || whole.parts.len() >= PARTS {
            // Parts that overlap hide something (RFC 5722).
            self.0.remove(&key);
            return None;
        }
        whole.parts.insert(at, (part.offset, end));
        whole.bytes.resize(whole.bytes.len().max(end), 0);
        whole.bytes[part.offset..end].copy_from_slice(packet.payload);
        if part.is_last {
            whole.length = Some(end);
        }
        let gapless = whole.parts.iter().try_fold(0, |next, part| (part.0 == next).then_some(part.1));
        if gapless.is_some() && gapless == whole.length {
            return self.0.remove(&key).map(|whole| (whole.protocol, whole.bytes));
        }
        None
    }

    /// Forgets what waited too long.
    pub(crate) fn relax(&mut self, now: Instant) {
        self.0.retain(|_, whole| now.saturating_duration_since(whole.began) < PATIENCE);
        if self.0.is_empty() {
            self.0 = HashMap::new();
        }
    }
}

/// Splits what is too large for a path into packets that are not.
pub(crate) fn split(
    from: IpAddr,
    to: IpAddr,
    protocol: IpProtocol,
    id: u32,
    payload: &[u8],
    mtu: usize,
) -> impl Iterator<Item = Vec<u8>> {
    let header = ip::header_len(to) + if to.is_ipv4() { 0 } else { 8 };
    let size = (mtu.saturating_sub(header) & !7).max(8);
    payload.chunks(size).enumerate().map(move |(index, piece)| {
        let (offset, is_last) = (index * size, (index + 1) * size >= payload.len());
        let mut packet = vec![0; header + piece.len()];
        packet[header..].copy_from_slice(piece);
        if to.is_ipv4() {
            ip::write_header(&mut packet, from, to, protocol);
            let mut packet = smoltcp::wire::Ipv4Packet::new_unchecked(&mut packet[..]);
            packet.set_dont_frag(false);
            packet.set_ident(id as u16);
            packet.set_frag_offset(offset as u16);
            packet.set_more_frags(!is_last);
            packet.fill_checksum();
        } else {
            ip::write_header(&mut packet, from, to, IpProtocol::Ipv6Frag);
            let place = (offset as u16 | u16::from(!is_last)).to_be_bytes();
            let id = id.to_be_bytes();
            let extension = [u8::from(protocol), 0, place[0], place[1], id[0], id[1], id[2], id[3]];
            packet[header - 8..header].copy_from_slice(&extension);
        }
        packet
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn packets(payload: &[u8], v6: bool) -> Vec<Vec<u8>> {
        let (from, to) = if v6 { ("fd00::1", "fd00::2") } else { ("10.0.0.1", "10.0.0.2") };
        split(from.parse().unwrap(), to.parse().unwrap(), IpProtocol::Udp, 77, payload, 1420).collect()
    }

    fn put(fragments: &mut Fragments, bytes: &[u8], now: Instant) -> Option<(IpProtocol, Vec<u8>)> {
        let packet = ip::read(bytes).unwrap();
        fragments.add(&packet, packet.fragment.unwrap(), now)
    }

    #[test]
    fn parts_in_any_order_become_the_whole() {
        let payload: Vec<u8> = (0..9000_u32).map(|n| (n % 251) as u8).collect();
        for v6 in [false, true] {
            let mut parts = packets(&payload, v6);
            assert!(parts.len() > 6 && parts.iter().all(|part| part.len() <= 1420));
            for turn in 0..parts.len() {
                parts.rotate_left(1);
                parts.swap(0, turn / 2);
                let (mut fragments, now) = (Fragments::default(), Instant::now());
                let mut whole: Vec<_> =
                    parts.iter().filter_map(|part| put(&mut fragments, part, now)).collect();
                assert_eq!(whole.pop(), Some((IpProtocol::Udp, payload.clone())));
                assert!(whole.is_empty() && fragments.0.is_empty());
            }
        }
    }

    #[test]
    fn overlaps_and_the_missing_cost_little() {
        let (mut fragments, now) = (Fragments::default(), Instant::now());
        for id in 0..1000_u32 {
            let part = Fragment { id, offset: 0, is_last: false };
            let from = IpAddr::from([10, 0, 0, 1]);
            let packet =
                Packet { from, to: from, protocol: IpProtocol::Udp, payload: &[0; 64], fragment: None };
            assert!(fragments.add(&packet, part, now).is_none());
            let overlap = Fragment { id: 5, offset: 32, is_last: false };
            assert!(fragments.add(&packet, overlap, now).is_none());
        }
        assert!(fragments.0.len() <= MOST);
        fragments.relax(now + PATIENCE);
        assert!(fragments.0.is_empty());
    }
}
