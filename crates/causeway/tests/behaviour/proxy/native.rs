//! `causeway engine`, driven by its plan file.

use std::path::{Path, PathBuf};
use std::process::Command;

use causeway_ir::Plan;
use causeway_testkit::eventually;
use causeway_testkit::server::program;
use rustix::process::Signal;

use super::http;
use super::program::Program;

pub struct Native {
    program: Program,
    config: PathBuf,
    admin: PathBuf,
}

impl Native {
    pub async fn start(directory: &Path, plan: &Plan) -> Self {
        let (config, admin) = (directory.join("plan.yaml"), directory.join("admin"));
        write(&config, plan);
        let mut command = Command::new(program());
        command.arg("engine").arg("--config").arg(&config).arg("--admin").arg(&admin);
        command.args(["--workers", "2", "--access-log", "-"]);
        let program = Program::start("engine", directory, &mut command);
        let mut native = Self { program, config, admin };
        native.in_force(plan).await;
        native
    }

    pub async fn change(&mut self, plan: &Plan) {
        write(&self.config, plan);
        self.program.signal(Signal::HUP);
        self.in_force(plan).await;
    }

    pub async fn fail_to_change(&mut self, plan: &Plan) {
        write(&self.config, plan);
        self.program.signal(Signal::HUP);
        self.program.says("the new plan is refused").await;
    }

    pub fn terminate(&self) {
        self.program.signal(Signal::TERM);
    }

    pub async fn ended(&mut self) {
        self.program.ended().await;
    }

    /// Waits until the engine runs this plan, with all its listeners.
    async fn in_force(&mut self, plan: &Plan) {
        eventually("the plan is in force", async || {
            self.program.must_run();
            let running = http::get_unix(&self.admin, "/config_dump").await;
            running.and_then(|text| serde_json::from_str(&text).ok()).as_ref() == Some(plan)
        })
        .await;
        assert_eq!(http::get_unix(&self.admin, "/ready").await.as_deref(), Some("ready\n"));
    }
}

/// Replaces the plan at once, so that nobody reads half of it.
pub fn write(path: &Path, plan: &Plan) {
    let new = path.with_extension("new");
    std::fs::write(&new, serde_json::to_vec_pretty(plan).unwrap()).unwrap();
    std::fs::rename(new, path).unwrap();
}
