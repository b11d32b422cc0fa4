//! Streams carry bytes for any caller, whole and in order.

use std::sync::{Arc, Mutex};

use causeway_link::{Handler, Incoming, RelayEnd};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::sync::mpsc;

use crate::ends::{End, any, ends, settings, stream, within};

fn bytes(count: usize) -> Vec<u8> {
    (0..count).map(|at| (at.wrapping_mul(2_654_435_761) >> 13) as u8).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn either_end_opens_streams_and_bytes_go_both_ways() {
    let (mut dialled, mut accepted) = ends().await;
    let pairs = [stream(&dialled, &mut accepted).await, stream(&accepted, &mut dialled).await];
    let data = Arc::new(bytes(5 << 20));
    for (near, far) in pairs {
        let mut tasks = Vec::new();
        for stream in [near, far] {
            let (mut read, mut write) = tokio::io::split(stream);
            let (sent, wanted) = (data.clone(), data.clone());
            tasks.push(tokio::spawn(async move {
                write.write_all(&sent).await.expect("writes");
                write.shutdown().await.expect("ends its half");
            }));
            tasks.push(tokio::spawn(async move {
                let mut got = Vec::new();
                read.read_to_end(&mut got).await.expect("reads to the end");
                assert!(got == *wanted, "got {} bytes", got.len());
            }));
        }
        for task in tasks {
            within("the bytes", task).await.expect("all of them");
        }
    }
    within("the streams' end", async {
        while !dialled.link.is_empty() || !accepted.link.is_empty() {
            tokio::task::yield_now().await;
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_refusal_says_why() {
    let (dialled, mut accepted) = ends().await;
    let (mut near, far) = stream(&dialled, &mut accepted).await;
    far.refuse("nobody is there");
    let error = within("the refusal", near.read(&mut [0; 1])).await.expect_err("refused");
    assert_eq!(
        (error.kind(), error.to_string().as_str()),
        (std::io::ErrorKind::ConnectionReset, "nobody is there")
    );
    near.write_all(b"hello?").await.expect_err("refused");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_reader_that_waits_holds_the_writer_back_and_nobody_else() {
    let (dialled, mut accepted) = ends().await;
    let (mut near, mut far) = stream(&dialled, &mut accepted).await;
    let stuck = tokio::spawn(async move {
        let mut sent = 0;
        while sent < 64 << 20 {
            sent += near.write(&[7; 16_384]).await.expect("writes");
        }
    });
    for _ in 0..200 {
        let (mut one, mut other) = stream(&dialled, &mut accepted).await;
        one.write_all(b"quick").await.expect("writes");
        let mut word = [0; 5];
        within("a word", other.read_exact(&mut word)).await.expect("reads");
    }
    assert!(!stuck.is_finished(), "64 MiB went into nobody's hands");
    let draining = tokio::spawn(async move {
        let mut rest = vec![0; 1 << 20];
        // The writer drops its end when it is done, which is a reset for the reader.
        while far.read(&mut rest).await.is_ok_and(|count| count > 0) {}
    });
    within("the writer", stuck).await.expect("writes everything");
    within("the reader", draining).await.expect("no panic");
}

/// A socket whose peer takes little at a time.
async fn slow_client() -> (TcpStream, TcpStream) {
    let listener = TcpListener::bind(any()).await.expect("a port");
    let socket = TcpSocket::new_v4().expect("a socket");
    socket.set_recv_buffer_size(4096).expect("a small buffer");
    let connecting = socket.connect(listener.local_addr().expect("an address"));
    let (client, accepted) = tokio::join!(connecting, listener.accept());
    (client.expect("connects"), accepted.expect("accepts").0)
}

#[tokio::test(flavor = "multi_thread")]
async fn what_was_sent_before_a_reset_still_arrives() {
    let data = bytes(200 << 10);
    for lose_link in [false, true] {
        let (dialled, mut accepted) = ends().await;
        let (mut near, far) = stream(&dialled, &mut accepted).await;
        let (mut client, socket) = slow_client().await;
        let relay = tokio::spawn(far.relay(socket));
        near.write_all(&data).await.expect("writes");
        if lose_link {
            dialled.link.close("lost on purpose");
        } else {
            near.refuse("broken off");
        }
        let mut got = Vec::new();
        let end = within("the end", client.read_to_end(&mut got)).await.expect_err("a reset, not an end");
        assert_eq!(end.kind(), std::io::ErrorKind::ConnectionReset);
        assert!(got == data, "got {} of {} bytes", got.len(), data.len());
        let ended = within("the relay", relay).await.expect("no panic");
        let expected =
            if lose_link { RelayEnd::Lost } else { RelayEnd::Reset { reason: "broken off".to_owned() } };
        assert_eq!(ended, expected);
    }
}

/// A server that a relay is connected to. The relay's socket holds little of what it has to send.
async fn server() -> (TcpStream, TcpStream) {
    let listener = TcpListener::bind(any()).await.expect("a port");
    let socket = TcpSocket::new_v4().expect("a socket");
    socket.set_send_buffer_size(4096).expect("a small buffer");
    let connecting = socket.connect(listener.local_addr().expect("an address"));
    let (relayed, accepted) = tokio::join!(connecting, listener.accept());
    (accepted.expect("accepts").0, relayed.expect("connects"))
}

/// Answers, and closes with input unread, which is a reset. Nobody else of a runtime of one thread has a turn meanwhile.
fn answer_and_reset(server: TcpStream, answer: &[u8]) {
    let mut server = server.into_std().expect("a socket");
    server.set_nonblocking(false).expect("waits");
    std::io::Write::write_all(&mut server, answer).expect("writes");
}

async fn until(what: &str, is_so: impl Fn() -> bool) {
    within(what, async {
        while !is_so() {
            tokio::task::yield_now().await;
        }
    })
    .await;
}

#[tokio::test]
async fn an_answer_arrives_although_its_server_resets_while_an_upload_waits() {
    let (dialled, mut accepted) = ends().await;
    let (mut near, far) = stream(&dialled, &mut accepted).await;
    let (server, relayed) = server().await;
    let traffic = accepted.traffic.clone();
    let relay = tokio::spawn(far.relay(relayed));
    // As much as one window: most of it waits in the relay, since the server does not read.
    let upload = bytes(256 << 10);
    near.write_all(&upload).await.expect("writes");
    until("the upload is there", || traffic.received() == upload.len() as u64).await;
    let answer = bytes(30_000);
    answer_and_reset(server, &answer);
    let mut got = Vec::new();
    let end = within("the answer", near.read_to_end(&mut got)).await.expect_err("a reset, not an end");
    assert_eq!(end.kind(), std::io::ErrorKind::ConnectionReset);
    assert!(got == answer, "got {} of {} bytes", got.len(), answer.len());
    assert_eq!(within("the relay", relay).await.expect("no panic"), RelayEnd::Failed);
}

#[tokio::test]
async fn an_answer_that_waits_for_credit_arrives_although_its_server_resets() {
    let (dialled, mut accepted) = ends().await;
    let (mut near, far) = stream(&dialled, &mut accepted).await;
    let (mut server, relayed) = server().await;
    let traffic = accepted.traffic.clone();
    let relay = tokio::spawn(far.relay(relayed));
    // All that may be sent before something is read.
    let answer = bytes((256 << 10) + 30_000);
    let (first, rest) = answer.split_at(256 << 10);
    server.write_all(first).await.expect("writes");
    until("the first part is sent", || traffic.sent() == first.len() as u64).await;
    near.write_all(b"unread").await.expect("writes");
    until("it is there", || traffic.received() == 6).await;
    answer_and_reset(server, rest);
    // This can't be written any more.
    near.write_all(b"too late").await.expect("writes");
    until("it is there", || traffic.received() == 14).await;
    let mut got = Vec::new();
    let end = within("the answer", near.read_to_end(&mut got)).await.expect_err("a reset, not an end");
    assert_eq!(end.kind(), std::io::ErrorKind::ConnectionReset);
    assert!(got == answer, "got {} of {} bytes", got.len(), answer.len());
    assert_eq!(within("the relay", relay).await.expect("no panic"), RelayEnd::Failed);
}

/// Accepts flows and hands what comes to the test.
struct Flows(mpsc::UnboundedSender<Vec<u8>>, Mutex<Vec<causeway_link::Flow>>);

impl Handler for Flows {
    fn opened(&self, incoming: Incoming<'_>) {
        assert!(incoming.is_flow());
        let datagrams_tx = self.0.clone();
        let sink = Box::new(move |datagram: &[u8]| drop(datagrams_tx.send(datagram.to_vec())));
        self.1.lock().expect("no panic").push(incoming.accept_flow(settings(), sink));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn datagrams_arrive_whole_and_a_flow_ends_at_both_ends() {
    let authority = causeway_link::Authority::new().expect("keys");
    let mut listener = crate::ends::listener(&authority).await;
    let (at, identity) =
        (listener.address(), authority.issue(causeway_link::Role::Dialer, "laptop").expect("keys"));
    let dialing = tokio::spawn(async move { causeway_link::dial(at, &identity, "box", b"").await });
    let (datagrams_tx, mut datagrams) = mpsc::unbounded_channel();
    let flows = Arc::new(Flows(datagrams_tx, Mutex::default()));
    let (_link, driver) = listener.accept().await.start(flows.clone());
    tokio::spawn(driver.run());
    let dialled = End::start(dialing.await.expect("no panic").expect("dials"));
    let flow = dialled.link.open_flow(b"", settings(), Box::new(|_| {})).expect("usable");
    for size in [0, 1, 1_400, 60_000] {
        let sent = bytes(size);
        assert!(flow.send(&sent), "there is room");
        assert!(within("a datagram", datagrams.recv()).await.expect("comes") == sent);
    }
    assert!(!flow.send(&bytes(70_000)), "no datagram is as long");
    flows.1.lock().expect("no panic").clear();
    within("the flow's end", flow.over()).await;
    assert!(flow.is_over());
}
