//! The operator is killed after its peers have done something and before it hears of it: in the end all is as if nobody had been.

use std::time::Duration;

use causeway_testkit::{
    eventually,
    moto::Moto,
    name_server::{NameServer, Software},
    pebble::Pebble,
    port,
};
use futures::{StreamExt as _, stream};
use serde_json::json;

use super::{
    data_plane::DataPlane,
    peers::{Toll, balance, counted},
    scene::Scene,
};
use crate::cluster::Running;

/// Lives at a time.
const AT_ONCE: usize = 4;
/// The answers after which there is a kill. All of them, for who has the time; else every one of the first, and some of the rest.
fn blows(last: usize) -> Vec<usize> {
    let step = if is_thorough() { 1 } else { 7 };
    (1..=last).filter(|number| *number <= 3 || number % step == 0).collect()
}

fn is_thorough() -> bool {
    std::env::var_os("CAUSEWAY_EVERY_KILL").is_some()
}

/// Where names are looked for that are proven by HTTP, and where the gateways serve; else as everywhere.
type Ports = Option<(u16, u16)>;

fn operator(scene: &Scene, ports: Ports) -> Running {
    scene.usual_operator(|config| {
        // Nobody looks without a reason, or there would be no last answer.
        config.hostnames.sweep = Duration::from_mins(10);
        if let Some((http, https)) = ports {
            config.hostnames.world.http_port = Some(http);
            config.hostnames.world.https_port = https;
        }
    })
}

/// A part of a life, in which the operator is killed by one of these; whether it was.
async fn part(
    scene: &Scene,
    (tolls, ports): (&[&Toll], Ports),
    blows_at: usize,
    ends: impl AsyncFn() -> bool,
) -> bool {
    let first = operator(scene, ports);
    for toll in tolls {
        toll.arm(blows_at);
    }
    let blown = futures::future::select_all(tolls.iter().map(|toll| Box::pin(toll.blown.notified())));
    let killed = tokio::select! {
        _ = blown => true,
        () = eventually("the end", || async { ends().await }) => false,
    };
    for toll in tolls {
        toll.arm(0);
    }
    first.kill().await;
    if killed {
        let second = operator(scene, ports);
        eventually("the end, after a kill", || async { ends().await }).await;
        second.stop().await;
    }
    killed
}

async fn serves(scene: &Scene, hostname: &str) -> bool {
    let request = scene.requests("shop").get("shop").await.unwrap();
    let generation = request.metadata.generation;
    let Some(status) = request.status else { return false };
    let is_ready = status
        .conditions
        .iter()
        .any(|one| one.type_ == "Ready" && one.status == "True" && one.observed_generation == generation);
    is_ready && status.hostnames == [hostname]
}

/// Creates, changes and deletes a request; how many of the three were disturbed.
async fn life(
    scene: &Scene,
    tolls: (&[&Toll], Ports),
    blows_at: usize,
    (zone, domain): (&str, &str),
    names: impl AsyncFn() -> Vec<String>,
    certificates: impl AsyncFn() -> usize,
) -> usize {
    let (one, two) = (format!("one.{domain}"), format!("two.{domain}"));
    let has = async |name: &str| {
        let names = names().await;
        let others = names.iter().filter(|there| !there.starts_with('_') && *there != name).count();
        names.iter().any(|there| there == name) && others == 0
    };
    scene.namespace("shop").await;
    scene.ask_for("shop", "shop", json!({"zoneId": zone, "hostname": one})).await;
    let settled = async |name: &str| {
        serves(scene, name).await
            && scene.claims().await.len() == 1
            && scene.orders().await.len() == 1
            && has(name).await
            && certificates().await == 1
    };
    let mut killed = usize::from(part(scene, tolls, blows_at, async || settled(&one).await).await);
    scene.change("shop", "shop", json!({"hostname": two})).await;
    let changed = part(scene, tolls, blows_at, async || settled(&two).await).await;
    killed += usize::from(changed);
    scene.delete("shop", "shop").await;
    let deleted = part(scene, tolls, blows_at, async || {
        scene.requests("shop").get_opt("shop").await.unwrap().is_none()
            && scene.claims().await.is_empty()
            && scene.orders().await.is_empty()
            && scene.gateways().await.is_empty()
            && names().await.is_empty()
            && certificates().await == 0
    })
    .await;
    killed + usize::from(deleted)
}

/// A life with names in a server and certificates of Pebble; how many parts of it were disturbed, none where a peer can't be had.
async fn acme_life(software: Software, challenge: &str, blows_at: usize) -> Option<usize> {
    let server = NameServer::start(software, "lab.test", "")?;
    let pebble = Pebble::start(server.address, false)?;
    let authority = Toll::before(pebble.address).await;
    let names = Toll::before(server.address).await;
    let scene = Scene::new().await;
    let directory = format!("https://{}/dir", authority.address);
    scene.acme_zone(names.address, &pebble, &directory, challenge).await;
    let ports = (challenge == "HTTP-01").then(|| (pebble.http_port, port::free()));
    let data_plane = ports.map(|_| DataPlane::start(scene.client()));
    let tolls = [&authority, &names];
    let count = async || scene.orders().await.len();
    let zone = ("lab.test", "lab.test");
    let killed = life(&scene, (&tolls, ports), blows_at, zone, async || server.names(), count).await;
    if let Some(data_plane) = data_plane {
        data_plane.stop().await;
    }
    // One for each name, and one more for each answer with an order that nobody heard.
    let made = pebble.log().matches("Added order").count();
    assert!(
        (2..=2 + killed).contains(&made),
        "{made} orders for two names, with {killed} kills:\n{}",
        pebble.log()
    );
    Some(killed)
}

/// Lives with a kill after each of these answers, and then after later ones until a whole life is over before its kill: so there
/// was no answer later than those that were tried.
async fn lives(last: usize, life: impl AsyncFn(usize) -> Option<usize>) {
    let life = &life;
    let each = stream::iter(blows(last)).map(|at| async move { (at, life(at).await) });
    let mut killed: Vec<(usize, Option<usize>)> = each.buffer_unordered(AT_ONCE).collect().await;
    killed.sort_unstable();
    while let Some((at, Some(1..))) = killed.last().copied() {
        assert!(at < 10 * last, "it never ends before the kill: {killed:?}");
        let next = at + if is_thorough() { 1 } else { last / 3 };
        killed.push((next, life(next).await));
    }
    println!("kills by the answer after which they come: {killed:?}");
    judge(&killed.into_iter().map(|(_, killed)| killed).collect::<Vec<_>>());
}

/// Says how many lives were disturbed: the earliest answers come in every part of every life, the latest in none.
fn judge(killed: &[Option<usize>]) {
    let Some(killed) = killed.iter().copied().collect::<Option<Vec<usize>>>() else { return };
    let (lives, kills) = (killed.len(), killed.iter().sum::<usize>());
    println!(
        "{lives} lives, {} with a kill, {kills} kills",
        killed.iter().filter(|kills| **kills > 0).count()
    );
    assert!(kills >= lives, "{kills} kills in {lives} lives");
}

#[tokio::test(flavor = "multi_thread")]
async fn names_by_updates_and_certificates_by_acme_survive_kills() {
    lives(60, async |blows_at| acme_life(Software::Knot, "DNS-01", blows_at).await).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn names_in_bind_and_proofs_by_our_own_gateway_survive_a_kill() {
    let (bind, http) =
        futures::join!(acme_life(Software::Bind, "DNS-01", 9), acme_life(Software::Knot, "HTTP-01", 8),);
    judge(&[bind, http]);
}

#[tokio::test(flavor = "multi_thread")]
async fn names_and_certificates_of_aws_survive_kills() {
    let Some(moto) = Moto::start(1) else { return };
    lives(40, async |blows_at| {
        let toll = Toll::before(moto.endpoint().trim_start_matches("http://").parse().unwrap()).await;
        let scene = Scene::new().await;
        scene.aws_classes().await;
        let domain = format!("lab{blows_at}.test");
        let endpoint = format!("http://{}", toll.address);
        let zone = scene.aws_zone(&moto, &endpoint, &domain, &format!("key{blows_at}")).await;
        let balancers = tokio::spawn(balance(scene.client()));
        let names = async || {
            let script = format!(
                "for r in route53.list_resource_record_sets(HostedZoneId='{zone}')['ResourceRecordSets']:\n\
                 \x20 print(r['Name'].rstrip('.'))"
            );
            let mut names: Vec<String> = moto.python(&script).lines().map(ToOwned::to_owned).collect();
            names.retain(|name| *name != domain);
            names.sort();
            names.dedup();
            names
        };
        let certificates = async || counted(&moto, &zone, &domain).1;
        let tolls = [&toll];
        let killed = life(&scene, (&tolls, None), blows_at, (&zone, &domain), names, certificates).await;
        balancers.abort();
        // One certificate for each name. Who was cut off asks once more, and so does the next operator, with the same token.
        let asked = moto.certificates_asked(&format!("key{blows_at}"));
        assert!(asked.len() == 2 && asked.values().all(|times| *times <= 3), "{asked:?}");
        Some(killed)
    })
    .await;
}
