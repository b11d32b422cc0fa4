//! `cargo xtask conformance`: the conformance suite of Gateway API against this tree, on a real Kubernetes of its own.

use std::path::Path;
use std::process::Command;
use std::time::Instant;

use anyhow::{Context as _, bail, ensure};
use causeway_testkit::kubernetes::{Image, Kubernetes};

const USAGE: &str = "\
usage: cargo xtask conformance [--program FILE] [--keep] [FLAG OF THE SUITE…]

  --program FILE  what to test; default the `causeway` beside this program
  --keep          leave the cluster for a look: `cargo xtask cluster kubectl --name conformance …`

Without flags of the suite, all five profiles of gateways run with every feature that the class says it supports, and the
report goes to docs/conformance.yaml. Single tests: `-run-test HTTPRouteWeight -debug`. It needs root and what
scripts/test-deps.sh installs.";
const CLUSTER: &str = "conformance";
/// The image that `deploy/operator.yaml` names.
const IMAGE: &str = "causeway.dev/causeway:0.1.0";
const CLASS: &str = "apiVersion: gateway.networking.k8s.io/v1\nkind: GatewayClass\nmetadata: {name: causeway}\nspec: {controllerName: causeway.dev/gateway}\n";
const PROFILES: &str = "GATEWAY-HTTP,GATEWAY-GRPC,GATEWAY-TLS,GATEWAY-TCP,GATEWAY-UDP";

pub(crate) fn main(mut arguments: Vec<String>, root: &Path) -> anyhow::Result<()> {
    if arguments.iter().any(|argument| argument == "--help") {
        println!("{USAGE}");
        return Ok(());
    }
    let keep = take_flag(&mut arguments, "--keep");
    let program = match arguments.iter().position(|argument| argument == "--program") {
        Some(at) if at + 1 < arguments.len() => arguments.drain(at..at + 2).nth(1),
        Some(_) => bail!("--program needs a file"),
        None => None,
    };
    let own = std::env::current_exe()?;
    let program = program.map_or_else(|| own.with_file_name("causeway"), Into::into);
    ensure!(program.exists(), "{} is not there: `cargo build` first", program.display());
    let start = Instant::now();
    let say = |what: &str| eprintln!("== {what} ({:.0} s)", start.elapsed().as_secs_f32());
    say("a cluster");
    let cluster = Kubernetes::up(CLUSTER, 1)?;
    let outcome = run(&cluster, &program, root, &arguments, say);
    if !keep {
        Kubernetes::down(CLUSTER)?;
    }
    say("done");
    outcome
}

fn run(
    cluster: &Kubernetes,
    program: &Path,
    root: &Path,
    flags: &[String],
    say: impl Fn(&str),
) -> anyhow::Result<()> {
    say("the image and the definitions");
    cluster.load(&Image::of_program(IMAGE, program, "causeway")?)?;
    cluster.install_gateway_api()?;
    let kubectl = |arguments: &[&str]| {
        let mut command = cluster.command("kubectl");
        command.arg("--kubeconfig").arg(cluster.kubeconfig()).args(arguments);
        succeed(&mut command)
    };
    let deploy = |name: &str| root.join("deploy").join(name).display().to_string();
    kubectl(&["apply", "--server-side", "--filename", &deploy("crds")])?;
    kubectl(&["apply", "--filename", &deploy("operator.yaml")])?;
    let operator = ["deployment/causeway-operator", "--namespace", "causeway-system", "--timeout=60s"];
    kubectl(&[&["rollout", "status"], &operator[..]].concat())?;
    let class = tempfile::NamedTempFile::new()?;
    std::fs::write(class.path(), CLASS)?;
    kubectl(&["apply", "--filename", &class.path().display().to_string()])?;
    kubectl(&["wait", "gatewayclass/causeway", "--for=condition=Accepted", "--timeout=60s"])?;
    say("the suite");
    let mut suite = cluster.conformance_suite()?;
    suite.args(["-test.v", "-test.timeout=2h", "-gateway-class=causeway", "-cleanup-base-resources=false"]);
    // Of the range of Services, where nobody else asks for one; and one of a network that is for documents alone.
    suite.args(["-usable-address=10.96.200.200", "-unusable-address=192.0.2.1"]);
    if flags.is_empty() {
        let report = format!("-report-output={}", root.join("docs/conformance.yaml").display());
        suite.args([&format!("-conformance-profiles={PROFILES}"), &report]);
        suite.args(["-organization=causeway", "-project=causeway", "-url=https://causeway.dev"]);
        suite.args([&format!("-version={}", env!("CARGO_PKG_VERSION")), "-contact=none: a local run"]);
    }
    succeed(suite.args(flags))
}

fn succeed(command: &mut Command) -> anyhow::Result<()> {
    let status = command.status().with_context(|| format!("running {command:?}"))?;
    ensure!(status.success(), "{command:?}: {status}");
    Ok(())
}

fn take_flag(arguments: &mut Vec<String>, name: &str) -> bool {
    let before = arguments.len();
    arguments.retain(|argument| argument != name);
    arguments.len() < before
}
