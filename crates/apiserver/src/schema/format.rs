//! The string formats that Kubernetes checks. A format it does not know is not checked.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use base64::Engine;

/// Whether `text` is what `format` promises; true for formats that nobody knows.
pub(super) fn accepts(format: &str, text: &str) -> bool {
    match format {
        "ipv4" => text.parse::<Ipv4Addr>().is_ok(),
        "ipv6" => text.parse::<Ipv6Addr>().is_ok(),
        "ip" => text.parse::<IpAddr>().is_ok(),
        "cidr" => text.parse::<ipnet::IpNet>().is_ok(),
        "mac" => is_mac(text),
        "date" => text.len() == 10 && text.parse::<jiff::civil::Date>().is_ok(),
        "date-time" | "datetime" => is_date_time(text),
        "duration" => is_duration(text),
        "uuid" => is_uuid(text, None),
        "uuid3" => is_uuid(text, Some(b'3')),
        "uuid4" => is_uuid(text, Some(b'4')),
        "uuid5" => is_uuid(text, Some(b'5')),
        "hostname" => is_hostname(text),
        "email" => is_email(text),
        "uri" => is_request_uri(text),
        "byte" => base64::engine::general_purpose::STANDARD.decode(text).is_ok(),
        "hexcolor" => is_hex_color(text),
        "k8s-short-name" => is_label(text),
        "k8s-long-name" => is_subdomain(text),
        _ => true,
    }
}

/// A lower-case DNS label of at most 63 characters.
pub(crate) fn is_label(text: &str) -> bool {
    let inner = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit();
    let bytes = text.as_bytes();
    bytes.len() <= 63
        && bytes.first().is_some_and(|b| inner(*b))
        && bytes.last().is_some_and(|b| inner(*b))
        && bytes.iter().all(|b| inner(*b) || *b == b'-')
}

/// Lower-case DNS labels joined by dots, at most 253 characters. A label may be longer than 63 here, as in
/// Kubernetes.
pub(crate) fn is_subdomain(text: &str) -> bool {
    let edge = |b: Option<&u8>| b.is_some_and(|b| b.is_ascii_lowercase() || b.is_ascii_digit());
    text.len() <= 253
        && text.split('.').all(|label| {
            let bytes = label.as_bytes();
            edge(bytes.first())
                && edge(bytes.last())
                && bytes.iter().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || *b == b'-')
        })
}

/// RFC 3339 with an offset; a space or lower-case letters are fine, as is a leap second.
fn is_date_time(text: &str) -> bool {
    let has_date =
        text.len() > 10 && text.is_char_boundary(10) && text[..10].parse::<jiff::civil::Date>().is_ok();
    has_date && text.to_ascii_uppercase().parse::<jiff::Timestamp>().is_ok()
}

/// Go's notation (`1h30m`, `-1.5s`, `0`) or a number with a unit in words (`3 weeks`).
fn is_duration(text: &str) -> bool {
    let text = text.trim();
    let unsigned = text.strip_prefix(['-', '+']).unwrap_or(text);
    if unsigned == "0" {
        return true;
    }
    let mut rest = unsigned;
    let mut parts = 0;
    while !rest.is_empty() {
        let number = rest.len() - rest.trim_start_matches(|c: char| c.is_ascii_digit() || c == '.').len();
        let (digits, tail) = rest.split_at(number);
        let tail = tail.trim_start();
        let unit = tail.len() - tail.trim_start_matches(|c: char| c.is_alphabetic()).len();
        let (unit, tail) = tail.split_at(unit);
        let is_number = digits.bytes().any(|b| b.is_ascii_digit()) && digits.matches('.').count() <= 1;
        if !is_number || !is_time_unit(unit) {
            return false;
        }
        rest = tail.trim_start();
        parts += 1;
    }
    parts > 0
}

fn is_time_unit(unit: &str) -> bool {
    matches!(
        unit.to_ascii_lowercase().as_str(),
        "ns" | "nano"
            | "nanos"
            | "nanosecond"
            | "nanoseconds"
            | "us"
            | "µs"
            | "μs"
            | "micro"
            | "micros"
            | "microsecond"
            | "microseconds"
            | "ms"
            | "milli"
            | "millis"
            | "millisecond"
            | "milliseconds"
            | "s"
            | "sec"
            | "secs"
            | "second"
            | "seconds"
            | "m"
            | "min"
            | "mins"
            | "minute"
            | "minutes"
            | "h"
            | "hr"
            | "hour"
            | "hours"
            | "d"
            | "day"
            | "days"
            | "w"
            | "wk"
            | "week"
            | "weeks"
    )
}

/// Thirty-two hexadecimal digits; the dashes may be left out.
fn is_uuid(text: &str, version: Option<u8>) -> bool {
    let digits: Vec<u8> = text.bytes().filter(|b| *b != b'-').collect();
    let dashes = text.bytes().enumerate().filter(|(_, b)| *b == b'-').map(|(i, _)| i);
    let dashed = text.len() == 36 && dashes.eq([8, 13, 18, 23]);
    let variant_matters = matches!(version, Some(b'4' | b'5'));
    digits.len() == 32
        && (dashed || text.len() == 32)
        && digits.iter().all(u8::is_ascii_hexdigit)
        && version.is_none_or(|v| digits[12] == v)
        && (!variant_matters || matches!(digits[16].to_ascii_lowercase(), b'8' | b'9' | b'a' | b'b'))
}

/// RFC 1123 labels, letters of any script.
fn is_hostname(text: &str) -> bool {
    let edge = |c: Option<char>| c.is_some_and(char::is_alphanumeric);
    !text.is_empty()
        && text.len() <= 255
        && text.split('.').all(|label| {
            label.len() <= 63
                && edge(label.chars().next())
                && edge(label.chars().next_back())
                && label.chars().all(|c| c.is_alphanumeric() || c == '-')
        })
}

/// An address with a local part and a domain, alone or as `Name <address>`.
fn is_email(text: &str) -> bool {
    let address = match text.rsplit_once('<') {
        Some((_, rest)) => match rest.strip_suffix('>') {
            Some(address) => address,
            None => return false,
        },
        None => text,
    };
    let Some((local, domain)) = address.rsplit_once('@') else {
        return false;
    };
    let quoted = local.len() > 2 && local.starts_with('"') && local.ends_with('"');
    let atom = |c: char| c.is_alphanumeric() || "!#$%&'*+-/=?^_`{|}~".contains(c);
    let dotted = |part: &str| part.split('.').all(|a| !a.is_empty() && a.chars().all(atom));
    (quoted || dotted(local)) && (dotted(domain) || (domain.starts_with('[') && domain.ends_with(']')))
}

/// An absolute path or a URL with a scheme, as in an HTTP request line.
fn is_request_uri(text: &str) -> bool {
    if text.is_empty() || text.chars().any(|c| c.is_ascii_control() || c == ' ') {
        return false;
    }
    if text.starts_with('/') {
        return true;
    }
    let Some((scheme, rest)) = text.split_once(':') else {
        return false;
    };
    scheme.starts_with(|c: char| c.is_ascii_alphabetic())
        && scheme.chars().all(|c| c.is_ascii_alphanumeric() || "+-.".contains(c))
        && !rest.is_empty()
}

fn is_mac(text: &str) -> bool {
    let octets = |separator: char, width: usize| {
        let parts: Vec<&str> = text.split(separator).collect();
        let bytes = parts.len() * width / 2;
        matches!(bytes, 6 | 8 | 20)
            && parts.iter().all(|p| p.len() == width && p.bytes().all(|b| b.is_ascii_hexdigit()))
    };
    octets(':', 2) || octets('-', 2) || octets('.', 4)
}

fn is_hex_color(text: &str) -> bool {
    let digits = text.strip_prefix('#').unwrap_or(text);
    matches!(digits.len(), 3 | 6) && digits.bytes().all(|b| b.is_ascii_hexdigit())
}
