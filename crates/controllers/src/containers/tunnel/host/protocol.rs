//! What an operator and a host end say to each other over the host end's Unix socket: one JSON object a line.
//!
//! The two may be of different versions, since a host end outlives the operator that started it. So fields are only ever
//! added, a reader ignores what it does not know, and lines of an unknown kind are skipped. A change that breaks this
//! counts [`PROTOCOL`] up; an operator replaces a host end of another protocol at once.

use std::collections::BTreeMap;

use causeway_ir::tunnel::TunnelId;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};

/// The protocol of this version.
pub const PROTOCOL: u32 = 1;
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

/// How a host end stands.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Status {
    /// What it speaks.
    pub protocol: u32,
    /// The version of its program.
    pub version: String,
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
}

/// How the link stands.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum LinkState {
    /// Not up; the host end goes on trying.
    Connecting {
        /// How often it has failed in a row.
        attempt: u32,
        /// How it failed last.
        error: Option<String>,
    },
    /// Both ends talk to each other.
    Up,
}

impl Default for LinkState {
    fn default() -> Self {
        Self::Connecting { attempt: 0, error: None }
    }
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

/// How a tunnel stands.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum TunnelState {
    /// The link is not up, or the client end has not said anything about it yet.
    Pending,
    /// Clients are taken.
    Listening {
        /// The container's port.
        port: u16,
    },
    /// Clients are refused, since no endpoint answers; the host end looks again and again.
    Unreachable {
        /// The container's port.
        port: u16,
        /// What connecting said.
        error: String,
    },
    /// Clients are refused, since there is no endpoint.
    NoEndpoints {
        /// The container's port.
        port: u16,
    },
    /// The client end can't listen.
    Failed {
        /// Why not.
        error: String,
    },
}

/// A tunnel's figures.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Counters {
    /// Streams open now.
    pub streams: u64,
    /// Streams opened so far.
    pub opened: u64,
    /// Streams refused so far.
    pub refused: u64,
    /// Bytes carried to the host.
    pub to_host: u64,
    /// Bytes carried to containers.
    pub to_container: u64,
    /// What went wrong last.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_error: Option<String>,
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
