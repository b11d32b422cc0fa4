//! Pieces of HTTP that are checked when they are read.

use std::collections::HashMap;
use std::fmt;
use std::hash::Hash;
use std::sync::{Arc, LazyLock, Mutex, PoisonError, Weak};

use regex_automata::{PatternID, meta};
use regex_syntax::hir::{Hir, Look};
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
    compiled: Arc<meta::Regex>,
}

/// What an expression may take when it is compiled, and again what it may remember while it is used, so that nobody takes an
/// engine's memory with a few of them.
const MAX_SIZE: usize = 256 * 1024;

/// What is in use, by what it was made of.
pub(super) type InUse<K, V> = LazyLock<Mutex<HashMap<K, Weak<V>>>>;

/// Expressions, by their texts: plans are read and made again and again, and have the same ones.
static IN_USE: InUse<String, meta::Regex> = LazyLock::new(Mutex::default);

impl Regex {
    /// Compiles.
    ///
    /// # Errors
    /// A sentence that says what is wrong.
    pub fn parse(text: &str) -> Result<Self, String> {
        let known = IN_USE.lock().unwrap_or_else(PoisonError::into_inner).get(text).and_then(Weak::upgrade);
        let compiled = match known {
            Some(compiled) => compiled,
            None => keep(&IN_USE, text.to_owned(), Arc::new(compile(text)?)),
        };
        Ok(Self { text: text.to_owned(), compiled })
    }

    /// The bytes that it takes.
    pub fn size(&self) -> usize {
        self.text.len() + self.compiled.memory_usage()
    }

    /// One that matches every text that has, somewhere, what this expression matches; `^` and `$` are its ends.
    ///
    /// # Errors
    /// A sentence that says what is wrong.
    pub fn within(text: &str) -> Result<Self, String> {
        // By itself first: the message is about what was written.
        Self::parse(text)?;
        Self::parse(&format!("(?s:.*?)(?:{text})(?s:.*)"))
    }

    /// One that matches exactly this text.
    ///
    /// # Errors
    /// If the text is too long for an expression.
    pub fn of(text: &str) -> Result<Self, String> {
        Self::parse(&regex_syntax::escape(text))
    }

    /// One that matches everything that begins with this text.
    ///
    /// # Errors
    /// If the text is too long for an expression.
    pub fn beginning_with(text: &str) -> Result<Self, String> {
        Self::parse(&format!("{}(?s:.*)", regex_syntax::escape(text)))
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
        let mut captures = self.compiled.create_captures();
        self.compiled.captures(value, &mut captures);
        let mut replaced = String::with_capacity(value.len() + with.len());
        captures.interpolate_string_into(value, with, &mut replaced);
        captures.is_match().then_some(replaced)
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
                Ok(number) => number < self.compiled.group_info().group_len(PatternID::ZERO),
                Err(_) => self.compiled.group_info().to_index(PatternID::ZERO, group).is_some(),
            };
            (!known && !group.is_empty()).then_some(group)
        })
    }
}

/// Compiles a text so that it has to match the whole.
fn compile(text: &str) -> Result<meta::Regex, String> {
    let wrong = |error: &dyn fmt::Display| format!("`{text}` is not a regular expression: {error}");
    let whole = whole(text).map_err(|error| wrong(&error))?;
    let limits = meta::Config::new()
        .nfa_size_limit(Some(MAX_SIZE))
        .onepass_size_limit(Some(MAX_SIZE))
        .hybrid_cache_capacity(MAX_SIZE);
    meta::Builder::new().configure(limits).build_from_hir(&whole).map_err(|error| match error.size_limit() {
        Some(_) => format!("`{text}` takes too much memory: make it simpler"),
        None => wrong(&error),
    })
}

/// A text as an expression for the whole of something. It is read by itself first: nothing in it, be it a parenthesis or a
/// comment, can change what stands around it.
pub(super) fn whole(text: &str) -> Result<Hir, Box<regex_syntax::Error>> {
    let read = regex_syntax::parse(text)?;
    Ok(Hir::concat(vec![Hir::look(Look::Start), read, Hir::look(Look::End)]))
}

/// Remembers a thing for as long as somebody uses it.
pub(super) fn keep<K: Eq + Hash, V>(in_use: &InUse<K, V>, of: K, thing: Arc<V>) -> Arc<V> {
    let mut in_use = in_use.lock().unwrap_or_else(PoisonError::into_inner);
    if in_use.len() == in_use.capacity() {
        in_use.retain(|_, thing| thing.strong_count() > 0);
    }
    in_use.insert(of, Arc::downgrade(&thing));
    thing
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
        for large in ["(a{1000}){1000}", "a{30000}", r"\w{10}"] {
            assert!(Regex::parse(large).unwrap_err().contains("memory"), "{large}");
        }
    }

    #[test]
    fn nothing_in_an_expression_changes_what_stands_around_it() {
        for text in ["a)|(b", "a)(?:b", ")("] {
            assert!(Regex::parse(text).unwrap_err().contains("not a regular expression"), "{text}");
        }
        let commented = Regex::parse("(?x)a # to the end").unwrap();
        assert!(commented.is_match("a") && !commented.is_match("ab"));
        let lines = Regex::parse("(?m)^a$").unwrap();
        assert!(lines.is_match("a") && !lines.is_match("a\nb"));
    }

    #[test]
    fn an_expression_in_use_is_not_compiled_again() {
        let (first, second) =
            (Regex::parse("/in/use/[0-9]+").unwrap(), Regex::parse("/in/use/[0-9]+").unwrap());
        assert!(Arc::ptr_eq(&first.compiled, &second.compiled));
        assert!(first.size() > 1000 && first.size() < MAX_SIZE, "{}", first.size());
        for i in 0..10_000 {
            Regex::parse(&format!("/not/in/use/{i}")).unwrap();
        }
        assert!(IN_USE.lock().unwrap().len() < 5000);
    }

    #[test]
    fn an_expression_matches_the_whole_value() {
        let either = Regex::parse("a|bc").unwrap();
        assert!(either.is_match("bc") && !either.is_match("abc") && !either.is_match("xa"));
        assert_eq!(either, Regex::parse("a|bc").unwrap());
        assert_eq!(HeaderName::parse("X-User").unwrap().as_str(), "x-user");
        let (exact, beginning) = (Regex::of("/a.b").unwrap(), Regex::beginning_with("/a.b").unwrap());
        assert!(exact.is_match("/a.b") && !exact.is_match("/axb") && !exact.is_match("/a.bc"));
        assert!(beginning.is_match("/a.bc\n") && !beginning.is_match("/axb"));
        let within = |text: &str| Regex::within(text).unwrap();
        assert!(within("b|c").is_match("abd") && within("^a").is_match("ab") && !within("^b").is_match("ab"));
        assert!(within("b$").is_match("ab") && !within("a$").is_match("ab") && Regex::within("(").is_err());
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
