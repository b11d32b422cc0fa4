//! The process beside a container that sees the cluster: it is in a container of its own, whose network the other one shares,
//! makes a device there, and carries its packets to the daemon's door, which it was given. What is not the cluster's goes where
//! it went before. It ends when whoever started it does.

use std::net::IpAddr;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::Context;
use causeway_netstack::{Config as StackConfig, Stack, tun};
use causeway_node::networks::lead_loopback;
use causeway_stowaway::laptop::door::Visitor;
use ipnet::{IpNet, Ipv4Net};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::UnixStream;

use super::gateway::{ByDoor, Gateway, OWN, ToMachine};
use super::names::{Names, ResolvConf};
use crate::parts::termination::Termination;

/// Where things are in the container.
pub(super) const DOOR: &str = "/door";
pub(super) const SCRATCH: &str = "/scratch";
/// The socket of whoever started it, in the scratch directory.
pub(super) const STARTER: &str = "starter";

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The door of the daemon.
    #[arg(long, value_name = "PATH")]
    door: PathBuf,
    /// The networks of the cluster.
    #[arg(long = "reach", value_name = "NETWORK")]
    networks: Vec<IpNet>,
    /// The cluster's domain.
    #[arg(long, value_name = "DOMAIN")]
    domain: String,
}

pub(crate) async fn run(args: Args) -> anyhow::Result<ExitCode> {
    let mut starter =
        UnixStream::connect(Path::new(SCRATCH).join(STARTER)).await.context("nobody waits for this")?;
    let mut termination = Termination::listen()?;
    match serve(&args, &mut starter, &mut termination).await {
        Ok(()) => Ok(ExitCode::SUCCESS),
        Err(error) => {
            // Whoever started it tells it to people.
            let _ = starter.write_all(format!("\x01{error:#}").as_bytes()).await;
            Err(error)
        }
    }
}

async fn serve(args: &Args, starter: &mut UnixStream, termination: &mut Termination) -> anyhow::Result<()> {
    let own = Ipv4Net::new_assert(OWN, 30);
    let mut settings = tun::Settings::new(vec![own.into()]);
    let is_loopback = |network: &&IpNet| network.addr().is_loopback();
    settings.routes = args.networks.iter().filter(|network| !is_loopback(network)).copied().collect();
    let device = tun::set_up(&settings)?;
    let loopback = args.networks.iter().filter(is_loopback).filter_map(|network| match network {
        IpNet::V4(network) => Some(*network),
        IpNet::V6(_) => None,
    });
    lead_loopback(&settings.name, own.addr(), &loopback.collect::<Vec<_>>())
        .context("the cluster's loopback can't be led here")?;
    let visitor = Visitor::new(&args.door);
    let resolvers = ResolvConf::read(Path::new("/etc/resolv.conf")).resolvers;
    let names = Names::new(ByDoor(visitor.clone()), &args.domain, resolvers, None::<IpAddr>);
    let device = tun::Tun::new(device, settings.mtu)?;
    let (_stack, arrivals) = Stack::start(device, &StackConfig::default());
    let carrying = Gateway::new(visitor, names, args.networks.clone(), ToMachine::Refused).serve(arrivals);
    starter.write_u8(0).await.context("nobody waits for this")?;
    tokio::select! {
        () = carrying => anyhow::bail!("the device is gone"),
        // Its end is this one's.
        _ = starter.read_u8() => Ok(()),
        () = termination.asked() => Ok(()),
    }
}

/// Lets the user of a container, which may be another, into a directory.
pub(super) fn open_up(dir: &Path) -> std::io::Result<()> {
    std::fs::set_permissions(dir, std::fs::Permissions::from_mode(0o755))
}
