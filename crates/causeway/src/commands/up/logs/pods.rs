//! Pods' logs (`pods/log`), from the node's log files.

use std::path::Path;

use bytes::Bytes;
use causeway_apiserver::{ApiError, PodLogOptions, PodLogs};
use causeway_node::{LogError, LogReader};
use futures::StreamExt;
use futures::future::BoxFuture;
use futures::stream::BoxStream;

/// The log files of the node in this process.
pub(in crate::commands::up) struct PodLogFiles {
    reader: LogReader,
}

impl PodLogFiles {
    pub(in crate::commands::up) fn new(node_dir: &Path) -> Self {
        Self { reader: LogReader::new(node_dir) }
    }
}

impl PodLogs for PodLogFiles {
    fn open(
        &self,
        namespace: String,
        pod: String,
        options: PodLogOptions,
    ) -> BoxFuture<'static, Result<BoxStream<'static, std::io::Result<Bytes>>, ApiError>> {
        let reader = self.reader.clone();
        Box::pin(async move {
            let since_time = match options.since_time.as_deref() {
                None | Some("") => None,
                Some(text) => Some(text.parse().map_err(|_| {
                    ApiError::bad_request(format!(
                        "sinceTime: Invalid value: {text:?}: write an RFC 3339 time"
                    ))
                })?),
            };
            let read = causeway_node::LogOptions {
                follow: options.follow,
                previous: options.previous,
                tail_lines: options.tail_lines,
                since_seconds: options.since_seconds,
                since_time,
                timestamps: options.timestamps,
                limit_bytes: options.limit_bytes,
            };
            match reader.open(&namespace, &pod, &options.container, read).await {
                Ok(lines) => Ok(lines.boxed()),
                Err(error @ LogError::Read { .. }) => Err(ApiError::internal(error.to_string())),
                Err(error) => Err(ApiError::bad_request(error.to_string())),
            }
        })
    }
}
