//! What an intercept costs requests: without one, beside one that wants others, and with one that takes them. All of it on this
//! machine: `causeway up`, a Service, its carrier, the cluster's end, and the daemon of a laptop.

mod load;

use std::net::{Ipv4Addr, SocketAddrV4};
use std::path::{Path, PathBuf};

use anyhow::Context;

use super::cluster::Cluster;
use crate::compare::accounts::Accounts;
use crate::compare::aims::Aim;
use crate::compare::load::{Load, Measured, Settings};
use crate::compare::programs::Programs;
use crate::compare::question::Question;
use crate::compare::results::Results;
use crate::compare::running::Running;
use crate::compare::{self, Bench};
use crate::http::setting::{LAPTOP, POD_PORTS};
use crate::http::{Backend, ServeArgs};
use crate::samples::Samples;
use load::Version;

/// What the laptop wants.
const HEADER: (&str, &str) = ("x-user", "me");
/// What a request may pay for an intercept that is not its own, at the median.
const ADDED_MILLIS: f64 = 0.1;

/// Measures what intercepts cost requests. Needs root for a network namespace.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    compare: compare::Args<Candidate, Workload>,
}

/// Runs the bench or reports on an earlier run.
pub(crate) fn run(args: &Args) -> anyhow::Result<()> {
    let results = compare::run(&args.compare, || Ok(Requests::default()))?;
    println!("\n### What an intercept adds at p50, median over the rounds\n");
    for workload in [Workload::Http1, Workload::Grpc1] {
        for (candidate, aim) in [(Candidate::Beside, Some(ADDED_MILLIS)), (Candidate::Taken, None)] {
            if let Some(added) = added(&results, workload, candidate) {
                let verdict = aim.map_or_else(String::new, |aim| {
                    let word = if added < aim { "**reached**" } else { "not reached" };
                    format!(" (aim: under {aim} ms, {word})")
                });
                println!("- {workload:?} {candidate:?}: {added:.3} ms{verdict}");
            }
        }
    }
    Ok(())
}

/// Milliseconds that a candidate takes longer than no intercept.
fn added(results: &Results, workload: Workload, candidate: Candidate) -> Option<f64> {
    let p50 = |candidate: Candidate| {
        let all = results.of((workload, candidate)).filter(|m| m.error.is_none());
        all.filter_map(|m| Some((m.round, Question::P50Millis.ask(m)?))).collect::<Vec<_>>()
    };
    let plain = p50(Candidate::Plain);
    let added: Samples = p50(candidate)
        .into_iter()
        .filter_map(|(round, with)| Some(with - plain.iter().find(|(other, _)| *other == round)?.1))
        .collect();
    (added.len() > 0).then(|| added.middle())
}

/// What requests meet on their way.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Candidate {
    /// No Service: straight to the pod's address.
    Direct,
    /// The Service, without an intercept
    Plain,
    /// The Service with an intercept that wants other requests
    Beside,
    /// The Service with an intercept that takes them
    Taken,
}

/// One way to ask.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Workload {
    /// HTTP/1.1, one request at a time
    #[value(name = "http-1")]
    Http1,
    /// gRPC, one message at a time
    #[value(name = "grpc-1")]
    Grpc1,
    /// HTTP/1.1, 16 connections
    #[value(name = "http-16")]
    Http16,
    /// gRPC, 16 connections
    #[value(name = "grpc-16")]
    Grpc16,
}

impl Workload {
    fn version(self) -> Version {
        match self {
            Self::Http1 | Self::Http16 => Version::Http1,
            Self::Grpc1 | Self::Grpc16 => Version::Http2,
        }
    }

    fn connections(self) -> usize {
        match self {
            Self::Http1 | Self::Grpc1 => 1,
            Self::Http16 | Self::Grpc16 => 16,
        }
    }

    /// The place of its servers.
    fn place(self) -> usize {
        usize::from(self.version() == Version::Http2)
    }
}

const NAMES: [&str; 2] = ["web", "rpc"];

#[derive(Default)]
struct Requests {
    world: Option<World>,
    intercepted: bool,
    current: Option<Candidate>,
}

/// A cluster with a Service for each version, and what stands in for its pods and for programs of the laptop.
struct World {
    cluster: Cluster,
    services: [SocketAddrV4; 2],
    pods: [SocketAddrV4; 2],
    backend: Backend,
}

impl World {
    fn new(program: &Path, dir: &Path) -> anyhow::Result<Self> {
        let cluster = Cluster::start(program, &dir.join("cluster"), Ipv4Addr::LOCALHOST)?;
        let services = [
            cluster.serve(NAMES[0], POD_PORTS[0], None)?,
            cluster.serve(NAMES[1], POD_PORTS[1], Some("kubernetes.io/h2c"))?,
        ];
        let pods = [
            SocketAddrV4::new(cluster.pod(NAMES[0])?, POD_PORTS[0]),
            SocketAddrV4::new(cluster.pod(NAMES[1])?, POD_PORTS[1]),
        ];
        let backend = Backend::start(&ServeArgs { pods: pods.to_vec() })?;
        cluster.laptop(None, &["connect", "--name", "laptop"])?;
        Ok(Self { cluster, services, pods, backend })
    }
}

impl Requests {
    fn world(&self) -> anyhow::Result<&World> {
        self.world.as_ref().context("there is no cluster")
    }

    fn intercept(&mut self, wanted: bool, program: &Path, dir: &Path) -> anyhow::Result<()> {
        if self.world.is_none() {
            self.world = Some(World::new(program, dir)?);
        }
        let (was, cluster) = (self.intercepted, &self.world()?.cluster);
        if wanted && !was {
            for (name, local) in NAMES.iter().zip(LAPTOP) {
                let (target, pair) = (format!("deploy/{name}"), format!("{}:app", local.port()));
                let header = format!("{}={}", HEADER.0, HEADER.1);
                cluster.laptop(None, &["intercept", &target, "--port", &pair, "--header", &header])?;
            }
        } else if was && !wanted {
            cluster.laptop(None, &["leave", "--all"])?;
        }
        self.intercepted = wanted;
        Ok(())
    }
}

impl Bench for Requests {
    type Candidate = Candidate;
    type Workload = Workload;

    const OURS: Candidate = Candidate::Beside;
    const DIRECT: Candidate = Candidate::Direct;

    fn aims() -> Vec<Aim<Workload, Candidate>> {
        Vec::new()
    }

    fn load(_: Workload) -> Load {
        Load::Own(&[
            Question::P50Micros,
            Question::P99Micros,
            Question::PerSecond,
            Question::CpuPer100k,
            Question::UserPer100k,
        ])
    }

    fn takes_part(_: Candidate, _: Workload, _: usize) -> bool {
        true
    }

    fn program(_: Candidate, programs: &Programs) -> anyhow::Result<(PathBuf, &'static [&'static str])> {
        Ok((programs.causeway.clone(), &["version"]))
    }

    fn start(
        &mut self,
        candidate: Candidate,
        workload: Workload,
        program: &Path,
        dir: &Path,
    ) -> anyhow::Result<Running> {
        self.intercept(matches!(candidate, Candidate::Beside | Candidate::Taken), program, dir)?;
        self.current = Some(candidate);
        Running::start_until(Vec::new(), dir, || self.asker(workload)?.probe())
    }

    fn run(&self, workload: Workload, _: &Running, settings: &Settings<'_>) -> anyhow::Result<Measured> {
        let world = self.world()?;
        let accounts = Accounts { proxy: world.cluster.pids(), backend: world.backend.id() };
        let settings = Settings { accounts: &accounts, scale: settings.scale, idle: None };
        self.asker(workload)?.run(&settings, workload.connections())
    }
}

impl Requests {
    fn asker(&self, workload: Workload) -> anyhow::Result<load::Asker> {
        let world = self.world()?;
        let candidate = self.current.context("nobody is at work")?;
        let at = if candidate == Candidate::Direct { &world.pods } else { &world.services };
        let taken = candidate == Candidate::Taken;
        Ok(load::Asker {
            at: at[workload.place()],
            version: workload.version(),
            header: taken.then_some(HEADER),
            by_laptop: taken,
        })
    }
}
