//! Bulk TCP through each way between a laptop and the cluster, beside wireguard-go on a TUN device and with its own stack in
//! user space: over loopback, and over a way of 20 ms on which one packet in a thousand is lost.

mod aims;
mod candidate;
mod wireguard_go;
mod workload;

use std::net::{Ipv4Addr, SocketAddrV4};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::rc::Rc;

use anyhow::Context;

use super::cluster::Cluster;
use super::ends::{self, PROXY};
use super::far::Far;
use crate::compare::accounts::Accounts;
use crate::compare::aims::Aim;
use crate::compare::load::{Load, Measured, Settings, bulk};
use crate::compare::names::{EVERYWHERE, PLAIN_BACKEND};
use crate::compare::programs::Programs;
use crate::compare::running::Running;
use crate::compare::target::Target;
use crate::compare::{self, Bench};
use candidate::Candidate;
use workload::Workload;

/// Measures the ways between laptop and cluster. Needs root for network namespaces.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    compare: compare::Args<Candidate, Workload>,
}

/// Runs the bench or reports on an earlier run.
pub(crate) fn run(args: &Args) -> anyhow::Result<()> {
    compare::run(&args.compare, || Ok(Ways::default())).map(drop)
}

/// Where users connect, and where the proxy there is asked to lead.
#[derive(Debug, Clone, Copy)]
struct Door {
    at: SocketAddrV4,
    socks: Option<SocketAddrV4>,
}

impl Door {
    fn target(self) -> Target {
        Target { proxy: Some(self.at), names: None, socks: self.socks }
    }
}

/// The machines, made when they are needed, and what is at work.
#[derive(Default)]
struct Ways {
    cable: Option<Rc<Far>>,
    bad_way: Option<Rc<Far>>,
    /// Where users are, if not here.
    far: Option<Rc<Far>>,
    cluster: Option<Cluster>,
    door: Option<Door>,
    turn: usize,
}

impl Ways {
    /// The other machine of a turn; none if all is on this one.
    fn far(&mut self, candidate: Candidate, workload: Workload) -> anyhow::Result<Option<Rc<Far>>> {
        let place = if workload.is_bad() {
            if self.bad_way.is_none() {
                self.bad_way = Some(Rc::new(Far::by_bad_way()?));
            }
            &self.bad_way
        } else if candidate == Candidate::WireguardGo {
            if self.cable.is_none() {
                self.cable = Some(Rc::new(Far::by_cable()?));
            }
            &self.cable
        } else {
            return Ok(None);
        };
        Ok(place.clone())
    }
}

impl Bench for Ways {
    type Candidate = Candidate;
    type Workload = Workload;

    const OURS: Candidate = Candidate::Link;
    const DIRECT: Candidate = Candidate::Direct;

    fn aims() -> Vec<Aim<Workload, Candidate>> {
        aims::all()
    }

    fn load(workload: Workload) -> Load {
        workload.load()
    }

    fn takes_part(_: Candidate, _: Workload, _: usize) -> bool {
        true
    }

    fn program(
        candidate: Candidate,
        programs: &Programs,
    ) -> anyhow::Result<(PathBuf, &'static [&'static str])> {
        candidate.program(programs)
    }

    fn start(
        &mut self,
        candidate: Candidate,
        workload: Workload,
        program: &Path,
        dir: &Path,
    ) -> anyhow::Result<Running> {
        (self.cluster, self.far) = (None, None);
        let far = self.far(candidate, workload)?;
        let near = far.as_ref().map_or(Ipv4Addr::LOCALHOST, |far| far.near);
        let there = || far.as_ref().map_or_else(|| Command::new(program), |far| far.command(program));
        let (commands, door) = match candidate {
            Candidate::Direct => {
                let at =
                    if far.is_some() { SocketAddrV4::new(near, EVERYWHERE.port()) } else { PLAIN_BACKEND };
                (Vec::new(), Door { at, socks: None })
            }
            Candidate::Link | Candidate::Wireguard => {
                ends::make_keys(dir)?;
                let (mut hub, mut laptop) = (Command::new(program), there());
                hub.args(["hub", "--at", &near.to_string(), "--dir"]).arg(dir);
                let way = if candidate == Candidate::Link { "link" } else { "wireguard" };
                laptop.args(["laptop", "--hub", &near.to_string(), "--way", way, "--dir"]).arg(dir);
                (vec![hub, laptop], Door { at: PROXY, socks: Some(PLAIN_BACKEND) })
            }
            Candidate::PortForward => {
                self.turn += 1;
                let cluster = Cluster::start(program, &dir.join(self.turn.to_string()), near)?;
                cluster.serve("web", EVERYWHERE.port(), None)?;
                let pod = cluster.pod("web")?;
                let proxy = PROXY.to_string();
                let connect = ["connect", "--name", "laptop", "--way", "port-forward", "--proxy", &proxy];
                cluster.laptop(far.as_deref(), &connect)?;
                self.cluster = Some(cluster);
                (Vec::new(), Door { at: PROXY, socks: Some(SocketAddrV4::new(pod, EVERYWHERE.port())) })
            }
            Candidate::WireguardGo => {
                let far = far.as_deref().context("a machine at the end of a cable")?;
                let commands = wireguard_go::commands(program, far);
                (commands, Door { at: wireguard_go::backend(), socks: None })
            }
            Candidate::WireguardGoNetstack => (
                wireguard_go::netstack(program, there(), near),
                Door { at: wireguard_go::USERS, socks: None },
            ),
        };
        let is_tun = candidate == Candidate::WireguardGo;
        let probe = || {
            if let (true, Some(far)) = (is_tun, &far) {
                wireguard_go::configure(far, dir)?;
            }
            let ask = || door.target().probe(0, PATIENCE);
            match &far {
                Some(far) => far.within(ask)?,
                None => ask(),
            }
        };
        let running = Running::start_until(commands, dir, probe)?;
        (self.far, self.door) = (far, Some(door));
        Ok(running)
    }

    fn run(
        &self,
        workload: Workload,
        running: &Running,
        settings: &Settings<'_>,
    ) -> anyhow::Result<Measured> {
        let door = self.door.context("nothing was started")?;
        let (streams, direction) = workload.streams();
        let mut pids = running.pids();
        pids.extend(self.cluster.iter().flat_map(Cluster::pids));
        let accounts = Accounts { proxy: pids, backend: settings.accounts.backend };
        let scale = settings.scale * workload.length();
        let measure = || {
            let settings = Settings { accounts: &accounts, scale, idle: None };
            bulk(&door.target(), &settings, streams, direction)
        };
        match &self.far {
            Some(far) => far.within(measure)?,
            None => measure(),
        }
    }
}

/// How long a probe waits for its answer.
const PATIENCE: std::time::Duration = std::time::Duration::from_secs(1);
