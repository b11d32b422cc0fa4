//! A running engine, servers to send to, hellos to send.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use causeway_engine::handover::Handed;
use causeway_engine::{AccessLog, Certificates, Engine, Handle, Options};
use causeway_ir::{Action, Name, Plan, Protocol, TlsRoute};
use rustls::pki_types::ServerName;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;

/// Longer than anything here takes, even on a busy machine.
pub(crate) const PATIENCE: Duration = Duration::from_secs(30);

pub(crate) struct Running {
    pub(crate) plan: Plan,
    plan_tx: watch::Sender<Option<Arc<Plan>>>,
    engine: Engine,
    pub(crate) handle: Handle,
}

impl Running {
    /// Starts an engine with a plan in YAML.
    pub(crate) async fn start(plan: &str) -> Self {
        Self::with(plan, AccessLog::Off).await
    }

    pub(crate) async fn with(plan: &str, access_log: AccessLog) -> Self {
        Self::of(serde_saphyr::from_str(plan).unwrap(), access_log).await
    }

    pub(crate) async fn of(plan: Plan, access_log: AccessLog) -> Self {
        Self::heir(plan, access_log, Vec::new()).await
    }

    /// Starts an engine with the sockets of another.
    pub(crate) async fn heir(plan: Plan, access_log: AccessLog, inherited: Vec<Handed>) -> Self {
        let options = Options { access_log, ..Options::default() };
        let running = Self::run(plan, options, inherited).await;
        assert_eq!(running.handle.status().missing(), Vec::<String>::new());
        running
    }

    /// Starts an engine that has certificates, perhaps not all.
    pub(crate) async fn with_certificates(
        plan: Plan,
        access_log: AccessLog,
        certificates_rx: watch::Receiver<Arc<Certificates>>,
    ) -> Self {
        let options = Options { access_log, certificates: Some(certificates_rx), ..Options::default() };
        Self::run(plan, options, Vec::new()).await
    }

    async fn run(plan: Plan, options: Options, inherited: Vec<Handed>) -> Self {
        let shared = Arc::new(plan.clone());
        let (plan_tx, plan_rx) = watch::channel(Some(Arc::clone(&shared)));
        let options = Options { workers: 2, ..options };
        let engine = Engine::start_with(plan_rx, &options, inherited).unwrap();
        let handle = engine.handle();
        assert!(handle.settled(&shared).await);
        Self { plan, plan_tx, engine, handle }
    }

    /// Changes the plan and waits until that is done.
    pub(crate) async fn change(&mut self, change: impl FnOnce(&mut Plan)) {
        change(&mut self.plan);
        let plan = Arc::new(self.plan.clone());
        self.plan_tx.send_replace(Some(Arc::clone(&plan)));
        assert!(self.handle.settled(&plan).await);
    }

    pub(crate) fn address(&self, listener: &str) -> SocketAddr {
        self.handle.status().address(listener).unwrap()
    }

    pub(crate) async fn connect(&self, listener: &str) -> TcpStream {
        TcpStream::connect(self.address(listener)).await.unwrap()
    }

    /// Sends bytes, ends, and reads all that comes back.
    pub(crate) async fn ask(&self, listener: &str, bytes: &[u8]) -> Vec<u8> {
        let mut stream = self.connect(listener).await;
        stream.write_all(bytes).await.unwrap();
        stream.shutdown().await.unwrap();
        read_all(&mut stream).await
    }

    pub(crate) async fn stop(self) {
        tokio::time::timeout(PATIENCE, self.engine.shutdown()).await.unwrap();
    }

    /// The sum of a metric over all series whose text contains every part.
    pub(crate) fn metric(&self, parts: &[&str]) -> u64 {
        let mut text = String::new();
        prometheus_client::encoding::text::encode(&mut text, self.handle.registry()).unwrap();
        text.lines()
            .filter(|line| !line.starts_with('#') && parts.iter().all(|part| line.contains(part)))
            .filter_map(|line| line.rsplit(' ').next()?.parse::<u64>().ok())
            .sum()
    }

    /// Waits until connections have ended for this reason so many times.
    pub(crate) async fn closed(&self, reason: &str, count: u64) {
        let label = format!("reason=\"{reason}\"");
        eventually(&format!("{count} × {reason}"), || {
            self.metric(&["causeway_connections_closed_total", &label]) == count
        })
        .await;
    }
}

/// Polls a condition.
pub(crate) async fn eventually(what: &str, mut condition: impl FnMut() -> bool) {
    causeway_testkit::eventually(what, async || condition()).await;
}

pub(crate) async fn read_all(stream: &mut TcpStream) -> Vec<u8> {
    let mut bytes = Vec::new();
    tokio::time::timeout(PATIENCE, stream.read_to_end(&mut bytes)).await.unwrap().unwrap();
    bytes
}

/// A server that says its name and then everything it hears.
pub(crate) struct Backend {
    pub(crate) address: SocketAddr,
    task: tokio::task::JoinHandle<()>,
}

impl Backend {
    pub(crate) async fn named(name: &'static str) -> Self {
        Self::at("127.0.0.1:0", name).await
    }

    pub(crate) async fn at(address: &str, name: &'static str) -> Self {
        let listener = TcpListener::bind(address).await.unwrap();
        let address = listener.local_addr().unwrap();
        let task = tokio::spawn(async move {
            loop {
                let (mut stream, _) = listener.accept().await.unwrap();
                tokio::spawn(async move {
                    let (mut from, mut to) = stream.split();
                    to.write_all(name.as_bytes()).await?;
                    tokio::io::copy(&mut from, &mut to).await?;
                    to.shutdown().await
                });
            }
        });
        Self { address, task }
    }
}

impl Drop for Backend {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// An address where nothing listens.
pub(crate) async fn nobody() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    listener.local_addr().unwrap()
}

/// A listener `in` with one plain route `r` to a cluster `c` of these endpoints; more lines for the cluster and the plan.
pub(crate) fn plain_plan(endpoints: &[SocketAddr], more: &str) -> String {
    plan_of("tcp: {name: r, action: {forward: c}}", endpoints, more)
}

/// The same by server name.
pub(crate) fn tls_plan(names: &str, endpoints: &[SocketAddr], more: &str) -> String {
    let route = format!("{{name: r, serverNames: [{names}], action: {{forward: c}}}}");
    plan_of(&format!("tls: {{routes: [{route}]}}"), endpoints, more)
}

fn plan_of(protocol: &str, endpoints: &[SocketAddr], more: &str) -> String {
    let endpoints: Vec<String> = endpoints.iter().map(|e| format!("{{address: '{e}'}}")).collect();
    format!(
        "listeners: [{{name: in, bind: '127.0.0.1:0', protocol: {{{protocol}}}}}]\n\
         clusters:\n- name: c\n  endpoints: [{}]\n{more}",
        endpoints.join(", ")
    )
}

pub(crate) fn name(text: &str) -> Name {
    Name::parse(text).unwrap()
}

/// The routes by server name of the first listener.
pub(crate) fn tls_routes(plan: &mut Plan) -> &mut Vec<TlsRoute> {
    let Protocol::Tls(tls) = &mut plan.listeners[0].protocol else { panic!("no TLS listener") };
    &mut tls.routes
}

/// Sends the plain route of the first listener elsewhere.
pub(crate) fn forward_to(plan: &mut Plan, cluster: &str) {
    let (Protocol::Tcp(route) | Protocol::Udp(route)) = &mut plan.listeners[0].protocol else {
        panic!("no plain listener")
    };
    route.action = Action::forward(name(cluster));
}

/// The ClientHello that rustls sends for a name.
pub(crate) fn hello(name: &str) -> Vec<u8> {
    first_flight(rustls::crypto::aws_lc_rs::default_provider(), Some(name))
}

/// The same without a server name.
pub(crate) fn hello_without_name() -> Vec<u8> {
    first_flight(rustls::crypto::aws_lc_rs::default_provider(), None)
}

/// The same with a post-quantum key share: larger than a segment on most networks.
pub(crate) fn large_hello(name: &str) -> Vec<u8> {
    first_flight(post_quantum(), Some(name))
}

pub(crate) fn post_quantum() -> rustls::crypto::CryptoProvider {
    let mut provider = rustls::crypto::aws_lc_rs::default_provider();
    provider.kx_groups = vec![rustls::crypto::aws_lc_rs::kx_group::X25519MLKEM768];
    provider
}

fn first_flight(provider: rustls::crypto::CryptoProvider, name: Option<&str>) -> Vec<u8> {
    let mut config = rustls::ClientConfig::builder_with_provider(Arc::new(provider))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(rustls::RootCertStore::empty())
        .with_no_client_auth();
    config.enable_sni = name.is_some();
    let name = ServerName::try_from(name.unwrap_or("unsaid.test").to_owned()).unwrap();
    let mut client = rustls::ClientConnection::new(Arc::new(config), name).unwrap();
    let mut bytes = Vec::new();
    client.write_tls(&mut bytes).unwrap();
    bytes
}
