//! What the engine aims at beside its peers.

use super::candidate::Candidate;
use super::candidate::Candidate::{Envoy, HaproxyAuto, HaproxySplice, Nginx};
use super::workload::Workload;
use super::workload::Workload::{
    Connections, ConnectionsPlain, Idle, IdleUsed, Names5000, Names100000, Pings,
};
use crate::compare::aims::Aim;
use crate::compare::aims::Beside::{Best, Load, Nothing, Peer};
use crate::compare::aims::Limit::{AtLeast, AtMost};
use crate::compare::question::Question::{
    BytesPerConnection, CpuPer10k, CpuPerGib, GbitPerSecond, Kept, MibWithNames, P99Millis, PerSecond,
    WholePerGib,
};

pub(crate) fn all() -> Vec<Aim<Workload, Candidate>> {
    const BULK: &[Workload] = &Workload::BULK;
    const NEW: &[Workload] = &[Connections, ConnectionsPlain];
    vec![
        Aim::new("SNI connections per second", &[Connections], PerSecond, Peer(Nginx), AtLeast(1.02)),
        Aim::new("CPU per SNI connection", &[Connections], CpuPer10k, Peer(Nginx), AtMost(0.95)),
        Aim::new("plain connections per second", &[ConnectionsPlain], PerSecond, Peer(Nginx), AtLeast(1.0)),
        Aim::new("CPU per new connection", NEW, CpuPer10k, Peer(HaproxySplice), AtMost(1.0)),
        Aim::new("CPU per new connection", NEW, CpuPer10k, Peer(HaproxyAuto), AtMost(1.0)),
        Aim::new("CPU per new connection", NEW, CpuPer10k, Peer(Envoy), AtMost(0.5)),
        Aim::new("CPU per GiB", BULK, CpuPerGib, Peer(HaproxySplice), AtMost(1.0)),
        Aim::new("CPU per GiB", BULK, CpuPerGib, Peer(Envoy), AtMost(0.4)),
        Aim::new("CPU of the whole run per GiB", BULK, WholePerGib, Best, AtMost(1.0)),
        Aim::new("bulk throughput", BULK, GbitPerSecond, Peer(HaproxySplice), AtLeast(1.0)),
        Aim::new("round trips per second", &[Pings], PerSecond, Best, AtLeast(1.0)),
        Aim::new("p99 of round trips", &[Pings], P99Millis, Best, AtMost(1.0)),
        Aim::new("bytes per idle connection", &[Idle, IdleUsed], BytesPerConnection, Nothing, AtMost(2560.0)),
        // What the allocator keeps is no leak.
        Aim::new("part kept after close", &[Idle, IdleUsed], Kept, Nothing, AtMost(0.25)),
        Aim::new("MiB with 5,000 names", &[Names5000], MibWithNames, Nothing, AtMost(10.0)),
        Aim::new("rate with 100,000 names", &[Names100000], PerSecond, Load(Connections), AtLeast(0.95)),
        Aim::new("CPU with 100,000 names", &[Names100000], CpuPer10k, Load(Connections), AtMost(1.05)),
    ]
}
