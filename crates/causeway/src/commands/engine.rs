//! `causeway engine`: a proxy by plan file, without Kubernetes. The file is read again when it changes or on SIGHUP;
//! a bad one is refused with its problems and the last good plan runs on.

mod admin;

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use causeway_engine::handover::{Claim, Purpose, Socket};
use causeway_engine::{Engine, Handle, Options};
use causeway_ir::Plan;
use tokio::sync::watch;

use self::admin::{Admin, AdminSocket};
use crate::parts::access_log::AccessLogArg;
use crate::parts::answer::FormatArg;
use crate::parts::certificates;
use crate::parts::output::{self, Output};
use crate::parts::plan_check;
use crate::parts::plan_file::{self, Follower};
use crate::parts::session_key;
use crate::parts::traces::TracesArg;

/// How long the end of the process waits for the last spans to be sent.
const LAST_SPANS: Duration = Duration::from_secs(3);

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The plan, as YAML or JSON.
    #[arg(long, value_name = "FILE")]
    config: PathBuf,
    /// Check the plan, print what is wrong with it, and end.
    #[arg(long)]
    check: bool,
    #[command(flatten)]
    format: FormatArg,
    /// Show metrics and state here: a loopback address and port, or the path of a Unix socket.
    #[arg(long, value_name = "ADDR:PORT|PATH")]
    admin: Option<String>,
    #[command(flatten)]
    access_log: AccessLogArg,
    #[command(flatten)]
    traces: TracesArg,
    /// Take over the sockets of the process that waits here, and wait here for a successor: no connection is refused
    /// when the binary is replaced. Those that are open stay with the old process, and end with it if they are open for
    /// longer than the plan's drainTimeout.
    #[arg(long, value_name = "PATH")]
    handover: Option<PathBuf>,
    /// The certificates and authorities that the plan names: a directory for each, with tls.crt and tls.key, or ca.crt.
    /// Followed while running.
    #[arg(long, value_name = "DIR")]
    certificates: Option<PathBuf>,
    /// What sessions of clients that stay with their endpoint are signed with: a file of 32 random bytes, the same for all
    /// engines that share clients. Another one in each process if not given.
    #[arg(long, value_name = "FILE")]
    session_key: Option<PathBuf>,
    /// Threads that carry traffic; as many as there are cores if not given.
    #[arg(long, default_value_t = 0, hide_default_value = true, value_name = "N")]
    workers: usize,
}

pub(crate) async fn run(args: Args) -> anyhow::Result<ExitCode> {
    if args.check {
        let problems = causeway_engine::problems;
        return plan_check::run(&args.config, args.format, problems, |_| Vec::new(), "can't be run");
    }
    let out = args.access_log.output();
    // Before the file is read, so that no change of it is missed.
    let follower = Follower::new(&args.config)?;
    let Some(plan) = plan_file::read_valid(&args.config, causeway_engine::problems)? else {
        output::note(format_args!("causeway: {} can't be run", args.config.display()));
        return Ok(ExitCode::FAILURE);
    };
    let mut claim = match &args.handover {
        Some(path) => claim(path.clone(), out).await?,
        None => None,
    };
    let admin_socket = match &args.admin {
        Some(at) => Some(AdminSocket::open(at, &plan, claim.as_mut()).await?),
        None => None,
    };
    let plan = Arc::new(plan);
    let (plan_tx, plan_rx) = watch::channel(Some(Arc::clone(&plan))); // file → engine
    let inherited = claim.as_mut().map(Claim::remove_listeners).unwrap_or_default();
    let certificates = args.certificates.as_deref().map(certificates::follow).transpose()?;
    let access_log = args.access_log.log();
    let session_key = args.session_key.as_deref().map(session_key::read).transpose()?;
    let (spans, exporter) = args.traces.start()?.unzip();
    let options =
        Options { workers: args.workers, access_log, certificates, session_key, spans, ..Options::default() };
    let engine = Engine::start_with(plan_rx, &options, inherited)?;
    // The engine has its own, and whoever exports them waits for the last one.
    drop(options);
    let handle = engine.handle();
    handle.settled(&plan).await;
    let handover = match &args.handover {
        Some(path) => Some(take_over(path, claim)?),
        None => None,
    };
    let admin = match admin_socket {
        Some(socket) => Some(socket.start(handle.clone(), out)?),
        None => None,
    };
    announce(&handle, out);
    let successor = tokio::select! {
        () = follow(follower, &plan_tx, &handle, out) => None,
        successor = handed_over(handover.as_ref(), &handle, admin.as_ref()) => Some(successor),
    };
    if let Some(admin) = admin.filter(|_| successor.is_some()) {
        admin.stop();
    }
    if let Some(successor) = successor {
        out.line(format_args!("process {successor} has taken over"));
    }
    out.line(format_args!("draining, at most {:?}; once more Ctrl-C ends at once", plan.drain_timeout));
    let ending =
        async { if successor.is_some() { engine.hand_over().await } else { engine.shutdown().await } };
    tokio::select! {
        () = ending => out.line("stopped"),
        _ = tokio::signal::ctrl_c() => out.line("stopped before all connections had ended"),
    };
    if let Some(exporter) = exporter {
        // What a collector has not taken by then is lost.
        let _ = tokio::time::timeout(LAST_SPANS, exporter).await;
    }
    if let (Some(path), None) = (&args.handover, successor) {
        // A socket that is gone already is fine.
        let _ = std::fs::remove_file(path);
    }
    Ok(ExitCode::SUCCESS)
}

/// The sockets of the process that waits for a successor there, if there is one.
async fn claim(path: PathBuf, out: Output) -> anyhow::Result<Option<Claim>> {
    let claim = tokio::task::spawn_blocking(move || Claim::take(&path)).await??;
    if claim.is_some() {
        out.line("taking over");
    }
    Ok(claim)
}

/// Tells the predecessor, if there is one, that this process listens; then waits where it did.
fn take_over(path: &Path, claim: Option<Claim>) -> anyhow::Result<Socket> {
    let Some(mut claim) = claim else { return Ok(Socket::open(path)?) };
    let handover = claim.remove(&Purpose::Handover).pop();
    claim.ready().context("the predecessor ended before it was told that this process listens")?;
    match handover {
        Some(socket) => Ok(Socket::inherit(socket)?),
        None => Ok(Socket::open(path)?),
    }
}

/// Waits until a successor has all sockets; for ever without a socket for it to ask on.
async fn handed_over(handover: Option<&Socket>, handle: &Handle, admin: Option<&Admin>) -> i32 {
    let Some(handover) = handover else { return std::future::pending().await };
    let offer = || async {
        let mut sockets = handle.sockets().await;
        sockets.extend(admin.and_then(Admin::handed));
        sockets
    };
    handover.handed_over(offer).await
}

/// Gives the engine each new good plan until the process is asked to end.
async fn follow(
    mut follower: Follower,
    plan_tx: &watch::Sender<Option<Arc<Plan>>>,
    handle: &Handle,
    out: Output,
) {
    let mut runs = plan_tx.borrow().clone().unwrap_or_default();
    while let Some(plan) = follower.next(&runs, causeway_engine::problems).await {
        let plan = Arc::new(plan);
        plan_tx.send_replace(Some(Arc::clone(&plan)));
        handle.settled(&plan).await;
        out.line(format_args!("plan applied: {}", causeway_ir::diff(&runs, &plan)));
        announce_failures(handle);
        runs = plan;
    }
}

fn announce(handle: &Handle, out: Output) {
    for listener in handle.status().listeners {
        if let Some(address) = listener.address {
            out.line(format_args!("{} listening on {address}", listener.name));
        }
    }
    announce_failures(handle);
}

fn announce_failures(handle: &Handle) {
    for missing in handle.status().missing_certificates {
        output::note(format_args!("causeway: {missing}"));
    }
    for listener in handle.status().listeners {
        if let Some(error) = listener.error {
            output::note(format_args!("causeway: {}: {error}; trying again", listener.name));
        }
    }
}
