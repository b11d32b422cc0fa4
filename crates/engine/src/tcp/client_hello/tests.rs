use std::sync::Arc;

use proptest::prelude::*;
use rustls::crypto::aws_lc_rs;
use rustls::pki_types::ServerName;
use rustls::server::Acceptor;
use rustls::{ClientConfig, ClientConnection, RootCertStore, SupportedProtocolVersion};

use super::*;

const TLS12: &[&SupportedProtocolVersion] = &[&rustls::version::TLS12];
const TLS13: &[&SupportedProtocolVersion] = &[&rustls::version::TLS13];

/// What rustls' client sends first.
fn rustls_hello(
    versions: &[&'static SupportedProtocolVersion],
    post_quantum: bool,
    server: &str,
    alpn: &[&[u8]],
) -> Vec<u8> {
    let mut provider = aws_lc_rs::default_provider();
    provider.kx_groups = if post_quantum {
        vec![aws_lc_rs::kx_group::X25519MLKEM768]
    } else {
        vec![aws_lc_rs::kx_group::X25519]
    };
    let mut config = ClientConfig::builder_with_provider(Arc::new(provider))
        .with_protocol_versions(versions)
        .unwrap()
        .with_root_certificates(RootCertStore::empty())
        .with_no_client_auth();
    config.alpn_protocols = alpn.iter().map(|protocol| protocol.to_vec()).collect();
    let server = ServerName::try_from(server.to_owned()).unwrap();
    let mut client = ClientConnection::new(Arc::new(config), server).unwrap();
    let mut wire = Vec::new();
    client.write_tls(&mut wire).unwrap();
    wire
}

/// The name that rustls' acceptor reads, or why it does not accept the hello.
fn accepted_name(mut wire: &[u8]) -> Result<Option<String>, String> {
    let mut acceptor = Acceptor::default();
    while !wire.is_empty() {
        acceptor.read_tls(&mut wire).map_err(|error| error.to_string())?;
        if let Some(accepted) = acceptor.accept().map_err(|(error, _)| error.to_string())? {
            return Ok(accepted.client_hello().server_name().map(str::to_owned));
        }
    }
    Err("incomplete".to_owned())
}

/// The handshake bytes of a hello that lies in whole records.
fn message_of(mut wire: &[u8]) -> Vec<u8> {
    let mut message = Vec::new();
    while let Some((header, rest)) = wire.split_first_chunk::<5>() {
        let (payload, rest) = rest.split_at(usize::from(u16::from_be_bytes([header[3], header[4]])));
        message.extend(payload);
        wire = rest;
    }
    message
}

fn record(payload: &[u8]) -> Vec<u8> {
    let mut record = vec![22, 3, 1];
    record.extend((payload.len() as u16).to_be_bytes());
    record.extend(payload);
    record
}

/// The message in records of the sizes given, in turn; what is left goes into records of the greatest size.
fn in_records(mut message: &[u8], sizes: &[usize]) -> Vec<u8> {
    let mut sizes = sizes.iter().copied();
    let mut wire = Vec::new();
    while !message.is_empty() {
        let (payload, rest) = message.split_at(sizes.next().unwrap_or(1 << 14).min(message.len()));
        wire.extend(record(payload));
        message = rest;
    }
    wire
}

/// A ClientHello message made by hand.
fn message(extensions: Option<&[u8]>) -> Vec<u8> {
    let mut body = vec![3, 3];
    body.extend([7; 32]);
    body.extend([0, 0, 4, 0x0a, 0x0a, 0x13, 0x01, 1, 0]);
    if let Some(extensions) = extensions {
        body.extend((extensions.len() as u16).to_be_bytes());
        body.extend(extensions);
    }
    let mut message = vec![1];
    message.extend(&(body.len() as u32).to_be_bytes()[1..]);
    message.extend(body);
    message
}

fn extension(kind: u16, content: &[u8]) -> Vec<u8> {
    let mut extension = kind.to_be_bytes().to_vec();
    extension.extend((content.len() as u16).to_be_bytes());
    extension.extend(content);
    extension
}

fn server_names(names: &[(u8, &[u8])]) -> Vec<u8> {
    let list: Vec<u8> = names
        .iter()
        .flat_map(|(kind, name)| [&[*kind][..], &(name.len() as u16).to_be_bytes(), name].concat())
        .collect();
    extension(0, &[&(list.len() as u16).to_be_bytes()[..], &list].concat())
}

fn parse_extensions(extensions: &[Vec<u8>]) -> Parsed {
    parse(&record(&message(Some(&extensions.concat()))))
}

fn hello(server_name: Option<&str>) -> Parsed {
    Parsed::Hello(Hello { server_name: server_name.map(Into::into) })
}

/// Hellos of every kind that rustls can make, with the answer they must get.
fn real_hellos() -> Vec<(&'static str, Vec<u8>, Parsed)> {
    let web: &[&[u8]] = &[b"h2", b"http/1.1"];
    let both = &[&rustls::version::TLS13, &rustls::version::TLS12];
    vec![
        ("TLS 1.2", rustls_hello(TLS12, false, "a.Example.com", &[]), hello(Some("a.example.com"))),
        ("TLS 1.3", rustls_hello(TLS13, false, "b.example.com", web), hello(Some("b.example.com"))),
        ("both", rustls_hello(both, false, "c.example.com.", web), hello(Some("c.example.com"))),
        ("ML-KEM", rustls_hello(TLS13, true, "d.example.com", web), hello(Some("d.example.com"))),
        ("no name", rustls_hello(both, true, "192.0.2.1", &[]), hello(None)),
        ("no name, ALPN", rustls_hello(TLS12, false, "::1", web), hello(None)),
    ]
}

#[test]
fn reads_hellos_of_rustls_as_its_acceptor_does() {
    for (kind, wire, wanted) in real_hellos() {
        let parsed = parse(&wire);
        assert_eq!(parsed, wanted, "{kind}");
        let Parsed::Hello(hello) = parsed else { unreachable!() };
        assert_eq!(accepted_name(&wire), Ok(hello.server_name.map(|name| name.to_string())), "{kind}");
    }
    let (_, post_quantum, _) = &real_hellos()[3];
    assert!(post_quantum.len() > 1200, "a post-quantum hello does not fit one segment");
}

#[test]
fn reads_recorded_hellos_of_openssl() {
    for (wire, wanted) in [
        (
            &include_bytes!("../../../fuzz/seeds/client_hello/openssl-tls10")[..],
            hello(Some("old.example.com")),
        ),
        (
            include_bytes!("../../../fuzz/seeds/client_hello/openssl-tls12"),
            hello(Some("openssl.example.com")),
        ),
        (
            include_bytes!("../../../fuzz/seeds/client_hello/openssl-tls13"),
            hello(Some("openssl.example.com")),
        ),
        (include_bytes!("../../../fuzz/seeds/client_hello/openssl-no-name"), hello(None)),
    ] {
        assert_eq!(parse(wire), wanted);
    }
}

#[test]
fn answers_at_the_last_byte_and_not_before() {
    for (kind, mut wire, wanted) in real_hellos() {
        let mut trickled = Parser::default();
        for end in 0..wire.len() {
            assert_eq!(parse(&wire[..end]), Parsed::NeedMore, "{kind} cut at {end}");
            assert_eq!(trickled.parse(&wire[..end]), Parsed::NeedMore, "{kind} cut at {end}");
        }
        assert_eq!(trickled.parse(&wire), wanted, "{kind}");
        wire.extend(b"\x17\x03\x03\x00\x01early data");
        assert_eq!(parse(&wire), wanted, "{kind} with bytes after it");
    }
}

#[test]
fn reads_a_hello_cut_into_two_records_anywhere() {
    for (kind, wire, wanted) in real_hellos() {
        let message = message_of(&wire);
        for cut in 1..message.len() {
            assert_eq!(parse(&in_records(&message, &[cut])), wanted, "{kind} cut at {cut}");
        }
        assert_eq!(parse(&in_records(&message, &vec![1; message.len()])), wanted, "{kind} byte by byte");
    }
}

#[test]
fn answers_before_a_long_record_ends() {
    let mut payload = message(None);
    payload.extend([0; 100]);
    let wire = record(&payload);
    assert_eq!(parse(&wire[..wire.len() - 100]), hello(None));
}

#[test]
fn knows_other_protocols_by_their_first_bytes() {
    for bytes in [
        &b"G"[..],
        b"GET / HTTP/1.1\r\n\r\n",
        b"SSH-2.0-OpenSSH_9.2\r\n",
        b"PRI * HTTP/2.0\r\n",
        b"\x80\x2e\x01\x00\x02",
        b"\x00",
        b"\x15\x03\x01\x00\x02\x02\x28",
        b"\x14",
        b"\x17",
        b"\x16\x02",
        b"\x16\x04\x00",
        b"\xff",
    ] {
        assert_eq!(parse(bytes), Parsed::NotTls, "{bytes:x?}");
    }
    for bytes in
        [&b""[..], b"\x16", b"\x16\x03", b"\x16\x03\x00", b"\x16\x03\x04\x00", b"\x16\x03\x01\x02\x00"]
    {
        assert_eq!(parse(bytes), Parsed::NeedMore, "{bytes:x?}");
    }
}

#[test]
fn refuses_broken_records_at_the_first_wrong_byte() {
    for (bytes, wanted) in [
        (&b"\x16\x03\x01\x40\x01"[..], "a TLS record is longer than 16384 bytes"),
        (b"\x16\x03\x01\x00\x05\x02", "the first TLS message is not a ClientHello"),
        (b"\x16\x03\x01\x00\x04\x01\x01\x00\x00", "the ClientHello is longer than 64 KiB"),
        (b"\x16\x03\x01\x00\x01\x01\x17", "the ClientHello is interrupted by a record of another type"),
        (
            b"\x16\x03\x01\x00\x01\x01\x16\x02",
            "the ClientHello is interrupted by bytes that are not a TLS record",
        ),
    ] {
        assert_eq!(parse(bytes), Parsed::Invalid(wanted));
        assert_eq!(parse(&bytes[..bytes.len() - 1]), Parsed::NeedMore);
    }
}

#[test]
fn forgives_a_few_empty_records_but_not_a_flood() {
    let empty = record(b"");
    let message = message(Some(&server_names(&[(0, b"a.example")])));
    let wire = [empty.repeat(EMPTY_RECORDS - 1), record(&message[..2]), empty.clone(), record(&message[2..])];
    assert_eq!(parse(&wire.concat()), hello(Some("a.example")));

    let flood = empty.repeat(EMPTY_RECORDS + 1);
    assert_eq!(parse(&flood), Parsed::Invalid("too many empty TLS records"));
    let mut trickled = Parser::default();
    for end in 0..flood.len() {
        assert_eq!(trickled.parse(&flood[..end]), Parsed::NeedMore, "cut at {end}");
    }
    assert_eq!(trickled.parse(&flood), Parsed::Invalid("too many empty TLS records"));
}

#[test]
fn reads_hellos_up_to_the_limit_and_no_further() {
    let name = server_names(&[(0, b"big.example")]);
    let fixed = message(Some(&name)).len();
    let padded =
        |length: usize| message(Some(&[extension(21, &vec![0; length - fixed - 4]), name.clone()].concat()));
    assert_eq!(parse(&in_records(&padded(LIMIT), &[])), hello(Some("big.example")));
    let long = in_records(&padded(LIMIT + 1), &[]);
    assert_eq!(parse(&long[..9]), Parsed::Invalid("the ClientHello is longer than 64 KiB"));

    let crumbs = in_records(&padded(LIMIT), &vec![4; LIMIT]);
    assert_eq!(parse(&crumbs[..WIRE_LIMIT - 1]), Parsed::NeedMore);
    for end in [WIRE_LIMIT, crumbs.len()] {
        assert_eq!(
            parse(&crumbs[..end]),
            Parsed::Invalid("the ClientHello is spread over too many records"),
            "cut at {end}"
        );
    }
}

#[test]
fn a_trickling_hello_of_crumbs_costs_linear_time() {
    // Some 70,000 calls: quadratic work would visit hundreds of millions of records and be felt.
    let crumbs = in_records(&[&[1, 0, 0xff, 0xf0][..], &vec![0; 0xfff0]].concat(), &vec![1; LIMIT]);
    let mut parser = Parser::default();
    for end in 0..WIRE_LIMIT {
        assert_eq!(parser.parse(&crumbs[..end]), Parsed::NeedMore);
    }
    assert!(matches!(parser.parse(&crumbs), Parsed::Invalid(_)));
    assert!(parser.next > WIRE_LIMIT - 12, "whole records are not looked at again");
}

#[test]
fn reads_hellos_without_extensions() {
    assert_eq!(parse(&record(&message(None))), hello(None));
    assert_eq!(parse(&record(&message(Some(&[])))), hello(None));
}

#[test]
fn takes_the_outer_name_and_ignores_what_it_does_not_know() {
    let parsed = parse_extensions(&[
        extension(0x1a1a, &[]),
        extension(0xfe0d, &[0; 200]),
        server_names(&[(0, b"Outer.Example.")]),
        extension(16, b"\x00\x0c\x02\x5a\x5a\x08http/1.1"),
        extension(0x2a2a, &[0]),
    ]);
    assert_eq!(parsed, hello(Some("outer.example")));
}

#[test]
fn takes_the_first_host_name_of_the_list() {
    for (names, wanted) in [
        (&[(0, &b"a.example"[..]), (0, b"b.example")][..], Some("a.example")),
        (&[(9, b"whatever"), (0, b"b.example")], Some("b.example")),
        (&[(9, b"")], None),
        (&[(0, b"192.0.2.7")], None),
        (&[(0, b"2001:db8::1")], None),
    ] {
        assert_eq!(parse_extensions(&[server_names(names)]), hello(wanted), "{names:?}");
    }
}

#[test]
fn refuses_broken_extensions() {
    let name = server_names(&[(0, b"a.example")]);
    let alpn = extension(16, b"\x00\x03\x02h2");
    for (case, extensions) in [
        ("repeated name", vec![name.clone(), name.clone()]),
        ("repeated ALPN", vec![alpn.clone(), name.clone(), alpn]),
        ("no name content", vec![extension(0, &[])]),
        ("empty name list", vec![extension(0, &[0, 0])]),
        ("name list too short", vec![extension(0, b"\x00\x03\x00\x00\x01aa")]),
        ("name list too long", vec![extension(0, b"\x00\x05\x00\x00\x01a")]),
        ("name past its list", vec![extension(0, b"\x00\x04\x00\x00\x02a")]),
        ("empty name", vec![server_names(&[(0, b"")])]),
        ("wildcard name", vec![server_names(&[(0, b"*.example.com")])]),
        ("long name", vec![server_names(&[(0, &b"a.".repeat(200))])]),
        ("no ALPN content", vec![extension(16, &[])]),
        ("empty ALPN list", vec![extension(16, &[0, 0])]),
        ("empty protocol", vec![extension(16, b"\x00\x01\x00")]),
        ("protocol past its list", vec![extension(16, b"\x00\x03\x03h2")]),
        ("extension past the end", vec![name, vec![0, 50, 0, 1]]),
        ("extension cut", vec![vec![0, 50, 0]]),
    ] {
        assert!(matches!(parse_extensions(&extensions), Parsed::Invalid(_)), "{case}");
    }
}

#[test]
fn refuses_fields_that_do_not_fit() {
    let whole = message(Some(&server_names(&[(0, b"a.example")])));
    for (case, at, value) in [
        ("session id past the end", 38, 32),
        ("odd cipher suites", 40, 3),
        ("cipher suites past the end", 39, 1),
        ("compression past the end", 45, 200),
        ("extensions too long", 48, 200),
        ("extensions too short", 48, 1),
    ] {
        let mut broken = whole.clone();
        broken[at] = value;
        assert!(matches!(parse(&record(&broken)), Parsed::Invalid(_)), "{case}");
    }
}

#[test]
fn bounds_the_session_id() {
    for (length, accepted) in [(32, true), (33, false)] {
        let mut message = message(None);
        message[38] = length;
        message.splice(39..39, vec![0; usize::from(length)]);
        message[3] += length;
        assert_eq!(parse(&record(&message)) == hello(None), accepted, "{length} bytes");
    }
}

#[test]
fn the_alert_is_fatal_and_says_unrecognized_name() {
    let mut client = ClientConnection::new(
        Arc::new(
            ClientConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()))
                .with_safe_default_protocol_versions()
                .unwrap()
                .with_root_certificates(RootCertStore::empty())
                .with_no_client_auth(),
        ),
        ServerName::try_from("unknown.example").unwrap(),
    )
    .unwrap();
    client.read_tls(&mut &alert_unrecognized_name()[..]).unwrap();
    let error = client.process_new_packets().unwrap_err();
    assert_eq!(error, rustls::Error::AlertReceived(rustls::AlertDescription::UnrecognisedName));
}

/// Hellos with one byte changed here and there: nearly valid, which is where parsers part ways.
fn damaged_hello() -> impl Strategy<Value = Vec<u8>> {
    let hellos: Vec<_> = real_hellos().into_iter().map(|(_, wire, _)| wire).collect();
    let damage = prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..4);
    (prop::sample::select(hellos), damage).prop_map(|(mut wire, damage)| {
        for (at, value) in damage {
            let at = at.index(wire.len());
            wire[at] = value;
        }
        wire
    })
}

/// What must hold for any bytes whatever.
fn check_any(wire: &[u8]) -> Result<(), TestCaseError> {
    let whole = parse(wire);
    if let Ok(name) = accepted_name(wire) {
        let Parsed::Hello(hello) = &whole else {
            return Err(TestCaseError::fail(format!("rustls accepts {name:?}, we say {whole:?}")));
        };
        prop_assert_eq!(&hello.server_name, &name.map(|name| name.trim_end_matches('.').into()));
    }
    let mut trickled = Parser::default();
    let mut last = Parsed::NeedMore;
    for end in 0..=wire.len() {
        prop_assert!(last == Parsed::NeedMore || last == whole);
        if last == Parsed::NeedMore {
            last = trickled.parse(&wire[..end]);
        }
    }
    prop_assert_eq!(last, whole);
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn fragmentation_does_not_matter(
        index in 0..6_usize,
        records in prop::collection::vec(1..400_usize, 0..40),
        segments in prop::collection::vec(1..600_usize, 0..40),
    ) {
        let (kind, wire, wanted) = real_hellos().swap_remove(index);
        let wire = in_records(&message_of(&wire), &records);
        prop_assert_eq!(parse(&wire), wanted.clone(), "{}", kind);
        prop_assert!(accepted_name(&wire).is_ok());
        let mut parser = Parser::default();
        let mut end = 0;
        for segment in segments {
            end += segment;
            if end >= wire.len() {
                break;
            }
            prop_assert_eq!(parser.parse(&wire[..end]), Parsed::NeedMore);
        }
        prop_assert_eq!(parser.parse(&wire), wanted);
    }

    #[test]
    fn any_bytes_are_judged_once_and_for_all(wire in prop::collection::vec(any::<u8>(), 0..300)) {
        check_any(&wire)?;
        check_any(&record(&wire))?;
        check_any(&record(&message(Some(&wire))))?;
        check_any(&record(&message(Some(&extension(0, &wire)))))?;
        check_any(&record(&message(Some(&server_names(&[(0, &wire)])))))?;
    }

    #[test]
    fn damaged_hellos_are_judged_as_rustls_does(wire in damaged_hello()) {
        check_any(&wire)?;
    }
}
