//! The files of one attempt's log as one sequence of lines: the older file, the current one, and those that rotation adds.

use std::{
    io::{self, SeekFrom},
    os::unix::fs::MetadataExt,
    time::Duration,
};

use bytes::Bytes;
use tokio::{
    fs::File,
    io::{AsyncBufReadExt, AsyncReadExt, AsyncSeekExt, BufReader},
    sync::mpsc,
    time::sleep,
};

use super::line::Filter;
use crate::process::attempt::Attempt;

const CHUNK: usize = 32 * 1024;
const BLOCK: u64 = 64 * 1024;
const POLL: Duration = Duration::from_millis(100);

/// Open files of a log, oldest first.
pub(super) struct Source {
    attempt: Attempt,
    files: Vec<File>,
}

impl Source {
    /// Opens the log at its start, or so that only the last `tail` lines follow.
    pub(super) async fn open(attempt: Attempt, tail: Option<u64>) -> io::Result<Self> {
        let mut files = Vec::new();
        // The current file first: when a rotation comes in between, the older file is the same one and is left out.
        let current = optional(File::open(attempt.log()).await)?;
        let older = optional(File::open(attempt.rotated_log()).await)?;
        if let Some(older) = older {
            let same = match &current {
                Some(current) => inode(current).await? == inode(&older).await?,
                None => false,
            };
            if !same {
                files.push(older);
            }
        }
        files.extend(current);
        if let Some(tail) = tail {
            seek_to_tail(&mut files, tail).await?;
        }
        Ok(Self { attempt, files })
    }

    /// Sends the log through `filter` until its end; when following, until the container ended.
    pub(super) async fn copy(
        self,
        mut filter: Filter,
        follow: bool,
        chunk_tx: mpsc::Sender<io::Result<Bytes>>,
    ) {
        if let Err(error) = self.copy_lines(&mut filter, follow, &chunk_tx).await {
            // The receiver being gone is the usual end of a follow.
            let _ = chunk_tx.send(Err(error)).await;
        }
    }

    async fn copy_lines(
        self,
        filter: &mut Filter,
        follow: bool,
        chunk_tx: &mpsc::Sender<io::Result<Bytes>>,
    ) -> io::Result<()> {
        let Self { attempt, files } = self;
        let mut last = None;
        for file in files {
            let mut lines = Lines::new(file);
            if !lines.drain(filter, chunk_tx).await? {
                return Ok(());
            }
            last = Some(lines);
        }
        if !follow {
            return Ok(());
        }
        loop {
            // Asked before reading: what was written before the end is read after it.
            let ended = ended(&attempt);
            let rotated = match (&last, optional(tokio::fs::metadata(attempt.log()).await)?) {
                (Some(lines), Some(now)) => inode(lines.reader.get_ref()).await? != now.ino(),
                (None, Some(_)) => true,
                (_, None) => false,
            };
            if let Some(lines) = &mut last
                && !lines.drain(filter, chunk_tx).await?
            {
                return Ok(());
            }
            if rotated {
                last = optional(File::open(attempt.log()).await)?.map(Lines::new);
            } else if ended {
                return Ok(());
            } else {
                sleep(POLL).await;
            }
        }
    }
}

struct Lines {
    reader: BufReader<File>,
    /// A line that the writer has not finished yet.
    pending: Vec<u8>,
}

impl Lines {
    fn new(file: File) -> Self {
        Self { reader: BufReader::with_capacity(CHUNK, file), pending: Vec::new() }
    }

    /// Sends all whole lines up to the end of the file; false when no more are wanted.
    async fn drain(
        &mut self,
        filter: &mut Filter,
        chunk_tx: &mpsc::Sender<io::Result<Bytes>>,
    ) -> io::Result<bool> {
        let mut output = Vec::new();
        loop {
            let n = self.reader.read_until(b'\n', &mut self.pending).await?;
            let at_end = n == 0 || self.pending.last() != Some(&b'\n');
            if !at_end {
                self.pending.pop();
                filter.push(&self.pending, &mut output);
                self.pending.clear();
            }
            if !output.is_empty() && (at_end || filter.is_full() || output.len() >= CHUNK) {
                let chunk = Bytes::from(std::mem::take(&mut output));
                if chunk_tx.send(Ok(chunk)).await.is_err() {
                    return Ok(false);
                }
            }
            if filter.is_full() {
                return Ok(false);
            }
            if at_end {
                return Ok(true);
            }
        }
    }
}

/// Moves the files to where the last `tail` lines begin; drops files that lie before.
async fn seek_to_tail(files: &mut Vec<File>, tail: u64) -> io::Result<()> {
    let mut missing = tail;
    for index in (0..files.len()).rev() {
        let Some(file) = files.get_mut(index) else { break };
        let (start, found) = tail_start(file, missing).await?;
        file.seek(SeekFrom::Start(start)).await?;
        missing -= found;
        if missing == 0 {
            files.drain(..index);
            break;
        }
    }
    Ok(())
}

/// The offset at which the last `wanted` lines of `file` begin, and how many there are.
async fn tail_start(file: &mut File, wanted: u64) -> io::Result<(u64, u64)> {
    let length = file.metadata().await?.len();
    if wanted == 0 {
        return Ok((length, 0));
    }
    let mut ends = 0;
    let mut block_end = length;
    let mut block = Vec::new();
    while block_end > 0 {
        let block_start = block_end.saturating_sub(BLOCK);
        block.resize((block_end - block_start) as usize, 0);
        file.seek(SeekFrom::Start(block_start)).await?;
        file.read_exact(&mut block).await?;
        for (index, _) in block.iter().enumerate().rev().filter(|(_, byte)| **byte == b'\n') {
            // The line end at `wanted + 1` from the back is the one before the first wanted line.
            if ends == wanted {
                return Ok((block_start + index as u64 + 1, wanted));
            }
            ends += 1;
        }
        block_end = block_start;
    }
    Ok((0, ends))
}

fn ended(attempt: &Attempt) -> bool {
    if matches!(attempt.exit(), Ok(Some(_))) {
        return true;
    }
    !matches!(attempt.record(), Ok(Some(record)) if record.shim.is_alive())
}

async fn inode(file: &File) -> io::Result<u64> {
    Ok(file.metadata().await?.ino())
}

fn optional<T>(result: io::Result<T>) -> io::Result<Option<T>> {
    match result {
        Ok(value) => Ok(Some(value)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}
