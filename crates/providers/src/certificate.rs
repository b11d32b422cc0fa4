//! The seam to issuers of certificates: a state machine that its caller drives, step by step, from what it has stored.
//!
//! 1. Where [`CertificateIssuer::wants_key`], make a [`PrivateKey`] and store it.
//! 2. [`CertificateIssuer::request`] gives a handle: store it in [`Order::handle`].
//! 3. [`CertificateIssuer::look`] until it is not [`Look::Pending`]: put its proofs in place, and once they are served,
//!    call [`CertificateIssuer::proofs_served`].
//! 4. Store what [`Look::Issued`] gives ([`Order::held`]). Look again once in a while, and ask
//!    [`CertificateIssuer::renewal`] when a new order, with a key and an [`Order::serial`] of its own, is due.
//! 5. [`CertificateIssuer::in_use`] and [`CertificateIssuer::remove`] at the end.
//!
//! Whoever is killed on the way begins again with what is stored, and nothing is made twice.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, SystemTime};

use futures::future::BoxFuture;

use crate::dns::Wanted;
use crate::{Error, Name, Secret};

/// Somebody who issues certificates.
pub trait CertificateIssuer: Send + Sync {
    /// For people: `local`, `acme` with its directory, `acm` with its region.
    fn name(&self) -> &str;

    /// Whether the caller makes and keeps the private key; ACM has it to itself.
    fn wants_key(&self) -> bool;

    /// Asks for the certificate, or finds what an earlier call made for the same order, and gives the handle to store.
    ///
    /// # Errors
    /// Why it can't be asked for.
    fn request<'a>(&'a self, order: &'a Order) -> BoxFuture<'a, Result<String, Error>>;

    /// How it stands, by the handle of the order. Takes the steps that need nothing from the caller on the way.
    ///
    /// # Errors
    /// Why it can't be known.
    fn look<'a>(&'a self, order: &'a Order) -> BoxFuture<'a, Result<Look, Error>>;

    /// Says that the proofs that [`Self::look`] named are served, so that the issuer may check them.
    ///
    /// # Errors
    /// Why it could not be told.
    fn proofs_served<'a>(&'a self, order: &'a Order) -> BoxFuture<'a, Result<(), Error>>;

    /// When the certificate that the order holds should be renewed; the issuer's own word where it gives one.
    ///
    /// # Errors
    /// When the order holds no certificate.
    fn renewal<'a>(&'a self, order: &'a Order) -> BoxFuture<'a, Result<Renewal, Error>>;

    /// What the certificate is used by, as far as the issuer knows; it can't be removed before that is empty.
    ///
    /// # Errors
    /// Why it can't be known.
    fn in_use<'a>(&'a self, order: &'a Order) -> BoxFuture<'a, Result<Vec<String>, Error>>;

    /// Gives the order and its certificate up: deletes what is kept (ACM), or revokes what is held and drops what is
    /// pending (ACME). Without a handle, what an earlier call made for the order is looked for. What is gone is fine.
    ///
    /// # Errors
    /// [`Error::InUse`], or why it could not be done.
    fn remove<'a>(&'a self, order: &'a Order) -> BoxFuture<'a, Result<(), Error>>;
}

/// A certificate that somebody wants, and all that has been stored of it so far.
#[derive(Clone)]
pub struct Order {
    /// Who wants it: the controller's instance and the uid of the request. The same for all orders of a request.
    pub id: String,
    /// Counts the orders of a request: another one for changed names and for a renewal.
    pub serial: u32,
    /// The names, the first of which is the subject.
    pub names: Vec<Name>,
    /// How the names are proven, where the issuer leaves a choice. Wildcards are always proven by DNS.
    pub proof: ProofKind,
    /// The stored private key.
    pub key: Option<PrivateKey>,
    /// The stored handle.
    pub handle: Option<String>,
    /// The stored chain of the certificate, as PEM.
    pub held: Option<String>,
    /// The chain, as PEM, that this order's certificate will take the place of.
    pub replaces: Option<String>,
}

/// How a name is proven.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum ProofKind {
    /// A record.
    #[default]
    Dns,
    /// An answer at a path, by HTTP on port 80.
    Http,
}

/// How an order stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Look {
    /// Something is missing.
    Pending {
        /// All proofs that are wanted; those with [`Proof::accepted`] may stay or go.
        proofs: Vec<Proof>,
        /// What is waited for, for people.
        waits_for: String,
        /// When to look again if nothing happens before.
        again_in: Duration,
    },
    /// There it is.
    Issued(Certificate),
    /// This order will never be fulfilled; make another one (with the next serial) once the remedy is done.
    Failed {
        /// What the issuer says.
        reason: String,
        /// What to do.
        remedy: String,
    },
    /// The issuer knows nothing of the handle: it expired, or somebody removed it.
    Gone,
}

/// What shows that a name is ours.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Proof {
    /// The name that is proven, without the wildcard's label.
    pub domain: Name,
    /// What has to be there.
    pub what: ProofData,
    /// Whether the issuer has seen it.
    pub accepted: bool,
    /// What the issuer missed when it looked, if it told.
    pub problem: Option<String>,
}

/// What has to be there.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum ProofData {
    /// A TXT record; one name may have to hold several of these at a time.
    Txt {
        /// Where.
        name: Name,
        /// Its text.
        text: String,
    },
    /// A CNAME; it has to stay for as long as the certificate is to be renewed.
    Cname {
        /// Where.
        name: Name,
        /// The other name.
        target: Name,
    },
    /// An answer to `GET http://host/path`.
    Http {
        /// The host.
        host: Name,
        /// The path, from `/.well-known/acme-challenge/` on.
        path: String,
        /// The whole body.
        body: String,
    },
}

/// A certificate that was issued.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Certificate {
    /// What to hand to a gateway.
    pub material: Material,
    /// Its names.
    pub names: BTreeSet<Name>,
    /// Who signed it.
    pub issuer: String,
    /// Its serial number in hexadecimal digits.
    pub serial: String,
    /// Good from.
    pub not_before: SystemTime,
    /// Good until.
    pub not_after: SystemTime,
}

/// What a gateway is handed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Material {
    /// The chain as PEM, leaf first; the key is the caller's.
    Chain(String),
    /// The ARN; the key is Amazon's.
    Arn(String),
}

/// When a certificate is renewed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Renewal {
    /// By the issuer itself.
    ByIssuer,
    /// By another order.
    ByOrder {
        /// From when on.
        at: SystemTime,
        /// When to ask again, since the issuer may change its mind.
        ask_again_in: Duration,
        /// Why then, for people.
        reason: String,
    },
}

/// A private key that was made here. It has no `Debug`, and is wiped from memory when it is dropped.
#[derive(Clone, PartialEq, Eq)]
pub struct PrivateKey(Secret);

impl PrivateKey {
    /// A new one (ECDSA on P-256).
    ///
    /// # Errors
    /// When the machine has no randomness to give.
    pub fn generate() -> Result<Self, Error> {
        let key =
            rcgen::KeyPair::generate().map_err(|error| Error::unavailable("the random generator", error))?;
        Ok(Self(Secret::new(key.serialize_pem())))
    }

    /// Reads what [`Self::to_pem`] gave.
    ///
    /// # Errors
    /// When there is no key in it.
    pub fn from_pem(pem: &str) -> Result<Self, Error> {
        let key = Self(Secret::new(pem.to_owned()));
        key.pair().map(|_| key)
    }

    /// The key as text (PKCS#8), to be stored where only those who serve the certificate may read it.
    pub fn to_pem(&self) -> &str {
        self.0.expose()
    }

    pub(crate) fn pair(&self) -> Result<rcgen::KeyPair, Error> {
        rcgen::KeyPair::from_pem(self.to_pem()).map_err(|_| {
            // What the parser says could quote from the key.
            Error::invalid("the stored private key can't be read", "remove it, and a new one is made")
        })
    }
}

/// The records that show the proofs among these that are shown by DNS: what each name should have.
pub fn proof_records(proofs: &[Proof]) -> BTreeMap<Name, Wanted> {
    let mut records = BTreeMap::new();
    for proof in proofs {
        match &proof.what {
            ProofData::Txt { name, text } => {
                let mut wanted = records.remove(name);
                if let Some(Wanted::Texts { texts, .. }) = &mut wanted {
                    texts.insert(text.clone());
                }
                let one = || Wanted::Texts { texts: [text.clone()].into(), ttl: PROOF_TTL };
                records.insert(name.clone(), wanted.unwrap_or_else(one));
            }
            ProofData::Cname { name, target } => {
                let canonical = Wanted::Canonical { target: target.clone(), ttl: PROOF_TTL };
                records.insert(name.clone(), canonical);
            }
            ProofData::Http { .. } => {}
        }
    }
    records
}

/// Proofs change and are asked for seldom, so they are kept shortly, in seconds.
const PROOF_TTL: u32 = 60;
