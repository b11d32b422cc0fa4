//! The OpenAPI documents: one of version 3 for each group and version, their index, and one of version 2 for older
//! clients. A document is built when it is first asked for and kept as long as the listing it was made from.

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
use serde_json::{Map, Value, json};

use crate::accept;
use crate::catalog::Listing;
use crate::discovery::REVIEWS;
use crate::error::{ApiError, Reason};

/// A document, ready to be sent as `application/json`.
#[derive(Debug, Clone)]
pub struct Document {
    pub body: Bytes,
    /// Without quotes.
    pub etag: String,
    /// The client asked for exactly this content by its hash and may keep it for ever.
    pub immutable: bool,
}

/// Builds and keeps documents. One for a server.
#[derive(Default)]
pub struct Documents {
    cache: Mutex<Cache>,
}

#[derive(Default)]
struct Cache {
    /// What the rest was made from. A weak pointer keeps the address from being used again.
    listing: Weak<Listing>,
    documents: BTreeMap<String, Document>,
    index: Option<Document>,
}

impl Documents {
    /// Answers a path below `/openapi` (`["openapi", "v3", "apis", "apps", "v1"]`); `None` when there is no such
    /// document. `hash` is the query parameter of that name, empty when absent.
    pub fn respond(
        &self,
        path: &[&str],
        accept: &str,
        hash: &str,
        listing: &Arc<Listing>,
    ) -> Option<Result<Document, ApiError>> {
        let name = match path {
            ["openapi", "v2"] => "v2".to_owned(),
            ["openapi", "v3", rest @ ..] => rest.join("/"),
            _ => return None,
        };
        let clauses = accept::parse(accept);
        if !clauses.is_empty() && !clauses.iter().any(accept::Clause::takes_json) {
            let message = "only the following media types are accepted: application/json";
            return Some(Err(ApiError::new(406, Reason::NotAcceptable, message)));
        }
        let mut cache = self.cache.lock().expect("no panic while holding the documents");
        if !std::ptr::eq(cache.listing.as_ptr(), Arc::as_ptr(listing)) {
            *cache = Cache {
                listing: Arc::downgrade(listing),
                ..Cache::default()
            };
        }
        let document = match name.as_str() {
            "" => cache.index.get_or_insert_with(|| index(listing)).clone(),
            _ => match cache.documents.get(&name) {
                Some(document) => document.clone(),
                None => {
                    let document = seal(&build(&name, listing)?);
                    cache.documents.insert(name, document.clone());
                    document
                }
            },
        };
        let immutable = !hash.is_empty() && hash == document.etag;
        Some(Ok(Document {
            immutable,
            ..document
        }))
    }
}

/// The groups and versions that have a document, `("", "v1")` among them.
fn group_versions(listing: &Listing) -> BTreeSet<(String, String)> {
    let stored = listing.iter().map(|r| (r.group.clone(), r.version.clone()));
    stored
        .chain(REVIEWS.iter().map(|r| (r.group.to_owned(), r.version.to_owned())))
        .collect()
}

fn build(name: &str, listing: &Listing) -> Option<Value> {
    if name == "v2" {
        return Some(v2::document(listing));
    }
    let (group, version) = match name.split('/').collect::<Vec<_>>()[..] {
        ["api", version] => ("", version),
        ["apis", group, version] if !group.is_empty() => (group, version),
        _ => return None,
    };
    let known = group_versions(listing).contains(&(group.to_owned(), version.to_owned()));
    known.then(|| v3::document(group, version, listing))
}

fn index(listing: &Listing) -> Document {
    let mut paths = Map::new();
    for (group, version) in group_versions(listing) {
        let name = paths::base(&group, &version);
        let etag = seal(&v3::document(&group, &version, listing)).etag;
        let url = format!("/openapi/v3{name}?hash={etag}");
        paths.insert(
            name.trim_start_matches('/').to_owned(),
            json!({ "serverRelativeURL": url }),
        );
    }
    seal(&json!({ "paths": paths }))
}

fn seal(document: &Value) -> Document {
    let body = Bytes::from(document.to_string());
    let mut etag = String::new();
    for byte in digest(&SHA256, &body).as_ref() {
        etag.extend([byte >> 4, byte & 15].map(|half| char::from(b"0123456789ABCDEF"[usize::from(half)])));
    }
    Document {
        body,
        etag,
        immutable: false,
    }
}

fn info() -> Value {
    json!({ "title": "Causeway", "version": concat!("v", env!("CARGO_PKG_VERSION")) })
}

#[cfg(test)]
mod tests;
