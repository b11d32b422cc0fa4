//! The OpenAPI documents: one of version 3 for each group and version, their index, and one of version 2 for older
//! clients. A document is built when it is first asked for and kept until one of its resources changes.

mod components;
mod custom;
mod operations;
mod paths;
mod v2;
mod v3;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, Weak};

use aws_lc_rs::digest::{SHA256, digest};
use bytes::Bytes;
use causeway_base::lock::lock;
use serde_json::{Map, Value, json};

use crate::accept;
use crate::catalog::Listing;
use crate::discovery::REVIEWS;
use crate::error::{ApiError, Reason};
use crate::resource::Resource;

/// A document, ready to be sent as `application/json`.
#[derive(Debug, Clone)]
pub(crate) struct Document {
    pub body: Bytes,
    /// Without quotes.
    pub etag: String,
    /// The client asked for exactly this content by its hash and may keep it for ever.
    pub immutable: bool,
}

/// Builds and keeps documents. One for a server.
#[derive(Default)]
pub(crate) struct Documents {
    cache: Mutex<Cache>,
}

#[derive(Default)]
struct Cache {
    /// What the index and the v2 document were made from. Weak pointers keep an address from being used again.
    listing: Weak<Listing>,
    index: Option<Document>,
    v2: Option<Document>,
    /// By group and version.
    v3: BTreeMap<(String, String), Kept>,
}

/// A v3 document, valid as long as its group and version has the same resources.
struct Kept {
    resources: Vec<Weak<Resource>>,
    etag: String,
    /// Left out until the document itself is asked for: the index needs only the tag.
    document: Option<Document>,
}

impl Documents {
    /// Answers a path below `/openapi` (`["openapi", "v3", "apis", "apps", "v1"]`); `None` when there is no such
    /// document. `hash` is the query parameter of that name, empty when absent.
    pub(crate) fn respond(
        &self,
        path: &[&str],
        accept: &str,
        hash: &str,
        listing: &Arc<Listing>,
    ) -> Option<Result<Document, ApiError>> {
        let clauses = accept::parse(accept);
        if !clauses.is_empty() && !clauses.iter().any(accept::Clause::takes_json) {
            let message = "only the following media types are accepted: application/json";
            return Some(Err(ApiError::new(406, Reason::NotAcceptable, message)));
        }
        let mut cache = lock(&self.cache);
        cache.follow(listing);
        let document = match path {
            ["openapi", "v2"] => cache.v2.get_or_insert_with(|| seal(&v2::document(listing))).clone(),
            ["openapi", "v3"] => cache.index(listing),
            ["openapi", "v3", "api", version] => cache.group_version("", version, listing)?,
            ["openapi", "v3", "apis", group, version] if !group.is_empty() => {
                cache.group_version(group, version, listing)?
            }
            _ => return None,
        };
        let immutable = !hash.is_empty() && hash == document.etag;
        Some(Ok(Document { immutable, ..document }))
    }
}

impl Cache {
    /// Forgets what another listing was the source of.
    fn follow(&mut self, listing: &Arc<Listing>) {
        if std::ptr::eq(self.listing.as_ptr(), Arc::as_ptr(listing)) {
            return;
        }
        let served = group_versions(listing);
        self.v3.retain(|key, kept| served.contains(key) && kept.is_of(&key.0, &key.1, listing));
        (self.index, self.v2) = (None, None);
        self.listing = Arc::downgrade(listing);
    }

    fn group_version(&mut self, group: &str, version: &str, listing: &Listing) -> Option<Document> {
        let key = (group.to_owned(), version.to_owned());
        if let Some(document) = self.v3.get(&key).and_then(|kept| kept.document.clone()) {
            return Some(document);
        }
        if !group_versions(listing).contains(&key) {
            return None;
        }
        let document = seal(&v3::document(group, version, listing));
        self.v3.insert(key, Kept::new(group, version, listing, &document, true));
        Some(document)
    }

    fn index(&mut self, listing: &Listing) -> Document {
        if let Some(index) = &self.index {
            return index.clone();
        }
        let mut paths = Map::new();
        for (group, version) in group_versions(listing) {
            let name = paths::base(&group, &version);
            let kept = self.v3.entry((group.clone(), version.clone())).or_insert_with(|| {
                let document = seal(&v3::document(&group, &version, listing));
                Kept::new(&group, &version, listing, &document, false)
            });
            let url = format!("/openapi/v3{name}?hash={}", kept.etag);
            paths.insert(name.trim_start_matches('/').to_owned(), json!({ "serverRelativeURL": url }));
        }
        self.index.insert(seal(&json!({ "paths": paths }))).clone()
    }
}

impl Kept {
    fn new(group: &str, version: &str, listing: &Listing, document: &Document, whole: bool) -> Self {
        Self {
            resources: resources(group, version, listing).map(Arc::downgrade).collect(),
            etag: document.etag.clone(),
            document: whole.then(|| document.clone()),
        }
    }

    fn is_of(&self, group: &str, version: &str, listing: &Listing) -> bool {
        let same =
            |(weak, arc): (&Weak<Resource>, &Arc<Resource>)| std::ptr::eq(weak.as_ptr(), Arc::as_ptr(arc));
        resources(group, version, listing).count() == self.resources.len()
            && self.resources.iter().zip(resources(group, version, listing)).all(same)
    }
}

/// The stored resources of one group and version, in the listing's order.
fn resources<'a>(
    group: &'a str,
    version: &'a str,
    listing: &'a Listing,
) -> impl Iterator<Item = &'a Arc<Resource>> {
    listing.iter().filter(move |r| r.group == group && r.version == version)
}

/// The groups and versions that have a document, `("", "v1")` among them.
fn group_versions(listing: &Listing) -> BTreeSet<(String, String)> {
    let stored = listing.iter().map(|r| (r.group.clone(), r.version.clone()));
    stored.chain(REVIEWS.iter().map(|r| (r.group.to_owned(), r.version.to_owned()))).collect()
}

fn seal(document: &Value) -> Document {
    let body = Bytes::from(document.to_string());
    let mut etag = String::new();
    for byte in digest(&SHA256, &body).as_ref() {
        etag.extend([byte >> 4, byte & 15].map(|half| char::from(b"0123456789ABCDEF"[usize::from(half)])));
    }
    Document { body, etag, immutable: false }
}

fn info() -> Value {
    json!({ "title": "Causeway", "version": concat!("v", env!("CARGO_PKG_VERSION")) })
}

#[cfg(test)]
mod tests;
