//! Messages as they are on the wire, read and written on slices: questions, answers, and the replies of other resolvers.

pub(crate) mod name;
pub(crate) mod query;
pub(crate) mod reply;
pub(crate) mod response;

/// Bytes of the header.
pub(crate) const HEADER: usize = 12;
/// The longest message by TCP.
pub(crate) const LONGEST: usize = u16::MAX as usize;
/// The longest datagram that is sent and asked for: no path of today breaks it into fragments.
pub(crate) const DATAGRAM: usize = 1232;
/// The longest datagram for a client that says nothing of its buffer.
pub(crate) const SMALL_DATAGRAM: usize = 512;

pub(crate) const CLASS_IN: u16 = 1;

/// Types of records that the code knows by name.
pub(crate) mod kind {
    pub(crate) const A: u16 = 1;
    pub(crate) const NS: u16 = 2;
    pub(crate) const CNAME: u16 = 5;
    pub(crate) const SOA: u16 = 6;
    pub(crate) const PTR: u16 = 12;
    pub(crate) const AAAA: u16 = 28;
    pub(crate) const OPT: u16 = 41;
    pub(crate) const IXFR: u16 = 251;
    pub(crate) const AXFR: u16 = 252;
    pub(crate) const ANY: u16 = 255;
}

/// Response codes.
pub(crate) mod code {
    pub(crate) const NOERROR: u16 = 0;
    pub(crate) const FORMERR: u16 = 1;
    pub(crate) const SERVFAIL: u16 = 2;
    pub(crate) const NXDOMAIN: u16 = 3;
    pub(crate) const NOTIMP: u16 = 4;
    pub(crate) const REFUSED: u16 = 5;
    pub(crate) const BADVERS: u16 = 16;
}

/// Bits of the second and third byte pair of the header.
pub(crate) mod flag {
    pub(crate) const QR: u16 = 1 << 15;
    pub(crate) const OPCODE: u16 = 0b1111 << 11;
    pub(crate) const AA: u16 = 1 << 10;
    pub(crate) const TC: u16 = 1 << 9;
    pub(crate) const RD: u16 = 1 << 8;
    pub(crate) const RA: u16 = 1 << 7;
    pub(crate) const AD: u16 = 1 << 5;
    pub(crate) const CD: u16 = 1 << 4;
    pub(crate) const RCODE: u16 = 0b1111;
}

/// The number at this place; none beyond the end.
pub(crate) fn u16_at(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_be_bytes(*bytes.get(at..)?.first_chunk()?))
}

/// The same of four bytes.
pub(crate) fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_be_bytes(*bytes.get(at..)?.first_chunk()?))
}
