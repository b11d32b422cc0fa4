//! Where requests go: clusters with their shares, and what is changed for one of them alone.

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::Filter;
use crate::Name;

/// One or more clusters with their shares. Written as the name of one cluster, or as a list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HttpTargets(Vec<HttpTarget>);

/// A cluster, its share of the requests, and what is changed of those.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct HttpTarget {
    /// The name of a cluster of the plan.
    pub cluster: Name,
    /// Share among the targets; 0 is none; default 1.
    #[serde(default = "one")]
    pub weight: u32,
    /// Those of the lowest number get all requests while one of them has an endpoint that can be used; default 0.
    #[serde(default, skip_serializing_if = "is_first")]
    pub priority: u32,
    /// What is changed after the filters of the route, in this order: headers and rewrites.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub filters: Vec<Filter>,
}

impl HttpTargets {
    /// All to one cluster.
    pub fn to(cluster: Name) -> Self {
        Self(vec![HttpTarget { cluster, weight: 1, priority: 0, filters: Vec::new() }])
    }

    /// Shared by weight; `None` when nobody would get anything.
    pub fn new(targets: Vec<HttpTarget>) -> Option<Self> {
        targets.iter().any(|target| target.weight > 0).then_some(Self(targets))
    }

    /// The clusters with their shares; at least one has a share.
    pub fn as_slice(&self) -> &[HttpTarget] {
        &self.0
    }
}

impl Serialize for HttpTargets {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self.0.as_slice() {
            [HttpTarget { cluster, weight: 1, priority: 0, filters }] if filters.is_empty() => {
                cluster.serialize(serializer)
            }
            targets => targets.serialize(serializer),
        }
    }
}

impl<'de> Deserialize<'de> for HttpTargets {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        #[serde(
            untagged,
            expecting = "write the name of a cluster, or a list of {cluster, weight, priority, filters}"
        )]
        enum Written {
            One(String),
            Several(Vec<HttpTarget>),
        }
        match Written::deserialize(deserializer)? {
            Written::One(name) => Name::parse(&name).map(Self::to).map_err(serde::de::Error::custom),
            Written::Several(targets) => Self::new(targets)
                .ok_or_else(|| serde::de::Error::custom("no cluster has a share: give one a weight")),
        }
    }
}

const fn one() -> u32 {
    1
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "the signature that serde wants")]
fn is_first(priority: &u32) -> bool {
    *priority == 0
}
