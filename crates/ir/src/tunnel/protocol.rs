//! What an operator and a host end say to each other over the host end's Unix socket: one JSON object a line.
//!
//! The two may be of different versions, since a host end outlives the operator that started it. So fields are only ever
//! added, a reader ignores what it does not know, lines of an unknown kind are skipped, and an order of an unknown kind
//! is answered with a no. The same holds for the plan's file. A change that breaks this counts [`PROTOCOL`] up; an
//! operator replaces a host end of another protocol at once.

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::{Counters, LinkState, TunnelId, TunnelState};

/// The protocol of this version.
pub const PROTOCOL: u32 = 1;
/// The version of the plan: it counts up with each field that the plan gets.
pub const PLAN: u32 = 1;
/// No line is longer: a thousand tunnels with long errors fit.
pub const LONGEST_LINE: usize = 8 << 20;

/// What the operator says.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Request {
    /// Comes back with the answer.
    pub id: u32,
    /// What to do.
    pub order: Order,
}

/// What a host end is asked to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Order {
    /// Read the plan again; it is read without this too, a little later.
    Reload,
    /// Let the streams end within so many milliseconds, then end.
    #[serde(rename_all = "camelCase")]
    End {
        /// The time for streams.
        drain_millis: u64,
    },
    /// End now, unless a stream is open.
    EndIfIdle,
}

/// What the host end says: its status at once and whenever it changes, and an answer to each request.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Line {
    /// How things stand.
    Status(Box<Status>),
    /// What became of a request.
    #[serde(rename_all = "camelCase")]
    Answer {
        /// The request's.
        id: u32,
        /// Whether it is done, or begun for an end.
        accepted: bool,
    },
}

/// The protocol that a line with a status is in, also one that can't be read otherwise.
pub fn protocol_of(line: &str) -> Option<u32> {
    #[derive(Deserialize)]
    struct Spoken {
        status: Tongue,
    }
    #[derive(Deserialize)]
    struct Tongue {
        protocol: u32,
    }
    serde_json::from_str::<Spoken>(line).ok().map(|spoken| spoken.status.protocol)
}

/// The id of a request, also of one that can't be read otherwise.
pub fn id_of(request: &str) -> Option<u32> {
    #[derive(Deserialize)]
    struct Asked {
        id: u32,
    }
    serde_json::from_str::<Asked>(request).ok().map(|asked| asked.id)
}

/// How a host end stands.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Status {
    /// What it speaks.
    pub protocol: u32,
    /// The version of its program.
    pub version: String,
    /// The newest plan that it knows every field of; what it does not know of a newer one it leaves out.
    #[serde(default)]
    pub plan: u32,
    /// Its process.
    pub pid: i32,
    /// Since when it runs.
    pub started_at: Timestamp,
    /// The link to the client end.
    #[serde(default)]
    pub link: LinkState,
    /// Each tunnel of the plan.
    #[serde(default)]
    pub tunnels: BTreeMap<TunnelId, Tunnel>,
    /// Streams that are open now.
    #[serde(default)]
    pub streams: u64,
    /// Why the newest plan is not followed; the one before is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub plan_error: Option<String>,
    /// How often the status is told at least; one that says nothing for much longer hangs. Those of the first version tell
    /// it when it changes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub beat_millis: Option<u64>,
}

/// One tunnel.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Tunnel {
    /// How it stands.
    pub state: TunnelState,
    /// What it has carried.
    #[serde(default)]
    pub counters: Counters,
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What version 0.1.0 writes; a later operator must read it for as long as the protocol is 1.
    const STATUS: &str = r#"{"status":{"protocol":1,"version":"0.1.0","pid":7,"startedAt":"2026-11-17T09:00:00Z",
        "link":"up","tunnels":{"3":{"state":{"listening":{"port":8080}},
        "counters":{"streams":2,"opened":5,"refused":1,"toHost":10,"toContainer":20,"lastError":"reset"}}},"streams":2}}"#;

    #[test]
    fn a_status_of_the_first_version_is_read_and_what_is_new_in_it_ignored() {
        let Line::Status(status) = serde_json::from_str(STATUS).unwrap() else { panic!("not a status") };
        assert_eq!((status.pid, status.streams, &status.link), (7, 2, &LinkState::Up));
        let tunnel = &status.tunnels[&3];
        assert_eq!(tunnel.state, TunnelState::Listening { port: 8080 });
        assert_eq!((tunnel.counters.to_host, tunnel.counters.last_error.as_deref()), (10, Some("reset")));
        let newer = STATUS.replace("\"streams\":2}}", "\"streams\":2,\"mood\":\"good\"}}");
        let Line::Status(newer) = serde_json::from_str(&newer).unwrap() else { panic!("not a status") };
        assert_eq!(newer, status);
        assert!(
            serde_json::from_str::<Line>(r#"{"song":{}}"#).is_err(),
            "unknown lines are skipped by readers"
        );
    }

    #[test]
    fn the_protocol_is_known_of_a_status_that_can_not_be_read() {
        assert_eq!(protocol_of(STATUS), Some(1));
        assert_eq!(protocol_of(r#"{"status":{"protocol":2,"pid":"seven"}}"#), Some(2));
        assert_eq!(protocol_of(r#"{"song":{}}"#), None);
    }

    #[test]
    fn orders_are_written_as_the_first_version_reads_them() {
        let written = |order| serde_json::to_string(&Request { id: 4, order }).unwrap();
        assert_eq!(written(Order::Reload), r#"{"id":4,"order":"reload"}"#);
        assert_eq!(written(Order::EndIfIdle), r#"{"id":4,"order":"endIfIdle"}"#);
        assert_eq!(
            written(Order::End { drain_millis: 10 }),
            r#"{"id":4,"order":{"end":{"drainMillis":10}}}"#
        );
    }
}
