//! The head of an endpoint's answer.

use super::Version;
use super::bytes::is_value;
use super::connection_options::ConnectionOptions;
use super::fields::{Field, Fields, Known};
use super::framing::Framing;
use crate::http::fault::Fault;

/// The head of an answer, in the buffer that it was read into.
#[derive(Debug)]
pub(crate) struct Response<'a> {
    pub(crate) status: u16,
    pub(crate) reason: &'a [u8],
    pub(crate) fields: Fields<'a>,
    pub(crate) framing: Framing,
    /// Whether the endpoint takes another request on the same connection.
    pub(crate) keep_alive: bool,
    /// The protocol that the connection changes to.
    pub(crate) upgrade: Option<&'a [u8]>,
    names_fields: bool,
}

impl<'a> Response<'a> {
    /// Reads a complete head; `to_head`: the request was a HEAD, whose answer has no body whatever it says.
    ///
    /// # Errors
    /// If it is no proper answer.
    pub(crate) fn parse(head: &'a [u8], index: &'a mut Vec<Field>, to_head: bool) -> Result<Self, Fault> {
        let (version, status, reason, start) = line(head)?;
        let fields = Fields::parse(head, start, index)?;
        let said = Framing::of(fields)?;
        if version == Version::Http10 && said == Some(Framing::Chunked) {
            return Err(Fault::bad("HTTP/1.0 has no chunks"));
        }
        let framing = match status {
            100..200 | 204 | 304 => Framing::None,
            _ if to_head => Framing::None,
            _ => said.unwrap_or(Framing::UntilClose),
        };
        let mut options = ConnectionOptions::default();
        fields.of(Known::Connection).for_each(|value| options.read(value));
        Ok(Self {
            status,
            reason,
            fields,
            framing,
            keep_alive: (version == Version::Http11 || options.keep_alive)
                && !options.close
                && framing != Framing::UntilClose,
            upgrade: fields.of(Known::Upgrade).next().filter(|_| options.upgrade),
            names_fields: options.names_fields,
        })
    }

    /// Of the parts that a stream of HTTP/2 has; `lines` are its fields.
    ///
    /// # Errors
    /// If it is no proper answer.
    pub(crate) fn of_stream(
        status: u16,
        reason: &'a [u8],
        lines: &'a [u8],
        index: &'a mut Vec<Field>,
        to_head: bool,
    ) -> Result<Self, Fault> {
        let fields = Fields::parse(lines, 0, index)?;
        let framing = match status {
            100..200 | 204 | 304 => Framing::None,
            _ if to_head => Framing::None,
            _ => Framing::of(fields)?.unwrap_or(Framing::UntilClose),
        };
        Ok(Self { status, reason, fields, framing, keep_alive: true, upgrade: None, names_fields: false })
    }

    /// Whether `Connection` names this field.
    pub(crate) fn is_named(&self, name: &[u8]) -> bool {
        self.names_fields && ConnectionOptions::name(&self.fields, name)
    }
}

/// Version, status and reason of the first line, and where the next one begins.
fn line(head: &[u8]) -> Result<(Version, u16, &[u8], usize), Fault> {
    const BAD: Fault = Fault::bad("the first line is not a version and a status");
    let version = match head.get(..9) {
        Some(b"HTTP/1.1 ") => Version::Http11,
        Some(b"HTTP/1.0 ") => Version::Http10,
        _ => return Err(BAD),
    };
    let digits = head.get(9..12).filter(|digits| digits.iter().all(u8::is_ascii_digit)).ok_or(BAD)?;
    let status = digits.iter().fold(0, |status, digit| status * 10 + u16::from(digit - b'0'));
    if !(100..1000).contains(&status) {
        return Err(BAD);
    }
    let rest = &head[12..];
    let length = rest.iter().position(|b| !is_value(*b)).unwrap_or(rest.len());
    if rest.get(length..length + 2) != Some(&b"\r\n"[..]) {
        return Err(BAD);
    }
    let reason = match &rest[..length] {
        [] => &[][..],
        [b' ', reason @ ..] => reason,
        _ => return Err(BAD),
    };
    Ok((version, status, reason, 12 + length + 2))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(head: &str, to_head: bool) -> Result<(u16, Framing, bool), Fault> {
        let mut index = Vec::new();
        let response = Response::parse(head.as_bytes(), &mut index, to_head)?;
        Ok((response.status, response.framing, response.keep_alive))
    }

    #[test]
    fn bodies_end_as_the_head_says() {
        for (head, to_head, expected) in [
            ("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n", false, (200, Framing::Length(5), true)),
            ("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n", true, (200, Framing::None, true)),
            ("HTTP/1.1 200\r\nTransfer-Encoding: Chunked\r\n\r\n", false, (200, Framing::Chunked, true)),
            ("HTTP/1.1 200 \r\n\r\n", false, (200, Framing::UntilClose, false)),
            ("HTTP/1.1 204 No Content\r\n\r\n", false, (204, Framing::None, true)),
            ("HTTP/1.1 304 Not Modified\r\nContent-Length: 9\r\n\r\n", false, (304, Framing::None, true)),
            ("HTTP/1.0 200 OK\r\nContent-Length: 5\r\n\r\n", false, (200, Framing::Length(5), false)),
            (
                "HTTP/1.0 200 OK\r\nConnection: keep-alive\r\nContent-Length: 5\r\n\r\n",
                false,
                (200, Framing::Length(5), true),
            ),
            (
                "HTTP/1.1 200 OK\r\nConnection: x, Close\r\nContent-Length: 0\r\n\r\n",
                false,
                (200, Framing::Length(0), false),
            ),
            ("HTTP/1.1 100 Continue\r\n\r\n", false, (100, Framing::None, true)),
        ] {
            assert_eq!(read(head, to_head).unwrap(), expected, "{head:?}");
        }
    }

    #[test]
    fn answers_that_could_be_two_are_none() {
        for head in [
            "HTTP/1.1 200 OK\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\n",
            "HTTP/1.1 200 OK\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n",
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip, chunked\r\n\r\n",
            "HTTP/1.1 200 OK\r\nContent-Length: 5, 5\r\n\r\n",
            "HTTP/1.1 200 OK\r\nContent-Length: +5\r\n\r\n",
            "HTTP/1.0 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n",
            "HTTP/1.1 099 OK\r\n\r\n",
            "HTTP/1.1 20 OK\r\n\r\n",
            "HTTP/1.1 2000 OK\r\n\r\n",
            "HTTP/2.0 200 OK\r\n\r\n",
            "ICY 200 OK\r\n\r\n",
            "HTTP/1.1 200 O\rK\r\n\r\n",
            "HTTP/1.1 200 OK\r\na : b\r\n\r\n",
        ] {
            assert!(read(head, false).is_err(), "{head:?}");
        }
    }
}
