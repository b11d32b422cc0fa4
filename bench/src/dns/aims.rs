//! What the DNS server aims at beside its peers.

use super::candidate::Candidate;
use super::candidate::Candidate::{Knot, Unbound};
use super::workload::Workload;
use super::workload::Workload::{DnsperfStreams, Forwarded, Latency, Mix, Names, Streams};
use crate::compare::aims::Aim;
use crate::compare::aims::Beside::{Load, Nothing, Peer};
use crate::compare::aims::Limit::{AtLeast, AtMost};
use crate::compare::question::Question::{CpuPerMillion, MibWithNames, P99Micros, PerSecond, UserPerMillion};

pub(crate) fn all() -> Vec<Aim<Workload, Candidate>> {
    vec![
        Aim::new("questions a second by UDP", &[Names], PerSecond, Peer(Knot), AtLeast(1.25)),
        Aim::new("CPU per question by UDP", &[Names], CpuPerMillion, Peer(Knot), AtMost(0.8)),
        Aim::new("user CPU s per million by UDP", &[Names], UserPerMillion, Nothing, AtMost(0.35)),
        Aim::new("p99 at 40,000 a second", &[Latency], P99Micros, Peer(Knot), AtMost(1.0)),
        Aim::new("wildcards and absence a second", &[Mix], PerSecond, Load(Names), AtLeast(0.9)),
        Aim::new("questions a second by TCP", &[Streams], PerSecond, Peer(Knot), AtLeast(5.0)),
        Aim::new(
            "questions a second by TCP, dnsperf",
            &[DnsperfStreams],
            PerSecond,
            Peer(Knot),
            AtLeast(2.5),
        ),
        Aim::new("forwarded questions a second", &[Forwarded], PerSecond, Peer(Unbound), AtLeast(1.4)),
        Aim::new("MiB with 10,000 names", &[Names], MibWithNames, Nothing, AtMost(30.0)),
    ]
}
