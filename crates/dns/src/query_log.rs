//! One JSON line per question, if asked for. Lines are written by a thread of their own: a slow disk never holds up an answer,
//! and lines that do not fit into the queue are counted as lost.

use std::io::Write;
use std::path::PathBuf;
use std::sync::mpsc::{SyncSender, sync_channel};

use prometheus_client::metrics::counter::Counter;
use serde::Serialize;

use crate::answer::Asker;
use crate::metrics::{self, Origin};
use crate::wire::name;
use crate::wire::query::Query;

const QUEUE: usize = 16 << 10;

/// Where the log goes.
#[derive(Debug, Clone, Default)]
pub enum QueryLogTarget {
    /// Nowhere.
    #[default]
    Off,
    /// To standard output.
    Stdout,
    /// Appended to a file.
    File(PathBuf),
}

#[derive(Serialize)]
struct Line<'a> {
    time: String,
    view: &'a str,
    client: std::net::IpAddr,
    transport: &'a str,
    name: String,
    #[serde(rename = "type")]
    kind: String,
    rcode: String,
    origin: &'a str,
}

/// The way to the writing thread.
#[derive(Clone, Default)]
pub(crate) struct QueryLog {
    queue: Option<SyncSender<Vec<u8>>>,
    lost: Counter,
}

impl QueryLog {
    /// Opens the log and starts its thread, which ends with the last sender.
    ///
    /// # Errors
    /// If the file can't be opened or there is no thread.
    pub(crate) fn start(target: &QueryLogTarget, lost: Counter) -> std::io::Result<Self> {
        let mut sink: Box<dyn Write + Send> = match target {
            QueryLogTarget::Off => return Ok(Self { queue: None, lost }),
            QueryLogTarget::Stdout => Box::new(std::io::stdout()),
            QueryLogTarget::File(path) => {
                Box::new(std::fs::OpenOptions::new().create(true).append(true).open(path)?)
            }
        };
        let (line_tx, line_rx) = sync_channel::<Vec<u8>>(QUEUE);
        std::thread::Builder::new().name("query-log".into()).spawn(move || {
            let mut batch = Vec::new();
            while let Ok(first) = line_rx.recv() {
                batch.extend_from_slice(&first);
                while batch.len() < 64 << 10
                    && let Ok(next) = line_rx.try_recv()
                {
                    batch.extend_from_slice(&next);
                }
                if let Err(error) = sink.write_all(&batch).and_then(|()| sink.flush()) {
                    tracing::warn!(%error, "query log lines were not written");
                }
                batch.clear();
            }
        })?;
        Ok(Self { queue: Some(line_tx), lost })
    }

    pub(crate) fn write(&self, view: &str, asker: Asker, query: &Query<'_>, rcode: u16, origin: Origin) {
        let Some(queue) = &self.queue else { return };
        let line = Line {
            time: jiff::Timestamp::now().to_string(),
            view,
            client: asker.address,
            transport: if asker.udp { "udp" } else { "tcp" },
            name: name::to_text(query.name.as_bytes()),
            kind: metrics::kind_text(query.kind),
            rcode: metrics::code_text(rcode),
            origin: origin.text(),
        };
        let text = serde_json::to_vec(&line).map(|mut text| {
            text.push(b'\n');
            text
        });
        if !text.is_ok_and(|text| queue.try_send(text).is_ok()) {
            self.lost.inc();
        }
    }
}
