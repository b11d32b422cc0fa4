//! Bent requests and frames through a whole engine: it lives, and no request is answered twice or reaches the endpoint twice.

use std::cell::Cell;
use std::collections::BTreeMap;

use causeway_engine::front::Front;
use causeway_testkit::fuzz::{drive, seeds};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::runtime::Runtime;

use super::backend::{HttpBackend, all_to};
use super::streams::{GOAWAY, HEADERS, RST_STREAM, RawClient, StreamClient, soon};
use crate::support::Running;

const FUZZ: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/fuzz");

/// Gives every bent seed to `check`, and looks whether the engine still serves others.
fn bend(target: &str, check: impl AsyncFn(&Running, &Front, &[u8]) -> usize) {
    let runtime = Runtime::new().unwrap();
    let backend = runtime.block_on(HttpBackend::named("ok"));
    let running = runtime.block_on(Running::start(&all_to(&[backend.address])));
    let front = Front::everything();
    // Requests whose client is gone may reach the endpoint a little later.
    let late = Cell::new(0);
    drive(target, &seeds(FUZZ, target), |bytes| {
        let before = backend.asked().len();
        let most = runtime.block_on(check(&running, &front, bytes));
        let asked = backend.asked().len() - before;
        let allowed = most + late.replace(most.saturating_sub(asked));
        assert!(asked <= allowed, "{asked} requests reached the endpoint, of {allowed}");
    });
    runtime.block_on(async {
        assert_eq!(StreamClient::connect(&running).await.get("a.test", "/").await.body, "ok");
        running.stop().await;
    });
}

#[test]
fn no_bent_request_is_answered_twice() {
    bend("requests", async |running, front, bytes| {
        let passed = front.pass(bytes);
        let mut stream = running.connect("in").await;
        // The engine may have refused before all was sent.
        let _ = stream.write_all(bytes).await;
        let _ = stream.shutdown().await;
        let mut answers = Vec::new();
        let _ = soon(stream.read_to_end(&mut answers)).await;
        let answers = String::from_utf8_lossy(&answers).matches("HTTP/1.1 ").count();
        let asked = passed.requests.len();
        // What the model leaves open: what half a request is told, questions about the server, what follows an upgrade.
        let open = bytes.len();
        let sure = passed.waiting == 0 && !bytes.windows(7).any(|word| word.eq_ignore_ascii_case(b"upgrade"));
        let others = bytes.windows(3).filter(|word| word == b" * ").count() + 1;
        assert!(answers <= if sure { asked + others } else { open }, "{answers} answers to {asked}");
        assert!(answers >= asked.min(1), "no answer");
        if sure { asked } else { open }
    });
}

#[test]
fn no_bent_stream_is_answered_twice() {
    bend("streams", async |running, front, bytes| {
        let passed = front.pass_streams(bytes);
        let mut client = RawClient::over(running.connect("in").await);
        client.try_send(bytes).await;
        // Complete requests are answered, or the connection is given up.
        let mut answered = BTreeMap::new();
        let mut ended = 0;
        while ended < passed.requests.len() {
            let Some(frame) = client.next().await else { break };
            match frame.kind {
                HEADERS => {
                    *answered.entry(frame.stream).or_insert(0) += 1;
                    ended += 1;
                }
                RST_STREAM => ended += 1,
                GOAWAY => break,
                _ => {}
            }
        }
        client.end().await;
        for frame in client.rest().await.iter().filter(|frame| frame.kind == HEADERS) {
            *answered.entry(frame.stream).or_insert(0) += 1;
        }
        assert!(answered.values().all(|count| *count == 1), "{answered:?}");
        assert!(answered.keys().all(|stream| stream % 2 == 1), "{answered:?}");
        passed.requests.len()
    });
}
