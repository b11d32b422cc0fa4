//! The listening sockets and the tables behind them. A socket stays while its address is in the plan.

use std::collections::{HashMap, HashSet};
use std::io;
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::sync::Arc;

use causeway_ir::http::HttpRoute;
use causeway_ir::{Action, CertificateRef, Change, Limit, Name, Plan, Terminate, Then, changes};

use super::Cores;
use super::changes::{ListenerChange, inner_name};
use super::clusters::{ClusterSet, same};
use crate::cluster::Cluster;
use crate::handover::{Handed, Purpose};
use crate::http::{self, Common, PageSet, Router};
use crate::listen::{self, SharePorts, Transport};
use crate::listener::Listener;
use crate::status::{ListenerStatus, MissingCertificate, Part};
use crate::table::{Basis, Destination, Inside, Route, RouteShared, Share, Table, Terminated};
use crate::tls::Certificates;
use crate::worker::{Command, Shared, SocketId};

/// With port 0 the name tells sockets apart.
type SocketKey = (Transport, SocketAddr, Option<Name>);

struct Socket {
    id: SocketId,
    table: Arc<Table>,
}

/// What routes name.
#[derive(Clone, Copy)]
pub(super) struct Named<'a> {
    pub(super) clusters: &'a ClusterSet,
    pub(super) pages: &'a PageSet,
}

pub(super) struct ListenerSet {
    shared: Arc<Shared>,
    cores: Cores,
    /// Of a predecessor, until the first plan has taken what it wants.
    inherited: HashMap<SocketKey, Vec<OwnedFd>>,
    /// When a predecessor may listen on the same addresses.
    share_ports: SharePorts,
    sockets: HashMap<SocketKey, Socket>,
    next_id: SocketId,
    /// Those that plans name.
    certificates: Arc<Certificates>,
    /// What outlives a change of a route, by listener and route.
    routes: HashMap<Name, HashMap<Arc<str>, Arc<RouteShared>>>,
}

impl ListenerSet {
    pub(super) fn new(
        shared: Arc<Shared>,
        cores: Cores,
        handed: Vec<Handed>,
        share_ports: SharePorts,
    ) -> Self {
        let mut inherited: HashMap<SocketKey, Vec<OwnedFd>> = HashMap::new();
        for Handed { purpose, sockets } in handed {
            if let Purpose::Listener { protocol, bind, name } = purpose {
                inherited.entry((protocol, bind, name)).or_default().extend(sockets);
            }
        }
        Self {
            shared,
            cores,
            inherited,
            share_ports,
            sockets: HashMap::new(),
            next_id: 0,
            certificates: Arc::default(),
            routes: HashMap::new(),
        }
    }

    /// Takes other certificates into use, for the connections to come. What names none of those that differ stays as it is.
    pub(super) async fn renew(&mut self, certificates: Arc<Certificates>, plan: &Plan, named: Named<'_>) {
        let before = std::mem::replace(&mut self.certificates, certificates);
        let now = Arc::clone(&self.certificates);
        let differs = |action: &Action| matches!(action, Action::Terminate(terminate) if names_others(terminate, &before, &now));
        let sessions = Arc::clone(&self.shared.sessions);
        let mut replaced = Vec::new();
        for planned in &plan.listeners {
            let key = key(planned);
            let Some(socket) = self.sockets.get(&key) else { continue };
            if !planned.actions().any(|(_, action)| differs(action)) {
                continue;
            }
            let (id, old) = (socket.id, Arc::clone(&socket.table));
            let routes = planned.tls_routes().iter().filter(|route| differs(&route.action));
            let routes: Vec<_> = routes.map(|route| Change { old: Some(route), new: Some(route) }).collect();
            let basis = Basis {
                table: Some(&old),
                changes: &routes,
                sites: &HashSet::new(),
                sessions: &sessions,
                pages: named.pages,
            };
            if let Some(table) = self.compile(planned, Arc::clone(&old.listener), &basis, named) {
                self.cores.tell(|| Command::Update { id, table: Arc::clone(&table) });
                self.sockets.insert(key, Socket { id, table });
                replaced.push(old);
            }
        }
        self.cores.sync().await;
        drop(replaced);
    }

    /// What listeners of a plan name and nobody gave.
    pub(super) fn missing_certificates(&self, plan: &Plan) -> Vec<MissingCertificate> {
        let mut missing = Vec::new();
        for listener in &plan.listeners {
            let of = || Part::Listener(listener.name.clone());
            let terminates = listener.actions().filter_map(|(_, action)| match action {
                Action::Terminate(terminate) => Some(&**terminate),
                _ => None,
            });
            for Terminate { certificates, client_certificates, then: _ } in terminates {
                let lacks = certificates.iter().filter(|name| self.certificates.get(&name.0).is_none());
                missing.extend(lacks.map(|name| MissingCertificate::key(of(), name)));
                let asked = client_certificates.iter().map(|asked| &asked.authorities);
                let lacks = asked.filter(|name| self.certificates.authorities(&name.0).is_none());
                missing.extend(lacks.map(|name| MissingCertificate::authorities(of(), name)));
            }
        }
        missing
    }

    /// Makes what listens the same as the plan; says how each listener fares. `before` is what was said last.
    pub(super) async fn apply(
        &mut self,
        plan: &Plan,
        changes: &[ListenerChange<'_>],
        named: Named<'_>,
        before: &[ListenerStatus],
    ) -> Vec<ListenerStatus> {
        self.close_unwanted(plan).await;
        let changed: HashMap<&str, &ListenerChange<'_>> =
            changes.iter().filter_map(|change| Some((change.new?.name.as_str(), change))).collect();
        let mut replaced = Vec::new();
        let mut all = Vec::with_capacity(plan.listeners.len());
        for listener in &plan.listeners {
            let change = changed.get(listener.name.as_str()).copied();
            let made = self.apply_one(listener, change, named, &mut replaced);
            let (address, error) = match made {
                Ok(address) => (Some(address), None),
                Err(error) => (None, Some(explain(&error, listener.bind))),
            };
            let status = ListenerStatus {
                name: listener.name.clone(),
                protocol: Transport::of(&listener.protocol),
                bind: listener.bind,
                address,
                routes: listener.route_count(),
                error,
            };
            if let Some(error) = &status.error
                && !before.iter().any(|l| l.name == status.name && l.error == status.error)
            {
                tracing::warn!(listener = %status.name, error, "can't listen; trying again");
            }
            all.push(status);
        }
        self.cores.sync().await;
        // The cores have let go of these tables: they are freed here and hold up no traffic.
        drop(replaced);
        self.inherited.clear();
        all
    }

    /// Stops what the plan does not have, and waits for that: a new listener may want an address that these hold.
    async fn close_unwanted(&mut self, plan: &Plan) {
        let wanted: HashSet<SocketKey> = plan.listeners.iter().map(key).collect();
        let gone: Vec<Socket> =
            self.sockets.extract_if(|key, _| !wanted.contains(key)).map(|(_, socket)| socket).collect();
        for socket in &gone {
            self.cores.tell(|| Command::Stop { id: socket.id, handed_over: false });
            self.shared.metrics.forget_listener(&label(socket.table.listener.address));
        }
        if !gone.is_empty() {
            self.cores.sync().await;
        }
    }

    /// Updates the table of a listener, or opens its sockets; the address that it has.
    fn apply_one(
        &mut self,
        planned: &causeway_ir::Listener,
        change: Option<&ListenerChange<'_>>,
        named: Named<'_>,
        replaced: &mut Vec<Arc<Table>>,
    ) -> io::Result<SocketAddr> {
        let key = key(planned);
        let Some(socket) = self.sockets.get(&key) else { return self.open(key, planned, named) };
        let (id, old) = (socket.id, Arc::clone(&socket.table));
        let address = old.listener.address;
        let Some(change) = change else { return Ok(address) };
        // A renamed listener keeps its socket and counts under its new name.
        let renamed = *old.listener.name != *planned.name;
        let metrics = if renamed {
            self.shared.metrics.listener(&planned.name.shared(), &label(address))
        } else {
            old.listener.metrics.clone()
        };
        let listener = Arc::new(Listener::new(planned, address, metrics));
        // To take a map of names apart name by name costs more than to make another.
        let few = change.tls.len() <= planned.route_count() / 2 + 1;
        let table = if !renamed && few {
            let sessions = Arc::clone(&self.shared.sessions);
            let basis = Basis {
                table: Some(&old),
                changes: &change.tls,
                sites: &change.sites,
                sessions: &sessions,
                pages: named.pages,
            };
            self.compile(planned, listener, &basis, named)
        } else {
            self.compile_anew(planned, listener, named)
        };
        if let Some(table) = table {
            self.cores.tell(|| Command::Update { id, table: Arc::clone(&table) });
            self.sockets.insert(key, Socket { id, table });
            replaced.push(old);
        }
        Ok(address)
    }

    fn open(
        &mut self,
        key: SocketKey,
        planned: &causeway_ir::Listener,
        named: Named<'_>,
    ) -> io::Result<SocketAddr> {
        let (transport, bind, name) = key.clone();
        let count = self.cores.as_slice().len();
        let sockets = match self.inherited.remove(&key) {
            Some(inherited) => listen::adopt(transport, inherited, count)?,
            None => listen::open(transport, bind, count, self.share_ports.now())?,
        };
        let address = sockets.first().map_or(Ok(bind), listen::address)?;
        let metrics = self.shared.metrics.listener(&planned.name.shared(), &label(address));
        let listener = Arc::new(Listener::new(planned, address, metrics));
        let Some(table) = self.compile_anew(planned, listener, named) else { return Ok(address) };
        let id = self.next_id;
        self.next_id += 1;
        let purpose = Arc::new(Purpose::Listener { protocol: transport, bind, name });
        // There may be more sockets than cores: a predecessor may have had more.
        for (core, socket) in self.cores.as_slice().iter().cycle().zip(sockets) {
            let (purpose, table) = (Arc::clone(&purpose), Arc::clone(&table));
            // A core that is gone takes nothing; the others do.
            let _ = core.send(Command::Listen { id, purpose, transport, socket, table });
        }
        self.sockets.insert(key, Socket { id, table });
        Ok(address)
    }

    fn compile_anew(
        &mut self,
        planned: &causeway_ir::Listener,
        listener: Arc<Listener>,
        named: Named<'_>,
    ) -> Option<Arc<Table>> {
        let all = changes(&[], planned.tls_routes());
        let sessions = Arc::clone(&self.shared.sessions);
        let basis = Basis {
            table: None,
            changes: &all,
            sites: &HashSet::new(),
            sessions: &sessions,
            pages: named.pages,
        };
        self.compile(planned, listener, &basis, named)
    }

    fn compile(
        &mut self,
        planned: &causeway_ir::Listener,
        listener: Arc<Listener>,
        basis: &Basis<'_>,
        named: Named<'_>,
    ) -> Option<Arc<Table>> {
        let mut maker = Maker {
            shared: &self.shared,
            listener: Arc::clone(&listener.name),
            routes: self.routes.entry(planned.name.clone()).or_default(),
            clusters: &named.clusters.read(),
            pages: named.pages,
            certificates: &self.certificates,
        };
        let table = Table::compile(
            planned,
            listener,
            basis,
            |name: &Arc<str>, action: &Action, limit: Option<Limit>| maker.route(name, action, limit),
        );
        table.map(Arc::new)
    }

    /// Whether a route that is no longer in the plan still has connections.
    pub(super) fn is_used(&self, listener: &str, route: &str) -> bool {
        let route = self.routes.get(listener).and_then(|routes| routes.get(route));
        route.is_some_and(|route| route.is_used())
    }

    /// Ends a route that had its time to drain.
    pub(super) fn end_route(&mut self, listener: &str, route: &str) {
        let Some(routes) = self.routes.get_mut(listener) else { return };
        if let Some(route) = routes.remove(route) {
            route.end();
        }
        if routes.is_empty() {
            self.routes.remove(listener);
        }
    }

    pub(super) fn stop_all(&mut self, handed_over: bool) {
        for (_, socket) in self.sockets.drain() {
            self.cores.tell(|| Command::Stop { id: socket.id, handed_over });
        }
    }
}

/// Makes the routes of a listener; nothing if this engine can't execute one.
struct Maker<'a> {
    shared: &'a Shared,
    listener: Arc<str>,
    /// What outlives a change.
    routes: &'a mut HashMap<Arc<str>, Arc<RouteShared>>,
    clusters: &'a HashMap<Name, Arc<Cluster>>,
    pages: &'a PageSet,
    certificates: &'a Certificates,
}

impl Maker<'_> {
    fn route(&mut self, name: &Arc<str>, action: &Action, limit: Option<Limit>) -> Option<Arc<Route>> {
        let destination = self.destination(name, action)?;
        let closes = || self.shared.metrics.closes(&self.listener, name);
        let shared =
            self.routes.entry(Arc::clone(name)).or_insert_with(|| Arc::new(RouteShared::new(closes())));
        let (name, shared) = (Arc::clone(name), Arc::clone(shared));
        Some(Arc::new(Route { name, destination, limit, shared }))
    }

    /// Where an action sends connections.
    fn destination(&mut self, name: &str, action: &Action) -> Option<Destination> {
        let cluster = |name: &Name| self.clusters.get(name).cloned();
        match action {
            Action::Forward(targets) => match targets.as_slice() {
                [only] => cluster(&only.cluster).map(Destination::Cluster),
                several => {
                    let shares = several.iter().map(|target| {
                        let (weight, priority) = (target.weight, target.priority);
                        Some(Share { cluster: cluster(&target.cluster)?, weight, priority })
                    });
                    Some(Destination::Clusters(shares.collect::<Option<_>>()?))
                }
            },
            Action::Refuse(refusal) => Some(Destination::Refuse(*refusal)),
            Action::Terminate(terminate) => {
                let terminated = self.terminated(name, terminate)?;
                Some(Destination::Terminate(Box::new(terminated)))
            }
        }
    }

    /// TLS that ends here. What is missing of certificates and authorities fails every handshake, and nothing else.
    fn terminated(&mut self, name: &str, terminate: &Terminate) -> Option<Terminated> {
        let known = |name: &CertificateRef| self.certificates.get(&name.0).cloned();
        let mut certificates: Vec<_> = terminate.certificates.iter().filter_map(known).collect();
        let asked = terminate.client_certificates.as_ref();
        let clients = asked.and_then(|asked| self.shared.tls.clients(asked, self.certificates));
        if asked.is_some() && clients.is_none() {
            certificates.clear();
        }
        let (protocols, inside): (&[&[u8]], _) = match &terminate.then {
            Then::Http(http) => {
                let common = Common::of(http, &self.shared.sessions, self.pages);
                let make = |route: &HttpRoute| {
                    let inner: Arc<str> = inner_name(name, &route.name).into();
                    http::Route::compile(route, &common, |action| self.route(&inner, action, None))
                        .map(Arc::new)
                };
                let router = Router::compile(http, common.pages.clone(), |_| None, make)?;
                (&[http::H2, b"http/1.1"], Inside::Requests(Box::new(router)))
            }
            Then::Tcp(route) => {
                let inner: Arc<str> = inner_name(name, &route.name).into();
                (&[], Inside::Bytes(self.route(&inner, &route.action, route.connection_limit)?))
            }
        };
        let config = self.shared.tls.terminate(&certificates, clients.as_ref(), protocols)?;
        Some(Terminated { config, clients, inside })
    }
}

/// Whether something that an end of TLS names is another than before.
fn names_others(terminate: &Terminate, before: &Certificates, now: &Certificates) -> bool {
    let key = |name: &CertificateRef| !same(before.get(&name.0), now.get(&name.0));
    let asked = terminate.client_certificates.iter().map(|asked| &asked.authorities);
    let mut authorities = asked.map(|name| !same(before.authorities(&name.0), now.authorities(&name.0)));
    terminate.certificates.iter().any(key) || authorities.any(|differs| differs)
}

fn key(listener: &causeway_ir::Listener) -> SocketKey {
    let name = (listener.bind.port() == 0).then(|| listener.name.clone());
    (Transport::of(&listener.protocol), listener.bind, name)
}

/// An address as Envoy's metrics write it.
fn label(address: SocketAddr) -> String {
    address.to_string().replace(':', "_")
}

fn explain(error: &io::Error, bind: SocketAddr) -> String {
    let hint = match error.kind() {
        io::ErrorKind::AddrInUse => "another process listens there: stop it or choose another port",
        io::ErrorKind::AddrNotAvailable => "this host does not have that address",
        io::ErrorKind::PermissionDenied => {
            "ports below 1024 need the capability NET_BIND_SERVICE, or choose a higher one"
        }
        _ => return format!("can't listen on {bind}: {error}"),
    };
    format!("can't listen on {bind}: {hint}")
}
