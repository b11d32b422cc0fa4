//! Chromium, over HTTP/2 with TLS: a page with scripts, many requests, an upload, server-sent events and a WebSocket.

use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::mpsc;

use axum::Router;
use axum::extract::RawQuery;
use axum::response::Html;
use axum::response::sse::{Event, Sse};
use axum::routing::{any, get, post};
use bytes::Bytes;
use causeway_testkit::server::signal;
use causeway_testkit::{PATIENCE, peer};
use futures::stream;
use tokio::sync::Notify;

use crate::gateway::Gateway;
use crate::script::Echo;
use crate::server::serve;

/// The server of the page, which tells what the page found.
fn site(found: mpsc::Sender<String>) -> Router {
    let asked = Arc::new(Notify::new());
    let next = Arc::clone(&asked);
    let events = async move || {
        Sse::new(stream::unfold(0, move |number| {
            let asked = Arc::clone(&asked);
            async move {
                if number > 0 {
                    asked.notified().await;
                }
                Some((
                    Ok::<_, std::convert::Infallible>(Event::default().data(format!("word-{number}"))),
                    number + 1,
                ))
            }
        }))
    };
    let script = ([("content-type", "text/javascript")], include_str!("browser.js"));
    Router::new()
        .route("/", get(Html(include_str!("browser.html"))))
        .route("/browser.js", get(script))
        .route("/style.css", get(([("content-type", "text/css")], "body { color: black }")))
        .route(
            "/echo",
            any(async |query: RawQuery, body: axum::body::Body| {
                let body = axum::body::to_bytes(body, usize::MAX).await.unwrap();
                format!("?{} {} bytes", query.0.unwrap_or_default(), body.len())
            }),
        )
        .route("/events", get(events))
        .route("/next", post(async move || next.notify_one()))
        .route(
            "/found",
            post(async move |body: Bytes| found.send(String::from_utf8_lossy(&body).into_owned()).unwrap()),
        )
}

/// The browser. Ended if it is dropped.
struct Browser(Child);

impl Browser {
    fn start(profile: &std::path::Path, url: &str) -> Option<Self> {
        let installed = ["chromium-headless-shell", "chromium"].into_iter().find_map(|name| {
            let mut command = Command::new(name);
            // As root its sandbox can't be had; the certificate is the test's own.
            command.args(["--headless", "--no-sandbox", "--disable-gpu", "--ignore-certificate-errors"]);
            command.args(["--disable-background-networking", "--no-proxy-server"]);
            command.arg(format!("--user-data-dir={}", profile.display()));
            command.arg(format!("--log-net-log={}", profile.join("net.json").display()));
            command.args(["--remote-debugging-port=0", url]);
            command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().ok()
        });
        if installed.is_none() {
            peer::skip("no chromium-headless-shell; run scripts/test-deps.sh");
        }
        installed.map(Self)
    }

    /// Asks it to end, and waits.
    fn end(mut self) {
        signal(self.0.id(), "TERM");
        let _ = self.0.wait();
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn a_page_of_a_browser_has_all_it_needs_over_http2() {
    let Some(echo) = Echo::start() else { return };
    let (sender, found) = mpsc::channel();
    let gateway = Gateway::start("HTTPRoute", &[("/", serve(site(sender))), ("/ws", echo.port)]);
    let profile = tempfile::tempdir().unwrap();
    let url = format!("https://localhost:{}/", gateway.secure);
    let Some(browser) = Browser::start(profile.path(), &url) else { return };
    let found = found.recv_timeout(PATIENCE).unwrap();
    browser.end();
    let found: serde_json::Value = serde_json::from_str(&found).unwrap();
    let expected = serde_json::json!({
        "requests": 50,
        "upload": "? 4194304 bytes",
        "events": "word-0 word-1 word-2 word-3 word-4",
        "webSocket": "grüße 1048576 1000 true",
        "protocols": "h2",
    });
    assert_eq!(found, expected);
    // The page can't say how its WebSocket went; the browser's own notes can.
    let notes = std::fs::read_to_string(profile.path().join("net.json")).unwrap();
    assert!(notes.contains(":protocol: websocket"), "the WebSocket was not in a stream of HTTP/2");
}
