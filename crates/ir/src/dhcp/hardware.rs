//! Addresses of network cards, and other bytes that people write in hexadecimal.

use std::fmt;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// An Ethernet address, written `02:00:00:00:00:01`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct HardwareAddress(pub [u8; 6]);

impl HardwareAddress {
    /// Reads six bytes in hexadecimal with colons or dashes between them.
    ///
    /// # Errors
    /// A sentence that says what to write.
    pub fn parse(text: &str) -> Result<Self, String> {
        let mut bytes = [0; 6];
        let parts: Vec<&str> = text.split([':', '-']).collect();
        let right = parts.len() == 6
            && parts.iter().zip(&mut bytes).all(|(part, byte)| {
                let hex = part.len() == 2 && part.bytes().all(|b| b.is_ascii_hexdigit());
                let parsed = hex.then(|| u8::from_str_radix(part, 16).ok()).flatten();
                parsed.map(|value| *byte = value).is_some()
            });
        right
            .then_some(Self(bytes))
            .ok_or_else(|| format!("`{text}` is not a hardware address: write 02:00:00:00:00:01"))
    }
}

impl Serialize for HardwareAddress {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for HardwareAddress {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        Self::parse(&text).map_err(serde::de::Error::custom)
    }
}

impl fmt::Display for HardwareAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&hex(&self.0))
    }
}

/// The identifier that a client gives itself (option 61), or a DUID of DHCPv6, written `ff:00:01:…`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ClientId(pub Vec<u8>);

impl ClientId {
    /// Reads 1 to 255 bytes in hexadecimal with colons or dashes between them.
    ///
    /// # Errors
    /// A sentence that says what to write.
    pub fn parse(text: &str) -> Result<Self, String> {
        let byte = |part: &str| {
            let hex = part.len() == 2 && part.bytes().all(|b| b.is_ascii_hexdigit());
            hex.then(|| u8::from_str_radix(part, 16).ok()).flatten()
        };
        let bytes: Option<Vec<u8>> = text.split([':', '-']).map(byte).collect();
        let right = bytes.filter(|bytes| bytes.len() <= 255);
        right
            .map(Self)
            .ok_or_else(|| format!("`{text}` is not a client identifier: write bytes like ff:00:0a"))
    }
}

impl fmt::Display for ClientId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&hex(&self.0))
    }
}

impl Serialize for ClientId {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for ClientId {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        Self::parse(&text).map_err(serde::de::Error::custom)
    }
}

/// Bytes as people write them: `02:00:0a`.
pub fn hex(bytes: &[u8]) -> String {
    let bytes: Vec<_> = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    bytes.join(":")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_and_writes_hardware_addresses() {
        let address = HardwareAddress::parse("02-00-AB-00-00-01").unwrap();
        assert_eq!(serde_json::to_string(&address).unwrap(), "\"02:00:ab:00:00:01\"");
        for text in ["", "02:00", "02:00:00:00:00:0g", "02:00:00:00:00:001", "+2:00:00:00:00:01"] {
            assert!(HardwareAddress::parse(text).is_err(), "{text}");
        }
    }

    #[test]
    fn reads_and_writes_client_identifiers() {
        assert_eq!(ClientId::parse("FF-00-0a").unwrap().to_string(), "ff:00:0a");
        for text in ["", "f", "ff:", "ff:0x"] {
            assert!(ClientId::parse(text).is_err(), "{text}");
        }
    }
}
