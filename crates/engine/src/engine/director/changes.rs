//! Which routes a plan changes, by listener: all that has to be compiled, and all that begins or ceases to drain.

use std::collections::HashMap;

use causeway_ir::{Listener, Outcome, Plan, Route};

use crate::table::{Change, Table, outcomes};

/// One listener in two plans.
struct Pair<'a> {
    old: Option<&'a Listener>,
    new: Option<&'a Listener>,
    /// The routes that only the old one has.
    gone: &'a [Route],
    /// The routes that only the new one has.
    came: &'a [Route],
}

pub struct Changes<'a>(HashMap<&'a str, Pair<'a>>);

/// Everything of a listener is new.
pub fn all_of(listener: &Listener) -> Change<'_> {
    Change { names: None, gone: &[], new: &listener.routes }
}

impl<'a> Changes<'a> {
    pub fn between(old: &'a Plan, new: &'a Plan) -> Self {
        let mut pairs: HashMap<&str, Pair<'_>> = HashMap::new();
        for listener in &old.listeners {
            let pair = Pair { old: Some(listener), new: None, gone: &listener.routes, came: &[] };
            pairs.insert(&listener.name, pair);
        }
        for listener in &new.listeners {
            let before = pairs.get(listener.name.as_str()).and_then(|pair| pair.old);
            let (gone, came) =
                causeway_ir::changed(before.map_or(&[][..], |before| &before.routes), &listener.routes);
            pairs.insert(&listener.name, Pair { old: before, new: Some(listener), gone, came });
        }
        Self(pairs)
    }

    /// Whether a listener is the same in both plans.
    pub fn is_same(&self, listener: &str) -> bool {
        self.0.get(listener).is_some_and(|pair| {
            let (Some(old), Some(new)) = (pair.old, pair.new) else { return false };
            let same = |a: &Listener, b: &Listener| {
                (a.sniff, a.accept_proxy_protocol) == (b.sniff, b.accept_proxy_protocol)
                    && outcomes(a) == outcomes(b)
            };
            pair.gone.is_empty() && pair.came.is_empty() && same(old, new)
        })
    }

    /// What makes the table of a listener from the one it has.
    pub fn of(&self, listener: &'a Listener, table: &'a Table) -> Change<'a> {
        match (self.0.get(listener.name.as_str()), table.names()) {
            // To take the map apart name by name costs more than to make another.
            (Some(pair), Some(names)) if pair.came.len() <= listener.routes.len() / 2 => {
                Change { names: Some(names), gone: pair.gone, new: pair.came }
            }
            _ => all_of(listener),
        }
    }

    /// Listener and name of each route that the new plan may not have.
    pub fn gone(&self) -> impl Iterator<Item = (&'a str, &'a str)> {
        self.0.iter().flat_map(|(name, pair)| named(name, pair.gone, pair.old))
    }

    /// Listener and name of each route that the old plan may not have had.
    pub fn added(&self) -> impl Iterator<Item = (&'a str, &'a str)> {
        self.0.iter().flat_map(|(name, pair)| named(name, pair.came, pair.new))
    }
}

/// The routes of a listener and those that its outcomes are.
fn named<'a>(
    name: &'a str,
    routes: &'a [Route],
    listener: Option<&'a Listener>,
) -> impl Iterator<Item = (&'a str, &'a str)> {
    let outcomes = listener.into_iter().flat_map(outcomes);
    let outcomes = outcomes.filter(|(_, outcome, _)| matches!(outcome, Outcome::Cluster(_))).map(|o| o.0);
    routes.iter().map(|route| route.name.as_str()).chain(outcomes).map(move |route| (name, route))
}
