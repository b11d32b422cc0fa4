use std::net::SocketAddr;

use proptest::prelude::*;

use super::*;

fn address(text: &str) -> SocketAddr {
    text.parse().unwrap()
}

fn header(addresses: Option<(&str, &str)>, length: usize) -> Parsed {
    Parsed::Header(Header { addresses: addresses.map(|(from, to)| (address(from), address(to))), length })
}

fn v2(command: u8, family: u8, body: &[u8]) -> Vec<u8> {
    let mut header = v2::SIGNATURE.to_vec();
    header.extend([command, family]);
    header.extend((body.len() as u16).to_be_bytes());
    header.extend(body);
    header
}

const INET: &[u8] = &[192, 0, 2, 1, 198, 51, 100, 7, 0x12, 0x34, 0x01, 0xbb];

/// A TCP4 header with a checksum TLV behind another TLV; the checksum is `Some` or the right one.
fn with_checksum(checksum: Option<u32>) -> Vec<u8> {
    let mut bytes = v2(0x21, 0x11, &[INET, b"\x05\x00\x02id\x03\x00\x04\x00\x00\x00\x00"].concat());
    let at = bytes.len() - 4;
    let checksum = checksum.unwrap_or_else(|| checksum::with_zeroed_field(&bytes, at));
    bytes[at..].copy_from_slice(&checksum.to_be_bytes());
    bytes
}

#[test]
fn reads_text_headers() {
    for (line, addresses) in [
        ("PROXY TCP4 192.0.2.1 198.51.100.7 56324 443\r\n", Some(("192.0.2.1:56324", "198.51.100.7:443"))),
        ("PROXY TCP4 255.255.255.255 0.0.0.0 65535 0\r\n", Some(("255.255.255.255:65535", "0.0.0.0:0"))),
        ("PROXY TCP6 2001:DB8::1 ::1 1 2\r\n", Some(("[2001:db8::1]:1", "[::1]:2"))),
        ("PROXY UNKNOWN\r\n", None),
        ("PROXY UNKNOWN ffff::1 whatever  it \u{fc} wants\r\n", None),
    ] {
        assert_eq!(parse(line.as_bytes()), header(addresses, line.len()), "{line:?}");
        let followed = [line.as_bytes(), b"GET / HTTP/1.1\r\n"].concat();
        assert_eq!(parse(&followed), header(addresses, line.len()), "{line:?} and more");
    }
}

#[test]
fn refuses_broken_text_headers() {
    for line in [
        "PROXY \r\n",
        "PROXY TCP4\r\n",
        "PROXY UDP4 192.0.2.1 192.0.2.2 1 2\r\n",
        "PROXY UNKNOWNS\r\n",
        "PROXY tcp4 192.0.2.1 192.0.2.2 1 2\r\n",
        "PROXY TCP4 192.0.2.1 192.0.2.2 1\r\n",
        "PROXY TCP4 192.0.2.1 192.0.2.2 1 2 \r\n",
        "PROXY TCP4 192.0.2.1 192.0.2.2 1 2 3\r\n",
        "PROXY TCP4  192.0.2.1 192.0.2.2 1 2\r\n",
        "PROXY TCP4 192.0.2.1 192.0.2.2 1 65536\r\n",
        "PROXY TCP4 192.0.2.1 192.0.2.2 +1 2\r\n",
        "PROXY TCP4 192.0.2.1 192.0.2.2 01 2\r\n",
        "PROXY TCP4 192.0.2.1 192.0.2.2 1 -2\r\n",
        "PROXY TCP4 192.0.2.01 192.0.2.2 1 2\r\n",
        "PROXY TCP4 192.0.2.256 192.0.2.2 1 2\r\n",
        "PROXY TCP4 ::1 ::1 1 2\r\n",
        "PROXY TCP6 192.0.2.1 192.0.2.2 1 2\r\n",
        "PROXY TCP6 fe80::1%eth0 ::1 1 2\r\n",
        "PROXY TCP4 192.0.2.1 192.0.2.2 1 2\n",
        "PROXY TCP4 192.0.2.1 192.0.2.2 1 2\r\r\n",
    ] {
        assert!(matches!(parse(line.as_bytes()), Parsed::Invalid(_)), "{line:?}");
    }
    assert!(matches!(parse(b"PROXY TCP4 \xff\xfe\r\n"), Parsed::Invalid(_)));
}

#[test]
fn bounds_the_text_line() {
    let longest = format!("PROXY UNKNOWN {}\r\n", "x".repeat(91));
    assert_eq!(longest.len(), 107);
    assert_eq!(parse(longest.as_bytes()), header(None, 107));
    let endless = b"PROXY UNKNOWN ".iter().copied().chain(std::iter::repeat_n(b'x', 200)).collect::<Vec<_>>();
    assert_eq!(parse(&endless[..106]), Parsed::NeedMore);
    assert!(matches!(parse(&endless[..107]), Parsed::Invalid(_)));
    assert!(matches!(parse(format!("PROXY UNKNOWN {}\r\n", "x".repeat(92)).as_bytes()), Parsed::Invalid(_)));
}

#[test]
fn reads_binary_headers() {
    let inet6 = [&[0x20; 16][..], &[0xfd; 16], &[0, 1, 0, 2]].concat();
    let from6 = "[2020:2020:2020:2020:2020:2020:2020:2020]:1";
    let to6 = "[fdfd:fdfd:fdfd:fdfd:fdfd:fdfd:fdfd:fdfd]:2";
    let tlvs = [INET, b"\x01\x00\x02h2\x04\x00\x00\xee\x00\x01x"].concat();
    let v4 = Some(("192.0.2.1:4660", "198.51.100.7:443"));
    for (case, bytes, addresses) in [
        ("TCP over IPv4", v2(0x21, 0x11, INET), v4),
        ("UDP over IPv4", v2(0x21, 0x12, INET), v4),
        ("TCP over IPv6", v2(0x21, 0x21, &inet6), Some((from6, to6))),
        ("UDP over IPv6", v2(0x21, 0x22, &inet6), Some((from6, to6))),
        ("Unix socket", v2(0x21, 0x31, &[b'/'; 216]), None),
        ("unspecified", v2(0x21, 0x00, b""), None),
        ("unspecified with contents", v2(0x21, 0x00, b"abc"), None),
        ("local", v2(0x20, 0x00, b""), None),
        ("local with contents", v2(0x20, 0x11, INET), None),
        ("local of a strange family", v2(0x20, 0xff, b"abc"), None),
        ("TLVs", v2(0x21, 0x11, &tlvs), v4),
        ("checksum", with_checksum(None), v4),
        ("the longest", v2(0x21, 0x11, &[INET, &[4, 0x0f, 0xe1], &vec![0; 4065]].concat()), v4),
    ] {
        assert_eq!(parse(&bytes), header(addresses, bytes.len()), "{case}");
        let followed = [&bytes[..], b"\x16\x03\x01"].concat();
        assert_eq!(parse(&followed), header(addresses, bytes.len()), "{case} and more");
        for end in 0..bytes.len() {
            assert_eq!(parse(&bytes[..end]), Parsed::NeedMore, "{case} cut at {end}");
        }
    }
}

#[test]
fn refuses_broken_binary_headers() {
    for (case, bytes) in [
        ("version 1", v2(0x11, 0x11, INET)),
        ("version 3", v2(0x31, 0x11, INET)),
        ("unknown command", v2(0x22, 0x11, INET)),
        ("unknown family", v2(0x21, 0x41, INET)),
        ("unknown protocol", v2(0x21, 0x13, INET)),
        ("family without protocol", v2(0x21, 0x10, INET)),
        ("short IPv4", v2(0x21, 0x11, &INET[..11])),
        ("short IPv6", v2(0x21, 0x21, &[0; 35])),
        ("short Unix", v2(0x21, 0x31, &[0; 215])),
        ("TLV cut in its head", v2(0x21, 0x11, &[INET, &[4, 0]].concat())),
        ("TLV past the end", v2(0x21, 0x11, &[INET, &[4, 0, 2, 0]].concat())),
        ("wrong checksum", with_checksum(Some(1))),
        ("short checksum", v2(0x21, 0x11, &[INET, &[3, 0, 3, 0, 0, 0]].concat())),
    ] {
        assert!(matches!(parse(&bytes), Parsed::Invalid(_)), "{case}");
    }
    let long = v2(0x21, 0x11, &[INET, &[4, 0x0f, 0xe2], &vec![0; 4066]].concat());
    assert!(matches!(parse(&long[..16]), Parsed::Invalid(_)), "refused as soon as the length is known");
    assert!(matches!(parse(&v2(0x11, 0, b"")[..13]), Parsed::Invalid(_)), "refused at the version");
}

#[test]
fn knows_the_absence_of_a_header_by_the_first_odd_byte() {
    for bytes in [
        &b"G"[..],
        b"\x16",
        b"PO",
        b"PROXY\t",
        b"PROXYT",
        b"PRI",
        b"\r\n\r\n\r",
        b"\r\n\r\n\0\r\nQUIT\r",
        b"\0",
    ] {
        assert_eq!(parse(bytes), Parsed::Absent, "{bytes:?}");
        assert_eq!(parse(&bytes[..bytes.len() - 1]), Parsed::NeedMore);
    }
}

#[test]
fn writes_the_headers_of_the_specification() {
    let (from, to) = (address("192.0.2.1:56324"), address("198.51.100.7:443"));
    assert_eq!(encode_v1(from, to), b"PROXY TCP4 192.0.2.1 198.51.100.7 56324 443\r\n");
    let wanted = [v2::SIGNATURE, b"\x21\x11\0\x0c\xc0\0\x02\x01\xc6\x33\x64\x07\xdc\x04\x01\xbb"].concat();
    assert_eq!(encode_v2(from, to), wanted);
    let (from, to) = (address("[2001:db8::1]:1"), address("[::1]:2"));
    assert_eq!(encode_v1(from, to), b"PROXY TCP6 2001:db8::1 ::1 1 2\r\n");
}

#[test]
fn writes_one_family_for_mapped_and_mixed_addresses() {
    for (from, to, wanted_from, wanted_to) in [
        ("[::ffff:192.0.2.1]:1", "[::ffff:192.0.2.2]:2", "192.0.2.1:1", "192.0.2.2:2"),
        ("[::ffff:192.0.2.1]:1", "192.0.2.2:2", "192.0.2.1:1", "192.0.2.2:2"),
        ("192.0.2.1:1", "[2001:db8::2]:2", "[::ffff:192.0.2.1]:1", "[2001:db8::2]:2"),
        ("[fe80::1%3]:1", "[fe80::2%3]:2", "[fe80::1]:1", "[fe80::2]:2"),
    ] {
        for encode in [encode_v1, encode_v2] {
            let bytes = encode(address(from), address(to));
            assert_eq!(parse(&bytes), header(Some((wanted_from, wanted_to)), bytes.len()), "{from} {to}");
        }
    }
}

proptest! {
    #[test]
    fn headers_survive_the_round_trip(from: SocketAddr, to: SocketAddr, rest: Vec<u8>) {
        for encode in [encode_v1, encode_v2] {
            let bytes = encode(from, to);
            for end in 0..bytes.len() {
                prop_assert_eq!(parse(&bytes[..end]), Parsed::NeedMore, "cut at {}", end);
            }
            let Parsed::Header(header) = parse(&[&bytes[..], &rest].concat()) else {
                return Err(TestCaseError::fail("no header"));
            };
            prop_assert_eq!(header.length, bytes.len());
            let (source, destination) = header.addresses.unwrap();
            prop_assert_eq!(source.ip().to_canonical(), from.ip().to_canonical());
            prop_assert_eq!(destination.ip().to_canonical(), to.ip().to_canonical());
            prop_assert_eq!((source.port(), destination.port()), (from.port(), to.port()));
        }
    }

    #[test]
    fn any_bytes_are_judged_once_and_for_all(rubbish: Vec<u8>, command: u8, family: u8) {
        let body = &rubbish[..rubbish.len().min(400)];
        for bytes in [
            rubbish.clone(),
            [v1::SIGNATURE, &rubbish].concat(),
            [v2::SIGNATURE, &rubbish].concat(),
            v2(command, family, body),
            v2(0x21, 0x11, body),
        ] {
            let whole = parse(&bytes);
            if let Parsed::Header(header) = &whole {
                prop_assert!(header.length <= bytes.len() && header.length <= LIMIT);
            }
            for end in 0..bytes.len() {
                let part = parse(&bytes[..end]);
                prop_assert!(part == Parsed::NeedMore || part == whole, "{part:?} then {whole:?}");
            }
        }
    }
}
