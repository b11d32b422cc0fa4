//! `causeway gateway --files`: Gateway API resources from a folder, without Kubernetes. The picture is the one that the
//! operator makes on a cluster; each Gateway runs on an engine in this process, and what became of every object is written
//! beside the files. A change of the files changes what runs, and no connection is cut for it.

mod admin;
mod engines;
mod folder;
mod statuses;
mod world;

use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

use causeway_translate::gateway::Picture;
use k8s_openapi::jiff::Timestamp;
use serde_json::Value;
use tokio::signal::unix::{SignalKind, signal};

use self::engines::Engines;
use self::folder::Folder;
use self::statuses::Statuses;
use self::world::Generations;
use super::Args;
use crate::parts::admin_socket::AdminSocket;
use crate::parts::output;
use crate::parts::termination::Termination;

/// How often it is looked whether files are others.
const LOOK: Duration = Duration::from_millis(500);

/// Everything that follows from the folder.
struct Site {
    folder: Folder,
    generations: Generations,
    statuses: Statuses,
    engines: Engines,
    /// What was said last of what is wrong.
    told: Vec<String>,
}

pub(super) async fn run(dir: &Path, args: &Args) -> anyhow::Result<ExitCode> {
    let mut site = Site {
        folder: Folder::new(dir)?,
        generations: Generations::default(),
        statuses: Statuses::new(dir),
        engines: Engines::new(args)?,
        told: Vec::new(),
    };
    site.folder.look();
    if args.check {
        let picture = site.picture();
        return Ok(if site.told.is_empty() && tell(&picture) {
            ExitCode::SUCCESS
        } else {
            ExitCode::FAILURE
        });
    }
    if let Some(at) = &args.admin {
        let router = admin::router(&site.engines.shown());
        AdminSocket::open(at).await?.start(router, args.access_log.output());
    }
    let mut termination = Termination::listen()?;
    let mut hangup = signal(SignalKind::hangup())?;
    let mut look = tokio::time::interval(LOOK);
    site.follow().await?;
    loop {
        let differs = tokio::select! {
            _ = look.tick() => site.folder.look() || site.engines.have_changed(),
            _ = hangup.recv() => { site.folder.look(); true }
            () = termination.asked() => break,
        };
        if differs {
            site.follow().await?;
        }
    }
    output::line("draining; once more Ctrl-C ends at once");
    tokio::select! {
        () = site.engines.drain() => output::line("stopped"),
        _ = tokio::signal::ctrl_c() => output::line("stopped before all connections had ended"),
    };
    Ok(ExitCode::SUCCESS)
}

impl Site {
    /// Runs what the files say, and writes what became of it.
    async fn follow(&mut self) -> anyhow::Result<()> {
        let picture = self.picture();
        self.engines.follow(&picture).await?;
        // Whether it runs is known only now.
        let picture = self.picture();
        self.statuses.write(&picture);
        Ok(())
    }

    fn picture(&mut self) -> Picture {
        let (objects, mut problems) = self.folder.objects();
        let (mut world, unread) = world::read(&objects, self.statuses.known(), &mut self.generations);
        problems.extend(unread);
        world.observed = self.engines.observed();
        for problem in problems.iter().filter(|problem| !self.told.contains(problem)) {
            output::note(format_args!("error: {problem}"));
        }
        self.told = problems;
        causeway_translate::gateway::picture(&world, Timestamp::now())
    }
}

/// Prints each condition that does not hold; true if all do that could be known without running anything.
fn tell(picture: &Picture) -> bool {
    let statuses = picture
        .gateways
        .iter()
        .map(|(at, gateway)| (format!("Gateway {at}"), &gateway.status))
        .chain(picture.routes.iter().map(|((kind, at), status)| (format!("{kind} {at}"), status)))
        .chain(picture.listener_sets.iter().map(|(at, status)| (format!("ListenerSet {at}"), status)))
        .chain(picture.policies.iter().map(|(at, status)| (format!("BackendTLSPolicy {at}"), status)))
        .chain(picture.traffic_policies.iter().map(|(at, status)| (format!("TrafficPolicy {at}"), status)));
    let mut all_hold = true;
    for (what, status) in statuses {
        for condition in conditions(&status.value) {
            let word = |field: &str| condition[field].as_str().unwrap_or_default();
            if matches!(word("type"), "Accepted" | "ResolvedRefs") && word("status") == "False" {
                output::note(format_args!("error: {what}: {}: {}", word("reason"), word("message")));
                all_hold = false;
            }
        }
    }
    all_hold
}

/// The conditions of an object, its listeners and its parents.
fn conditions(status: &Value) -> Vec<&Value> {
    let below =
        ["listeners", "parents", "ancestors"].into_iter().filter_map(|field| status[field].as_array());
    let below = below.flatten().filter_map(|entry| entry["conditions"].as_array()).flatten();
    status["conditions"].as_array().into_iter().flatten().chain(below).collect()
}
