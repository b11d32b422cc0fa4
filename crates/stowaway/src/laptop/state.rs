//! How a laptop is connected, for people and for other processes.

use std::time::SystemTime;

use serde::{Deserialize, Serialize};

use crate::way::Way;

/// How things stand.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct State {
    /// The connection in use; none while there is none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub connection: Option<Connected>,
    /// Every way, the best first.
    pub ways: Vec<WayState>,
    /// Why nothing is tried for a while.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub trouble: Option<String>,
}

/// The connection in use.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Connected {
    /// By which way.
    pub way: Way,
    /// Where the other end was reached.
    pub via: String,
    /// What the other end's replica is called.
    pub replica: String,
    /// Since when; seconds since the epoch where it is written.
    #[serde(with = "seconds")]
    pub since: SystemTime,
    /// Why this way and no other.
    pub why: String,
}

/// One way.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct WayState {
    /// Which.
    pub way: Way,
    /// Why it did not work the last time; none if it did, or was not tried.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// How often in a row it did not.
    pub failures: u32,
}

impl State {
    /// Before anything was tried.
    pub(super) fn before(ways: impl Iterator<Item = Way>) -> Self {
        let mut ways: Vec<_> = ways.map(|way| WayState { way, error: None, failures: 0 }).collect();
        ways.sort_by_key(|known| known.way);
        Self { ways, ..Self::default() }
    }

    /// In one sentence why there is no connection.
    pub fn complaint(&self) -> String {
        if let Some(trouble) = &self.trouble {
            return format!("not connected to the cluster: {trouble}");
        }
        let errors: Vec<_> = self.ways.iter().filter_map(WayState::complaint).collect();
        match errors.as_slice() {
            [] => "not connected to the cluster yet".to_owned(),
            _ => format!("not connected to the cluster: {}", errors.join("; ")),
        }
    }
}

impl WayState {
    pub(super) fn complaint(&self) -> Option<String> {
        self.error.as_ref().map(|error| format!("{}: {error}", self.way))
    }
}

mod seconds {
    use std::time::{Duration, SystemTime};

    use serde::{Deserialize, Deserializer, Serializer};

    pub(super) fn serialize<S: Serializer>(time: &SystemTime, serializer: S) -> Result<S::Ok, S::Error> {
        let since = time.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        serializer.serialize_u64(since.as_secs())
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<SystemTime, D::Error> {
        let seconds = u64::deserialize(deserializer)?;
        let time = SystemTime::UNIX_EPOCH.checked_add(Duration::from_secs(seconds));
        time.ok_or_else(|| serde::de::Error::custom("no such time"))
    }
}
