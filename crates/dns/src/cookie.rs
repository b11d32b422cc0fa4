//! Cookies (RFC 7873, in the form of RFC 9018): a client that shows ours has been seen at its address, so it is no forger.

use std::hash::Hasher as _;
use std::net::IpAddr;

/// How old a cookie may be, and how far in the future for clocks that differ.
const OLDEST: u32 = 3600;
const FUTURE: u32 = 300;
/// From this age on a new one is given.
const RENEW: u32 = 1800;

/// A client's and our cookie, as they stand in an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Cookie([u8; Self::LEN]);

impl Cookie {
    pub(crate) const LEN: usize = 24;

    pub(crate) fn as_bytes(&self) -> &[u8] {
        &self.0
    }
}

/// What makes cookies ours.
pub(crate) struct Secret {
    keys: [u64; 2],
}

impl Secret {
    pub(crate) fn new(bytes: [u8; 16]) -> Self {
        let (low, high) = (u128::from_le_bytes(bytes) as u64, (u128::from_le_bytes(bytes) >> 64) as u64);
        Self { keys: [low, high] }
    }

    /// What to answer to a client's cookie, and whether the client has shown that it is where it says.
    pub(crate) fn check(&self, shown: &[u8], client: IpAddr, now: u32) -> Option<(Cookie, bool)> {
        let client_cookie = *shown.first_chunk::<8>()?;
        let server_cookie = shown.get(8..).filter(|cookie| cookie.len() == 16 && cookie[..4] == [1, 0, 0, 0]);
        if let Some(cookie) = server_cookie {
            let time = u32::from_be_bytes(*cookie[4..].first_chunk()?);
            // Serial number arithmetic: the time wraps around.
            let age = now.wrapping_sub(time).cast_signed();
            let fresh = age <= OLDEST.cast_signed() && age >= -FUTURE.cast_signed();
            let made = self.make(client_cookie, client, time);
            if fresh && made.0[8..] == *cookie {
                let renewed = age > RENEW.cast_signed();
                return Some((if renewed { self.make(client_cookie, client, now) } else { made }, true));
            }
        }
        Some((self.make(client_cookie, client, now), false))
    }

    #[expect(
        deprecated,
        reason = "this is SipHash-2-4, which RFC 9018 asks for; the standard library's other one is not"
    )]
    fn make(&self, client_cookie: [u8; 8], client: IpAddr, time: u32) -> Cookie {
        let mut bytes = [0; Cookie::LEN];
        bytes[..8].copy_from_slice(&client_cookie);
        bytes[8] = 1;
        bytes[12..16].copy_from_slice(&time.to_be_bytes());
        let mut hasher = std::hash::SipHasher::new_with_keys(self.keys[0], self.keys[1]);
        hasher.write(&bytes[..16]);
        match client {
            IpAddr::V4(address) => hasher.write(&address.octets()),
            IpAddr::V6(address) => hasher.write(&address.octets()),
        }
        bytes[16..].copy_from_slice(&hasher.finish().to_le_bytes());
        Cookie(bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bytes<const N: usize>(text: &str) -> [u8; N] {
        std::array::from_fn(|i| u8::from_str_radix(&text[2 * i..2 * i + 2], 16).unwrap())
    }

    /// The examples of RFC 9018, appendix A.
    #[test]
    fn is_the_cookie_that_other_servers_make() {
        const OLD: &str = "e5e973e5a6b2a43f48e7dc849e37bfcf";
        const NEW: &str = "445536bcd2513298075a5d379663c962";
        let v6 = "2001:db8:220:1:59de:d0f4:8769:82b8";
        for (secret, client, time, cookie) in [
            (OLD, "198.51.100.100", 1_559_731_985, "2464c4abcf10c957010000005cf79f111f8130c3eee29480"),
            (OLD, "198.51.100.100", 1_559_734_385, "2464c4abcf10c957010000005cf7a871d4a564a1442aca77"),
            (OLD, "203.0.113.203", 1_559_734_700, "fc93fc62807ddb86010000005cf7a9acf73a7810aca2381e"),
            (NEW, v6, 1_559_741_961, "22681ab97d52c298010000005cf7c609a6bb79d16625507a"),
        ] {
            let cookie: [u8; 24] = bytes(cookie);
            let made = Secret::new(bytes(secret)).check(&cookie[..8], client.parse().unwrap(), time);
            assert_eq!(made, Some((Cookie(cookie), false)));
        }
    }

    #[test]
    fn knows_its_own_cookie_from_the_same_address_for_an_hour() {
        let (secret, at) = (Secret::new([7; 16]), "10.0.0.1".parse().unwrap());
        let (cookie, known) = secret.check(b"abcdefgh", at, 1000).unwrap();
        assert!(!known);
        let known = |client: IpAddr, now| secret.check(cookie.as_bytes(), client, now).unwrap().1;
        assert!(known(at, 1000) && known(at, 4600) && known(at, 800));
        assert!(!known(at, 4601) && !known(at, 600), "too old, or of the future");
        assert!(!known("10.0.0.2".parse().unwrap(), 1000), "of another");
        assert_eq!(secret.check(cookie.as_bytes(), at, 2000).unwrap().0, cookie);
        assert_ne!(secret.check(cookie.as_bytes(), at, 3000).unwrap().0, cookie, "renewed");
    }
}
