//! Active health checks. TLS is asked with a ClientHello as a payload, so that no certificate is looked at.

use causeway_ir::{HealthCheck, HealthCheckKind};
use envoy_types::pb::envoy::config::core::v3 as core;
use envoy_types::pb::envoy::config::core::v3::health_check::{
    HealthChecker, Payload, TcpHealthCheck, payload,
};

use super::{duration, number};

/// The start of a record with a handshake, whatever the version: a ServerHello, or the wish for another key share.
const HANDSHAKE: &[u8] = &[22, 3];

pub fn build(check: &HealthCheck) -> core::HealthCheck {
    let tcp = match check.kind {
        HealthCheckKind::Tcp => TcpHealthCheck::default(),
        HealthCheckKind::Tls => TcpHealthCheck {
            send: Some(text(&hello())),
            receive: vec![text(HANDSHAKE)],
            ..TcpHealthCheck::default()
        },
    };
    core::HealthCheck {
        timeout: Some(duration(check.timeout)),
        interval: Some(duration(check.interval)),
        // Envoy asks idle clusters once a minute if it is not told otherwise.
        no_traffic_interval: Some(duration(check.interval)),
        unhealthy_threshold: Some(number(check.unhealthy_after)),
        healthy_threshold: Some(number(check.healthy_after)),
        health_checker: Some(HealthChecker::TcpHealthCheck(tcp)),
        ..core::HealthCheck::default()
    }
}

/// Bytes as Envoy's payloads want them: hexadecimal.
fn text(bytes: &[u8]) -> Payload {
    let digit = |value: u8| char::from(b"0123456789abcdef"[usize::from(value & 15)]);
    let hex = bytes.iter().flat_map(|byte| [digit(byte >> 4), digit(*byte)]).collect();
    Payload { payload: Some(payload::Payload::Text(hex)) }
}

/// A ClientHello for TLS 1.2 and 1.3 that offers no key share: the server may choose everything.
fn hello() -> Vec<u8> {
    const CIPHERS: [u16; 9] = [0x1301, 0x1302, 0x1303, 0xc02b, 0xc02f, 0xc02c, 0xc030, 0xcca9, 0xcca8];
    let sized = |body: Vec<u8>| [(body.len() as u16).to_be_bytes().to_vec(), body].concat();
    let extension = |kind: u16, body: &[u8]| [kind.to_be_bytes().to_vec(), sized(body.to_vec())].concat();
    let extensions = [
        extension(10, &[0, 6, 0, 29, 0, 23, 0, 24]), // groups: x25519, P-256, P-384
        extension(11, &[1, 0]),                      // uncompressed points
        extension(13, &[0, 14, 4, 3, 5, 3, 6, 3, 8, 4, 8, 5, 8, 6, 8, 7]), // signatures
        extension(43, &[4, 3, 4, 3, 3]),             // versions: 1.3, 1.2
        extension(51, &[0, 0]),                      // key shares: none
    ];
    let body = [
        vec![3, 3],
        vec![0x5a; 32], // the random: nothing is ever encrypted with it
        vec![0],        // no session
        sized(CIPHERS.iter().flat_map(|cipher| cipher.to_be_bytes()).collect()),
        vec![1, 0], // no compression
        sized(extensions.concat()),
    ];
    let message = [vec![1, 0], sized(body.concat())].concat();
    [vec![22, 3, 1], sized(message)].concat()
}
