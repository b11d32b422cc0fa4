//! Keys, in the form that `wg` reads and writes them.

use std::fmt;
use std::str::FromStr;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use gotatun::x25519;

/// Who somebody is.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct PublicKey(pub [u8; 32]);

/// What only one has. It is not shown by `Debug`.
#[derive(Clone, PartialEq, Eq)]
pub struct SecretKey(pub [u8; 32]);

/// A text that is no key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InvalidKey;

impl SecretKey {
    /// A new one, by the system's chance.
    ///
    /// # Panics
    /// When the system has none.
    pub fn generate() -> Self {
        let mut bytes = [0; 32];
        aws_lc_rs::rand::fill(&mut bytes).expect("the system's source of chance");
        Self(bytes)
    }

    /// The public key that goes with it.
    pub fn public(&self) -> PublicKey {
        PublicKey(x25519::PublicKey::from(&x25519::StaticSecret::from(self.0)).to_bytes())
    }

    /// The text that `wg` reads.
    pub fn to_base64(&self) -> String {
        STANDARD.encode(self.0)
    }
}

impl fmt::Debug for SecretKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SecretKey")
    }
}

impl fmt::Display for PublicKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&STANDARD.encode(self.0))
    }
}

impl fmt::Debug for PublicKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl FromStr for PublicKey {
    type Err = InvalidKey;

    fn from_str(text: &str) -> Result<Self, InvalidKey> {
        parse(text).map(Self)
    }
}

impl FromStr for SecretKey {
    type Err = InvalidKey;

    fn from_str(text: &str) -> Result<Self, InvalidKey> {
        parse(text).map(Self)
    }
}

fn parse(text: &str) -> Result<[u8; 32], InvalidKey> {
    STANDARD.decode(text.trim()).ok().and_then(|bytes| bytes.try_into().ok()).ok_or(InvalidKey)
}

impl fmt::Display for InvalidKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a WireGuard key is 32 bytes in base64, as `wg genkey` and `wg pubkey` print them")
    }
}

impl std::error::Error for InvalidKey {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_read_and_written_as_wg_does() {
        // From `wg genkey` and `wg pubkey`.
        let secret: SecretKey = "yAnz5TF+lXXJte14tji3zlMNq+hd2rYUIgJBgB3fBmk=".parse().unwrap();
        assert_eq!(secret.public().to_string(), "HIgo9xNzJMWLKASShiTqIybxZ0U3wGLiUeJ1PKf8ykw=");
        assert_eq!(secret.to_base64().parse(), Ok(secret.clone()));
        assert_eq!(format!("{secret:?}"), "SecretKey");
        assert_eq!("short".parse::<PublicKey>(), Err(InvalidKey));
        assert_ne!(SecretKey::generate(), SecretKey::generate());
    }
}
