//! The best way is used, and moved to when it appears.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};

use causeway_stowaway::Way;
use causeway_stowaway::laptop::{Approach, Duplex};
use causeway_testkit::{eventually, soon};
use futures::FutureExt as _;
use tokio::io::AsyncReadExt as _;
use tokio::net::TcpStream;

use crate::cluster::{Cluster, UID, connected, direct, until, way};
use crate::services::{echo, echoes, nobody};

/// A way that somebody else makes, which may be shut.
fn bridge(way: Way, to: SocketAddr, open: &Arc<AtomicBool>) -> Approach {
    let open = open.clone();
    let dial = move || {
        let open = open.clone();
        async move {
            if !open.load(SeqCst) {
                return Err(io::Error::new(io::ErrorKind::ConnectionRefused, "the bridge is shut"));
            }
            let socket: Box<dyn Duplex> = Box::new(TcpStream::connect(to).await?);
            Ok(socket)
        }
        .boxed()
    };
    Approach::Bridge { way, dial: Arc::new(dial) }
}

fn switch(open: bool) -> Arc<AtomicBool> {
    Arc::new(AtomicBool::new(open))
}

#[tokio::test(flavor = "multi_thread")]
async fn the_best_way_that_answers_is_used_and_the_reason_is_told() {
    let cluster = Cluster::start().await;
    let (hub, silent) = (cluster.link(), nobody().await);
    let ways = vec![
        bridge(Way::WireGuard, hub, &switch(true)),
        bridge(Way::PortForward, hub, &switch(true)),
        direct(silent),
    ];
    let laptop = cluster.start_laptop(UID, ways);
    let state = until(&laptop, "it settles", |state| {
        way(state) == Some(Way::PortForward) && state.ways[0].error.is_some()
    })
    .await;
    let connection = state.connection.expect("connected");
    assert!(connection.why.contains("Link: can't connect to"), "{}", connection.why);
    assert_eq!(
        state.ways.iter().map(|one| one.way).collect::<Vec<_>>(),
        [Way::Link, Way::PortForward, Way::WireGuard]
    );
    eventually("the hub knows it", async || {
        cluster.hub.standings().borrow().get(UID).is_some_and(|standing| standing.way == Way::PortForward)
    })
    .await;
    laptop.set_ways(vec![bridge(Way::PortForward, hub, &switch(true)), direct(hub)]);
    let state = until(&laptop, "it moves to the best", |state| way(state) == Some(Way::Link)).await;
    assert_eq!(state.connection.expect("connected").why, "no better way is known");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_better_way_that_appears_is_moved_to_and_nothing_is_cut() {
    let (cluster, program) = (Cluster::start().await, echo("").await);
    cluster.allow(&[program]);
    cluster.grant(&[program.port()]);
    let (hub, open) = (cluster.link(), switch(false));
    let laptop = cluster
        .start_laptop(UID, vec![bridge(Way::Link, hub, &open), bridge(Way::WireGuard, hub, &switch(true))]);
    until(&laptop, "it comes by the worse way", |state| way(state) == Some(Way::WireGuard)).await;
    assert_eq!(cluster.has(UID).await.way, Way::WireGuard);
    let name = format!("p{}.{UID}", program.port());
    let mut inward = cluster.carry(&name).await.expect("delivered");
    let mut outward = laptop.connect(&program.into()).await.expect("connects");
    open.store(true, SeqCst);
    until(&laptop, "it moves", |state| way(state) == Some(Way::Link)).await;
    eventually("the hub knows it", async || {
        cluster.hub.standings().borrow().get(UID).is_some_and(|standing| standing.way == Way::Link)
    })
    .await;
    echoes(&mut inward, "what was open").await;
    echoes(&mut outward, "goes on").await;
    echoes(&mut cluster.carry(&name).await.expect("delivered"), "new").await;
    echoes(&mut laptop.connect(&program.into()).await.expect("connects"), "streams").await;
    // Under load nothing fails while it moves to and fro.
    for turn in 0..4 {
        let wanted = if turn % 2 == 0 { Way::PortForward } else { Way::Link };
        laptop.set_ways(vec![bridge(wanted, hub, &switch(true))]);
        let moved = until(&laptop, "it moves", |state| way(state) == Some(wanted));
        let load = async {
            loop {
                echoes(&mut cluster.carry(&name).await.expect("delivered"), "inward").await;
                echoes(&mut laptop.connect(&program.into()).await.expect("connects"), "outward").await;
            }
        };
        tokio::select! {
            _ = moved => {}
            () = load => {}
        }
    }
    echoes(&mut inward, "still the same").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn when_the_best_way_breaks_another_takes_over() {
    let (cluster, program) = (Cluster::start().await, echo("").await);
    cluster.allow(&[program]);
    let hub = cluster.link();
    let road = crate::road::Road::to(hub).await;
    let laptop =
        cluster.start_laptop(UID, vec![direct(road.at), bridge(Way::PortForward, hub, &switch(true))]);
    until(&laptop, "the best", |state| way(state) == Some(Way::Link)).await;
    road.block();
    until(&laptop, "the other", |state| way(state) == Some(Way::PortForward)).await;
    echoes(&mut laptop.connect(&program.into()).await.expect("connects"), "by the other").await;
    road.unblock();
    until(&laptop, "the best again", |state| way(state) == Some(Way::Link)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_renewed_identity_moves_to_a_link_of_its_own() {
    let (cluster, program) = (Cluster::start().await, echo("").await);
    cluster.allow(&[program]);
    let laptop = cluster.laptop(UID).await;
    let before = connected(&laptop).await.connection.expect("connected").via;
    let standing = cluster.has(UID).await;
    let mut open = laptop.connect(&program.into()).await.expect("connects");
    laptop.renew(cluster.identity(UID));
    eventually("another link", async || {
        cluster.hub.standings().borrow().get(UID).is_some_and(|known| known.from != standing.from)
    })
    .await;
    echoes(&mut open, "what was open").await;
    assert_eq!(connected(&laptop).await.connection.expect("connected").via, before);
    // One that nobody knows is tried, and the link in use goes on.
    let stranger = causeway_link::Authority::new().expect("keys");
    let stranger = stranger.issue(causeway_link::Role::Dialer, "workstation-x").expect("keys");
    laptop.renew(stranger);
    until(&laptop, "it does not fit", |state| state.ways[0].error.is_some()).await;
    echoes(&mut open, "still").await;
    echoes(&mut laptop.connect(&program.into()).await.expect("connects"), "still").await;
    drop(laptop);
    soon("the end", open.read_u8()).await.expect_err("cut");
}
