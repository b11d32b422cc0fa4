//! The rows: what every gateway is put through.

use crate::compare::load::Load;
use crate::compare::question::Question;

/// A row.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, clap::ValueEnum)]
pub(crate) enum Workload {
    /// HTTP/1.1, 64 connections that stay, 1 KiB
    #[value(name = "1-http", alias = "1")]
    Http,
    /// The same over HTTPS
    #[value(name = "2-https", alias = "2")]
    Https,
    /// HTTPS with HTTP/2, 16 connections with 16 streams each
    #[value(name = "3-http2", alias = "3")]
    Http2,
    /// HTTPS, a new connection with a full handshake for each request
    #[value(name = "4a-handshakes", alias = "4a")]
    Handshakes,
    /// HTTPS, a new connection that resumes a session for each request
    #[value(name = "4b-resumed", alias = "4b")]
    Resumed,
    /// HTTPS, bodies of 16 KiB
    #[value(name = "5-bodies", alias = "5")]
    Bodies,
    /// HTTP/2 without TLS on both sides, small messages with trailers as gRPC has them
    #[value(name = "6-grpc", alias = "6")]
    Grpc,
    /// 5,000 certificates, a full handshake with a random one for each request
    #[value(name = "7-certificates", alias = "7")]
    Certificates,
    /// 10,000 routes, a random one for each request
    #[value(name = "8-routes", alias = "8")]
    Routes,
    /// Memory of idle HTTPS connections
    #[value(name = "9-idle", alias = "9")]
    Idle,
    /// HTTPS, 5,000 requests a second
    #[value(name = "10-paced", alias = "10")]
    Paced,
    /// 4a while the certificate is replaced each second
    #[value(name = "11-swaps", alias = "11")]
    Swaps,
}

impl Workload {
    pub(crate) fn load(self) -> Load {
        const FAST: &[Question] = &[
            Question::PerSecond,
            Question::CpuPer100k,
            Question::UserPer100k,
            Question::P50Millis,
            Question::P99Millis,
            Question::Failed,
            Question::LoadBusy,
        ];
        const RESUMED: &[Question] = &[
            Question::PerSecond,
            Question::CpuPer100k,
            Question::UserPer100k,
            Question::P50Millis,
            Question::P99Millis,
            Question::Failed,
            Question::Resumed,
            Question::LoadBusy,
        ];
        const BODIES: &[Question] = &[
            Question::GbitPerSecond,
            Question::CpuPer100k,
            Question::UserPer100k,
            Question::P50Millis,
            Question::P99Millis,
            Question::Failed,
            Question::LoadBusy,
        ];
        const MANY: &[Question] = &[
            Question::PerSecond,
            Question::CpuPer100k,
            Question::UserPer100k,
            Question::ReadyMillis,
            Question::MibWithNames,
            Question::MibBeyond,
            Question::Failed,
            Question::LoadBusy,
        ];
        const SWAPS: &[Question] = &[
            Question::PerSecond,
            Question::P50Millis,
            Question::P99Millis,
            Question::Failed,
            Question::Swaps,
            Question::SwapsSeen,
            Question::SwapsBehind,
            Question::CpuPer100k,
            Question::LoadBusy,
        ];
        const IDLE: &[Question] = &[Question::KibPerConnection, Question::MibBefore, Question::MibHeld];
        Load::Own(match self {
            Self::Resumed => RESUMED,
            Self::Bodies => BODIES,
            Self::Certificates | Self::Routes => MANY,
            Self::Idle => IDLE,
            Self::Swaps => SWAPS,
            _ => FAST,
        })
    }

    /// The row whose gateway is the same, but for what there are many of.
    pub(crate) fn without_many(self) -> Option<Self> {
        match self {
            Self::Certificates => Some(Self::Https),
            Self::Routes => Some(Self::Http),
            _ => None,
        }
    }

    /// Whether the load can go straight to the backend: it speaks no TLS.
    pub(crate) fn has_direct(self) -> bool {
        matches!(self, Self::Http | Self::Grpc)
    }
}

#[cfg(test)]
mod tests {
    use clap::ValueEnum;

    use super::*;
    use crate::compare::Name;

    #[test]
    fn rows_are_known_by_their_numbers() {
        for row in Workload::all() {
            let name = row.name();
            let number = name.split('-').next().unwrap_or_default();
            assert_eq!(Workload::from_str(number, false), Ok(row), "{name}");
        }
    }
}
