//! The operator's side of a host end's socket.

use std::{io, os::fd::AsRawFd as _, path::Path};

use causeway_ir::tunnel::files;
use causeway_ir::tunnel::protocol::{LONGEST_LINE, Line, Order, PROTOCOL, Request, protocol_of};
use futures::{SinkExt as _, StreamExt as _};
use tokio::net::UnixStream;
use tokio_util::codec::{Framed, LinesCodec, LinesCodecError};

/// A connection to a host end.
pub(crate) struct Control {
    lines: Framed<UnixStream, LinesCodec>,
    last_id: u32,
}

impl Control {
    /// Connects to the host end of `directory`.
    ///
    /// # Errors
    /// When nobody answers there.
    pub(crate) async fn connect(directory: &Path) -> io::Result<Self> {
        // The path of a socket holds about a hundred bytes, which directories may exceed: go through a handle.
        let handle = std::fs::File::open(directory)?;
        let path = format!("/proc/self/fd/{}/{}", handle.as_raw_fd(), files::SOCKET);
        let stream = UnixStream::connect(path).await?;
        let lines = Framed::new(stream, LinesCodec::new_with_max_length(LONGEST_LINE));
        Ok(Self { lines, last_id: 0 })
    }

    /// The next line; none at the end of the connection, which is the end of the process. Lines of an unknown kind are
    /// skipped.
    ///
    /// # Errors
    /// When the connection breaks; of kind `Unsupported` when the host end speaks another protocol.
    ///
    /// # Cancellation
    /// May be dropped at any time: no line is lost.
    pub(crate) async fn next(&mut self) -> io::Result<Option<Line>> {
        while let Some(line) = self.lines.next().await {
            let line = line.map_err(broken)?;
            if let Some(other) = protocol_of(&line).filter(|protocol| *protocol != PROTOCOL) {
                return Err(io::Error::new(
                    io::ErrorKind::Unsupported,
                    format!("it speaks protocol {other}"),
                ));
            }
            if let Ok(line) = serde_json::from_str(&line) {
                return Ok(Some(line));
            }
        }
        Ok(None)
    }

    /// Sends an order; the id is that of the answer.
    ///
    /// # Errors
    /// When the connection is broken.
    pub(crate) async fn order(&mut self, order: Order) -> io::Result<u32> {
        self.last_id += 1;
        let request = Request { id: self.last_id, order };
        self.lines.send(serde_json::to_string(&request)?).await.map_err(broken)?;
        Ok(self.last_id)
    }
}

fn broken(error: LinesCodecError) -> io::Error {
    match error {
        LinesCodecError::Io(error) => error,
        LinesCodecError::MaxLineLengthExceeded => io::Error::new(io::ErrorKind::InvalidData, error),
    }
}
