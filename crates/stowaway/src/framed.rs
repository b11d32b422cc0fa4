//! Datagrams over a byte stream, each with its length in front (two bytes, the high one first), for carriers and for other
//! processes of a laptop. A reader that is slow loses datagrams, as with any socket.

use std::io;

use causeway_link::{Flow, Sink};
use causeway_netstack::UdpFlow;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::sync::mpsc;

/// Datagrams that wait for a slow reader.
const WAITING: usize = 64;
/// What is written at once.
const BATCH: usize = 32;

/// A queue for what a flow brings: where it goes, and where it is taken from.
pub(crate) fn queue() -> (Sink, mpsc::Receiver<Vec<u8>>) {
    let (datagram_tx, datagram_rx) = mpsc::channel(WAITING);
    let sink = Box::new(move |datagram: &[u8]| {
        // What there is no room for is lost.
        let _ = datagram_tx.try_send(datagram.to_vec());
    });
    (sink, datagram_rx)
}

/// Writes a datagram behind its length; one that is too long for that is left out.
pub(crate) fn put(out: &mut Vec<u8>, datagram: &[u8]) {
    if let Ok(length) = u16::try_from(datagram.len()) {
        out.extend(length.to_be_bytes());
        out.extend_from_slice(datagram);
    }
}

/// Reads one datagram into `buffer`; none at the end.
///
/// # Cancellation
/// Not to be cancelled: what was read of a datagram would be lost.
pub(crate) async fn read(
    from: &mut (impl AsyncRead + Unpin),
    buffer: &mut Vec<u8>,
) -> io::Result<Option<()>> {
    let mut length = [0; 2];
    if from.read(&mut length[..1]).await? == 0 {
        return Ok(None);
    }
    from.read_exact(&mut length[1..]).await?;
    buffer.resize(u16::from_be_bytes(length).into(), 0);
    from.read_exact(buffer).await?;
    Ok(Some(()))
}

/// Carries datagrams between a flow of a link and a byte stream until one of them ends.
pub(crate) async fn carry(
    stream: impl AsyncRead + AsyncWrite,
    flow: &Flow,
    mut datagram_rx: mpsc::Receiver<Vec<u8>>,
) -> io::Result<()> {
    let (mut from, mut to) = tokio::io::split(stream);
    let into_flow = read_all(&mut from, |datagram| {
        flow.send(datagram);
    });
    let out_of_flow = async {
        let (mut waiting, mut bytes) = (Vec::new(), Vec::new());
        while datagram_rx.recv_many(&mut waiting, BATCH).await > 0 {
            for datagram in waiting.drain(..) {
                put(&mut bytes, &datagram);
            }
            to.write_all(&bytes).await?;
            to.flush().await?;
            bytes.clear();
        }
        Ok(())
    };
    tokio::select! {
        ended = into_flow => ended,
        ended = out_of_flow => ended,
        _ = flow.over() => Ok(()),
    }
}

/// The same for a flow of a stack.
pub(crate) async fn carry_stack(stream: impl AsyncRead + AsyncWrite, flow: &UdpFlow) -> io::Result<()> {
    let (mut from, mut to) = tokio::io::split(stream);
    let into_flow = read_all(&mut from, |datagram| flow.send(datagram));
    let out_of_flow = async {
        let mut bytes = Vec::new();
        while let Some(datagram) = flow.receive().await {
            put(&mut bytes, &datagram);
            to.write_all(&bytes).await?;
            to.flush().await?;
            bytes.clear();
        }
        Ok(())
    };
    tokio::select! {
        ended = into_flow => ended,
        ended = out_of_flow => ended,
    }
}

/// Reads until the end.
async fn read_all(from: &mut (impl AsyncRead + Unpin), mut each: impl FnMut(&[u8])) -> io::Result<()> {
    let mut datagram = Vec::new();
    while read(from, &mut datagram).await?.is_some() {
        each(&datagram);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn datagrams_keep_their_bounds() {
        let mut bytes = Vec::new();
        let (long, too_long) = (vec![7; 65_535], vec![0; 65_536]);
        for datagram in [&b"one"[..], b"", &long, &too_long, b"last"] {
            put(&mut bytes, datagram);
        }
        let (mut from, mut buffer) = (bytes.as_slice(), Vec::new());
        for wanted in [&b"one"[..], b"", &long, b"last"] {
            assert_eq!(read(&mut from, &mut buffer).await.unwrap(), Some(()));
            assert!(buffer == wanted);
        }
        assert_eq!(read(&mut from, &mut buffer).await.unwrap(), None);
        assert!(read(&mut &bytes[..4], &mut buffer).await.is_err(), "cut");
    }
}
