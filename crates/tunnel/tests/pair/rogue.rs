//! A container that was taken over: it speaks the protocol, but keeps to no limit.

use std::sync::{Arc, Mutex};

use causeway_ir::Limit;
use causeway_ir::tunnel::Tunnel;
use causeway_link::{Credentials, Handler, Incoming, Link, Listener, Settings, Stream};
use causeway_tunnel::host::{Host, Options};
use causeway_tunnel::{Authority, client_identity};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::sync::mpsc;

use crate::pair::{PATIENCE, any, echo, tunnel, within};

struct Taking(Mutex<Option<mpsc::Sender<Stream>>>);

impl Handler for Taking {
    fn opened(&self, incoming: Incoming<'_>) {
        if let Some(streams) = self.0.lock().expect("no panic").take() {
            streams.try_send(incoming.accept(settings())).expect("there is room");
        }
    }
}

fn settings() -> Settings {
    Settings { idle_timeout: PATIENCE, traffic: Arc::default(), client: None }
}

async fn say(stream: &mut Stream, text: &str) {
    stream.write_all(&(text.len() as u32).to_be_bytes()).await.expect("writes");
    stream.write_all(text.as_bytes()).await.expect("writes");
}

async fn hear(stream: &mut Stream) -> String {
    let length = within("a message", stream.read_u32()).await.expect("reads");
    let mut text = vec![0; length as usize];
    within("a message", stream.read_exact(&mut text)).await.expect("reads");
    String::from_utf8(text).expect("text")
}

/// Plays the container until the host has made a data link.
async fn data_link(
    authority: &Authority,
    host: impl FnOnce(Options) -> Host,
) -> (Host, Arc<Link>, Vec<Stream>) {
    let identity = client_identity(authority).expect("keys");
    let credentials = Credentials::new(&identity).expect("fits");
    let mut control = Listener::bind(any(), credentials.clone()).await.expect("a port");
    let mut data = Listener::bind(any(), credentials).await.expect("a port");
    let host = host(Options::new(control.address(), data.address(), authority.clone()));
    let (taken_tx, mut taken) = mpsc::channel(1);
    let handler = Arc::new(Taking(Mutex::new(Some(taken_tx))));
    let (_, driver) = within("control", control.accept()).await.start(handler.clone());
    tokio::spawn(driver.run());
    let mut stream = within("the control stream", taken.recv()).await.expect("the host opens it");
    assert_eq!(hear(&mut stream).await, r#"{"Hello":{"version":2}}"#);
    say(&mut stream, r#"{"Welcome":{"version":2,"session":"s"}}"#).await;
    assert!(hear(&mut stream).await.contains("Carry"));
    let connection = within("data", data.accept()).await;
    assert_eq!(connection.greeting(), b"s");
    let (link, driver) = connection.start(handler);
    tokio::spawn(driver.run());
    (host, link, vec![stream])
}

#[tokio::test(flavor = "multi_thread")]
async fn the_host_keeps_to_the_limit_of_streams_whatever_the_container_does() {
    let (authority, service) = (Authority::new().expect("keys"), echo("").await);
    let crowded = Tunnel { max_streams: Limit::new(2).expect("not 0"), ..tunnel(1, &[service]) };
    let (host, link, _control) = data_link(&authority, |options| {
        let host = Host::start(options);
        host.carry(vec![crowded]);
        host
    })
    .await;
    let request = [0, 0, 0, 1, 0, 80, 10, 0, 0, 7];
    let mut inside = Vec::new();
    for _ in 0..2 {
        let mut stream = link.open(&request, settings()).expect("usable");
        stream.write_all(b"hello").await.expect("writes");
        within("an echo", stream.read_exact(&mut [0; 5])).await.expect("reads");
        inside.push(stream);
    }
    let mut third = link.open(&request, settings()).expect("usable");
    let refused = within("a refusal", third.read(&mut [0; 1])).await.expect_err("too many");
    assert!(refused.to_string().contains("as many streams as it may have"), "{refused}");
    assert_eq!(host.streams(), 2);
    let counters = host.counters(1).expect("counted");
    assert_eq!((counters.streams, counters.opened, counters.refused), (2, 2, 1));
    for stray in [&[0, 0, 0, 9, 0, 80, 10, 0, 0, 7][..], b"rubbish", b""] {
        let mut stream = link.open(stray, settings()).expect("usable");
        within("a refusal", stream.read(&mut [0; 1])).await.expect_err("no such tunnel");
    }
    for stream in &mut inside {
        stream.write_all(b"still").await.expect("writes");
        within("an echo", stream.read_exact(&mut [0; 5])).await.expect("reads");
    }
}
