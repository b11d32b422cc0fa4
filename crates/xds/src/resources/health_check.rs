//! Active health checks. TLS is asked with a ClientHello as a payload, so that no certificate is looked at.

use causeway_ir::{HealthCheck, HealthCheckKind, probe_hello};
use envoy_types::pb::envoy::config::core::v3 as core;
use envoy_types::pb::envoy::config::core::v3::health_check::{
    HealthChecker, Payload, TcpHealthCheck, payload,
};

use super::{number, period};

pub(super) fn build(check: &HealthCheck) -> core::HealthCheck {
    let tcp = match check.kind {
        HealthCheckKind::Tcp => TcpHealthCheck::default(),
        HealthCheckKind::Tls => TcpHealthCheck {
            send: Some(text(&probe_hello::bytes(check.server_name.as_deref()))),
            receive: vec![text(probe_hello::ANSWER)],
            ..TcpHealthCheck::default()
        },
    };
    core::HealthCheck {
        timeout: Some(period(check.timeout)),
        interval: Some(period(check.interval)),
        // Envoy asks idle clusters once a minute if it is not told otherwise.
        no_traffic_interval: Some(period(check.interval)),
        unhealthy_threshold: Some(number(check.unhealthy_after.get())),
        healthy_threshold: Some(number(check.healthy_after.get())),
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
