//! `cargo xtask cluster`: a real Kubernetes on this machine, for people; tests start theirs with the same code.

use std::process::ExitCode;
use std::time::Instant;

use anyhow::{Context as _, bail};
use causeway_testkit::kubernetes::Kubernetes;

const USAGE: &str = "\
usage: cargo xtask cluster COMMAND [--name NAME]

  build                  compile its programs, if that was not done yet
  up [--nodes 0|1|2]     start it, the API alone with 0; one of that name is removed first
  kubectl ARGUMENT…      kubectl as its administrator
  run PROGRAM ARGUMENT…  a program in the control plane's network
  load-image FILE…       give its nodes the images of an archive
  vlan BRIDGE            one more network between its nodes, for attachments of pods
  gateway-api            install the kinds of Gateway API
  logs [PART]            what a part wrote; without one, which there are
  down                   end it and remove all that it made

It needs root and what scripts/test-deps.sh installs. It has no route to the outside; images are loaded, never pulled.";

pub(crate) fn main(arguments: Vec<String>) -> ExitCode {
    match run(arguments) {
        Ok(code) => code,
        Err(error) => {
            eprintln!("xtask: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(mut arguments: Vec<String>) -> anyhow::Result<ExitCode> {
    if arguments.is_empty() {
        bail!("{USAGE}");
    }
    let command = arguments.remove(0);
    let name = option(&mut arguments, "--name")?.unwrap_or_else(|| "dev".to_owned());
    match command.as_str() {
        "build" => Kubernetes::build()?,
        "up" => {
            let nodes = option(&mut arguments, "--nodes")?.map_or(Ok(1), |nodes| nodes.parse())?;
            Kubernetes::build()?;
            let start = Instant::now();
            let cluster = Kubernetes::up(&name, nodes)?;
            println!(
                "ready after {:.1} s\nkubeconfig {}",
                start.elapsed().as_secs_f32(),
                cluster.kubeconfig().display()
            );
            println!(
                "`cargo xtask cluster kubectl get pods -A` to look, `cargo xtask cluster down` to end it"
            );
        }
        "kubectl" => {
            let cluster = Kubernetes::find(&name)?;
            let mut kubectl = cluster.command("kubectl");
            return hand_over(kubectl.arg("--kubeconfig").arg(cluster.kubeconfig()).args(arguments));
        }
        "run" => {
            let (program, rest) = arguments.split_first().context("which program?")?;
            return hand_over(Kubernetes::find(&name)?.command(program).args(rest));
        }
        "load-image" => {
            for file in &arguments {
                Kubernetes::find(&name)?.load_archive(file.as_ref())?;
            }
        }
        "vlan" => {
            Kubernetes::find(&name)?.lay_vlan(arguments.first().context("which name has its bridge?")?)?;
        }
        "gateway-api" => Kubernetes::find(&name)?.install_gateway_api()?,
        "logs" => {
            let cluster = Kubernetes::find(&name)?;
            match arguments.first() {
                Some(part) => {
                    print!("{}", std::fs::read_to_string(cluster.log_file(part)).context(part.clone())?);
                }
                None => println!("{}", cluster.parts().join("\n")),
            }
        }
        "down" => Kubernetes::down(&name)?,
        other => bail!("unknown command {other:?}\n\n{USAGE}"),
    }
    Ok(ExitCode::SUCCESS)
}

/// Takes `NAME VALUE` out of the arguments; only before those of another program.
fn option(arguments: &mut Vec<String>, name: &str) -> anyhow::Result<Option<String>> {
    if arguments.first().is_none_or(|first| first != name) {
        return Ok(None);
    }
    arguments.remove(0);
    if arguments.is_empty() {
        bail!("{name} needs a value");
    }
    Ok(Some(arguments.remove(0)))
}

fn hand_over(command: &mut std::process::Command) -> anyhow::Result<ExitCode> {
    let status = command.status().with_context(|| format!("running {command:?}"))?;
    Ok(ExitCode::from(status.code().and_then(|code| u8::try_from(code).ok()).unwrap_or(1)))
}
