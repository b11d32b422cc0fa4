//! Bytes arrive, whole and in order, and streams don't get in each other's way.

use std::net::{Ipv6Addr, SocketAddr};
use std::sync::Arc;
use std::time::{Duration, Instant};

use causeway_ir::tunnel::{Port, Tunnel, TunnelState};
use causeway_ir::{Limit, Period};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::sync::Semaphore;

use crate::pair::{Pair, any, dial, echo, echoes, tunnel, within};

#[tokio::test(flavor = "multi_thread")]
async fn a_client_of_the_container_reaches_the_service() {
    let pair = Pair::start().await;
    let port = pair.carry(vec![tunnel(1, &[echo("").await])]).await;
    let mut client = dial(port).await;
    echoes(&mut client, "hello").await;
    echoes(&mut client, "again").await;
    let counters = pair.host.counters(1).expect("counted");
    assert_eq!((counters.streams, counters.opened, counters.to_host), (1, 1, 10));
    drop(client);
    within("the stream's end", async {
        while pair.host.counters(1).expect("counted").streams > 0 {
            tokio::task::yield_now().await;
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_service_that_speaks_first_is_heard() {
    let pair = Pair::start().await;
    let port = pair.carry(vec![tunnel(1, &[echo("220 ready\n").await])]).await;
    let mut greeting = [0; 10];
    within("the greeting", dial(port).await.read_exact(&mut greeting)).await.expect("reads");
    assert_eq!(&greeting, b"220 ready\n");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_ipv6_client_is_served() {
    let pair = Pair::start().await;
    let port = pair.carry(vec![tunnel(1, &[echo("").await])]).await;
    let mut client = TcpStream::connect((Ipv6Addr::LOCALHOST, port)).await.expect("connects");
    echoes(&mut client, "six").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_is_lost_when_the_client_closes_its_half() {
    const SIZE: usize = 24 << 20;
    let pair = Pair::start().await;
    let port = pair.carry(vec![tunnel(1, &[echo("").await])]).await;
    let data: Arc<Vec<u8>> =
        Arc::new((0..SIZE).map(|at| (at.wrapping_mul(2_654_435_761) >> 13) as u8).collect());
    let streams: Vec<_> = (0..4)
        .map(|_| {
            let data = data.clone();
            tokio::spawn(async move {
                let (mut read, mut write) = dial(port).await.into_split();
                let sent = data.clone();
                let writer = tokio::spawn(async move {
                    write.write_all(&sent).await.expect("writes");
                    write.shutdown().await.expect("closes its half");
                    write
                });
                let mut back = Vec::new();
                within("the echo", read.read_to_end(&mut back)).await.expect("reads to the end");
                writer.await.expect("writer");
                assert!(back == *data, "got {} of {SIZE} bytes", back.len());
            })
        })
        .collect();
    for stream in streams {
        stream.await.expect("a stream");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_that_does_not_read_holds_back_its_service_and_nobody_else() {
    let pair = Pair::start().await;
    // A service that sends without end.
    let listener = TcpListener::bind(any()).await.expect("a port");
    let endless = listener.local_addr().expect("an address");
    let sent = Arc::new(std::sync::atomic::AtomicU64::new(0));
    let counted = sent.clone();
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let counted = counted.clone();
            tokio::spawn(async move {
                while let Ok(count) = stream.write(&[7; 16_384]).await {
                    counted.fetch_add(count as u64, std::sync::atomic::Ordering::Relaxed);
                }
            });
        }
    });
    pair.carry(vec![tunnel(1, &[endless]), tunnel(2, &[echo("").await])]).await;
    let (stuck, echoing) = (pair.listening(1).await, pair.listening(2).await);
    let deaf = dial(stuck).await;
    // Until it stands still: what is on its way is bounded by buffers.
    within("standing still", async {
        let mut last = u64::MAX;
        loop {
            let now = sent.load(std::sync::atomic::Ordering::Relaxed);
            if now == last && now > 0 {
                break;
            }
            last = now;
            let mut client = dial(echoing).await;
            let started = Instant::now();
            while started.elapsed() < Duration::from_millis(100) {
                echoes(&mut client, "still quick").await;
            }
        }
    })
    .await;
    assert!(sent.load(std::sync::atomic::Ordering::Relaxed) < 64 << 20, "nobody held the service back");
    drop(deaf);
}

#[tokio::test(flavor = "multi_thread")]
async fn nobody_there_is_a_refusal_and_somebody_later_is_an_answer() {
    let pair = Pair::start().await;
    // A port that nobody has.
    let free = TcpListener::bind(any()).await.expect("a port").local_addr().expect("an address");
    pair.host.carry(vec![tunnel(1, &[free])]);
    let said = free.to_string();
    let is_tried = |state: &TunnelState| matches!(state, TunnelState::Unreachable { error, .. } if error.contains(&said));
    let state = pair.state(1, is_tried).await;
    let TunnelState::Unreachable { port, .. } = state else { unreachable!("waited for it") };
    let refused = TcpStream::connect(("127.0.0.1", port)).await.expect_err("nobody is there");
    assert_eq!(refused.kind(), std::io::ErrorKind::ConnectionRefused);
    let service = TcpListener::bind(free).await.expect("the same port");
    assert_eq!(pair.listening(1).await, port, "the port stays");
    let client = dial(port).await;
    drop(client);
    drop(service);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_service_that_dies_is_noticed_by_the_next_client() {
    let pair = Pair::start().await;
    let listener = TcpListener::bind(any()).await.expect("a port");
    let address = listener.local_addr().expect("an address");
    let port = pair.carry(vec![tunnel(1, &[address])]).await;
    drop(listener);
    assert!(is_reset(port).await, "the stream is reset, not ended");
    pair.state(1, |state| matches!(state, TunnelState::Unreachable { .. })).await;
    within("a refusal", async { while TcpStream::connect(("127.0.0.1", port)).await.is_ok() {} }).await;
    assert!(pair.host.counters(1).expect("counted").refused >= 1);
}

/// As HTTP servers do that refuse a request for its size.
#[tokio::test(flavor = "multi_thread")]
async fn an_answer_survives_a_server_that_closes_on_unread_input() {
    const ANSWER: usize = 20_000;
    let pair = Pair::start().await;
    let listener = TcpListener::bind(any()).await.expect("a port");
    let address = listener.local_addr().expect("an address");
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            tokio::spawn(async move {
                stream.read_exact(&mut [0; 1000]).await.ok();
                stream.write_all(&vec![7; ANSWER]).await.ok();
            });
        }
    });
    let port = pair.carry(vec![tunnel(1, &[address])]).await;
    for size in [100_000, 1_000_000] {
        for turn in 0..50 {
            let (mut read, mut write) = dial(port).await.into_split();
            let writing = tokio::spawn(async move {
                // It is reset at some point.
                write.write_all(&vec![1; size]).await.ok();
                write
            });
            let (mut got, mut piece) = (0, [0; 4096]);
            while let Ok(count @ 1..) = within("the answer", read.read(&mut piece)).await {
                got += count;
            }
            assert_eq!(got, ANSWER, "turn {turn} of {size}");
            drop(writing.await);
        }
    }
}

/// A listener that has no room for one more: the kernel drops what knocks.
async fn black_hole() -> (TcpSocketHole, SocketAddr) {
    let socket = TcpSocket::new_v4().expect("a socket");
    socket.bind(any()).expect("a port");
    let listener = socket.listen(1).expect("listens");
    let address = listener.local_addr().expect("an address");
    let mut filling = Vec::new();
    while let Ok(Ok(stream)) =
        tokio::time::timeout(Duration::from_millis(200), TcpStream::connect(address)).await
    {
        filling.push(stream);
    }
    ((listener, filling), address)
}
type TcpSocketHole = (TcpListener, Vec<TcpStream>);

#[tokio::test(flavor = "multi_thread")]
async fn a_dead_service_delays_nobody_else() {
    let pair = Pair::start().await;
    let (_hole, dead) = black_hole().await;
    let live = echo("").await;
    // The dead one is alive at first, so that its port is open.
    pair.carry(vec![tunnel(1, &[live]), tunnel(2, &[live])]).await;
    let (healthy, doomed) = (pair.listening(1).await, pair.listening(2).await);
    let slow = Tunnel { connect_timeout: Period::from_secs(3), ..tunnel(2, &[dead]) };
    pair.host.carry(vec![tunnel(1, &[live]), slow]);
    let waiting: Vec<_> = (0..50).map(|_| tokio::spawn(TcpStream::connect(("127.0.0.1", doomed)))).collect();
    let started = Instant::now();
    for _ in 0..100 {
        echoes(&mut dial(healthy).await, "quick").await;
    }
    assert!(started.elapsed() < Duration::from_secs(2), "100 streams took {:?}", started.elapsed());
    for waiting in waiting {
        waiting.await.expect("a task").ok();
    }
    pair.state(2, |state| matches!(state, TunnelState::Unreachable { .. })).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_moved_service_gets_new_streams_at_once_and_old_ones_go_on() {
    let pair = Pair::start().await;
    let (old, new) = (echo("old").await, echo("new").await);
    let port = pair.carry(vec![tunnel(1, &[old])]).await;
    let mut before = dial(port).await;
    let mut word = [0; 3];
    within("a word", before.read_exact(&mut word)).await.expect("reads");
    assert_eq!(&word, b"old");
    pair.host.carry(vec![tunnel(1, &[new])]);
    let mut after = dial(port).await;
    within("a word", after.read_exact(&mut word)).await.expect("reads");
    assert_eq!(&word, b"new");
    echoes(&mut before, "still here").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn two_tunnels_to_one_service_are_two() {
    let pair = Pair::start().await;
    let service = echo("").await;
    pair.carry(vec![tunnel(1, &[service]), tunnel(2, &[service])]).await;
    let (first, second) = (pair.listening(1).await, pair.listening(2).await);
    assert_ne!(first, second);
    pair.carry(vec![tunnel(2, &[service])]).await;
    echoes(&mut dial(second).await, "alive").await;
    within("the first one's end", async { while TcpStream::connect(("127.0.0.1", first)).await.is_ok() {} })
        .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_removed_tunnel_closes_its_port_and_lets_its_streams_end() {
    let pair = Pair::start().await;
    let port = pair.carry(vec![tunnel(1, &[echo("").await])]).await;
    let mut client = dial(port).await;
    echoes(&mut client, "before").await;
    pair.host.carry(Vec::new());
    within("a refusal", async { while TcpStream::connect(("127.0.0.1", port)).await.is_ok() {} }).await;
    echoes(&mut client, "after").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_drain_waits_for_streams_and_no_longer_than_its_limit() {
    let pair = Pair::start().await;
    let port = pair.carry(vec![tunnel(1, &[echo("").await])]).await;
    let mut client = dial(port).await;
    echoes(&mut client, "before").await;
    let Pair { host, container: _container, .. } = pair;
    let drain = tokio::spawn(host.drain(Duration::from_secs(30)));
    within("a refusal", async { while TcpStream::connect(("127.0.0.1", port)).await.is_ok() {} }).await;
    echoes(&mut client, "while it drains").await;
    assert!(!drain.is_finished());
    drop(client);
    within("the drain", drain).await.expect("drains");

    let pair = Pair::start().await;
    let port = pair.carry(vec![tunnel(1, &[echo("").await])]).await;
    let mut client = dial(port).await;
    echoes(&mut client, "before").await;
    within("the drain", pair.host.drain(Duration::from_millis(300))).await;
    within("the end", client.read(&mut [0; 1])).await.ok();
}

#[tokio::test(flavor = "multi_thread")]
async fn ports_are_as_asked() {
    let pair = Pair::start().await;
    let service = echo("").await;
    let taken = std::net::TcpListener::bind("[::]:0").expect("a port");
    let port = taken.local_addr().expect("an address").port();
    let fixed = Tunnel { port: Port::Fixed(port), ..tunnel(1, &[service]) };
    let preferred = Tunnel { port: Port::Preferred(port), ..tunnel(2, &[service]) };
    pair.host.carry(vec![fixed.clone(), preferred.clone()]);
    let state = pair.state(1, |state| matches!(state, TunnelState::Failed { .. })).await;
    let TunnelState::Failed { error } = state else { unreachable!("waited for it") };
    assert!(error.contains(&port.to_string()), "{error}");
    assert_ne!(pair.listening(2).await, port);
    let other = pair.listening(2).await;
    drop(taken);
    // It is had as soon as it can be, and the other one keeps the port it has.
    assert_eq!(pair.listening(1).await, port);
    echoes(&mut dial(port).await, "at last").await;
    pair.host.carry(vec![Tunnel { max_streams: Limit::new(5).expect("not 0"), ..fixed }, preferred]);
    assert_eq!(pair.listening(1).await, port);
    assert_eq!(pair.listening(2).await, other);
}

/// Whether a client is thrown out; it may be before its own connect returns.
async fn is_reset(port: u16) -> bool {
    let reset = async { TcpStream::connect(("127.0.0.1", port)).await?.read(&mut [0; 1]).await };
    within("a reset", reset).await.is_err()
}

#[tokio::test(flavor = "multi_thread")]
async fn strangers_and_crowds_are_refused() {
    let pair = Pair::start().await;
    let service = echo("").await;
    let foreign =
        Tunnel { allowed_sources: vec!["10.1.2.0/24".parse().expect("a network")], ..tunnel(1, &[service]) };
    let crowded = Tunnel { max_streams: Limit::new(2).expect("not 0"), ..tunnel(2, &[service]) };
    pair.carry(vec![foreign, crowded]).await;
    let (foreign, crowded) = (pair.listening(1).await, pair.listening(2).await);
    assert!(is_reset(foreign).await, "not allowed");
    let mut inside = [dial(crowded).await, dial(crowded).await];
    for client in &mut inside {
        echoes(client, "inside").await;
    }
    assert!(is_reset(crowded).await, "too many");
    for client in &mut inside {
        echoes(client, "still inside").await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_silent_stream_ends_after_its_time() {
    let pair = Pair::start().await;
    let short =
        Tunnel { idle_timeout: Period::new(Duration::from_millis(200)), ..tunnel(1, &[echo("").await]) };
    let port = pair.carry(vec![short]).await;
    let mut client = dial(port).await;
    echoes(&mut client, "hello").await;
    within("the end", client.read(&mut [0; 1])).await.expect_err("reset for silence");
}

#[tokio::test(flavor = "multi_thread")]
async fn thousands_of_short_streams_leave_nothing_behind() {
    let pair = Pair::start().await;
    let port = pair.carry(vec![tunnel(1, &[echo("").await])]).await;
    let at_once = Arc::new(Semaphore::new(100));
    let mut tasks = Vec::new();
    for _ in 0..5_000 {
        let permit = at_once.clone().acquire_owned().await.expect("open");
        tasks.push(tokio::spawn(async move {
            echoes(&mut dial(port).await, "0123456789abcdef").await;
            drop(permit);
        }));
    }
    for task in tasks {
        task.await.expect("a stream");
    }
    within("the last stream's end", async {
        while pair.host.counters(1).expect("counted").streams > 0 {
            tokio::task::yield_now().await;
        }
    })
    .await;
    let counters = pair.host.counters(1).expect("counted");
    assert_eq!((counters.opened, counters.refused, counters.to_host), (5_000, 0, 80_000));
}
