//! The server as a whole: its parts, its start, and how it is reached.

use std::collections::{HashMap, HashSet};
use std::net::SocketAddr;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock, RwLock};

use axum::Router;
use axum::body::Body;
use causeway_api::names;
use causeway_base::lock::{read, write};
use http::{HeaderValue, Request, header};
use prometheus_client::registry::Registry;
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tower::ServiceExt;

use crate::access::{Access, User};
use crate::admission::policies::Policies;
use crate::catalog::Catalog;
use crate::cluster_ip::ClusterIps;
use crate::metrics::Metrics;
use crate::node_port::NodePorts;
use crate::pki::{self, Pki};
use crate::port_forward::{Places, PodPorts};
use crate::rest::logs::{LOG, ObjectLogs};
use crate::rest::pods::PodLogs;
use crate::serve::{ServerTls, serve};
use crate::store::{GroupResource, Key, OpenError, Store, Stored};
use crate::{bootstrap, builtin, crd, kubeconfig, lifecycle, object, openapi, rest};

/// What requests from inside this process say they come from.
const AGENT: &str = concat!("causeway/", env!("CARGO_PKG_VERSION"));
/// The Kubernetes version whose API is offered.
const KUBERNETES_VERSION: (&str, &str) = ("1", "34");

/// Where the server keeps its things.
#[derive(Debug, Clone, Copy)]
pub enum Storage<'a> {
    /// In a directory: `store.log` and `pki/`.
    Directory(&'a Path),
    /// Nowhere: for tests.
    Memory,
}

/// Why the server can't start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    #[error(transparent)]
    Store(#[from] OpenError),
    #[error(transparent)]
    Pki(#[from] pki::Error),
    #[error("the objects every cluster has could not be written: {0}")]
    Bootstrap(String),
    #[error(transparent)]
    Kubeconfig(#[from] kubeconfig::Error),
}

/// A running API server.
pub struct Server {
    pub(crate) store: Arc<Store>,
    pub(crate) catalog: Catalog,
    pub(crate) access: Arc<Access>,
    pub(crate) pki: Arc<Pki>,
    pub(crate) cluster_ips: ClusterIps,
    pub(crate) node_ports: NodePorts,
    pub(crate) policies: Policies,
    pub(crate) metrics: Metrics,
    pub(crate) documents: openapi::Documents,
    /// Ends watches and the background work.
    pub(crate) shutdown: CancellationToken,
    background: TaskTracker,
    pod_logs: OnceLock<Arc<dyn PodLogs>>,
    pod_ports: OnceLock<Arc<dyn PodPorts>>,
    /// For connections to pods.
    pub(crate) places: Places,
    /// By group and plural.
    object_logs: RwLock<HashMap<(String, String), Arc<dyn ObjectLogs>>>,
    ready: AtomicBool,
    /// CRDs that are being deleted, as (group, plural): no new objects for them.
    going_away: RwLock<HashSet<(String, String)>>,
}

impl Server {
    /// Opens the store, writes what every cluster has, and starts the background work. Ends with `shutdown`.
    ///
    /// # Errors
    /// When the directory is in use, unreadable or damaged, or can't be written.
    pub async fn start(storage: Storage<'_>, shutdown: CancellationToken) -> Result<Arc<Self>, StartError> {
        let (store, pki) = match storage {
            Storage::Memory => (Store::open(None)?, Pki::ephemeral()?),
            Storage::Directory(dir) => {
                (Store::open(Some(&dir.join("store.log")))?, Pki::open(&dir.join("pki"))?)
            }
        };
        let (store, pki) = (Arc::new(store), Arc::new(pki));
        let server = Arc::new(Self {
            access: Arc::new(Access::new(&pki, store.clone())),
            catalog: Catalog::new(builtin::resources()),
            store,
            pki,
            cluster_ips: ClusterIps::default(),
            node_ports: NodePorts::default(),
            policies: Policies::default(),
            metrics: Metrics::default(),
            documents: openapi::Documents::default(),
            shutdown,
            background: TaskTracker::new(),
            pod_logs: OnceLock::new(),
            pod_ports: OnceLock::new(),
            places: Places::default(),
            object_logs: RwLock::default(),
            ready: AtomicBool::new(false),
            going_away: RwLock::default(),
        });
        server.load_crds();
        server.load_policies();
        bootstrap::run(&server).await.map_err(StartError::Bootstrap)?;
        lifecycle::spawn(&server, &server.background);
        server.background.close();
        server.ready.store(true, Ordering::Release);
        Ok(server)
    }

    /// Waits for the background work to end after `shutdown`.
    pub async fn stopped(&self) {
        self.background.wait().await;
    }

    /// Serves HTTPS on `listener` until `shutdown`, and then for as long as open requests take, bounded. Its certificate
    /// is renewed in time and also holds for `names`, which may be addresses.
    ///
    /// # Errors
    /// When the certificate can't be made. That shows at once, before anything is accepted.
    ///
    /// # Cancellation
    /// Dropping the future refuses new connections; those that are open run on.
    pub fn serve(
        self: &Arc<Self>,
        listener: TcpListener,
        names: &[String],
    ) -> Result<impl Future<Output = ()> + Send + use<>, StartError> {
        let tls = Arc::new(ServerTls::new(self.pki.clone(), names)?);
        Ok(serve(listener, self.router(), tls, self.shutdown.clone()))
    }

    /// Writes the kubeconfig of its administrator, readable by its owner only, for clients that reach the server by
    /// this URL.
    ///
    /// # Errors
    /// When the file can't be written.
    pub fn write_kubeconfig(&self, path: &Path, url: &str) -> Result<(), StartError> {
        kubeconfig::write(path, &self.pki, url)?;
        Ok(())
    }

    /// The certificate of the authority that its own certificate is from.
    pub fn ca_pem(&self) -> &str {
        self.pki.ca_pem()
    }

    /// The HTTP service; requests must carry credentials.
    pub(crate) fn router(self: &Arc<Self>) -> Router {
        let server = self.clone();
        Router::new().fallback(move |request: Request<Body>| rest::handle(server.clone(), request))
    }

    /// A client inside this process, without sockets or TLS, that acts as `user`.
    pub fn client_as(self: &Arc<Self>, user: User) -> kube::Client {
        let router = self.router();
        let service = tower::service_fn(move |request: Request<kube::client::Body>| {
            let mut request = request.map(Body::new);
            request.extensions_mut().insert(rest::Trusted(user.clone()));
            // Who writes without naming a field manager is known by this.
            request.headers_mut().entry(header::USER_AGENT).or_insert(HeaderValue::from_static(AGENT));
            router.clone().oneshot(request)
        });
        kube::Client::new(service, "default")
    }

    /// A client inside this process that is Causeway's operator: with the account and the rights that
    /// `deploy/operator.yaml` gives it on a cluster, and no others.
    pub fn operator_client(self: &Arc<Self>) -> kube::Client {
        let (namespace, name) = (names::NAMESPACE, names::OPERATOR_ACCOUNT);
        let key = Key::new(&GroupResource::new("", "serviceaccounts"), namespace, name);
        let account = self.store.get(&key).map(|stored| stored.value()).unwrap_or_default();
        self.client_as(User::service_account(namespace, name, object::meta(&account, "uid")).authenticated())
    }

    /// A client inside this process with all rights.
    pub fn client(self: &Arc<Self>) -> kube::Client {
        self.client_as(administrator())
    }

    /// Serves what another part of this process counts on `/metrics` too.
    pub fn add_metrics(&self, registry: Registry) {
        self.metrics.add(registry);
    }

    /// Makes the `kubernetes` Service lead to the address the server listens on.
    ///
    /// # Errors
    /// When that can't be stored.
    pub async fn advertise(self: &Arc<Self>, address: SocketAddr) -> Result<(), StartError> {
        bootstrap::advertise(self, address).await.map_err(StartError::Bootstrap)
    }

    /// Names who has the pods' logs; the first one stays.
    pub fn set_pod_logs(&self, logs: Arc<dyn PodLogs>) {
        let _ = self.pod_logs.set(logs);
    }

    pub(crate) fn pod_logs(&self) -> Option<&Arc<dyn PodLogs>> {
        self.pod_logs.get()
    }

    /// Names who reaches the ports of pods; the first one stays.
    pub fn set_pod_ports(&self, ports: Arc<dyn PodPorts>) {
        let _ = self.pod_ports.set(ports);
    }

    pub(crate) fn pod_ports(&self) -> Option<&Arc<dyn PodPorts>> {
        self.pod_ports.get()
    }

    /// Does something that ends by itself at `shutdown`, beside what answers requests.
    pub(crate) fn spawn(&self, work: impl Future<Output = ()> + Send + 'static) {
        self.background.spawn(work);
    }

    /// Names who has the logs of a custom kind's objects; from then on it has the subresource `log`.
    pub fn set_object_logs(&self, group: &str, plural: &str, logs: Arc<dyn ObjectLogs>) {
        let kind = (group.to_owned(), plural.to_owned());
        write(&self.object_logs).insert(kind, logs);
        self.load_crds();
    }

    pub(crate) fn object_logs(&self, group: &str, plural: &str) -> Option<Arc<dyn ObjectLogs>> {
        let logs = read(&self.object_logs);
        logs.get(&(group.to_owned(), plural.to_owned())).cloned()
    }

    pub(crate) fn is_ready(&self) -> bool {
        self.ready.load(Ordering::Acquire)
    }

    /// What follows from a write that is done: a CRD changes what is served, a policy what is admitted.
    pub(crate) fn after_write(&self, stored: &Stored) {
        self.note_policy_change(stored);
        if &*stored.key.resource.plural == "customresourcedefinitions" {
            self.serve_crd(&stored.value(), self.store.get(&stored.key).is_none());
        }
    }

    fn load_crds(&self) {
        let crds = self.store.list(&crd::collection(), None);
        for crd in &crds.items {
            self.serve_crd(&crd.value(), false);
        }
    }

    fn serve_crd(&self, crd: &Value, gone: bool) {
        let text = |v: &Value| v.as_str().unwrap_or_default().to_owned();
        let (group, plural) = (text(&crd["spec"]["group"]), text(&crd["spec"]["names"]["plural"]));
        self.note_going_away(crd, gone);
        let resources = if gone || !crd::is_accepted(crd) { Ok(Vec::new()) } else { crd::resources(crd) };
        match resources {
            Ok(mut resources) => {
                if self.object_logs(&group, &plural).is_some() {
                    for resource in &mut resources {
                        resource.subresources.others.push(LOG.to_owned());
                    }
                }
                self.catalog.replace(&group, &plural, resources);
            }
            Err(errors) => {
                tracing::error!(crd = object::name(crd), ?errors, "a stored CRD can't be served");
            }
        }
    }

    /// Takes note of whether a CRD is being deleted.
    pub(crate) fn note_going_away(&self, crd: &Value, gone: bool) {
        let text = |v: &Value| v.as_str().unwrap_or_default().to_owned();
        let place = (text(&crd["spec"]["group"]), text(&crd["spec"]["names"]["plural"]));
        let mut going_away = write(&self.going_away);
        if !gone && object::is_terminating(crd) {
            going_away.insert(place);
        } else {
            going_away.remove(&place);
        }
    }

    /// CRDs that are being deleted, as (group, plural).
    pub(crate) fn going_away(&self) -> Vec<(String, String)> {
        read(&self.going_away).iter().cloned().collect()
    }

    pub(crate) fn is_going_away(&self, group: &str, plural: &str) -> bool {
        let going_away = read(&self.going_away);
        !going_away.is_empty() && going_away.contains(&(group.to_owned(), plural.to_owned()))
    }
}

/// What `/version` says.
pub(crate) fn version() -> Value {
    let (major, minor) = KUBERNETES_VERSION;
    json!({
        "major": major, "minor": minor, "gitVersion": format!("v{major}.{minor}.0+causeway-{}", env!("CARGO_PKG_VERSION")),
        "gitCommit": "", "gitTreeState": "clean", "buildDate": "1970-01-01T00:00:00Z",
        "goVersion": "none", "compiler": "rustc", "platform": format!("linux/{}", go_arch()),
    })
}

/// The identity of the server's own requests.
pub(crate) fn administrator() -> User {
    User::new("causeway-admin", &["system:masters", "system:authenticated"])
}

fn go_arch() -> &'static str {
    match std::env::consts::ARCH {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        other => other,
    }
}
