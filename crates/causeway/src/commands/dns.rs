//! `causeway dns`: a DNS server by plan file, without Kubernetes, or as the pod of a `DNSServer`. The file is read again when
//! it changes or on SIGHUP; a bad one is refused with its problems and the last good plan runs on.

mod admin;
mod follow;

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;

use causeway_base::well_known::RESOLV_CONF;
use causeway_dns::{Handle, Options, QueryLogTarget, Server};
use causeway_ir::dns::DnsPlan;
use serde::Serialize;
use tokio::sync::watch;

use crate::parts::admin_socket::AdminSocket;
use crate::parts::answer::{Answer, FormatArg};
use crate::parts::output::{self, Output};
use crate::parts::paint::Paint;
use crate::parts::plan_file::{self, Follower, Located};
use crate::parts::server_pod::ServerPodArgs;

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The plan, as YAML or JSON.
    #[arg(
        long,
        value_name = "FILE",
        required_unless_present = "server_name",
        conflicts_with = "server_name"
    )]
    config: Option<PathBuf>,
    /// Listen here, and not where the plan says; may be given several times.
    #[arg(long, value_name = "ADDR:PORT", conflicts_with = "server_name")]
    bind: Vec<SocketAddr>,
    #[command(flatten)]
    pod: ServerPodArgs,
    /// Check the plan, print what is wrong with it, and end.
    #[arg(long)]
    check: bool,
    #[command(flatten)]
    format: FormatArg,
    /// Show metrics and state here: a loopback address and port, or the path of a Unix socket.
    #[arg(long, value_name = "ADDR:PORT|PATH")]
    admin: Option<String>,
    /// Write a JSON line per question to this file, `-` for standard output.
    #[arg(long, value_name = "FILE")]
    query_log: Option<PathBuf>,
    /// Where the host names its resolvers, for a plan that names none.
    #[arg(long, value_name = "FILE", env = RESOLV_CONF, default_value = "/etc/resolv.conf")]
    resolv_conf: PathBuf,
    /// Threads that answer datagrams; as many as there are cores if not given.
    #[arg(long, default_value_t = 0, hide_default_value = true, value_name = "N")]
    workers: usize,
}

pub(crate) async fn run(args: Args) -> anyhow::Result<ExitCode> {
    let query_log = match &args.query_log {
        None => QueryLogTarget::Off,
        Some(path) if path.as_os_str() == "-" => QueryLogTarget::Stdout,
        Some(path) => QueryLogTarget::File(path.clone()),
    };
    let options =
        Options { workers: args.workers, query_log: query_log.clone(), resolv_conf: args.resolv_conf };
    let Some(config) = args.config else {
        return follow::run(args.pod, &options).await;
    };
    if args.check {
        return check(&config, &args.bind, args.format);
    }
    // Not among the lines of the log, which programs read.
    let out = if matches!(query_log, QueryLogTarget::Stdout) { Output::Stderr } else { Output::Stdout };
    // Before the file is read, so that no change of it is missed.
    let mut follower = Follower::new(&config)?;
    let (plan, found) = read(&config, &args.bind)?;
    plan_file::print(&config, &found);
    if !plan_file::is_valid(&found) {
        output::note(format_args!("causeway: {} can't be run", config.display()));
        return Ok(ExitCode::FAILURE);
    }
    let plan = Arc::new(plan);
    let (plan_tx, plan_rx) = watch::channel(Some(Arc::clone(&plan))); // file → server
    let server = Server::start(plan_rx, &options)?;
    let handle = server.handle();
    handle.settled(&plan).await;
    if let Some(at) = &args.admin {
        AdminSocket::open(at).await?.start(admin::router(handle.clone()), out);
    }
    announce(&handle, out);
    while follower.changed().await {
        match read(&config, &args.bind) {
            Ok((plan, found)) if plan_file::is_valid(&found) => {
                plan_file::print(&config, &found);
                let plan = Arc::new(plan);
                plan_tx.send_replace(Some(Arc::clone(&plan)));
                handle.settled(&plan).await;
                out.line("plan applied");
                announce(&handle, out);
            }
            Ok((_, found)) => {
                plan_file::print(&config, &found);
                output::note("causeway: the new plan is refused; the last one runs on");
            }
            Err(error) => {
                output::note(format_args!(
                    "causeway: the new plan is refused; the last one runs on: {error:#}"
                ));
            }
        }
    }
    server.shutdown().await;
    out.line("stopped");
    Ok(ExitCode::SUCCESS)
}

/// Reads a plan and what is to be said of it; it listens where `binds` say, if they do.
fn read(path: &Path, binds: &[SocketAddr]) -> anyhow::Result<(DnsPlan, Vec<Located>)> {
    let text = plan_file::of_file(path)?;
    let (mut plan, found) =
        plan_file::check_text(path, &text, "at least binds and views", |plan: &DnsPlan| {
            (causeway_dns::problems(plan), plan.warnings())
        })?;
    if !binds.is_empty() {
        plan.binds = binds.to_vec();
    }
    Ok((plan, found))
}

fn announce(handle: &Handle, out: Output) {
    for listener in handle.status().listeners {
        match (listener.address, listener.error) {
            (Some(address), _) => {
                out.line(format_args!("listening on {address}"));
            }
            (None, Some(error)) => {
                output::note(format_args!("causeway: {}: {error}; trying again", listener.bind));
            }
            (None, None) => {}
        }
    }
}

/// The answer of `--check`.
#[derive(Default, Serialize)]
struct Check {
    config: String,
    valid: bool,
    views: usize,
    records: usize,
    problems: Vec<Located>,
    /// Why it is not a plan at all.
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<String>,
}

impl Answer for Check {
    fn text(&self, _: Paint) -> String {
        format!("{} is fine: {} views, {} records", self.config, self.views, self.records)
    }
}

fn check(config: &Path, binds: &[SocketAddr], format: FormatArg) -> anyhow::Result<ExitCode> {
    let shown = config.display().to_string();
    let check = match read(config, binds) {
        Ok((plan, problems)) => {
            if !format.is_json() {
                plan_file::print(config, &problems);
            }
            let zones = plan.views.iter().flat_map(|view| &view.zones);
            Check {
                config: shown,
                valid: plan_file::is_valid(&problems),
                views: plan.views.len(),
                records: zones.map(|zone| zone.records.len()).sum(),
                problems,
                error: None,
            }
        }
        Err(error) if format.is_json() => {
            Check { config: shown, error: Some(format!("{error:#}")), ..Check::default() }
        }
        Err(error) => return Err(error),
    };
    if check.valid || format.is_json() {
        format.print(&check)?;
    } else {
        output::note(format_args!("causeway: {} can't be run", check.config));
    }
    Ok(if check.valid { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
