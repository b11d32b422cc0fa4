//! The seam to DNS: zones, records, whose they are, and the changes that are asked for.
//!
//! Every name that we write has a mark beside it, a TXT record that says whose it is ([`Owner`]); it is written and removed
//! in the same batch as the records. A name without our mark is never touched. Objects of one controller may share a name
//! as long as they want the same there (the proof of a certificate for a domain and for its wildcard is one record); it goes
//! with the last of them.

pub(crate) mod mark;
mod plan;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use futures::future::BoxFuture;
use serde::{Deserialize, Serialize};

use crate::{Error, Name};

pub use mark::Owner;
pub use plan::{Plan, Step, Verdict};
pub(crate) use plan::{Planner, records};

/// Somebody who serves zones.
///
/// All of it may be called again at any time, also by another process after a kill: a call does what is still missing.
/// Every call ends within a minute or so, with an error if need be; what is worth trying again at once was tried again.
pub trait DnsProvider: Send + Sync {
    /// Finds a zone by its id or by its domain. Of several with the same domain it is the public one.
    ///
    /// # Errors
    /// [`Error::ZoneNotFound`], or why it can't be known.
    fn zone<'a>(&'a self, id_or_domain: &'a str) -> BoxFuture<'a, Result<Zone, Error>>;

    /// What there is at these names now, by what the zone's owner says and not what is cached. Every name has an entry.
    ///
    /// # Errors
    /// When the zone can't be read, or a name is not in it.
    fn observe<'a>(
        &'a self,
        zone: &'a Zone,
        names: &'a [Name],
    ) -> BoxFuture<'a, Result<BTreeMap<Name, Found>, Error>>;

    /// Brings about what is missing of these changes, together with those of other callers where that saves requests, and
    /// says for each how far it is, in their order. Call it again until all are [`Progress::Settled`]; calling it for
    /// what is settled costs next to nothing. A change that is refused does not stop the others.
    fn apply<'a>(
        &'a self,
        zone: &'a Zone,
        changes: &'a [Change],
    ) -> BoxFuture<'a, Vec<Result<Progress, Error>>>;

    /// What [`Self::apply`] would do now, for people: nothing is changed.
    ///
    /// # Errors
    /// When the zone can't be read.
    fn plan<'a>(&'a self, zone: &'a Zone, changes: &'a [Change]) -> BoxFuture<'a, Result<Plan, Error>>;
}

/// A zone, as its provider has it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Zone {
    /// The provider's name for it: Route 53's id, elsewhere the domain.
    pub id: String,
    /// Its domain.
    pub domain: Name,
}

/// What a name should have.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Change {
    /// The name.
    pub name: Name,
    /// Who asks, as namespace and name; the controller itself is known to the provider.
    pub object: String,
    /// What should be there.
    pub want: Wanted,
    /// What the caller has stored as having been settled at this name for this object. If that is what it wants, what is in
    /// place is settled; otherwise a provider that can't see what is served (Route 53) may write it once more to be told.
    /// And records that are just so are the object's, also if somebody has removed their mark.
    pub settled: Option<Wanted>,
}

/// What should be at a name.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Wanted {
    /// Nothing of this object's.
    #[default]
    Nothing,
    /// A and AAAA, whichever there are.
    Addresses {
        /// Of both families.
        addresses: BTreeSet<IpAddr>,
        /// How long answers may be kept, in seconds.
        ttl: u32,
    },
    /// Another name's records: CNAME.
    Canonical {
        /// The other name.
        target: Name,
        /// How long answers may be kept, in seconds.
        ttl: u32,
    },
    /// Texts: TXT.
    Texts {
        /// One record each.
        texts: BTreeSet<String>,
        /// How long answers may be kept, in seconds.
        ttl: u32,
    },
    /// The addresses of a load balancer, of both families. Route 53: alias records, also at the top of a zone. Elsewhere a
    /// CNAME, which can't be at the top.
    Balancer {
        /// Its name.
        target: Name,
        /// Route 53's zone of that name; default by the table of load balancers' regions.
        hosted_zone: Option<String>,
        /// How long answers may be kept where it is a CNAME, in seconds.
        ttl: u32,
    },
}

/// How far a change is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Progress {
    /// It is served: Route 53 says INSYNC, or every name server that is to be asked answers so.
    Settled,
    /// It is accepted, but not served everywhere yet.
    Pending {
        /// What is waited for.
        waits_for: String,
    },
}

/// What there is at a name, of the kinds that we write.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Found {
    /// By kind.
    pub records: BTreeMap<Kind, Records>,
    /// Whose marks are beside the name: none if nobody of Causeway wrote there.
    pub owners: BTreeSet<Owner>,
}

/// The kinds of records that we write.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "UPPERCASE")]
pub enum Kind {
    /// IPv4 addresses.
    A,
    /// IPv6 addresses.
    Aaaa,
    /// Another name.
    Cname,
    /// Texts.
    Txt,
}

/// All records of one kind at one name.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Records {
    /// A.
    A(BTreeSet<Ipv4Addr>, u32),
    /// AAAA.
    Aaaa(BTreeSet<Ipv6Addr>, u32),
    /// CNAME.
    Cname(Name, u32),
    /// TXT.
    Txt(BTreeSet<String>, u32),
    /// An alias of Route 53, as A or AAAA: the target and its zone.
    Alias(Name, String),
    /// Something that we never write (a weighted set, for example), in the provider's words.
    Other(String),
}

/// One failure that all changes share, told for each.
pub(crate) fn for_each(changes: &[Change], error: &Error) -> Vec<Result<Progress, Error>> {
    changes.iter().map(|_| Err(error.clone())).collect()
}

impl Found {
    /// Whether there is nothing, not even a mark.
    pub fn is_empty(&self) -> bool {
        self.records.is_empty() && self.owners.is_empty()
    }
}

impl Kind {
    fn from_text(text: &str) -> Option<Self> {
        [Self::A, Self::Aaaa, Self::Cname, Self::Txt].into_iter().find(|kind| kind.to_string() == text)
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::A => "A",
            Self::Aaaa => "AAAA",
            Self::Cname => "CNAME",
            Self::Txt => "TXT",
        })
    }
}

impl fmt::Display for Records {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fn list<T: fmt::Display>(
            f: &mut fmt::Formatter<'_>,
            items: impl IntoIterator<Item = T>,
            ttl: u32,
        ) -> fmt::Result {
            for item in items {
                write!(f, "{item} ")?;
            }
            write!(f, "(ttl {ttl})")
        }
        match self {
            Self::A(addresses, ttl) => list(f, addresses, *ttl),
            Self::Aaaa(addresses, ttl) => list(f, addresses, *ttl),
            Self::Cname(target, ttl) => list(f, [target], *ttl),
            Self::Txt(texts, ttl) => list(f, texts.iter().map(|text| format!("{text:?}")), *ttl),
            Self::Alias(target, zone) => write!(f, "alias of {target} (zone {zone})"),
            Self::Other(said) => f.write_str(said),
        }
    }
}

impl fmt::Display for Found {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.records.is_empty() {
            return f.write_str("no records");
        }
        for (i, (kind, records)) in self.records.iter().enumerate() {
            write!(f, "{}{kind} {records}", if i == 0 { "" } else { ", " })?;
        }
        Ok(())
    }
}
