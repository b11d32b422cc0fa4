//! Pieces of HTTP that are checked when they are read.

use std::fmt;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// Writes and reads a type as its text.
macro_rules! as_text {
    ($type:ty) => {
        impl fmt::Display for $type {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(self.as_str())
            }
        }

        impl Serialize for $type {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.serialize_str(self.as_str())
            }
        }

        impl<'de> Deserialize<'de> for $type {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                let text = String::deserialize(deserializer)?;
                Self::parse(&text).map_err(serde::de::Error::custom)
            }
        }
    };
}

fn is_token(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|b| b.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&b))
}

/// A header's name, in lower case.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct HeaderName(String);

impl HeaderName {
    /// Checks and normalises.
    ///
    /// # Errors
    /// A sentence that says what is wrong.
    pub fn parse(text: &str) -> Result<Self, String> {
        if is_token(text) {
            return Ok(Self(text.to_ascii_lowercase()));
        }
        Err(format!("`{text}` is not the name of a header: write letters, digits and dashes, as in x-user"))
    }

    /// In lower case.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}
as_text!(HeaderName);

/// A request's method; methods are case-sensitive.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Method(String);

impl Method {
    /// Checks.
    ///
    /// # Errors
    /// A sentence that says what is wrong.
    pub fn parse(text: &str) -> Result<Self, String> {
        if is_token(text) {
            return Ok(Self(text.to_owned()));
        }
        Err(format!("`{text}` is not a method: write GET, POST or the like"))
    }

    /// As it is sent.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}
as_text!(Method);

/// An absolute path without query.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Path(String);

impl Path {
    /// Checks.
    ///
    /// # Errors
    /// A sentence that says what is wrong.
    pub fn parse(text: &str) -> Result<Self, String> {
        let wrong = |what: &str| Err(format!("`{text}` is not a path: {what}"));
        if !text.starts_with('/') {
            return wrong("it begins with /");
        }
        if text.contains("//") || text.split('/').any(|segment| segment == "." || segment == "..") {
            return wrong("it has no empty segments, `.` or `..`: no request has them once it is normalised");
        }
        if text.bytes().any(|b| b <= b' ' || b == 0x7f || b == b'?' || b == b'#') {
            return wrong(
                "it has no spaces, `?` or `#`: write %20 for a space, and match the query by itself",
            );
        }
        Ok(Self(text.to_owned()))
    }

    /// As it is sent.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}
as_text!(Path);

/// A regular expression that has to match the whole.
#[derive(Debug, Clone)]
pub struct Regex {
    text: String,
    compiled: regex::Regex,
}

/// What a compiled expression may take, so that one route can't take an engine's memory.
const MAX_SIZE: usize = 1 << 20;

impl Regex {
    /// Compiles.
    ///
    /// # Errors
    /// A sentence that says what is wrong.
    pub fn parse(text: &str) -> Result<Self, String> {
        let compiled = regex::RegexBuilder::new(&format!("^(?:{text})$")).size_limit(MAX_SIZE).build();
        match compiled {
            Ok(compiled) => Ok(Self { text: text.to_owned(), compiled }),
            Err(regex::Error::CompiledTooBig(_)) => {
                Err(format!("`{text}` takes too much memory: make it simpler"))
            }
            Err(error) => Err(format!("`{text}` is not a regular expression: {error}")),
        }
    }

    /// As it is written.
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// Whether it matches all of `value`.
    pub fn is_match(&self, value: &str) -> bool {
        self.compiled.is_match(value)
    }
}

impl PartialEq for Regex {
    fn eq(&self, other: &Self) -> bool {
        self.text == other.text
    }
}
as_text!(Regex);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refuses_what_no_request_has() {
        assert!(HeaderName::parse("x user").is_err());
        assert!(Method::parse("").is_err());
        for path in ["", "a", "/a//b", "/a/../b", "/a?b", "/a b"] {
            assert!(Path::parse(path).is_err(), "{path}");
        }
        assert!(Regex::parse("(").is_err());
        assert!(Regex::parse("(a{1000}){1000}").unwrap_err().contains("memory"));
    }

    #[test]
    fn an_expression_matches_the_whole_value() {
        let either = Regex::parse("a|bc").unwrap();
        assert!(either.is_match("bc") && !either.is_match("abc") && !either.is_match("xa"));
        assert_eq!(either, Regex::parse("a|bc").unwrap());
        assert_eq!(HeaderName::parse("X-User").unwrap().as_str(), "x-user");
    }
}
