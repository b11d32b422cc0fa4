//! The two ends of a way as processes of their own, without a cluster around them: what `causeway stowaway` and the daemon of
//! `causeway connect` run. Who they are is in files that are made for the run.

use std::net::{IpAddr, Ipv4Addr, SocketAddr, SocketAddrV4};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::Context;
use causeway_link::{Authority, Identity, Role};
use causeway_netstack::wireguard::{PublicKey, SecretKey};
use causeway_stowaway::hub::{self, Reach, Workstation};
use causeway_stowaway::laptop::proxy::Proxy;
use causeway_stowaway::laptop::{self, Approach, WireGuard};
use causeway_stowaway::{STOWAWAY, workstation_name};

use crate::compare::names::PLAIN_BACKEND;

const UID: &str = "00000000-0000-4000-8000-000000000001";
const LINK: u16 = 7844;
const CARRIERS: u16 = 7845;
const WIREGUARD: u16 = 7846;
/// The laptop's address in WireGuard.
const ADDRESS: Ipv4Addr = Ipv4Addr::new(100, 64, 0, 2);
/// Where the laptop's proxy listens.
pub(super) const PROXY: SocketAddrV4 = SocketAddrV4::new(Ipv4Addr::LOCALHOST, 7081);

/// By which way the laptop comes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(super) enum Way {
    Link,
    Wireguard,
}

#[derive(Debug, clap::Args)]
pub(crate) struct HubArgs {
    /// Keys.
    #[arg(long)]
    dir: PathBuf,
    /// The address to listen on.
    #[arg(long)]
    at: IpAddr,
}

#[derive(Debug, clap::Args)]
pub(crate) struct LaptopArgs {
    /// Keys.
    #[arg(long)]
    dir: PathBuf,
    /// Where the hub is.
    #[arg(long)]
    hub: IpAddr,
    #[arg(long)]
    way: Way,
}

/// Writes who the two ends are into a directory, once.
pub(super) fn make_keys(dir: &Path) -> anyhow::Result<()> {
    if dir.join("hub.pem").exists() {
        return Ok(());
    }
    let authority = Authority::new()?;
    let write = |name: &str, text: &str| std::fs::write(dir.join(name), text);
    write("laptop.pem", &authority.issue(Role::Dialer, &workstation_name(UID))?.to_pem())?;
    for name in ["laptop.key", "hub.key"] {
        write(name, &SecretKey::generate().to_base64())?;
    }
    write("hub.pem", &authority.issue(Role::Listener, STOWAWAY)?.to_pem())?;
    Ok(())
}

/// Reads a key that was written there.
pub(super) fn key(dir: &Path, name: &str) -> anyhow::Result<SecretKey> {
    let text = std::fs::read_to_string(dir.join(name)).with_context(|| format!("there is no {name}"))?;
    text.parse().map_err(|_| anyhow::anyhow!("{name} holds no key"))
}

fn identity(dir: &Path, name: &str) -> anyhow::Result<Identity> {
    let text = std::fs::read_to_string(dir.join(name)).with_context(|| format!("there is no {name}"))?;
    Ok(Identity::from_pem(&text)?)
}

/// The cluster's end, for one workstation that may reach the backend.
pub(crate) async fn hub(args: &HubArgs) -> anyhow::Result<()> {
    let dir = &args.dir;
    let config = hub::Config {
        name: "bench".to_owned(),
        link: (args.at, LINK).into(),
        carriers: (args.at, CARRIERS).into(),
        wireguard: Some((args.at, WIREGUARD).into()),
        identity: identity(dir, "hub.pem")?,
        wireguard_key: Some(key(dir, "hub.key")?.0),
    };
    let hub = hub::start(config).await?;
    hub.set_workstations(vec![Workstation {
        uid: UID.to_owned(),
        label: "bench/laptop".to_owned(),
        link_key: identity(dir, "laptop.pem")?.key_id(),
        wireguard_key: Some(key(dir, "laptop.key")?.public().0),
        address: Some(ADDRESS.into()),
    }]);
    let backend = IpAddr::V4(*PLAIN_BACKEND.ip());
    hub.set_reach(Reach { addresses: [backend].into(), ..Reach::default() });
    std::future::pending().await
}

/// The laptop's end, with its proxy.
pub(crate) async fn laptop(args: &LaptopArgs) -> anyhow::Result<()> {
    let dir = &args.dir;
    let PublicKey(hub) = key(dir, "hub.key")?.public();
    let at = |port: u16| SocketAddr::new(args.hub, port).to_string();
    let way = match args.way {
        Way::Link => Approach::Direct(vec![at(LINK)]),
        Way::Wireguard => {
            let key = key(dir, "laptop.key")?.0;
            WireGuard { key, hub, endpoint: at(WIREGUARD), address: ADDRESS.into() }.into()
        }
    };
    let laptop = laptop::start(laptop::Config::new(identity(dir, "laptop.pem")?, vec![way]));
    let _proxy = Proxy::bind(PROXY.into(), None, Arc::new(laptop)).await?;
    std::future::pending().await
}
