//! What a health check of kind `tls` says and hears: a ClientHello, and the first bytes of a server that speaks TLS. It is
//! the same for every reader of the plan, so that all of them hold the same endpoints for healthy.

/// The start of a record with a handshake, whatever the version: a ServerHello, or the wish for another key share.
pub const ANSWER: &[u8] = &[22, 3];

/// A ClientHello for TLS 1.2 and 1.3 that offers no key share: the server may choose everything. It asks for this name, if
/// there is one.
pub fn bytes(server_name: Option<&str>) -> Vec<u8> {
    const CIPHERS: [u16; 9] = [0x1301, 0x1302, 0x1303, 0xc02b, 0xc02f, 0xc02c, 0xc030, 0xcca9, 0xcca8];
    let sized = |body: Vec<u8>| [(body.len() as u16).to_be_bytes().to_vec(), body].concat();
    let extension = |kind: u16, body: &[u8]| [kind.to_be_bytes().to_vec(), sized(body.to_vec())].concat();
    let names = server_name.map_or_else(Vec::new, |name| {
        extension(0, &sized([vec![0], sized(name.as_bytes().to_vec())].concat()))
    });
    let extensions = [
        names,
        extension(10, &[0, 6, 0, 29, 0, 23, 0, 24]), // groups: x25519, P-256, P-384
        extension(11, &[1, 0]),                      // uncompressed points
        extension(13, &[0, 14, 4, 3, 5, 3, 6, 3, 8, 4, 8, 5, 8, 6, 8, 7]), // signatures
        extension(43, &[4, 3, 4, 3, 3]),             // versions: 1.3, 1.2
        extension(51, &[0, 0]),                      // key shares: none
    ];
    let body = [
        vec![3, 3],
        vec![0x5a; 32], // the random: nothing is ever encrypted with it
        vec![0],        // no session
        sized(CIPHERS.iter().flat_map(|cipher| cipher.to_be_bytes()).collect()),
        vec![1, 0], // no compression
        sized(extensions.concat()),
    ];
    let message = [vec![1, 0], sized(body.concat())].concat();
    [vec![22, 3, 1], sized(message)].concat()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_length_fits_what_follows() {
        for name in [None, Some("a.test")] {
            let bytes = bytes(name);
            every_length_of(&bytes);
        }
    }

    fn every_length_of(bytes: &[u8]) {
        let length = |at: usize| usize::from(u16::from_be_bytes([bytes[at], bytes[at + 1]]));
        assert_eq!(bytes[..3], [22, 3, 1]);
        assert_eq!(length(3), bytes.len() - 5, "record");
        assert_eq!(bytes[5..7], [1, 0]);
        assert_eq!(length(7), bytes.len() - 9, "message");
        let ciphers = 9 + 2 + 32 + 1;
        let extensions = ciphers + 2 + length(ciphers) + 2;
        assert_eq!(length(extensions), bytes.len() - extensions - 2, "extensions");
    }
}
