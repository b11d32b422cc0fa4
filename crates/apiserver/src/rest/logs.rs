//! Logs of objects: `GET .../NAME/log` for the custom kinds that a part of this process keeps logs of. To read one is a
//! right of its own, as it is for pods.

use std::sync::Arc;

use axum::body::Body;
use axum::response::Response;
use bytes::Bytes;
use futures::future::BoxFuture;
use futures::stream::BoxStream;
use http::StatusCode;

use super::{Call, body, read};
use crate::error::{ApiError, Reason};
use crate::object;
use crate::store::{GroupResource, Key, Store};

/// The subresource's name.
pub(crate) const LOG: &str = "log";

/// Which part of an object's log.
#[derive(Default)]
pub struct LogOptions {
    /// Go on with what is added until this is over; then send what is there and end.
    pub follow_until: Option<BoxFuture<'static, ()>>,
    /// Begin each line with its time.
    pub timestamps: bool,
    /// Only the last lines of what is there already.
    pub tail_lines: Option<u64>,
}

/// The part of this process that keeps the logs of a kind's objects.
pub trait ObjectLogs: Send + Sync {
    /// Opens the log of one object, which exists, or of one that is gone, if it left any.
    fn open(
        &self,
        namespace: String,
        name: String,
        options: LogOptions,
    ) -> BoxFuture<'static, Result<BoxStream<'static, std::io::Result<Bytes>>, ApiError>>;

    /// Whether an object of this name that is gone left a log.
    fn is_left(&self, namespace: &str, name: &str) -> bool;
}

pub(crate) async fn log(call: &Call<'_>, name: &str) -> Result<Response, ApiError> {
    let key = call.key(name);
    let found = read::require(call, &key);
    let Some(logs) = call.server.object_logs(&call.resource.group, &call.resource.plural) else {
        return Err(ApiError::new(
            503,
            Reason::ServiceUnavailable,
            format!("nobody beside this server keeps logs of {}", call.resource.plural),
        ));
    };
    let namespace = call.namespace.clone().unwrap_or_default();
    let mut follow_until: Option<BoxFuture<'static, ()>> = None;
    match found {
        Ok(found) if call.options.flag("follow") => {
            let uid = object::meta(&found.value(), "uid").to_owned();
            let (store, shutdown) = (call.server.store.clone(), call.server.shutdown.clone());
            let gone = gone(store, call.collection(), key, uid);
            follow_until = Some(Box::pin(async move {
                tokio::select! {
                    () = gone => {}
                    () = shutdown.cancelled() => {}
                }
            }));
        }
        Err(missing) if !logs.is_left(&namespace, name) => return Err(missing),
        // A log outlives its object; there is nothing to follow then.
        Ok(_) | Err(_) => {}
    }
    let options = LogOptions {
        follow_until,
        timestamps: call.options.flag("timestamps"),
        tail_lines: call.options.whole("tailLines")?,
    };
    let lines = logs.open(namespace, name.to_owned(), options).await?;
    Ok(body::raw(StatusCode::OK, "text/plain", Body::from_stream(lines)))
}

/// Ends when this very object is gone; one that came after it under the same name is another.
async fn gone(store: Arc<Store>, collection: GroupResource, key: Key, uid: String) {
    let is_there = || store.get(&key).is_some_and(|stored| object::meta(&stored.value(), "uid") == uid);
    loop {
        // Begun before the look, so that no change in between is missed.
        let Ok(mut watcher) = store.watch(&collection, None) else { return };
        loop {
            if !is_there() {
                return;
            }
            if watcher.next().await.is_err() {
                break;
            }
        }
    }
}
