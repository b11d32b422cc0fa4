//! The one spelling of a server name: lower-case ASCII without a trailing dot. RFC 6066 wants a DNS host name
//! in A-label form. An IP literal is not permitted there, yet some clients send it: it counts as no name at
//! all, as in rustls. Anything else that cannot be a host name is refused, as no certificate can carry it.

use std::net::{Ipv4Addr, Ipv6Addr};
use std::sync::Arc;

/// The longest name and its trailing dot.
pub(super) const LONGEST: usize = 253 + 1;
const LONGEST_LABEL: usize = 63;

/// Normalises `host` in place and returns it; `None` for an IP literal.
pub(super) fn normalise(host: &mut [u8]) -> Result<Option<Arc<str>>, &'static str> {
    const INVALID: &str = "the server name is not a DNS name";
    host.make_ascii_lowercase();
    let host = str::from_utf8(host).map_err(|_| INVALID)?;
    let host = host.strip_suffix('.').unwrap_or(host);
    if host.len() >= LONGEST {
        return Err("the server name is longer than 253 characters");
    }
    if host.parse::<Ipv4Addr>().is_ok() || host.parse::<Ipv6Addr>().is_ok() {
        return Ok(None);
    }
    // A numeric last label is an IPv4 address to some readers (`1.2.3`, `10.65535`), so it is no name here.
    let numeric_end = host.rsplit('.').next().is_some_and(|label| label.bytes().all(|b| b.is_ascii_digit()));
    if numeric_end || !host.split('.').all(is_label) {
        return Err(INVALID);
    }
    Ok(Some(host.into()))
}

/// Letters, digits, inner hyphens; underscores too, which host names in the field have.
fn is_label(label: &str) -> bool {
    (1..=LONGEST_LABEL).contains(&label.len())
        && label.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-' || b == b'_')
        && !label.starts_with('-')
        && !label.ends_with('-')
}

#[cfg(test)]
mod tests {
    use super::normalise;

    fn name(host: &str) -> Result<Option<String>, &'static str> {
        Ok(normalise(&mut host.as_bytes().to_vec())?.map(|name| name.to_string()))
    }

    #[test]
    fn lowers_case_and_drops_one_trailing_dot() {
        for (given, wanted) in [
            ("Example.COM", "example.com"),
            ("example.com.", "example.com"),
            ("localhost", "localhost"),
            ("xn--bcher-kva.example", "xn--bcher-kva.example"),
            ("_acme.my_host.1a", "_acme.my_host.1a"),
            ("1.2.3.4.example", "1.2.3.4.example"),
            ("a--b.c", "a--b.c"),
        ] {
            assert_eq!(name(given), Ok(Some(wanted.to_owned())), "{given}");
        }
    }

    #[test]
    fn takes_ip_literals_for_no_name() {
        for given in ["127.0.0.1", "::1", "fd00::A", "::ffff:10.0.0.1", "10.0.0.1."] {
            assert_eq!(name(given), Ok(None), "{given}");
        }
    }

    #[test]
    fn refuses_what_is_no_host_name() {
        for given in [
            "",
            ".",
            "..",
            "a..b",
            ".a",
            "a.com..",
            "-a.com",
            "a-.com",
            "*.example.com",
            "a b",
            "a\0b",
            "[::1]",
            "1.2.3",
            "a.256",
            "b\u{fc}cher.example",
            "a/b",
            "a:443",
        ] {
            assert!(name(given).is_err(), "{given:?}");
        }
        assert!(normalise(&mut [0xff, 0xfe]).is_err());
    }

    #[test]
    fn bounds_labels_and_names() {
        let label = "a".repeat(63);
        assert!(name(&label).is_ok());
        assert!(name(&"a".repeat(64)).is_err());
        let longest = format!("{label}.{label}.{label}.{}", "a".repeat(61));
        assert_eq!(longest.len(), 253);
        assert_eq!(name(&format!("{longest}.")), Ok(Some(longest.clone())));
        assert!(name(&format!("{longest}a")).is_err());
    }
}
