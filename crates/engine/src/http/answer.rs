//! Answers that are given here, without an endpoint. They say what the client needs to know and nothing of what is
//! inside.

use causeway_ir::http::{Redirect, Response, Scheme};

use super::h1::Version;
use super::route::write_path;
use super::target::Target;

/// An answer that is the same for every request.
pub(crate) struct Fixed {
    pub(crate) status: u16,
    /// The lines of the head, without the last, empty one.
    head: Box<[u8]>,
    body: Box<[u8]>,
}

impl Fixed {
    pub(crate) fn compile(planned: &Response) -> Self {
        let mut head = Vec::new();
        write_status(&mut head, planned.status, reason(planned.status).as_bytes());
        for header in &planned.headers {
            line(&mut head, header.name.as_str(), header.value.as_bytes());
        }
        if has_body(planned.status) {
            line(&mut head, "content-length", planned.body.len().to_string().as_bytes());
        }
        let body = if has_body(planned.status) { planned.body.as_bytes() } else { &[] };
        Self { status: planned.status, head: head.into(), body: body.into() }
    }

    pub(crate) fn write(&self, out: &mut Vec<u8>, ending: Ending) {
        out.extend_from_slice(&self.head);
        ending.write(out);
        if !ending.to_head {
            out.extend_from_slice(&self.body);
        }
    }
}

/// What the end of a head depends on.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Ending {
    pub(crate) version: Version,
    pub(crate) keep_alive: bool,
    /// The answer to a HEAD, which has no body.
    pub(crate) to_head: bool,
}

impl Ending {
    /// What becomes of the connection, and the empty line.
    pub(crate) fn write(self, out: &mut Vec<u8>) {
        out.extend_from_slice(match (self.keep_alive, self.version) {
            (false, Version::Http10 | Version::Http11) => b"connection: close\r\n\r\n",
            (true, Version::Http10) => b"connection: keep-alive\r\n\r\n",
            (true, Version::Http11) | (_, Version::Http2) => b"\r\n",
        });
    }
}

/// Writes an answer that says its status and no more.
pub(crate) fn write_plain(out: &mut Vec<u8>, status: u16, ending: Ending) {
    write_plain_with(out, status, &[], ending);
}

/// The same with lines for its head.
pub(crate) fn write_plain_with(out: &mut Vec<u8>, status: u16, lines: &[u8], ending: Ending) {
    let reason = reason(status);
    write_status(out, status, reason.as_bytes());
    out.extend_from_slice(lines);
    if has_body(status) {
        line(out, "content-type", b"text/plain");
        line(out, "content-length", (reason.len() + 1).to_string().as_bytes());
    }
    ending.write(out);
    if has_body(status) && !ending.to_head {
        out.extend_from_slice(reason.as_bytes());
        out.push(b'\n');
    }
}

/// Where a redirected request came in.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Arrival {
    pub(crate) scheme: Scheme,
    pub(crate) port: u16,
}

/// Writes a redirect of a request; `prefix` is how much of its path the route's prefix is.
pub(crate) fn write_redirect(
    out: &mut Vec<u8>,
    redirect: &Redirect,
    target: &Target<'_>,
    prefix: usize,
    arrival: Arrival,
    ending: Ending,
) {
    let status = u16::from(redirect.status);
    write_status(out, status, reason(status).as_bytes());
    out.extend_from_slice(b"location: ");
    let host = redirect.host.as_deref().unwrap_or(&target.host);
    if !host.is_empty() {
        let scheme = redirect.scheme.unwrap_or(arrival.scheme);
        let (word, usual) = match scheme {
            Scheme::Http => ("http://", 80),
            Scheme::Https => ("https://", 443),
        };
        let port = match (redirect.port, redirect.scheme) {
            (Some(port), _) => port,
            (None, Some(_)) => usual,
            (None, None) => arrival.port,
        };
        out.extend_from_slice(word.as_bytes());
        out.extend_from_slice(host.as_bytes());
        if port != usual {
            out.push(b':');
            out.extend_from_slice(port.to_string().as_bytes());
        }
    }
    write_path(out, &target.path, prefix, redirect.path.as_ref());
    if let Some(query) = target.query {
        out.push(b'?');
        out.extend_from_slice(query);
    }
    out.extend_from_slice(b"\r\ncontent-length: 0\r\n");
    ending.write(out);
}

/// Writes the first line of an answer.
pub(crate) fn write_status(out: &mut Vec<u8>, status: u16, reason: &[u8]) {
    out.extend_from_slice(b"HTTP/1.1 ");
    out.extend([status / 100, status / 10 % 10, status % 10].map(|digit| b'0' + digit as u8));
    out.push(b' ');
    out.extend_from_slice(reason);
    out.extend_from_slice(b"\r\n");
}

fn line(out: &mut Vec<u8>, name: &str, value: &[u8]) {
    for part in [name.as_bytes(), b": ", value, b"\r\n"] {
        out.extend_from_slice(part);
    }
}

fn has_body(status: u16) -> bool {
    !matches!(status, 100..200 | 204 | 304)
}

/// The words for a status.
pub(crate) fn reason(status: u16) -> &'static str {
    match status {
        200 => "OK",
        201 => "Created",
        202 => "Accepted",
        204 => "No Content",
        301 => "Moved Permanently",
        302 => "Found",
        303 => "See Other",
        307 => "Temporary Redirect",
        308 => "Permanent Redirect",
        400 => "Bad Request",
        401 => "Unauthorized",
        403 => "Forbidden",
        404 => "Not Found",
        405 => "Method Not Allowed",
        408 => "Request Timeout",
        413 => "Content Too Large",
        417 => "Expectation Failed",
        418 => "I'm a teapot",
        421 => "Misdirected Request",
        429 => "Too Many Requests",
        431 => "Request Header Fields Too Large",
        500 => "Internal Server Error",
        501 => "Not Implemented",
        502 => "Bad Gateway",
        503 => "Service Unavailable",
        504 => "Gateway Timeout",
        505 => "HTTP Version Not Supported",
        _ => "Other",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ENDING: Ending = Ending { version: Version::Http11, keep_alive: true, to_head: false };

    fn location(redirect: &str, host: &str, path: &str, arrival: Arrival) -> String {
        let redirect: Redirect = serde_saphyr::from_str(redirect).unwrap();
        let target = Target { authority: host, host: host.into(), path: path.into(), query: Some(b"q=1") };
        let mut out = Vec::new();
        write_redirect(&mut out, &redirect, &target, 2, arrival, ENDING);
        let text = String::from_utf8(out).unwrap();
        text.lines().find_map(|line| line.strip_prefix("location: ")).unwrap().to_owned()
    }

    #[test]
    fn a_redirect_leaves_out_the_usual_port() {
        let (clear, odd) =
            (Arrival { scheme: Scheme::Http, port: 80 }, Arrival { scheme: Scheme::Http, port: 8080 });
        for (redirect, arrival, expected) in [
            ("{host: b.test}", clear, "http://b.test/a/x?q=1"),
            ("{scheme: https}", clear, "https://a.test/a/x?q=1"),
            ("{scheme: https}", odd, "https://a.test/a/x?q=1"),
            ("{scheme: https, port: 8443}", clear, "https://a.test:8443/a/x?q=1"),
            ("{host: b.test}", odd, "http://b.test:8080/a/x?q=1"),
            ("{port: 80}", odd, "http://a.test/a/x?q=1"),
            ("{path: {prefix: /n}}", clear, "http://a.test/n/x?q=1"),
            ("{path: {full: /f}}", clear, "http://a.test/f?q=1"),
        ] {
            assert_eq!(location(redirect, "a.test", "/a/x", arrival), expected, "{redirect}");
        }
        assert_eq!(location("{status: 301}", "", "/a/x", clear), "/a/x?q=1");
    }

    #[test]
    fn plain_answers_have_a_length_and_no_more_than_their_status() {
        let mut out = Vec::new();
        write_plain(&mut out, 404, ENDING);
        let text =
            "HTTP/1.1 404 Not Found\r\ncontent-type: text/plain\r\ncontent-length: 10\r\n\r\nNot Found\n";
        assert_eq!(String::from_utf8(out).unwrap(), text);
    }

    #[test]
    fn a_fixed_answer_to_head_has_no_body() {
        let planned =
            serde_saphyr::from_str("{status: 200, headers: [{name: X-A, value: b}], body: hi}").unwrap();
        let fixed = Fixed::compile(&planned);
        for (to_head, body) in [(false, "hi"), (true, "")] {
            let mut out = Vec::new();
            fixed.write(&mut out, Ending { to_head, ..ENDING });
            let expected = format!("HTTP/1.1 200 OK\r\nx-a: b\r\ncontent-length: 2\r\n\r\n{body}");
            assert_eq!(String::from_utf8(out).unwrap(), expected);
        }
    }
}
