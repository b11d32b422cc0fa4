//! `causeway engine`: a proxy by plan file, without Kubernetes. The file is read again when it changes or on SIGHUP;
//! a bad one is refused with its problems and the last good plan runs on.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;

use anyhow::Context;
use causeway_engine::{AccessLog, Engine, Handle, Options, admin};
use causeway_ir::Plan;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use tokio::net::{TcpListener, UnixListener};
use tokio::sync::watch;

use crate::plan_file::{self, Follower};
use crate::unix_socket;

#[derive(Debug, clap::Args)]
pub struct Args {
    /// The plan, as YAML or JSON.
    #[arg(long, value_name = "FILE")]
    config: PathBuf,
    /// Check the plan, print what is wrong with it, and end.
    #[arg(long)]
    check: bool,
    /// Show metrics and state here: a loopback address and port, or the path of a Unix socket.
    #[arg(long, value_name = "ADDR:PORT|PATH")]
    admin: Option<String>,
    /// Write a JSON line per connection to this file, `-` for standard output.
    #[arg(long, value_name = "FILE")]
    access_log: Option<PathBuf>,
    /// Threads that carry traffic; as many as there are cores if not given.
    #[arg(long, default_value_t = 0, hide_default_value = true, value_name = "N")]
    workers: usize,
}

pub async fn run(args: Args) -> anyhow::Result<ExitCode> {
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
    raise_descriptors();
    let admin_door = match &args.admin {
        Some(at) => Some(AdminDoor::open(at, &plan).await?),
        None => None,
    };
    let access_log = match args.access_log {
        None => AccessLog::Off,
        Some(path) if path.as_os_str() == "-" => AccessLog::Stdout,
        Some(path) => AccessLog::File(path),
    };
    let plan = Arc::new(plan);
    let (plan_tx, plan_rx) = watch::channel(Some(Arc::clone(&plan))); // file → engine
    let engine = Engine::start(plan_rx, &Options { workers: args.workers, access_log })?;
    let handle = engine.handle();
    if let Some(door) = admin_door {
        println!("admin on {}", door.place());
        tokio::spawn(door.serve(handle.clone()));
    }
    handle.settled(&plan).await;
    announce(&handle);
    follow(&args.config, &plan_tx, &handle).await?;
    println!("draining, at most {:?}; once more Ctrl-C ends at once", plan.drain_timeout);
    tokio::select! {
        () = engine.shutdown() => println!("stopped"),
        _ = tokio::signal::ctrl_c() => println!("stopped before all connections had ended"),
    }
    Ok(ExitCode::SUCCESS)
}

/// Gives the engine each new good plan until the process is asked to end.
async fn follow(
    path: &Path,
    plan_tx: &watch::Sender<Option<Arc<Plan>>>,
    handle: &Handle,
) -> anyhow::Result<()> {
    let mut follower = Follower::new(path)?;
    while let Some(plan) = follower.next().await {
        let plan = Arc::new(plan);
        let old = plan_tx.send_replace(Some(Arc::clone(&plan)));
        handle.settled(&plan).await;
        let changes = causeway_ir::diff(&old.unwrap_or_default(), &plan);
        println!("plan applied: {changes}");
        announce_failures(handle);
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

/// Connections need two descriptors each, so take all that the system gives without asking.
pub fn raise_descriptors() {
    let limit = getrlimit(Resource::Nofile);
    if let Err(error) = setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, maximum: limit.maximum })
    {
        tracing::debug!(%error, "the limit of open files stays as it is");
    }
}

/// Where metrics and state are shown: never beyond this machine.
enum AdminDoor {
    Tcp(TcpListener),
    Unix(UnixListener, PathBuf),
}

impl AdminDoor {
    async fn open(at: &str, plan: &Plan) -> anyhow::Result<Self> {
        let Ok(address) = at.parse::<SocketAddr>() else {
            let path = PathBuf::from(at);
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
        let listener = TcpListener::bind(address)
            .await
            .with_context(|| format!("can't serve admin on {at}; choose another with --admin"))?;
        Ok(Self::Tcp(listener))
    }

    fn place(&self) -> String {
        match self {
            Self::Tcp(listener) => {
                listener.local_addr().map_or_else(|_| String::new(), |a| format!("http://{a}"))
            }
            Self::Unix(_, path) => path.display().to_string(),
        }
    }

    async fn serve(self, handle: Handle) {
        let router = admin::router(handle);
        let served = match self {
            Self::Tcp(listener) => axum::serve(listener, router).await,
            Self::Unix(listener, _) => axum::serve(listener, router).await,
        };
        if let Err(error) = served {
            tracing::warn!(%error, "admin is no longer served");
        }
    }
}
