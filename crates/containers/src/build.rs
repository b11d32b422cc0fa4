//! Building an image by the runtime's own builder. The context is streamed from disk, so that a large
//! binary is never held in memory, and the output is handed on line by line.

use std::collections::{BTreeMap, VecDeque};
use std::fs;
use std::io::{self, Write};
use std::path::PathBuf;

use bollard::query_parameters::BuildImageOptions;
use bytes::Bytes;
use futures::StreamExt as _;
use tokio::sync::mpsc;

use crate::{Error, ErrorKind, Image, Result, Runtime};

/// How many lines of output a failure carries.
const TAIL: usize = 20;
/// Size of the pieces that the context is sent in.
const PIECE: usize = 256 * 1024;

/// An image to build.
#[derive(Clone, Debug)]
pub struct Build<'a> {
    /// Name and tag.
    pub reference: &'a str,
    pub dockerfile: String,
    pub files: Vec<BuildFile>,
    pub labels: BTreeMap<String, String>,
}

/// A file of the build's context.
#[derive(Clone, Debug)]
pub struct BuildFile {
    /// Relative to the context.
    pub path: String,
    pub content: Content,
    /// `0o755`.
    pub mode: u32,
}

/// Where the bytes of a file come from.
#[derive(Clone, Debug)]
pub enum Content {
    Bytes(Vec<u8>),
    /// Read while the build is sent; symbolic links are followed.
    File(PathBuf),
}

impl Runtime {
    /// Builds an image, giving each line of output to `output`; a failure carries the last of them.
    ///
    /// # Errors
    /// When a file of the build can't be read, a step fails or the runtime refuses; also after the limit of time.
    pub async fn build(&self, build: Build<'_>, mut output: impl FnMut(&str)) -> Result<Image> {
        let what = format!("build image {}", build.reference);
        let reference = build.reference.to_owned();
        let options = BuildImageOptions {
            dockerfile: "Dockerfile".to_owned(),
            t: Some(reference.clone()),
            rm: true,
            forcerm: true,
            labels: Some(build.labels.clone().into_iter().collect()),
            ..BuildImageOptions::default()
        };
        let mut tail = VecDeque::with_capacity(TAIL);
        let mut line = |text: &str| {
            if tail.len() == TAIL {
                tail.pop_front();
            }
            tail.push_back(text.to_owned());
            output(text);
        };
        let run = async {
            let mut partial = String::new();
            let body = bollard::body_try_stream(context(build));
            let mut steps = std::pin::pin!(self.docker.build_image(options, None, Some(body)));
            while let Some(step) = steps.next().await {
                let step = step?;
                if let Some(text) = step.stream.or(step.status) {
                    partial.push_str(&text);
                    while let Some(end) = partial.find('\n') {
                        line(partial[..end].trim_end());
                        partial.drain(..=end);
                    }
                }
            }
            if !partial.trim().is_empty() {
                line(partial.trim_end());
            }
            Ok(())
        };
        let ran = self.call(what.as_str(), self.limits.slow, run).await;
        ran.map_err(|error| error.with_output(tail.into_iter().collect()))?;
        self.image(&reference).await?.ok_or_else(|| {
            Error::invalid(what, "the runtime says it is done but does not hold it")
                .with_kind(ErrorKind::Other)
        })
    }
}

/// The context as a stream of an archive, packed on another thread as fast as the runtime takes it.
fn context(build: Build<'_>) -> impl futures::Stream<Item = io::Result<Bytes>> + Send + 'static {
    // packing thread → request body
    let (pieces_tx, pieces_rx) = mpsc::channel(4);
    let Build { dockerfile, files, .. } = build;
    tokio::task::spawn_blocking(move || {
        let pipe = io::BufWriter::with_capacity(PIECE, Pipe { pieces_tx: pieces_tx.clone() });
        if let Err(error) = pack(pipe, &dockerfile, files) {
            let _ = pieces_tx.blocking_send(Err(error));
        }
    });
    futures::stream::unfold(pieces_rx, |mut pieces_rx| async { Some((pieces_rx.recv().await?, pieces_rx)) })
}

fn pack(mut into: impl Write, dockerfile: &str, files: Vec<BuildFile>) -> io::Result<()> {
    let mut archive = tar::Builder::new(&mut into);
    append(&mut archive, "Dockerfile", 0o644, dockerfile.len() as u64, dockerfile.as_bytes())?;
    for file in files {
        match file.content {
            Content::Bytes(bytes) => {
                append(&mut archive, &file.path, file.mode, bytes.len() as u64, bytes.as_slice())?;
            }
            Content::File(source) => {
                let named =
                    |error: io::Error| io::Error::new(error.kind(), format!("{}: {error}", source.display()));
                let opened = fs::File::open(&source).map_err(named)?;
                let size = opened.metadata().map_err(named)?.len();
                // A file that grows or shrinks meanwhile must not spoil the archive's frame.
                append(&mut archive, &file.path, file.mode, size, io::Read::take(opened, size))
                    .map_err(named)?;
            }
        }
    }
    archive.finish()?;
    drop(archive);
    into.flush()
}

fn append(
    archive: &mut tar::Builder<impl Write>,
    path: &str,
    mode: u32,
    size: u64,
    content: impl io::Read,
) -> io::Result<()> {
    let mut header = tar::Header::new_gnu();
    header.set_mode(mode);
    header.set_uid(0);
    header.set_gid(0);
    header.set_size(size);
    // A fixed time: what is the same shall be found in the builder's cache.
    header.set_mtime(0);
    archive.append_data(&mut header, path, content)
}

/// Sends what is written to it; an error when nobody takes it any more.
struct Pipe {
    pieces_tx: mpsc::Sender<io::Result<Bytes>>,
}

impl Write for Pipe {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.pieces_tx
            .blocking_send(Ok(Bytes::copy_from_slice(bytes)))
            .map_err(|_| io::Error::from(io::ErrorKind::BrokenPipe))?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
