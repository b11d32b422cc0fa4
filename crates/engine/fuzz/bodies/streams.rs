//! Any frames of a client that speaks HTTP/2: the front door never panics, and what reaches an endpoint of HTTP/1.1 is for each
//! stream at most one request, beyond doubt.

use std::collections::BTreeSet;

use causeway_engine::front::Front;

/// What every client says first: the preface and settings.
const FIRST: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0";
const HEADERS: u8 = 1;

pub(crate) fn run(bytes: &[u8]) {
    thread_local!(static FRONT: Front = Front::everything());
    FRONT.with(|front| {
        check(front, bytes);
        // Spares the fuzzer the finding of what comes first.
        check(front, &[FIRST, bytes].concat());
    });
}

fn check(front: &Front, bytes: &[u8]) {
    let passed = front.pass_streams(bytes);
    let asked = passed.requests.len() + passed.waiting + usize::from(passed.refused.is_some());
    assert!(asked <= streams(bytes), "{asked} requests");
    for request in &passed.requests {
        let again = front.pass(request);
        assert_eq!(again.requests.len(), 1, "{}", request.escape_ascii());
        assert_eq!((again.refused, again.waiting), (None, 0), "{}", request.escape_ascii());
    }
}

/// The streams that frames begin.
fn streams(bytes: &[u8]) -> usize {
    let mut rest = bytes.get(24..).unwrap_or_default();
    let mut streams = BTreeSet::new();
    while let Some((&[a, b, c, kind, _, s1, s2, s3, s4], after)) = rest.split_first_chunk::<9>() {
        if kind == HEADERS {
            streams.insert(u32::from_be_bytes([s1 & 0x7f, s2, s3, s4]));
        }
        rest = after.get(u32::from_be_bytes([0, a, b, c]) as usize..).unwrap_or_default();
    }
    streams.len()
}
