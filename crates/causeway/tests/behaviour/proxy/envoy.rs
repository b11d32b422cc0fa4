//! A real Envoy, and `causeway xds` that feeds it with the plan file.

use std::io::Write;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;
use std::time::Duration;

use causeway_ir::Plan;
use rustix::process::Signal;

use super::http;
use super::native::write;
use super::program::{CAUSEWAY, Program};
use crate::patience::eventually;
use crate::port::Port;

const NODE: &str = "edge";
/// What `causeway xds` says when every Envoy has a plan.
const APPLIED: &str = "plan applied";
/// Envoy acknowledges a change when its main thread has it; its workers take it over a moment later, and nothing
/// tells when.
const WORKERS_FOLLOW: Duration = Duration::from_millis(150);

pub struct Envoy {
    xds: Program,
    envoy: Program,
    config: PathBuf,
    admin: Port,
}

/// Whether there is an Envoy. Where there is none its tests are skipped with a word; where CI runs, that is a failure.
pub fn found() -> bool {
    static TOLD: OnceLock<()> = OnceLock::new();
    let found = program().is_some();
    if !found {
        let said = "skipped: all tests with Envoy; install it (scripts/test-deps.sh does)";
        assert!(!std::env::var("CI").is_ok_and(|ci| ci == "true"), "{said}");
        // Straight to the stream: what a test prints is kept from the terminal.
        TOLD.get_or_init(|| drop(writeln!(std::io::stderr(), "{said}")));
    }
    found
}

/// The program in the Python environment of the tests: the package holds it whole.
fn program() -> Option<&'static Path> {
    static PROGRAM: OnceLock<Option<PathBuf>> = OnceLock::new();
    let find = || {
        // The program under test is in DIR/debug, the environment in DIR/test-venv.
        let libraries = Path::new(CAUSEWAY).ancestors().nth(2)?.join("test-venv/lib");
        let pythons = std::fs::read_dir(libraries).ok()?;
        let binary = |python: std::fs::DirEntry| python.path().join("site-packages/envoy/_bin/envoy");
        pythons.filter_map(Result::ok).map(binary).find(|path| path.exists())
    };
    PROGRAM.get_or_init(find).as_deref()
}

impl Envoy {
    pub async fn start(directory: &Path, plan: &Plan) -> Self {
        let (config, socket) = (directory.join("plan.yaml"), directory.join("xds"));
        write(&config, plan);
        let mut command = Command::new(CAUSEWAY);
        command.arg("xds").arg("--config").arg(&config).arg("--listen").arg(&socket);
        let mut xds = Program::start("xds", directory, &mut command);
        xds.says("xds on").await;

        let admin = Port::reserve(SocketAddr::from(([127, 0, 0, 1], 0)));
        let mut command = Command::new(CAUSEWAY);
        command.args(["xds", "--print-bootstrap", "--node", NODE, "--listen"]).arg(&socket);
        let printed = command.args(["--admin", &admin.address.to_string()]).output().unwrap();
        assert!(printed.status.success(), "{}", String::from_utf8_lossy(&printed.stderr));
        let bootstrap = directory.join("bootstrap.json");
        std::fs::write(&bootstrap, printed.stdout).unwrap();

        let mut command = Command::new(program().unwrap());
        command.arg("--config-path").arg(bootstrap).args(["--concurrency", "2", "--disable-hot-restart"]);
        // Envoy has one drain time for all; it is not part of what xDS can say.
        let drain = plan.drain_timeout.as_millis().div_ceil(1000).to_string();
        command.args(["--drain-time-s", &drain, "--drain-strategy", "immediate", "--log-level", "warn"]);
        let envoy = Program::start("envoy", directory, &mut command);
        let mut started = Self { xds, envoy, config, admin };
        eventually("Envoy is ready", async || {
            started.must_run();
            http::get_tcp(started.admin.address, "/ready").await.is_some()
        })
        .await;
        started.in_force(0).await;
        started
    }

    pub async fn change(&mut self, plan: &Plan) {
        let before = self.applied();
        write(&self.config, plan);
        self.xds.signal(Signal::HUP);
        self.in_force(before).await;
    }

    pub async fn fail_to_change(&mut self, plan: &Plan) {
        write(&self.config, plan);
        self.xds.signal(Signal::HUP);
        self.xds.says("the new plan is refused").await;
    }

    pub fn terminate(&self) {
        self.envoy.signal(Signal::TERM);
    }

    pub async fn ended(&mut self) {
        self.envoy.ended().await;
    }

    /// How many plans Envoy has taken so far.
    fn applied(&self) -> usize {
        self.xds.log().matches(APPLIED).count()
    }

    /// Waits until Envoy has taken another plan.
    async fn in_force(&mut self, before: usize) {
        eventually("Envoy has the plan", async || {
            self.must_run();
            let log = self.xds.log();
            assert!(!log.contains("): refused "), "Envoy refuses the plan: {log}");
            self.applied() > before
        })
        .await;
        tokio::time::sleep(WORKERS_FOLLOW).await;
    }

    fn must_run(&mut self) {
        self.xds.must_run();
        self.envoy.must_run();
    }
}
