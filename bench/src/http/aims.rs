//! What our gateway aims at, row by row: the processor time of a request beside the peer that the aim was set by, and for
//! whoever reads the report beside the best peer of that run.

use super::candidate::Candidate;
use super::candidate::Candidate::{Envoy, Haproxy, Nginx};
use super::workload::Workload;
use super::workload::Workload::{
    Bodies, Certificates, Grpc, Handshakes, Http, Http2, Https, Idle, Paced, Resumed, Routes, Swaps,
};
use crate::compare::aims::Aim;
use crate::compare::aims::Beside::{Best, Nothing, Peer};
use crate::compare::aims::Limit::AtMost;
use crate::compare::question::Question::{
    CpuPer100k, Failed, KibPerConnection, MibBeyond, ReadyMillis, SwapsBehind,
};

pub(crate) fn all() -> Vec<Aim<Workload, Candidate>> {
    // No row is level with one peer and behind another without a line that says so.
    let best = |what, row, question| Aim::new(what, row, question, Best, AtMost(1.0));
    let cpu = |what, row: &'static [Workload], peer, limit| {
        [Aim::new(what, row, CpuPer100k, Peer(peer), AtMost(limit)), best(what, row, CpuPer100k)]
    };
    let own = |what, row: &'static [Workload], question, limit| {
        [Aim::new(what, row, question, Nothing, AtMost(limit)), best(what, row, question)]
    };
    let swapped = |what, question, limit| Aim::new(what, &[Swaps], question, Nothing, AtMost(limit));
    let compared = [
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
    ];
    let swaps = [
        swapped("11 requests that fail while the certificate is replaced", Failed, 0.0),
        // The load may end before the last one is in use.
        swapped("11 certificates that are newer than the last that clients are shown", SwapsBehind, 1.0),
    ];
    compared.into_iter().flatten().chain(swaps).collect()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::compare::Name as _;
    use crate::compare::accounts::Spent;
    use crate::compare::aims::judge;
    use crate::compare::results::{Measurement, Results};
    use crate::http::Gateways;

    #[test]
    fn a_row_that_is_ahead_of_one_peer_and_behind_another_says_both() {
        let mut results = Results::default();
        for (candidate, cpu) in [(Candidate::Causeway, 2.0), (Nginx, 3.0), (Haproxy, 1.0)] {
            results.push(Measurement {
                workload: Http2.name(),
                candidate: candidate.name(),
                round: 0,
                attempts: 1,
                ready_millis: 0.0,
                spent: Spent { proxy_user: cpu, ..Spent::default() },
                figures: BTreeMap::from([("requests".to_owned(), 1e5)]),
                error: None,
            });
        }
        let said: Vec<_> = judge::<Gateways>(&results).into_iter().map(|v| (v.aim, v.found, v.met)).collect();
        let line = |of: &str, found: &str, met| {
            (format!("3 CPU per request, HTTP/2: at most 1 of {of}"), found.to_owned(), met)
        };
        assert_eq!(said, [line("nginx", "0.67", true), line("the best peer", "2.00", false)]);
    }
}
