//! Expressions for paths: those that match are found together, each with the ways that have it.

use std::collections::HashMap;
use std::ops::ControlFlow;

use causeway_ir::http::{Regex, Regexes};

use super::Asked;
use super::ways::{Way, Ways};

pub(super) struct Expressions<T> {
    /// While ways are added: each expression once, and its place.
    regexes: Vec<Regex>,
    places: HashMap<String, usize>,
    all: Regexes,
    /// Of each expression, in the order of the first ways of each.
    ways: Vec<Ways<T>>,
}

impl<T> Default for Expressions<T> {
    fn default() -> Self {
        Self { regexes: Vec::new(), places: HashMap::new(), all: Regexes::default(), ways: Vec::new() }
    }
}

impl<T> Expressions<T> {
    /// Adds a way that is tried after those that are there.
    pub(super) fn add(&mut self, regex: &Regex, way: Way<T>) {
        let place = *self.places.entry(regex.as_str().to_owned()).or_insert_with(|| {
            self.regexes.push(regex.clone());
            self.ways.push(Ways::default());
            self.ways.len() - 1
        });
        self.ways[place].push(way);
    }

    /// All were added.
    pub(super) fn settle(&mut self) {
        self.all = Regexes::new(&std::mem::take(&mut self.regexes));
        self.places = HashMap::new();
        self.ways.iter_mut().for_each(Ways::settle);
    }

    /// The first way that fits.
    pub(super) fn find(&self, asked: &Asked<'_>) -> Option<&Way<T>> {
        let mut found: Option<&Way<T>> = None;
        self.all.matches(asked.path, |at| {
            let before = found.map_or(usize::MAX, |way| way.place);
            if self.ways[at].first() > before {
                return ControlFlow::Break(());
            }
            found = self.ways[at].find_before(asked, before).or(found);
            ControlFlow::Continue(())
        });
        found
    }
}
