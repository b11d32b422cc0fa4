//! How fast bytes go through two stacks over WireGuard on loopback, and what that costs; with `--delay` and `--loss` a relay
//! stands between them. One line of JSON.
//!
//! `cargo run --release -p causeway-netstack --example throughput -- --seconds 5 --streams 1 --mtu 1420 --delay 20 --loss 0.1`
//! (delay: milliseconds of a round trip; loss: percent each way). With `--connects 1` it is connections a second that are
//! opened, used for one byte each way and closed; with `--idle 5000` what so many idle connections take of memory.

use std::collections::VecDeque;
use std::io::IoSliceMut;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use causeway_netstack::{Config, Incoming, Stack, TcpFlow, wireguard};
use quinn_udp::{RecvMeta, Transmit, UdpSockRef, UdpSocketState};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, Interest};
use tokio::net::UdpSocket;

struct Options {
    seconds: f64,
    streams: usize,
    mtu: u16,
    delay: f64,
    loss: f64,
    window: u32,
    connects: bool,
    idle: usize,
}

fn options() -> Options {
    let arguments: Vec<String> = std::env::args().collect();
    let value = |name: &str, default: f64| {
        let at = arguments.iter().position(|argument| argument == name);
        at.and_then(|at| arguments.get(at + 1)).map_or(default, |text| text.parse().expect("a number"))
    };
    Options {
        seconds: value("--seconds", 5.0),
        streams: value("--streams", 1.0) as usize,
        mtu: value("--mtu", 1420.0) as u16,
        delay: value("--delay", 0.0),
        loss: value("--loss", 0.0),
        window: value("--window", f64::from(Config::default().largest_window)) as u32,
        connects: value("--connects", 0.0) > 0.0,
        idle: value("--idle", 0.0) as usize,
    }
}

#[tokio::main]
async fn main() -> std::io::Result<()> {
    let options = options();
    let (hub_key, key) = (wireguard::SecretKey::generate(), wireguard::SecretKey::generate());
    let hub_public = hub_key.public();
    let mut config = wireguard::Config::new(hub_key, ([127, 0, 0, 1], 0).into());
    config.mtu = options.mtu;
    let (hub, device) = wireguard::bind(config)?;
    hub.set_peers(vec![wireguard::Peer::new(key.public(), vec!["10.0.0.2/32".parse().expect("a network")])]);
    let stack_config = Config { largest_window: options.window, ..Config::default() };
    let (_server, mut arrivals) = Stack::start(device, &stack_config);
    let received = Arc::new(AtomicU64::new(0));
    tokio::spawn({
        let received = Arc::clone(&received);
        async move {
            while let Some(Incoming::Tcp(pending)) = arrivals.next().await {
                let (mut flow, received) = (pending.accept(), Arc::clone(&received));
                tokio::spawn(async move {
                    if flow.to().port() != 80 {
                        let _ = flow.read_u8().await;
                        let _ = flow.write_u8(1).await;
                        let _ = flow.read_u8().await;
                        return;
                    }
                    let mut buffer = vec![0; 256 << 10];
                    while let Ok(count @ 1..) = flow.read(&mut buffer).await {
                        received.fetch_add(count as u64, Relaxed);
                    }
                });
            }
        }
    });
    let endpoint = if options.delay > 0.0 || options.loss > 0.0 {
        relay(hub.local_addr(), Duration::from_secs_f64(options.delay / 2000.0), options.loss / 100.0)?
    } else {
        hub.local_addr()
    };
    let (_, device) = wireguard::dial(key, options.mtu, wireguard::Peer::hub(hub_public, endpoint))?;
    let (client, _arrivals) = Stack::start(device, &stack_config);
    if options.connects || options.idle > 0 {
        return crowd(&client, &options).await;
    }
    for _ in 0..options.streams {
        let to = ([10, 0, 0, 1], 80).into();
        let mut flow = client.connect_tcp(([10, 0, 0, 2], 0).into(), to).await?;
        tokio::spawn(async move {
            let piece = vec![7; 256 << 10];
            while flow.write_all(&piece).await.is_ok() {}
        });
    }
    // The beginning of a connection is not what is asked for.
    tokio::time::sleep(Duration::from_secs_f64((options.seconds / 5.0).min(1.0))).await;
    let (start, bytes, cpu) = (Instant::now(), received.load(Relaxed), processor());
    let mut longest_stall = Duration::ZERO;
    let (mut last, mut moved) = (bytes, start);
    while start.elapsed().as_secs_f64() < options.seconds {
        tokio::time::sleep(Duration::from_millis(5)).await;
        let now = received.load(Relaxed);
        if now != last {
            longest_stall = longest_stall.max(moved.elapsed());
            (last, moved) = (now, Instant::now());
        }
    }
    longest_stall = longest_stall.max(moved.elapsed());
    let (took, bytes, cpu) = (start.elapsed(), received.load(Relaxed) - bytes, processor() - cpu);
    println!(
        "{{\"streams\":{},\"mtu\":{},\"delay_ms\":{},\"loss_percent\":{},\"mbit_per_second\":{:.1},\"cpu_seconds_per_gib\":{:.3},\"longest_stall_ms\":{}}}",
        options.streams,
        options.mtu,
        options.delay,
        options.loss,
        bytes as f64 * 8.0 / 1e6 / took.as_secs_f64(),
        cpu / (bytes as f64 / f64::from(1 << 30)),
        longest_stall.as_millis(),
    );
    Ok(())
}

/// Many connections that carry nearly nothing.
async fn crowd(client: &Stack, options: &Options) -> std::io::Result<()> {
    async fn one(client: &Stack) -> std::io::Result<TcpFlow> {
        let mut flow = client.connect_tcp(([10, 0, 0, 2], 0).into(), ([10, 0, 0, 1], 81).into()).await?;
        flow.write_u8(1).await?;
        flow.read_u8().await?;
        Ok(flow)
    }
    let before = resident();
    let (start, cpu) = (Instant::now(), processor());
    if options.idle > 0 {
        let mut flows = Vec::new();
        for _ in 0..options.idle {
            flows.push(one(client).await?);
        }
        // What is at rest gives its memory back after a while.
        tokio::time::sleep(Duration::from_secs(5)).await;
        let each = (resident() - before) as f64 / options.idle as f64;
        println!("{{\"idle\":{},\"bytes_each_both_ends\":{each:.0}}}", flows.len());
        return Ok(());
    }
    let count = Arc::new(AtomicU64::new(0));
    for _ in 0..64 {
        let (client, count) = (client.clone(), Arc::clone(&count));
        tokio::spawn(async move {
            while one(&client).await.is_ok() {
                count.fetch_add(1, Relaxed);
            }
        });
    }
    tokio::time::sleep(Duration::from_secs_f64(options.seconds)).await;
    let (count, took, cpu) = (count.load(Relaxed) as f64, start.elapsed().as_secs_f64(), processor() - cpu);
    println!(
        "{{\"connects_per_second\":{:.0},\"cpu_seconds_per_10000\":{:.3}}}",
        count / took,
        cpu / count * 1e4
    );
    Ok(())
}

/// Bytes of memory that this process has.
fn resident() -> u64 {
    let status = std::fs::read_to_string("/proc/self/statm").unwrap_or_default();
    status.split(' ').nth(1).and_then(|pages| pages.parse::<u64>().ok()).unwrap_or(0) * 4096
}

/// Processor time of this process so far, in seconds.
fn processor() -> f64 {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    time.tv_sec as f64 + time.tv_nsec as f64 / 1e9
}

/// Stands before the hub: every datagram comes later, some never. Rows of datagrams are kept as rows, so that the relay is
/// not what is measured.
fn relay(hub: SocketAddr, delay: Duration, loss: f64) -> std::io::Result<SocketAddr> {
    let (outer, inner) = (Arc::new(Port::open()?), Arc::new(Port::open()?));
    let address = outer.socket.local_addr()?;
    let client = Arc::new(Mutex::new(None));
    for (from, to, inward) in [(&outer, &inner, true), (&inner, &outer, false)] {
        let (from, to, client) = (Arc::clone(from), Arc::clone(to), Arc::clone(&client));
        tokio::spawn(async move {
            let mut waiting: VecDeque<(tokio::time::Instant, Row)> = VecDeque::new();
            let mut buffer = vec![0; 1 << 16];
            loop {
                let next = waiting.front().map(|(at, _)| *at);
                tokio::select! {
                    biased;
                    () = async { tokio::time::sleep_until(next.expect("one that waits")).await }, if next.is_some() => {
                        let now = tokio::time::Instant::now();
                        while let Some((_, row)) = waiting.pop_front_if(|(at, _)| *at <= now) {
                            let target = if inward { Some(hub) } else { *client.lock().expect("a lock") };
                            if let Some(target) = target {
                                to.send(&row, target).await;
                            }
                        }
                    }
                    row = from.receive(&mut buffer, loss) => {
                        let Ok(row) = row else { continue };
                        if inward {
                            *client.lock().expect("a lock") = Some(row.from);
                        }
                        if !row.bytes.is_empty() {
                            waiting.push_back((tokio::time::Instant::now() + delay, row));
                        }
                    }
                }
            }
        });
    }
    Ok(address)
}

/// Datagrams of one sender, each but the last equally long.
struct Row {
    from: SocketAddr,
    bytes: Vec<u8>,
    size: usize,
}

/// One side of the relay.
struct Port {
    socket: UdpSocket,
    state: UdpSocketState,
}

impl Port {
    fn open() -> std::io::Result<Self> {
        let socket = std::net::UdpSocket::bind("127.0.0.1:0")?;
        socket2::SockRef::from(&socket).set_recv_buffer_size(4 << 20)?;
        let state = UdpSocketState::new(UdpSockRef::from(&socket))?;
        socket.set_nonblocking(true)?;
        Ok(Self { socket: UdpSocket::from_std(socket)?, state })
    }

    async fn receive(&self, buffer: &mut [u8], loss: f64) -> std::io::Result<Row> {
        let mut meta = [RecvMeta::default()];
        let socket = || UdpSockRef::from(&self.socket);
        self.socket
            .async_io(Interest::READABLE, || {
                self.state.recv(socket(), &mut [IoSliceMut::new(buffer)], &mut meta)
            })
            .await?;
        let [RecvMeta { len, stride, addr, .. }] = meta;
        let kept = buffer[..len].chunks(stride.max(1)).filter(|_| causeway_base::random::fraction() >= loss);
        Ok(Row { from: addr, bytes: kept.flatten().copied().collect(), size: stride })
    }

    async fn send(&self, row: &Row, target: SocketAddr) {
        let transmit = Transmit {
            destination: target,
            ecn: None,
            contents: &row.bytes,
            segment_size: (row.bytes.len() > row.size).then_some(row.size),
            src_ip: None,
        };
        let send = || self.state.try_send(UdpSockRef::from(&self.socket), &transmit);
        let _ = self.socket.async_io(Interest::WRITABLE, send).await;
    }
}
