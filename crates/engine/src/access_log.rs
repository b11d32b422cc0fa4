//! One JSON line per connection, or per request where requests are looked at. Lines are written by a thread of their own: a slow disk or terminal never holds up
//! a connection, and lines that do not fit into the queue are counted as lost.

use std::io::Write;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::mpsc::{SyncSender, sync_channel};

use causeway_ir::Address;
use serde::Serialize;

use crate::close_reason::CloseReason;

const QUEUE: usize = 16 << 10;

/// Where the log goes.
#[derive(Debug, Clone, Default)]
pub enum AccessLog {
    /// Nowhere.
    #[default]
    Off,
    /// To standard output.
    Stdout,
    /// Appended to a file.
    File(PathBuf),
}

/// What is said of a connection.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Line<'a> {
    pub(crate) time: String,
    pub(crate) listener: &'a str,
    pub(crate) client: SocketAddr,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) server_name: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) route: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) cluster: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) endpoint: Option<&'a Address>,
    pub(crate) attempts: u32,
    pub(crate) bytes_up: u64,
    pub(crate) bytes_down: u64,
    /// Until it was clear what the client wants.
    pub(crate) handshake_millis: u64,
    /// Until an endpoint answered.
    pub(crate) connect_millis: u64,
    pub(crate) duration_millis: u64,
    pub(crate) reason: CloseReason,
}

/// The way to the writing thread.
#[derive(Clone, Default)]
pub(crate) struct Sender(Option<SyncSender<Vec<u8>>>);

impl Sender {
    pub(crate) fn is_on(&self) -> bool {
        self.0.is_some()
    }

    /// Whether the line will be written.
    pub(crate) fn write(&self, line: &impl Serialize) -> bool {
        let Some(queue) = &self.0 else { return true };
        let Ok(mut text) = serde_json::to_vec(line) else { return false };
        text.push(b'\n');
        queue.try_send(text).is_ok()
    }
}

/// Opens the log and starts its thread, which ends with the last sender.
pub(crate) fn start(log: &AccessLog) -> std::io::Result<Sender> {
    let mut sink: Box<dyn Write + Send> = match log {
        AccessLog::Off => return Ok(Sender(None)),
        AccessLog::Stdout => Box::new(std::io::stdout()),
        AccessLog::File(path) => Box::new(std::fs::OpenOptions::new().create(true).append(true).open(path)?),
    };
    let (line_tx, line_rx) = sync_channel::<Vec<u8>>(QUEUE);
    std::thread::Builder::new().name("access-log".into()).spawn(move || {
        let mut batch = Vec::new();
        while let Ok(first) = line_rx.recv() {
            batch.extend_from_slice(&first);
            while batch.len() < 64 << 10
                && let Ok(next) = line_rx.try_recv()
            {
                batch.extend_from_slice(&next);
            }
            if let Err(error) = sink.write_all(&batch).and_then(|()| sink.flush()) {
                tracing::warn!(%error, "access log lines were not written");
            }
            batch.clear();
        }
    })?;
    Ok(Sender(Some(line_tx)))
}
