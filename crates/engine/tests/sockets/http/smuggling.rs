//! One request in is exactly one request out, or it is refused: the table, by the front door alone and through sockets.

use causeway_engine::front;
use tokio::io::AsyncWriteExt;

use super::backend::{Client, HttpBackend, all_to, status};
use super::corpus::{CASES, Expected, bytes};
use crate::support::Running;

#[test]
fn one_request_in_is_one_request_out_or_none() {
    assert!(CASES.len() >= 100, "{}", CASES.len());
    for (name, case, expected) in CASES {
        let passed = front::pass(&bytes(case));
        let found = match passed.refused {
            None => Expected::Out(passed.requests.len()),
            Some(status) => Expected::Refused(passed.requests.len(), status),
        };
        assert_eq!(found, *expected, "{name}");
        for request in &passed.requests {
            assert!(!request.starts_with(b"GET /smuggled"), "{name}");
            // What goes on is itself beyond doubt.
            let again = front::pass(request);
            assert_eq!((again.requests.len(), again.refused, again.waiting), (1, None, 0), "{name}");
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_same_through_sockets() {
    for (name, case, expected) in CASES {
        let backend = HttpBackend::named("ok").await;
        let running = Running::start(&all_to(&[backend.address])).await;
        let mut client = Client::connect(&running).await;
        // The engine may have refused before all was sent.
        let _ = client.stream.write_all(&bytes(case)).await;
        let (out, refusal) = match expected {
            Expected::Out(out) => (*out, None),
            Expected::Refused(out, status) => (*out, Some(*status)),
        };
        if *expected == Expected::Out(1) {
            // Those that would go on are told that nothing more comes.
            let _ = client.stream.shutdown().await;
        }
        let answers = client.rest().await;
        let statuses: Vec<u16> =
            answers.split("HTTP/1.1 ").skip(1).map(|a| status(&format!("HTTP/1.1 {a}"))).collect();
        let expected: Vec<u16> = std::iter::repeat_n(200, out).chain(refusal).collect();
        assert_eq!(statuses, expected, "{name}: {answers}");
        let asked = backend.asked();
        assert_eq!(asked.len(), out, "{name}: {asked:?}");
        assert!(asked.iter().all(|asked| !asked.line().contains("smuggled")), "{name}: {asked:?}");
        running.stop().await;
    }
}
