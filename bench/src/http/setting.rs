//! What a row asks of every gateway: what it listens for, its certificates, its routes and their backends. And what is
//! asked through it.

use std::net::{Ipv4Addr, SocketAddrV4};

use super::workload::Workload;

/// Where every gateway listens.
pub(crate) const GATEWAY: SocketAddrV4 = SocketAddrV4::new(Ipv4Addr::LOCALHOST, 7443);
/// Backends with a body of 1 KiB, which begins with their place.
pub(crate) const SMALL: [SocketAddrV4; 4] = [small(21), small(22), small(23), small(24)];
/// The backend with a body of 16 KiB.
pub(crate) const LARGE: SocketAddrV4 = SocketAddrV4::new(Ipv4Addr::new(127, 0, 0, 20), 9216);
/// The backend that speaks HTTP/2.
pub(crate) const MESSAGES: SocketAddrV4 = SocketAddrV4::new(Ipv4Addr::new(127, 0, 0, 20), 9202);

/// Ports of the same two in the place of pods: HTTP/1.1 and HTTP/2.
pub(crate) const POD_PORTS: [u16; 2] = [9203, 9204];
/// The same two as programs of a laptop.
pub(crate) const LAPTOP: [SocketAddrV4; 2] =
    [SocketAddrV4::new(Ipv4Addr::LOCALHOST, 9205), SocketAddrV4::new(Ipv4Addr::LOCALHOST, 9206)];

pub(crate) const SMALL_BODY: usize = 1 << 10;
pub(crate) const LARGE_BODY: usize = 16 << 10;
/// A message with the five bytes that gRPC writes before it.
pub(crate) const MESSAGE: [u8; 64] = {
    let mut message = [b'm'; 64];
    (message[0], message[1], message[2], message[3], message[4]) = (0, 0, 0, 0, 59);
    message
};
/// The same from a laptop, which is told by its length.
pub(crate) const LONGER_MESSAGE: [u8; 72] = {
    let mut message = [b'l'; 72];
    (message[0], message[1], message[2], message[3], message[4]) = (0, 0, 0, 0, 67);
    message
};

const HOST: &str = "www.bench.test";
const PATH: &str = "/api/items/42";
const CERTIFICATES: u32 = 5000;
const HOSTS: usize = 100;
const PREFIXES: usize = 100;

const fn small(last: u8) -> SocketAddrV4 {
    SocketAddrV4::new(Ipv4Addr::new(127, 0, 0, last), 9200)
}

/// What is spoken on either side of a gateway.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Version {
    Http1,
    Http2,
}

/// Requests that go to a backend.
pub(crate) struct Route {
    /// Without one, any host.
    pub(crate) host: Option<String>,
    /// What paths begin with.
    pub(crate) prefix: String,
    /// A place among the backends.
    pub(crate) backend: usize,
}

/// One request.
pub(crate) struct Ask {
    pub(crate) host: String,
    pub(crate) path: String,
    /// The backend that has to answer.
    pub(crate) backend: usize,
}

/// What a gateway is told.
pub(crate) struct Setting {
    /// The names of its certificates; without any it listens without TLS.
    pub(crate) certificates: Vec<String>,
    /// Whether they are replaced while it runs.
    pub(crate) changing: bool,
    /// What the load speaks; HTTP/1.1 is taken beside HTTP/2 where TLS agrees on it.
    pub(crate) front: Version,
    /// What backends speak.
    pub(crate) back: Version,
    pub(crate) routes: Vec<Route>,
    pub(crate) backends: Vec<SocketAddrV4>,
}

impl Setting {
    pub(crate) fn of(row: Workload) -> Self {
        let certificates = match row {
            Workload::Http | Workload::Grpc | Workload::Routes => Vec::new(),
            Workload::Certificates => certificate_names(),
            _ => vec![HOST.to_owned()],
        };
        let version = |second: bool| if second { Version::Http2 } else { Version::Http1 };
        let everything = || vec![Route { host: None, prefix: "/".into(), backend: 0 }];
        Self {
            certificates,
            changing: row == Workload::Swaps,
            front: version(matches!(row, Workload::Http2 | Workload::Grpc)),
            back: version(row == Workload::Grpc),
            routes: if row == Workload::Routes { many_routes() } else { everything() },
            backends: match row {
                Workload::Bodies => vec![LARGE],
                Workload::Grpc => vec![MESSAGES],
                Workload::Routes => SMALL.to_vec(),
                _ => vec![SMALL[0]],
            },
        }
    }

    /// Every request that is made, one of which is chosen each time.
    pub(crate) fn asks(&self) -> Vec<Ask> {
        if self.routes.len() > 1 {
            let ask = |route: &Route| Ask {
                host: route.host.clone().unwrap_or_else(|| HOST.into()),
                path: format!("{}{}", route.prefix, &PATH[1..]),
                backend: route.backend,
            };
            return self.routes.iter().map(ask).collect();
        }
        let ask = |host: &str| Ask { host: host.into(), path: PATH.into(), backend: 0 };
        match self.certificates.as_slice() {
            [] => vec![ask(HOST)],
            names => names.iter().map(|name| ask(name)).collect(),
        }
    }

    pub(crate) fn has_tls(&self) -> bool {
        !self.certificates.is_empty()
    }

    /// Routes by their host, in their order.
    pub(crate) fn by_host(&self) -> Vec<(Option<&str>, Vec<&Route>)> {
        let mut hosts: Vec<(Option<&str>, Vec<&Route>)> = Vec::new();
        for route in &self.routes {
            match hosts.last_mut() {
                Some((host, routes)) if *host == route.host.as_deref() => routes.push(route),
                _ => hosts.push((route.host.as_deref(), vec![route])),
            }
        }
        hosts
    }
}

/// Names in no order.
fn certificate_names() -> Vec<String> {
    const ODD: u32 = 2_654_435_761;
    (1..=CERTIFICATES).map(|place| format!("{:08x}.apps.bench.test", place.wrapping_mul(ODD))).collect()
}

fn many_routes() -> Vec<Route> {
    let of_host = |host: usize| {
        (0..PREFIXES).map(move |prefix| Route {
            host: Some(format!("shop-{host:02}.bench.test")),
            prefix: format!("/team-{prefix:02}/"),
            backend: (host + prefix) % SMALL.len(),
        })
    };
    (0..HOSTS).flat_map(of_host).collect()
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn there_are_as_many_certificates_and_routes_as_the_rows_say() {
        let names: HashSet<_> = Setting::of(Workload::Certificates).certificates.into_iter().collect();
        assert_eq!(names.len(), 5000);
        let routes = Setting::of(Workload::Routes);
        let asks: HashSet<_> = routes.asks().into_iter().map(|ask| (ask.host, ask.path)).collect();
        assert_eq!((routes.routes.len(), asks.len(), routes.by_host().len()), (10_000, 10_000, 100));
    }

    #[test]
    fn a_request_is_answered_by_the_backend_of_its_route() {
        let setting = Setting::of(Workload::Routes);
        for ask in setting.asks().into_iter().step_by(997) {
            let fits = |route: &&Route| {
                route.host.as_ref() == Some(&ask.host) && ask.path.starts_with(route.prefix.as_str())
            };
            let backends: Vec<_> = setting.routes.iter().filter(fits).map(|route| route.backend).collect();
            assert_eq!(backends, [ask.backend]);
        }
    }
}
