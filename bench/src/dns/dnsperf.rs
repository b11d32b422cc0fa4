//! dnsperf, which is what others measure with; of the quick servers it shows its own limit.

use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::{Context, ensure};

use super::questions::{Questions, SERVER};
use crate::compare::accounts::{Accounts, Window};
use crate::compare::load::{Figures, Measured, Settings};

const SECONDS: f64 = 5.0;
/// At both ends of a run nothing is counted.
const EDGE: Duration = Duration::from_millis(500);

pub(crate) fn run(questions: &Questions, mode: &str, settings: &Settings<'_>) -> anyhow::Result<Measured> {
    let mut file = tempfile::NamedTempFile::new()?;
    std::io::Write::write_all(&mut file, questions.lines().as_bytes())?;
    let seconds = (SECONDS * settings.scale).max(2.0).round();
    let mut command = Command::new("dnsperf");
    command.args(["-s", &SERVER.ip().to_string(), "-p", &SERVER.port().to_string(), "-m", mode, "-d"]);
    command.arg(file.path()).args(["-l", &seconds.to_string(), "-c", "16", "-q", "256", "-T", "1"]);
    let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn();
    let child = child.context("can't start dnsperf: run scripts/bench-deps.sh dns")?;
    std::thread::sleep(EDGE);
    let accounts = Accounts { proxy: settings.accounts.proxy.clone(), backend: child.id() };
    let window = Window::open(&accounts);
    std::thread::sleep(Duration::from_secs_f64(seconds).saturating_sub(2 * EDGE));
    let spent = window.close();
    let output = child.wait_with_output()?;
    let said = String::from_utf8_lossy(&output.stdout);
    ensure!(output.status.success(), "dnsperf failed: {}", String::from_utf8_lossy(&output.stderr));
    let figure = |name: &str| {
        let line = said.lines().find_map(|line| line.trim().strip_prefix(name)).unwrap_or_default();
        line.split_whitespace().next().and_then(|word| word.parse::<f64>().ok())
    };
    let per_second =
        figure("Queries per second:").with_context(|| format!("dnsperf says no rate: {said}"))?;
    Ok((
        spent,
        Figures::from([
            ("questions", per_second * spent.seconds),
            ("perSecond", per_second),
            ("lost", figure("Queries lost:").unwrap_or_default()),
        ]),
    ))
}
