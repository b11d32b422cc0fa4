//! The process in a network of its own: it makes that network, starts the command in it as its child, and makes sockets there
//! for whoever started it, which is outside. It talks to that one through its standard input; the command's own comes with the
//! first message. When the one outside is gone, so is the command.
//!
//! Namespaces are made by a process with one thread, so nothing here waits with an async runtime.

use std::ffi::OsString;
use std::fs;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::process::ExitStatusExt as _;
use std::process::{Child, Command, ExitCode, ExitStatus, Stdio};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use anyhow::Context;
use causeway_base::lock::lock;
use causeway_netstack::tun;
use causeway_node::networks::lead_loopback;
use ipnet::{IpNet, Ipv4Net};
use nix::sched::{CloneFlags, unshare};
use nix::sys::signal::{SigSet, Signal as Blocked};
use rustix::net::{AddressFamily, SocketFlags, SocketType, socket_with};
use rustix::process::{Pid, Signal, geteuid, kill_process};

use super::ports::listening::inquirer;
use super::protocol::{self, Ask, Inside, Wanted};

/// How long a command has to end after the one outside is gone.
const END: Duration = Duration::from_secs(5);
/// The usual exit codes of what could not be found and could not be started.
const NOT_FOUND: u8 = 127;
const NOT_STARTED: u8 = 126;

/// Runs the command that follows in `args`; what it ends with.
pub(crate) fn main(args: impl Iterator<Item = OsString>) -> ExitCode {
    let Ok(outside) = io::stdin().as_fd().try_clone_to_owned() else { return ExitCode::FAILURE };
    let Ok(Some((wanted, stdin))) = protocol::receive::<Wanted>(&outside) else { return ExitCode::FAILURE };
    // A terminal's signals are for the command.
    let _ = blocked().thread_block();
    let device = match make(&wanted) {
        Ok(device) => device,
        Err(error) => {
            let _ = protocol::send(&outside, &Inside::Impossible(format!("{error:#}")), None);
            return ExitCode::FAILURE;
        }
    };
    if protocol::send(&outside, &Inside::Ready, Some(&device)).is_err() {
        return ExitCode::FAILURE;
    }
    drop(device);
    let Ok(Some((Ask::Start, _))) = protocol::receive::<Ask>(&outside) else { return ExitCode::FAILURE };
    let command: Vec<OsString> = args.collect();
    match start(&command, stdin) {
        Ok(child) => attend(child, &outside),
        Err(error) => {
            let code = if error.kind() == io::ErrorKind::NotFound { NOT_FOUND } else { NOT_STARTED };
            let _ = protocol::send(&outside, &Inside::NotStarted(error.to_string()), None);
            ExitCode::from(code)
        }
    }
}

fn blocked() -> SigSet {
    [Blocked::SIGINT, Blocked::SIGQUIT, Blocked::SIGHUP, Blocked::SIGTERM].into_iter().collect()
}

/// Makes the network; its device.
fn make(wanted: &Wanted) -> anyhow::Result<OwnedFd> {
    let mut settings = tun::Settings::new(wanted.addresses.clone());
    for (file, place) in &wanted.files {
        // Often a link to something that a daemon writes.
        let place = fs::canonicalize(place).with_context(|| format!("there is no {place}"))?;
        settings.files.push((file.into(), place));
    }
    // Who may do so without a user namespace keeps all users and groups.
    let is_root = geteuid().is_root() && unshare(CloneFlags::CLONE_NEWNET | CloneFlags::CLONE_NEWNS).is_ok();
    let device = if is_root { tun::set_up(&settings) } else { tun::enter(&settings) }?;
    let loopback: Vec<Ipv4Net> = wanted.loopback.iter().filter_map(v4).collect();
    let own = wanted.addresses.iter().find_map(v4);
    if let Some(own) = own {
        lead_loopback(&settings.name, own.addr(), &loopback)
            .context("the cluster's loopback can't be led here")?;
    }
    Ok(device)
}

fn v4(network: &IpNet) -> Option<Ipv4Net> {
    match network {
        IpNet::V4(network) => Some(*network),
        IpNet::V6(_) => None,
    }
}

fn start(command: &[OsString], stdin: Option<OwnedFd>) -> io::Result<Child> {
    let (program, args) = command.split_first().ok_or(io::ErrorKind::InvalidInput)?;
    let mut command = Command::new(program);
    command.args(args).stdin(stdin.map_or_else(Stdio::null, Stdio::from));
    // A child begins with what its parent takes.
    let _ = blocked().thread_unblock();
    let child = command.spawn();
    let _ = blocked().thread_block();
    child
}

/// Serves the one outside until the command ends; what it ended with.
fn attend(mut child: Child, outside: &OwnedFd) -> ExitCode {
    let pid = Pid::from_raw(child.id().cast_signed());
    // Set when the command has ended: its number may be another's then.
    let ended = Arc::new(Mutex::new(None::<ExitStatus>));
    let answering = {
        let (outside, ended) = (outside.as_fd().try_clone_to_owned(), Arc::clone(&ended));
        outside.map(|outside| std::thread::spawn(move || answer(&outside, pid, &ended)))
    };
    let status = child.wait();
    *lock(&ended) = status.as_ref().ok().copied();
    // It goes with this process.
    drop(answering);
    match status {
        Ok(status) => ExitCode::from(code_of(status)),
        Err(_) => ExitCode::FAILURE,
    }
}

/// The exit code as a shell tells it.
pub(super) fn code_of(status: ExitStatus) -> u8 {
    let code = status.code().unwrap_or_else(|| 128 + status.signal().unwrap_or_default());
    u8::try_from(code).unwrap_or(1)
}

fn answer(outside: &OwnedFd, pid: Option<Pid>, ended: &Mutex<Option<ExitStatus>>) {
    let signal = |signal: Signal| {
        let ended = lock(ended);
        if let (Some(pid), None) = (pid, *ended) {
            let _ = kill_process(pid, signal);
        }
    };
    while let Ok(Some((ask, _))) = protocol::receive::<Ask>(outside) {
        let socket = match ask {
            Ask::Stream { ipv6 } => make_socket(ipv6, SocketType::STREAM),
            Ask::Datagrams { ipv6 } => make_socket(ipv6, SocketType::DGRAM),
            Ask::Inquirer => inquirer(),
            Ask::Signal { number } => {
                if let Some(named) = Signal::from_named_raw(number) {
                    signal(named);
                }
                continue;
            }
            Ask::Start => continue,
        };
        let sent = match socket {
            Ok(socket) => protocol::send(outside, &Inside::Socket, Some(&socket)),
            Err(error) => protocol::send(outside, &Inside::NoSocket(error.to_string()), None),
        };
        if sent.is_err() {
            break;
        }
    }
    // Nobody carries its packets any more.
    signal(Signal::TERM);
    let since = Instant::now();
    while since.elapsed() < END && lock(ended).is_none() {
        std::thread::sleep(Duration::from_millis(50));
    }
    signal(Signal::KILL);
}

fn make_socket(ipv6: bool, kind: SocketType) -> io::Result<OwnedFd> {
    let family = if ipv6 { AddressFamily::INET6 } else { AddressFamily::INET };
    Ok(socket_with(family, kind, SocketFlags::CLOEXEC | SocketFlags::NONBLOCK, None)?)
}
