//! The host end of a tunnel proxy, as a process of its own: it follows the plan in its directory, carries the streams,
//! and answers an operator on a socket there. Operators come and go; it ends when one says so, or when its directory is
//! gone, since no operator could find it any more.

mod connection;
mod directory;
mod output;
mod report;

use std::path::PathBuf;
use std::time::Duration;

use anyhow::Context;
use causeway_ir::tunnel::protocol::{Order, Status};
use causeway_ir::tunnel::{TunnelPlan, files};
use causeway_tunnel::host::{self, Host};
use tokio::net::{UnixListener, UnixStream};
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::{mpsc, watch};
use tokio::time::{Instant, MissedTickBehavior, interval, sleep_until};

use self::connection::Asked;
use self::directory::HostDirectory;
use self::output::Output;
use super::{keys, plan};
use crate::parts::plan_file::{Stamp, stamp};
use crate::parts::termination::Termination;

/// How long streams may go on after a signal.
const DRAIN: Duration = Duration::from_secs(10);
/// How often the plan and the directory are looked at, without being asked to.
const LOOK: Duration = Duration::from_secs(1);
/// How often figures are told.
const FIGURES: Duration = Duration::from_secs(5);
/// Looks without the directory before it is given up.
const GONE_AFTER: u32 = 3;
/// After a connection that could not be taken, for want of descriptors: the next could not be either.
const ACCEPT_PAUSE: Duration = Duration::from_secs(1);
/// Requests that wait; operators wait for the answer.
const QUEUE: usize = 16;

#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// The directory of the tunnel proxy.
    #[arg(long, value_name = "DIR")]
    dir: PathBuf,
}

pub(super) async fn run(args: Args) -> anyhow::Result<()> {
    // Out of the terminal's reach: Ctrl-C is for the operator. It fails for a process that a shell started, which is in
    // no operator's session.
    let _ = rustix::process::setsid();
    let directory = HostDirectory::take(&args.dir)?;
    let path = directory.path().join(files::PLAN);
    // Before the file is read, so that no change of it is missed.
    let seen = stamp(&path);
    let first = plan::read_given(&path)?;
    let authority = keys::read_authority(&first.authority)?;
    let mut process = Process {
        options: host::Options::new(([127, 0, 0, 1], 0).into(), ([127, 0, 0, 1], 0).into(), authority),
        host: None,
        plan_error: None,
        status_tx: watch::Sender::new(report::first(&directory)),
        directory,
    };
    process.follow(&first);
    let listener = process.directory.listen()?;
    let drain = process.serve(listener, path, seen).await?;
    if let Some(host) = process.host {
        host.drain(drain).await;
    }
    process.directory.leave();
    Ok(())
}

/// An operator's connection; none is taken before the time.
async fn accept(listener: &UnixListener, from: Instant) -> std::io::Result<UnixStream> {
    sleep_until(from).await;
    Ok(listener.accept().await?.0)
}

struct Process {
    directory: HostDirectory,
    /// How to dial; the addresses are the plan's.
    options: host::Options,
    /// The end itself, once the client has an address.
    host: Option<Host>,
    plan_error: Option<String>,
    // process → connections
    status_tx: watch::Sender<Status>,
}

impl Process {
    /// Serves until it is to end; how long streams may go on then.
    async fn serve(
        &mut self,
        listener: UnixListener,
        path: PathBuf,
        mut seen: Option<Stamp>,
    ) -> anyhow::Result<Duration> {
        let (asked_tx, mut asked_rx) = mpsc::channel::<Asked>(QUEUE); // connections → process
        let mut termination = Termination::listen()?;
        let mut hang_up = signal(SignalKind::hangup()).context("can't listen for signals")?;
        let (mut look, mut figures) = (interval(LOOK), interval(FIGURES));
        look.set_missed_tick_behavior(MissedTickBehavior::Delay);
        figures.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut output = Output::open(self.directory.path());
        let mut missing = 0;
        let mut accept_from = Instant::now();
        loop {
            let mut states = self.host.as_ref().map(Host::status);
            if let Some(states) = &mut states {
                states.mark_unchanged();
            }
            self.publish();
            let changed = async {
                match &mut states {
                    Some(states) => drop(states.changed().await),
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                accepted = accept(&listener, accept_from) => match accepted {
                    Ok(stream) => {
                        tokio::spawn(connection::serve(stream, self.status_tx.subscribe(), asked_tx.clone()));
                    }
                    Err(error) => {
                        tracing::warn!(%error, "can't take an operator's connection");
                        accept_from = Instant::now() + ACCEPT_PAUSE;
                    }
                },
                // There is always a sender: the one above.
                Some(asked) = asked_rx.recv() => {
                    let end = match asked.order {
                        Order::Reload => None,
                        Order::End { drain_millis } => Some(Duration::from_millis(drain_millis)),
                        Order::EndIfIdle if self.streams() == 0 => Some(Duration::ZERO),
                        Order::EndIfIdle => {
                            asked.answer(false);
                            continue;
                        }
                    };
                    asked.answer(true);
                    if let Some(drain) = end {
                        return Ok(drain);
                    }
                    seen = stamp(&path);
                    self.read(&path);
                }
                () = changed => {}
                _ = figures.tick() => {}
                _ = look.tick() => {
                    missing = if self.directory.is_there() { 0 } else { missing + 1 };
                    if missing >= GONE_AFTER {
                        tracing::warn!("the directory is gone, so no operator can find this end any more");
                        return Ok(DRAIN);
                    }
                    output.bound();
                    let now = stamp(&path);
                    // A file that is gone for a moment is being replaced.
                    if now.is_some() && now != seen {
                        seen = now;
                        self.read(&path);
                    }
                }
                _ = hang_up.recv() => self.read(&path),
                () = termination.asked() => return Ok(DRAIN),
            }
        }
    }

    fn read(&mut self, path: &std::path::Path) {
        match plan::read_given(path) {
            Ok(plan) => {
                self.plan_error = None;
                self.follow(&plan);
            }
            Err(error) => {
                let error = format!("{error:#}");
                tracing::warn!(error, "the new plan is refused; the last one is followed");
                self.plan_error = Some(error);
            }
        }
    }

    /// Does what the plan says; a client without an address keeps the one it had.
    fn follow(&mut self, plan: &TunnelPlan) {
        if let Some(dial) = plan.dial {
            self.options.control = dial.control;
            self.options.data = dial.data;
            let host = self.host.get_or_insert_with(|| Host::start(self.options.clone()));
            host.redial(dial.control, dial.data);
        }
        if let Some(host) = &self.host {
            host.carry(plan.tunnels.clone());
        }
    }

    fn streams(&self) -> u64 {
        report::of(&self.status_tx.borrow(), self.host.as_ref(), None).streams
    }

    fn publish(&self) {
        let now = report::of(&self.status_tx.borrow(), self.host.as_ref(), self.plan_error.clone());
        self.status_tx.send_if_modified(|known| {
            let differs = *known != now;
            *known = now;
            differs
        });
    }
}
