//! Any bytes, as they are and as the contents of a record: the parser never panics, a trickling connection
//! gets the same answer, and whatever rustls accepts we read alike.

use causeway_engine::client_hello::{Parsed, Parser, parse};
use rustls::server::Acceptor;

pub(crate) fn run(bytes: &[u8]) {
    check(bytes);
    // Spares the fuzzer the finding of lengths that fit: a ClientHello message around the bytes.
    if let Ok(length) = u16::try_from(bytes.len() + 4)
        && length <= 1 << 14
    {
        let mut record = vec![22, 3, 1];
        record.extend(length.to_be_bytes());
        record.extend([1, 0]);
        record.extend((bytes.len() as u16).to_be_bytes());
        record.extend(bytes);
        check(&record);
    }
}

fn check(wire: &[u8]) {
    let whole = parse(wire);
    let mut parser = Parser::default();
    let mut trickled = Parsed::NeedMore;
    for end in 0..=wire.len() {
        trickled = parser.parse(&wire[..end]);
        if trickled != Parsed::NeedMore {
            break;
        }
    }
    assert_eq!(trickled, whole, "the same bytes in segments");

    let Some(name) = accepted_name(wire) else { return };
    match whole {
        Parsed::Hello(hello) => {
            let name = name.map(|name| name.strip_suffix('.').unwrap_or(&name).to_owned());
            assert_eq!(hello.server_name.as_deref(), name.as_deref());
        }
        // The limits that are ours alone.
        Parsed::Invalid(
            "a TLS record is longer than 16384 bytes" | "the ClientHello is spread over too many records",
        ) => {}
        other => panic!("rustls accepts {name:?}, we say {other:?}"),
    }
}

/// The name that rustls reads: `None` if it does not accept the hello.
#[allow(clippy::option_option, reason = "accepted without a name differs from not accepted")]
fn accepted_name(mut wire: &[u8]) -> Option<Option<String>> {
    let mut acceptor = Acceptor::default();
    while !wire.is_empty() {
        acceptor.read_tls(&mut wire).ok()?;
        if let Some(accepted) = acceptor.accept().ok()? {
            return Some(accepted.client_hello().server_name().map(str::to_owned));
        }
    }
    None
}
