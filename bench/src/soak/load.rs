//! Clients of all kinds, each in its own loop at its own pace: good ones whose every byte is checked, and bad ones that
//! must end as they should and harm nobody.

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use tokio::io::AsyncWriteExt;
use tokio::net::UdpSocket;
use tokio::time::{sleep, timeout};

use super::backend::Backend;
use super::client::{self, Connection, PATIENCE};
use super::dice::Dice;
use super::plan::{HANDSHAKE, IDLE, STEADY};
use super::{World, churn};

/// What a timeout of the engine may take longer on a busy machine.
const LATE: Duration = Duration::from_secs(15);
/// The name of the largest group, whose routes never change.
const STEADY_KIND: &str = "requests by name to unchanged routes";

/// Starts every kind of client. They run until they are aborted.
pub(crate) fn start(world: &Arc<World>) -> Vec<tokio::task::JoinHandle<()>> {
    let mut tasks = vec![tokio::spawn(churn::run(Arc::clone(world)))];
    macro_rules! clients {
        ($count:expr, $kind:expr, $pause_ms:expr, $client:path) => {
            for _ in 0..$count {
                let world = Arc::clone(world);
                tasks.push(tokio::spawn(async move {
                    let mut dice = Dice::new();
                    loop {
                        sleep(dice.about(Duration::from_millis($pause_ms))).await;
                        let result = $client(&world, &mut dice).await;
                        world.tally.count($kind, &result);
                    }
                }));
            }
        };
    }
    clients!(4, STEADY_KIND, 60, by_name);
    clients!(2, "requests to a plain port", 60, plain);
    clients!(2, "requests to what this plan has", 60, churn::ask);
    clients!(2, "requests while endpoints die", 80, shaky);
    clients!(6, "long connections with bulk", 500, bulk);
    clients!(80, "idle connections", 500, idle);
    clients!(10, "connections that idle too long", 500, brief);
    clients!(2, "clients that reset", 50, reset);
    clients!(1, "endpoints that reset", 200, endpoint_resets);
    clients!(4, "slow hellos that complete", 500, slow);
    clients!(6, "hellos that never end", 500, endless);
    clients!(1, "junk", 100, junk);
    clients!(1, "unknown names", 100, unknown);
    clients!(4, "datagrams", 500, datagrams);
    tasks
}

/// Kills an endpoint every few seconds and starts it again.
pub(crate) async fn kill_endpoints(world: Arc<World>, mut backends: Vec<Backend>) {
    let mut dice = Dice::new();
    loop {
        sleep(dice.about(Duration::from_secs(4))).await;
        let victim = dice.below(backends.len());
        world.kills.fetch_add(1, Relaxed);
        backends[victim].kill().await;
        world.kills.fetch_add(1, Relaxed);
        sleep(dice.about(Duration::from_secs(2))).await;
        let revived = backends[victim].revive().await;
        world.tally.count("endpoints killed and started again", &revived);
    }
}

fn steady_name(dice: &mut Dice) -> String {
    let i = dice.below(STEADY);
    match dice.below(3) {
        0 => format!("s{i}.steady.test"),
        1 => format!("A{i}.Steady.test"),
        _ => format!("x{i}.y.wild.test"),
    }
}

/// Mostly small, at times large, so that a half-closed connection has a long tail.
fn payload(dice: &mut Dice) -> Vec<u8> {
    let count = if dice.once_in(10) { dice.below(512 << 10) } else { dice.below(8 << 10) };
    dice.bytes(count)
}

async fn by_name(world: &World, dice: &mut Dice) -> anyhow::Result<()> {
    let hello =
        if dice.once_in(10) { world.hellos.nameless()? } else { world.hellos.of(&steady_name(dice))? };
    let cut = dice.below(hello.len());
    let mut stream = client::send(world.tls, &hello[..cut]).await?;
    if dice.once_in(4) {
        sleep(Duration::from_millis(5)).await;
    }
    stream.write_all(&hello[cut..]).await.context("can't send the rest of the hello")?;
    Connection::greeted(stream, &hello).await?.finish(&payload(dice)).await
}

async fn plain(world: &World, dice: &mut Dice) -> anyhow::Result<()> {
    Connection::open(world.plain, b"").await?.finish(&payload(dice)).await
}

/// A request must succeed if no endpoint was killed while it ran.
async fn shaky(world: &World, dice: &mut Dice) -> anyhow::Result<()> {
    let kills = world.kills.load(Relaxed);
    let hello = world.hellos.of("shaky.test")?;
    let request = async { Connection::open(world.tls, &hello).await?.finish(&dice.bytes(1000)).await };
    let result = request.await;
    if kills.is_multiple_of(2) && kills == world.kills.load(Relaxed) { result } else { Ok(()) }
}

async fn bulk(world: &World, dice: &mut Dice) -> anyhow::Result<()> {
    let hello = world.hellos.of(&steady_name(dice))?;
    let mut connection = Connection::open(world.tls, &hello).await?;
    let until = Instant::now() + dice.about(Duration::from_secs(40));
    while Instant::now() < until {
        connection.echo(&dice.bytes(256 << 10)).await?;
        sleep(dice.about(Duration::from_millis(250))).await;
    }
    connection.finish(&dice.bytes(256 << 10)).await
}

async fn idle(world: &World, dice: &mut Dice) -> anyhow::Result<()> {
    let hello = world.hellos.of(&steady_name(dice))?;
    let mut connection = Connection::open(world.tls, &hello).await?;
    for _ in 0..2 {
        sleep(dice.about(Duration::from_secs(20))).await;
        connection.echo(b"still there?").await?;
    }
    connection.finish(b"bye").await
}

async fn brief(world: &World, dice: &mut Dice) -> anyhow::Result<()> {
    let hello = world.hellos.of("brief.test")?;
    let mut connection = Connection::open(world.tls, &hello).await?;
    connection.echo(&dice.bytes(100)).await?;
    let began = Instant::now();
    client::end(&mut connection.stream, IDLE + LATE).await?;
    ensure!(began.elapsed() > IDLE / 2, "ended after {:?}, before its time", began.elapsed());
    Ok(())
}

/// In the middle of the hello, right after it, or in the middle of an answer.
async fn reset(world: &World, dice: &mut Dice) -> anyhow::Result<()> {
    let hello = world.hellos.of(&steady_name(dice))?;
    let stream = match dice.below(3) {
        0 => client::send(world.tls, &hello[..dice.below(hello.len())]).await?,
        1 => client::send(world.tls, &hello).await?,
        _ => {
            let mut connection = Connection::open(world.tls, &hello).await?;
            let bytes = dice.bytes(64 << 10);
            timeout(PATIENCE, connection.stream.write_all(&bytes)).await.context("can't send")??;
            connection.stream
        }
    };
    stream.set_zero_linger()?;
    Ok(())
}

async fn endpoint_resets(world: &World, _: &mut Dice) -> anyhow::Result<()> {
    let hello = world.hellos.of("resetting.test")?;
    let mut stream = client::send(world.tls, &hello).await?;
    client::end(&mut stream, PATIENCE).await.map(drop)
}

async fn slow(world: &World, dice: &mut Dice) -> anyhow::Result<()> {
    let hello = world.hellos.of(&steady_name(dice))?;
    let mut stream = client::send(world.tls, &[]).await?;
    for piece in hello.chunks(hello.len() / 20) {
        stream.write_all(piece).await.context("can't send a piece of a hello")?;
        sleep(Duration::from_millis(50)).await;
    }
    Connection::greeted(stream, &hello).await?.finish(b"slow").await
}

async fn endless(world: &World, dice: &mut Dice) -> anyhow::Result<()> {
    let hello = world.hellos.of(&steady_name(dice))?;
    let mut stream = client::send(world.tls, &hello[..dice.below(hello.len())]).await?;
    client::end(&mut stream, HANDSHAKE + LATE).await.map(drop)
}

async fn junk(world: &World, dice: &mut Dice) -> anyhow::Result<()> {
    let mut junk = {
        let count = 1 + dice.below(4000);
        dice.bytes(count)
    };
    // Not the first byte of a TLS record, or of one that never ends.
    junk[0] |= 0x80;
    let mut stream = client::send(world.tls, &junk).await?;
    client::end(&mut stream, PATIENCE).await.map(drop)
}

async fn unknown(world: &World, dice: &mut Dice) -> anyhow::Result<()> {
    let hello = world.hellos.of(&format!("u{}.unknown.test", dice.below(100)))?;
    client::refused(world.tls, &hello).await
}

/// A session of a few datagrams; it stays in the engine until it has idled.
async fn datagrams(world: &World, dice: &mut Dice) -> anyhow::Result<()> {
    let socket = UdpSocket::bind("127.0.0.1:0").await?;
    socket.connect(world.datagrams).await?;
    for _ in 0..3 {
        let count = 8 + dice.below(1200);
        client::datagram(&socket, &dice.bytes(count)).await?;
    }
    Ok(())
}
