//! `causeway engine`: a proxy by plan file, without Kubernetes. The file is read again when it changes or on SIGHUP;
//! a bad one is refused with its problems and the last good plan runs on.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use anyhow::Context;
use causeway_engine::{AccessLog, Engine, Handle, Options, admin};
use causeway_ir::{Plan, Problem};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use tokio::net::{TcpListener, UnixListener};
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::watch;

/// How often the file is looked at.
const LOOK: Duration = Duration::from_secs(1);

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
    let plan = read(&args.config)?;
    let problems = plan.validate();
    print_problems("warning", &args.config, &plan.warnings());
    print_problems("error", &args.config, &problems);
    if !problems.is_empty() {
        eprintln!("causeway: {} can't be run", args.config.display());
        return Ok(ExitCode::FAILURE);
    }
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
    let mut hangup = signal(SignalKind::hangup())?;
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    let mut look = tokio::time::interval(LOOK);
    let mut seen = stamp(path);
    loop {
        tokio::select! {
            _ = hangup.recv() => seen = stamp(path),
            _ = look.tick() => {
                let now = stamp(path);
                // A file that is gone for a moment is being replaced.
                if now.is_none() || now == seen {
                    continue;
                }
                seen = now;
            }
            _ = terminate.recv() => return Ok(()),
            _ = interrupt.recv() => return Ok(()),
        }
        match read(path) {
            Ok(plan) => {
                let problems = plan.validate();
                print_problems("warning", path, &plan.warnings());
                print_problems("error", path, &problems);
                if !problems.is_empty() {
                    eprintln!("causeway: the new plan is refused; the last one runs on");
                    continue;
                }
                let plan = Arc::new(plan);
                let old = plan_tx.send_replace(Some(Arc::clone(&plan)));
                handle.settled(&plan).await;
                let changes = causeway_ir::diff(&old.unwrap_or_default(), &plan);
                println!("plan applied: {changes}");
                announce_failures(handle);
            }
            Err(error) => eprintln!("causeway: the new plan is refused; the last one runs on: {error:#}"),
        }
    }
}

fn read(path: &Path) -> anyhow::Result<Plan> {
    let text =
        std::fs::read_to_string(path).with_context(|| format!("can't read the plan {}", path.display()))?;
    serde_saphyr::from_str(&text).with_context(|| format!("{} is not a plan", path.display()))
}

/// Tells one state of the file from another; a replaced file may have the same time.
fn stamp(path: &Path) -> Option<(SystemTime, u64)> {
    let metadata = std::fs::metadata(path).ok()?;
    Some((metadata.modified().ok()?, metadata.len()))
}

fn print_problems(kind: &str, path: &Path, problems: &[Problem]) {
    for problem in problems {
        eprintln!("{kind}: {}: {problem}", path.display());
    }
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
            // A socket that an earlier process left behind is in the way; anything else stays.
            if std::os::unix::net::UnixStream::connect(&path)
                .is_err_and(|e| e.kind() == std::io::ErrorKind::ConnectionRefused)
            {
                std::fs::remove_file(&path).with_context(|| format!("can't replace {}", path.display()))?;
            }
            let listener = UnixListener::bind(&path).with_context(|| format!("can't serve admin on {at}"))?;
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
