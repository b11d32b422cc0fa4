//! The head of a request.

use super::Version;
use super::bytes::{is_target, is_token, list};
use super::connection_options::ConnectionOptions;
use super::fields::{Field, Fields, Known};
use super::framing::Framing;
use crate::http::fault::Fault;
use crate::http::target::Target;

/// The method that asks for a stream of bytes.
pub(crate) const CONNECT: &str = "CONNECT";

/// The head of a request, in the buffer that it was read into.
#[derive(Debug)]
pub(crate) struct Request<'a> {
    pub(crate) method: &'a str,
    pub(crate) target: Target<'a>,
    pub(crate) version: Version,
    pub(crate) fields: Fields<'a>,
    pub(crate) framing: Framing,
    /// Whether the client would send another on the same connection.
    pub(crate) keep_alive: bool,
    /// The client waits for a word before it sends the body.
    pub(crate) expects_continue: bool,
    /// The protocol that the client would rather speak.
    pub(crate) upgrade: Option<&'a [u8]>,
    /// `Connection` names fields that go no further.
    pub(crate) names_fields: bool,
}

impl<'a> Request<'a> {
    /// Reads a complete head.
    ///
    /// # Errors
    /// If it is no proper request: with the status that says so.
    pub(crate) fn parse(head: &'a [u8], index: &'a mut Vec<Field>) -> Result<Self, Fault> {
        let (method, target, version, start) = line(head)?;
        let fields = Fields::parse(head, start, index)?;
        let framing = Framing::of(fields)?;
        if version == Version::Http10 && framing == Some(Framing::Chunked) {
            return Err(Fault::bad("HTTP/1.0 has no chunks"));
        }
        let target = if method == CONNECT {
            Target::of_tunnel(target, framing, fields)?
        } else {
            Target::parse(target, method, version, fields)?
        };
        let framing = framing.unwrap_or(Framing::None);
        let mut request = Self {
            method,
            target,
            version,
            fields,
            framing,
            keep_alive: version == Version::Http11,
            expects_continue: false,
            upgrade: None,
            names_fields: false,
        };
        request.read_connection()?;
        if request.connects() {
            // Whatever follows is meant for somebody else, and no request if there is no tunnel.
            (request.keep_alive, request.upgrade) = (false, None);
        }
        Ok(request)
    }

    /// Of the parts that a stream of HTTP/2 has; `upgrade` is the protocol that it changes to.
    ///
    /// # Errors
    /// If the client expects what can't be done.
    pub(crate) fn of_stream(
        method: &'a str,
        target: Target<'a>,
        fields: Fields<'a>,
        framing: Framing,
        upgrade: Option<&'a [u8]>,
    ) -> Result<Self, Fault> {
        let mut request = Self {
            method,
            target,
            version: Version::Http2,
            fields,
            framing,
            keep_alive: true,
            expects_continue: false,
            upgrade: None,
            names_fields: false,
        };
        request.read_connection()?;
        request.upgrade = upgrade;
        Ok(request)
    }

    /// Whether it asks for a stream of bytes.
    pub(crate) fn connects(&self) -> bool {
        self.method == CONNECT
    }

    /// Whether the client takes what comes after a body.
    pub(crate) fn takes_trailers(&self) -> bool {
        self.fields.get("te").is_some_and(|value| list(&value).any(|te| te.eq_ignore_ascii_case(b"trailers")))
    }

    fn read_connection(&mut self) -> Result<(), Fault> {
        let mut options = ConnectionOptions::default();
        for (known, _, value) in self.fields.iter() {
            match known {
                Known::Connection => options.read(value),
                Known::Expect if self.version != Version::Http10 => {
                    if !value.eq_ignore_ascii_case(b"100-continue") {
                        return Err(Fault::new(417, "only 100-continue can be expected"));
                    }
                    self.expects_continue = self.framing != Framing::None;
                }
                _ => {}
            }
        }
        self.names_fields = options.names_fields;
        self.keep_alive = (self.keep_alive || options.keep_alive) && !options.close;
        // A body would be read by one protocol and written in another, and HTTP/1.0 knows no upgrade.
        if options.upgrade
            && self.version == Version::Http11
            && matches!(self.framing, Framing::None | Framing::Length(0))
        {
            let mut wanted = self.fields.of(Known::Upgrade);
            self.upgrade = wanted.next().filter(|protocol| may_tunnel(protocol));
            if wanted.next().is_some() {
                self.upgrade = None;
            }
        }
        Ok(())
    }

    /// Whether `Connection` names this field.
    pub(crate) fn is_named(&self, name: &[u8]) -> bool {
        self.names_fields && ConnectionOptions::name(&self.fields, name)
    }

    /// Whether doing it twice is doing it once.
    pub(crate) fn is_idempotent(&self) -> bool {
        matches!(self.method, "GET" | "HEAD" | "OPTIONS" | "PUT" | "DELETE" | "TRACE")
    }
}

/// Whether a protocol may take over a connection: one, and not HTTP or TLS again, which would carry requests that nobody
/// looks at.
fn may_tunnel(protocol: &[u8]) -> bool {
    let begins =
        |with: &[u8]| protocol.get(..with.len()).is_some_and(|start| start.eq_ignore_ascii_case(with));
    !protocol.is_empty()
        && protocol.iter().all(|b| is_token(*b) || *b == b'/')
        && !(begins(b"h2") || begins(b"http") || begins(b"tls"))
}

/// Method, target and version of the first line, and where the next one begins.
fn line(head: &[u8]) -> Result<(&str, &[u8], Version, usize), Fault> {
    const BAD: Fault = Fault::bad("the first line is not a method, a target and a version");
    let method = head.iter().position(|b| !is_token(*b)).unwrap_or(head.len());
    if method == 0 || method > 32 || head.get(method) != Some(&b' ') {
        return Err(BAD);
    }
    let rest = &head[method + 1..];
    let length = rest.iter().position(|b| !is_target(*b)).unwrap_or(rest.len());
    let version = rest.get(length..length + 11).ok_or(BAD)?;
    if length == 0 || !version.starts_with(b" HTTP/") || &version[9..] != b"\r\n" {
        return Err(BAD);
    }
    let version = match &version[6..9] {
        b"1.1" => Version::Http11,
        b"1.0" => Version::Http10,
        [major, b'.', minor] if major.is_ascii_digit() && minor.is_ascii_digit() => {
            return Err(Fault::new(505, "neither HTTP/1.1 nor HTTP/1.0"));
        }
        _ => return Err(BAD),
    };
    let name = std::str::from_utf8(&head[..method]).map_err(|_| BAD)?;
    Ok((name, &rest[..length], version, method + 1 + length + 11))
}
