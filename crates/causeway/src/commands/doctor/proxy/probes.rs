//! Real connections to every address of a proxy: by each name, by a name that nobody has, by none, and without TLS; where
//! no name counts, one. Many at a time; what is the same on several addresses is one line.

use std::collections::{BTreeMap, HashSet};
use std::net::SocketAddr;

use causeway_api::{ProxyServer, ProxyServerStatus};
use causeway_ir::{Action, Cluster, Listener, Protocol};
use causeway_translate::proxy::{Translation, cluster_name};
use futures::{StreamExt, stream};
use kube::ResourceExt;

use super::attachment::Place;
use super::probe::{self, Failure};
use crate::commands::doctor::finding::{Finding, listed};

/// Connections at a time, if the proxy's own limits do not ask for fewer.
const AT_ONCE: usize = 128;
/// Names that are tried on each address: as many as a spec can have backends.
const MOST_NAMES: usize = 2048;
/// A name that no route can have: `.invalid` is reserved.
const UNKNOWN_NAME: &str = "nobody.causeway-doctor.invalid";

/// Connections to each address that answers from here, which may be inside the isolated network.
pub(super) async fn probes(
    proxy: &ProxyServer,
    status: &ProxyServerStatus,
    translation: &Translation,
    (place, is_inside): (Place, bool),
) -> Vec<Finding> {
    let addresses = addresses(status);
    if addresses.is_empty() {
        return vec![Finding::skipped("no proxy says where it listens, so none was tried")];
    }
    let at_once = at_once(proxy);
    let tcp = |port: u16| {
        let mut listeners = translation.plan.listeners.iter();
        listeners.find(|listener| !listener.protocol.is_udp() && listener.bind.port() == port)
    };
    let tried = addresses.into_iter().filter_map(|address| Some((address, tcp(address.port())?)));
    let tried: Vec<_> = stream::iter(tried)
        .map(|(address, listener)| async move { (address, listener, probe::connect(address).await) })
        .buffered(at_once)
        .collect()
        .await;
    let (mut found, mut open) = (Vec::new(), Vec::new());
    for (address, listener, connected) in tried {
        match connected {
            Ok(_) => open.push((address, listener)),
            Err(failure) => found.push(unreachable(proxy, address, &failure, (place, is_inside))),
        }
    }
    if !open.is_empty() {
        let all: Vec<_> = open.iter().map(|(address, _)| address.to_string()).collect();
        found.push(Finding::good(format!("connections are accepted on {}", listed(&all))));
    }
    let targets = Targets { proxy, translation };
    found.extend(targets.untried().map(|count| {
        Finding::skipped(format!("{count} names beyond the first {MOST_NAMES} were not tried"))
    }));
    let asks: Vec<_> = open
        .iter()
        .flat_map(|(address, listener)| targets.asks(listener).into_iter().map(|ask| (*address, ask)))
        .collect();
    let seen: Vec<_> = stream::iter(asks)
        .map(|(address, ask)| async move { (address, ask.try_on(address).await) })
        .buffered(at_once)
        .collect()
        .await;
    found.extend(told(seen));
    found
}

/// A doctor must not be refused for its own zeal, nor take the place of clients.
fn at_once(proxy: &ProxyServer) -> usize {
    let limits = [proxy.spec.connections_per_source, proxy.spec.connection_limit.map(|limit| limit / 4)];
    let fewest = limits.into_iter().flatten().filter_map(|limit| usize::try_from(limit).ok()).min();
    fewest.unwrap_or(AT_ONCE).clamp(1, AT_ONCE)
}

fn unreachable(
    proxy: &ProxyServer,
    address: SocketAddr,
    failure: &Failure,
    (place, is_inside): (Place, bool),
) -> Finding {
    let said = format!("{address} can't be reached from here ({failure})");
    match place {
        Place::Cluster => Finding::unchecked(said),
        Place::OneMachine if !is_inside && is_isolated(proxy, address) => Finding::unchecked(format!(
            "{said}; as root, on the machine of `causeway up`, it is tried from inside the isolated network"
        )),
        Place::OneMachine => Finding::bad(
            said,
            "the proxy reports that it listens there: look at its log, and whether a firewall is in the way",
        ),
    }
}

/// Whether an address is on a network that the machine itself is not on.
fn is_isolated(proxy: &ProxyServer, address: SocketAddr) -> bool {
    proxy.spec.network_config.network_attachment_name.is_some() && !address.ip().is_loopback()
}

/// Where the proxies say that they listen, and the Service in front of them.
fn addresses(status: &ProxyServerStatus) -> Vec<SocketAddr> {
    let mut all: Vec<SocketAddr> =
        status.replicas.iter().flat_map(|r| &r.listening).filter_map(|text| text.parse().ok()).collect();
    let service = status.service_ip.as_ref().and_then(|ip| ip.parse().ok());
    let ports: Vec<u16> = all.iter().map(SocketAddr::port).collect();
    if let Some(ip) = service {
        all.extend(ports.into_iter().map(|port| SocketAddr::new(ip, port)));
    }
    all.sort();
    all.dedup();
    all
}

/// What leads where.
struct Targets<'a> {
    proxy: &'a ProxyServer,
    translation: &'a Translation,
}

impl Targets<'_> {
    /// Everything that can be asked of a listener.
    fn asks(&self, listener: &Listener) -> Vec<Ask> {
        if listener.accept_proxy_protocol.is_some() {
            return Vec::new();
        }
        let ready = self.ready();
        let tls = match &listener.protocol {
            Protocol::Tls(tls) => tls,
            Protocol::Tcp(route) if ready.contains(&*route.name) => {
                return vec![Ask::Any(self.backend(&route.name, &route.action))];
            }
            _ => return Vec::new(),
        };
        let routes = tls.routes.iter().filter(|route| ready.contains(&*route.name));
        let names = routes.flat_map(|route| {
            let to = self.backend(&route.name, &route.action);
            route.server_names.iter().map(move |name| Ask::Name { name: name.to_string(), to: to.clone() })
        });
        let names = names.take(MOST_NAMES);
        let outcomes = [
            Ask::NoName(self.outcome(&tls.no_server_name)),
            Ask::Unknown(self.outcome(&tls.unknown_server_name)),
            Ask::Plaintext(self.outcome(&tls.plaintext)),
        ];
        names.chain(outcomes).collect()
    }

    /// The backends and routes with ready endpoints: that nothing comes of the others is said already.
    fn ready(&self) -> HashSet<&str> {
        let backends = self.translation.backends.iter().map(|state| (&state.name, state.ready_endpoints));
        let routes = self.translation.routes.iter().map(|state| (&state.name, state.ready_endpoints));
        backends.chain(routes).filter(|(_, ready)| *ready > 0).map(|(name, _)| name.as_str()).collect()
    }

    /// How many names are not tried.
    fn untried(&self) -> Option<usize> {
        let listeners = self.translation.plan.listeners.iter();
        let tls = listeners.filter_map(|listener| match &listener.protocol {
            Protocol::Tls(tls) => Some(tls),
            _ => None,
        });
        let counts = tls.map(|tls| tls.routes.iter().map(|route| route.server_names.len()).sum::<usize>());
        Some(counts.map(|count| count.saturating_sub(MOST_NAMES)).sum()).filter(|count| *count > 0)
    }

    fn backend(&self, name: &str, action: &Action) -> Backend {
        let leads_to = |cluster: &&Cluster| action.targets().iter().any(|to| to.cluster == cluster.name);
        let mut behind = self.translation.plan.clusters.iter().filter(leads_to);
        let endpoint = behind.find_map(|c| c.endpoints.iter().find_map(|e| e.address.socket()));
        Backend { name: name.to_owned(), endpoint }
    }

    fn outcome(&self, action: &Action) -> Option<Backend> {
        let Action::Forward(targets) = action else { return None };
        let cluster = &targets.as_slice().first()?.cluster;
        let of = |name: &str| cluster_name(&self.proxy.name_any(), name) == **cluster;
        self.proxy.spec.backends.iter().find(|b| of(&b.name)).map(|b| self.backend(&b.name, action))
    }
}

/// Where connections should come to, and one of its endpoints.
#[derive(Clone)]
struct Backend {
    name: String,
    endpoint: Option<SocketAddr>,
}

impl Backend {
    /// Finds out, without the proxy, why nothing answers.
    async fn cure(&self, server_name: Option<&str>) -> String {
        let Some(endpoint) = self.endpoint else {
            return format!("see whether the service of {} answers TLS on its own address", self.name);
        };
        match probe::handshake(endpoint, server_name).await {
            Ok(_) => {
                format!("its endpoint {endpoint} answers TLS by itself: look at the proxy's log and limits")
            }
            Err(Failure::Connect(why)) if why == "connection refused" => self.cure_of_refusal(endpoint),
            Err(Failure::Connect(_)) => {
                format!("see whether its endpoint {endpoint} answers TLS; it can't be reached from here")
            }
            Err(Failure::Silent) => format!(
                "its endpoint {endpoint} takes connections and says nothing: see whether the program there speaks TLS, \
                 and is not stuck"
            ),
            Err(failure @ (Failure::Closed | Failure::Alert(_) | Failure::Other(_))) => {
                format!("its endpoint {endpoint} does not answer TLS by itself either: {failure}")
            }
        }
    }
}

impl Backend {
    /// The same for one that need not speak TLS.
    async fn cure_of_closing(&self) -> String {
        let Some(endpoint) = self.endpoint else {
            return format!("see whether the service of {} answers on its own address", self.name);
        };
        match probe::stays_open(endpoint).await {
            Ok(()) => {
                format!(
                    "its endpoint {endpoint} takes connections by itself: look at the proxy's log and limits"
                )
            }
            Err(Failure::Connect(why)) if why == "connection refused" => self.cure_of_refusal(endpoint),
            Err(Failure::Connect(_)) => {
                format!("see whether its endpoint {endpoint} answers; it can't be reached from here")
            }
            Err(_) => format!(
                "its endpoint {endpoint} closes connections by itself: see the log of the program there"
            ),
        }
    }

    fn cure_of_refusal(&self, endpoint: SocketAddr) -> String {
        format!(
            "its endpoint {endpoint} refuses connections: start the program there, or correct targetPort of {}",
            self.name
        )
    }
}

/// One question to a proxy, and what should come of it: a backend, or a refusal.
#[derive(Clone)]
enum Ask {
    /// Every connection.
    Any(Backend),
    Name {
        name: String,
        to: Backend,
    },
    NoName(Option<Backend>),
    Unknown(Option<Backend>),
    Plaintext(Option<Backend>),
}

/// What came of one, without the address.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
enum Seen {
    /// A name leads to its backend, with a certificate for it.
    Reaches {
        name: String,
        backend: String,
    },
    /// Before and after the address.
    Good(&'static str, String),
    Skipped(String, String),
    /// With what to do.
    Bad(String, String, String),
}

impl Ask {
    async fn try_on(self, address: SocketAddr) -> Seen {
        match self {
            Self::Any(to) => any(address, to).await,
            Self::Name { name, to } => by_name(address, name, to).await,
            Self::NoName(to) => outcome(address, "TLS without a name", None, to).await,
            Self::Unknown(to) => outcome(address, "an unknown name", Some(UNKNOWN_NAME), to).await,
            Self::Plaintext(to) => plaintext(address, to).await,
        }
    }
}

/// What speaks there is not known, so to be kept is as good as an answer.
async fn any(address: SocketAddr, to: Backend) -> Seen {
    let what = "a connection";
    match probe::stays_open(address).await {
        Ok(()) => Seen::Good(what, format!("is kept by {}", to.name)),
        Err(failure) => {
            let cure = to.cure_of_closing().await;
            Seen::Bad(what.to_owned(), format!("does not reach {}: {failure}", to.name), cure)
        }
    }
}

async fn by_name(address: SocketAddr, name: String, to: Backend) -> Seen {
    let asked = name.replace('*', "causeway-doctor");
    let backend = to.name.clone();
    match probe::handshake(address, Some(&asked)).await {
        Ok(certificate) if certificate.fits => Seen::Reaches { name, backend },
        Ok(certificate) => {
            let names = match certificate.names.as_slice() {
                [] => "no name".to_owned(),
                names => listed(names),
            };
            let said = format!("reaches {backend}, whose certificate is for {names}");
            if name.starts_with('*') {
                // A server may well have certificates for the names that exist, and none for one that is made up.
                return Seen::Skipped(name, format!("{said}; the name {asked} was made up"));
            }
            let cure = format!(
                "clients that check certificates refuse it: give the service of {backend} a certificate for {name}, or \
                 correct the backend's hostname"
            );
            Seen::Bad(name, said, cure)
        }
        // The proxy's own alert is unrecognized_name: any other is the service's.
        Err(Failure::Alert(alert)) if alert != "unrecognized_name" => {
            Seen::Skipped(name, format!("reaches {backend}, which ends the handshake with TLS alert {alert}"))
        }
        Err(failure) => {
            let cure = to.cure(Some(&asked)).await;
            Seen::Bad(name, format!("does not reach {backend}: {failure}"), cure)
        }
    }
}

async fn outcome(address: SocketAddr, what: &'static str, name: Option<&str>, to: Option<Backend>) -> Seen {
    let answer = probe::handshake(address, name).await;
    match (to, answer) {
        (None, Err(failure @ (Failure::Alert(_) | Failure::Closed))) => {
            Seen::Good(what, format!("is refused ({failure})"))
        }
        (None, Err(failure)) => not_refused(what, format!("should be refused: {failure}"), "see whether "),
        (None, Ok(_)) => not_refused(what, "was not refused".to_owned(), ""),
        (Some(to), Ok(_)) => Seen::Good(what, format!("reaches {}", to.name)),
        (Some(to), Err(Failure::Alert(alert))) if alert != "unrecognized_name" => Seen::Skipped(
            what.to_owned(),
            format!("reaches {}, which ends the handshake with TLS alert {alert}", to.name),
        ),
        (Some(to), Err(failure)) => {
            let cure = to.cure(name).await;
            Seen::Bad(what.to_owned(), format!("does not reach {}: {failure}", to.name), cure)
        }
    }
}

fn not_refused(what: &str, saw: String, doubt: &str) -> Seen {
    Seen::Bad(what.to_owned(), saw, format!("{doubt}something else than this proxy answers there"))
}

async fn plaintext(address: SocketAddr, to: Option<Backend>) -> Seen {
    let what = "plaintext";
    match (to, probe::plaintext(address).await) {
        (None, Err(Failure::Closed)) => Seen::Good(what, "is refused".to_owned()),
        (None, Err(failure)) => not_refused(what, format!("should be refused: {failure}"), "see whether "),
        (None, Ok(_)) => not_refused(what, "was answered, though the spec refuses it".to_owned(), ""),
        (Some(to), Ok(_)) => Seen::Good(what, format!("is answered by {}", to.name)),
        // The service may wait for more, or speak something else than HTTP.
        (Some(to), Err(failure)) => Seen::Skipped(what.to_owned(), format!("goes to {}: {failure}", to.name)),
    }
}

/// The same on several addresses is one line, and so are all names that are well.
fn told(seen: Vec<(SocketAddr, Seen)>) -> Vec<Finding> {
    let mut lines: BTreeMap<Seen, Vec<String>> = BTreeMap::new();
    for (address, seen) in seen {
        lines.entry(seen).or_default().push(address.to_string());
    }
    let mut reached: BTreeMap<Vec<String>, Vec<String>> = BTreeMap::new();
    let mut found = Vec::new();
    for (seen, addresses) in lines {
        let on = listed(&addresses);
        match seen {
            Seen::Reaches { name, backend } => {
                reached.entry(addresses).or_default().push(format!("{name} ({backend})"));
            }
            Seen::Good(what, said) => found.push(Finding::good(format!("{what} on {on} {said}"))),
            Seen::Skipped(what, said) => found.push(Finding::skipped(format!("{what} on {on} {said}"))),
            Seen::Bad(what, said, cure) => found.push(Finding::bad(format!("{what} on {on} {said}"), cure)),
        }
    }
    let well = reached.into_iter().map(|(addresses, names)| {
        Finding::good(format!(
            "on {} these names reach their backends, whose certificates are for them: {}",
            listed(&addresses),
            listed(&names)
        ))
    });
    well.chain(found).collect()
}

#[cfg(test)]
mod tests {
    use causeway_api::{ProxyServerSpec, ReplicaStatus};

    use super::*;

    #[test]
    fn the_service_is_tried_on_each_port() {
        let replica = ReplicaStatus { listening: vec!["10.0.0.1:443".into()], ..ReplicaStatus::default() };
        let status = ProxyServerStatus {
            replicas: vec![replica],
            service_ip: Some("10.96.0.1".into()),
            ..ProxyServerStatus::default()
        };
        assert_eq!(addresses(&status), ["10.0.0.1:443".parse().unwrap(), "10.96.0.1:443".parse().unwrap()]);
    }

    #[test]
    fn what_is_the_same_everywhere_is_one_line() {
        let [a, b]: [SocketAddr; 2] = ["10.0.0.1:443", "10.0.0.2:443"].map(|text| text.parse().unwrap());
        let reaches = |name: &str| Seen::Reaches { name: name.into(), backend: "web".into() };
        let bad =
            Seen::Bad("c.test".into(), "does not reach web: no answer within 3 s".into(), "look".into());
        let seen = vec![
            (a, reaches("a.test")),
            (b, reaches("a.test")),
            (a, reaches("b.test")),
            (b, reaches("b.test")),
            (a, bad.clone()),
            (b, bad),
        ];
        assert_eq!(
            told(seen),
            [
                Finding::good(
                    "on 10.0.0.1:443, 10.0.0.2:443 these names reach their backends, whose certificates are for them: \
                     a.test (web), b.test (web)"
                ),
                Finding::bad(
                    "c.test on 10.0.0.1:443, 10.0.0.2:443 does not reach web: no answer within 3 s",
                    "look"
                ),
            ]
        );
    }

    #[test]
    fn no_more_connections_than_the_proxy_takes() {
        let mut proxy = ProxyServer::new("edge", ProxyServerSpec::default());
        assert_eq!(at_once(&proxy), AT_ONCE);
        proxy.spec.connections_per_source = Some(4);
        assert_eq!(at_once(&proxy), 4);
        proxy.spec.connection_limit = Some(2);
        assert_eq!(at_once(&proxy), 1);
    }
}
