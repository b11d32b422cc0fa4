use std::net::{TcpListener, TcpStream};
use std::sync::Arc;

use super::*;

fn purpose(port: u16) -> Purpose {
    let bind = SocketAddr::from(([127, 0, 0, 1], port));
    Purpose::Listener { protocol: Transport::Tcp, bind, name: None }
}

/// As many sockets as asked for, all the same.
fn sockets(listener: &TcpListener, count: usize) -> Vec<OwnedFd> {
    (0..count).map(|_| listener.as_fd().try_clone_to_owned().unwrap()).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_successor_gets_every_socket_with_its_purpose_and_what_waits_in_it() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("handover");
    assert!(Claim::take(&path).unwrap().is_none());
    let place = Arc::new(Socket::open(&path).unwrap());
    assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let waiting = TcpStream::connect(address).unwrap();

    // More than fit into one message.
    let offer = move || {
        std::future::ready(vec![
            Handed { purpose: purpose(1), sockets: sockets(&listener, BATCH + 2) },
            Handed { purpose: purpose(2), sockets: sockets(&listener, 1) },
        ])
    };
    let giving = tokio::spawn({
        let place = Arc::clone(&place);
        async move { place.handed_over(offer).await }
    });
    let claim = tokio::task::spawn_blocking({
        let path = path.clone();
        move || Claim::take(&path).unwrap().unwrap()
    });
    let mut claim = claim.await.unwrap();
    assert_eq!(claim.remove(&purpose(1)).len(), BATCH + 2);
    let mut taken = claim.remove(&purpose(2));
    assert_eq!(claim.remove(&Purpose::Handover).len(), 1);
    assert!(claim.remove_listeners().is_empty());
    assert!(!giving.is_finished(), "nothing changes before the word");
    claim.ready().unwrap();
    assert_eq!(giving.await.unwrap(), std::process::id().cast_signed());

    let taken = TcpListener::from(taken.pop().unwrap());
    let (accepted, _) = taken.accept().unwrap();
    assert_eq!(accepted.peer_addr().unwrap(), waiting.local_addr().unwrap());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_successor_that_dies_or_talks_rubbish_changes_nothing() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("handover");
    let place = Socket::open(&path).unwrap();
    let giving = tokio::spawn(async move { place.handed_over(|| std::future::ready(Vec::new())).await });
    let mut successor = UnixStream::connect(&path).unwrap();
    successor.write_all(b"GET / HTTP/1.1\r\n\r\n").unwrap();
    drop(successor);
    let claim = tokio::task::spawn_blocking(move || {
        drop(Claim::take(&path).unwrap().unwrap());
        Claim::take(&path).unwrap().unwrap()
    });
    let claim = claim.await.unwrap();
    assert!(!giving.is_finished());
    claim.ready().unwrap();
    giving.await.unwrap();
}

#[tokio::test]
async fn a_place_that_is_no_left_over_socket_is_not_touched() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("handover");
    drop(Socket::open(&path).unwrap());
    drop(Socket::open(&path).unwrap());
    std::fs::remove_file(&path).unwrap();
    std::fs::write(&path, "precious").unwrap();
    // Connecting to a plain file is refused like connecting to a left over socket.
    assert!(Socket::open(&path).is_err());
    assert_eq!(std::fs::read_to_string(&path).unwrap(), "precious");
}
