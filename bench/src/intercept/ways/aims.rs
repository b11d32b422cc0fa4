//! What the ways aim at.

use super::candidate::Candidate;
use super::candidate::Candidate::{Link, Wireguard, WireguardGo, WireguardGoNetstack};
use super::workload::Workload;
use super::workload::Workload::{BadDown, BadUp, Down1, Down16, Up1, Up16};
use crate::compare::aims::Aim;
use crate::compare::aims::Beside::{Nothing, Peer};
use crate::compare::aims::Limit::{AtLeast, AtMost};
use crate::compare::question::Question::{CpuPerGib, GbitPerSecond, MbitPerSecond, StallMillis};

pub(crate) fn all() -> Vec<Aim<Workload, Candidate>> {
    const BULK: &[Workload] = &[Up1, Down1, Up16, Down16];
    const BAD: &[Workload] = &[BadUp, BadDown];
    vec![
        Aim::new("link: Gbit/s", BULK, GbitPerSecond, Nothing, AtLeast(12.0)),
        Aim::new("link: CPU s per GiB", BULK, CpuPerGib, Nothing, AtMost(1.2)),
        Aim::new("link: Gbit/s", BULK, GbitPerSecond, Peer(WireguardGo), AtLeast(1.0)),
        Aim::new("WireGuard: Gbit/s", BULK, GbitPerSecond, Nothing, AtLeast(5.0)).of(Wireguard),
        Aim::new("WireGuard: CPU s per GiB", BULK, CpuPerGib, Nothing, AtMost(3.0)).of(Wireguard),
        Aim::new("link, bad way", BAD, MbitPerSecond, Peer(WireguardGoNetstack), AtLeast(1.0)).of(Link),
        Aim::new("WireGuard, bad way", BAD, MbitPerSecond, Peer(WireguardGoNetstack), AtLeast(1.0))
            .of(Wireguard),
        Aim::new("link, bad way: longest stall, ms", BAD, StallMillis, Nothing, AtMost(1000.0)),
        Aim::new("WireGuard, bad way: longest stall, ms", BAD, StallMillis, Nothing, AtMost(1000.0))
            .of(Wireguard),
    ]
}
