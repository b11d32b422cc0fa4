//! The daemon of a connection, a process of its own: it follows its Workstation, keeps a link to the cluster by the best way
//! that there is, and lets other processes of its user through its door and its proxy. It ends when it is told to, when its
//! directory is gone, or when the Workstation is: then it writes down why.

mod ways;

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, bail};
use causeway_api::Workstation;
use causeway_base::backoff::Backoff;
use causeway_link::{Identity, token};
use causeway_stowaway::laptop::door::Door;
use causeway_stowaway::laptop::proxy::Proxy;
use causeway_stowaway::laptop::{self, Handle};
use futures::{StreamExt as _, pin_mut};
use ipnet::IpNet;
use kube::runtime::watcher;
use kube::{Api, ResourceExt as _};
use rustix::process::{Pid, Signal, kill_process};
use tokio::signal::unix::{SignalKind, signal};
use tokio::time::{MissedTickBehavior, interval, sleep, timeout};

use crate::parts::connection::{Connection, Deliveries, Held, Keys, ProxyPlace};
use crate::parts::follow;
use crate::parts::kube_context::Cluster;
use crate::parts::termination::Termination;
use ways::Ways;

/// How often it is looked whether the directory is still there.
const LOOK: Duration = Duration::from_secs(2);
/// How long a daemon may take to end in order.
const END: Duration = Duration::from_secs(6);
/// Between tries of an API server that does not answer.
const API: Backoff = Backoff::new(Duration::from_millis(250), Duration::from_secs(15));

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The connection's directory.
    #[arg(long, value_name = "DIR")]
    dir: PathBuf,
}

pub(crate) async fn run(args: Args) -> anyhow::Result<ExitCode> {
    // Out of the terminal's reach: Ctrl-C is for the command that started it.
    let _ = rustix::process::setsid();
    let connection = Connection::open(&args.dir)?
        .with_context(|| format!("{} is no connection's directory", args.dir.display()))?;
    let held = connection.hold()?;
    tracing::info!(workstation = connection.settings.label(), "begins");
    let ended = serve(&connection, &held).await;
    match &ended {
        Ok(()) => tracing::info!("ends as it was told to"),
        Err(error) => {
            let why = format!("{error:#}");
            tracing::warn!("ends: {why}");
            // Whose directory is gone has nobody to tell.
            let _ = connection.write_ended(&why);
        }
    }
    ended.map(|()| ExitCode::SUCCESS)
}

/// Serves until it is to end; an error if nobody asked for that.
async fn serve(connection: &Connection, held: &Held) -> anyhow::Result<()> {
    let cluster = connection.settings.place.open().await?;
    let keys = Keys::ensure(connection.dir())?;
    let mut termination = Termination::listen()?;
    let mut hang_up = signal(SignalKind::hangup()).context("can't listen for signals")?;
    let mut look = interval(LOOK);
    look.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let api: Api<Workstation> = Api::namespaced(cluster.client.clone(), &connection.settings.namespace);
    let states = watcher::watch_object(api, &connection.settings.workstation);
    pin_mut!(states);
    let mut failures = API.retries();
    let mut daemon =
        Daemon { connection, held, cluster: &cluster, keys, networks: None, ways: None, laptop: None };
    let ended = loop {
        tokio::select! {
            () = termination.asked() => break Ok(()),
            () = asked_to_stop(daemon.laptop.as_ref()) => break Ok(()),
            _ = hang_up.recv() => daemon.read_deliveries(),
            _ = look.tick() => {
                if !is_there(connection.dir()) {
                    break Err(anyhow::anyhow!("its directory was removed"));
                }
            }
            state = states.next() => match state {
                Some(Ok(workstation)) => {
                    failures.reset();
                    if let Err(error) = daemon.take(workstation).await {
                        break Err(error);
                    }
                }
                Some(Err(error)) => {
                    // The link goes on meanwhile; only what changes in the cluster is not known.
                    tracing::warn!("the API server can't be followed: {}", follow::words(&error));
                    let pause = failures.next_delay();
                    tokio::select! {
                        () = sleep(pause) => {}
                        () = termination.asked() => break Ok(()),
                        () = asked_to_stop(daemon.laptop.as_ref()) => break Ok(()),
                    }
                }
                None => break Err(anyhow::anyhow!("the watch of the Workstation ended")),
            },
        }
    };
    if let Some(open) = daemon.laptop.take() {
        open.handle.stop().await;
    }
    ended
}

async fn asked_to_stop(open: Option<&Open>) {
    match open {
        Some(open) => open.door.asked_to_stop().await,
        None => std::future::pending().await,
    }
}

fn is_there(dir: &Path) -> bool {
    Connection::open(dir).is_ok_and(|found| found.is_some())
}

/// What follows a Workstation.
struct Daemon<'a> {
    connection: &'a Connection,
    held: &'a Held,
    cluster: &'a Cluster,
    keys: Keys,
    /// The networks and ways that the cluster told last.
    networks: Option<Vec<IpNet>>,
    ways: Option<Ways>,
    /// Once the cluster has signed the key.
    laptop: Option<Open>,
}

/// A laptop that other processes reach.
struct Open {
    handle: Arc<Handle>,
    identity: Identity,
    door: Door,
    _proxy: Proxy,
}

impl Daemon<'_> {
    /// Takes what the cluster says of the Workstation; an error if there is nothing to go on with.
    async fn take(&mut self, workstation: Option<Workstation>) -> anyhow::Result<()> {
        let settings = &self.connection.settings;
        let Some(workstation) = workstation else { bail!("Workstation {} was deleted", settings.label()) };
        if workstation.uid().as_deref() != Some(&settings.uid) {
            bail!("Workstation {} was deleted, and another one has its name", settings.label());
        }
        if workstation.spec.public_key != self.keys.wireguard_public() {
            bail!("Workstation {} was given to another machine", settings.label());
        }
        let generation = workstation.metadata.generation.unwrap_or_default();
        let Some(status) = workstation.status.filter(|status| status.observed_generation >= Some(generation))
        else {
            return Ok(());
        };
        let (Some(certificate), Some(authority)) = (&status.certificate, &status.authority) else {
            return Ok(());
        };
        let identity = match self.keys.link.identity(certificate, authority) {
            Ok(identity) => identity,
            Err(error) => {
                tracing::warn!(
                    "the certificate in the status can't be used: {}",
                    causeway_base::report::chain(&error)
                );
                return Ok(());
            }
        };
        let networks: Vec<IpNet> = status.allowed_ips.iter().filter_map(|text| text.parse().ok()).collect();
        if self.networks.as_ref() != Some(&networks) {
            self.connection.write_networks(&networks)?;
            self.networks = Some(networks);
        }
        let ways = Ways::of(&status, &settings.ways);
        let approaches = if self.ways.as_ref() == Some(&ways) {
            None
        } else {
            Some(ways.approaches(&self.cluster.client, &self.keys))
        };
        self.ways = Some(ways);
        match &mut self.laptop {
            None => {
                let mut config = laptop::Config::new(identity.clone(), approaches.unwrap_or_default());
                config.may_deliver = Deliveries::read(self.connection.dir())?.may_deliver();
                config.namespace = Some(settings.namespace.clone());
                self.laptop = Some(self.open(config, identity).await?);
            }
            Some(open) => {
                if let Some(approaches) = approaches {
                    tracing::info!("the ways to the cluster have changed");
                    open.handle.set_ways(approaches);
                }
                if open.identity != identity {
                    tracing::info!("the cluster has signed the key again");
                    open.handle.renew(identity.clone());
                    open.identity = identity;
                }
            }
        }
        Ok(())
    }

    async fn open(&self, config: laptop::Config, identity: Identity) -> anyhow::Result<Open> {
        let handle = Arc::new(laptop::start(config));
        let door = self.connection.door()?;
        let door = Door::open(door.path(), Arc::clone(&handle)).context("can't open the door")?;
        let settings = &self.connection.settings;
        let password = match settings.proxy {
            Some(_) => None,
            None => Some(token().context("no chance is to be had for a password")?),
        };
        let address = settings.proxy.unwrap_or_else(|| ([127, 0, 0, 1], 0).into());
        let proxy = Proxy::bind(address, password.clone(), Arc::clone(&handle))
            .await
            .with_context(|| format!("can't listen on {address}; choose another with --proxy"))?;
        self.held.describe(Some(ProxyPlace { address: proxy.address(), password }))?;
        tell_of(&handle);
        Ok(Open { handle, identity, door, _proxy: proxy })
    }

    fn read_deliveries(&self) {
        let Some(open) = &self.laptop else { return };
        match Deliveries::read(self.connection.dir()) {
            Ok(deliveries) => open.handle.set_may_deliver(deliveries.may_deliver()),
            Err(error) => tracing::warn!("what may be delivered stays as it is: {error:#}"),
        }
    }
}

/// Writes every change of how things stand to the log.
fn tell_of(handle: &Handle) {
    let mut states = handle.state();
    tokio::spawn(async move {
        let mut last = None;
        loop {
            let said = {
                let state = states.borrow_and_update();
                state.connection.as_ref().map_or_else(
                    || state.complaint(),
                    |now| format!("connected to {} by {} ({}): {}", now.replica, now.way, now.via, now.why),
                )
            };
            if last.as_ref() != Some(&said) {
                tracing::info!("{said}");
                last = Some(said);
            }
            if states.changed().await.is_err() {
                return;
            }
        }
    });
}

/// Ends the daemon of a connection, if one runs; its pid.
///
/// # Errors
/// When it does not end.
pub(crate) async fn end(connection: &Connection) -> anyhow::Result<Option<i32>> {
    let Some(holder) = connection.holder()? else { return Ok(None) };
    let pid = Pid::from_raw(holder.pid).context("the connection's lock names no process")?;
    let gone = || async {
        while connection.holder().is_ok_and(|now| now.is_some_and(|now| now.pid == holder.pid)) {
            sleep(Duration::from_millis(20)).await;
        }
    };
    for name in [Signal::TERM, Signal::KILL] {
        // One that has ended already is what is wanted.
        let _ = kill_process(pid, name);
        if timeout(END, gone()).await.is_ok() {
            return Ok(Some(holder.pid));
        }
    }
    bail!("the daemon (pid {}) does not end", holder.pid)
}
