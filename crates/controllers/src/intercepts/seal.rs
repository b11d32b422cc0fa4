//! Originals beside what was changed: in an annotation, with proof that the operator wrote it for this very object. Whoever
//! else may write annotations can take it away, but can't make another.

use aws_lc_rs::hmac;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD_NO_PAD as BASE64;
use serde::{Deserialize, Serialize, de::DeserializeOwned};
use serde_json::value::RawValue;

/// Seals and opens originals.
#[derive(Clone)]
pub(crate) struct Sealer(hmac::Key);

/// The object that an original is of.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Whose<'a> {
    /// Its kind.
    pub(crate) kind: &'a str,
    /// Its uid, which no other object ever has.
    pub(crate) uid: &'a str,
}

#[derive(Serialize, Deserialize)]
struct Sealed {
    /// As text: what is proved is what was written, letter by letter.
    original: Box<RawValue>,
    seal: String,
}

impl Sealer {
    /// With this key.
    pub(crate) fn new(key: &[u8]) -> Self {
        Self(hmac::Key::new(hmac::HMAC_SHA256, key))
    }

    /// An original with its proof.
    pub(crate) fn seal<T: Serialize>(&self, whose: Whose<'_>, original: &T) -> Option<String> {
        let original = serde_json::value::to_raw_value(original).ok()?;
        let seal = BASE64.encode(hmac::sign(&self.0, &proved(whose, original.get())));
        serde_json::to_string(&Sealed { original, seal }).ok()
    }

    /// The original, if it is proved to be this object's.
    pub(crate) fn open<T: DeserializeOwned>(&self, whose: Whose<'_>, text: &str) -> Option<T> {
        let sealed: Sealed = serde_json::from_str(text).ok()?;
        let seal = BASE64.decode(&sealed.seal).ok()?;
        hmac::verify(&self.0, &proved(whose, sealed.original.get()), &seal).ok()?;
        serde_json::from_str(sealed.original.get()).ok()
    }
}

/// Lengths first, so that no two different things are the same bytes.
fn proved(whose: Whose<'_>, original: &str) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(original.len() + whose.uid.len() + whose.kind.len() + 48);
    for part in ["causeway.dev/original", whose.kind, whose.uid, original] {
        bytes.extend((part.len() as u64).to_be_bytes());
        bytes.extend(part.as_bytes());
    }
    bytes
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    type Selector = BTreeMap<String, String>;

    #[test]
    fn an_original_is_of_one_object_and_cannot_be_made_up() {
        let sealer = Sealer::new(&[7; 32]);
        let web = Whose { kind: "Service", uid: "1" };
        let original: Selector = [("app".to_owned(), "web".to_owned())].into();
        let text = sealer.seal(web, &original).unwrap();
        assert_eq!(sealer.open::<Selector>(web, &text), Some(original));
        let open = |sealer: &Sealer, whose, text: &str| sealer.open::<Selector>(whose, text);
        assert_eq!(open(&sealer, Whose { kind: "Service", uid: "2" }, &text), None, "another object");
        assert_eq!(open(&sealer, Whose { kind: "Deployment", uid: "1" }, &text), None, "another kind");
        assert_eq!(open(&sealer, web, &text.replace("web", "evil")), None, "another content");
        assert_eq!(open(&Sealer::new(&[8; 32]), web, &text), None, "another operator");
        for text in ["", "{}", "{\"original\":{},\"seal\":\"\"}", "{\"original\":{},\"seal\":\"AAAA\"}"] {
            assert_eq!(open(&sealer, web, text), None, "{text}");
        }
    }
}
