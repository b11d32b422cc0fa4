use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::rc::Rc;
use std::sync::Arc;

use causeway_ir::{Name, Refusal};
use rustix::net::sockopt;

use super::*;
use crate::cluster::{Cluster, SettingsPool};
use crate::connections::{Connections, Registered};
use crate::listener::Listener;
use crate::metrics::{Held, Metrics};
use crate::table::{Destination, Route, RouteShared};
use crate::tcp::socket::Socket;

const SIZE: usize = 8 << 20;

/// Our end of a connection and the peer's.
fn pair() -> (Socket, TcpStream) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let peer = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    let (socket, _) = listener.accept().unwrap();
    socket.set_nonblocking(true).unwrap();
    (Socket::new(socket.into()).unwrap(), peer)
}

fn entry() -> Registered {
    let metrics = Metrics::default();
    let planned: causeway_ir::Listener = serde_saphyr::from_str(
        "{name: l, bind: '127.0.0.1:0', protocol: {tcp: {name: r, action: {refuse: close}}}}",
    )
    .unwrap();
    let name = planned.name.shared();
    let listener = Arc::new(Listener::new(&planned, planned.bind, metrics.listener(&name, "l")));
    let route = Arc::new(Route {
        name: "r".into(),
        destination: Destination::Refuse(Refusal::Close),
        limit: None,
        shared: Arc::new(RouteShared::new(metrics.closes(&name, "r"))),
    });
    let endpoint = causeway_ir::Endpoint::new(planned.bind);
    let cluster = causeway_ir::Cluster::new(Name::parse("c").unwrap(), vec![endpoint]);
    let cluster = Arc::new(Cluster::new(&cluster, &mut SettingsPool::default()));
    let endpoint = Arc::clone(&cluster.state().members[0].endpoint);
    let (route, cluster, endpoint) = (Held::new(route), Held::new(cluster), Held::new(endpoint));
    let entry = Entry::new(planned.bind, listener, None, route, cluster, endpoint, u64::MAX);
    Rc::<Connections>::default().insert(entry)
}

/// Sends bulk both ways through a workspace, which must arrive whole and end.
async fn echo_bulk(workspace: &Workspace) {
    let (client, mut client_peer) = pair();
    let (server, server_peer) = pair();
    let echoing = std::thread::spawn(move || {
        let (mut from, mut to) = (&server_peer, &server_peer);
        std::io::copy(&mut from, &mut to).unwrap();
        server_peer.shutdown(std::net::Shutdown::Write).unwrap();
    });
    let asking = std::thread::spawn(move || {
        let all: Vec<u8> = (0..SIZE).map(|i| (i ^ (i >> 8) ^ (i >> 16)) as u8).collect();
        let (mut to, sent) = (client_peer.try_clone().unwrap(), all.clone());
        let sending = std::thread::spawn(move || {
            to.write_all(&sent).unwrap();
            to.shutdown(std::net::Shutdown::Write).unwrap();
        });
        let mut got = Vec::new();
        client_peer.read_to_end(&mut got).unwrap();
        sending.join().unwrap();
        assert!(got == all, "{} of {} bytes", got.len(), all.len());
    });
    let (client, server) = (Downstream::Tcp(client), Upstream::Tcp(server));
    let reason = both(&client, &server, Vec::new(), &entry(), workspace).await;
    assert_eq!(reason, CloseReason::Finished);
    drop((client, server));
    tokio::task::spawn_blocking(move || (echoing.join().unwrap(), asking.join().unwrap())).await.unwrap();
}

#[tokio::test]
async fn bulk_goes_through_pipes_that_are_used_again() {
    let workspace = Workspace::default();
    echo_bulk(&workspace).await;
    assert!(workspace.pipes.spares() > 0);
}

#[tokio::test]
async fn bulk_is_copied_when_pipes_stay_small() {
    let mut workspace = Workspace::default();
    workspace.pipes = Pipes::impossible();
    echo_bulk(&workspace).await;
    assert_eq!(workspace.pipes.spares(), 0);
}

#[tokio::test]
async fn small_writes_are_sent_at_once_from_the_second_on() {
    let (client, mut client_peer) = pair();
    let (server, mut server_peer) = pair();
    let (client, server) = (Downstream::Tcp(client), Upstream::Tcp(server));
    let nodelay = || sockopt::tcp_nodelay(server.socket()).unwrap();
    assert!(!nodelay());
    let (entry, workspace) = (entry(), Workspace::default());
    let talking = std::thread::spawn(move || {
        let mut say = |word: &[u8]| {
            let mut heard = vec![0; word.len()];
            server_peer.read_exact(&mut heard).unwrap();
            assert_eq!(heard, word);
        };
        say(b"head");
        client_peer.write_all(b"second").unwrap();
        say(b"second");
    });
    let reason = both(&client, &server, b"head".to_vec(), &entry, &workspace).await;
    assert_eq!(reason, CloseReason::Finished);
    talking.join().unwrap();
    assert!(nodelay());
}
