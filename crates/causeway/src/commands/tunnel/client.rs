//! The end in the container.

use std::net::SocketAddr;
use std::path::PathBuf;

use anyhow::Context;
use causeway_tunnel::Identity;
use causeway_tunnel::client::{self, Client};
use tokio::signal::unix::{SignalKind, signal};
use tokio_util::sync::CancellationToken;

#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// Who this end is: the file that `tunnel keys`, or the controller, made.
    #[arg(long, value_name = "FILE")]
    identity: PathBuf,
    /// Take the server's control connection here.
    #[arg(long, value_name = "ADDR:PORT", default_value = "[::]:15049")]
    control: SocketAddr,
    /// Take its data connections here.
    #[arg(long, value_name = "ADDR:PORT", default_value = "[::]:15050")]
    data: SocketAddr,
}

pub(super) async fn run(args: Args) -> anyhow::Result<()> {
    let pem = std::fs::read_to_string(&args.identity).with_context(|| {
        format!("can't read the identity {}: make one with `causeway tunnel keys`", args.identity.display())
    })?;
    let identity = Identity::from_pem(&pem)
        .with_context(|| format!("{} is not an identity", args.identity.display()))?;
    crate::parts::open_files::raise_limit();
    let options =
        client::Options { control: args.control, data: args.data, identity, save_to: Some(args.identity) };
    let client = Client::bind(options).await?;
    let (control, data) = client.addresses();
    println!("waiting for the host: control {control}, data {data}");
    let stop = CancellationToken::new();
    let mut terminate = signal(SignalKind::terminate())?;
    let asked = stop.clone();
    tokio::spawn(async move {
        tokio::select! {
            _ = terminate.recv() => {}
            _ = tokio::signal::ctrl_c() => {}
        }
        asked.cancel();
    });
    client.run(stop).await;
    Ok(())
}
