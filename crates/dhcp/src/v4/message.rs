//! A DHCPv4 message, read where it lies: options also from the fields of old (option 52), long ones put together again
//! (RFC 3396). Sans-IO.

use std::borrow::Cow;
use std::net::Ipv4Addr;

/// Where options begin: the fixed fields of BOOTP and the cookie.
pub(crate) const HEAD: usize = 240;
pub(crate) const COOKIE: [u8; 4] = [99, 130, 83, 99];
const REQUEST: u8 = 1;
const SERVER_NAME: std::ops::Range<usize> = 44..108;
const FILE: std::ops::Range<usize> = 108..236;
/// The first bit of the flags: the client can't take unicast yet.
const BROADCAST: u8 = 0x80;

/// Options by their numbers.
pub(crate) mod code {
    pub(crate) const PAD: u8 = 0;
    pub(crate) const MASK: u8 = 1;
    pub(crate) const ROUTER: u8 = 3;
    pub(crate) const DNS: u8 = 6;
    pub(crate) const HOSTNAME: u8 = 12;
    pub(crate) const DOMAIN: u8 = 15;
    pub(crate) const MTU: u8 = 26;
    pub(crate) const BROADCAST: u8 = 28;
    pub(crate) const NTP: u8 = 42;
    pub(crate) const REQUESTED: u8 = 50;
    pub(crate) const LEASE_TIME: u8 = 51;
    pub(crate) const OVERLOAD: u8 = 52;
    pub(crate) const KIND: u8 = 53;
    pub(crate) const SERVER: u8 = 54;
    pub(crate) const WANTED: u8 = 55;
    pub(crate) const MESSAGE: u8 = 56;
    pub(crate) const MAX_SIZE: u8 = 57;
    pub(crate) const RENEW: u8 = 58;
    pub(crate) const REBIND: u8 = 59;
    pub(crate) const CLIENT_ID: u8 = 61;
    pub(crate) const BOOT_SERVER: u8 = 66;
    pub(crate) const BOOT_FILE: u8 = 67;
    pub(crate) const RELAY: u8 = 82;
    pub(crate) const SUBNET: u8 = 118;
    pub(crate) const SEARCH: u8 = 119;
    pub(crate) const ROUTES: u8 = 121;
    pub(crate) const END: u8 = 255;
}

/// What a message is for (option 53).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Kind {
    Discover,
    Offer,
    Request,
    Decline,
    Ack,
    Nak,
    Release,
    Inform,
}

impl Kind {
    pub(crate) const ALL: [Self; 8] = [
        Self::Discover,
        Self::Offer,
        Self::Request,
        Self::Decline,
        Self::Ack,
        Self::Nak,
        Self::Release,
        Self::Inform,
    ];

    /// The number on the wire.
    pub(crate) fn number(self) -> u8 {
        self as u8 + 1
    }

    /// Its name in metrics.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Discover => "discover",
            Self::Offer => "offer",
            Self::Request => "request",
            Self::Decline => "decline",
            Self::Ack => "ack",
            Self::Nak => "nak",
            Self::Release => "release",
            Self::Inform => "inform",
        }
    }

    fn of(number: u8) -> Option<Self> {
        Self::ALL.get(usize::from(number.checked_sub(1)?)).copied()
    }
}

/// Why bytes are no request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Malformed {
    #[error("shorter than a message is")]
    Short,
    #[error("not a request of a client")]
    NotARequest,
    #[error("a hardware address of more than 16 bytes")]
    HardwareLength,
    #[error("an option that is longer than the message")]
    Option,
    #[error("no message type, as in BOOTP")]
    NoKind,
}

/// A client's message.
#[derive(Clone, Copy)]
pub(crate) struct Message<'a> {
    bytes: &'a [u8],
    overload: u8,
    pub kind: Kind,
    /// It was sent to this server alone, by the client itself: no other server has heard it.
    pub is_direct: bool,
}

impl<'a> Message<'a> {
    pub(crate) fn parse(bytes: &'a [u8]) -> Result<Self, Malformed> {
        if bytes.len() < HEAD || bytes[236..HEAD] != COOKIE {
            return Err(Malformed::Short);
        }
        if bytes[0] != REQUEST {
            return Err(Malformed::NotARequest);
        }
        if bytes[2] > 16 {
            return Err(Malformed::HardwareLength);
        }
        let mut message = Self { bytes, overload: 0, kind: Kind::Discover, is_direct: false };
        let mut kind = None;
        for option in Options(&bytes[HEAD..]) {
            match option.map_err(|()| Malformed::Option)? {
                (code::OVERLOAD, &[fields @ 1..=3]) => message.overload = fields,
                (code::KIND, &[number]) => kind = Kind::of(number),
                _ => {}
            }
        }
        // The fields of old hold options only if all of them can be read; a client that says so wrongly is not heard.
        if message.overloaded().any(|field| Options(field).any(|option| option.is_err())) {
            return Err(Malformed::Option);
        }
        message.kind = kind.ok_or(Malformed::NoKind)?;
        Ok(message)
    }

    /// The first eleven fields of old up to `chaddr`, which a reply repeats in part.
    pub(crate) fn head(&self) -> &'a [u8] {
        &self.bytes[..SERVER_NAME.start]
    }

    pub(crate) fn hops(&self) -> u8 {
        self.bytes[3]
    }

    pub(crate) fn wants_broadcast(&self) -> bool {
        self.bytes[10] & BROADCAST != 0
    }

    /// The address that the client has and can be reached by.
    pub(crate) fn client(&self) -> Option<Ipv4Addr> {
        self.address_at(12)
    }

    /// The relay that passed the message on.
    pub(crate) fn relay(&self) -> Option<Ipv4Addr> {
        self.address_at(24)
    }

    fn address_at(&self, place: usize) -> Option<Ipv4Addr> {
        let octets: [u8; 4] = self.bytes.get(place..place + 4)?.try_into().ok()?;
        Some(Ipv4Addr::from(octets)).filter(|address| !address.is_unspecified())
    }

    /// The kind of the client's network, and its address there.
    pub(crate) fn hardware(&self) -> (u8, &'a [u8]) {
        (self.bytes[1], &self.bytes[28..28 + usize::from(self.bytes[2])])
    }

    /// An option; borrowed unless it came in pieces.
    pub(crate) fn option(&self, code: u8) -> Option<Cow<'a, [u8]>> {
        let mut found: Option<Cow<'a, [u8]>> = None;
        let main = std::iter::once(&self.bytes[HEAD..]);
        let all = main.chain(self.overloaded()).flat_map(Options).map_while(Result::ok);
        for (_, value) in all.filter(|(number, _)| *number == code) {
            match &mut found {
                None => found = Some(Cow::Borrowed(value)),
                Some(before) => before.to_mut().extend_from_slice(value),
            }
        }
        found
    }

    /// An option that is one address.
    pub(crate) fn address(&self, code: u8) -> Option<Ipv4Addr> {
        let octets: [u8; 4] = self.option(code)?.as_ref().try_into().ok()?;
        Some(octets.into())
    }

    fn overloaded(&self) -> impl Iterator<Item = &'a [u8]> + use<'a> {
        let (bytes, overload) = (self.bytes, self.overload);
        let fields = [(1, FILE), (2, SERVER_NAME)].into_iter();
        fields.filter(move |(bit, _)| overload & bit != 0).map(move |(_, field)| &bytes[field])
    }
}

/// Options one after the other, up to the end's mark or the end of the bytes.
struct Options<'a>(&'a [u8]);

impl<'a> Iterator for Options<'a> {
    type Item = Result<(u8, &'a [u8]), ()>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            match self.0 {
                [] | [code::END, ..] => return None,
                [code::PAD, rest @ ..] => self.0 = rest,
                [code, length, rest @ ..] => {
                    let Some((value, rest)) = rest.split_at_checked(usize::from(*length)) else {
                        self.0 = &[];
                        return Some(Err(()));
                    };
                    self.0 = rest;
                    return Some(Ok((*code, value)));
                }
                [_] => {
                    self.0 = &[];
                    return Some(Err(()));
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::v4::reply::Reply;

    /// A message of a client with these options.
    fn message(options: &[u8]) -> Vec<u8> {
        let mut bytes = vec![0; HEAD];
        bytes[..3].copy_from_slice(&[REQUEST, 1, 6]);
        bytes[236..].copy_from_slice(&COOKIE);
        bytes.extend_from_slice(options);
        bytes
    }

    #[test]
    fn options_in_pieces_and_in_the_fields_of_old_are_put_together() {
        let mut bytes = message(&[53, 1, 1, 52, 1, 3, 61, 1, 7, 0, 61, 1, 8, 255, 61, 1, 99]);
        bytes[FILE][..4].copy_from_slice(&[61, 1, 9, 255]);
        bytes[SERVER_NAME][..6].copy_from_slice(&[12, 1, b'h', 61, 1, 10]);
        let message = Message::parse(&bytes).unwrap();
        assert_eq!(message.option(code::CLIENT_ID).unwrap().as_ref(), [7, 8, 9, 10]);
        assert_eq!(message.option(code::HOSTNAME).unwrap().as_ref(), b"h");
    }

    #[test]
    fn what_is_no_request_is_refused() {
        let reply = |change: fn(&mut Vec<u8>)| {
            let mut bytes = message(&[53, 1, 1, 255]);
            change(&mut bytes);
            Message::parse(&bytes).map(|message| message.kind)
        };
        assert_eq!(reply(|_| {}), Ok(Kind::Discover));
        assert_eq!(reply(|bytes| bytes[0] = 2), Err(Malformed::NotARequest));
        assert_eq!(reply(|bytes| bytes[2] = 17), Err(Malformed::HardwareLength));
        assert_eq!(reply(|bytes| bytes[238] = 0), Err(Malformed::Short));
        assert_eq!(reply(|bytes| bytes.truncate(HEAD)), Err(Malformed::NoKind));
        assert_eq!(reply(|bytes| bytes[241] = 9), Err(Malformed::Option));
        assert_eq!(reply(|bytes| bytes[242] = 9), Err(Malformed::NoKind));
        assert_eq!(reply(|bytes| bytes.splice(243.., [52, 1, 1]).for_each(drop)), Ok(Kind::Discover));
    }

    proptest! {
        #[test]
        fn rubbish_never_panics(bytes in prop::collection::vec(any::<u8>(), 0..700)) {
            let _ = Message::parse(&bytes).map(|message| message.option(61));
        }

        #[test]
        fn bent_options_never_panic(options in prop::collection::vec(any::<u8>(), 0..300)) {
            let bytes = message(&options);
            if let Ok(message) = Message::parse(&bytes) {
                for code in 0..=255 {
                    let _ = (message.option(code), message.address(code), message.hardware(), message.relay());
                }
            }
        }

        #[test]
        fn what_is_written_is_read_again(
            options in prop::collection::btree_map(60..=250_u8, prop::collection::vec(any::<u8>(), 0..600), 0..6),
        ) {
            let asked = message(&[53, 1, 1]);
            let asked = Message::parse(&asked).unwrap();
            let mut bytes = Vec::new();
            let mut reply = Reply::begin(&mut bytes, &asked, Kind::Ack, 4000);
            for (code, value) in &options {
                prop_assert!(reply.option(*code, value));
            }
            reply.end();
            bytes[0] = REQUEST;
            let message = Message::parse(&bytes).unwrap();
            prop_assert_eq!(message.kind, Kind::Ack);
            for (code, value) in options {
                prop_assert_eq!(message.option(code).unwrap_or_default().into_owned(), value);
            }
        }
    }
}
