//! A long path is filled: windows grow with it.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;
use tokio::time::sleep_until;

use crate::ends::{any, ends_at, listener, stream, within};

const ONE_WAY: Duration = Duration::from_millis(50);

/// Leads connections to another address, and everything takes its time.
async fn long_path(to: SocketAddr) -> SocketAddr {
    let listener = TcpListener::bind(any()).await.expect("a port");
    let at = listener.local_addr().expect("an address");
    tokio::spawn(async move {
        while let Ok((near, _)) = listener.accept().await {
            let far = TcpStream::connect(to).await.expect("connects");
            let ((near_in, near_out), (far_in, far_out)) = (near.into_split(), far.into_split());
            for (mut from, mut into) in [(near_in, far_out), (far_in, near_out)] {
                let (late_tx, mut late) = mpsc::channel::<(Instant, Vec<u8>)>(4096);
                tokio::spawn(async move {
                    loop {
                        let mut piece = vec![0; 64 << 10];
                        let count = from.read(&mut piece).await.unwrap_or(0);
                        piece.truncate(count);
                        if count == 0 || late_tx.send((Instant::now() + ONE_WAY, piece)).await.is_err() {
                            return;
                        }
                    }
                });
                tokio::spawn(async move {
                    while let Some((due, piece)) = late.recv().await {
                        sleep_until(due.into()).await;
                        into.write_all(&piece).await.ok();
                    }
                });
            }
        }
    });
    at
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stream_fills_a_long_path() {
    const SIZE: usize = 16 << 20;
    let authority = causeway_link::Authority::new().expect("keys");
    let mut listener = listener(&authority).await;
    let at = long_path(listener.address()).await;
    let (dialled, mut accepted) = ends_at(&authority, &mut listener, at).await;
    let (mut near, mut far) = stream(&dialled, &mut accepted).await;
    let began = Instant::now();
    let sending = tokio::spawn(async move {
        near.write_all(&vec![7; SIZE]).await.expect("writes");
        near.shutdown().await.expect("ends");
        near
    });
    let mut got = Vec::new();
    within("the bytes", far.read_to_end(&mut got)).await.expect("reads");
    let took = began.elapsed();
    assert_eq!(got.len(), SIZE);
    // With the first window for the whole time it would be 64 round trips of 100 ms.
    assert!(took < Duration::from_secs(4), "took {took:?}");
    drop(sending);
}
