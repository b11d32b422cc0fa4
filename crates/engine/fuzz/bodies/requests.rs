//! Any bytes of a client: the front door never panics, and what it lets through are as many requests, each of them beyond
//! doubt, as it says.

use causeway_engine::front::{Passed, pass};

pub(crate) fn run(bytes: &[u8]) {
    check(bytes);
    // Spares the fuzzer the finding of a head: chunks around the bytes.
    check(&[b"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n", bytes].concat());
}

fn check(bytes: &[u8]) {
    let passed = pass(bytes);
    for request in &passed.requests {
        let again = pass(request);
        assert_eq!(again.requests.len(), 1, "{}", request.escape_ascii());
        assert_eq!((again.refused, again.waiting), (None, 0), "{}", request.escape_ascii());
    }
    // Cut short it is the same as far as it goes: nothing that follows changes what came before.
    let half = pass(&bytes[..bytes.len() / 2]);
    assert!(passed.requests.starts_with(&half.requests));
    if half.refused.is_some() {
        assert_eq!(Passed { waiting: 0, ..half }, Passed { waiting: 0, ..passed });
    }
}
