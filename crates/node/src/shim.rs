//! The shim of one container process: it owns the output pipes, stamps and rotates the log, forwards signals and
//! records how the process ended. It outlives the node, so that a crash of the node costs neither the process nor its
//! log nor its exit code.
//!
//! `run DIR` is the shim; `exec DIR` is the second stage that asks the kernel to die with its shim and then becomes the program.
//! `enter NETWORK PROGRAM …` becomes a program in a network namespace, for probes and hooks.

mod log;
mod runtime_container;

use std::{
    error::Error,
    ffi::OsString,
    fs,
    io::{self, Write},
    os::unix::process::{CommandExt, ExitStatusExt},
    path::{Path, PathBuf},
    process::{ExitCode, ExitStatus, Stdio},
    time::Duration,
};

use jiff::Timestamp;
use rustix::process::{Pid, Signal, getppid, kill_process_group, set_parent_process_death_signal, setsid};
use tokio::{
    io::{AsyncRead, AsyncReadExt},
    process::{Child, Command},
    signal::unix::{self, SignalKind, signal},
};

use self::log::{LogFile, Stream};
use crate::{
    network,
    process::{Exit, Identity, attempt::Attempt},
};

const DRAIN_LIMIT: Duration = Duration::from_secs(2);
const EXEC_FAILED: u8 = 128;

/// Runs the shim with the arguments after the subcommand; the binary calls this first thing for `pod-shim`.
pub fn main(args: impl IntoIterator<Item = OsString>) -> ExitCode {
    let mut args = args.into_iter();
    let stage = args.next().unwrap_or_default();
    if stage == "enter" {
        say(io::stderr(), &enter(args).to_string());
        return ExitCode::from(EXEC_FAILED);
    }
    let Some(attempt) = args.next().map(|dir| Attempt::at(PathBuf::from(dir))) else {
        say(io::stderr(), "the shim is started by the node: pod-shim run|exec DIR");
        return ExitCode::from(2);
    };
    let result = match stage.to_str() {
        Some("run") => keep(&attempt),
        Some("exec") => Err(become_program(&attempt)),
        _ => Err("the first argument must be run or exec".into()),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            say(io::stderr(), &error.to_string());
            ExitCode::from(EXEC_FAILED)
        }
    }
}

/// Becomes a program in a network namespace; only returns when that cannot be.
fn enter(mut args: impl Iterator<Item = OsString>) -> Box<dyn Error> {
    let (Some(network), Some(program)) = (args.next(), args.next()) else {
        return "enter wants a network namespace and a program".into();
    };
    match network::enter(Path::new(&network)) {
        Ok(()) => std::process::Command::new(program).args(args).exec().into(),
        Err(error) => error.into(),
    }
}

/// Second stage: only returns when the program cannot be executed.
fn become_program(attempt: &Attempt) -> Box<dyn Error> {
    let failed = (|| -> Result<io::Error, Box<dyn Error>> {
        set_parent_process_death_signal(Some(Signal::KILL))?;
        // The shim may have died before the line above took effect.
        let shim = attempt.record()?.map(|record| record.shim.pid);
        if getppid().map(Pid::as_raw_pid) != shim {
            return Err("the shim is gone".into());
        }
        let launch = attempt.launch()?.ok_or("launch.json is missing")?;
        if let Some(network) = &launch.network {
            network::enter(network).map_err(|error| {
                format!("cannot enter the network namespace {}: {error}", network.display())
            })?;
        }
        let error = std::process::Command::new(&launch.program)
            .args(&launch.args)
            .env_clear()
            .envs(launch.env)
            .current_dir(&launch.working_dir)
            .exec();
        Ok(io::Error::new(error.kind(), format!("cannot execute {}: {error}", launch.program.display())))
    })();
    let error = match failed {
        Ok(error) => error.into(),
        Err(error) => error,
    };
    let _ = fs::write(attempt.start_error(), error.to_string());
    error
}

fn keep(attempt: &Attempt) -> Result<(), Box<dyn Error>> {
    // Out of the terminal's reach: Ctrl-C is for the node, which decides what its pods do then.
    setsid()?;
    // Nor does what the node was given concern its pods, which outlive it.
    causeway_containers::close_inherited();
    tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(keep_attempt(attempt))
}

/// What the shim is asked to do.
#[derive(Clone, Copy, Debug)]
enum Asked {
    Terminate,
    Interrupt,
    HangUp,
    Kill,
}

/// The signals that mean something to a shim.
struct Signals {
    terminate: unix::Signal,
    interrupt: unix::Signal,
    hang_up: unix::Signal,
    kill: unix::Signal,
}

impl Signals {
    fn listen() -> io::Result<Self> {
        Ok(Self {
            terminate: signal(SignalKind::terminate())?,
            interrupt: signal(SignalKind::interrupt())?,
            hang_up: signal(SignalKind::hangup())?,
            kill: signal(SignalKind::user_defined1())?,
        })
    }

    async fn next(&mut self) -> Asked {
        tokio::select! {
            _ = self.terminate.recv() => Asked::Terminate,
            _ = self.interrupt.recv() => Asked::Interrupt,
            _ = self.hang_up.recv() => Asked::HangUp,
            _ = self.kill.recv() => Asked::Kill,
        }
    }
}

async fn keep_attempt(attempt: &Attempt) -> Result<(), Box<dyn Error>> {
    let signals = Signals::listen()?;
    if !told_to_go()? {
        return Ok(());
    }
    let log = LogFile::open(attempt.log(), attempt.rotated_log())?;
    match attempt.launch()?.and_then(|launch| launch.runtime_container) {
        Some(container) => runtime_container::keep(attempt, &container, log, signals).await,
        None => keep_process(attempt, log, signals).await,
    }
}

async fn keep_process(
    attempt: &Attempt,
    mut log: LogFile,
    mut signals: Signals,
) -> Result<(), Box<dyn Error>> {
    let mut child = match spawn(attempt) {
        Ok(child) => child,
        Err(error) => {
            let message = format!("cannot start the process: {error}");
            attempt.write_exit(&start_error(message.clone()))?;
            say(io::stdout(), &message);
            return Ok(());
        }
    };
    let pid = child.id().and_then(|id| Pid::from_raw(id as i32)).ok_or("the process has no pid")?;
    if let Ok(identity) = Identity::of(pid.as_raw_pid()) {
        attempt.write_child(&identity)?;
    }
    let (mut stdout, mut stderr) = (child.stdout.take(), child.stderr.take());
    say(io::stdout(), "started");

    let (mut out, mut err) = (vec![0u8; 32 * 1024], vec![0u8; 32 * 1024]);
    let status = loop {
        tokio::select! {
            status = child.wait() => break status?,
            n = read(&mut stdout, &mut out) => pump(&mut log, Stream::Stdout, &mut stdout, n, &out),
            n = read(&mut stderr, &mut err) => pump(&mut log, Stream::Stderr, &mut stderr, n, &err),
            asked = signals.next() => match asked {
                Asked::Terminate => forward(pid, Signal::TERM),
                Asked::Interrupt => forward(pid, Signal::INT),
                Asked::HangUp => forward(pid, Signal::HUP),
                Asked::Kill => { let _ = kill_process_group(pid, Signal::KILL); }
            },
        }
    };
    // What the process started ends with it, as in a container.
    let _ = kill_process_group(pid, Signal::KILL);
    let drain = async {
        while stdout.is_some() || stderr.is_some() {
            tokio::select! {
                n = read(&mut stdout, &mut out) => pump(&mut log, Stream::Stdout, &mut stdout, n, &out),
                n = read(&mut stderr, &mut err) => pump(&mut log, Stream::Stderr, &mut stderr, n, &err),
            }
        }
    };
    // A process that left its group may hold the pipes open; the exit is recorded all the same.
    let _ = tokio::time::timeout(DRAIN_LIMIT, drain).await;
    log.finish();
    attempt.write_exit(&exit_of(status, attempt))?;
    Ok(())
}

/// Prints a line; the node that would read it may be gone, and the disk full.
fn say(mut to: impl Write, line: &str) {
    let _ = writeln!(to, "{line}").and_then(|()| to.flush());
}

/// Reads the node's line; false when the node died before it had recorded this shim.
fn told_to_go() -> io::Result<bool> {
    let mut line = String::new();
    io::stdin().read_line(&mut line)?;
    Ok(line.trim() == "go")
}

fn spawn(attempt: &Attempt) -> io::Result<Child> {
    // The same program in its second stage: std::env::current_exe would fail after an upgrade replaced the file.
    let own_args: Vec<OsString> = std::env::args_os().collect();
    let before_stage = own_args.len().saturating_sub(2);
    Command::new(Path::new("/proc/self/exe"))
        .args(own_args.iter().take(before_stage).skip(1))
        .arg("exec")
        .arg(attempt.directory())
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .process_group(0)
        .spawn()
}

fn forward(pid: Pid, signal: Signal) {
    // To the process alone, as a container runtime does; the group only gets SIGKILL.
    let _ = rustix::process::kill_process(pid, signal);
}

async fn read(pipe: &mut Option<impl AsyncRead + Unpin>, buffer: &mut [u8]) -> io::Result<usize> {
    match pipe {
        Some(pipe) => pipe.read(buffer).await,
        None => std::future::pending().await,
    }
}

fn pump<P>(log: &mut LogFile, stream: Stream, pipe: &mut Option<P>, read: io::Result<usize>, buffer: &[u8]) {
    match read {
        Ok(0) | Err(_) => *pipe = None,
        Ok(n) => log.append(stream, buffer.get(..n).unwrap_or_default(), Timestamp::now()),
    }
}

fn start_error(message: String) -> Exit {
    Exit {
        code: i32::from(EXEC_FAILED),
        signal: None,
        reason: "StartError".into(),
        message: Some(message),
        finished_at: Timestamp::now(),
    }
}

fn exit_of(status: ExitStatus, attempt: &Attempt) -> Exit {
    if let Ok(message) = fs::read_to_string(attempt.start_error()) {
        return start_error(message);
    }
    let signal = status.signal();
    let code = status.code().unwrap_or_else(|| 128 + signal.unwrap_or(0));
    Exit {
        code,
        signal,
        reason: if code == 0 { "Completed" } else { "Error" }.into(),
        message: None,
        finished_at: Timestamp::now(),
    }
}
