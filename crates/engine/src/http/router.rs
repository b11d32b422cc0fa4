//! Routes of requests compiled for lookups whose cost does not grow with their number, nor with that of sites: one hash for
//! the host and one for each label of a wildcard, one for an exact path, one for each segment of a prefix, one pass over the
//! path for some hundreds of expressions of the host, and on one path a hash for the method and for each header and parameter. Only
//! expressions for the values of headers and parameters are tried one by one. What is found is what
//! `causeway_ir::http::precedence` says.

mod expressions;
mod hosts;
mod paths;
#[cfg(test)]
mod tests;
mod ways;

use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::Arc;

use causeway_ir::Name;
use causeway_ir::http::{Http, HttpRoute, PathMatch, RequestMatch, Site, call, precedence};

use super::forwarded::Trusted;
use super::h1::fields::Fields;
use super::introduction::Introduction;
use super::pages::Pages;
use super::path;
use expressions::Expressions;
use hosts::Hosts;
use paths::Paths;
use ways::{Way, Ways};

/// What of a request is compared.
pub(crate) struct Asked<'a> {
    pub(crate) method: &'a str,
    pub(crate) host: &'a str,
    pub(crate) path: &'a str,
    pub(crate) query: Option<&'a [u8]>,
    pub(crate) fields: Fields<'a>,
    /// Who the client is and what it asked for, as the endpoint will hear it; none where that is what the request says.
    pub(crate) told: Option<ToldOn<'a>>,
}

impl<'a> Asked<'a> {
    /// The value of a header whose name is given in lower case; `is_told`: it tells of the client.
    fn header(&self, name: &str, is_told: bool) -> Option<Cow<'a, [u8]>> {
        match self.told {
            Some(told) if is_told => told.get(name),
            _ => self.fields.get(name),
        }
    }

    /// The names of all headers that have a value, and perhaps some more.
    fn names(&self) -> impl Iterator<Item = &'a [u8]> {
        let told = self.told.into_iter().flat_map(|told| told.introduction.names());
        self.fields.iter().map(|(_, name, _)| name).chain(told)
    }
}

/// What endpoints hear of a client.
#[derive(Clone, Copy)]
pub(crate) struct ToldOn<'a> {
    pub(crate) introduction: &'a Introduction,
    pub(crate) authority: &'a str,
}

impl<'a> ToldOn<'a> {
    /// The value of a field that tells of clients.
    fn get(self, name: &str) -> Option<Cow<'a, [u8]>> {
        self.introduction.get(name.as_bytes(), self.authority)
    }
}

/// The route of a request.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Found<'a, T> {
    pub(crate) to: &'a T,
    /// How much of the path the route's prefix is, without a slash at its end.
    pub(crate) prefix: usize,
}

/// Why a request has no route.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Missed {
    /// None matches.
    Nothing,
    /// Its host is served to those who asked for it in TLS, and this client asked for another.
    Misdirected,
}

impl Missed {
    /// The status that says so.
    pub(crate) fn status(self) -> u16 {
        match self {
            Self::Nothing => 404,
            Self::Misdirected => 421,
        }
    }
}

/// The routes of a listener.
pub(crate) struct Router<T> {
    /// Hosts that are served apart.
    apart: Hosts<Place<T>>,
    sites: HashMap<Name, Arc<Routes<T>>>,
    otherwise: Routes<T>,
    trusted: Option<Trusted>,
    is_transparent: bool,
    pages: Option<Arc<Pages>>,
}

/// Where the requests for a host are looked for.
enum Place<T> {
    Site(Arc<Routes<T>>),
    Misdirected,
}

/// Routes among which the best is looked for.
pub(crate) struct Routes<T> {
    hosts: Hosts<Hosted<T>>,
    any: Hosted<T>,
}

/// The routes of a host.
struct Hosted<T> {
    exact: HashMap<Box<str>, Ways<T>>,
    expressions: Expressions<T>,
    prefixes: Paths<T>,
    /// By the method, with its slash.
    calls: HashMap<Box<str>, Ways<T>>,
    /// Ways so far.
    count: usize,
}

impl<T: Clone> Router<T> {
    /// Compiles; `pages` are said with requests that have no route, `make` gives what stands for a route, or nothing if it
    /// can't be executed. `kept` gives what a site compiled to before, if it is the same.
    pub(crate) fn compile(
        http: &Http,
        pages: Option<Arc<Pages>>,
        kept: impl Fn(&Site) -> Option<Arc<Routes<T>>>,
        mut make: impl FnMut(&HttpRoute) -> Option<T>,
    ) -> Option<Self> {
        let mut router = Self {
            apart: Hosts::default(),
            sites: HashMap::with_capacity(http.sites.len()),
            otherwise: Routes::compile(&http.routes, &mut make)?,
            trusted: http.trusted_proxies.as_ref().map(Trusted::compile),
            is_transparent: http.transparent,
            pages,
        };
        for site in &http.sites {
            let routes = match kept(site) {
                Some(routes) => routes,
                None => Arc::new(Routes::compile(&site.routes, &mut make)?),
            };
            for host in &site.hosts {
                router.apart.insert(host, Place::Site(Arc::clone(&routes)));
            }
            router.sites.insert(site.name.clone(), routes);
        }
        for host in &http.misdirected {
            router.apart.insert(host, Place::Misdirected);
        }
        Some(router)
    }

    /// One route for every request.
    pub(crate) fn everything(to: T) -> Self {
        let mut any = Hosted::default();
        any.add(None, to);
        let otherwise = Routes { hosts: Hosts::default(), any };
        Self {
            apart: Hosts::default(),
            sites: HashMap::new(),
            otherwise,
            trusted: None,
            is_transparent: false,
            pages: None,
        }
    }

    /// The proxies whose word on their clients counts.
    pub(crate) fn trusted(&self) -> Option<&Trusted> {
        self.trusted.as_ref()
    }

    /// Whether requests keep what they say of their clients.
    pub(crate) fn is_transparent(&self) -> bool {
        self.is_transparent
    }

    /// What is said with requests that have no route.
    pub(crate) fn pages(&self) -> Option<&Pages> {
        self.pages.as_deref()
    }

    /// What a site compiled to.
    pub(crate) fn site(&self, name: &str) -> Option<&Arc<Routes<T>>> {
        self.sites.get(name)
    }

    /// The route of a request.
    ///
    /// # Errors
    /// If there is none, why.
    pub(crate) fn find(&self, asked: &Asked<'_>) -> Result<Found<'_, T>, Missed> {
        let routes = match self.apart.fitting(asked.host).next() {
            None => &self.otherwise,
            Some(Place::Site(routes)) => routes,
            Some(Place::Misdirected) => return Err(Missed::Misdirected),
        };
        routes.find(asked).ok_or(Missed::Nothing)
    }
}

impl<T: Clone> Routes<T> {
    fn compile(routes: &[HttpRoute], make: impl FnMut(&HttpRoute) -> Option<T>) -> Option<Self> {
        let made = routes.iter().map(make).collect::<Option<Vec<T>>>()?;
        let of: HashMap<&str, &T> = routes.iter().map(|route| route.name.as_str()).zip(&made).collect();
        let mut compiled = Self { hosts: Hosts::default(), any: Hosted::default() };
        // In their order: each list below is then in order, too.
        for candidate in precedence::ordered(routes) {
            let hosted = match candidate.host {
                Some(host) => compiled.hosts.or_default(host),
                None => &mut compiled.any,
            };
            let to = (*of.get(candidate.route.name.as_str())?).clone();
            hosted.add(candidate.request, to);
        }
        compiled.hosts.each_mut().chain([&mut compiled.any]).for_each(Hosted::settle);
        Some(compiled)
    }

    /// A host whose routes all do not fit leaves it to the next wider one.
    fn find(&self, asked: &Asked<'_>) -> Option<Found<'_, T>> {
        let by_host = self.hosts.fitting(asked.host).find_map(|hosted| hosted.find(asked));
        by_host.or_else(|| self.any.find(asked))
    }
}

impl<T> Default for Hosted<T> {
    fn default() -> Self {
        Self {
            exact: HashMap::new(),
            expressions: Expressions::default(),
            prefixes: Paths::default(),
            calls: HashMap::new(),
            count: 0,
        }
    }
}

impl<T> Hosted<T> {
    /// Adds a way that is tried after those that are there.
    fn add(&mut self, request: Option<&RequestMatch>, to: T) {
        let way = Way::new(self.count, request, to);
        self.count += 1;
        // Written in the one form that requests are compared in.
        let normal = |path: &causeway_ir::http::Path| match path::normalise(path.as_str().as_bytes()) {
            Ok(normal) => normal.into_owned(),
            Err(_) => path.as_str().to_owned(),
        };
        match request.and_then(|request| request.path.as_ref()) {
            Some(PathMatch::Exact(path)) => {
                self.exact.entry(normal(path).into()).or_default().push(way);
            }
            Some(PathMatch::Regex(regex)) => self.expressions.add(regex, way),
            Some(PathMatch::Prefix(path)) => self.prefixes.add(&normal(path), way),
            Some(PathMatch::Call(method)) => {
                self.calls.entry(method.as_str().into()).or_default().push(way);
            }
            None => self.prefixes.add("", way),
        }
    }

    /// All were added.
    fn settle(&mut self) {
        self.exact.values_mut().chain(self.calls.values_mut()).for_each(Ways::settle);
        self.expressions.settle();
        self.prefixes.settle();
    }

    fn find(&self, asked: &Asked<'_>) -> Option<Found<'_, T>> {
        let exact = self.exact.get(asked.path).and_then(|ways| ways.find(asked));
        if let Some(way) = exact.or_else(|| self.expressions.find(asked)) {
            return Some(way.found(asked.path.len()));
        }
        let by_prefix = self.prefixes.find(asked);
        if self.calls.is_empty() || by_prefix.as_ref().is_some_and(|found| found.prefix > 0) {
            return by_prefix;
        }
        let called = call(asked.path).and_then(|method| self.calls.get(method)?.find(asked));
        called.map(|way| way.found(asked.path.len())).or(by_prefix)
    }
}

/// The value of the first parameter with a name.
fn parameter<'a>(query: &'a [u8], name: &[u8]) -> Option<Cow<'a, [u8]>> {
    query.split(|b| *b == b'&').find_map(|pair| {
        let (key, value) = halves(pair);
        (*decoded(key) == *name).then(|| decoded(value))
    })
}

/// The name and the value of a parameter, as they are written.
fn halves(pair: &[u8]) -> (&[u8], &[u8]) {
    let mut parts = pair.splitn(2, |b| *b == b'=');
    (parts.next().unwrap_or_default(), parts.next().unwrap_or_default())
}

/// What a form would have had before it was encoded.
fn decoded(text: &[u8]) -> Cow<'_, [u8]> {
    if !text.iter().any(|b| matches!(b, b'%' | b'+')) {
        return Cow::Borrowed(text);
    }
    let mut decoded = Vec::with_capacity(text.len());
    let mut rest = text;
    while let [byte, after @ ..] = rest {
        rest = after;
        let escaped = if *byte == b'%' { after.get(..2).and_then(path::hex) } else { None };
        if let Some(escaped) = escaped {
            decoded.push(escaped);
            rest = &after[2..];
        } else {
            decoded.push(if *byte == b'+' { b' ' } else { *byte });
        }
    }
    Cow::Owned(decoded)
}
