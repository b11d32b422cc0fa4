//! `causeway`: the operator, the data planes, the command line and, on one machine, the control plane too.

mod cli;
mod commands;
mod parts;

use std::process::ExitCode;

use clap::Parser;

use cli::{Cli, Command};
use commands::{
    completions, demo, doctor, down, echo, engine, logs, operator, proxy, routes, status, tunnel, up, xds,
};
use parts::logging;

fn main() -> ExitCode {
    let mut args = std::env::args_os().skip(1);
    // The keeper of a pod's process must stay small and start fast: it needs nothing below.
    if args.next().is_some_and(|first| first == cli::POD_SHIM) {
        return causeway_node::shim::main(args);
    }
    let cli = Cli::parse();
    logging::init(cli.log.as_deref());
    rustls::crypto::aws_lc_rs::default_provider()
        .install_default()
        .expect("nothing installed another provider before");
    match run(cli) {
        Ok(code) => code,
        Err(error) => {
            eprintln!("causeway: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(cli: Cli) -> anyhow::Result<ExitCode> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    runtime.block_on(async {
        match cli.command {
            Command::Up(args) => return up::run(args).await,
            Command::Down(args) => down::run(args).await?,
            Command::Status(args) => status::run(args).await?,
            Command::Operator(args) => operator::run(args).await?,
            Command::Engine(args) => return engine::run(args).await,
            Command::Xds(args) => return xds::run(args).await,
            Command::Tunnel(args) => return tunnel::run(args).await,
            Command::Proxy(args) => return proxy::run(args).await,
            Command::Routes(args) => routes::run(args).await?,
            Command::Logs(args) => logs::run(args).await?,
            Command::Doctor(args) => return doctor::run(args).await,
            Command::Demo(args) => demo::run(args).await?,
            Command::Echo(args) => echo::run(args).await?,
            Command::Completions(args) => completions::run(args)?,
            Command::Version => println!("causeway {}", env!("CARGO_PKG_VERSION")),
        }
        Ok(ExitCode::SUCCESS)
    })
}
