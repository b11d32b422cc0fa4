//! A way between the ends that can be blocked, as a firewall or a machine that sleeps does it: connections are taken, and
//! nothing comes through.

use std::net::SocketAddr;
use std::sync::Arc;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;

use crate::services::any;

pub struct Road {
    pub at: SocketAddr,
    open: Arc<watch::Sender<bool>>,
}

impl Road {
    /// Leads to an address.
    pub async fn to(to: SocketAddr) -> Self {
        let listener = TcpListener::bind(any()).await.expect("a port");
        let at = listener.local_addr().expect("an address");
        let open = Arc::new(watch::channel(true).0);
        let gate = open.clone();
        tokio::spawn(async move {
            while let Ok((near, _)) = listener.accept().await {
                let gate = gate.clone();
                tokio::spawn(async move {
                    let Ok(far) = TcpStream::connect(to).await else { return };
                    let ((near_in, near_out), (far_in, far_out)) = (near.into_split(), far.into_split());
                    tokio::join!(
                        carry(near_in, far_out, gate.subscribe()),
                        carry(far_in, near_out, gate.subscribe())
                    );
                });
            }
        });
        Self { at, open }
    }

    pub fn block(&self) {
        self.open.send_replace(false);
    }

    pub fn unblock(&self) {
        self.open.send_replace(true);
    }
}

async fn carry(mut from: OwnedReadHalf, mut into: OwnedWriteHalf, mut open: watch::Receiver<bool>) {
    let mut piece = vec![0; 16 << 10];
    loop {
        let count = from.read(&mut piece).await.unwrap_or(0);
        if open.wait_for(|open| *open).await.is_err() || count == 0 {
            into.shutdown().await.ok();
            return;
        }
        if into.write_all(&piece[..count]).await.is_err() {
            return;
        }
    }
}
