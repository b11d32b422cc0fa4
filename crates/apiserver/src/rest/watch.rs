//! Watching: the initial objects where asked for, then every change that concerns the selector, until the time is
//! up. The stream pulls from the store's history, so a reader that stalls holds nothing but its position.

use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::response::Response;
use bytes::{BufMut, Bytes, BytesMut};
use causeway_base::random;
use futures::stream;
use http::StatusCode;
use serde_json::{Value, json};
use tokio::time::{Instant, Interval, MissedTickBehavior, Sleep};
use tokio_util::sync::WaitForCancellationFutureOwned;

use super::read::{self, Filter, parse_revision};
use super::{Call, body};
use crate::error::{ApiError, FieldError, Reason};
use crate::request::Options;
use crate::resource::Resource;
use crate::store::{Change, ChangeKind, Compacted, Stored, Watcher, frame};
use crate::table::{self, Form, IncludeObject};

const BOOKMARK_PERIOD: Duration = Duration::from_secs(30);
/// Longer than any watch lives, and short enough to be added to a time.
const LONGEST_SECONDS: u64 = 366 * 24 * 3600;
/// Initial objects are sent in pieces of about this size.
const CHUNK: usize = 64 << 10;
const INITIAL_EVENTS_END: &str = "k8s.io/initial-events-end";

pub(super) fn watch(call: &Call<'_>) -> Result<Response, ApiError> {
    let options = call.options;
    check_match(options)?;
    if call.accept().starts_with("application/yaml") {
        let message = "only the following media types are accepted: application/json;stream=watch, application/vnd.kubernetes.protobuf;stream=watch";
        return Err(ApiError::new(406, Reason::NotAcceptable, message));
    }
    let filter = Filter::parse(call.resource, options)?;
    let asked = parse_revision(&options.resource_version)?;
    let send_initial = options.send_initial_events.unwrap_or(asked == 0);
    let store = &call.server.store;
    let collection = call.collection();
    let (initial, from) = if send_initial {
        let snapshot = store.list(&collection, call.namespace.as_deref());
        (snapshot.items, Some(snapshot.revision))
    } else {
        (Vec::new(), (asked > 0).then_some(asked))
    };
    let watcher = match store.watch(&collection, from) {
        Ok(watcher) => watcher,
        // An event, not a refusal: clients take it as the end of a watch, after which they list again.
        Err(gone) => return Ok(body::raw(StatusCode::OK, "application/json", Body::from(expired(gone)))),
    };
    let seconds = options.timeout_seconds.filter(|s| *s > 0).unwrap_or_else(|| 1800 + random::below(1800));
    let seconds = seconds.min(LONGEST_SECONDS);
    let mut bookmarks = tokio::time::interval_at(Instant::now() + BOOKMARK_PERIOD, BOOKMARK_PERIOD);
    bookmarks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let feed = Feed {
        resource: call.resource_arc.clone(),
        namespace: call.namespace.clone(),
        filter,
        form: call.form,
        include: read::include_object(call),
        convert: !call.resource.is_stored_form(),
        initial: initial.into_iter(),
        end_of_initial: options.send_initial_events == Some(true) && options.allow_watch_bookmarks,
        bookmarks_wanted: options.allow_watch_bookmarks,
        bookmarks,
        watcher,
        deadline: Box::pin(tokio::time::sleep(Duration::from_secs(seconds))),
        shutdown: Box::pin(call.server.shutdown.clone().cancelled_owned()),
        headers_sent: false,
        done: false,
        _open: call.server.metrics.watch_opened(),
    };
    let chunks = stream::unfold(feed, |mut feed| async move {
        let chunk = feed.next().await?;
        Some((Ok::<_, std::convert::Infallible>(chunk), feed))
    });
    Ok(body::raw(StatusCode::OK, "application/json", Body::from_stream(chunks)))
}

/// Whether the options of a watch belong together; in Kubernetes' words.
fn check_match(options: &Options) -> Result<(), ApiError> {
    let path = "resourceVersionMatch";
    let wanted = options.resource_version_match.as_str();
    let mut errors = Vec::new();
    if options.send_initial_events.is_none() && !wanted.is_empty() {
        let detail = "resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided";
        errors.push(FieldError::forbidden(path, detail));
    } else if options.send_initial_events.is_some() && wanted != "NotOlderThan" {
        let detail = "sendInitialEvents requires setting resourceVersionMatch to NotOlderThan";
        errors.push(FieldError::forbidden(path, detail));
        if !wanted.is_empty() {
            errors.push(FieldError::not_supported(path, &json!(wanted), &["NotOlderThan"]));
        }
    }
    if errors.is_empty() { Ok(()) } else { Err(ApiError::invalid("meta.k8s.io", "ListOptions", "", &errors)) }
}

struct Feed {
    resource: Arc<Resource>,
    namespace: Option<String>,
    filter: Filter,
    form: Form,
    include: IncludeObject,
    /// Stored text can't be sent as it is.
    convert: bool,
    initial: std::vec::IntoIter<Arc<Stored>>,
    end_of_initial: bool,
    bookmarks_wanted: bool,
    bookmarks: Interval,
    watcher: Watcher,
    // Kept over all events: to register a timer and a waiter anew for each would cost more than the event.
    deadline: Pin<Box<Sleep>>,
    shutdown: Pin<Box<WaitForCancellationFutureOwned>>,
    headers_sent: bool,
    done: bool,
    _open: crate::metrics::OpenWatch,
}

impl Feed {
    /// The next piece of the response; `None` ends it.
    async fn next(&mut self) -> Option<Bytes> {
        if self.done {
            return None;
        }
        if let Some(chunk) = self.initial_chunk() {
            return Some(chunk);
        }
        loop {
            tokio::select! {
                biased;
                () = &mut self.shutdown => return None,
                changes = self.watcher.next() => match changes {
                    Ok(changes) => {
                        let chunk = self.changes_chunk(&changes);
                        if !chunk.is_empty() {
                            return Some(chunk);
                        }
                    }
                    Err(gone) => return Some(self.gone(gone)),
                },
                _ = self.bookmarks.tick(), if self.bookmarks_wanted => return Some(self.bookmark(false)),
                () = &mut self.deadline => {
                    self.done = true;
                    return self.bookmarks_wanted.then(|| self.bookmark(false));
                }
            }
        }
    }

    fn initial_chunk(&mut self) -> Option<Bytes> {
        let mut chunk = BytesMut::new();
        while chunk.len() < CHUNK {
            let Some(object) = self.initial.next() else { break };
            if self.filter.matches(&self.resource, &object) {
                let line = self.line(ChangeKind::Added, &object);
                chunk.put_slice(&line);
            }
        }
        if self.initial.len() == 0 && self.end_of_initial {
            self.end_of_initial = false;
            let bookmark = self.bookmark(true);
            chunk.put_slice(&bookmark);
        }
        (!chunk.is_empty()).then(|| chunk.freeze())
    }

    fn changes_chunk(&mut self, changes: &[Arc<Change>]) -> Bytes {
        if let [change] = changes {
            return self.event(change).unwrap_or_default();
        }
        let mut chunk = BytesMut::new();
        for change in changes {
            if let Some(line) = self.event(change) {
                chunk.put_slice(&line);
            }
        }
        chunk.freeze()
    }

    /// What a change means to this selector: an object that leaves it is deleted, one that enters it is added.
    fn event(&mut self, change: &Change) -> Option<Bytes> {
        if self.namespace.as_deref().is_some_and(|ns| ns != &*change.object.key.namespace) {
            return None;
        }
        if self.filter.is_empty() {
            return Some(match self.form {
                Form::Whole if !self.convert => change.frame(),
                _ => self.line(change.kind, &change.object),
            });
        }
        let was = change.previous.as_ref().is_some_and(|p| self.filter.matches(&self.resource, p));
        let is = change.kind != ChangeKind::Deleted && self.filter.matches(&self.resource, &change.object);
        match (was, is) {
            (false, false) => None,
            (false, true) => Some(self.line(ChangeKind::Added, &change.object)),
            (true, true) => Some(self.line(ChangeKind::Modified, &change.object)),
            (true, false) => Some(match change.previous.as_ref() {
                Some(last) if change.kind != ChangeKind::Deleted => self.left(last, &change.object),
                _ => self.line(ChangeKind::Deleted, &change.object),
            }),
        }
    }

    /// An object that left the selector is deleted as it last was in it, at the revision of the change.
    fn left(&mut self, last: &Stored, now: &Stored) -> Bytes {
        let mut value = read::view(&self.resource, last);
        value["metadata"]["resourceVersion"] = json!(now.revision.to_string());
        self.value_line(ChangeKind::Deleted, value)
    }

    fn line(&mut self, kind: ChangeKind, object: &Stored) -> Bytes {
        if self.form == Form::Whole && !self.convert {
            return frame(kind, &object.json);
        }
        self.value_line(kind, read::view(&self.resource, object))
    }

    fn value_line(&mut self, kind: ChangeKind, value: Value) -> Bytes {
        let value = match self.form {
            Form::Whole => value,
            Form::Metadata(version) | Form::MetadataList(version) => table::metadata(version, &value),
            Form::Table(version) => {
                let now = jiff::Timestamp::now();
                let headers = !std::mem::replace(&mut self.headers_sent, true);
                let meta = &value["metadata"];
                table::render(
                    version,
                    &self.resource,
                    std::slice::from_ref(&value),
                    meta,
                    self.include,
                    now,
                    headers,
                )
            }
        };
        event_line(kind.as_str(), &value)
    }

    fn bookmark(&mut self, initial_end: bool) -> Bytes {
        let mut metadata = json!({"resourceVersion": self.watcher.position().to_string()});
        if initial_end {
            metadata["annotations"] = json!({INITIAL_EVENTS_END: "true"});
        }
        let object = json!({
            "kind": self.resource.kind, "apiVersion": self.resource.api_version(), "metadata": metadata,
        });
        let object = match self.form {
            Form::Whole => object,
            Form::Metadata(version) | Form::MetadataList(version) => table::metadata(version, &object),
            Form::Table(version) => json!({
                "kind": "Table", "apiVersion": version.api_version(), "columnDefinitions": null,
                "metadata": {"resourceVersion": metadata["resourceVersion"]},
                "rows": [{"cells": [], "object": table::metadata(version, &object)}],
            }),
        };
        event_line("BOOKMARK", &object)
    }

    fn gone(&mut self, gone: Compacted) -> Bytes {
        self.done = true;
        expired(gone)
    }
}

fn expired(gone: Compacted) -> Bytes {
    event_line("ERROR", &ApiError::expired(gone.to_string()).to_json())
}

fn event_line(kind: &str, object: &Value) -> Bytes {
    Bytes::from(format!("{{\"type\":\"{kind}\",\"object\":{object}}}\n"))
}
