//! How long a developer waits: for the first connection, which brings the cluster's end up, for the next, for traffic to come,
//! and for it to go back. Whole commands, from their start to their end, on this machine.

use std::net::Ipv4Addr;
use std::path::PathBuf;
use std::time::Instant;

use anyhow::ensure;

use super::cluster::Cluster;
use crate::compare::namespace;
use crate::http::setting::{LAPTOP, POD_PORTS};
use crate::samples::Samples;

/// What is aimed at, from the command to traffic that comes.
const AIM_SECONDS: f64 = 1.0;

/// Measures how long a developer waits. Needs root for a network namespace.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The program to measure [default: built in release mode with cargo, or found beside this one].
    #[arg(long, value_name = "FILE")]
    causeway: Option<PathBuf>,
    /// How often.
    #[arg(long, default_value_t = 10, value_name = "N")]
    times: usize,
}

pub(crate) fn run(args: &Args) -> anyhow::Result<()> {
    let program = crate::run::program(args.causeway.as_deref())?;
    namespace::enter(args.causeway.is_none().then_some(program.as_path()))?;
    let dir = tempfile::Builder::new().prefix("causeway-bench-").tempdir()?;
    let cluster = Cluster::start(&program, dir.path(), Ipv4Addr::LOCALHOST)?;
    cluster.serve("web", POD_PORTS[0], None)?;
    let timed = |arguments: &[&str]| {
        let began = Instant::now();
        let answer = cluster.laptop(None, arguments)?;
        anyhow::Ok((began.elapsed().as_secs_f64(), answer))
    };
    let (first, _) = timed(&["connect", "--name", "laptop"])?;
    let (mut again, mut active, mut left) = (Samples::default(), Samples::default(), Samples::default());
    let pair = format!("{}:app", LAPTOP[0].port());
    for _ in 0..args.times {
        let intercept = ["intercept", "deploy/web", "--port", &pair, "--header", "x-user=me", "-o", "json"];
        let (took, answer) = timed(&intercept)?;
        let answer: serde_json::Value = serde_json::from_str(&answer)?;
        ensure!(answer["active"] == true, "it is not active: {answer}");
        active.push(took);
        left.push(timed(&["leave", "--all"])?.0);
        timed(&["disconnect", "--keep"])?;
        again.push(timed(&["connect", "--name", "laptop"])?.0);
    }
    let word = if active.middle() < AIM_SECONDS { "**reached**" } else { "not reached" };
    println!("| seconds | median | worst | aim |\n|---|---|---|---|");
    println!("| the first `causeway connect` | {first:.2} | | |");
    let worst = |samples: &Samples| samples.quantile(1.0);
    println!("| the next | {:.2} | {:.2} | |", again.middle(), worst(&again));
    println!(
        "| `causeway intercept` | {:.2} | {:.2} | under {AIM_SECONDS}: {word} |",
        active.middle(),
        worst(&active)
    );
    println!("| `causeway leave` | {:.2} | {:.2} | |", left.middle(), worst(&left));
    Ok(())
}
