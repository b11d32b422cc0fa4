//! Where connections arrive, and what is looked at to find their way.

use std::net::SocketAddr;

use ipnet::IpNet;
use serde::{Deserialize, Serialize};

use crate::diff::Keyed;
use crate::http::Http;
use crate::{Action, ConnectionRoute, Name, Tls, TlsRoute, networks};

/// An address to listen on and the routes behind it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Listener {
    /// Unique in the plan.
    pub name: Name,
    /// `address:port`; port 0 takes a free one.
    #[serde(deserialize_with = "bind")]
    pub bind: SocketAddr,
    /// The port that clients know, for redirects and `X-Forwarded-Port`; default that of `bind`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub port: Option<u16>,
    /// Who may connect; default everybody.
    #[serde(default, skip_serializing_if = "Vec::is_empty", deserialize_with = "networks::some")]
    pub allowed_sources: Vec<IpNet>,
    /// Connections begin with a PROXY protocol header that names the true client; default they don't.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub accept_proxy_protocol: Option<AcceptProxyProtocol>,
    /// What is looked at, and the routes by it.
    pub protocol: Protocol,
}

/// Whose PROXY protocol headers are believed.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct AcceptProxyProtocol {
    /// The peers that send one; a connection from elsewhere is closed. Default everybody.
    #[serde(default, skip_serializing_if = "Vec::is_empty", deserialize_with = "networks::some")]
    pub from: Vec<IpNet>,
}

/// What a listener looks at: nothing, the TLS ClientHello, or HTTP.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Protocol {
    /// Connections, whatever they carry; servers may speak first.
    Tcp(ConnectionRoute),
    /// Datagrams, kept together as sessions by client address.
    Udp(ConnectionRoute),
    /// Connections by the server name in their ClientHello.
    Tls(Tls),
    /// Requests in clear text.
    Http(Http),
}

impl Protocol {
    /// Whether it takes datagrams, not connections.
    pub fn is_udp(&self) -> bool {
        matches!(self, Self::Udp(_))
    }

    /// As people write it.
    pub fn word(&self) -> &'static str {
        match self {
            Self::Tcp(_) => "TCP",
            Self::Udp(_) => "UDP",
            Self::Tls(_) => "TLS",
            Self::Http(_) => "HTTP",
        }
    }
}

impl Listener {
    /// The routes by server name; empty for a listener that does not look at it.
    pub fn tls_routes(&self) -> &[TlsRoute] {
        if let Protocol::Tls(tls) = &self.protocol { &tls.routes } else { &[] }
    }

    /// The ways of requests in clear text, if it looks at them.
    pub fn http(&self) -> Option<&Http> {
        if let Protocol::Http(http) = &self.protocol { Some(http) } else { None }
    }

    /// How many routes it has.
    pub fn route_count(&self) -> usize {
        match &self.protocol {
            Protocol::Tcp(_) | Protocol::Udp(_) => 1,
            Protocol::Tls(tls) => tls.routes.len(),
            Protocol::Http(http) => http.all_routes().count(),
        }
    }

    /// Every action on connections, with the name of the route or outcome and its path below the listener.
    pub fn actions<'a>(&'a self) -> Box<dyn Iterator<Item = (&'a str, &'a Action)> + 'a> {
        match &self.protocol {
            Protocol::Tcp(route) | Protocol::Udp(route) => {
                Box::new(std::iter::once((route.name.as_str(), &route.action)))
            }
            Protocol::Tls(tls) => {
                let routes = tls.routes.iter().map(|route| (route.name.as_str(), &route.action));
                Box::new(routes.chain(tls.outcomes()))
            }
            Protocol::Http(http) => {
                Box::new(http.otherwise.iter().map(|route| (route.name.as_str(), &route.action)))
            }
        }
    }

    /// Whether two listeners differ in nothing but the routes that have a diff of their own. The one place that says
    /// which fields are the listener's head; a new field does not compile before it is sorted here.
    pub fn same_but_routes(&self, other: &Self) -> bool {
        let Self { name, bind, port, allowed_sources, accept_proxy_protocol, protocol } = self;
        *name == other.name
            && *bind == other.bind
            && *port == other.port
            && *allowed_sources == other.allowed_sources
            && *accept_proxy_protocol == other.accept_proxy_protocol
            && match (protocol, &other.protocol) {
                (Protocol::Tls(a), Protocol::Tls(b)) => a.same_but_routes(b),
                (Protocol::Http(a), Protocol::Http(b)) => a.same_but_routes(b),
                (Protocol::Tcp(_), Protocol::Tcp(_)) | (Protocol::Udp(_), Protocol::Udp(_)) => true,
                _ => false,
            }
    }
}

impl Keyed for Listener {
    fn key(&self) -> &str {
        &self.name
    }
}

fn bind<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<SocketAddr, D::Error> {
    let text = String::deserialize(deserializer)?;
    text.parse().map_err(|_| {
        serde::de::Error::custom(format!(
            "`{text}` is not an address and port: write 0.0.0.0:443 or [::]:443"
        ))
    })
}
