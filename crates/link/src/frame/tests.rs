use proptest::prelude::*;

use super::*;

/// Frames without borrowed parts, data joined to whole frames.
fn read(cuts: &[usize], bytes: &[u8]) -> Result<Vec<String>, Error> {
    let (mut decoder, mut seen, mut held) = (Decoder::default(), Vec::new(), Vec::new());
    let mut from = 0;
    for cut in cuts.iter().copied().chain([bytes.len()]) {
        let to = cut.clamp(from, bytes.len());
        decoder.feed(&bytes[from..to], |frame| -> Result<(), Error> {
            if let Frame::Data { stream, piece, last } = frame {
                held.extend_from_slice(piece);
                if last {
                    seen.push(format!("data {stream} {:?}", std::mem::take(&mut held)));
                }
            } else {
                seen.push(format!("{frame:?}"));
            }
            Ok(())
        })?;
        from = to;
    }
    Ok(seen)
}

fn sample() -> Vec<u8> {
    let mut out = Vec::new();
    Frame::Hello { greeting: b"0123456789abcdef" }.encode(&mut out);
    Frame::Open { stream: 7, content: Content::Bytes, request: b"for this" }.encode(&mut out);
    Frame::Open { stream: 8, content: Content::Datagrams, request: b"" }.encode(&mut out);
    Frame::Reset { stream: 9, reason: "" }.encode(&mut out);
    Frame::Reset { stream: 8, reason: "connection refused" }.encode(&mut out);
    Frame::Data { stream: 7, piece: b"hello there", last: true }.encode(&mut out);
    Frame::Data { stream: 7, piece: b"", last: true }.encode(&mut out);
    Frame::Credit { stream: 7, bytes: 65_536 }.encode(&mut out);
    Frame::Fin { stream: 7 }.encode(&mut out);
    Frame::Ping { stamp: 5 }.encode(&mut out);
    Frame::Pong { stamp: u64::MAX }.encode(&mut out);
    Frame::Leave.encode(&mut out);
    Frame::Close { reason: "the end" }.encode(&mut out);
    out
}

#[test]
fn what_is_written_is_read() {
    let seen = read(&[], &sample()).expect("valid frames");
    assert_eq!(seen.len(), 13);
    let request = b"for this";
    assert_eq!(seen[1], format!("Open {{ stream: 7, content: Bytes, request: {request:?} }}"));
    assert_eq!(seen[2], "Open { stream: 8, content: Datagrams, request: [] }");
    assert_eq!(seen[4], "Reset { stream: 8, reason: \"connection refused\" }");
    assert_eq!(seen[5], format!("data 7 {:?}", b"hello there"));
    assert_eq!(seen[6], "data 7 []");
    assert_eq!(seen[10], format!("Pong {{ stamp: {} }}", u64::MAX));
}

#[test]
fn the_first_frame_is_read_once_it_is_whole() {
    let bytes = sample();
    let whole = Frame::first(&bytes).expect("a valid frame").expect("whole");
    assert_eq!(whole, (Frame::Hello { greeting: b"0123456789abcdef" }, 24));
    for cut in 0..24 {
        assert_eq!(Frame::first(&bytes[..cut]), Ok(None), "cut at {cut}");
    }
}

#[test]
fn every_cut_gives_the_same_frames() {
    let bytes = sample();
    let whole = read(&[], &bytes).expect("valid frames");
    for cut in 0..bytes.len() {
        assert_eq!(read(&[cut], &bytes).expect("valid frames"), whole, "cut at {cut}");
    }
    let every_byte: Vec<usize> = (0..bytes.len()).collect();
    assert_eq!(read(&every_byte, &bytes).expect("valid frames"), whole);
}

#[test]
fn a_long_reason_is_cut_between_characters() {
    let mut out = Vec::new();
    Frame::Reset { stream: 1, reason: &"ä".repeat(400) }.encode(&mut out);
    let seen = read(&[], &out).expect("a valid frame");
    assert_eq!(seen, [format!("{:?}", Frame::Reset { stream: 1, reason: &"ä".repeat(256) })]);
}

#[test]
fn unknown_kinds_and_endless_frames_are_refused() {
    assert_eq!(read(&[], &[0, 0, 0, 1, 99, 0, 0, 0]), Err(Error::Kind(99)));
    assert_eq!(read(&[], &[0, 0, 0, 1, Kind::Fin as u8, 0, 2, 1]), Err(Error::TooLong(513)));
    assert_eq!(read(&[], &[0, 0, 0, 1, Kind::Data as u8, 255, 255, 255]), Err(Error::TooLong(0xff_ffff)));
}

proptest! {
    #[test]
    fn rubbish_is_an_error_or_frames_but_never_a_panic(
        bytes in proptest::collection::vec(any::<u8>(), 0..2048),
        cuts in proptest::collection::vec(0_usize..2048, 0..8),
    ) {
        let mut cuts = cuts;
        cuts.sort_unstable();
        // The same bytes mean the same, however they are cut.
        prop_assert_eq!(read(&cuts, &bytes).ok(), read(&[], &bytes).ok());
        let _ = Frame::first(&bytes);
    }
}
