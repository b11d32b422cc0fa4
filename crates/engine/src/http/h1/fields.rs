//! The fields of a head: where each name and value lies, and which names matter on the way. Nothing is copied.

use std::borrow::Cow;

use super::bytes::{is_token, is_value, trim};
use crate::http::fault::Fault;

/// Fields of one head.
pub(crate) const MOST: usize = 128;

/// Names that are treated in their own way.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Known {
    Other,
    Host,
    Connection,
    ContentLength,
    TransferEncoding,
    Upgrade,
    Expect,
    /// For this connection only, though no `Connection` says so.
    HopByHop,
    /// Who the client is, told by somebody.
    Forwarded,
}

/// Where a field lies in its head.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Field {
    name: (u32, u32),
    value: (u32, u32),
    pub(crate) known: Known,
}

/// The fields of a head.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Fields<'a> {
    head: &'a [u8],
    index: &'a [Field],
}

impl<'a> Fields<'a> {
    /// Reads the lines of a complete head from `start`, which is after its first line, to the empty line.
    ///
    /// # Errors
    /// If a line is no proper field.
    pub(crate) fn parse(head: &'a [u8], start: usize, index: &'a mut Vec<Field>) -> Result<Self, Fault> {
        index.clear();
        let mut at = start;
        while head.get(at..at + 2) != Some(&b"\r\n"[..]) {
            if index.len() == MOST {
                return Err(Fault::new(431, "there are too many fields"));
            }
            let line = &head[at..];
            let name = line.iter().position(|b| !is_token(*b)).unwrap_or(line.len());
            if name == 0 {
                return Err(Fault::bad("a line begins with no name: folded, or nonsense"));
            }
            if line.get(name) != Some(&b':') {
                return Err(Fault::bad("a name is not followed by a colon"));
            }
            let value = &line[name + 1..];
            let length = value.iter().position(|b| !is_value(*b)).unwrap_or(value.len());
            if value.get(length..length + 2) != Some(&b"\r\n"[..]) {
                return Err(Fault::bad("a value has a control character"));
            }
            let from = at + name + 1;
            let value = trim(&value[..length]);
            // An empty value lies nowhere in particular.
            let begin =
                if value.is_empty() { from } else { value.as_ptr() as usize - head.as_ptr() as usize };
            index.push(Field {
                name: (at as u32, (at + name) as u32),
                value: (begin as u32, (begin + value.len()) as u32),
                known: known(&line[..name])?,
            });
            at = from + length + 2;
        }
        Ok(Self { head, index })
    }

    pub(crate) fn iter(self) -> impl Iterator<Item = (Known, &'a [u8], &'a [u8])> {
        self.index.iter().map(move |field| {
            let part = |(start, end): (u32, u32)| &self.head[start as usize..end as usize];
            (field.known, part(field.name), part(field.value))
        })
    }

    /// The values of all fields with a known name.
    pub(crate) fn of(self, known: Known) -> impl Iterator<Item = &'a [u8]> {
        self.iter().filter(move |(is, ..)| *is == known).map(|(_, _, value)| value)
    }

    /// The value of a field whose name is given in lower case; those of several are one list.
    pub(crate) fn get(self, name: &str) -> Option<Cow<'a, [u8]>> {
        let mut values = self
            .iter()
            .filter(|(_, n, _)| n.eq_ignore_ascii_case(name.as_bytes()))
            .map(|(_, _, value)| value);
        let first = values.next()?;
        let mut all = Cow::Borrowed(first);
        for value in values {
            let all = all.to_mut();
            all.push(b',');
            all.extend_from_slice(value);
        }
        Some(all)
    }
}

/// Sorts a name.
///
/// # Errors
/// If it only looks like one that tells how a message is read.
pub(crate) fn known(name: &[u8]) -> Result<Known, Fault> {
    let is = |other: &[u8]| name.eq_ignore_ascii_case(other);
    // A server behind may take `_` for `-`, as CGI does: then these would be what they only look like.
    let looks = |other: &[u8]| {
        name.len() == other.len()
            && name.iter().zip(other).all(|(b, o)| b.to_ascii_lowercase() == *o || (*b == b'_' && *o == b'-'))
    };
    let begins = |start: &[u8]| {
        let same = |(b, o): (&u8, &u8)| b.to_ascii_lowercase() == *o || (*b == b'_' && *o == b'-');
        name.len() >= start.len() && name.iter().zip(start).all(same)
    };
    Ok(match name.len() {
        // Whatever it is: nobody but a proxy says so.
        11.. if begins(b"x-forwarded") => Known::Forwarded,
        2 if is(b"te") => Known::HopByHop,
        // Programs behind CGI would take it for their own setting.
        5 if is(b"proxy") => Known::HopByHop,
        4 if is(b"host") => Known::Host,
        6 if is(b"expect") => Known::Expect,
        7 if is(b"upgrade") => Known::Upgrade,
        7 if is(b"trailer") => Known::HopByHop,
        9 if is(b"forwarded") || looks(b"x-real-ip") => Known::Forwarded,
        10 if is(b"connection") => Known::Connection,
        10 if is(b"keep-alive") => Known::HopByHop,
        14 if is(b"content-length") => Known::ContentLength,
        14 if is(b"http2-settings") => Known::HopByHop,
        14 if looks(b"content-length") => return Err(Fault::bad("a name looks like Content-Length")),
        16 if is(b"proxy-connection") => Known::HopByHop,
        17 if is(b"transfer-encoding") => Known::TransferEncoding,
        17 if looks(b"transfer-encoding") => return Err(Fault::bad("a name looks like Transfer-Encoding")),
        17 if looks(b"ssl-client-verify") => Known::Forwarded,
        _ => Known::Other,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(lines: &str) -> Result<Vec<(String, String)>, Fault> {
        let head = format!("{lines}\r\n");
        let mut index = Vec::new();
        let fields = Fields::parse(head.as_bytes(), 0, &mut index)?;
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        Ok(fields.iter().map(|(_, name, value)| (text(name), text(value))).collect())
    }

    #[test]
    fn names_and_values_lie_where_they_are() {
        let pairs = [("A", "b c"), ("Empty", ""), ("X-Y", "1,2")].map(|(n, v)| (n.to_owned(), v.to_owned()));
        assert_eq!(read("A: \t b c \t\r\nEmpty:\r\nX-Y:1,2\r\n").unwrap(), pairs);
        assert_eq!(read("").unwrap(), []);
    }

    #[test]
    fn several_values_are_one_list() {
        let head = b"X-A: 1\r\nother: 2\r\nx-a: 3\r\n\r\n";
        let mut index = Vec::new();
        let fields = Fields::parse(head, 0, &mut index).unwrap();
        assert_eq!(fields.get("x-a").unwrap(), &b"1,3"[..]);
        assert!(matches!(fields.get("other"), Some(Cow::Borrowed(b"2"))));
        assert_eq!(fields.get("none"), None);
    }

    #[test]
    fn whatever_only_proxies_say_is_told_apart() {
        for name in [
            "Forwarded",
            "X-Forwarded-For",
            "x_forwarded_for",
            "X-Forwarded",
            "X-Forwarded-User",
            "x-forwarded_groups",
            "X-Forwarded-Access-Token",
            "X-Forwarded-Tls-Client-Cert",
            "X-ForwardedFor",
            "x-real-ip",
            "SSL_Client_Verify",
        ] {
            assert_eq!(known(name.as_bytes()).unwrap(), Known::Forwarded, "{name}");
        }
        for name in ["X-Forward", "X-Forwarder", "X-Request-Id", "Forwarded-For"] {
            assert_ne!(known(name.as_bytes()).unwrap(), Known::Forwarded, "{name}");
        }
    }

    #[test]
    fn lines_that_are_no_fields_are_refused() {
        for lines in [
            "a : b\r\n",
            " a: b\r\n",
            "a: b\r\n c\r\n",
            "a\r\n",
            ": b\r\n",
            "a: b\x00\r\n",
            "a: b\rc\r\n",
            "a b: c\r\n",
            "a\x7f: b\r\n",
            "Content_Length: 5\r\n",
            "transfer_encoding: chunked\r\n",
        ] {
            assert_eq!(read(lines).unwrap_err().status, 400, "{lines:?}");
        }
        assert_eq!(read(&"a: b\r\n".repeat(129)).unwrap_err().status, 431);
    }
}
