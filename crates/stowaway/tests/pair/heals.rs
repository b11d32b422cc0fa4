//! Whatever breaks is noticed in time and made again.

use std::time::{Duration, Instant};

use causeway_stowaway::laptop::{self, Approach};
use causeway_testkit::soon;
use tokio::io::AsyncReadExt as _;

use crate::cluster::{Cluster, OTHER, UID, connected, direct, replica, until};
use crate::road::Road;
use crate::services::{echo, echoes};

/// Three seconds of silence, and a loaded machine.
const SECONDS: Duration = Duration::from_secs(5);

#[tokio::test(flavor = "multi_thread")]
async fn a_laptop_that_says_nothing_is_missed_within_seconds_and_comes_again() {
    let (cluster, program) = (Cluster::start().await, echo("").await);
    cluster.allow(&[program]);
    let port = program.port();
    cluster.grant(&[port]);
    let road = Road::to(cluster.link()).await;
    let laptop = cluster.start_laptop(UID, vec![direct(road.at)]);
    let _other = cluster.laptop(OTHER).await;
    cluster.has(UID).await;
    let mut stream = cluster.carry(&format!("p{port}.{UID}")).await.expect("delivered");
    road.block();
    cluster.loses(UID, SECONDS).await;
    soon("its streams end", stream.read_u8()).await.expect_err("cut");
    cluster.carry(&format!("p{port}.{UID}")).await.expect_err("known to be gone");
    until(&laptop, "the laptop notices too", |state| state.connection.is_none()).await;
    road.unblock();
    connected(&laptop).await;
    cluster.has(UID).await;
    let mut stream = cluster.carry(&format!("p{port}.{UID}")).await.expect("delivered again");
    echoes(&mut stream, "again").await;
    echoes(&mut laptop.connect(&program.into()).await.expect("connects"), "outward").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_carrier_does_not_wait_for_a_laptop_that_has_gone_silent() {
    let (cluster, program) = (Cluster::start().await, echo("").await);
    cluster.grant(&[program.port()]);
    let road = Road::to(cluster.link()).await;
    let _laptop = cluster.start_laptop(UID, vec![direct(road.at)]);
    cluster.has(UID).await;
    road.block();
    let began = Instant::now();
    cluster.carry(&format!("p{}.{UID}", program.port())).await.expect_err("silent");
    assert!(began.elapsed() < SECONDS, "{:?}", began.elapsed());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_laptop_whose_process_is_gone_is_missed_at_once() {
    let cluster = Cluster::start().await;
    let laptop = cluster.laptop(UID).await;
    let began = Instant::now();
    drop(laptop);
    cluster.loses(UID, Duration::from_secs(2)).await;
    assert!(began.elapsed() < Duration::from_secs(2));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_hub_that_starts_again_is_found_again() {
    let (first, program) = (Cluster::start().await, echo("").await);
    let (authority, link) = (first.authority.clone(), first.link());
    let laptop = first.laptop(UID).await;
    first.hub.stop(Duration::ZERO).await;
    until(&laptop, "the loss", |state| state.connection.is_none()).await;
    // A request in between waits for it.
    let place = program.into();
    let waiting = async { laptop.connect(&place).await.expect("connects in the end") };
    let starting = async {
        let second = Cluster::at(authority, "second", link).await;
        second.allow(&[program]);
        second
    };
    let (mut stream, second) = tokio::join!(waiting, starting);
    echoes(&mut stream, "again").await;
    assert_eq!(replica(&connected(&laptop).await), Some("second"));
    second.has(UID).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn one_of_two_replicas_may_go() {
    let (first, program) = (Cluster::start().await, echo("").await);
    let second = Cluster::replica(first.authority.clone(), "second").await;
    for cluster in [&first, &second] {
        cluster.allow(&[program]);
        cluster.grant(&[program.port()]);
    }
    let both = Approach::Direct(vec![first.link().to_string(), second.link().to_string()]);
    let laptop = first.start_laptop(UID, vec![both]);
    let state = connected(&laptop).await;
    let (used, other) = if replica(&state) == Some("first") { (first, second) } else { (second, first) };
    let name = format!("p{}.{UID}", program.port());
    used.carry(&name).await.expect("delivered by the one that has it");
    other.carry(&name).await.expect_err("the other has it not, and says so");
    drop(used);
    other.has(UID).await;
    other.carry(&name).await.expect("delivered by the other");
    echoes(&mut laptop.connect(&program.into()).await.expect("connects"), "outward").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_replica_that_is_stopped_in_order_cuts_nothing() {
    let (first, program) = (Cluster::start().await, echo("").await);
    let second = Cluster::replica(first.authority.clone(), "second").await;
    for cluster in [&first, &second] {
        cluster.allow(&[program]);
        cluster.grant(&[program.port()]);
    }
    let laptop = first.start_laptop(UID, vec![direct(first.link())]);
    connected(&laptop).await;
    first.has(UID).await;
    let name = format!("p{}.{UID}", program.port());
    let mut inward = first.carry(&name).await.expect("delivered");
    let mut outward = laptop.connect(&program.into()).await.expect("connects");
    laptop.set_ways(vec![Approach::Direct(vec![first.link().to_string(), second.link().to_string()])]);
    let stopping = tokio::spawn(first.hub.stop(Duration::from_mins(1)));
    until(&laptop, "it moves", |state| replica(state) == Some("second")).await;
    second.has(UID).await;
    echoes(&mut inward, "what was open").await;
    echoes(&mut outward, "goes on").await;
    echoes(&mut second.carry(&name).await.expect("delivered"), "new ones").await;
    echoes(&mut laptop.connect(&program.into()).await.expect("connects"), "go elsewhere").await;
    assert!(!stopping.is_finished());
    drop((inward, outward));
    soon("it ends with the last stream", stopping).await.expect("no panic");
}

#[tokio::test(flavor = "multi_thread")]
async fn two_processes_of_one_workstation_do_not_fight() {
    let cluster = Cluster::start().await;
    let first = cluster.laptop(UID).await;
    let second = cluster.laptop(UID).await;
    let state = until(&first, "it is told", |state| state.trouble.is_some()).await;
    assert!(
        state.connection.is_none() && state.complaint().contains("another process"),
        "{}",
        state.complaint()
    );
    let since = connected(&second).await.connection.expect("connected").since;
    assert_eq!(cluster.hub.standings().borrow().len(), 1);
    // Whoever wants it back says so.
    drop(second);
    cluster.loses(UID, SECONDS).await;
    let _third: laptop::Handle = cluster.laptop(UID).await;
    assert!(cluster.has(UID).await.since >= since);
}
