//! The arithmetic of a rollout: how many pods more and fewer than wanted there may be, and which ReplicaSet gets how many.

use k8s_openapi::{
    api::apps::v1::{Deployment, ReplicaSet},
    apimachinery::pkg::util::intstr::IntOrString,
};
use kube::ResourceExt;

use super::revision::{DESIRED_REPLICAS, MAX_REPLICAS};

/// What the spec asks for, as numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Bounds {
    pub replicas: i32,
    pub surge: i32,
    pub unavailable: i32,
    pub recreate: bool,
}

/// True for the strategy that stops the old pods before it starts new ones.
pub(super) fn is_recreate(deployment: &Deployment) -> bool {
    let strategy = deployment.spec.as_ref().and_then(|spec| spec.strategy.as_ref());
    strategy.and_then(|strategy| strategy.type_.as_deref()) == Some("Recreate")
}

impl Bounds {
    pub(super) fn of(deployment: &Deployment) -> Self {
        let spec = deployment.spec.as_ref();
        let replicas = spec.and_then(|spec| spec.replicas).unwrap_or(1).max(0);
        if is_recreate(deployment) {
            return Self { replicas, surge: 0, unavailable: 0, recreate: true };
        }
        let rolling = spec.and_then(|spec| spec.strategy.as_ref()?.rolling_update.as_ref());
        let quarter = IntOrString::String("25%".into());
        let surge = resolve(rolling.and_then(|r| r.max_surge.as_ref()).unwrap_or(&quarter), replicas, true);
        let mut unavailable =
            resolve(rolling.and_then(|r| r.max_unavailable.as_ref()).unwrap_or(&quarter), replicas, false);
        // Both zero would never move.
        if surge == 0 && unavailable == 0 {
            unavailable = 1;
        }
        Self { replicas, surge, unavailable: unavailable.min(replicas), recreate: false }
    }

    /// The most pods there may be.
    pub(super) fn max_total(self) -> i32 {
        self.replicas + self.surge
    }

    /// The fewest available pods there may be.
    pub(super) fn min_available(self) -> i32 {
        self.replicas - self.unavailable
    }
}

/// A count, or a percentage of `total`.
fn resolve(value: &IntOrString, total: i32, round_up: bool) -> i32 {
    match value {
        IntOrString::Int(count) => (*count).max(0),
        IntOrString::String(text) => {
            let percent: i64 = text.trim_end_matches('%').parse().unwrap_or(0).max(0);
            let scaled = percent * i64::from(total);
            (if round_up { (scaled + 99) / 100 } else { scaled / 100 }) as i32
        }
    }
}

/// How many pods a ReplicaSet is asked for.
pub(super) fn wanted(set: &ReplicaSet) -> i32 {
    set.spec.as_ref().and_then(|spec| spec.replicas).unwrap_or(1)
}

/// How many of its pods are available.
pub(super) fn available(set: &ReplicaSet) -> i32 {
    set.status.as_ref().and_then(|status| status.available_replicas).unwrap_or(0)
}

/// The size to which the newest ReplicaSet may grow now; `all` is what all ReplicaSets are asked for together.
pub(super) fn new_size(bounds: Bounds, current: i32, all: i32) -> i32 {
    if bounds.recreate {
        return bounds.replicas;
    }
    if current >= bounds.replicas {
        return bounds.replicas;
    }
    let room = (bounds.max_total() - all).max(0);
    current + room.min(bounds.replicas - current)
}

/// The sizes to which old ReplicaSets shrink now: first what is broken, then as many as may be unavailable.
pub(super) fn old_sizes(bounds: Bounds, new: &ReplicaSet, old: &[&ReplicaSet]) -> Vec<(String, i32)> {
    let mut sizes: Vec<(&ReplicaSet, i32)> = old.iter().map(|set| (*set, wanted(set))).collect();
    sizes.sort_by_key(|(set, _)| set.metadata.creation_timestamp.as_ref().map(|time| time.0));
    let old_total: i32 = sizes.iter().map(|(_, size)| size).sum();
    if old_total == 0 {
        return Vec::new();
    }
    let new_unavailable = wanted(new) - available(new);
    let budget = old_total + wanted(new) - bounds.min_available() - new_unavailable;
    if budget <= 0 {
        return Vec::new();
    }
    let mut removed = 0;
    for (set, size) in &mut sizes {
        let broken = (*size - available(set)).max(0);
        let less = broken.min(budget - removed).max(0);
        *size -= less;
        removed += less;
    }
    let available_total: i32 = available(new) + old.iter().map(|set| available(set)).sum::<i32>();
    let mut spare = (available_total - bounds.min_available()).max(0);
    for (_, size) in &mut sizes {
        let less = (*size).min(spare).max(0);
        *size -= less;
        spare -= less;
    }
    sizes
        .into_iter()
        .filter(|(set, size)| wanted(set) != *size)
        .map(|(set, size)| (set.name_any(), size))
        .collect()
}

/// True when the Deployment was scaled since its ReplicaSets were last sized.
pub(super) fn is_scaling(bounds: Bounds, sets: &[&ReplicaSet]) -> bool {
    sets.iter().filter(|set| wanted(set) > 0).any(|set| {
        let desired: Option<i32> = set.annotations().get(DESIRED_REPLICAS).and_then(|text| text.parse().ok());
        desired.is_some_and(|desired| desired != bounds.replicas)
    })
}

/// The sizes after a change of `replicas`, or while paused: proportional when several ReplicaSets have pods.
pub(super) fn scaled_sizes(
    bounds: Bounds,
    new: Option<&ReplicaSet>,
    old: &[&ReplicaSet],
) -> Vec<(String, i32)> {
    let mut active: Vec<&ReplicaSet> =
        new.into_iter().chain(old.iter().copied()).filter(|set| wanted(set) > 0).collect();
    if active.len() <= 1 {
        let latest = || {
            old.iter().copied().max_by_key(|set| set.metadata.creation_timestamp.as_ref().map(|time| time.0))
        };
        let only = active.first().copied().or(new).or_else(latest);
        return only.map(|set| vec![(set.name_any(), bounds.replicas)]).unwrap_or_default();
    }
    if let Some(new) = new
        && wanted(new) == bounds.replicas
        && available(new) == bounds.replicas
        && new.annotations().get(DESIRED_REPLICAS) == Some(&bounds.replicas.to_string())
    {
        return active
            .iter()
            .filter(|set| set.metadata.uid != new.metadata.uid)
            .map(|set| (set.name_any(), 0))
            .collect();
    }
    if bounds.recreate {
        return Vec::new();
    }
    let total: i32 = active.iter().map(|set| wanted(set)).sum();
    let allowed = if bounds.replicas > 0 { bounds.max_total() } else { 0 };
    let to_add = allowed - total;
    // The biggest first; among equals the newest grows and the oldest shrinks.
    active.sort_by_key(|set| {
        let created = set.metadata.creation_timestamp.as_ref().map_or(0, |time| time.0.as_second());
        (-wanted(set), if to_add > 0 { -created } else { created })
    });
    let mut added = 0;
    let mut sizes: Vec<(String, i32)> = Vec::new();
    for set in active {
        let share = proportion(bounds, set, to_add, added);
        added += share;
        sizes.push((set.name_any(), wanted(set) + share));
    }
    if let Some((_, size)) = sizes.first_mut() {
        *size = (*size + to_add - added).max(0);
    }
    sizes
}

/// One ReplicaSet's part of `to_add`, of which `added` are given away already.
fn proportion(bounds: Bounds, set: &ReplicaSet, to_add: i32, added: i32) -> i32 {
    if to_add == added {
        return 0;
    }
    let left = to_add - added;
    let fraction = if bounds.replicas == 0 {
        -wanted(set)
    } else {
        let before: i32 = set
            .annotations()
            .get(MAX_REPLICAS)
            .and_then(|text| text.parse().ok())
            .unwrap_or(bounds.max_total());
        let size = f64::from(wanted(set)) * f64::from(bounds.max_total()) / f64::from(before.max(1));
        size.round() as i32 - wanted(set)
    };
    if to_add > 0 { fraction.min(left).max(0) } else { fraction.max(left).min(0) }
}
