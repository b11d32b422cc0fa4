//! Datagrams through SOCKS5: a socket for one client, and a flow for each place that it sends to, for as long as the client's
//! connection lasts.

use std::collections::HashMap;
use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, OnceLock};

use causeway_link::Sink;
use tokio::io::AsyncReadExt as _;
use tokio::net::{TcpStream, UdpSocket};
use tokio::sync::mpsc;
use tokio::task::JoinSet;

use super::super::Handle;
use super::socks::{Reply, get_place, put_place, reply};
use crate::place::Place;

/// Places that one client sends to at a time.
const PLACES: usize = 256;
/// Datagrams that wait until their flow is there.
const WAITING: usize = 64;
/// The largest datagram fits.
const BUFFER: usize = 64 << 10;

/// Serves one client until its connection ends.
pub(super) async fn serve(mut control: TcpStream, laptop: &Arc<Handle>) -> io::Result<()> {
    let socket = Arc::new(UdpSocket::bind((control.local_addr()?.ip(), 0)).await?);
    reply(&mut control, Reply::Succeeded, socket.local_addr()?).await?;
    let from = control.peer_addr()?;
    tokio::select! {
        failed = carry(socket, from, laptop) => failed,
        // It has nothing more to say; its end is the end of all of it.
        ended = control.read_u8() => ended.map(|_| ()).or(Ok(())),
    }
}

/// A flow under way, as its datagrams are given to it.
struct Bound {
    datagram_tx: mpsc::Sender<Vec<u8>>,
    used: u64,
}

async fn carry(socket: Arc<UdpSocket>, client: SocketAddr, laptop: &Arc<Handle>) -> io::Result<()> {
    let mut buffer = vec![0; BUFFER];
    let mut flows: HashMap<Place, Bound> = HashMap::new();
    let mut tasks = JoinSet::new();
    // Where the client's datagrams come from: its first one shows it.
    let back: Arc<OnceLock<SocketAddr>> = Arc::default();
    for used in 0.. {
        let (count, source) = socket.recv_from(&mut buffer).await?;
        let is_client = source.ip() == client.ip() && *back.get_or_init(|| source) == source;
        // Parts of datagrams are nobody's business: RFC 1928 lets them be dropped.
        let [_, _, 0, rest @ ..] = &buffer[..count] else { continue };
        let Some((place, datagram)) = get_place(rest).filter(|_| is_client) else { continue };
        while tasks.try_join_next().is_some() {}
        flows.retain(|_, flow| !flow.datagram_tx.is_closed());
        if flows.len() >= PLACES && !flows.contains_key(&place) {
            forget_oldest(&mut flows);
        }
        let flow = flows.entry(place.clone()).or_insert_with(|| {
            let (datagram_tx, datagram_rx) = mpsc::channel(WAITING);
            let sink = answers(socket.clone(), source, &place);
            tasks.spawn(flow(laptop.clone(), place, sink, datagram_rx));
            Bound { datagram_tx, used }
        });
        flow.used = used;
        // What there is no room for is lost.
        let _ = flow.datagram_tx.try_send(datagram.to_vec());
    }
    Ok(())
}

fn forget_oldest(flows: &mut HashMap<Place, Bound>) {
    let oldest = flows.iter().min_by_key(|(_, flow)| flow.used).map(|(place, _)| place.clone());
    if let Some(oldest) = oldest {
        flows.remove(&oldest);
    }
}

/// Sends to one place until nobody does any more, or the flow ends.
async fn flow(laptop: Arc<Handle>, place: Place, sink: Sink, mut datagram_rx: mpsc::Receiver<Vec<u8>>) {
    let flow = match laptop.datagrams(&place, sink).await {
        Ok(flow) => flow,
        Err(error) => return tracing::debug!(%place, %error, "the proxy can't send datagrams"),
    };
    loop {
        tokio::select! {
            datagram = datagram_rx.recv() => match datagram {
                Some(datagram) => flow.send(&datagram),
                None => return,
            },
            _ = flow.over() => return,
        };
    }
}

/// Takes what comes back from a place to the client.
fn answers(socket: Arc<UdpSocket>, client: SocketAddr, place: &Place) -> Sink {
    let mut head = vec![0, 0, 0];
    put_place(&mut head, place);
    Box::new(move |datagram: &[u8]| {
        let answer = [&head, datagram].concat();
        // What the kernel does not take at once is lost.
        let _ = socket.try_send_to(&answer, client);
    })
}
