use proptest::prelude::*;

use super::*;

/// A client's frame.
fn frame(first: u8, payload: &[u8], mask: [u8; 4]) -> Vec<u8> {
    let mut out = BytesMut::new();
    head(first & 0x0f, payload.len(), &mut out);
    let mut bytes = out.to_vec();
    bytes[0] = first;
    bytes[1] |= MASKED;
    bytes.extend(mask);
    bytes.extend(payload.iter().zip(mask.iter().cycle()).map(|(byte, key)| byte ^ key));
    bytes
}

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

/// The messages in pieces of events.
fn messages(events: &[Event]) -> Vec<Vec<u8>> {
    let mut all: Vec<Vec<u8>> = Vec::new();
    for event in events {
        if let Event::Piece { bytes, first } = event {
            if *first {
                all.push(Vec::new());
            }
            all.last_mut().expect("a message begins with a first piece").extend_from_slice(bytes);
        }
    }
    all
}

#[test]
fn the_key_is_answered_as_the_standard_says() {
    assert_eq!(accept_key("dGhlIHNhbXBsZSBub25jZQ=="), "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=");
}

#[test]
fn a_ping_may_come_inside_of_a_message() {
    let mut bytes = frame(BINARY, b"one ", [1, 2, 3, 4]);
    bytes.extend(frame(FIN | PING, b"there?", [9, 9, 9, 9]));
    bytes.extend(frame(FIN | CONTINUATION, b"message", [5, 6, 7, 8]));
    bytes.extend(frame(FIN | PONG, b"", [0; 4]));
    bytes.extend(frame(FIN | CLOSE, &[3, 232], [1; 4]));
    for step in [1, 3, 1000] {
        let events = read(&bytes, step).unwrap();
        assert_eq!(messages(&events), [b"one message".to_vec()]);
        assert!(events.contains(&Event::Ping(Bytes::from_static(b"there?"))), "{events:?}");
        assert_eq!(&events[events.len() - 2..], [Event::Pong, Event::Close]);
    }
}

#[test]
fn what_breaks_the_rules_is_refused() {
    let mut unmasked = frame(FIN | BINARY, b"x", [0; 4]);
    unmasked[1] &= !MASKED;
    let mut endless = frame(FIN | BINARY, &vec![0; 70_000], [0; 4]);
    endless[2] = 0xff;
    let mut twice = frame(BINARY, b"a", [0; 4]);
    twice.extend(frame(FIN | BINARY, b"b", [0; 4]));
    for bytes in [
        unmasked,
        endless,
        twice,
        frame(FIN | CONTINUATION, b"x", [0; 4]),
        frame(PING, b"in parts", [0; 4]),
        frame(FIN | PING, &[0; 126], [0; 4]),
        frame(FIN | 0x40 | BINARY, b"compressed", [0; 4]),
        frame(FIN | 0x3, b"x", [0; 4]),
        frame(FIN | 0xb, b"x", [0; 4]),
    ] {
        assert!(read(&bytes, 1000).is_err(), "{:?}", &bytes[..bytes.len().min(20)]);
    }
}

proptest! {
    #[test]
    fn messages_come_out_as_they_went_in(
        sent in prop::collection::vec((prop::collection::vec(any::<u8>(), 0..300), any::<[u8; 4]>()), 0..5),
        step in 1usize..400,
    ) {
        let bytes: Vec<u8> = sent.iter().flat_map(|(payload, mask)| frame(FIN | BINARY, payload, *mask)).collect();
        let events = read(&bytes, step).unwrap();
        prop_assert_eq!(messages(&events), sent.into_iter().map(|(payload, _)| payload).collect::<Vec<_>>());
    }

    #[test]
    fn heads_are_what_a_client_reads(length in prop_oneof![0usize..70_000, 65_530usize..65_540]) {
        let mut out = BytesMut::new();
        message_head(length, &mut out);
        let mut masked = out.to_vec();
        masked[1] |= MASKED;
        masked.extend([0; 4]);
        let head = Head::read(&masked).unwrap().unwrap();
        prop_assert_eq!((head.payload, head.opcode, head.fin), (length as u64, BINARY, true));
    }

    #[test]
    fn no_bytes_make_it_panic(bytes in prop::collection::vec(any::<u8>(), 0..600), step in 1usize..50) {
        let _ = read(&bytes, step);
    }

    #[test]
    fn no_bent_frame_makes_it_panic(
        payload in prop::collection::vec(any::<u8>(), 0..200), place in any::<prop::sample::Index>(), byte: u8,
    ) {
        let mut bytes = frame(FIN | BINARY, &payload, [7, 1, 255, 0]);
        bytes.extend(frame(FIN | PING, b"?", [1; 4]));
        let place = place.index(bytes.len());
        bytes[place] = byte;
        let _ = read(&bytes, 7);
    }
}
