//! Clients that keep a core busy with frames that carry nothing: they are told to go, and nobody else notices.

use super::backend::{HttpBackend, all_to};
use super::streams::{
    CONTINUATION, DATA, END_HEADERS, END_STREAM, Frame, GOAWAY, HEADERS, PING, PREFACE, RST_STREAM,
    RawClient, SETTINGS, StreamClient, asking, block, frame, post, soon,
};
use crate::support::Running;

const PROTOCOL_ERROR: u32 = 1;
const REFUSED_STREAM: u32 = 7;
const ENHANCE_YOUR_CALM: u32 = 11;

type Frames = Box<dyn Iterator<Item = Vec<u8>> + Send>;

/// Sends frames until the peer has closed, or all of them; what it said.
async fn flood(running: &Running, frames: impl Iterator<Item = Vec<u8>>) -> Vec<Frame> {
    let mut client = RawClient::connect(running).await;
    let all: Vec<Vec<u8>> = frames.collect();
    for some in all.chunks(50) {
        if !client.try_send(&some.concat()).await {
            break;
        }
    }
    client.rest().await
}

fn farewell(frames: &[Frame]) -> u32 {
    frames.iter().rev().find(|frame| frame.kind == GOAWAY).expect("a GOAWAY").error()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn floods_end_their_connection_and_no_other() {
    let backend = HttpBackend::named("ok").await;
    let running = Running::start(&all_to(&[backend.address])).await;
    let bystander = StreamClient::connect(&running).await;
    let open = || {
        frame(
            HEADERS,
            END_HEADERS,
            1,
            &block(&[(":method", "POST"), (":scheme", "http"), (":path", "/"), (":authority", "a")]),
        )
    };
    let many = 20_000_u32;
    let pings = (0..many).map(|_| frame(PING, 0, 0, &[0; 8]));
    let settings = (0..many).map(|_| frame(SETTINGS, 0, 0, b""));
    let resets =
        (0..many).flat_map(|i| [asking(2 * i + 1, &[]), frame(RST_STREAM, 0, 2 * i + 1, &[0, 0, 0, 8])]);
    let nothing = std::iter::once(open()).chain((0..many).map(|_| frame(DATA, 0, 1, b"")));
    let priorities = (0..many).map(|_| frame(2, 0, 1, &[0, 0, 0, 0, 1]));
    let unknown = (0..many).map(|_| frame(99, 0, 0, b""));
    let floods: [(&str, Frames); 6] = [
        ("pings", Box::new(pings)),
        ("settings", Box::new(settings)),
        ("requests taken back", Box::new(resets)),
        ("data without a byte", Box::new(nothing)),
        ("priorities", Box::new(priorities)),
        ("frames that nobody knows", Box::new(unknown)),
    ];
    for (count, (what, frames)) in (1..).zip(floods) {
        assert_eq!(farewell(&flood(&running, frames).await), ENHANCE_YOUR_CALM, "{what}");
        running.closed("flooded", count).await;
        assert_eq!(bystander.get("a", "/").await.body, "ok", "{what}");
    }
    running.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn requests_that_are_taken_back_slowly_are_a_flood_too() {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let running = Running::start(&all_to(&[listener.local_addr().unwrap()])).await;
    let mut client = RawClient::connect(&running).await;
    client.find(SETTINGS).await;
    // Each is with an endpoint, which does not answer, before it is taken back.
    let mut kept = Vec::new();
    let mut taken_back = 0_u32;
    loop {
        let stream = 2 * taken_back + 1;
        if !client.try_send(&asking(stream, &[])).await {
            break;
        }
        let Ok(accepted) = tokio::time::timeout(std::time::Duration::from_secs(1), listener.accept()).await
        else {
            break;
        };
        kept.push(accepted);
        client
            .try_send(&[frame(RST_STREAM, 0, stream, &[0, 0, 0, 8]), frame(PING, 0, 0, &[0; 8])].concat())
            .await;
        taken_back += 1;
        assert!(taken_back < 5000, "nobody stops it");
    }
    assert_eq!(farewell(&client.rest().await), ENHANCE_YOUR_CALM);
    running.closed("flooded", 1).await;
    running.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn heads_that_never_end_or_are_too_large_are_not_gathered() {
    let backend = HttpBackend::named("ok").await;
    let running = Running::start(&all_to(&[backend.address])).await;
    let bystander = StreamClient::connect(&running).await;
    let begin = std::iter::once(frame(HEADERS, END_STREAM, 1, &block(&super::streams::ASKS)));
    let endless =
        begin.chain((0..5000).map(|_| frame(CONTINUATION, 0, 1, &block(&[("x", &"y".repeat(1000))]))));
    let said = flood(&running, endless).await;
    assert!([PROTOCOL_ERROR, ENHANCE_YOUR_CALM].contains(&farewell(&said)), "{:?}", said.last());
    let begin = std::iter::once(frame(HEADERS, END_STREAM, 1, &block(&super::streams::ASKS)));
    let tiny = begin.chain((0..20_000).map(|_| frame(CONTINUATION, 0, 1, b"")));
    let said = flood(&running, tiny).await;
    assert!([PROTOCOL_ERROR, ENHANCE_YOUR_CALM].contains(&farewell(&said)), "{:?}", said.last());
    // One that is only too large is told so, and the connection goes on.
    let mut client = RawClient::connect(&running).await;
    let value = "y".repeat(10_000);
    let large = block(&[&super::streams::ASKS[..], &[("x", value.as_str()); 8]].concat());
    let mut pieces = large.chunks(16_000);
    client.send(&frame(HEADERS, END_STREAM, 1, pieces.next().unwrap())).await;
    let rest: Vec<&[u8]> = pieces.collect();
    for (i, piece) in rest.iter().enumerate() {
        let flags = if i + 1 == rest.len() { END_HEADERS } else { 0 };
        client.send(&frame(CONTINUATION, flags, 1, piece)).await;
    }
    assert_eq!(client.find(HEADERS).await.stream, 1, "431");
    client.send(&asking(3, &[])).await;
    assert_eq!(client.find(DATA).await.payload, b"ok");
    assert_eq!(bystander.get("a", "/").await.body, "ok");
    running.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn more_streams_than_allowed_are_refused_and_at_last_the_connection_is() {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let running = Running::start(&all_to(&[listener.local_addr().unwrap()])).await;
    let mut client = RawClient::connect(&running).await;
    let settings = client.find(SETTINGS).await;
    let most = settings.payload.chunks(6).find(|one| one[..2] == [0, 3]).expect("a limit");
    let most = u32::from_be_bytes(most[2..].try_into().unwrap());
    client.send(&frame(SETTINGS, 1, 0, b"")).await;
    for i in 0..most {
        client.send(&asking(2 * i + 1, &[])).await;
    }
    client.send(&asking(2 * most + 1, &[])).await;
    let refused = client.find(RST_STREAM).await;
    assert_eq!((refused.stream, refused.error()), (2 * most + 1, REFUSED_STREAM));
    for i in most + 1..most + 3000 {
        if !client.try_send(&asking(2 * i + 1, &[])).await {
            break;
        }
    }
    assert_eq!(farewell(&client.rest().await), ENHANCE_YOUR_CALM);
    running.closed("flooded", 1).await;
    running.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nonsense_is_told_apart_from_a_flood() {
    let backend = HttpBackend::named("ok").await;
    let running = Running::start(&all_to(&[backend.address])).await;
    for (count, bytes) in (1..).zip([
        frame(DATA, 0, 0, b"x"),
        frame(HEADERS, END_HEADERS | END_STREAM, 2, &block(&super::streams::ASKS)),
        frame(HEADERS, END_HEADERS | END_STREAM, 1, &[0xff; 20]),
        frame(SETTINGS, 0, 1, b""),
        frame(RST_STREAM, 0, 5, &[0, 0, 0, 8]),
    ]) {
        let mut client = RawClient::connect(&running).await;
        client.try_send(&bytes).await;
        assert_ne!(farewell(&client.rest().await), 0);
        running.closed("invalidRequest", count).await;
    }
    // What begins like the preface and goes on differently.
    let mut stream = running.connect("in").await;
    tokio::io::AsyncWriteExt::write_all(&mut stream, &[&PREFACE[..18], b"XX\r\n\r\n"].concat())
        .await
        .unwrap();
    crate::support::read_all(&mut stream).await;
    running.closed("invalidRequest", 6).await;
    let client = StreamClient::connect(&running).await;
    assert_eq!(soon(client.ask(post("a", "/"), "x")).await.unwrap().body, "ok");
    running.stop().await;
}
