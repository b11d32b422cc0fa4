use proptest::prelude::*;

use super::*;

/// A frame's headers as a client packs them without making them smaller.
fn packed(headers: &[(&str, &str)], first: bool) -> Bytes {
    let mut block = BytesMut::new();
    block.put_u32(headers.len() as u32);
    for text in headers.iter().flat_map(|(name, value)| [name, value]) {
        block.put_u32(text.len() as u32);
        block.put_slice(text.as_bytes());
    }
    let mut out = BytesMut::new();
    if first {
        out.put_slice(&PREAMBLE);
        out.put_u32(CHECKSUM);
    }
    out.put_u8(0);
    out.put_u16_le(block.len() as u16);
    out.put_u16_le(!(block.len() as u16));
    out.put_slice(&block);
    out.put_slice(&[0, 0, 0, 0xff, 0xff]);
    out.freeze()
}

fn adler32(bytes: &[u8]) -> u32 {
    let (a, b) = bytes.iter().fold((1u32, 0u32), |(a, b), byte| {
        let a = (a + u32::from(*byte)) % 65_521;
        (a, (a + b) % 65_521)
    });
    b << 16 | a
}

#[test]
fn the_dictionary_is_the_one_that_everybody_has() {
    let bytes = dictionary();
    assert_eq!((bytes.len(), adler32(&bytes)), (1423, CHECKSUM));
}

/// Three frames as kubectl packs them.
#[test]
fn headers_of_kubectl_are_read() {
    let frames = [
        "78f9e3c6a7c202253a703a2b294a4dcc851625aca9a0808614cb45e01c60616061c0c0c0c0590489c64c50f2663400000000ffff",
        "c2aa19540e2512d60b000000ffff",
        "a2c4624300000000ffff",
    ];
    let mut reader = Decompressor::default();
    let read = frames.map(|frame| {
        let bytes: Vec<u8> = (0..frame.len())
            .step_by(2)
            .map(|at| u8::from_str_radix(&frame[at..at + 2], 16).unwrap())
            .collect();
        reader.read(&bytes.into()).unwrap()
    });
    let said = read.each_ref().map(|headers| {
        ["streamtype", "port", "requestid"].map(|name| headers.get(name).to_owned()).join(" ")
    });
    assert_eq!(said, ["error 8080 0", "data 8080 0", "error 8080 1"]);
}

#[test]
fn one_stream_of_compression_runs_through_all_frames() {
    let mut reader = Decompressor::default();
    let first = reader.read(&packed(&[("streamtype", "error"), ("Port", "80")], true)).unwrap();
    assert_eq!((first.get("streamtype"), first.get("port"), first.get("requestid")), ("error", "80", ""));
    let second = reader.read(&packed(&[("streamtype", "data")], false)).unwrap();
    assert_eq!(second.get("streamtype"), "data");
    assert!(reader.read(&packed(&[], true)).is_err(), "zlib begins once");
}

#[test]
fn an_answer_without_headers_is_read_as_such() {
    let (mut writer, mut reader) = (Compressor::default(), Decompressor::default());
    for _ in 0..3 {
        assert_eq!(reader.read(&writer.empty()).unwrap(), Headers::default());
    }
}

#[test]
fn headers_without_the_dictionary_or_without_end_are_refused() {
    let mut other = packed(&[("a", "b")], true).to_vec();
    other[3] ^= 1;
    assert!(Decompressor::default().read(&other.into()).is_err());
    assert!(Decompressor::default().read(&Bytes::from_static(&[0x78, 0x9c])).is_err());
    let long = "x".repeat(MOST);
    assert!(Decompressor::default().read(&packed(&[("a", &long)], true)).is_err());
}

proptest! {
    #[test]
    fn no_bytes_make_it_panic(frames in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..200), 1..4)) {
        let mut reader = Decompressor::default();
        for (number, frame) in frames.into_iter().enumerate() {
            let mut bytes = BytesMut::new();
            if number == 0 {
                bytes.put_slice(&PREAMBLE);
                bytes.put_u32(CHECKSUM);
            }
            bytes.put_slice(&frame);
            if reader.read(&bytes.freeze()).is_err() {
                break;
            }
        }
    }

    #[test]
    fn no_block_of_headers_makes_it_panic(block in prop::collection::vec(any::<u8>(), 0..100)) {
        let _ = Headers::parse(&block);
    }
}
