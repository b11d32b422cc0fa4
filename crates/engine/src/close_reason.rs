//! Why a connection ended: one reason each, the same word in the access log, the metrics and the tests.

use serde::Serialize;

/// Why a connection ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum CloseReason {
    /// Both sides closed in good order.
    Finished,
    /// The client reset the connection.
    ClientReset,
    /// The endpoint reset the connection.
    EndpointReset,
    /// No byte in either direction for too long.
    IdleTimeout,
    /// The client did not say in time what it wants.
    HandshakeTimeout,
    /// Clients that have not said yet what they want take all the memory that they may.
    HandshakeLimit,
    /// The client left before it said what it wants.
    ClientLeft,
    /// What began like a ClientHello is none.
    InvalidHello,
    /// The PROXY protocol header is missing or wrong.
    InvalidProxyHeader,
    /// What should be a request is none.
    InvalidRequest,
    /// The client kept sending what carries nothing: pings, settings, requests that it took back.
    Flooded,
    /// TLS, on a listener that takes requests in clear text.
    UnexpectedTls,
    /// Not TLS, on a listener that refuses that.
    Plaintext,
    /// TLS without a server name, on a listener that refuses that.
    NoServerName,
    /// A server name that no route has.
    UnknownServerName,
    /// The route refuses whoever comes.
    Refused,
    /// The client and this end of TLS did not agree.
    TlsFailed,
    /// The client's address is not among those that may connect.
    SourceNotAllowed,
    /// The engine has as many connections as it may.
    ConnectionLimit,
    /// The client's address has as many connections as it may.
    SourceLimit,
    /// More new connections in a second than allowed.
    RateLimit,
    /// The route has as many connections as it may.
    RouteLimit,
    /// The cluster has as many connections as it may.
    ClusterLimit,
    /// The cluster has no endpoint to try.
    NoEndpoint,
    /// No endpoint that was tried could be reached.
    ConnectFailed,
    /// The endpoint that was tried last did not prove who it is, or could not agree on TLS.
    EndpointTlsFailed,
    /// Its route or listener was removed, or the engine stopped, and the time to drain was over; for datagrams also
    /// that their endpoint left the plan or was found unhealthy.
    Drained,
}

impl CloseReason {
    pub(crate) const ALL: [Self; 27] = [
        Self::Finished,
        Self::ClientReset,
        Self::EndpointReset,
        Self::IdleTimeout,
        Self::HandshakeTimeout,
        Self::HandshakeLimit,
        Self::ClientLeft,
        Self::InvalidHello,
        Self::InvalidProxyHeader,
        Self::InvalidRequest,
        Self::Flooded,
        Self::UnexpectedTls,
        Self::Plaintext,
        Self::NoServerName,
        Self::UnknownServerName,
        Self::Refused,
        Self::TlsFailed,
        Self::SourceNotAllowed,
        Self::ConnectionLimit,
        Self::SourceLimit,
        Self::RateLimit,
        Self::RouteLimit,
        Self::ClusterLimit,
        Self::NoEndpoint,
        Self::ConnectFailed,
        Self::EndpointTlsFailed,
        Self::Drained,
    ];

    /// Whether the process as a whole had no room for it.
    pub(crate) fn is_limit(self) -> bool {
        matches!(self, Self::ConnectionLimit | Self::SourceLimit | Self::RateLimit | Self::HandshakeLimit)
    }

    /// The word for it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Finished => "finished",
            Self::ClientReset => "clientReset",
            Self::EndpointReset => "endpointReset",
            Self::IdleTimeout => "idleTimeout",
            Self::HandshakeTimeout => "handshakeTimeout",
            Self::HandshakeLimit => "handshakeLimit",
            Self::ClientLeft => "clientLeft",
            Self::InvalidHello => "invalidHello",
            Self::InvalidProxyHeader => "invalidProxyHeader",
            Self::InvalidRequest => "invalidRequest",
            Self::Flooded => "flooded",
            Self::UnexpectedTls => "unexpectedTls",
            Self::Plaintext => "plaintext",
            Self::NoServerName => "noServerName",
            Self::UnknownServerName => "unknownServerName",
            Self::Refused => "refused",
            Self::TlsFailed => "tlsFailed",
            Self::SourceNotAllowed => "sourceNotAllowed",
            Self::ConnectionLimit => "connectionLimit",
            Self::SourceLimit => "sourceLimit",
            Self::RateLimit => "rateLimit",
            Self::RouteLimit => "routeLimit",
            Self::ClusterLimit => "clusterLimit",
            Self::NoEndpoint => "noEndpoint",
            Self::ConnectFailed => "connectFailed",
            Self::EndpointTlsFailed => "endpointTlsFailed",
            Self::Drained => "drained",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reasons_stand_at_their_own_place_and_have_one_word() {
        for (i, reason) in CloseReason::ALL.into_iter().enumerate() {
            assert_eq!(reason as usize, i);
            assert_eq!(serde_json::to_value(reason).unwrap(), reason.as_str());
        }
    }
}
