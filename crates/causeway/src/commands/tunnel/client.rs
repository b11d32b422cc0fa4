//! The client end.

use std::net::{Ipv6Addr, SocketAddr};
use std::path::PathBuf;

use anyhow::Context;
use causeway_base::well_known::{TUNNEL_CONTROL_PORT, TUNNEL_DATA_PORT};
use causeway_tunnel::Identity;
use causeway_tunnel::client::{self, Client};
use tokio_util::sync::CancellationToken;

use crate::parts::output;
use crate::parts::termination::Termination;

#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// Who this end is: the file that `tunnel keys`, or the controller, made.
    #[arg(long, value_name = "FILE")]
    identity: PathBuf,
    /// Take the server's control connection here.
    #[arg(long, value_name = "ADDR:PORT", default_value_t = any(TUNNEL_CONTROL_PORT))]
    control: SocketAddr,
    /// Take its data connections here.
    #[arg(long, value_name = "ADDR:PORT", default_value_t = any(TUNNEL_DATA_PORT))]
    data: SocketAddr,
}

/// This port on every address of the container.
fn any(port: u16) -> SocketAddr {
    (Ipv6Addr::UNSPECIFIED, port).into()
}

pub(super) async fn run(args: Args) -> anyhow::Result<()> {
    let pem = std::fs::read_to_string(&args.identity).with_context(|| {
        format!("can't read the identity {}: make one with `causeway tunnel keys`", args.identity.display())
    })?;
    let identity = Identity::from_pem(&pem)
        .with_context(|| format!("{} is not an identity", args.identity.display()))?;
    let options =
        client::Options { control: args.control, data: args.data, identity, save_to: Some(args.identity) };
    let client = Client::bind(options).await?;
    let (control, data) = client.addresses();
    output::line(format_args!("waiting for the host: control {control}, data {data}"));
    let stop = CancellationToken::new();
    let mut termination = Termination::listen()?;
    let asked = stop.clone();
    tokio::spawn(async move {
        termination.asked().await;
        asked.cancel();
    });
    client.run(stop).await;
    Ok(())
}
