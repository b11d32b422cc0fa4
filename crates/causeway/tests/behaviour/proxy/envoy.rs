//! A real Envoy, and `causeway xds` that feeds it with the plan file.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Command;

use causeway_ir::Plan;
use causeway_testkit::eventually;
use causeway_testkit::server::program;
use rustix::process::Signal;

use super::http;
use super::native::write;
use super::program::Program;
use crate::plans::{cluster, plain};
use crate::port::Port;

const NODE: &str = "edge";
/// What `causeway xds` says when every Envoy has a plan.
const APPLIED: &str = "plan applied";
const WORKERS: usize = 2;

pub struct Envoy {
    xds: Program,
    program: Program,
    config: PathBuf,
    admin: Port,
    /// The plans that Envoy was given.
    given: usize,
}

impl Envoy {
    pub async fn start(directory: &Path, plan: &Plan) -> Self {
        let (config, socket) = (directory.join("plan.yaml"), directory.join("xds"));
        write(&config, &marked(plan, 0));
        let mut command = Command::new(program());
        command.arg("xds").arg("--config").arg(&config).arg("--listen").arg(&socket);
        let mut xds = Program::start("xds", directory, &mut command);
        xds.says("xds on").await;

        let admin = Port::reserve(SocketAddr::from(([127, 0, 0, 1], 0)));
        let mut command = Command::new(program());
        command.args(["xds", "--print-bootstrap", "--node", NODE, "--listen"]).arg(&socket);
        command.args(["--admin", &admin.address.to_string(), "--config"]).arg(&config);
        let printed = command.output().unwrap();
        assert!(printed.status.success(), "{}", String::from_utf8_lossy(&printed.stderr));
        let bootstrap = directory.join("bootstrap.json");
        std::fs::write(&bootstrap, printed.stdout).unwrap();

        let mut command = Command::new(causeway_testkit::envoy::program().unwrap());
        command.arg("--config-path").arg(bootstrap).args(["--concurrency", &WORKERS.to_string()]);
        command.arg("--disable-hot-restart");
        // Envoy has one drain time for all; it is not part of what xDS can say.
        let drain = plan.drain_timeout.as_millis().div_ceil(1000).to_string();
        command.args(["--drain-time-s", &drain, "--drain-strategy", "immediate", "--log-level", "warn"]);
        let program = Program::start("envoy", directory, &mut command);
        let mut started = Self { xds, program, config, admin, given: 0 };
        eventually("Envoy is ready", async || {
            started.must_run();
            http::get_tcp(started.admin.address, "/ready").await.is_some()
        })
        .await;
        started.in_force().await;
        started
    }

    pub async fn change(&mut self, plan: &Plan) {
        self.given += 1;
        write(&self.config, &marked(plan, self.given));
        self.xds.signal(Signal::HUP);
        self.in_force().await;
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

    /// Waits until all of Envoy has the newest plan. It acknowledges a change when its main thread has it. Its workers
    /// take changes over one after the other, so they have all when they count the connections of the mark.
    async fn in_force(&mut self) {
        let path = format!("/stats?filter=^listener.{}.worker_", mark(self.given));
        eventually("Envoy has the plan", async || {
            self.must_run();
            let log = self.xds.log();
            assert!(!log.contains("): refused "), "Envoy refuses the plan: {log}");
            let has = log.matches(APPLIED).count() > self.given;
            let counters = http::get_tcp(self.admin.address, &path).await.unwrap_or_default();
            has && counters.matches("downstream_cx_total").count() == WORKERS
        })
        .await;
    }

    fn must_run(&mut self) {
        self.xds.must_run();
        self.program.must_run();
    }
}

/// The name of what marks a plan: after those of all listeners that tests use, for Envoy takes them in order.
fn mark(number: usize) -> String {
    format!("zz_mark_{number}")
}

/// The plan with a listener of its own that nobody uses.
fn marked(plan: &Plan, number: usize) -> Plan {
    let mut plan = plan.clone();
    plan.listeners.push(plain(&mark(number), "zz_mark"));
    plan.clusters.push(cluster("zz_mark", &[]));
    plan
}
