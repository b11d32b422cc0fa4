//! One resource as it is sent: its type, its name, and a version by its content.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;

use envoy_types::pb::google::protobuf::Any;

/// The types of resources, in the order in which a change is made known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Cluster,
    Endpoints,
    Listener,
}

impl Kind {
    pub(crate) const ALL: [Self; 3] = [Self::Cluster, Self::Endpoints, Self::Listener];

    pub(crate) fn type_url(self) -> &'static str {
        match self {
            Self::Cluster => "type.googleapis.com/envoy.config.cluster.v3.Cluster",
            Self::Endpoints => "type.googleapis.com/envoy.config.endpoint.v3.ClusterLoadAssignment",
            Self::Listener => "type.googleapis.com/envoy.config.listener.v3.Listener",
        }
    }

    pub(crate) fn from_type_url(url: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.type_url() == url)
    }

    /// As a person says it.
    pub(crate) fn word(self) -> &'static str {
        match self {
            Self::Cluster => "cluster",
            Self::Endpoints => "endpoints",
            Self::Listener => "listener",
        }
    }
}

/// One resource, ready to be sent.
#[derive(Debug)]
pub(crate) struct Resource {
    pub(crate) name: String,
    pub(crate) version: String,
    pub(crate) body: Any,
}

impl Resource {
    /// A resource whose bytes are the same for the same content.
    pub(crate) fn new(name: String, body: Any) -> Arc<Self> {
        let version = version(&body.value);
        Arc::new(Self { name, version, body })
    }

    /// A resource whose bytes are not; `content` stands in for them.
    pub(crate) fn with_content(name: String, body: Any, content: &impl Hash) -> Arc<Self> {
        Arc::new(Self { name, version: version(content), body })
    }
}

fn version(content: &impl Hash) -> String {
    let mut hasher = DefaultHasher::new();
    content.hash(&mut hasher);
    format!("{:016x}", hasher.finish())
}
