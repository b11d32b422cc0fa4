//! Everything that an engine, or an Envoy, does: listeners, clusters, links, pages and limits. Written in camelCase, as YAML or
//! JSON; a field that is not known here is an error.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::http::Page;
use crate::{Cluster, Limits, Link, Listener, duration};

/// Everything that an engine does.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Plan {
    /// Where connections arrive.
    #[serde(default)]
    pub listeners: Vec<Listener>,
    /// Where they go.
    #[serde(default)]
    pub clusters: Vec<Cluster>,
    /// Pairs of ends that clusters may be reached through.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub links: Vec<Link>,
    /// What is said with errors, by the names that `errorPages` of listeners and routes have.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub pages: Vec<Page>,
    /// What the engine as a whole may take.
    #[serde(default)]
    pub limits: Limits,
    /// How long open connections may stay when the engine is told to end, and those of a removed route or listener unless they
    /// are kept; default 30s.
    #[serde(default = "drain_timeout", with = "duration")]
    pub drain_timeout: Duration,
    /// What becomes of the open connections of a route or listener that is removed.
    #[serde(default, skip_serializing_if = "OnRemoval::is_default")]
    pub on_removal: OnRemoval,
}

/// What becomes of the open connections of a route or listener that is removed. Nothing new comes either way.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum OnRemoval {
    /// They have the drain timeout to end by themselves, and are then ended.
    #[default]
    Drain,
    /// They go on until they end by themselves or the engine does.
    Keep,
}

impl OnRemoval {
    #[expect(clippy::trivially_copy_pass_by_ref, reason = "the signature that serde wants")]
    fn is_default(&self) -> bool {
        *self == Self::default()
    }
}

impl Default for Plan {
    fn default() -> Self {
        Self {
            listeners: Vec::new(),
            clusters: Vec::new(),
            links: Vec::new(),
            pages: Vec::new(),
            limits: Limits::default(),
            drain_timeout: drain_timeout(),
            on_removal: OnRemoval::default(),
        }
    }
}

const fn drain_timeout() -> Duration {
    Duration::from_secs(30)
}

#[cfg(test)]
mod tests;
