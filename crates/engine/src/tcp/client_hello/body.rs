//! The inside of a whole ClientHello message. Every length is checked before anything is kept, so a broken
//! hello allocates nothing.

use std::sync::Arc;

use super::fragments::Fragments;
use super::name;
use super::{HANDSHAKE_HEADER, Hello};

const SERVER_NAME: usize = 0;
const ALPN: usize = 16;
const HOST_NAME: u8 = 0;

/// Reads a message that starts with the handshake header.
pub(super) fn read(mut message: Fragments<'_>) -> Result<Hello, &'static str> {
    let mut extensions = extensions(&mut message).ok_or("the ClientHello's fields do not fit its length")?;
    let mut server_names = None;
    let mut protocols = None;
    while !extensions.is_empty() {
        let (kind, content) =
            extension(&mut extensions).ok_or("an extension runs past the end of the ClientHello")?;
        let repeated = match kind {
            SERVER_NAME => server_names.replace(content).is_some(),
            ALPN => protocols.replace(content).is_some(),
            _ => false,
        };
        if repeated {
            return Err("an extension of the ClientHello is repeated");
        }
    }
    if let Some(protocols) = protocols {
        check_alpn(protocols)?;
    }
    Ok(Hello { server_name: server_names.map(server_name).transpose()?.flatten() })
}

/// Walks over the fixed fields and returns the extensions, which may be absent before TLS 1.3.
fn extensions<'a>(message: &mut Fragments<'a>) -> Option<Fragments<'a>> {
    const VERSION_AND_RANDOM: usize = 2 + 32;
    message.skip(HANDSHAKE_HEADER + VERSION_AND_RANDOM)?;
    let session_id = usize::from(message.u8()?);
    if session_id > 32 {
        return None;
    }
    message.skip(session_id)?;
    let cipher_suites = message.u16()?;
    if !cipher_suites.is_multiple_of(2) {
        return None;
    }
    message.skip(cipher_suites)?;
    let compression_methods = usize::from(message.u8()?);
    message.skip(compression_methods)?;
    if message.is_empty() {
        return Some(*message);
    }
    let length = message.u16()?;
    (length == message.len()).then_some(*message)
}

fn extension<'a>(extensions: &mut Fragments<'a>) -> Option<(usize, Fragments<'a>)> {
    let kind = extensions.u16()?;
    let length = extensions.u16()?;
    Some((kind, extensions.split(length)?))
}

/// A list that fills `content` exactly and is not empty.
fn list(mut content: Fragments<'_>) -> Option<Fragments<'_>> {
    let length = content.u16()?;
    (length > 0 && length == content.len()).then_some(content)
}

/// The first host name of the list. Names of other types are stepped over: RFC 6066 has them all start with
/// a 16-bit length.
fn server_name(content: Fragments<'_>) -> Result<Option<Arc<str>>, &'static str> {
    const MALFORMED: &str = "the server_name extension is malformed";
    let mut names = list(content).ok_or(MALFORMED)?;
    while !names.is_empty() {
        let kind = names.u8().ok_or(MALFORMED)?;
        let length = names.u16().ok_or(MALFORMED)?;
        let mut entry = names.split(length).ok_or(MALFORMED)?;
        if kind == HOST_NAME {
            let mut buffer = [0; name::LONGEST];
            let host = buffer.get_mut(..length).ok_or("the server name is longer than 253 characters")?;
            entry.copy_to(host).ok_or(MALFORMED)?;
            return name::normalise(host);
        }
    }
    Ok(None)
}

fn check_alpn(content: Fragments<'_>) -> Result<(), &'static str> {
    const MALFORMED: &str = "the ALPN extension is malformed";
    let mut protocols = list(content).ok_or(MALFORMED)?;
    // As many as fit: the hello's own limit bounds the walk.
    while !protocols.is_empty() {
        let length = protocols.u8().filter(|length| *length > 0).ok_or(MALFORMED)?;
        protocols.skip(usize::from(length)).ok_or(MALFORMED)?;
    }
    Ok(())
}
