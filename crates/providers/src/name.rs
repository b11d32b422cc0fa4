//! Names of DNS, in the one spelling that all providers compare by.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::Error;

/// A full name in lower case, in ASCII (A-labels for other scripts) and without a trailing dot; the first label may be `*`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Name(String);

impl Name {
    /// Reads a name in any case, with or without a trailing dot.
    ///
    /// # Errors
    /// When it is not a name that DNS could hold, or not in ASCII.
    pub fn parse(text: &str) -> Result<Self, Error> {
        let name = text.strip_suffix('.').unwrap_or(text).to_ascii_lowercase();
        let whole = (1..=253).contains(&name.len());
        let parts = name.split('.').enumerate().all(|(i, label)| is_label(label) || (i == 0 && label == "*"));
        if !whole || !parts || name == "*" {
            return Err(Error::invalid(
                format!("{text:?} is not a name of DNS"),
                "write labels of letters, digits and hyphens, such as shop.example.com, and A-labels (xn--…) for other scripts",
            ));
        }
        Ok(Self(name))
    }

    /// The text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Whether it stands for the names below a domain.
    pub fn is_wildcard(&self) -> bool {
        self.0.starts_with("*.")
    }

    /// Without the wildcard's label: the domain that a certificate's proof is made for.
    #[must_use]
    pub fn base(&self) -> Self {
        Self(self.0.strip_prefix("*.").unwrap_or(&self.0).to_owned())
    }

    /// Whether it is `domain` or below it.
    pub fn is_in(&self, domain: &Self) -> bool {
        let rest = self.0.strip_suffix(&domain.0);
        rest.is_some_and(|rest| rest.is_empty() || rest.ends_with('.'))
    }

    /// The name with a label in front, which must be a valid one.
    pub(crate) fn below(&self, label: &str) -> Self {
        Self(format!("{label}.{}", self.0))
    }
}

fn is_label(label: &str) -> bool {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_';
    (1..=63).contains(&label.len())
        && label.bytes().all(plain)
        && !label.starts_with('-')
        && !label.ends_with('-')
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl FromStr for Name {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        Self::parse(text)
    }
}

impl TryFrom<String> for Name {
    type Error = Error;

    fn try_from(text: String) -> Result<Self, Error> {
        Self::parse(&text)
    }
}

impl From<Name> for String {
    fn from(name: Name) -> Self {
        name.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(text: &str) -> Name {
        Name::parse(text).unwrap()
    }

    #[test]
    fn has_one_spelling() {
        assert_eq!(name("Shop.Example.COM."), name("shop.example.com"));
        assert_eq!(name("*.Apps.example.com").base(), name("apps.example.com"));
        assert_eq!(name("_acme-challenge.a.b").to_string(), "_acme-challenge.a.b");
    }

    #[test]
    fn refuses_what_is_no_name() {
        let long = "a".repeat(64);
        for text in ["", ".", "*", "a..b", "a.*.b", "-a.b", "a-.b", "a b.c", "bücher.example", "a.b..", &long]
        {
            assert!(Name::parse(text).is_err(), "{text:?}");
        }
    }

    #[test]
    fn knows_what_it_is_below() {
        let domain = name("example.com");
        for (inside, text) in
            [(true, "example.com"), (true, "*.example.com"), (false, "badexample.com"), (false, "com")]
        {
            assert_eq!(name(text).is_in(&domain), inside, "{text}");
        }
    }
}
