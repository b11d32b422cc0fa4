//! Prefixes as a tree of segments: one step down for each segment of a path, then back up to the longest prefix that
//! fits.

use std::collections::HashMap;

use super::ways::{Way, Ways};
use super::{Asked, Found};

pub(super) struct Paths<T> {
    /// The first is the root.
    nodes: Vec<Node<T>>,
}

struct Node<T> {
    parent: usize,
    /// Of the prefix, without a slash at its end.
    length: usize,
    children: HashMap<Box<str>, usize>,
    ways: Ways<T>,
}

impl<T> Default for Paths<T> {
    fn default() -> Self {
        Self { nodes: vec![Node::new(0, 0)] }
    }
}

impl<T> Node<T> {
    fn new(parent: usize, length: usize) -> Self {
        Self { parent, length, children: HashMap::new(), ways: Ways::default() }
    }
}

impl<T> Paths<T> {
    /// Adds a way below a prefix.
    pub(super) fn add(&mut self, prefix: &str, way: Way<T>) {
        let mut at = 0;
        let prefix = prefix.trim_end_matches('/');
        for segment in prefix.split('/').skip(1) {
            at = match self.nodes[at].children.get(segment) {
                Some(child) => *child,
                None => self.grow(at, segment),
            };
        }
        self.nodes[at].ways.push(way);
    }

    fn grow(&mut self, parent: usize, segment: &str) -> usize {
        let length = self.nodes[parent].length + 1 + segment.len();
        let child = self.nodes.len();
        self.nodes.push(Node::new(parent, length));
        self.nodes[parent].children.insert(segment.into(), child);
        child
    }

    /// All were added.
    pub(super) fn settle(&mut self) {
        self.nodes.iter_mut().for_each(|node| node.ways.settle());
    }

    /// The first way that fits, of the longest prefix first.
    pub(super) fn find(&self, asked: &Asked<'_>) -> Option<Found<'_, T>> {
        let mut at = 0;
        for segment in asked.path.split('/').skip(1) {
            match self.nodes[at].children.get(segment) {
                Some(child) => at = *child,
                None => break,
            }
        }
        loop {
            let node = &self.nodes[at];
            if let Some(way) = node.ways.find(asked) {
                return Some(way.found(node.length));
            }
            if at == 0 {
                return None;
            }
            at = node.parent;
        }
    }
}
