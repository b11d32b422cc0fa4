use proptest::prelude::*;

use super::*;

/// All events of these bytes, fed in steps of this size.
fn read(bytes: &[u8], step: usize) -> Result<Vec<Event>, Violation> {
    let (mut decoder, mut input, mut events) = (Decoder::default(), BytesMut::new(), Vec::new());
    for part in bytes.chunks(step.max(1)) {
        input.extend_from_slice(part);
        while let Some(event) = decoder.next(&mut input)? {
            events.push(event);
        }
    }
    Ok(events)
}

fn open(id: u32, headers: &[u8]) -> Bytes {
    let mut body = BytesMut::new();
    body.put_u32(id);
    body.put_u32(0);
    body.put_u16(0);
    body.put_slice(headers);
    control(SYN_STREAM, &body)
}

fn data(id: u32, bytes: &[u8], fin: bool) -> Vec<u8> {
    [&data_head(id, bytes.len(), fin), bytes].concat()
}

/// What was said on each stream, and whether it ended.
fn said(events: &[Event], stream: u32) -> (Vec<u8>, bool) {
    let (mut all, mut ended) = (Vec::new(), false);
    for event in events {
        match event {
            Event::Data { id, bytes, fin } if *id == stream => {
                assert!(!ended, "nothing comes after the end");
                all.extend_from_slice(bytes);
                ended = *fin;
            }
            _ => {}
        }
    }
    (all, ended)
}

#[test]
fn a_session_is_read_however_it_is_cut() {
    let mut headers = Compressor::default();
    let mut bytes = open(1, &headers.empty()).to_vec();
    bytes.extend(data(1, b"", true));
    bytes.extend(open(3, &headers.empty()));
    bytes.extend(data(3, b"hello ", false));
    bytes.extend(ping(7));
    bytes.extend(data(3, b"world", true));
    bytes.extend(reset(3, Status::Cancel));
    bytes.extend(go_away(3));
    for step in [1, 5, 10_000] {
        let events = read(&bytes, step).unwrap();
        assert_eq!(said(&events, 1), (Vec::new(), true));
        assert_eq!(said(&events, 3), (b"hello world".to_vec(), true));
        let opened = events.iter().filter(|event| matches!(event, Event::Open { .. })).count();
        assert_eq!(opened, 2);
        assert!(events.contains(&Event::Ping { id: 7 }) && events.contains(&Event::Reset { id: 3 }));
        assert_eq!(events.last(), Some(&Event::Other));
    }
}

#[test]
fn what_breaks_the_rules_is_refused() {
    let mut other_version = ping(1).to_vec();
    other_version[1] = 2;
    let too_long = pair(CONTROL | VERSION << 16 | SYN_STREAM, MOST_CONTROL as u32 + 1);
    for bytes in [
        other_version,
        too_long.to_vec(),
        data(0, b"x", false),
        control(RST_STREAM, &[0; 3]).to_vec(),
        control(PING, &[]).to_vec(),
        open(1, b"not packed at all").to_vec(),
    ] {
        assert!(read(&bytes, 1000).is_err(), "{bytes:?}");
    }
}

proptest! {
    #[test]
    fn data_comes_out_as_it_went_in(
        parts in prop::collection::vec((0u32..4, prop::collection::vec(any::<u8>(), 0..200)), 0..12),
        step in 1usize..300,
    ) {
        let bytes: Vec<u8> = parts.iter().flat_map(|(id, part)| data(id * 2 + 1, part, false)).collect();
        let events = read(&bytes, step).unwrap();
        for id in 0..4 {
            let sent: Vec<u8> = parts.iter().filter(|(of, _)| *of == id).flat_map(|(_, part)| part.clone()).collect();
            prop_assert_eq!(said(&events, id * 2 + 1).0, sent);
        }
    }

    #[test]
    fn no_bytes_make_it_panic(bytes in prop::collection::vec(any::<u8>(), 0..400), step in 1usize..50) {
        let _ = read(&bytes, step);
    }

    #[test]
    fn no_control_frame_makes_it_panic(kind in 0u32..12, body in prop::collection::vec(any::<u8>(), 0..80)) {
        let _ = read(&control(kind, &body), 11);
    }

    #[test]
    fn no_bent_session_makes_it_panic(place in any::<prop::sample::Index>(), byte: u8) {
        let mut headers = Compressor::default();
        let mut bytes = [open(1, &headers.empty()), open(3, &headers.empty()), ping(3)].concat();
        bytes.extend(data(3, b"some data", true));
        let place = place.index(bytes.len());
        bytes[place] = byte;
        let _ = read(&bytes, 9);
    }
}
