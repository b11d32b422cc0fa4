//! Ways to routes that have the same path. Where there are many, each is found by that of what it asks for that the fewest
//! others ask for, too: a method, or the whole value of a header or of a parameter.

use std::collections::{HashMap, HashSet};

use causeway_ir::http::{HeaderMatch, QueryMatch, RequestMatch, ValueMatch};

use super::{Asked, Found, decoded, halves, parameter};
use crate::http::h1::fields::{Known, known};

/// So few are tried one by one: that is as quick.
const FEW: usize = 8;

/// One way to a route: what has to fit besides host and path.
pub(super) struct Way<T> {
    /// Its place among all ways of its host, in the order in which they are tried.
    pub(super) place: usize,
    method: Option<Box<str>>,
    /// Each with whether it tells of the client: what the client itself says there counts for nothing, unless the listener is
    /// transparent.
    headers: Box<[(HeaderMatch, bool)]>,
    query: Box<[QueryMatch]>,
    to: T,
}

impl<T> Way<T> {
    pub(super) fn new(place: usize, request: Option<&RequestMatch>, to: T) -> Self {
        Self {
            place,
            method: request.and_then(|r| r.method.as_ref()).map(|method| method.as_str().into()),
            headers: request.into_iter().flat_map(|r| &r.headers).map(told_apart).collect(),
            query: request.map(|r| r.query.clone()).unwrap_or_default().into(),
            to,
        }
    }

    /// Its route, found by so much of the path.
    pub(super) fn found(&self, prefix: usize) -> Found<'_, T> {
        Found { to: &self.to, prefix }
    }

    fn fits(&self, asked: &Asked<'_>) -> bool {
        self.method.as_deref().is_none_or(|method| method == asked.method)
            && self.headers.iter().all(|(header, is_told)| {
                let value = asked.header(header.name.as_str(), *is_told);
                value.is_some_and(|value| text(&value).is_some_and(|value| header.value.is_match(value)))
            })
            && self.query.iter().all(|wanted| {
                let value = asked.query.and_then(|query| parameter(query, wanted.name.as_bytes()));
                value.is_some_and(|value| text(&value).is_some_and(|value| wanted.value.is_match(value)))
            })
    }

    /// What it asks for that is compared as a whole.
    fn needs(&self) -> impl Iterator<Item = Need<'_>> {
        let method = self.method.as_deref().map(Need::Method);
        let headers = self.headers.iter().filter_map(|(HeaderMatch { name, value }, is_told)| {
            Some(Need::Header { name: name.as_str(), is_told: *is_told, value: exact(value)? })
        });
        let query = self
            .query
            .iter()
            .filter_map(|QueryMatch { name, value }| Some(Need::Parameter { name, value: exact(value)? }));
        method.into_iter().chain(headers).chain(query)
    }
}

/// A match, and whether its header tells of the client.
fn told_apart(header: &HeaderMatch) -> (HeaderMatch, bool) {
    let is_told = matches!(known(header.name.as_str().as_bytes()), Ok(Known::Forwarded));
    (header.clone(), is_told)
}

fn text(bytes: &[u8]) -> Option<&str> {
    std::str::from_utf8(bytes).ok()
}

fn exact(value: &ValueMatch) -> Option<&str> {
    match value {
        ValueMatch::Exact(value) => Some(value),
        ValueMatch::Regex(_) => None,
    }
}

/// Something that a request must have, as it is written.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
enum Need<'w> {
    Method(&'w str),
    Header { name: &'w str, is_told: bool, value: &'w str },
    Parameter { name: &'w str, value: &'w str },
}

/// Ways that have the same path, in the order in which they are tried.
pub(super) struct Ways<T> {
    all: Vec<Way<T>>,
    /// Where there are many.
    index: Option<Index>,
}

impl<T> Default for Ways<T> {
    fn default() -> Self {
        Self { all: Vec::new(), index: None }
    }
}

impl<T> Ways<T> {
    /// Adds one that is tried after those that are there.
    pub(super) fn push(&mut self, way: Way<T>) {
        self.all.push(way);
    }

    /// All were added.
    pub(super) fn settle(&mut self) {
        self.index = Index::of(&self.all, &(0..self.all.len()).collect::<Vec<_>>(), &mut Vec::new());
    }

    /// The place of the first of them.
    pub(super) fn first(&self) -> usize {
        self.all.first().map_or(usize::MAX, |way| way.place)
    }

    /// The first that fits.
    pub(super) fn find(&self, asked: &Asked<'_>) -> Option<&Way<T>> {
        self.find_before(asked, usize::MAX)
    }

    /// The same, if its place is before this one.
    pub(super) fn find_before(&self, asked: &Asked<'_>, before: usize) -> Option<&Way<T>> {
        let mut search = Search { ways: &self.all, asked, before, found: None };
        match &self.index {
            None => search.list(0..self.all.len()),
            Some(index) => search.index(index),
        }
        search.found
    }
}

/// Ways, by their places in a list, under something that each of them asks for.
struct Index {
    methods: HashMap<Box<str>, Node>,
    headers: HashMap<Box<str>, Header>,
    query: HashMap<Box<[u8]>, Values>,
    /// Those that ask for nothing that is compared as a whole, or for nothing more.
    rest: Box<[usize]>,
}

struct Header {
    is_told: bool,
    values: Values,
}

type Values = HashMap<Box<[u8]>, Node>;

/// Ways that ask for the same.
enum Node {
    Few(Box<[usize]>),
    /// By what else they ask for.
    Many(Index),
}

impl Index {
    /// Nothing if they are quicker, or only, to be tried one by one. `met`: what all of them ask for and requests are known to have.
    fn of<'w, T>(ways: &'w [Way<T>], among: &[usize], met: &mut Vec<Need<'w>>) -> Option<Self> {
        if among.len() <= FEW {
            return None;
        }
        let known: &[Need<'w>] = met;
        let open = |at: usize| ways[at].needs().filter(move |need| !known.contains(need));
        let mut counts = HashMap::<Need<'w>, usize>::new();
        for need in among.iter().flat_map(|at| open(*at)) {
            *counts.entry(need).or_default() += 1;
        }
        let mut rest = Vec::new();
        let mut lists = HashMap::<Need<'w>, Vec<usize>>::new();
        for at in among {
            match open(*at).min_by_key(|need| counts[need]) {
                Some(rarest) => lists.entry(rarest).or_default().push(*at),
                None => rest.push(*at),
            }
        }
        if lists.is_empty() {
            return None;
        }
        let mut index = Self {
            methods: HashMap::new(),
            headers: HashMap::new(),
            query: HashMap::new(),
            rest: rest.into(),
        };
        for (need, list) in lists {
            met.push(need);
            let node = match Self::of(ways, &list, met) {
                Some(index) => Node::Many(index),
                None => Node::Few(list.into()),
            };
            met.pop();
            index.add(need, node);
        }
        Some(index)
    }

    fn add(&mut self, need: Need<'_>, node: Node) {
        match need {
            Need::Method(method) => {
                self.methods.insert(method.into(), node);
            }
            Need::Header { name, is_told, value } => {
                let header = self.headers.entry(name.into());
                let header = header.or_insert_with(|| Header { is_told, values: HashMap::new() });
                header.values.insert(value.as_bytes().into(), node);
            }
            Need::Parameter { name, value } => {
                self.query.entry(name.as_bytes().into()).or_default().insert(value.as_bytes().into(), node);
            }
        }
    }
}

/// A search for the first way that fits.
struct Search<'w, 's, T> {
    ways: &'w [Way<T>],
    asked: &'s Asked<'s>,
    /// Those from this place on are not the first.
    before: usize,
    found: Option<&'w Way<T>>,
}

impl<T> Search<'_, '_, T> {
    fn list(&mut self, list: impl IntoIterator<Item = usize>) {
        let Self { ways, asked, before, .. } = *self;
        let mut candidates = list.into_iter().map(|at| &ways[at]).take_while(|way| way.place < before);
        if let Some(way) = candidates.find(|way| way.fits(asked)) {
            self.before = way.place;
            self.found = Some(way);
        }
    }

    fn node(&mut self, node: &Node) {
        match node {
            Node::Few(list) => self.list(list.iter().copied()),
            Node::Many(index) => self.index(index),
        }
    }

    fn index(&mut self, index: &Index) {
        if let Some(node) = index.methods.get(self.asked.method) {
            self.node(node);
        }
        // By what the plan names, or by what the request has, whichever is less.
        if index.headers.len() <= FEW {
            for (name, header) in &index.headers {
                self.header(name, header);
            }
        } else {
            // Told more than once, a name has one value, and what is under it is searched once.
            let mut seen = HashSet::new();
            for name in self.asked.names() {
                let name = String::from_utf8_lossy(name).to_ascii_lowercase();
                if let Some((name, header)) = index.headers.get_key_value(&*name)
                    && seen.insert(name)
                {
                    self.header(name, header);
                }
            }
        }
        if !index.query.is_empty() {
            self.query(index);
        }
        self.list(index.rest.iter().copied());
    }

    fn header(&mut self, name: &str, header: &Header) {
        let value = self.asked.header(name, header.is_told);
        if let Some(node) = value.and_then(|value| header.values.get(&*value)) {
            self.node(node);
        }
    }

    /// Of parameters with the same name the first counts.
    fn query(&mut self, index: &Index) {
        let mut seen = HashSet::new();
        for pair in self.asked.query.into_iter().flat_map(|query| query.split(|b| *b == b'&')) {
            let (name, value) = halves(pair);
            let Some((name, values)) = index.query.get_key_value(&*decoded(name)) else { continue };
            if seen.insert(name)
                && let Some(node) = values.get(&*decoded(value))
            {
                self.node(node);
            }
        }
    }
}
