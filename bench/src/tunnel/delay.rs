//! A long way in between: every byte that enters leaves after a time, in both directions. What is on its way is
//! bounded, but so generously that the time and not the room limits who goes this way. Connections open at once.

use std::net::SocketAddrV4;
use std::sync::Arc;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc};
use tokio::time::{Instant, sleep_until};

/// Half of it in each direction.
pub(crate) const ROUND_TRIP: Duration = Duration::from_millis(50);
/// On its way in one direction of one connection: 50 ms at 20 Gbit/s there and back.
const ROOM: usize = 64 << 20;
const CHUNK: usize = 256 << 10;

/// A chunk, when it is due, and the room that it takes.
type Due = (Instant, Bytes, OwnedSemaphorePermit);

/// Takes connections and leads each to `to`, for ever.
pub(crate) async fn serve(listener: TcpListener, to: SocketAddrV4) {
    while let Ok((near, _)) = listener.accept().await {
        tokio::spawn(async move {
            // A broken connection is the affair of those who speak through it.
            if let Ok(far) = TcpStream::connect(to).await {
                let _ = (near.set_nodelay(true), far.set_nodelay(true));
                let (near, far) = (near.into_split(), far.into_split());
                let _ = tokio::join!(carry(near.0, far.1), carry(far.0, near.1));
            }
        });
    }
}

/// Carries everything one way, and its end.
async fn carry(from: impl AsyncRead + Unpin, mut to: impl AsyncWrite + Unpin) -> std::io::Result<()> {
    let (due_tx, mut due_rx) = mpsc::unbounded_channel::<Due>();
    let arrive = async {
        while let Some((at, bytes, _room)) = due_rx.recv().await {
            sleep_until(at).await;
            to.write_all(&bytes).await?;
        }
        to.shutdown().await
    };
    tokio::try_join!(depart(from, due_tx), arrive).map(drop)
}

async fn depart(
    mut from: impl AsyncRead + Unpin,
    due_tx: mpsc::UnboundedSender<Due>, // → arrive
) -> std::io::Result<()> {
    let room = Arc::new(Semaphore::new(ROOM));
    let mut buffer = BytesMut::new();
    loop {
        buffer.reserve(CHUNK);
        let count = from.read_buf(&mut buffer).await?;
        // The semaphore is never closed, and the other half ends with this one.
        let Ok(taken) = Arc::clone(&room).acquire_many_owned(count as u32).await else { return Ok(()) };
        let due = (Instant::now() + ROUND_TRIP / 2, buffer.split().freeze(), taken);
        // The end is a chunk too, an empty one.
        if due_tx.send(due).is_err() || count == 0 {
            return Ok(());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn bytes_and_the_end_arrive_in_order_after_half_a_round_trip() {
        let (mut near, entrance) = tokio::io::duplex(1 << 20);
        let (exit, mut far) = tokio::io::duplex(1 << 20);
        tokio::spawn(carry(entrance, exit));
        let start = Instant::now();
        near.write_all(b"first").await.unwrap();
        tokio::time::sleep(Duration::from_millis(10)).await;
        near.write_all(b" second").await.unwrap();
        near.shutdown().await.unwrap();
        let mut got = [0; 5];
        far.read_exact(&mut got).await.unwrap();
        assert_eq!((&got, start.elapsed().as_millis()), (b"first", 25));
        let mut rest = Vec::new();
        far.read_to_end(&mut rest).await.unwrap();
        assert_eq!((rest.as_slice(), start.elapsed().as_millis()), (b" second" as &[u8], 35));
    }
}
