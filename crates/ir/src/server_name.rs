//! Server names and wildcard names: how they are normalised, checked and compared.

use std::borrow::Cow;
use std::fmt;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// A name that a route matches.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Pattern {
    /// This name only.
    Exact(String),
    /// Every name below this domain, at any depth; `*.example.test` holds `example.test`.
    Below(String),
}

impl Pattern {
    /// Normalises and checks a name as written in a plan.
    ///
    /// # Errors
    /// A sentence that says what is wrong with it and what to write.
    pub fn parse(text: &str) -> Result<Self, String> {
        let name = valid(text)?;
        Ok(match name.strip_prefix("*.") {
            Some(domain) => Self::Below(domain.to_owned()),
            None => Self::Exact(name.into_owned()),
        })
    }

    /// Whether every name that `other` matches is matched by this one too.
    pub fn covers(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Exact(a), Self::Exact(b)) => a == b,
            (Self::Exact(_), Self::Below(_)) => false,
            (Self::Below(a), Self::Exact(b)) => is_below(b, a),
            (Self::Below(a), Self::Below(b)) => a == b || is_below(b, a),
        }
    }
}

impl fmt::Display for Pattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Exact(name) => f.write_str(name),
            Self::Below(domain) => write!(f, "*.{domain}"),
        }
    }
}

impl Serialize for Pattern {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Pattern {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        Self::parse(&text).map_err(serde::de::Error::custom)
    }
}

fn is_below(name: &str, domain: &str) -> bool {
    name.strip_suffix(domain).is_some_and(|front| front.len() > 1 && front.ends_with('.'))
}

/// Lower case, without the dot at the end.
pub fn normalise(name: &str) -> String {
    name.strip_suffix('.').unwrap_or(name).to_ascii_lowercase()
}

/// A name as written in a plan, checked and in its normal form; most are in it already and not copied.
fn valid(text: &str) -> Result<Cow<'_, str>, String> {
    let bare = text.strip_suffix('.').unwrap_or(text);
    let name = if bare.bytes().any(|b| b.is_ascii_uppercase()) {
        Cow::Owned(bare.to_ascii_lowercase())
    } else {
        Cow::Borrowed(bare)
    };
    if name == "*" {
        return Err("`*` alone matches everything: for server names use unknownServerName and noServerName, for hosts leave the list out".into());
    }
    check(name.strip_prefix("*.").unwrap_or(&name), text)?;
    Ok(name)
}

fn check(name: &str, written: &str) -> Result<(), String> {
    if name.is_empty() || name.len() > 253 {
        return Err(format!("`{written}` is not a server name: it must have 1 to 253 characters"));
    }
    let mut label = 0;
    let mut right = true;
    for byte in name.bytes() {
        match byte {
            b'.' => {
                right &= (1..=63).contains(&label);
                label = 0;
            }
            b'*' => {
                return Err(format!(
                    "`{written}`: a wildcard stands for whole labels at the front only, as in *.example.test"
                ));
            }
            _ => {
                right &= byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_';
                label += 1;
            }
        }
    }
    if right && (1..=63).contains(&label) {
        return Ok(());
    }
    Err(format!(
        "`{written}` is not a server name: labels have 1 to 63 letters, digits, - or _ (write international names \
         in their xn-- form)"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn normalises_names() {
        assert_eq!(Pattern::parse("API.Example.test."), Ok(Pattern::Exact("api.example.test".into())));
        assert_eq!(Pattern::parse("*.Apps.test"), Ok(Pattern::Below("apps.test".into())));
    }

    #[test]
    fn refuses_what_no_client_can_send() {
        for name in ["", "*", "a..b", "a b", "*.", "a*.b", "a.*.b", "münchen.test", "ex/ample"] {
            assert!(Pattern::parse(name).is_err(), "{name}");
        }
        assert!(Pattern::parse(&"a".repeat(64)).is_err());
    }

    #[test]
    fn wildcards_cover_every_depth_below_and_not_the_domain_itself() {
        let below = Pattern::parse("*.a.test").unwrap();
        for (name, covered) in
            [("x.a.test", true), ("x.y.a.test", true), ("a.test", false), ("xa.test", false)]
        {
            assert_eq!(below.covers(&Pattern::parse(name).unwrap()), covered, "{name}");
        }
        assert!(below.covers(&Pattern::parse("*.b.a.test").unwrap()));
        assert!(!Pattern::parse("*.b.a.test").unwrap().covers(&below));
    }
}
