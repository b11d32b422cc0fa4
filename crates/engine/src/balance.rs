//! Which endpoint takes the next connection: pure functions over a cluster's state, a turn and a time.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use causeway_ir::Policy;

use crate::cluster::{Endpoint, Member, Standing, State};

/// Chooses by the cluster's policy among the best endpoints there are: ready ones that answer; else those that are
/// leaving but still serve; else, when all that is ready is ejected or unhealthy, one of them all the same, because
/// a wrong verdict on everything must not become an outage.
pub(crate) fn pick<'a>(
    state: &'a State,
    turn: usize,
    client: IpAddr,
    tried: &[Arc<Endpoint>],
    now: u64,
) -> Option<&'a Arc<Endpoint>> {
    let fit = |m: &Member| m.endpoint.is_healthy() && !m.endpoint.is_ejected(now);
    let new = |m: &Member| !tried.iter().any(|tried| Arc::ptr_eq(tried, &m.endpoint));
    let members = &state.members;
    // The usual case needs no list: everything is fit and equal.
    if state.settings.policy == Policy::RoundRobin
        && tried.is_empty()
        && members
            .iter()
            .all(|m| m.standing == Standing::Ready && full_share(state, m, now) == Some(1) && fit(m))
    {
        return members.get(turn.checked_rem(members.len())?).map(|m| &m.endpoint);
    }
    let classes: [&dyn Fn(&Member) -> bool; 4] = [
        &|m| m.standing == Standing::Ready && fit(m),
        &|m| m.standing == Standing::Leaving && fit(m),
        &|m| m.standing == Standing::Ready,
        &|m| m.standing == Standing::Leaving,
    ];
    classes.iter().find_map(|class| {
        let candidates: Vec<&Member> = members.iter().filter(|m| class(m) && new(m)).collect();
        choose(state, &candidates, turn, client, now)
    })
}

fn choose<'a>(
    state: &State,
    candidates: &[&'a Member],
    turn: usize,
    client: IpAddr,
    now: u64,
) -> Option<&'a Arc<Endpoint>> {
    let (first, rest) = candidates.split_first()?;
    if rest.is_empty() {
        return Some(&first.endpoint);
    }
    let chosen = match state.settings.policy {
        Policy::RoundRobin if candidates.iter().all(|m| full_share(state, m, now) == Some(first.weight)) => {
            candidates[turn % candidates.len()]
        }
        Policy::RoundRobin => by_share(state, candidates, evenly(turn), now),
        Policy::LeastConnections => {
            let a = by_share(state, candidates, fraction(hash(&(turn, 0))), now);
            let others: Vec<&Member> =
                candidates.iter().copied().filter(|m| !Arc::ptr_eq(&m.endpoint, &a.endpoint)).collect();
            let b = by_share(state, &others, fraction(hash(&(turn, 1))), now);
            let load = |m: &Member| (m.endpoint.active.get() + 1) as f64 / share(state, m, now);
            if load(b) < load(a) { b } else { a }
        }
        Policy::SourceHash => {
            // Rendezvous hashing: when an endpoint comes or goes, only its own clients move.
            let score = |m: &Member| {
                let draw = fraction(hash(&(client, &m.endpoint.address))).max(f64::MIN_POSITIVE);
                -f64::from(m.weight) / draw.ln()
            };
            candidates.iter().copied().max_by(|a, b| score(a).total_cmp(&score(b)))?
        }
    };
    Some(&chosen.endpoint)
}

/// The member at a point of the shares laid end to end.
fn by_share<'a>(state: &State, members: &[&'a Member], point: f64, now: u64) -> &'a Member {
    let total: f64 = members.iter().map(|m| share(state, m, now)).sum();
    let mut left = point * total;
    for member in members {
        left -= share(state, member, now);
        if left < 0.0 {
            return member;
        }
    }
    members[members.len() - 1]
}

/// The weight, if the endpoint is past its slow start.
fn full_share(state: &State, member: &Member, now: u64) -> Option<u32> {
    let warm = state.settings.slow_start.is_none_or(|window| {
        let since = member.endpoint.since.load(Relaxed);
        since == 0 || now.saturating_sub(since) >= window.as_millis() as u64
    });
    warm.then_some(member.weight)
}

/// The weight, less while an endpoint starts slowly.
fn share(state: &State, member: &Member, now: u64) -> f64 {
    const LEAST: f64 = 0.1;
    let weight = f64::from(member.weight);
    let since = member.endpoint.since.load(Relaxed);
    match state.settings.slow_start {
        Some(window) if since > 0 && !window.is_zero() => {
            let age = now.saturating_sub(since) as f64 / window.as_millis().max(1) as f64;
            weight * age.clamp(LEAST, 1.0)
        }
        _ => weight,
    }
}

/// Points in [0, 1) that fill it evenly, whatever the number of turns.
pub(crate) fn evenly(turn: usize) -> f64 {
    const GOLDEN: u64 = 0x9E37_79B9_7F4A_7C15;
    fraction((turn as u64).wrapping_mul(GOLDEN))
}

fn fraction(bits: u64) -> f64 {
    (bits >> 11) as f64 / (1u64 << 53) as f64
}

fn hash(value: &impl Hash) -> u64 {
    let mut hasher = DefaultHasher::new();
    value.hash(&mut hasher);
    hasher.finish()
}

#[cfg(test)]
mod tests;
