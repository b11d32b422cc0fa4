//! A real Envoy, and `causeway xds` that feeds it with the plan file.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use causeway_ir::Plan;
use rustix::process::Signal;

use super::http;
use super::native::write;
use super::program::{CAUSEWAY, Program};
use crate::harness;
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
    program: Program,
    config: PathBuf,
    admin: Port,
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

        let mut command = Command::new(harness::envoy::program().unwrap());
        command.arg("--config-path").arg(bootstrap).args(["--concurrency", "2", "--disable-hot-restart"]);
        // Envoy has one drain time for all; it is not part of what xDS can say.
        let drain = plan.drain_timeout.as_millis().div_ceil(1000).to_string();
        command.args(["--drain-time-s", &drain, "--drain-strategy", "immediate", "--log-level", "warn"]);
        let program = Program::start("envoy", directory, &mut command);
        let mut started = Self { xds, program, config, admin };
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
        self.program.signal(Signal::TERM);
    }

    pub async fn ended(&mut self) {
        self.program.ended().await;
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
        self.program.must_run();
    }
}
