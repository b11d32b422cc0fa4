//! The mark of an owner: a TXT record beside a name that says who wrote what there.

use std::collections::BTreeSet;
use std::fmt;

use serde::{Deserialize, Serialize};

use super::Kind;
use crate::{Error, Name};

/// Begins every mark; the number is that of the format.
const HERITAGE: &str = "heritage=causeway/1";
/// How long resolvers may keep a mark, in seconds; nobody but controllers asks for it.
pub(crate) const MARK_TTL: u32 = 300;

/// Who wrote the records at a name.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Owner {
    /// The controller: two that write to one zone have different ones.
    pub instance: String,
    /// The object it did it for, as namespace and name.
    pub object: String,
    /// The kinds of records that it wrote; others at the name are not its own.
    pub kinds: BTreeSet<Kind>,
    /// Whether the records are on their way out: only the mark is left, until nobody serves them any more.
    #[serde(default)]
    pub leaving: bool,
}

impl Owner {
    /// The text of its mark.
    pub(crate) fn mark(&self) -> String {
        let Self { instance, object, kinds, leaving } = self;
        let kinds: Vec<_> = kinds.iter().map(ToString::to_string).collect();
        let leaving = if *leaving { " leaving" } else { "" };
        format!("{HERITAGE} instance={instance} object={object} kinds={}{leaving}", kinds.join(","))
    }

    /// Reads a mark; none for any other text.
    pub(crate) fn from_mark(text: &str) -> Option<Self> {
        let rest = text.strip_prefix(HERITAGE)?;
        let field = |key: &str| rest.split(' ').find_map(|word| word.strip_prefix(key));
        Some(Self {
            instance: field("instance=")?.to_owned(),
            object: field("object=")?.to_owned(),
            kinds: field("kinds=")?.split(',').filter_map(Kind::from_text).collect(),
            leaving: rest.split(' ').any(|word| word == "leaving"),
        })
    }
}

/// Checks that a controller's or an object's name can be part of a mark.
pub(crate) fn check_word(what: &str, word: &str) -> Result<(), Error> {
    let plain = |byte: u8| byte.is_ascii_graphic() && byte != b'"' && byte != b'\\';
    if word.is_empty() || word.len() > 100 || !word.bytes().all(plain) {
        return Err(Error::invalid(
            format!("{word:?} can't be {what} in a mark of ownership"),
            "use up to 100 letters, digits and signs, without spaces, quotes and backslashes",
        ));
    }
    Ok(())
}

impl fmt::Display for Owner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} of controller {}", self.object, self.instance)
    }
}

/// Where the mark of a name is. Not at the name itself, which may be a CNAME; but below it, so that it is in the same zone
/// and makes no name exist that would not otherwise.
pub(crate) fn mark_name(name: &Name) -> Name {
    let label = if name.is_wildcard() { "_causeway-wildcard" } else { "_causeway" };
    name.base().below(label)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn is_read_as_it_was_written() {
        for leaving in [false, true] {
            let owner = Owner {
                instance: "eu-1".into(),
                object: "shop/www".into(),
                kinds: [Kind::A, Kind::Aaaa].into(),
                leaving,
            };
            assert_eq!(Owner::from_mark(&owner.mark()), Some(owner));
        }
        for text in ["", "heritage=external-dns,external-dns/owner=x", "heritage=causeway/1", "v=spf1 -all"] {
            assert_eq!(Owner::from_mark(text), None, "{text}");
        }
    }

    #[test]
    fn is_beside_its_name() {
        let of = |text| mark_name(&Name::parse(text).unwrap()).to_string();
        assert_eq!(of("shop.example.com"), "_causeway.shop.example.com");
        assert_eq!(of("*.shop.example.com"), "_causeway-wildcard.shop.example.com");
    }
}
