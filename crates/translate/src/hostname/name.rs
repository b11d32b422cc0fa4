//! Hostnames in the one form in which they are compared: lower case, without a dot at the end, other scripts as A-labels.

use std::fmt;

use causeway_ir::Pattern;

/// A name that can be held: of two labels or more, the first of which may be `*`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Hostname(String);

impl Hostname {
    /// Reads a name as people write it.
    ///
    /// # Errors
    /// A sentence that says what is wrong with it and what to write.
    pub fn parse(text: &str) -> Result<Self, String> {
        let bare = text.strip_suffix('.').unwrap_or(text);
        match bare.strip_prefix("*.") {
            Some(domain) => Ok(Self(format!("*.{}", full(domain, text)?))),
            None => full(bare, text).map(Self),
        }
    }

    /// Reads the name of a zone, which is no wildcard and may have one label.
    ///
    /// # Errors
    /// A sentence that says what is wrong with it and what to write.
    pub fn parse_domain(text: &str) -> Result<Self, String> {
        ascii(text.strip_suffix('.').unwrap_or(text), text).map(Self)
    }

    /// A name that a program made, which may have labels that people's have not, as `_acme-challenge`.
    pub fn trusted(text: &str) -> Self {
        Self(causeway_ir::server_name::normalise(text))
    }

    /// The text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Whether it stands for the names below a domain.
    pub fn is_wildcard(&self) -> bool {
        self.0.starts_with("*.")
    }

    /// Without the wildcard's label.
    pub fn base(&self) -> &str {
        self.0.strip_prefix("*.").unwrap_or(&self.0)
    }

    /// Whether it is this domain, or below it.
    pub fn is_in(&self, domain: &str) -> bool {
        self.0.strip_suffix(domain).is_some_and(|rest| rest.is_empty() || rest.ends_with('.'))
    }

    /// Whether it is a wildcard that another name is below, at any depth: gateways and DNS let a wildcard answer for all of them.
    pub fn shadows(&self, other: &Self) -> bool {
        self.is_wildcard() && self != other && other.base() != self.base() && other.is_in(self.base())
    }

    /// Every wildcard that has this name.
    pub fn wildcards_above(&self) -> impl Iterator<Item = Self> {
        let above = |name: &str| name.split_once('.').map(|(_, above)| above.to_owned());
        let domains = std::iter::successors(above(self.base()), move |name| above(name));
        domains.map(|domain| Self(format!("*.{domain}")))
    }

    /// As gateways match it.
    pub fn pattern(&self) -> Pattern {
        match self.0.strip_prefix("*.") {
            Some(domain) => Pattern::Below(domain.to_owned()),
            None => Pattern::Exact(self.0.clone()),
        }
    }
}

impl fmt::Display for Hostname {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

fn full(domain: &str, written: &str) -> Result<String, String> {
    let name = ascii(domain, written)?;
    if name.contains('.') {
        return Ok(name);
    }
    Err(format!("`{written}` is not a hostname: write it in full, as in shop.example.com"))
}

fn ascii(domain: &str, written: &str) -> Result<String, String> {
    let wrong = |why: &str| format!("`{written}` is not a hostname: {why}");
    let name = idna::domain_to_ascii_strict(domain).map_err(|_| {
        wrong("write labels of letters, digits and dashes, a wildcard only as the whole first label, as in shop.example.com")
    })?;
    if name.rsplit('.').next().is_none_or(|last| last.bytes().all(|byte| byte.is_ascii_digit())) {
        return Err(wrong("it looks like an address"));
    }
    // Room for what is written beside it: the mark of its owner and the proof for its certificate.
    if name.len() > 230 {
        return Err(wrong("it has more than 230 letters"));
    }
    Ok(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(text: &str) -> Hostname {
        Hostname::parse(text).unwrap()
    }

    #[test]
    fn a_name_has_one_form() {
        for (written, form) in [
            ("Shop.Example.COM.", "shop.example.com"),
            ("*.Shop.example.com", "*.shop.example.com"),
            ("münchen.example", "xn--mnchen-3ya.example"),
            ("MÜNCHEN.example.", "xn--mnchen-3ya.example"),
            ("XN--MNCHEN-3YA.example", "xn--mnchen-3ya.example"),
            ("shop。example。com", "shop.example.com"),
            ("ｓｈｏｐ.example.com", "shop.example.com"),
            ("*.münchen.example", "*.xn--mnchen-3ya.example"),
        ] {
            assert_eq!(Hostname::parse(written).unwrap().as_str(), form, "{written}");
        }
    }

    #[test]
    fn what_is_no_hostname_is_refused() {
        for text in [
            "",
            ".",
            "*",
            "*.",
            "com",
            "a..b",
            "a.b..",
            "a.*.b",
            "*a.b.c",
            "*.*.b.c",
            "a_b.example",
            "-a.b",
            "10.0.0.1",
            "xn--a.example",
            "a b.example",
            "a/b.example",
            "xn--mnchen-3y.example",
        ] {
            assert!(Hostname::parse(text).is_err(), "{text:?} became {:?}", Hostname::parse(text));
        }
        assert!(Hostname::parse(&format!("{}.example", "a.".repeat(120))).is_err());
    }

    #[test]
    fn a_wildcard_shadows_what_is_below_it_at_any_depth() {
        let wildcard = name("*.a.test");
        for (other, shadowed) in [
            ("x.a.test", true),
            ("x.y.a.test", true),
            ("*.y.a.test", true),
            ("a.test", false),
            ("*.a.test", false),
            ("xa.test", false),
            ("*.b.test", false),
        ] {
            assert_eq!(wildcard.shadows(&name(other)), shadowed, "{other}");
            let above = name(other).wildcards_above().any(|above| above == wildcard);
            assert_eq!(above, shadowed, "{other}");
        }
        assert!(!name("x.a.test").shadows(&name("y.x.a.test")));
    }
}
