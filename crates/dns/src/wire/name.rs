//! Domain names in wire format.

use std::fmt::Write;

use super::u16_at;

/// Bytes of the longest name.
const LONGEST: usize = 255;

/// A name in lower case and wire format, kept without allocation.
#[derive(Clone, Copy)]
pub(crate) struct Name {
    bytes: [u8; LONGEST],
    len: u8,
}

impl Name {
    /// Reads a name that is not compressed, as in a question; none if there is no whole one at this place.
    pub(crate) fn read(packet: &[u8], at: usize) -> Option<Self> {
        let packet = packet.get(at..)?;
        let mut len = 0;
        loop {
            let label = usize::from(*packet.get(len)?);
            if label > 63 || len + label + 1 > LONGEST {
                return None;
            }
            len += label + 1;
            if label == 0 {
                break;
            }
        }
        let mut bytes = [0; LONGEST];
        // Lengths are below 64 and stay as they are.
        for (to, from) in bytes.iter_mut().zip(packet.get(..len)?) {
            *to = from.to_ascii_lowercase();
        }
        Some(Self { bytes, len: len as u8 })
    }

    pub(crate) fn as_bytes(&self) -> &[u8] {
        &self.bytes[..usize::from(self.len)]
    }

    pub(crate) fn len(&self) -> usize {
        usize::from(self.len)
    }
}

/// A name that was checked as text, in lower case and wire format.
pub(crate) fn from_text(text: &str) -> Vec<u8> {
    let mut wire = Vec::with_capacity(text.len() + 2);
    for label in text.split('.').filter(|label| !label.is_empty()) {
        wire.push(label.len() as u8);
        wire.extend(label.bytes().map(|byte| byte.to_ascii_lowercase()));
    }
    wire.push(0);
    wire
}

/// The name above; none above the root.
pub(crate) fn parent(name: &[u8]) -> Option<&[u8]> {
    let label = usize::from(*name.first()?);
    if label == 0 { None } else { name.get(label + 1..) }
}

/// The name as people write it, with what is not printable escaped.
pub(crate) fn to_text(name: &[u8]) -> String {
    let mut text = String::with_capacity(name.len());
    let mut rest = name;
    while let Some((&label, after)) = rest.split_first() {
        let Some((label, after)) = after.split_at_checked(usize::from(label)) else { break };
        if label.is_empty() {
            break;
        }
        for &byte in label {
            if byte.is_ascii_graphic() && !matches!(byte, b'.' | b'\\' | b'"') {
                text.push(char::from(byte));
            } else {
                let _ = write!(text, "\\{byte:03}");
            }
        }
        text.push('.');
        rest = after;
    }
    if text.is_empty() { ".".to_owned() } else { text }
}

/// The name at this place of a message, in lower case and with pointers followed; none if there is no whole one.
pub(crate) fn expand(packet: &[u8], mut at: usize) -> Option<Vec<u8>> {
    let mut name = Vec::new();
    // Pointers lead to what stands before (RFC 1035 §4.1.4), so following them ends.
    let mut before = at;
    while name.len() < LONGEST {
        match *packet.get(at)? {
            0 => {
                name.push(0);
                return Some(name);
            }
            label if label < 64 => {
                let end = at + 1 + usize::from(label);
                name.extend(packet.get(at..end)?.iter().map(u8::to_ascii_lowercase));
                at = end;
            }
            label if label >= 192 => {
                at = usize::from(u16_at(packet, at)? & 0x3fff);
                if at >= before {
                    return None;
                }
                before = at;
            }
            _ => return None,
        }
    }
    None
}

/// Where the record after this name begins; pointers are not followed. None if the message ends before.
pub(crate) fn skip(packet: &[u8], mut at: usize) -> Option<usize> {
    loop {
        match *packet.get(at)? {
            0 => return Some(at + 1),
            label if label < 64 => at += usize::from(label) + 1,
            label if label >= 192 => return (at + 2 <= packet.len()).then_some(at + 2),
            _ => return None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_names_in_any_case_and_refuses_what_is_none() {
        let name = Name::read(b"\x03WwW\x04Test\x00rest", 0).unwrap();
        assert_eq!(name.as_bytes(), from_text("www.test"));
        assert_eq!(to_text(name.as_bytes()), "www.test.");
        assert_eq!(to_text(&[0]), ".");
        assert_eq!(to_text(b"\x03a.b\x00"), "a\\046b.");
        for bad in [&b""[..], b"\x03ab", b"\xc0\x0c", b"\x40", b"\x01a", &[1; 300]] {
            assert!(Name::read(bad, 0).is_none(), "{bad:?}");
        }
        let mut long = [3; 256];
        long[252] = 2;
        long[255] = 0;
        assert!(Name::read(&long, 0).is_none(), "256 bytes");
        long[248..].copy_from_slice(&[5, 1, 1, 1, 1, 1, 0, 0]);
        assert_eq!(Name::read(&long, 0).unwrap().len(), 255);
    }

    #[test]
    fn goes_up_to_the_root_and_no_further() {
        let name = from_text("a.b");
        let above = parent(&name).unwrap();
        assert_eq!((above, parent(above)), (&b"\x01b\x00"[..], Some(&[0][..])));
        assert_eq!(parent(&[0]), None);
    }

    #[test]
    fn follows_pointers_but_not_for_ever() {
        let packet = b"\x04Test\x00\x03WwW\xc0\x00\xc0\x06\xc0\x0e";
        assert_eq!(expand(packet, 6), Some(from_text("www.test")));
        assert_eq!(expand(packet, 12), Some(from_text("www.test")));
        assert_eq!(expand(packet, 14), None, "to itself");
        for bad in [&b"\x01a"[..], b"\xc0", b"\x80\x00", b"\x05a", &[1; 300], b"\xc0\x02\xc0\x00"] {
            assert_eq!(expand(bad, 0), None);
        }
        let far = [&[3; 252][..], &[0xc0, 0]].concat();
        assert_eq!(expand(&far, 4), None, "a name that is too long by its pointer");
    }

    #[test]
    fn skips_names_and_pointers() {
        assert_eq!(skip(b"\x01a\x00", 0), Some(3));
        assert_eq!(skip(b"\x01a\xc0\x0c", 0), Some(4));
        for bad in [&b"\x01a"[..], b"\xc0", b"\x80\x00", b"\x05a"] {
            assert_eq!(skip(bad, 0), None);
        }
    }
}
