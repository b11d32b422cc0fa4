//! What a tunnel aims at: beside rathole in clear text, which does no cryptography, and beside a bare pair of TLS
//! relays, which does nothing but cryptography.

use super::candidate::Candidate;
use super::candidate::Candidate::{RatholePlain, RatholeTls, RelayTls};
use super::workload::Workload;
use super::workload::Workload::{
    DelayedDown, DelayedUp, Down1, Down16, Idle, Pings, Streams, StreamsUnderFire, Up1, Up16,
};
use crate::compare::aims::Aim;
use crate::compare::aims::Beside::{Load, Nothing, Peer};
use crate::compare::aims::Limit::{AtLeast, AtMost};
use crate::compare::question::Question::{BytesPerConnection, GbitPerSecond, Kept, PerSecond};

pub(crate) fn all() -> Vec<Aim<Workload, Candidate>> {
    const ONE: &[Workload] = &[Down1, Up1];
    const MANY: &[Workload] = &[Down16, Up16];
    const DELAYED: &[Workload] = &[DelayedDown, DelayedUp];
    vec![
        Aim::new("bulk, 1 stream", ONE, GbitPerSecond, Peer(RelayTls), AtLeast(0.8)),
        Aim::new("bulk, 16 streams", MANY, GbitPerSecond, Peer(RelayTls), AtLeast(0.8)),
        Aim::new("bulk, 1 stream", ONE, GbitPerSecond, Peer(RatholePlain), AtLeast(1.5)),
        Aim::new("bulk, 16 streams", MANY, GbitPerSecond, Peer(RatholePlain), AtLeast(1.5)),
        Aim::new("round trips per second", &[Pings], PerSecond, Peer(RatholePlain), AtLeast(1.0)),
        Aim::new("new streams per second", &[Streams], PerSecond, Peer(RatholePlain), AtLeast(1.4)),
        Aim::new("new streams per second", &[Streams], PerSecond, Peer(RatholeTls), AtLeast(7.0)),
        Aim::new(
            "the same beside dead backends",
            &[StreamsUnderFire],
            PerSecond,
            Load(Streams),
            AtLeast(0.95),
        ),
        Aim::new("Gbit/s of one stream over 50 ms", DELAYED, GbitPerSecond, Nothing, AtLeast(0.5)),
        Aim::new("bytes per idle stream, both ends", &[Idle], BytesPerConnection, Nothing, AtMost(8192.0)),
        // What the allocator keeps is no leak.
        Aim::new("part kept after close", &[Idle], Kept, Nothing, AtMost(0.25)),
    ]
}
