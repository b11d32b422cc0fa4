//! Routes of connections: what is matched, and the action. Routes of requests are in [`crate::http`].

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::diff::Keyed;
use crate::{Limit, Name, Pattern, Terminate};

/// The name in logs and metrics of what happens to a TLS client that names no server.
pub const NO_SERVER_NAME: &str = "(no server name)";
/// The same for one that names a server that no route has.
pub const UNKNOWN_SERVER_NAME: &str = "(unknown server name)";
/// The same for a client that does not speak TLS.
pub const PLAINTEXT: &str = "(plaintext)";

/// The way of all connections or datagrams of a port that is not looked into.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ConnectionRoute {
    /// For logs and metrics.
    pub name: Name,
    /// Connections at a time; default unlimited.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub connection_limit: Option<Limit>,
    /// What is done with them.
    pub action: Action,
}

impl Keyed for ConnectionRoute {
    fn key(&self) -> &str {
        &self.name
    }
}

/// The ways of TLS connections by the server name in their ClientHello.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Tls {
    /// By server name.
    #[serde(default)]
    pub routes: Vec<TlsRoute>,
    /// For a client that names no server; default the alert `unrecognized_name`.
    #[serde(default)]
    pub no_server_name: Action,
    /// For a client that names a server that no route has; default the alert `unrecognized_name`.
    #[serde(default)]
    pub unknown_server_name: Action,
    /// For a client that does not speak TLS; default closed.
    #[serde(default = "close")]
    pub plaintext: Action,
}

impl Default for Tls {
    /// Without routes, with every default.
    fn default() -> Self {
        Self {
            routes: Vec::new(),
            no_server_name: Action::default(),
            unknown_server_name: Action::default(),
            plaintext: close(),
        }
    }
}

impl Tls {
    /// What happens to connections that no route matches, by the names they have in logs and metrics.
    pub fn outcomes(&self) -> impl Iterator<Item = (&str, &Action)> {
        [
            (NO_SERVER_NAME, &self.no_server_name),
            (UNKNOWN_SERVER_NAME, &self.unknown_server_name),
            (PLAINTEXT, &self.plaintext),
        ]
        .into_iter()
    }

    /// Whether two differ in nothing but the routes.
    pub fn same_but_routes(&self, other: &Self) -> bool {
        let Self { routes: _, no_server_name, unknown_server_name, plaintext } = self;
        *no_server_name == other.no_server_name
            && *unknown_server_name == other.unknown_server_name
            && *plaintext == other.plaintext
    }
}

/// Server names and what is done with the connections that ask for them.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct TlsRoute {
    /// Unique in its listener.
    pub name: Name,
    /// Exact names, and `*.domain` for everything below a domain; the longest match wins.
    pub server_names: Vec<Pattern>,
    /// Connections at a time; default unlimited.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub connection_limit: Option<Limit>,
    /// What is done with them.
    pub action: Action,
}

impl Keyed for TlsRoute {
    fn key(&self) -> &str {
        &self.name
    }
}

/// What is done with a connection.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Action {
    /// It goes on, byte for byte, to an endpoint of one of these clusters.
    Forward(Targets),
    /// Its TLS ends here, and what is inside is looked at again.
    Terminate(Box<Terminate>),
    /// It is refused.
    Refuse(Refusal),
}

impl Action {
    /// Forwards to one cluster.
    pub fn forward(cluster: Name) -> Self {
        Self::Forward(Targets::to(cluster))
    }

    /// The clusters that connections may go to.
    pub fn targets(&self) -> &[Target] {
        if let Self::Forward(targets) = self { &targets.0 } else { &[] }
    }
}

impl Default for Action {
    fn default() -> Self {
        Self::Refuse(Refusal::Alert)
    }
}

fn close() -> Action {
    Action::Refuse(Refusal::Close)
}

/// How to refuse a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Refusal {
    /// With the TLS alert `unrecognized_name`.
    Alert,
    /// By closing.
    Close,
}

/// One or more clusters with their shares. Written as the name of one cluster, or as a list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Targets(Vec<Target>);

/// A cluster and its share of the traffic.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Target {
    /// The name of a cluster of the plan.
    pub cluster: Name,
    /// Share among the targets; 0 is none; default 1.
    #[serde(default = "one")]
    pub weight: u32,
    /// Those of the lowest number get all while one of them has an endpoint that can be used, and what can't be connected
    /// goes on to the next; default 0.
    #[serde(default, skip_serializing_if = "is_first")]
    pub priority: u32,
}

impl Targets {
    /// All to one cluster.
    pub fn to(cluster: Name) -> Self {
        Self(vec![Target { cluster, weight: 1, priority: 0 }])
    }

    /// Shared by weight; `None` when nobody would get anything.
    pub fn new(targets: Vec<Target>) -> Option<Self> {
        targets.iter().any(|target| target.weight > 0).then_some(Self(targets))
    }

    /// The clusters with their shares; at least one has a share.
    pub fn as_slice(&self) -> &[Target] {
        &self.0
    }
}

impl Serialize for Targets {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self.0.as_slice() {
            [Target { cluster, weight: 1, priority: 0 }] => cluster.serialize(serializer),
            targets => targets.serialize(serializer),
        }
    }
}

impl<'de> Deserialize<'de> for Targets {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        #[serde(
            untagged,
            expecting = "write the name of a cluster, or a list of {cluster, weight, priority}"
        )]
        enum Written {
            One(String),
            Several(Vec<Target>),
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
const fn is_first(priority: &u32) -> bool {
    *priority == 0
}
