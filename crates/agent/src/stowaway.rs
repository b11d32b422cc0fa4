//! One pod of the cluster's end of workstations. It follows its Secret by name, which says who it is, who may come and what carriers
//! were granted; and the Services, pods and nodes of the cluster, which say what may be reached and what names mean. Who is
//! connected here is said in the status of each Workstation. Without an API server it goes on with what it last knew.

mod calm;
mod reach;
mod report;
mod saved;

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use causeway_base::lock::lock;
use causeway_base::report::chain;
use causeway_link::{Identity, KeyId};
use causeway_stowaway::hub::{self, Grant, Handle, Workstation};
use causeway_translate::intercept::names::{CARRIER_PORT, LINK_PORT, WIREGUARD_PORT};
use causeway_translate::stowaway_pod::Told;
use futures::stream::BoxStream;
use k8s_openapi::api::core::v1::Secret;
use kube::{Api, Client};
use prometheus_client::encoding::text::encode;
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::registry::{Registry, Unit};
use tokio::net::TcpListener;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::{Notify, watch};
use tokio::time::{Instant, timeout};

use crate::feed::{Feed, Which};
use crate::health::{self, Phase};
use crate::runner::{Runner, Snapshot, changes_of};
use reach::Surroundings;
use report::Reporter;
use saved::StateFile;

/// How long the API server may take before the saved state is used.
const PATIENCE: Duration = Duration::from_secs(2);
/// Changes that come together are taken together.
const GATHER: Duration = Duration::from_millis(10);
/// A look at everything is followed by a rest of so many times its length.
const PACE: u32 = 4;
/// How long streams may go on after the word to end.
const DRAIN: Duration = Duration::from_secs(30);
/// How long the last words in statuses may take.
const LAST_WORDS: Duration = Duration::from_secs(3);
const METRICS_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// What a pod of the cluster's end is told.
#[derive(Debug, Clone)]
pub struct StowawayConfig {
    /// Its namespace.
    pub namespace: String,
    /// The Secret that it follows.
    pub secret: String,
    /// Its name.
    pub pod: String,
    /// Its address.
    pub pod_ip: IpAddr,
    /// Where the last good state is kept.
    pub state_dir: Option<PathBuf>,
    /// What names of the cluster end with.
    pub cluster_domain: String,
}

/// Runs one until SIGTERM or SIGINT, and then until laptops have gone to others or have had their time; a further SIGINT ends
/// that at once. Serves health on `health` meanwhile.
///
/// # Errors
/// When its ports are taken, or the signals can't be caught.
pub async fn run_stowaway(client: Client, config: StowawayConfig, health: TcpListener) -> io::Result<()> {
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    let phase_tx = Arc::new(watch::Sender::new(Phase::Following));
    let serving = Arc::new(Serving::default());
    tokio::spawn(health::serve(health, Arc::clone(&serving), Arc::clone(&phase_tx)));
    let mut pod = Pod::new(client, config);
    tokio::select! {
        ended = pod.follow(&serving) => return ended,
        _ = terminate.recv() => {}
        _ = interrupt.recv() => {}
    }
    phase_tx.send_replace(Phase::Draining);
    tracing::info!("draining; once more Ctrl-C ends at once");
    let handle = lock(&serving.handle).take();
    let ending = async {
        if let Some(handle) = handle {
            handle.stop(DRAIN).await;
        }
        // Those who went have their words taken back.
        let _ = timeout(LAST_WORDS, pod.settle()).await;
    };
    tokio::select! {
        () = ending => tracing::info!("stopped"),
        _ = interrupt.recv() => tracing::warn!("stopped before all streams had ended"),
    }
    phase_tx.send_replace(Phase::Drained);
    Ok(())
}

/// What runs, as health sees it.
#[derive(Default)]
struct Serving {
    handle: Mutex<Option<Handle>>,
    changed: watch::Sender<()>,
}

impl Runner for Serving {
    type Plan = ();

    fn missing(&self) -> Vec<String> {
        let runs = lock(&self.handle).is_some();
        if runs { Vec::new() } else { vec!["it is not known yet who this is and who may come".to_owned()] }
    }

    async fn snapshot(&self) -> Snapshot<()> {
        Snapshot::default()
    }

    fn changes(&self) -> BoxStream<'static, ()> {
        changes_of(self.changed.subscribe())
    }

    async fn metrics(&self) -> Option<(&'static str, String)> {
        let figures = lock(&self.handle).as_ref()?.figures();
        let mut registry = Registry::with_prefix("causeway_stowaway");
        let gauge = |value: u64| ConstGauge::new(i64::try_from(value).unwrap_or(i64::MAX));
        registry.register("workstations", "Workstations that are connected here", gauge(figures.connected));
        registry.register("streams", "Streams and flows that are open", gauge(figures.streams));
        let counter = |value: u64| ConstCounter::new(value);
        registry.register_with_unit(
            "received",
            "Bytes from workstations",
            Unit::Bytes,
            counter(figures.received),
        );
        registry.register_with_unit("sent", "Bytes to workstations", Unit::Bytes, counter(figures.sent));
        let mut text = String::new();
        encode(&mut text, &registry).ok()?;
        Some((METRICS_TYPE, text))
    }

    fn drain_limit(&self) -> Duration {
        DRAIN
    }

    async fn drain(&self) {}
}

/// One pod.
struct Pod {
    config: StowawayConfig,
    changed: Arc<Notify>,
    secret: Feed<Secret>,
    surroundings: Surroundings,
    reporter: Reporter,
    file: Option<StateFile>,
    started: Instant,
    /// What was told last.
    told: Option<Told>,
    /// What was saved when this process began.
    before: Option<saved::Saved>,
}

impl Pod {
    fn new(client: Client, config: StowawayConfig) -> Self {
        let changed = Arc::new(Notify::new());
        let api = Api::namespaced(client.clone(), &config.namespace);
        let file = config.state_dir.as_deref().map(StateFile::new);
        let before = file.as_ref().and_then(StateFile::load);
        Self {
            secret: Feed::start(api, &Which::Named(config.secret.clone()), Arc::clone(&changed)),
            surroundings: Surroundings::watch(&client, &config.cluster_domain, &changed),
            reporter: Reporter::new(client, config.pod.clone(), &changed),
            changed,
            config,
            file,
            started: Instant::now(),
            told: None,
            before,
        }
    }

    /// Follows until dropped; ends only if its ports can't be had.
    async fn follow(&mut self, serving: &Serving) -> io::Result<()> {
        loop {
            let began = Instant::now();
            if let Some(told) = self.newest() {
                self.take(told, serving).await?;
            }
            // Of a large cluster something changes all the time.
            let rest = GATHER.max(began.elapsed() * PACE);
            let again = if self.told.is_none() { PATIENCE } else { report::LOOK_AGAIN };
            let _ = timeout(again, self.changed.notified()).await;
            tokio::time::sleep(rest).await;
        }
    }

    /// What is told now; what was saved, while nobody can be asked.
    fn newest(&self) -> Option<Told> {
        let read = self.secret.objects().first().and_then(|secret| Told::read(secret.data.as_ref()?));
        if read.is_some() || self.told.is_some() || self.started.elapsed() < PATIENCE {
            return read.or_else(|| self.told.clone());
        }
        self.before.as_ref().and_then(saved::Saved::told)
    }

    /// Takes what is told into use.
    async fn take(&mut self, told: Told, serving: &Serving) -> io::Result<()> {
        let is_new = self.told.as_ref() != Some(&told);
        let runs = lock(&serving.handle).is_some();
        if !runs {
            let Some(handle) = self.start(&told).await? else { return Ok(()) };
            tracing::info!(addresses = ?handle.addresses(), "the cluster's end of workstations listens");
            self.reporter.follow(handle.standings());
            *lock(&serving.handle) = Some(handle);
            serving.changed.send_replace(());
        }
        let reach = self.surroundings.reach(&told.open.bounds, self.before.as_ref());
        if let Some(handle) = &*lock(&serving.handle) {
            if is_new {
                self.renew(handle, &told);
                handle.set_workstations(workstations(&told));
                handle.set_grants(grants(&told));
            }
            if let Some(reach) = &reach {
                handle.set_reach(reach.clone());
            }
        }
        if let (Some(file), true) = (&self.file, is_new || reach.is_some()) {
            file.store(&told, &self.surroundings);
        }
        self.reporter.report(&told.open.peers).await;
        self.told = Some(told);
        Ok(())
    }

    async fn start(&self, told: &Told) -> io::Result<Option<Handle>> {
        let identity = match Identity::from_pem(&told.identity) {
            Ok(identity) => identity,
            Err(error) => {
                tracing::warn!("what this pod is to prove itself with can't be used: {}", chain(&error));
                return Ok(None);
            }
        };
        let at = |port: u16| SocketAddr::new(self.config.pod_ip, port);
        let config = hub::Config {
            name: self.config.pod.clone(),
            link: SocketAddr::new(entry(self.config.pod_ip), LINK_PORT),
            carriers: at(CARRIER_PORT),
            wireguard: told.wireguard.map(|_| at(WIREGUARD_PORT)),
            identity,
            wireguard_key: told.wireguard,
        };
        hub::start(config).await.map(Some)
    }

    fn renew(&self, handle: &Handle, told: &Told) {
        let before = self.told.as_ref().map(|told| &told.identity);
        if before.is_none_or(|before| *before == told.identity) {
            return;
        }
        let renewed = Identity::from_pem(&told.identity).and_then(|identity| handle.renew(&identity));
        if let Err(error) = renewed {
            tracing::warn!("what this pod is to prove itself with can't be used: {}", chain(&error));
        }
    }

    /// Says what is left to be said.
    async fn settle(&mut self) {
        let peers = self.told.as_ref().map(|told| told.open.peers.clone()).unwrap_or_default();
        self.reporter.hurry();
        while !self.reporter.report(&peers).await {
            tokio::time::sleep(GATHER).await;
        }
    }
}

fn workstations(told: &Told) -> Vec<Workstation> {
    let peers = told.open.peers.iter();
    peers
        .map(|peer| Workstation {
            uid: peer.uid.clone(),
            label: peer.label.clone(),
            link_key: peer.link_key.map(KeyId),
            wireguard_key: Some(peer.key),
            address: peer.address,
        })
        .collect()
}

fn grants(told: &Told) -> Vec<Grant> {
    let grants = told.open.grants.iter();
    grants
        .map(|grant| Grant {
            carrier: grant.carrier.clone(),
            workstation: grant.workstation.clone(),
            address: grant.address,
            port: grant.port,
        })
        .collect()
}

/// Where laptops are taken: those that come through the API server come to the pod's loopback. On one machine a pod has no
/// other address.
fn entry(pod: IpAddr) -> IpAddr {
    match pod {
        _ if pod.is_loopback() => pod,
        IpAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
        IpAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
    }
}

#[cfg(test)]
mod tests {
    use causeway_link::{Authority, Role};
    use causeway_stowaway::{STOWAWAY, Wanted, carrier_name, workstation_name};
    use causeway_translate::intercept::names;
    use x509_parser::extensions::GeneralName;

    /// The operator and this crate must not see each other, and have to mean the same.
    #[test]
    fn both_sides_use_the_same_names() {
        let uid = "7f6f0c51-5d5a-4b86-9f3e-3f6f7c0d2a11";
        assert_eq!(names::STOWAWAY, STOWAWAY);
        assert_eq!(names::workstation(uid), workstation_name(uid));
        assert_eq!(names::carrier(uid), carrier_name(uid));
        for address in [None, Some("192.168.1.7"), Some("fd00::"), Some("::1")] {
            for datagrams in [false, true] {
                let delivery = names::Delivery {
                    workstation: uid.to_owned(),
                    address: address.map(|address| address.parse().unwrap()),
                    port: 3000,
                    datagrams,
                };
                let wanted = Wanted::parse(&delivery.to_string()).unwrap();
                assert_eq!((wanted.workstation.as_str(), wanted.address), (uid, delivery.address));
                assert_eq!((wanted.port, wanted.datagrams), (3000, datagrams));
            }
        }
        let identity = Authority::new().unwrap().issue(Role::Listener, STOWAWAY).unwrap();
        let (_, pem) = x509_parser::pem::parse_x509_pem(identity.certificate().as_bytes()).unwrap();
        let certificate = pem.parse_x509().unwrap();
        let shown = certificate.subject_alternative_name().unwrap().unwrap();
        assert_eq!(shown.value.general_names, [GeneralName::DNSName(names::STOWAWAY_CERTIFICATE)]);
    }
}
