//! New plans every few seconds. Between two of them everybody knows what the plan says and asks for just that; a
//! connection whose route stays lives on, one whose route is gone ends in time.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};

use super::client::{self, Connection};
use super::dice::Dice;
use super::plan::{DRAIN, Generation};
use super::{PAUSE, World};

/// Connections that are held while plans change.
const HELD: usize = 40;
/// A new plan is live within this time. The file is looked at at once, because of the signal.
const LIVE: Duration = Duration::from_secs(10);
/// What the end of a drain may take longer on a busy machine.
const LATE: Duration = Duration::from_secs(10);

/// The plan as everybody knows it, and where the listeners are.
pub(crate) struct Known {
    pub(crate) generation: Generation,
    pub(crate) listeners: HashMap<String, SocketAddr>,
    /// Names that were there once and are not now.
    pub(crate) gone: Vec<String>,
}

struct Held {
    route: usize,
    connection: Connection,
    until: u64,
}

pub(crate) async fn run(world: Arc<World>) {
    let mut dice = Dice::new();
    let mut held: Vec<Held> = Vec::new();
    loop {
        tokio::time::sleep(dice.about(PAUSE)).await;
        let opened = hold(&world, &mut held, &mut dice).await;
        world.tally.count("connections held over plans", &opened);
        let changed = change(&world, &mut dice).await;
        world.tally.count("new plans", &changed);
        if let Ok(taken) = changed {
            world.taken(taken);
        }
        let known = world.known.read().await;
        let mut stay = Vec::new();
        for mut each in held {
            if !known.generation.routes.contains_key(&each.route) {
                let world = Arc::clone(&world);
                tokio::spawn(async move {
                    let ended = client::end(&mut each.connection.stream, DRAIN + LATE).await;
                    world.tally.count("connections of removed routes end", &ended);
                });
                continue;
            }
            let answer = each.connection.echo(&dice.bytes(500)).await;
            world.tally.count("connections stay while their route does", &answer);
            if answer.is_err() {
                continue;
            }
            if known.generation.number < each.until {
                stay.push(each);
            } else {
                let ended = each.connection.finish(&dice.bytes(5000)).await;
                world.tally.count("connections stay while their route does", &ended);
            }
        }
        held = stay;
    }
}

async fn hold(world: &World, held: &mut Vec<Held>, dice: &mut Dice) -> anyhow::Result<()> {
    let known = world.known.read().await;
    let to = known.listeners["tls"];
    let routes: Vec<_> = known.generation.routes.iter().collect();
    while held.len() < HELD && !routes.is_empty() {
        let (number, route) = routes[dice.below(routes.len())];
        let hello = world.hellos.of(&route.name(*number))?;
        let connection = Connection::open(to, &hello).await?;
        let until = known.generation.number + 1 + dice.below(20) as u64;
        held.push(Held { route: *number, connection, until });
    }
    Ok(())
}

/// Gives the engine the next plan and waits until it answers to the name that only this plan has.
async fn change(world: &World, dice: &mut Dice) -> anyhow::Result<Duration> {
    let mut known = world.known.write().await;
    let before: Vec<String> = known.generation.routes.iter().map(|(n, route)| route.name(*n)).collect();
    known.generation.next(dice);
    world.engine.give(&known.generation.text(&world.endpoints))?;
    let given = Instant::now();
    let hello = world.hellos.of(&known.generation.mark())?;
    while let Err(error) = Connection::open(known.listeners["tls"], &hello).await {
        ensure!(given.elapsed() < LIVE, "plan {} is not live: {error:#}", known.generation.number);
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    let taken = given.elapsed();
    let now: Vec<String> = known.generation.routes.iter().map(|(n, route)| route.name(*n)).collect();
    known.gone = before.into_iter().filter(|name| !now.contains(name)).collect();
    loop {
        known.listeners = world.engine.listeners().await?;
        // Traffic follows a new plan a moment before the admin door tells of it.
        if known.generation.has_extra(known.listeners.keys().map(String::as_str)) {
            return Ok(taken);
        }
        ensure!(given.elapsed() < LIVE, "the listeners of plan {} do not come", known.generation.number);
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

/// A request to what this plan has, and one to what it has no longer.
pub(crate) async fn ask(world: &World, dice: &mut Dice) -> anyhow::Result<()> {
    let known = world.known.read().await;
    let to = known.listeners["tls"];
    let routes: Vec<_> = known.generation.routes.iter().collect();
    if !routes.is_empty() {
        let (number, route) = routes[dice.below(routes.len())];
        let name = route.name(*number);
        let connection =
            Connection::open(to, &world.hellos.of(&name)?).await.with_context(|| name.clone())?;
        ensure!(route.has(connection.id), "{name} went to endpoint {}", connection.id);
        connection.finish(&dice.bytes(2000)).await?;
    }
    if !known.gone.is_empty() {
        let name = &known.gone[dice.below(known.gone.len())];
        client::refused(to, &world.hellos.of(name)?)
            .await
            .with_context(|| format!("{name}, which is gone"))?;
    }
    let extra: Vec<_> = known.listeners.iter().filter(|(name, _)| name.starts_with("extra")).collect();
    if !extra.is_empty() {
        let (name, to) = extra[dice.below(extra.len())];
        let connection = Connection::open(*to, b"hello").await.with_context(|| name.clone())?;
        connection.finish(&dice.bytes(100)).await?;
    }
    Ok(())
}
