//! A DHCPv6 message, read where it lies, and the relays around it. Sans-IO.

use std::net::Ipv6Addr;

/// Relays around a message at most.
const MOST_RELAYS: usize = 8;
const RELAY_FORWARD: u8 = 12;
const RELAY_REPLY: u8 = 13;
const RELAY_HEAD: usize = 34;

/// Options by their numbers.
pub(super) mod code {
    pub(crate) const CLIENT_ID: u16 = 1;
    pub(crate) const SERVER_ID: u16 = 2;
    pub(crate) const IA_NA: u16 = 3;
    pub(crate) const ADDRESS: u16 = 5;
    pub(crate) const RELAYED: u16 = 9;
    pub(crate) const STATUS: u16 = 13;
    pub(crate) const RAPID_COMMIT: u16 = 14;
    pub(crate) const INTERFACE_ID: u16 = 18;
    pub(crate) const DNS: u16 = 23;
    pub(crate) const SEARCH: u16 = 24;
    pub(crate) const NAME: u16 = 39;
    pub(crate) const LINK_LAYER: u16 = 79;
}

/// What a message is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Solicit = 1,
    Advertise = 2,
    Request = 3,
    Confirm = 4,
    Renew = 5,
    Rebind = 6,
    Reply = 7,
    Release = 8,
    Decline = 9,
    InformationRequest = 11,
}

impl Kind {
    fn of(number: u8) -> Option<Self> {
        let all = [
            Self::Solicit,
            Self::Request,
            Self::Confirm,
            Self::Renew,
            Self::Rebind,
            Self::Release,
            Self::Decline,
            Self::InformationRequest,
        ];
        all.into_iter().find(|kind| *kind as u8 == number)
    }

    /// Its name in metrics.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Solicit => "solicit",
            Self::Advertise => "advertise",
            Self::Request => "request6",
            Self::Confirm => "confirm",
            Self::Renew => "renew",
            Self::Rebind => "rebind",
            Self::Reply => "reply",
            Self::Release => "release6",
            Self::Decline => "decline6",
            Self::InformationRequest => "information_request",
        }
    }
}

/// A client's message.
pub(super) struct Message<'a> {
    pub kind: Kind,
    pub transaction: &'a [u8],
    options: &'a [u8],
    /// Outermost first.
    pub relays: Vec<Relay<'a>>,
}

/// A relay that passed a message on.
pub(super) struct Relay<'a> {
    /// Hops, link and peer, which a reply repeats.
    head: &'a [u8],
    interface_id: Option<&'a [u8]>,
    /// The client's kind of network and card (RFC 6939).
    pub link_layer: Option<&'a [u8]>,
}

impl Relay<'_> {
    /// Who the relay heard.
    pub(super) fn peer(&self) -> Option<Ipv6Addr> {
        Some(<[u8; 16]>::try_from(self.head.get(17..33)?).ok()?.into())
    }

    /// An address in the network of who it heard; none if the relay does not know.
    pub(super) fn link(&self) -> Option<Ipv6Addr> {
        let link: Ipv6Addr = <[u8; 16]>::try_from(self.head.get(1..17)?).ok()?.into();
        (!link.is_unspecified()).then_some(link)
    }
}

impl<'a> Message<'a> {
    /// None for what is no message of a client.
    pub(super) fn parse(mut bytes: &'a [u8]) -> Option<Self> {
        let mut relays = Vec::new();
        while bytes.first() == Some(&RELAY_FORWARD) {
            let (head, options) = bytes.split_at_checked(RELAY_HEAD)?;
            if relays.len() == MOST_RELAYS || !is_whole(options) {
                return None;
            }
            relays.push(Relay {
                head: &head[1..],
                interface_id: find(options, code::INTERFACE_ID),
                link_layer: find(options, code::LINK_LAYER),
            });
            bytes = find(options, code::RELAYED)?;
        }
        let (head, options) = bytes.split_at_checked(4)?;
        let kind = Kind::of(head[0])?;
        is_whole(options).then_some(Self { kind, transaction: &head[1..], options, relays })
    }

    pub(super) fn option(&self, code: u16) -> Option<&'a [u8]> {
        find(self.options, code)
    }

    /// All options of a number.
    pub(super) fn options(&self, code: u16) -> impl Iterator<Item = &'a [u8]> {
        Options(self.options).flatten().filter(move |(number, _)| *number == code).map(|(_, value)| value)
    }

    /// Wraps a reply as each relay needs it to pass it back.
    pub(super) fn wrap(&self, reply: &mut Vec<u8>) {
        for relay in self.relays.iter().rev() {
            let mut outer = vec![RELAY_REPLY];
            outer.extend_from_slice(relay.head);
            if let Some(interface) = relay.interface_id {
                put(&mut outer, code::INTERFACE_ID, interface);
            }
            put(&mut outer, code::RELAYED, reply);
            *reply = outer;
        }
    }
}

/// Addresses and identity of an option IA_NA.
pub(super) struct Association<'a> {
    pub id: [u8; 4],
    options: &'a [u8],
}

impl<'a> Association<'a> {
    pub(super) fn parse(value: &'a [u8]) -> Option<Self> {
        let (head, options) = value.split_at_checked(12)?;
        is_whole(options).then_some(Self { id: *head.first_chunk()?, options })
    }

    /// The addresses that the client has or wants.
    pub(super) fn addresses(&self) -> impl Iterator<Item = Ipv6Addr> {
        let all = Options(self.options).flatten().filter(|(number, _)| *number == code::ADDRESS);
        all.filter_map(|(_, value)| Some(Ipv6Addr::from(*value.first_chunk::<16>()?)))
    }
}

/// Adds an option; what is longer than an option can be is cut.
pub(super) fn put(bytes: &mut Vec<u8>, code: u16, value: &[u8]) {
    let value = &value[..value.len().min(usize::from(u16::MAX))];
    bytes.extend_from_slice(&code.to_be_bytes());
    bytes.extend_from_slice(&(value.len() as u16).to_be_bytes());
    bytes.extend_from_slice(value);
}

fn find(options: &[u8], code: u16) -> Option<&[u8]> {
    Options(options).flatten().find(|(number, _)| *number == code).map(|(_, value)| value)
}

fn is_whole(options: &[u8]) -> bool {
    Options(options).all(|option| option.is_some())
}

/// Options one after the other; the last one is none if it is cut.
struct Options<'a>(&'a [u8]);

impl<'a> Iterator for Options<'a> {
    type Item = Option<(u16, &'a [u8])>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.0.is_empty() {
            return None;
        }
        let option = || {
            let (head, rest) = self.0.split_first_chunk::<4>()?;
            let [a, b, c, d] = *head;
            let (value, rest) = rest.split_at_checked(usize::from(u16::from_be_bytes([c, d])))?;
            Some((u16::from_be_bytes([a, b]), value, rest))
        };
        let Some((code, value, rest)) = option() else {
            self.0 = &[];
            return Some(None);
        };
        self.0 = rest;
        Some(Some((code, value)))
    }
}
