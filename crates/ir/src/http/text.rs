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

    /// One that is known to be a name, in lower case.
    pub(super) fn known(text: &str) -> Self {
        Self(text.to_owned())
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

impl Regex {
    /// What stands in place of `value` if it matches all of it: in `with`, `$1` or `${name}` is what a group matched.
    pub fn replace(&self, value: &str, with: &str) -> Option<String> {
        let captures = self.compiled.captures(value)?;
        let mut replaced = String::with_capacity(value.len() + with.len());
        captures.expand(with, &mut replaced);
        Some(replaced)
    }

    /// A group that `with` names and the expression does not have.
    pub fn unknown_group<'a>(&self, with: &'a str) -> Option<&'a str> {
        let mut parts = with.split('$');
        parts.next();
        let mut literal = false;
        parts.find_map(|part| {
            // `$$` is a dollar.
            if std::mem::take(&mut literal) {
                return None;
            }
            literal = part.is_empty();
            let group = match part.strip_prefix('{') {
                Some(rest) => rest.split('}').next()?,
                None => {
                    &part[..part.find(|c: char| !c.is_ascii_alphanumeric() && c != '_').unwrap_or(part.len())]
                }
            };
            let known = match group.parse::<usize>() {
                Ok(number) => number < self.compiled.captures_len(),
                Err(_) => self.compiled.capture_names().flatten().any(|name| name == group),
            };
            (!known && !group.is_empty()).then_some(group)
        })
    }
}

impl PartialEq for Regex {
    fn eq(&self, other: &Self) -> bool {
        self.text == other.text
    }
}

impl Eq for Regex {}
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

    #[test]
    fn groups_are_put_in_their_place_and_must_be_there() {
        let regex = Regex::parse("/users/([0-9]+)/(?<rest>.*)").unwrap();
        assert_eq!(regex.replace("/users/7/a/b", "/${rest}/of/$1").as_deref(), Some("/a/b/of/7"));
        assert_eq!(regex.replace("/users/x/a", "/$1"), None);
        for (with, unknown) in [
            ("/$1/$rest", None),
            ("/$0/${1}x$$3", None),
            ("/$1x", Some("1x")),
            ("/$3", Some("3")),
            ("/${other}", Some("other")),
        ] {
            assert_eq!(regex.unknown_group(with), unknown, "{with}");
        }
    }
}
