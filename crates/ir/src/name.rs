//! Names of the parts of a plan.

use std::borrow::Borrow;
use std::fmt;
use std::ops::Deref;
use std::sync::Arc;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// The name of a listener, route, cluster or link: 1 to 253 printable characters that do not begin with `(`, which is
/// kept for the names that a plan gives by itself. Copies share the text.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Name(Arc<str>);

impl Name {
    /// Checks a name.
    ///
    /// # Errors
    /// A sentence that says what is wrong with it and what to write.
    pub fn parse(text: &str) -> Result<Self, String> {
        if text.is_empty() {
            return Err("a name is needed".into());
        }
        if text.len() > 253 {
            return Err(format!("`{text}` is too long for a name: at most 253 bytes"));
        }
        if text.starts_with('(') {
            return Err(format!("`{text}`: names in parentheses are kept for the plan's own use"));
        }
        if text.chars().any(char::is_control) {
            return Err(format!("`{}` has a control character, which names can't", text.escape_debug()));
        }
        Ok(Self(text.into()))
    }

    /// The text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The text, to be shared.
    pub fn shared(&self) -> Arc<str> {
        Arc::clone(&self.0)
    }
}

impl Deref for Name {
    type Target = str;

    fn deref(&self) -> &str {
        &self.0
    }
}

impl Borrow<str> for Name {
    fn borrow(&self) -> &str {
        &self.0
    }
}

impl AsRef<str> for Name {
    fn as_ref(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&*self.0, f)
    }
}

impl PartialEq<str> for Name {
    fn eq(&self, other: &str) -> bool {
        *self.0 == *other
    }
}

impl PartialEq<&str> for Name {
    fn eq(&self, other: &&str) -> bool {
        *self.0 == **other
    }
}

impl Serialize for Name {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.0)
    }
}

impl<'de> Deserialize<'de> for Name {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        Self::parse(&text).map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refuses_what_is_no_name_and_what_is_kept() {
        for (text, part) in [
            ("", "is needed"),
            ("(plaintext)", "kept for the plan"),
            ("a\nb", "control"),
            (&"a".repeat(254), "too long"),
        ] {
            let message = Name::parse(text).unwrap_err();
            assert!(message.contains(part), "{text}: {message}");
        }
        assert_eq!(Name::parse("lab/api 443").unwrap(), "lab/api 443");
    }
}
