//! Peers that misbehave: bounded, counted, and no harm to others.

use std::net::SocketAddr;
use std::process::Command;
use std::time::{Duration, Instant};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

use crate::support::{Backend, PATIENCE, Running, eventually, hello, plain_plan, read_all, tls_plan};

fn descriptors() -> usize {
    std::fs::read_dir("/proc/self/fd").unwrap().count()
}

fn reset(stream: TcpStream) {
    // The client may have been refused already.
    let _ = rustix::net::sockopt::set_socket_linger(&stream, Some(Duration::ZERO));
}

async fn still_served(running: &Running) {
    let hello = hello("a.test");
    assert_eq!(running.ask("in", &hello).await, hello);
}

/// Sends each of `count` connections what `send` says, 64 at a time.
async fn flood<F: Future<Output = ()> + Send + 'static>(
    count: usize,
    address: SocketAddr,
    send: fn(TcpStream, usize) -> F,
) {
    const AT_ONCE: usize = 64;
    let mut senders = tokio::task::JoinSet::new();
    for first in 0..AT_ONCE {
        senders.spawn(async move {
            for i in (first..count).step_by(AT_ONCE) {
                let stream = TcpStream::connect(address).await.unwrap();
                send(stream, i).await;
            }
        });
    }
    while let Some(sent) = senders.join_next().await {
        sent.unwrap();
    }
}

async fn junk(mut stream: TcpStream, i: usize) {
    let junk: &[u8] = match i % 4 {
        0 => b"\x16\x03\x01\x00\x05\x63\x63\x63\x63\x63",
        1 => b"GET / HTTP/1.1\r\n\r\n",
        2 => b"\x16\x03\x01",
        _ => b"\0\xff\0\xff\0\xff\0\xff",
    };
    // It may be refused before all is sent.
    let _ = stream.write_all(junk).await;
    let _ = stream.shutdown().await;
    let mut rest = [0; 64];
    while let Ok(1..) = stream.read(&mut rest).await {}
    // No port is left waiting: so many connections in a row would use them all up.
    reset(stream);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_hundred_thousand_junk_connections_are_counted_and_leave_nothing_behind() {
    let backend = Backend::named("").await;
    let running = Running::start(&tls_plan("a.test", &[backend.address], "")).await;
    // What the first ones set up for good is not counted against the rest.
    flood(2000, running.address("in"), junk).await;
    eventually("the first are gone", || running.metric(&["causeway_connections_active"]) == 0).await;
    let before = descriptors();
    let flooding = tokio::spawn(flood(98_000, running.address("in"), junk));
    let mut slowest = Duration::ZERO;
    let mut beat = tokio::time::interval(Duration::from_millis(20));
    while !flooding.is_finished() {
        beat.tick().await;
        let asked = Instant::now();
        still_served(&running).await;
        slowest = slowest.max(asked.elapsed());
    }
    flooding.await.unwrap();
    eventually("all are gone", || running.metric(&["causeway_connections_active"]) == 0).await;
    let closed = |reason: &str| running.metric(&["causeway_connections_closed_total", reason]);
    assert_eq!(closed("invalidHello"), 25_000);
    assert_eq!(closed("\"plaintext\""), 50_000);
    assert_eq!(closed("clientLeft"), 25_000);
    assert!(slowest < PATIENCE / 2, "{slowest:?}");
    // Other tests of this process have descriptors too, for a while. Memory is the soak's to watch, for the same reason.
    eventually("descriptors are given back", || descriptors() <= before + 8).await;
    running.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_hello_that_trickles_is_cut_off_in_time() {
    let backend = Backend::named("").await;
    let running =
        Running::start(&tls_plan("a.test", &[backend.address], "limits: {handshakeTimeout: 500ms}\n")).await;
    let mut slow = Vec::new();
    for _ in 0..200 {
        slow.push(running.connect("in").await);
    }
    let bytes = hello("a.test");
    let began = Instant::now();
    // One byte at a time never makes a hello, but each is a sign of life.
    let mut beat = tokio::time::interval(Duration::from_millis(50));
    for byte in bytes.chunks(1) {
        beat.tick().await;
        if running.metric(&["causeway_connections_closed_total", "handshakeTimeout"]) == 200 {
            break;
        }
        for stream in &mut slow {
            let _ = stream.write_all(byte).await;
        }
    }
    running.closed("handshakeTimeout", 200).await;
    assert!(began.elapsed() >= Duration::from_millis(450) && began.elapsed() < PATIENCE);
    still_served(&running).await;
    running.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_hello_that_never_ends_is_cut_off_by_size() {
    let backend = Backend::named("").await;
    let running =
        Running::start(&tls_plan("a.test", &[backend.address], "limits: {handshakeTimeout: 1h}\n")).await;
    // A handshake message of 16 MiB, in records that are all well formed.
    let mut first = vec![22, 3, 1, 0x40, 0, 1, 0xff, 0xff, 0xff];
    first.resize(5 + 0x4000, 0);
    let mut next = vec![22, 3, 1, 0x40, 0];
    next.resize(5 + 0x4000, 0);
    let mut stream = running.connect("in").await;
    stream.write_all(&first).await.unwrap();
    let mut sent = first.len();
    while sent < 1 << 20 && stream.write_all(&next).await.is_ok() {
        sent += next.len();
    }
    running.closed("invalidHello", 1).await;
    still_served(&running).await;
    running.stop().await;
}

async fn greet_and_reset(mut stream: TcpStream, i: usize) {
    if i.is_multiple_of(2) {
        let _ = stream.write_all(&hello("a.test")).await;
    }
    reset(stream);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_storm_of_resets_is_counted_and_leaves_nothing_behind() {
    let backend = Backend::named("").await;
    let running = Running::start(&tls_plan("a.test", &[backend.address], "")).await;
    let before = descriptors();
    flood(5000, running.address("in"), greet_and_reset).await;
    eventually("all are gone", || running.metric(&["causeway_connections_active"]) == 0).await;
    let accepted = running.metric(&["envoy_listener_downstream_cx_total"]);
    let left: u64 = ["clientReset", "clientLeft", "finished", "endpointReset", "connectFailed"]
        .iter()
        .map(|reason| running.metric(&["causeway_connections_closed_total", reason]))
        .sum();
    assert_eq!(left, accepted);
    assert!(running.metric(&["causeway_connections_closed_total", "clientReset"]) > 0);
    assert_eq!(running.metric(&["causeway_ejections_total"]), 0, "clients do not decide over endpoints");
    eventually("descriptors are given back", || descriptors() <= before + 8).await;
    still_served(&running).await;
    running.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_endpoint_that_resets_before_a_word_is_rested() {
    let rude = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = rude.local_addr().unwrap();
    let resetting = tokio::spawn(async move {
        loop {
            let (mut stream, _) = rude.accept().await.unwrap();
            let mut word = [0; 1];
            let _ = stream.read(&mut word).await;
            reset(stream);
        }
    });
    let polite = Backend::named("polite").await;
    let ejection = "  ejection: {consecutiveResets: 3, time: 1h}\n";
    let running = Running::start(&plain_plan(&[address, polite.address], ejection)).await;
    for _ in 0..20 {
        let mut stream = running.connect("in").await;
        let _ = stream.write_all(b"hello").await;
        let _ = stream.shutdown().await;
        let mut answer = Vec::new();
        let _ = tokio::time::timeout(PATIENCE, stream.read_to_end(&mut answer)).await.unwrap();
    }
    eventually("rested", || running.handle.clusters()[0].endpoints[0].ejected).await;
    assert_eq!(running.metric(&["causeway_early_resets_total"]), 3);
    assert_eq!(running.metric(&["causeway_connect_failures_total"]), 0);
    for _ in 0..4 {
        assert_eq!(running.ask("in", b"").await, b"polite");
    }
    resetting.abort();
    running.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_endpoint_that_never_says_a_word_is_bounded_by_the_idle_timeout_and_counted() {
    let mute = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let running = Running::start(&plain_plan(&[mute.local_addr().unwrap()], "  idleTimeout: 300ms\n")).await;
    let mut client = running.connect("in").await;
    client.write_all(b"anybody?").await.unwrap();
    assert_eq!(read_all(&mut client).await, b"");
    running.closed("idleTimeout", 1).await;
    assert_eq!(running.metric(&["causeway_unanswered_total", "cluster=\"c\""]), 1);
    running.stop().await;
}

/// A network namespace with a wire to this one; gone when dropped.
struct Island {
    name: String,
    address: &'static str,
}

impl Island {
    fn new() -> Option<Self> {
        let name = format!("cw{}", std::process::id() % 100_000);
        let island = Self { address: "198.51.100.1", name };
        let (inside, outside) = (format!("{}i", island.name), format!("{}o", island.name));
        let done = Self::ip(&["netns", "add", &island.name])
            && Self::ip(&[
                "link",
                "add",
                &outside,
                "type",
                "veth",
                "peer",
                "name",
                &inside,
                "netns",
                &island.name,
            ])
            && Self::ip(&["addr", "add", "198.51.100.1/30", "dev", &outside])
            && Self::ip(&["link", "set", &outside, "up"])
            && Self::ip(&["-n", &island.name, "addr", "add", "198.51.100.2/30", "dev", &inside])
            && Self::ip(&["-n", &island.name, "link", "set", &inside, "up"]);
        done.then_some(island)
    }

    fn ip(args: &[&str]) -> bool {
        Command::new("ip").args(args).output().is_ok_and(|output| output.status.success())
    }
}

impl Drop for Island {
    fn drop(&mut self) {
        Self::ip(&["link", "del", &format!("{}o", self.name)]);
        Self::ip(&["netns", "del", &self.name]);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_peer_that_vanishes_without_a_word_is_found_by_keep_alive() {
    let Some(island) = Island::new() else {
        assert!(std::env::var_os("CI").is_none_or(|ci| ci != "true"), "namespaces can't be had");
        println!("skipped: network namespaces can't be had (needs root and ip)");
        return;
    };
    let backend = Backend::named("hi").await;
    let keepalive = "  keepalive: {time: 1s, interval: 1s, probes: 2}\n";
    let plan =
        plain_plan(&[backend.address], keepalive).replace("127.0.0.1:0", &format!("{}:0", island.address));
    let running = Running::start(&plan).await;
    let port = running.address("in").port();
    let script =
        format!("exec 3<>/dev/tcp/{}/{port}; read -n 2 -u 3 word; echo $word; sleep 60", island.address);
    let mut client = Command::new("ip")
        .args(["netns", "exec", &island.name, "bash", "-c", &script])
        .stdout(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    eventually("the client is served", || running.metric(&["causeway_bytes_total", "down"]) == 2).await;
    assert!(Island::ip(&["-n", &island.name, "link", "set", &format!("{}i", island.name), "down"]));
    running.closed("clientReset", 1).await;
    client.kill().unwrap();
    client.wait().unwrap();
    running.stop().await;
}
