//! HTTP/1.1 without IO: bytes to heads and bodies. Stricter than most readers on purpose: what two readers could take
//! for two different messages is taken for none.

pub(crate) mod bytes;
pub(crate) mod chunked;
mod connection_options;
pub(crate) mod fields;
pub(crate) mod framing;
pub(crate) mod request;
pub(crate) mod response;
pub(crate) mod scan;

/// The longest head that is taken, with its empty line.
pub(crate) const HEAD: usize = 64 << 10;

/// What a peer speaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Version {
    Http10,
    Http11,
    /// In streams, with heads of another form and the same meaning.
    Http2,
}
