//! Why an issuer or a DNS provider did not do what it was asked for, so that the caller can tell a person what to do.

use std::sync::Arc;
use std::time::Duration;

use crate::Name;
use crate::dns::{Found, Owner};

type Boxed = Box<dyn std::error::Error + Send + Sync>;

/// What went wrong, and whose turn it is.
#[derive(Debug, Clone, thiserror::Error)]
pub enum Error {
    /// The name has records that we did not write, or that another object of ours did; nothing was touched.
    #[error("{name} has {found}, {}: remove that, or use another name", holder(owners))]
    NotOurs {
        /// The name.
        name: Name,
        /// What is there.
        found: Found,
        /// Whose mark is there; empty without any.
        owners: Vec<Owner>,
    },
    /// There is no such zone, or it is not for these credentials to see.
    #[error("no zone {zone} at {at}: check its id or domain, and whether the credentials may see it")]
    ZoneNotFound {
        /// As it was asked for.
        zone: String,
        /// Who was asked.
        at: String,
    },
    /// The credentials do not allow it.
    #[error("not allowed: {missing} is missing ({said})")]
    Denied {
        /// The permission, key or setting to grant, as its administrator knows it.
        missing: String,
        /// What the other side said.
        said: String,
    },
    /// Too much was asked for; the other side said or implied when to come back.
    #[error("{at} limits the rate, trying again in {} s ({said})", retry_after.as_secs().max(1))]
    RateLimited {
        /// Who limits.
        at: String,
        /// Not before.
        retry_after: Duration,
        /// What the other side said.
        said: String,
    },
    /// The other side can't be reached, or is not well.
    #[error("{at} is not available")]
    Unavailable {
        /// Who.
        at: String,
        /// Why.
        #[source]
        source: Arc<dyn std::error::Error + Send + Sync>,
    },
    /// It can't be done as it was asked for.
    #[error("{what}: {remedy}")]
    Invalid {
        /// What is wrong.
        what: String,
        /// What to do about it.
        remedy: String,
    },
    /// The certificate can't be removed while it is used.
    #[error("the certificate is still used by {}", by.join(", "))]
    InUse {
        /// By whom.
        by: Vec<String>,
    },
}

/// When trying again can help.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Retry {
    /// With a backoff.
    Backoff,
    /// Not before this time is over.
    After(Duration),
    /// When somebody has changed something: looking once in a while is enough.
    OnChange,
}

impl Error {
    /// When trying again can help.
    pub fn retry(&self) -> Retry {
        match self {
            Self::RateLimited { retry_after, .. } => Retry::After(*retry_after),
            Self::Unavailable { .. } | Self::InUse { .. } => Retry::Backoff,
            Self::NotOurs { .. } | Self::ZoneNotFound { .. } | Self::Denied { .. } | Self::Invalid { .. } => {
                Retry::OnChange
            }
        }
    }

    pub(crate) fn unavailable(at: impl Into<String>, source: impl Into<Boxed>) -> Self {
        Self::Unavailable { at: at.into(), source: source.into().into() }
    }

    pub(crate) fn invalid(what: impl Into<String>, remedy: impl Into<String>) -> Self {
        Self::Invalid { what: what.into(), remedy: remedy.into() }
    }
}

fn holder(owners: &[Owner]) -> String {
    match owners {
        [] => "which nobody here wrote".to_owned(),
        owners => {
            let owners: Vec<_> = owners.iter().map(ToString::to_string).collect();
            format!("which belongs to {}", owners.join(" and "))
        }
    }
}
