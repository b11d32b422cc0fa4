//! Reads the logs of containers for `kubectl logs`: follow, previous, tail, since, timestamps, limit.
//! The shim writes them (see [`crate::shim`]); reading needs only the data directory.

mod line;
mod source;

use std::{
    io,
    path::{Path, PathBuf},
    time::Duration,
};

use bytes::Bytes;
use futures::Stream;
use jiff::Timestamp;
use tokio::sync::mpsc;

use self::{line::Filter, source::Source};
use crate::{layout::PodDir, process::attempt::Attempt};

/// What part of a log is wanted, and how.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LogOptions {
    /// Keep going while the container runs.
    pub follow: bool,
    /// The log of the attempt before this one.
    pub previous: bool,
    /// Only the last lines.
    pub tail_lines: Option<u64>,
    /// Only lines younger than this.
    pub since_seconds: Option<u64>,
    /// Only lines from this time on.
    pub since_time: Option<Timestamp>,
    /// Put the time before each line.
    pub timestamps: bool,
    /// Stop after so many bytes.
    pub limit_bytes: Option<u64>,
}

/// Why a log cannot be read; the text is what the API answers.
#[derive(Debug, thiserror::Error)]
pub enum LogError {
    /// A 400 in the API.
    #[error("container {container:?} in pod {pod:?} is waiting to start: ContainerCreating")]
    NotStarted { pod: String, container: String },
    /// A 400 in the API.
    #[error("previous terminated container {container:?} in pod {pod:?} not found")]
    NoPrevious { pod: String, container: String },
    /// A 500 in the API.
    #[error("cannot read the log of container {container:?} in {path}")]
    Read { container: String, path: PathBuf, source: io::Error },
}

/// Opens the logs below a node's data directory.
#[derive(Clone, Debug)]
pub struct LogReader {
    data_dir: PathBuf,
}

impl LogReader {
    /// A reader for the node with this data directory.
    pub fn new(data_dir: impl Into<PathBuf>) -> Self {
        Self { data_dir: data_dir.into() }
    }

    /// Starts reading; the stream ends at the end of the log, or with the container when following.
    ///
    /// # Errors
    /// When the pod has no such container, or its log can't be read.
    pub async fn open(
        &self,
        namespace: &str,
        pod: &str,
        container: &str,
        options: LogOptions,
    ) -> Result<impl Stream<Item = io::Result<Bytes>> + Send + use<>, LogError> {
        let failed = |path: &Path, source| LogError::Read {
            container: container.to_owned(),
            path: path.to_owned(),
            source,
        };
        let not_started = || LogError::NotStarted { pod: pod.to_owned(), container: container.to_owned() };
        let dir = PodDir::find(&self.data_dir, namespace, pod)
            .map_err(|source| failed(&self.data_dir, source))?
            .ok_or_else(not_started)?;
        let mut attempts =
            Attempt::numbers(&dir.container(container)).map_err(|source| failed(dir.path(), source))?;
        attempts.sort_unstable();
        let newest = attempts.pop().ok_or_else(not_started)?;
        let number = if !options.previous || dir.waiting_mark(container).exists() {
            newest
        } else {
            attempts.pop().ok_or_else(|| LogError::NoPrevious {
                pod: pod.to_owned(),
                container: container.to_owned(),
            })?
        };
        let attempt = Attempt::at(dir.attempt(container, number));
        let source = Source::open(attempt.clone(), options.tail_lines)
            .await
            .map_err(|source| failed(attempt.directory(), source))?;
        Ok(stream(source, options))
    }
}

fn stream(source: Source, options: LogOptions) -> impl Stream<Item = io::Result<Bytes>> + Send {
    let since_seconds = options
        .since_seconds
        .and_then(|seconds| Timestamp::now().checked_sub(Duration::from_secs(seconds)).ok());
    let filter = Filter::new(options.since_time.max(since_seconds), options.timestamps, options.limit_bytes);
    // log task → response body; the bound holds the reader back when the client is slow
    let (chunk_tx, chunk_rx) = mpsc::channel(4);
    tokio::spawn(async move {
        let closed = chunk_tx.clone();
        tokio::select! {
            () = closed.closed() => {}
            () = source.copy(filter, options.follow, chunk_tx) => {}
        }
    });
    futures::stream::unfold(chunk_rx, |mut chunk_rx| async move {
        chunk_rx.recv().await.map(|chunk| (chunk, chunk_rx))
    })
}

#[cfg(test)]
mod tests;
