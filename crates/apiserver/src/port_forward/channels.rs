//! Channels in a WebSocket (`v4.channel.k8s.io`), as kube-rs and Python speak them: the first byte of a message is its channel,
//! of which every port has two, for data and for errors. Each begins with the port, so that clients see that it is theirs.
//! All ports are connected to at once, and the session ends with the last of them.

use bytes::Bytes;
use tokio::io::AsyncRead;
use tokio::task::JoinSet;

use super::inbox::{Inbox, Piece};
use super::outbox::{Gone, Outbox};
use super::relay::{self, Feed, Lane};
use super::{Pod, Violation};

/// Speaks until the client leaves or the last port is over.
pub(super) async fn run<R: AsyncRead + Unpin>(inbox: &mut Inbox<R>, outbox: Outbox, ports: &[u16], pod: Pod) {
    let (mut relays, mut feeds) = (JoinSet::new(), Vec::new());
    for (number, port) in ports.iter().enumerate() {
        let channel = (number * 2) as u8;
        if greet(&outbox, channel, *port).await.is_err() {
            return;
        }
        let (feed, fed) = relay::feed();
        feeds.push(feed);
        relays.spawn(relay::run(pod.clone(), *port, Lane::Channel(channel), fed, outbox.clone()));
    }
    let mut channel = Channel::default();
    loop {
        tokio::select! {
            piece = inbox.next(&outbox) => match piece {
                Ok(Some(piece)) => channel.deliver(piece, &feeds, &pod).await,
                Ok(None) => break,
                Err(Violation(why)) => {
                    tracing::debug!(why, "a client that forwards ports broke the rules");
                    outbox.complain();
                    return;
                }
            },
            Some(_) = relays.join_next() => {
                if relays.is_empty() {
                    return;
                }
            }
        }
    }
    // What the client said before it left still reaches the pod.
    drop(feeds);
    relay::finish_all(relays).await;
}

async fn greet(outbox: &Outbox, channel: u8, port: u16) -> Result<(), Gone> {
    for channel in [channel, channel + 1] {
        outbox.send(&[channel], Bytes::copy_from_slice(&port.to_le_bytes())).await?;
    }
    Ok(())
}

/// Where the pieces of the message that comes belong.
#[derive(Debug, Default)]
struct Channel(Option<u8>);

impl Channel {
    async fn deliver(&mut self, piece: Piece, feeds: &[Feed], pod: &Pod) {
        let Piece { mut bytes, first } = piece;
        if first {
            self.0 = None;
        }
        if bytes.is_empty() {
            return;
        }
        let channel = *self.0.get_or_insert_with(|| bytes.split_to(1).first().copied().unwrap_or_default());
        // Nobody says anything on channels for errors, and those that are not there are nobody's.
        if !bytes.is_empty()
            && channel.is_multiple_of(2)
            && let Some(feed) = feeds.get(usize::from(channel / 2))
        {
            feed.send(pod, bytes).await;
        }
    }
}
