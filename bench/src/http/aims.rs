//! What our gateway aims at, row by row: the processor time of a request beside the best peer of each row.

use super::candidate::Candidate;
use super::candidate::Candidate::{Envoy, Haproxy, Nginx};
use super::workload::Workload;
use super::workload::Workload::{
    Bodies, Certificates, Grpc, Handshakes, Http, Http2, Https, Idle, Paced, Resumed, Routes,
};
use crate::compare::aims::Aim;
use crate::compare::aims::Beside::{Nothing, Peer};
use crate::compare::aims::Limit::AtMost;
use crate::compare::question::Question::{CpuPer100k, KibPerConnection, MibBeyond, ReadyMillis};

pub(crate) fn all() -> Vec<Aim<Workload, Candidate>> {
    let cpu = |what, row, peer, limit| Aim::new(what, row, CpuPer100k, Peer(peer), AtMost(limit));
    let own = |what, row, question, limit| Aim::new(what, row, question, Nothing, AtMost(limit));
    vec![
        cpu("1 CPU per request, HTTP/1.1", &[Http], Nginx, 1.0),
        cpu("2 CPU per request, HTTPS", &[Https], Nginx, 0.97),
        cpu("3 CPU per request, HTTP/2", &[Http2], Nginx, 1.0),
        cpu("4a CPU per full handshake", &[Handshakes], Envoy, 0.8),
        cpu("4b CPU per resumed handshake", &[Resumed], Envoy, 0.8),
        cpu("5 CPU per body of 16 KiB", &[Bodies], Nginx, 0.9),
        cpu("6 CPU per message, gRPC", &[Grpc], Haproxy, 0.75),
        cpu("7 CPU per handshake, 5,000 certificates", &[Certificates], Envoy, 0.75),
        own("7 start with 5,000 certificates, ms", &[Certificates], ReadyMillis, 500.0),
        own("7 MiB of 5,000 certificates", &[Certificates], MibBeyond, 30.0),
        cpu("8 CPU per request, 10,000 routes", &[Routes], Nginx, 0.9),
        own("8 start with 10,000 routes, ms", &[Routes], ReadyMillis, 300.0),
        own("8 MiB of 10,000 routes", &[Routes], MibBeyond, 30.0),
        own("9 KiB per idle HTTPS connection", &[Idle], KibPerConnection, 18.0),
        cpu("10 CPU per request at 5,000 a second", &[Paced], Nginx, 1.0),
    ]
}
