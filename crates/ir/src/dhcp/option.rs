//! Options by their number, with values of a type.

use std::net::Ipv4Addr;

use serde::{Deserialize, Serialize};

use super::ClientId;
use crate::Name;

/// An option by its number.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct DhcpOption {
    /// 1 to 254.
    pub code: u8,
    /// What it says.
    pub value: OptionValue,
}

/// What an option says, in the form that it has.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum OptionValue {
    /// IPv4 addresses, one after the other.
    Addresses(Vec<Ipv4Addr>),
    /// Text as it is.
    Text(String),
    /// Names of domains, as in DNS.
    Domains(Vec<Name>),
    /// A number of one byte.
    Uint8(u8),
    /// A number of two bytes.
    Uint16(u16),
    /// A number of four bytes.
    Uint32(u32),
    /// Bytes, like `01:0a`.
    Bytes(ClientId),
}

impl OptionValue {
    /// The bytes that are sent.
    pub fn bytes(&self) -> Vec<u8> {
        match self {
            Self::Addresses(addresses) => addresses.iter().flat_map(Ipv4Addr::octets).collect(),
            Self::Text(text) => text.clone().into_bytes(),
            Self::Domains(names) => domains(names),
            Self::Uint8(number) => vec![*number],
            Self::Uint16(number) => number.to_be_bytes().to_vec(),
            Self::Uint32(number) => number.to_be_bytes().to_vec(),
            Self::Bytes(bytes) => bytes.0.clone(),
        }
    }
}

/// Names in DNS' form, without compression.
pub(crate) fn domains(names: &[Name]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for name in names {
        for label in name.split('.').filter(|label| !label.is_empty()) {
            bytes.push(label.len() as u8);
            bytes.extend_from_slice(label.as_bytes());
        }
        bytes.push(0);
    }
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_have_the_form_of_their_type() {
        for (text, bytes) in [
            ("{code: 42, value: {addresses: [10.0.0.1, 10.0.0.2]}}", &[10, 0, 0, 1, 10, 0, 0, 2][..]),
            ("{code: 100, value: {text: UTC}}", b"UTC"),
            ("{code: 119, value: {domains: [a.b.]}}", b"\x01a\x01b\x00"),
            ("{code: 26, value: {uint16: 1400}}", &[5, 120]),
            ("{code: 2, value: {uint32: 1}}", &[0, 0, 0, 1]),
            ("{code: 43, value: {bytes: '01:ff'}}", &[1, 255]),
        ] {
            let option: DhcpOption = serde_saphyr::from_str(text).unwrap();
            assert_eq!(option.value.bytes(), bytes, "{text}");
        }
    }
}
