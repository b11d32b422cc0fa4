use std::future::poll_fn;
use std::io::Write;

use super::*;

/// A socket of ours and its peer.
fn pair() -> (Socket, std::net::TcpStream) {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let peer = std::net::TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    peer.set_nodelay(true).unwrap();
    let (socket, _) = listener.accept().unwrap();
    socket.set_nonblocking(true).unwrap();
    (Socket::new(socket.into()).unwrap(), peer)
}

async fn receive(socket: &Socket) -> io::Result<(Vec<u8>, bool)> {
    let mut buffer = [0; 64];
    let received = poll_fn(|cx| socket.poll_receive(cx, &mut buffer)).await?;
    Ok((buffer[..received.count].to_vec(), received.ended))
}

/// Waits until the runtime knows that the peer has ended.
async fn closed(socket: &Socket) {
    while !socket.io.readable().await.unwrap().ready().is_read_closed() {
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn the_end_comes_with_the_last_bytes() {
    let (socket, mut peer) = pair();
    peer.write_all(b"first").unwrap();
    assert_eq!(receive(&socket).await.unwrap(), (b"first".to_vec(), false));
    peer.write_all(b"last").unwrap();
    peer.shutdown(std::net::Shutdown::Write).unwrap();
    closed(&socket).await;
    assert_eq!(receive(&socket).await.unwrap(), (b"last".to_vec(), true));
}

#[tokio::test]
async fn the_end_waits_until_all_was_read() {
    let (socket, mut peer) = pair();
    peer.write_all(&[7; 100]).unwrap();
    peer.shutdown(std::net::Shutdown::Write).unwrap();
    closed(&socket).await;
    assert_eq!(receive(&socket).await.unwrap(), (vec![7; 64], false));
    assert_eq!(receive(&socket).await.unwrap(), (vec![7; 36], true));
}

#[tokio::test]
async fn a_reset_is_no_end() {
    let (socket, mut peer) = pair();
    peer.write_all(b"last").unwrap();
    // Bytes that were not read make a reset of a close.
    rustix::net::send(&socket, b"unread", SendFlags::NOSIGNAL).unwrap();
    drop(peer);
    closed(&socket).await;
    assert_eq!(receive(&socket).await.unwrap(), (b"last".to_vec(), false));
    assert_eq!(receive(&socket).await.unwrap_err().kind(), io::ErrorKind::ConnectionReset);
}

#[tokio::test]
async fn what_stands_behind_an_urgent_byte_is_not_lost() {
    let (socket, mut peer) = pair();
    peer.write_all(b"before").unwrap();
    rustix::net::send(&peer, b"!", SendFlags::OOB).unwrap();
    peer.write_all(b"after").unwrap();
    let mut all = Vec::new();
    while all.len() < 11 {
        let (bytes, ended) = receive(&socket).await.unwrap();
        assert!(!ended);
        all.extend(bytes);
    }
    assert_eq!(all, b"beforeafter");
    // Once it is past, an end comes with the last bytes again.
    let mut nothing = [0; 8];
    let waiting = poll_fn(|cx| Poll::Ready(socket.poll_receive(cx, &mut nothing).is_pending())).await;
    assert!(waiting);
    peer.write_all(b"last").unwrap();
    peer.shutdown(std::net::Shutdown::Write).unwrap();
    closed(&socket).await;
    assert_eq!(receive(&socket).await.unwrap(), (b"last".to_vec(), true));
}

#[tokio::test]
async fn an_urgent_byte_before_the_end_hides_nothing() {
    let (socket, mut peer) = pair();
    peer.write_all(b"before").unwrap();
    rustix::net::send(&peer, b"!", SendFlags::OOB).unwrap();
    peer.write_all(b"after").unwrap();
    peer.shutdown(std::net::Shutdown::Write).unwrap();
    closed(&socket).await;
    let mut all = Vec::new();
    loop {
        let (bytes, ended) = receive(&socket).await.unwrap();
        all.extend(bytes);
        if ended {
            break;
        }
    }
    assert_eq!(all, b"beforeafter");
}

#[tokio::test]
async fn keep_alive_is_as_planned() {
    let (socket, _peer) = pair();
    socket.keep_alive(&Keepalive { time: Duration::ZERO, ..Keepalive::default() });
    assert!(!sockopt::socket_keepalive(&socket).unwrap());
    let plan = Keepalive { time: Duration::from_secs(7), ..Keepalive::default() };
    socket.keep_alive(&plan);
    assert!(sockopt::socket_keepalive(&socket).unwrap());
    assert_eq!(sockopt::tcp_keepidle(&socket).unwrap(), plan.time);
}
