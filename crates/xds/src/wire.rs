//! Protobuf by hand, for the few messages that the generated types lack or can't write in a stable order: maps are
//! hash maps there, and a version is a hash of the bytes.

/// A length-delimited field: a string, bytes or a message.
pub(crate) fn field(number: u8, body: &[u8]) -> Vec<u8> {
    let mut bytes = vec![number << 3 | 2];
    let mut length = body.len();
    while length >= 0x80 {
        bytes.push(length as u8 | 0x80);
        length >>= 7;
    }
    bytes.push(length as u8);
    bytes.extend_from_slice(body);
    bytes
}

/// A boolean field that is true.
pub(crate) fn truth(number: u8) -> [u8; 2] {
    [number << 3, 1]
}

#[cfg(test)]
mod tests {
    use super::*;
    use envoy_types::pb::envoy::config::core::v3::Locality;
    use envoy_types::util::pack_any;

    #[test]
    fn writes_what_the_generated_types_write() {
        let long = "z".repeat(300);
        let locality = Locality { region: "r".into(), zone: long.clone(), ..Locality::default() };
        assert_eq!([field(1, b"r"), field(2, long.as_bytes())].concat(), pack_any(locality).value);
    }
}
