//! One request to rtnetlink as bytes: a header, a fixed body, attributes (which may hold attributes).

use std::net::IpAddr;

/// Length, type, flags, sequence number and port, of every message.
pub(super) const HEADER: usize = 16;

const REQUEST: u16 = 0x1;
const ACK: u16 = 0x4;

/// Flags of requests that make something.
pub(super) const CREATE: u16 = 0x400;
pub(super) const EXCLUSIVE: u16 = 0x200;
/// Everything there is.
pub(super) const DUMP: u16 = 0x300;

/// A request under construction.
#[derive(Debug)]
pub(super) struct Message(Vec<u8>);

impl Message {
    pub(super) fn new(kind: u16, flags: u16, body: &[u8]) -> Self {
        let mut bytes = vec![0; 4];
        bytes.extend(kind.to_ne_bytes());
        bytes.extend((flags | REQUEST | ACK).to_ne_bytes());
        // The sequence number and the port: a socket carries one request at a time, and the kernel fills in the other.
        bytes.extend([0; 8]);
        bytes.extend(body);
        Self(bytes)
    }

    pub(super) fn with(mut self, kind: u16, value: &[u8]) -> Self {
        self.put(kind, value);
        self
    }

    pub(super) fn with_u32(self, kind: u16, value: u32) -> Self {
        self.with(kind, &value.to_ne_bytes())
    }

    /// A text that ends with a zero.
    pub(super) fn with_text(self, kind: u16, value: &str) -> Self {
        self.with(kind, &[value.as_bytes(), &[0]].concat())
    }

    pub(super) fn with_address(self, kind: u16, address: IpAddr) -> Self {
        match address {
            IpAddr::V4(address) => self.with(kind, &address.octets()),
            IpAddr::V6(address) => self.with(kind, &address.octets()),
        }
    }

    /// An attribute that begins with `body` and goes on with the attributes that `fill` adds.
    pub(super) fn with_nested(mut self, kind: u16, body: &[u8], fill: impl FnOnce(Self) -> Self) -> Self {
        let start = self.0.len();
        self.put(kind, body);
        let mut filled = fill(self);
        let length = (filled.0.len() - start) as u16;
        filled.overwrite(start, &length.to_ne_bytes());
        filled
    }

    /// The whole of it.
    pub(super) fn finish(mut self) -> Vec<u8> {
        let length = self.0.len() as u32;
        self.overwrite(0, &length.to_ne_bytes());
        self.0
    }

    fn put(&mut self, kind: u16, value: &[u8]) {
        self.0.extend((4 + value.len() as u16).to_ne_bytes());
        self.0.extend(kind.to_ne_bytes());
        self.0.extend(value);
        self.0.resize(aligned(self.0.len()), 0);
    }

    fn overwrite(&mut self, at: usize, value: &[u8]) {
        self.0.splice(at..at + value.len(), value.iter().copied());
    }
}

/// Attributes and messages begin at multiples of four.
pub(super) fn aligned(length: usize) -> usize {
    length.next_multiple_of(4)
}

/// The attributes in a reply: type and value.
pub(super) fn attributes(mut bytes: &[u8]) -> impl Iterator<Item = (u16, &[u8])> {
    std::iter::from_fn(move || {
        let length = usize::from(u16::from_ne_bytes(bytes.get(..2)?.try_into().ok()?));
        let kind = u16::from_ne_bytes(bytes.get(2..4)?.try_into().ok()?);
        let value = bytes.get(4..length)?;
        bytes = bytes.get(aligned(length)..).unwrap_or_default();
        Some((kind, value))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_are_those_of_what_is_inside() {
        let bytes = Message::new(16, CREATE, &[7; 16])
            .with_text(3, "eth0")
            .with_nested(18, &[], |link| {
                link.with(1, b"veth")
                    .with_nested(2, &[], |data| data.with_nested(1, &[9; 16], |peer| peer.with_u32(28, 5)))
            })
            .finish();
        assert_eq!(u32::from_ne_bytes(bytes[..4].try_into().unwrap()) as usize, bytes.len());
        let top: Vec<_> = attributes(&bytes[HEADER + 16..]).collect();
        assert_eq!(top[0], (3, &b"eth0\0"[..]));
        let (kind, link) = top[1];
        assert_eq!((kind, top.len()), (18, 2));
        let inner: Vec<_> = attributes(link).collect();
        assert_eq!(inner[0], (1, &b"veth"[..]));
        let (_, peer) = attributes(inner[1].1).next().unwrap();
        assert_eq!(peer[..16], [9; 16]);
        assert_eq!(attributes(&peer[16..]).next(), Some((28, &5u32.to_ne_bytes()[..])));
    }

    #[test]
    fn attributes_that_lie_about_their_length_end_the_list() {
        for bytes in [&[3, 0, 1, 0][..], &[200, 0, 1, 0, 1], &[0, 0, 0, 0], &[1]] {
            assert_eq!(attributes(bytes).count(), 0, "{bytes:?}");
        }
    }
}
