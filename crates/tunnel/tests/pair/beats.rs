//! An end that says nothing is missed within seconds, and a connection that goes silent for itself harms no other.

use std::time::{Duration, Instant};

use causeway_ir::tunnel::LinkState;
use causeway_tunnel::Authority;
use causeway_tunnel::host::{Host, Options};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::time::timeout;

use crate::pair::{Container, any, dial_soon, echo, echoes, listening, tunnel, until, within};
use crate::road::Road;

/// Three seconds of silence, and a loaded machine.
const SECONDS: Duration = Duration::from_secs(8);

struct Crossing {
    host: Host,
    control: Road,
    data: Road,
    _container: Container,
}

impl Crossing {
    async fn start(rate: Option<usize>) -> (Self, u16) {
        let authority = Authority::new().expect("keys");
        let container = Container::start(&authority, any(), any()).await;
        let control = Road::to(container.control).await;
        let data = Road::slow(container.data, rate).await;
        let host = Host::start(Options::new(control.at, data.at, authority));
        host.carry(vec![tunnel(1, &[echo("").await])]);
        let port = listening(&host, 1).await;
        (Self { host, control, data, _container: container }, port)
    }

    async fn is_missed(&self) {
        let missed = until(&self.host, |status| status.link != LinkState::Up);
        timeout(SECONDS, missed).await.expect("the link is still said to be up");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_container_that_says_nothing_is_missed_within_seconds() {
    let (crossing, port) = Crossing::start(None).await;
    crossing.control.block();
    crossing.data.block();
    crossing.is_missed().await;
    crossing.control.unblock();
    crossing.data.unblock();
    assert_eq!(listening(&crossing.host, 1).await, port);
    echoes(&mut dial_soon(port).await, "again").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn data_connections_that_say_nothing_are_missed_within_seconds() {
    let (crossing, port) = Crossing::start(None).await;
    crossing.data.block();
    crossing.is_missed().await;
    crossing.data.unblock();
    assert_eq!(listening(&crossing.host, 1).await, port);
    echoes(&mut dial_soon(port).await, "again").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_control_connection_that_says_nothing_takes_no_stream_along() {
    let (crossing, port) = Crossing::start(None).await;
    let mut client = dial_soon(port).await;
    crossing.control.block();
    // Longer than either end waits for a word.
    let blocked = Instant::now();
    while blocked.elapsed() < Duration::from_secs(5) {
        echoes(&mut client, "meanwhile").await;
        echoes(&mut dial_soon(port).await, "somebody new").await;
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    assert_eq!(crossing.host.status().borrow().link, LinkState::Up, "traffic passes");
    crossing.control.unblock();
    // What is asked for now takes a control connection.
    crossing.host.carry(vec![tunnel(1, &[echo("").await]), tunnel(2, &[echo("").await])]);
    echoes(&mut dial_soon(listening(&crossing.host, 2).await).await, "the new one").await;
    echoes(&mut client, "the same stream").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_control_connection_that_is_gone_for_long_is_told() {
    let (crossing, port) = Crossing::start(None).await;
    let mut client = dial_soon(port).await;
    crossing.control.block();
    until(&crossing.host, |status| status.link != LinkState::Up).await;
    echoes(&mut client, "nothing more can be asked for, but it is still carried").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_busy_link_is_not_taken_for_a_silent_one() {
    const SIZE: usize = 5 << 20;
    let (crossing, port) = Crossing::start(Some(1 << 20)).await;
    let (mut read, mut write) = dial_soon(port).await.into_split();
    let writer = tokio::spawn(async move {
        write.write_all(&vec![7; SIZE]).await.expect("writes");
        write
    });
    let mut back = vec![0; SIZE];
    within("the echo", read.read_exact(&mut back)).await.expect("the link holds");
    drop(writer);
    assert_eq!(crossing.host.status().borrow().link, LinkState::Up);
}
