//! `causeway engine`: a proxy by plan file, without Kubernetes. The file is read again when it changes or on SIGHUP;
//! a bad one is refused with its problems and the last good plan runs on.

use std::net::SocketAddr;
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;

use anyhow::Context;
use causeway_engine::handover::{Claim, Door, Handed, Purpose};
use causeway_engine::{Engine, Handle, Options, admin};
use causeway_ir::Plan;
use tokio::net::{TcpListener, UnixListener};
use tokio::sync::watch;

use crate::parts::access_log::AccessLogArg;
use crate::parts::open_files;
use crate::parts::plan_file::{self, Follower};
use crate::parts::unix_socket;

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The plan, as YAML or JSON.
    #[arg(long, value_name = "FILE")]
    config: PathBuf,
    /// Check the plan, print what is wrong with it, and end.
    #[arg(long)]
    check: bool,
    /// Show metrics and state here: a loopback address and port, or the path of a Unix socket.
    #[arg(long, value_name = "ADDR:PORT|PATH")]
    admin: Option<String>,
    #[command(flatten)]
    access_log: AccessLogArg,
    /// Take over the sockets of the process that waits here, and wait here for a successor: no connection is refused
    /// or dropped when the binary is replaced.
    #[arg(long, value_name = "PATH")]
    handover: Option<PathBuf>,
    /// Threads that carry traffic; as many as there are cores if not given.
    #[arg(long, default_value_t = 0, hide_default_value = true, value_name = "N")]
    workers: usize,
}

pub(crate) async fn run(args: Args) -> anyhow::Result<ExitCode> {
    let Some(plan) = plan_file::read_valid(&args.config)? else {
        eprintln!("causeway: {} can't be run", args.config.display());
        return Ok(ExitCode::FAILURE);
    };
    if args.check {
        println!(
            "{} is fine: {} listeners, {} clusters",
            args.config.display(),
            plan.listeners.len(),
            plan.clusters.len()
        );
        return Ok(ExitCode::SUCCESS);
    }
    open_files::raise_limit();
    let mut claim = match &args.handover {
        Some(path) => claim(path.clone()).await?,
        None => None,
    };
    let admin_door = match &args.admin {
        Some(at) => Some(AdminDoor::open(at, &plan, claim.as_mut()).await?),
        None => None,
    };
    let plan = Arc::new(plan);
    let (plan_tx, plan_rx) = watch::channel(Some(Arc::clone(&plan))); // file → engine
    let inherited = claim.as_mut().map(Claim::remove_listeners).unwrap_or_default();
    let options = Options { workers: args.workers, access_log: args.access_log.log() };
    let engine = Engine::start_with(plan_rx, &options, inherited)?;
    let handle = engine.handle();
    handle.settled(&plan).await;
    let door = match &args.handover {
        Some(path) => Some(take_over(path, claim)?),
        None => None,
    };
    let admin = match admin_door {
        Some(door) => Some(door.start(handle.clone())?),
        None => None,
    };
    announce(&handle);
    let successor = tokio::select! {
        followed = follow(&args.config, &plan_tx, &handle) => {
            followed?;
            None
        }
        successor = handed_over(door.as_ref(), &handle, admin.as_ref()) => Some(successor),
    };
    if let Some(admin) = admin.filter(|_| successor.is_some()) {
        admin.task.abort();
    }
    if let Some(successor) = successor {
        println!("process {successor} has taken over");
    }
    println!("draining, at most {:?}; once more Ctrl-C ends at once", plan.drain_timeout);
    let ending =
        async { if successor.is_some() { engine.hand_over().await } else { engine.shutdown().await } };
    tokio::select! {
        () = ending => println!("stopped"),
        _ = tokio::signal::ctrl_c() => println!("stopped before all connections had ended"),
    }
    if let (Some(path), None) = (&args.handover, successor) {
        // A place that is gone already is fine.
        let _ = std::fs::remove_file(path);
    }
    Ok(ExitCode::SUCCESS)
}

/// The sockets of the process that waits at a place, if there is one.
async fn claim(path: PathBuf) -> anyhow::Result<Option<Claim>> {
    let claim = tokio::task::spawn_blocking(move || Claim::take(&path)).await??;
    if claim.is_some() {
        println!("taking over");
    }
    Ok(claim)
}

/// Tells the predecessor, if there is one, that this process listens; then waits where it did.
fn take_over(path: &Path, claim: Option<Claim>) -> anyhow::Result<Door> {
    let Some(mut claim) = claim else { return Ok(Door::open(path)?) };
    let door = claim.remove(&Purpose::Door).pop();
    claim.ready().context("the predecessor ended before it was told that this process listens")?;
    match door {
        Some(socket) => Ok(Door::inherit(socket)?),
        None => Ok(Door::open(path)?),
    }
}

/// Waits until a successor has all sockets; for ever if there is no place to wait.
async fn handed_over(door: Option<&Door>, handle: &Handle, admin: Option<&Admin>) -> i32 {
    let Some(door) = door else { return std::future::pending().await };
    let offer = || async {
        let mut sockets = handle.sockets().await;
        sockets.extend(admin.and_then(Admin::handed));
        sockets
    };
    door.handed_over(offer).await
}

/// Gives the engine each new good plan until the process is asked to end.
async fn follow(
    path: &Path,
    plan_tx: &watch::Sender<Option<Arc<Plan>>>,
    handle: &Handle,
) -> anyhow::Result<()> {
    let mut follower = Follower::new(path)?;
    let mut runs = plan_tx.borrow().clone().unwrap_or_default();
    while let Some(plan) = follower.next(&runs).await {
        let plan = Arc::new(plan);
        plan_tx.send_replace(Some(Arc::clone(&plan)));
        handle.settled(&plan).await;
        println!("plan applied: {}", causeway_ir::diff(&runs, &plan));
        announce_failures(handle);
        runs = plan;
    }
    Ok(())
}

fn announce(handle: &Handle) {
    for listener in handle.status().listeners {
        if let Some(address) = listener.address {
            println!("{} listening on {address}", listener.name);
        }
    }
    announce_failures(handle);
}

fn announce_failures(handle: &Handle) {
    for listener in handle.status().listeners {
        if let Some(error) = listener.error {
            eprintln!("causeway: {}: {error}; trying again", listener.name);
        }
    }
}

/// Where metrics and state are shown: never beyond this machine.
enum AdminDoor {
    Tcp(TcpListener, String),
    Unix(UnixListener, PathBuf),
}

impl AdminDoor {
    async fn open(at: &str, plan: &Plan, claim: Option<&mut Claim>) -> anyhow::Result<Self> {
        let inherited = claim.and_then(|claim| claim.remove(&Purpose::Admin { at: at.to_owned() }).pop());
        let Ok(address) = at.parse::<SocketAddr>() else {
            let path = PathBuf::from(at);
            if let Some(socket) = inherited {
                return Ok(Self::Unix(UnixListener::from_std(socket.into())?, path));
            }
            anyhow::ensure!(
                path.is_absolute() || at.starts_with('.'),
                "`{at}` is neither an address and port nor the path of a socket"
            );
            let listener = unix_socket::listen(&path).context("admin can't be served")?;
            return Ok(Self::Unix(listener, path));
        };
        anyhow::ensure!(
            address.ip().is_loopback(),
            "admin shows every connection to whoever asks: use a loopback address like 127.0.0.1:{}, or a Unix socket",
            address.port()
        );
        let clash = |l: &&causeway_ir::Listener| {
            l.address().is_some_and(|a| {
                a.port() == address.port()
                    && a.port() != 0
                    && (a.ip() == address.ip() || a.ip().is_unspecified())
            })
        };
        if let Some(listener) = plan.listeners.iter().find(clash) {
            anyhow::bail!("--admin {at} clashes with the listener {} on {}", listener.name, listener.bind);
        }
        if let Some(socket) = inherited {
            return Ok(Self::Tcp(TcpListener::from_std(socket.into())?, at.to_owned()));
        }
        let listener = TcpListener::bind(address)
            .await
            .with_context(|| format!("can't serve admin on {at}; choose another with --admin"))?;
        Ok(Self::Tcp(listener, at.to_owned()))
    }

    fn place(&self) -> String {
        match self {
            Self::Tcp(listener, _) => {
                listener.local_addr().map_or_else(|_| String::new(), |a| format!("http://{a}"))
            }
            Self::Unix(_, path) => path.display().to_string(),
        }
    }

    fn start(self, handle: Handle) -> anyhow::Result<Admin> {
        println!("admin on {}", self.place());
        let (socket, at) = match &self {
            Self::Tcp(listener, at) => (listener.as_fd(), at.clone()),
            Self::Unix(listener, path) => (listener.as_fd(), path.display().to_string()),
        };
        let socket = socket.try_clone_to_owned()?;
        let router = admin::with_logging(admin::router(handle), Arc::new(crate::parts::logging::change));
        let serving = async {
            let served = match self {
                Self::Tcp(listener, _) => axum::serve(listener, router).await,
                Self::Unix(listener, _) => axum::serve(listener, router).await,
            };
            if let Err(error) = served {
                tracing::warn!(%error, "admin is no longer served");
            }
        };
        Ok(Admin { at, socket, task: tokio::spawn(serving) })
    }
}

/// The admin paths while they are served.
struct Admin {
    at: String,
    /// A copy, for a successor.
    socket: OwnedFd,
    task: tokio::task::JoinHandle<()>,
}

impl Admin {
    fn handed(&self) -> Option<Handed> {
        let sockets = vec![self.socket.try_clone().ok()?];
        Some(Handed { purpose: Purpose::Admin { at: self.at.clone() }, sockets })
    }
}
