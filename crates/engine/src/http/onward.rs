//! Heads as they go on: a request to its endpoint, an answer to its client. What is for one connection only is left out
//! and written anew for the next one; a route's changes are made while the lines are copied.

use super::answer::{Ending, write_status};
use super::cors::Cors;
use super::decision::Forward;
use super::edits::Edits;
use super::h1::Version;
use super::h1::fields::Known;
use super::h1::framing::Framing;
use super::h1::request::Request;
use super::h1::response::Response;
use super::h2::websocket;
use super::introduction::Introduction;
use super::route::{Changes, write_path};
use crate::spans::{TRACEPARENT, Trace};

/// Writes the head of a request for its endpoint. Without an introduction it keeps what it says of its client.
pub(crate) fn write_request(
    out: &mut Vec<u8>,
    request: &Request<'_>,
    changes: &Changes,
    prefix: usize,
    introduction: Option<&Introduction>,
    trace: Option<&Trace>,
) {
    out.extend_from_slice(request.method.as_bytes());
    out.push(b' ');
    write_path(out, &request.target.path, prefix, changes.path.as_ref());
    if let Some(query) = request.target.query {
        out.push(b'?');
        out.extend_from_slice(query);
    }
    out.extend_from_slice(b" HTTP/1.1\r\nhost: ");
    out.extend_from_slice(changes.host.as_deref().unwrap_or(request.target.authority).as_bytes());
    out.extend_from_slice(b"\r\n");
    let translated = request.upgrade.is_some() && request.version == Version::Http2;
    for (known, name, value) in request.fields.iter() {
        let passes = match known {
            Known::Other if translated && websocket::is_of_handshake(name) => false,
            Known::Other if trace.is_some_and(|trace| trace.replaces(name)) => false,
            Known::Forwarded if introduction.is_some() => false,
            Known::Other | Known::Forwarded => !request.is_named(name) && !changes.request.drops(name),
            Known::Expect => request.expects_continue,
            _ => false,
        };
        if passes {
            line(out, name, value);
        }
    }
    out.extend_from_slice(changes.request.added());
    write_framing(out, request.framing);
    if let Some(protocol) = request.upgrade {
        out.extend_from_slice(b"connection: upgrade\r\n");
        line(out, b"upgrade", protocol);
        if translated {
            websocket::write_key(out);
        }
    }
    if let Some(trace) = trace.filter(|_| !changes.request.drops(TRACEPARENT.as_bytes())) {
        trace.write(out);
    }
    if let Some(introduction) = introduction {
        introduction.write(out, request.target.authority, &changes.request);
    }
    out.extend_from_slice(b"\r\n");
}

/// How the body of an answer reaches the client.
pub(crate) fn framing_for(client: Version, framing: Framing) -> Framing {
    match (client, framing) {
        (Version::Http11, Framing::UntilClose) => Framing::Chunked,
        // In a stream of HTTP/2 as in HTTP/1.0 nothing but the end tells the end.
        (Version::Http10 | Version::Http2, Framing::Chunked) => Framing::UntilClose,
        (_, framing) => framing,
    }
}

/// Writes the head of an answer for its client; `session` are lines with which the client stays where it is, `framing` is how
/// its body will reach it.
pub(crate) fn write_response(
    out: &mut Vec<u8>,
    response: &Response<'_>,
    forward: &Forward,
    session: &[u8],
    framing: Framing,
    ending: Ending,
) {
    let edits = &forward.target().changes().response;
    write_answer(out, response, edits, forward.route.cors.is_some(), framing);
    out.extend_from_slice(edits.added());
    out.extend_from_slice(session);
    out.extend_from_slice(&forward.grant);
    write_framing(out, framing);
    ending.write(out);
}

/// Writes what of an answer's head goes on.
pub(crate) fn write_answer(
    out: &mut Vec<u8>,
    response: &Response<'_>,
    edits: &Edits,
    has_cors: bool,
    framing: Framing,
) {
    write_status(out, response.status, response.reason);
    for (known, name, value) in response.fields.iter() {
        let passes = match known {
            Known::Other if has_cors && Cors::replaces(name) => false,
            Known::Other | Known::Forwarded | Known::Expect | Known::Host => {
                !response.is_named(name) && !edits.drops(name)
            }
            // Without a body it tells how long that would have been.
            Known::ContentLength => framing == Framing::None && !matches!(response.status, 100..200 | 204),
            _ => false,
        };
        if passes {
            line(out, name, value);
        }
    }
}

/// Writes the head of the answer to a CONNECT whose connection stands. Nothing tells where it ends: it does not.
pub(crate) fn write_opened(out: &mut Vec<u8>, forward: &Forward, session: &[u8]) {
    write_status(out, 200, b"OK");
    out.extend_from_slice(forward.target().changes().response.added());
    out.extend_from_slice(session);
    out.extend_from_slice(b"\r\n");
}

/// Writes the head of an answer that is only the first word, or the one that changes the protocol.
pub(crate) fn write_interim(out: &mut Vec<u8>, response: &Response<'_>, protocol: Option<&[u8]>) {
    write_status(out, response.status, response.reason);
    for (known, name, value) in response.fields.iter() {
        if known == Known::Other && !response.is_named(name) {
            line(out, name, value);
        }
    }
    if let Some(protocol) = protocol {
        out.extend_from_slice(b"connection: upgrade\r\n");
        line(out, b"upgrade", protocol);
    }
    out.extend_from_slice(b"\r\n");
}

/// Writes the head of an answer that changes the protocol of a stream, from or to HTTP/2. `asked` is the head of the
/// request.
pub(crate) fn write_switch(out: &mut Vec<u8>, response: &Response<'_>, client: Version, asked: &[u8]) {
    if client == Version::Http2 {
        write_status(out, 200, b"OK");
    } else {
        write_status(out, 101, b"Switching Protocols");
        out.extend_from_slice(b"connection: upgrade\r\nupgrade: websocket\r\n");
        websocket::write_accept(out, asked);
    }
    for (known, name, value) in response.fields.iter() {
        if known == Known::Other && !response.is_named(name) && !websocket::is_of_handshake(name) {
            line(out, name, value);
        }
    }
    out.extend_from_slice(b"\r\n");
}

pub(crate) fn write_framing(out: &mut Vec<u8>, framing: Framing) {
    match framing {
        Framing::Length(length) => {
            out.extend_from_slice(b"content-length: ");
            write_decimal(out, length);
            out.extend_from_slice(b"\r\n");
        }
        Framing::Chunked => out.extend_from_slice(b"transfer-encoding: chunked\r\n"),
        Framing::None | Framing::UntilClose => {}
    }
}

fn write_decimal(out: &mut Vec<u8>, mut number: u64) {
    let mut digits = [0; 20];
    let mut at = digits.len();
    loop {
        at -= 1;
        digits[at] = b'0' + (number % 10) as u8;
        number /= 10;
        if number == 0 {
            break;
        }
    }
    out.extend_from_slice(&digits[at..]);
}

fn line(out: &mut Vec<u8>, name: &[u8], value: &[u8]) {
    for part in [name, b": ", value, b"\r\n"] {
        out.extend_from_slice(part);
    }
}
