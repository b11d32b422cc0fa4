//! What a connection costs in memory: `cargo run --release -p causeway-engine --example memory [CONNECTIONS]`.
//! Clients, engine and endpoint are processes of their own, so that each has all descriptors to itself and the
//! engine's resident memory is the engine's alone. Prints KiB when idle, after 256 KiB each way, and after close.
#![allow(clippy::unwrap_used, reason = "a tool for developers: it may end with a backtrace")]

use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use causeway_engine::{Engine, Options};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;

/// Bytes that each connection carries each way when it is made busy.
const BUSY: usize = 256 << 10;
/// Connections that are busy at a time.
const AT_ONCE: usize = 64;

#[tokio::main]
async fn main() {
    let limit = getrlimit(Resource::Nofile).maximum;
    setrlimit(Resource::Nofile, Rlimit { current: limit, maximum: limit }).unwrap();
    let args: Vec<String> = std::env::args().skip(1).collect();
    match args.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["endpoint"] => endpoint().await,
        ["engine", address] => engine(address).await,
        [] => measure(9000).await,
        [count] => measure(count.parse().unwrap()).await,
        _ => eprintln!("memory [CONNECTIONS]"),
    }
}

async fn endpoint() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    println!("{}", listener.local_addr().unwrap());
    loop {
        let (mut stream, _) = listener.accept().await.unwrap();
        tokio::spawn(async move {
            let mut block = vec![0; 4 << 10];
            while let Ok(count @ 1..) = stream.read(&mut block).await {
                if stream.write_all(&block[..count]).await.is_err() {
                    break;
                }
            }
        });
    }
}

async fn engine(address: &str) {
    let plan = format!(
        "listeners: [{{name: in, bind: '127.0.0.1:0', protocol: {{tls: {{plaintext: {{forward: c}},\n\
         routes: [{{name: r, serverNames: [a.test], action: {{forward: c}}}}]}}}}}}]\n\
         clusters: [{{name: c, endpoints: [{{address: '{address}'}}]}}]"
    );
    let plan = Arc::new(serde_saphyr::from_str(&plan).unwrap());
    let (_plan_tx, plan_rx) = watch::channel(Some(Arc::clone(&plan)));
    let engine = Engine::start(plan_rx, &Options::default()).unwrap();
    engine.handle().settled(&plan).await;
    println!("{}", engine.handle().status().address("in").unwrap());
    std::future::pending::<()>().await;
}

/// A child that has said where it listens.
struct Peer {
    child: Child,
    address: SocketAddr,
}

impl Peer {
    fn start(args: &[&str]) -> Self {
        let program = std::env::current_exe().unwrap();
        let mut child = Command::new(program).args(args).stdout(Stdio::piped()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        Self { child, address: line.trim().parse().unwrap() }
    }

    /// Resident KiB.
    fn resident(&self) -> f64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.child.id())).unwrap();
        let line = status.lines().find(|line| line.starts_with("VmRSS")).unwrap();
        line.split_whitespace().nth(1).unwrap().parse().unwrap()
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

async fn measure(count: usize) {
    let endpoint = Peer::start(&["endpoint"]);
    let engine = Peer::start(&["engine", &endpoint.address.to_string()]);
    let before = engine.resident();
    println!("started: {before} KiB");
    for round in 1..=3 {
        let mut streams = Vec::with_capacity(count);
        for _ in 0..count {
            let mut stream = TcpStream::connect(engine.address).await.unwrap();
            stream.write_all(b"hello").await.unwrap();
            stream.read_exact(&mut [0; 5]).await.unwrap();
            streams.push(stream);
        }
        show(round, "idle", count, before, engine.resident());
        let mut busy = tokio::task::JoinSet::new();
        let mut done = Vec::with_capacity(count);
        for stream in streams {
            busy.spawn(exchange(stream));
            if busy.len() >= AT_ONCE {
                done.push(busy.join_next().await.unwrap().unwrap());
            }
        }
        while let Some(stream) = busy.join_next().await {
            done.push(stream.unwrap());
        }
        show(round, "idle after 256 KiB each way", count, before, engine.resident());
        drop(done);
        let deadline = Instant::now() + Duration::from_secs(12);
        let mut last = engine.resident();
        while Instant::now() < deadline {
            tokio::time::sleep(Duration::from_millis(500)).await;
            last = last.min(engine.resident());
        }
        show(round, "closed", count, before, last);
    }
}

async fn exchange(mut stream: TcpStream) -> TcpStream {
    let (mut from, mut to) = stream.split();
    let sending = async {
        let block = [7; 16 << 10];
        for _ in 0..BUSY / block.len() {
            to.write_all(&block).await.unwrap();
        }
    };
    let receiving = async {
        let mut block = vec![0; 16 << 10];
        let mut left = BUSY;
        while left > 0 {
            left -= from.read(&mut block).await.unwrap();
        }
    };
    tokio::join!(sending, receiving);
    stream
}

fn show(round: usize, what: &str, count: usize, before: f64, now: f64) {
    let each = (now - before) / count as f64;
    println!("round {round}, {what}: {now} KiB, {each:.2} KiB per connection");
}
