//! `causeway-bench intercept`: what intercepts cost. `requests` is what a request pays for an intercept that is not its own,
//! and for one that is; `ways` is bulk through each way between laptop and cluster, beside wireguard-go; `active` is how long a
//! developer waits; `workstations` is what many of them take of memory.

mod active;
mod cluster;
mod ends;
mod far;
mod requests;
mod ways;
mod workstations;

pub(crate) use ends::{HubArgs, LaptopArgs, hub, laptop};

/// Measures intercepts. Needs root for network namespaces.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    part: Part,
}

#[derive(Debug, clap::Subcommand)]
enum Part {
    /// Requests without an intercept, beside one, and taken by one.
    Requests(requests::Args),
    /// Bulk through each way between laptop and cluster, beside wireguard-go.
    Ways(ways::Args),
    /// From the command to traffic that comes.
    Active(active::Args),
    /// Memory of the cluster's end with many workstations.
    Workstations(workstations::Args),
}

pub(crate) async fn run(args: &Args) -> anyhow::Result<()> {
    match &args.part {
        Part::Requests(args) => requests::run(args),
        Part::Ways(args) => ways::run(args),
        Part::Active(args) => active::run(args),
        Part::Workstations(args) => workstations::run(args).await,
    }
}
