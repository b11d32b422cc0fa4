//! Chores of the repository: `cargo xtask crds | gateway-api | deps | check-generated | image | cluster | conformance`.

#![warn(unreachable_pub)]

mod bundle;
mod chart;
mod cluster;
mod conformance;
mod crds;
mod deps;
mod gateway;
mod generated;
mod image;
mod multus;

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Context as _;

use generated::Generated;

const USAGE: &str = "\
usage: cargo xtask COMMAND

  crds             write what is made from code and from deploy/chart: deploy/crds, the manifests, OLM's bundle, crates/apiserver/crds
  gateway-api      write the definitions of the Gateway API, from its Go module: crates/apiserver/gateway-api/*
  check-generated  fail if one of them is stale
  deps             fail if a crate depends on one that it must not see
  image            build the container image, as an archive: `cargo xtask image --help` says how
  cluster          a real Kubernetes on this machine: `cargo xtask cluster` says how
  conformance      the conformance suite of Gateway API, on a real Kubernetes: `cargo xtask conformance --help` says how";

fn main() -> ExitCode {
    let mut arguments = std::env::args().skip(1);
    let command = arguments.next().unwrap_or_default();
    let outcome = match command.as_str() {
        "cluster" => return cluster::main(arguments.collect()),
        "conformance" => conformance::main(arguments.collect(), &root()),
        "image" => image::main(arguments.collect(), &root()),
        "crds" => generated::from_code(&root()).and_then(|generated| write_generated(&generated)),
        "gateway-api" => generated::from_gateway_api().and_then(|generated| write_generated(&generated)),
        "check-generated" => check_generated(),
        "deps" => check_deps(),
        other => Err(anyhow::anyhow!("unknown command {other:?}\n\n{USAGE}")),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("xtask: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn write_generated(generated: &Generated) -> anyhow::Result<()> {
    for path in generated::write(&root(), generated)? {
        println!("{path}");
    }
    Ok(())
}

fn check_generated() -> anyhow::Result<()> {
    let by = [
        ("cargo xtask crds", generated::from_code(&root())?),
        ("cargo xtask gateway-api", generated::from_gateway_api()?),
    ];
    for (command, generated) in by {
        let stale = generated::stale(&root(), &generated)?;
        anyhow::ensure!(
            stale.is_empty(),
            "generated files are stale, run `{command}`:\n  {}",
            stale.join("\n  ")
        );
    }
    Ok(())
}

fn check_deps() -> anyhow::Result<()> {
    let metadata = deps::read(&root()).context("reading the workspace's crates")?;
    let problems = deps::violations(&metadata.packages);
    anyhow::ensure!(problems.is_empty(), "forbidden dependencies:\n  {}", problems.join("\n  "));
    println!("{} crates, every dependency is allowed", metadata.packages.len());
    Ok(())
}

/// The repository, wherever the command is called from.
fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).parent().map(PathBuf::from).unwrap_or_default()
}
