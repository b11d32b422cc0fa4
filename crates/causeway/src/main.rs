//! `causeway`: the operator, the data planes, the command line and, on one machine, the control plane too.

#![warn(unreachable_pub)]
#![deny(clippy::print_stdout, clippy::print_stderr)]

mod cli;
mod commands;
mod parts;

use std::process::ExitCode;

use clap::Parser;

use cli::Cli;
use parts::{logging, open_files, output};

fn main() -> ExitCode {
    let mut args = std::env::args_os().skip(1);
    // The shim of a pod's process must stay small and start fast: it needs nothing below.
    match args.next() {
        Some(first) if first == cli::POD_SHIM => return causeway_node::shim::main(args),
        // It must have one thread.
        Some(first) if first == cli::RUN_INSIDE => return commands::run::inside::main(args),
        _ => {}
    }
    let cli = Cli::parse();
    if cli.command.outlives_its_parent() {
        causeway_containers::close_inherited();
    }
    logging::init(cli.log.as_deref());
    open_files::raise_limit();
    rustls::crypto::aws_lc_rs::default_provider()
        .install_default()
        .expect("nothing installed another provider before");
    match run(cli) {
        Ok(code) => code,
        Err(error) => {
            output::note(format_args!("causeway: {error:#}"));
            ExitCode::FAILURE
        }
    }
}

fn run(cli: Cli) -> anyhow::Result<ExitCode> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    runtime.block_on(cli.command.run())
}
