//! One command that measures `causeway up` from outside, beside etcd on the same disk, and says which aims are met.
//!
//! Rounds alternate between the two, so that a busy machine disturbs both alike. Everything stays on loopback and in
//! one temporary directory; children are ended by their id.

#![warn(unreachable_pub)]

mod compare;
mod cpu;
mod crowd;
mod dhcp;
mod dns;
mod etcd;
mod fleet;
mod hostnames;
mod http;
mod http2;
mod intercept;
mod kubernetes;
mod l4;
mod machine;
mod process;
mod report;
mod run;
mod samples;
mod soak;
mod tunnel;
mod watches;
mod writes;
mod xds;

use std::path::PathBuf;
use std::time::Duration;

use anyhow::Context;
use clap::Parser;

/// Measures `causeway up`, beside etcd on the same disk.
#[derive(Debug, Parser)]
#[command(name = "causeway-bench", version, args_conflicts_with_subcommands = true)]
pub(crate) struct Args {
    #[command(subcommand)]
    command: Option<Command>,
    /// The program to measure [default: built in release mode with cargo, or found beside this one].
    #[arg(long, value_name = "FILE")]
    causeway: Option<PathBuf>,
    /// The etcd to measure beside it.
    #[arg(long, default_value = "etcd", value_name = "FILE")]
    etcd: PathBuf,
    /// A directory on the disk to measure [default: the directory of this program].
    #[arg(long, value_name = "DIR")]
    dir: Option<PathBuf>,
    /// Rounds of each alternating measurement; the median counts.
    #[arg(long, default_value_t = 3, value_name = "N")]
    rounds: usize,
    /// How long one round of writes lasts.
    #[arg(long, default_value_t = 5.0, value_name = "SECONDS")]
    seconds: f64,
    /// Starts per kind of data directory.
    #[arg(long, default_value_t = 10, value_name = "N")]
    starts: usize,
    /// Objects in the measured list.
    #[arg(long, default_value_t = 10_000, value_name = "N")]
    objects: usize,
    /// Watchers in the larger of the two watch measurements.
    #[arg(long, default_value_t = 1000, value_name = "N")]
    watchers: usize,
    /// Events per second while watchers are measured.
    #[arg(long, default_value_t = 50, value_name = "N")]
    rate: u32,
    /// Measure only these; several may be named.
    #[arg(long, value_enum, value_name = "PART", value_delimiter = ',')]
    only: Vec<run::Part>,
    /// Also write the figures to a file, as JSON.
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
}

#[derive(Debug, clap::Subcommand)]
enum Command {
    /// Measures the engine beside Envoy, HAProxy, NGINX and Traefik.
    L4(l4::Args),
    /// Measures what a crowd in two tunnels does to everybody else.
    Crowd(crowd::Args),
    /// Measures the DHCP server beside Kea.
    Dhcp(dhcp::Args),
    /// Measures the DNS server beside Knot, BIND, Unbound, dnsmasq and CoreDNS.
    Dns(dns::Args),
    /// Measures what many ProxyServers cost a real cluster.
    Fleet(fleet::Args),
    /// Measures what many requests for hostnames cost.
    Hostnames(hostnames::Args),
    /// Measures our gateway beside NGINX, HAProxy, Envoy and Traefik.
    Http(http::Args),
    /// Measures intercepts: what they cost requests, and the ways between laptop and cluster.
    Intercept(intercept::Args),
    /// Runs the engine for long with everything in motion and looks whether it grows or fails.
    Soak(soak::Args),
    /// Measures a tunnel beside rathole and bare relays.
    Tunnel(tunnel::Args),
    /// Measures how a change of one endpoint reaches Envoys.
    Xds(xds::Args),
    /// The servers behind the candidates.
    #[command(hide = true)]
    Backend,
    /// Says back datagrams.
    #[command(hide = true)]
    Echo,
    /// The servers behind gateways.
    #[command(hide = true)]
    HttpBackend(http::ServeArgs),
    /// The load of gateways.
    #[command(hide = true)]
    HttpLoad(http::LoadArgs),
    /// One process of a crowd.
    #[command(hide = true)]
    Hold(crowd::HoldArgs),
    /// The cluster's end of a way, without a cluster.
    #[command(hide = true)]
    Hub(intercept::HubArgs),
    /// The laptop's end of a way.
    #[command(hide = true)]
    Laptop(intercept::LaptopArgs),
    /// One end of a bare pair of relays.
    #[command(hide = true)]
    Relay(tunnel::RelayArgs),
}

impl Args {
    fn round(&self) -> Duration {
        Duration::from_secs_f64(self.seconds)
    }

    fn wants(&self, part: run::Part) -> bool {
        self.only.is_empty() || self.only.contains(&part)
    }
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let args = Args::parse();
    rustls::crypto::aws_lc_rs::default_provider()
        .install_default()
        .expect("nothing installed another provider before");
    match &args.command {
        None => {}
        Some(Command::Crowd(args)) => return crowd::run(args).await,
        Some(Command::Dhcp(args)) => return dhcp::run(args),
        Some(Command::Dns(args)) => return dns::run(args),
        Some(Command::Echo) => return dns::echo(),
        Some(Command::Fleet(args)) => return fleet::run(args),
        Some(Command::Hold(args)) => return crowd::hold(args).await,
        Some(Command::Hostnames(args)) => return hostnames::run(args).await,
        Some(Command::Http(args)) => return http::run(args),
        Some(Command::HttpBackend(args)) => return http::serve(args),
        Some(Command::HttpLoad(args)) => return http::load(args),
        Some(Command::Hub(args)) => return intercept::hub(args).await,
        Some(Command::Intercept(args)) => return intercept::run(args).await,
        Some(Command::L4(args)) => return l4::run(args),
        Some(Command::Laptop(args)) => return intercept::laptop(args).await,
        Some(Command::Soak(args)) => return soak::run(args).await,
        Some(Command::Tunnel(args)) => return tunnel::run(args),
        Some(Command::Xds(args)) => return xds::run(args).await,
        Some(Command::Backend) => return compare::backend::serve(),
        Some(Command::Relay(args)) => return tunnel::relay(args).await,
    }
    let report = run::run(&args).await?;
    print!("{}", report.table());
    if let Some(path) = &args.json {
        std::fs::write(path, format!("{:#}\n", report.json()))
            .with_context(|| format!("can't write {}", path.display()))?;
    }
    Ok(())
}
