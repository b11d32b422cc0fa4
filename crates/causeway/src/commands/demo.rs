//! `causeway demo`: plays a crossing on this machine with no set-up, each step shown and checked. It ends with an
//! error if a step did not do what it says. Nothing is left, also when it is interrupted.

mod cluster;
mod gateway;
mod hostname;
mod infra;
mod intercept;
mod proxy;
pub(crate) mod stage;
mod steps;
mod tunnel;

use std::process::ExitCode;

use crate::parts::answer::FormatArg;
use crate::parts::output;
use crate::parts::termination::Termination;
use stage::Stage;
use steps::Steps;

/// The usual exit code of a program that Ctrl-C ended.
const INTERRUPTED: u8 = 130;

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    crossing: Crossing,
}

#[derive(Debug, clap::Subcommand)]
enum Crossing {
    /// TLS services behind one address, told apart by name, and a change while connections are open.
    Proxy(proxy::Args),
    /// A Gateway with the routes of two teams: weights and a certificate that change under load, and a mistake.
    Gateway(gateway::Args),
    /// A team gets a hostname with certificate, gateway and record; another team can't have it; what somebody breaks is put right.
    Hostname(hostname::Args),
    /// Requests with a header reach a program on a developer's machine, which dies and comes back; nobody else notices.
    Intercept(intercept::Args),
    /// A machine with nothing but a card gets an address, names and a way to a Service; as root.
    Infra(infra::Args),
    /// A container reaches a service of the host by name, and goes on when the tunnel's container is killed.
    Tunnel(tunnel::Args),
}

/// What every demo offers.
#[derive(Debug, clap::Args)]
struct CommonArgs {
    /// Leave everything running at the end, to look around, until Ctrl-C.
    #[arg(long)]
    keep: bool,
    /// Print the resources before they are applied.
    #[arg(long, conflicts_with = "output")]
    show: bool,
    #[command(flatten)]
    format: FormatArg,
}

/// A demo.
trait Play {
    const NAME: &'static str;
    /// What it leaves open at the end of its story.
    type Scene;

    /// Plays the story.
    async fn play(&self, steps: &mut Steps, stage: &mut Stage) -> anyhow::Result<Self::Scene>;
    /// What to try while everything runs.
    fn hints(&self) -> Vec<String>;
    /// Takes down what was made and checks that it is gone.
    async fn close(&self, steps: &mut Steps, scene: Self::Scene) -> anyhow::Result<()>;
}

pub(crate) async fn run(args: Args) -> anyhow::Result<ExitCode> {
    match args.crossing {
        Crossing::Proxy(args) => perform(&args, &args.common).await,
        Crossing::Gateway(args) => perform(&args, &args.common).await,
        Crossing::Hostname(args) => perform(&args, &args.common).await,
        Crossing::Intercept(args) => perform(&args, &args.common).await,
        Crossing::Infra(args) => infra::run(&args).await,
        Crossing::Tunnel(args) => perform(&args, &args.common).await,
    }
}

async fn perform<P: Play>(play: &P, common: &CommonArgs) -> anyhow::Result<ExitCode> {
    // From here on a signal ends the demo in order.
    let mut termination = Termination::listen()?;
    for left in Stage::abandoned() {
        let path = left.path().display().to_string();
        output::note(match left.remove().await {
            Ok(()) => format!("removed what an interrupted demo had left: {path}"),
            Err(error) => format!("causeway: {path}, left by an interrupted demo, stays: {error:#}"),
        });
    }
    let mut steps = Steps::new(P::NAME, !common.format.is_json());
    let mut stage = Stage::new()?;
    let mut played = tokio::select! {
        played = play.play(&mut steps, &mut stage) => Some(played),
        () = termination.asked() => None,
    };
    if common.keep && matches!(played, Some(Ok(_))) {
        steps.tell(format_args!("still running; try\n  export KUBECONFIG={}", stage.kubeconfig().display()));
        for hint in play.hints() {
            steps.tell(format_args!("  {hint}"));
        }
        steps.tell("Ctrl-C ends it");
        termination.asked().await;
    }
    let closed = match played.take() {
        Some(Ok(scene)) => tokio::select! {
            closed = play.close(&mut steps, scene) => Some(closed),
            () = termination.asked() => None,
        },
        Some(Err(error)) => Some(Err(error)),
        None => None,
    };
    if let Some(Err(_)) = &closed
        && let Ok(log) = stage.save_log()
    {
        output::note(format_args!("the control plane's log is {}", log.display()));
    }
    if closed.is_none() {
        output::note("interrupted; removing everything");
    }
    let removed = stage.remove().await;
    let outcome = match closed {
        Some(closed) => closed.and(removed).map(|()| ExitCode::SUCCESS),
        None => removed.map(|()| ExitCode::from(INTERRUPTED)),
    };
    steps.passed = matches!(outcome, Ok(ExitCode::SUCCESS));
    steps.error = outcome.as_ref().err().map(|error| format!("{error:#}"));
    // People were told of each step, and are told of the error.
    if steps.passed || common.format.is_json() {
        common.format.print(&steps)?;
    }
    outcome
}
