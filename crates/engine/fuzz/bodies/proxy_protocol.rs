//! Any bytes: the parser never panics, no more bytes change an answer, and what it reads can be written and
//! read again.

use causeway_engine::proxy_protocol::{LIMIT, Parsed, encode_v1, encode_v2, parse};

pub(crate) fn run(bytes: &[u8]) {
    let whole = parse(bytes);
    for end in 0..bytes.len() {
        let part = parse(&bytes[..end]);
        assert!(part == Parsed::NeedMore || part == whole, "{part:?} became {whole:?}");
    }
    assert!(whole != Parsed::NeedMore || bytes.len() < LIMIT, "a header never ends");

    let Parsed::Header(header) = whole else { return };
    assert!(header.length <= bytes.len() && header.length <= LIMIT);
    let Some((source, destination)) = header.addresses else { return };
    for encode in [encode_v1, encode_v2] {
        let written = encode(source, destination);
        let Parsed::Header(read) = parse(&written) else { panic!("our own header is refused: {written:?}") };
        let (from, to) = read.addresses.expect("addresses were written");
        assert_eq!((from.ip().to_canonical(), from.port()), (source.ip().to_canonical(), source.port()));
        assert_eq!(
            (to.ip().to_canonical(), to.port()),
            (destination.ip().to_canonical(), destination.port())
        );
        assert_eq!(read.length, written.len());
    }
}
