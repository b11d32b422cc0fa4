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
    /// How long connections of a removed route or listener may stay; default 30s.
    #[serde(default = "drain_timeout", with = "duration")]
    pub drain_timeout: Duration,
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
        }
    }
}

const fn drain_timeout() -> Duration {
    Duration::from_secs(30)
}

#[cfg(test)]
mod tests;
