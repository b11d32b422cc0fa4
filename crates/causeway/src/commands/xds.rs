//! `causeway xds`: feeds a plan file to any number of Envoys, without Kubernetes. The file is read again when it
//! changes or on SIGHUP; what an Envoy refuses is printed with its own words.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;

use anyhow::Context;
use causeway_ir::{Limit, Plan};
use causeway_translate::proxy::bootstrap::{Address, Start, bootstrap};
use causeway_xds::{Options, Server, Socket, Status, Tls};
use tokio::net::TcpListener;
use tokio::sync::watch;

use crate::parts::answer::FormatArg;
use crate::parts::output;
use crate::parts::plan_check;
use crate::parts::plan_file::{self, Follower};
use crate::parts::unix_socket;

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The plan, as YAML or JSON.
    #[arg(long, value_name = "FILE", required_unless_present = "print_bootstrap")]
    config: Option<PathBuf>,
    /// Check the plan, print what is wrong with it, and end.
    #[arg(long)]
    check: bool,
    #[command(flatten)]
    format: FormatArg,
    /// Where Envoys connect to: an address and port, or the path of a Unix socket.
    #[arg(long, value_name = "ADDR:PORT|PATH", default_value = "127.0.0.1:18000")]
    listen: String,
    /// Print the bootstrap file for an Envoy that connects here, and end. With --config, the plan's limit of connections is
    /// in it.
    #[arg(long, requires = "node", requires = "admin")]
    print_bootstrap: bool,
    /// With --print-bootstrap: the name of the Envoy.
    #[arg(long, value_name = "NAME")]
    node: Option<String>,
    /// With --print-bootstrap: the address and port of the Envoy's admin interface.
    #[arg(long, value_name = "ADDR:PORT")]
    admin: Option<SocketAddr>,
    /// With --print-bootstrap: let the Envoy ask for the state of the world instead of changes.
    #[arg(long)]
    sotw: bool,
    /// The server's certificate chain, as PEM; needed to listen beyond loopback.
    #[arg(long, value_name = "FILE", requires = "tls_key", requires = "tls_client_ca")]
    tls_cert: Option<PathBuf>,
    /// Its key, as PEM.
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    tls_key: Option<PathBuf>,
    /// The CA whose clients may connect, as PEM.
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    tls_client_ca: Option<PathBuf>,
}

pub(crate) async fn run(args: Args) -> anyhow::Result<ExitCode> {
    let address = address(&args.listen)?;
    if let (true, Some(node), Some(admin)) = (args.print_bootstrap, &args.node, args.admin) {
        let plan = args.config.as_deref().map(plan_file::read).transpose()?.unwrap_or_default();
        let (admin, connection_limit) = (Address::Tcp(admin), plan.limits.connections.map(Limit::get));
        let start = Start { node, xds: address, admin, answers: None, delta: !args.sotw, connection_limit };
        output::line(format_args!("{:#}", bootstrap(&start)));
        return Ok(ExitCode::SUCCESS);
    }
    let path = args.config.context("--config is needed")?;
    if args.check {
        let (problems, notes) = (causeway_xds::problems, causeway_xds::notes);
        return plan_check::run(&path, args.format, problems, notes, "can't be served");
    }
    // Before the file is read, so that no change of it is missed.
    let mut follower = Follower::new(&path)?;
    let Some(plan) = plan_file::read_valid(&path, causeway_xds::problems)? else {
        output::note(format_args!("causeway: {} can't be served", path.display()));
        return Ok(ExitCode::FAILURE);
    };
    let tls = match (args.tls_cert, args.tls_key, args.tls_client_ca) {
        (Some(certificate), Some(key), Some(client_ca)) => {
            Some(Tls { certificate: pem(&certificate)?, key: pem(&key)?, client_ca: pem(&client_ca)? })
        }
        _ => None,
    };
    let (socket, at) = open(&address).await?;
    print_notes(&plan);
    let mut served = Arc::new(plan);
    let (plan_tx, plan_rx) = watch::channel(Some(Arc::clone(&served))); // file → server
    let server = Server::start(plan_rx, socket, Options { tls })?;
    output::line(format_args!("xds on {at}"));
    let printing = tokio::spawn(print_clients(server.handle().watch()));
    while let Some(plan) = follower.next(&served, causeway_xds::problems).await {
        print_notes(&plan);
        let plan = Arc::new(plan);
        plan_tx.send_replace(Some(Arc::clone(&plan)));
        output::line(format_args!("plan served: {}", causeway_ir::diff(&served, &plan)));
        served = plan;
    }
    printing.abort();
    server.shutdown().await;
    output::line("stopped; Envoys go on with what they have");
    Ok(ExitCode::SUCCESS)
}

fn address(at: &str) -> anyhow::Result<Address> {
    if let Ok(address) = at.parse() {
        return Ok(Address::Tcp(address));
    }
    Ok(Address::Unix(unix_socket::path(at)?))
}

async fn open(address: &Address) -> anyhow::Result<(Socket, String)> {
    match address {
        Address::Tcp(address) => {
            let listener = TcpListener::bind(address)
                .await
                .with_context(|| format!("can't serve xDS on {address}; choose another with --listen"))?;
            let at = listener.local_addr()?.to_string();
            Ok((Socket::Tcp(listener), at))
        }
        Address::Unix(path) => Ok((Socket::Unix(unix_socket::listen(path)?), path.display().to_string())),
    }
}

fn pem(path: &Path) -> anyhow::Result<Vec<u8>> {
    std::fs::read(path).with_context(|| format!("can't read {}", path.display()))
}

fn print_notes(plan: &Plan) {
    for note in causeway_xds::notes(plan) {
        output::note(format_args!("note: {note}"));
    }
}

/// Prints what changes among the Envoys.
async fn print_clients(mut status_rx: watch::Receiver<Status>) {
    let mut printed: BTreeMap<(String, String), String> = BTreeMap::new();
    let mut applied: Option<Arc<Plan>> = None;
    loop {
        let status = status_rx.borrow_and_update().clone();
        let mut now = BTreeMap::new();
        for client in &status.clients {
            let words = match &client.nack {
                Some(nack) => {
                    format!("refused {} {}: {}", nack.kind, nack.resources.join(", "), nack.message)
                }
                None if client.up_to_date => "up to date".to_owned(),
                None => "connected".to_owned(),
            };
            let key = (client.node.clone(), client.address.clone());
            // Between two answers a client is only connected again, which is not worth a line.
            let quiet = words == "connected" && printed.contains_key(&key);
            if !quiet && printed.get(&key) != Some(&words) {
                output::line(format_args!("{} ({}): {words}", client.node, client.address));
            }
            now.insert(key, words);
        }
        for (node, address) in printed.keys().filter(|key| !now.contains_key(*key)) {
            output::line(format_args!("{node} ({address}): gone"));
        }
        printed = now;
        // A line for the person who changed the plan and waits for it to arrive.
        let everywhere = !status.clients.is_empty() && status.clients.iter().all(|client| client.up_to_date);
        let same = |plan: &Arc<Plan>| applied.as_ref().is_some_and(|applied| Arc::ptr_eq(applied, plan));
        if let Some(plan) = status.plan.filter(|plan| everywhere && !same(plan)) {
            output::line(format_args!("plan applied by {}", count(status.clients.len())));
            applied = Some(plan);
        }
        if status_rx.changed().await.is_err() {
            return;
        }
    }
}

fn count(envoys: usize) -> String {
    if envoys == 1 { "1 Envoy".to_owned() } else { format!("{envoys} Envoys") }
}
