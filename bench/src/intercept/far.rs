//! A machine that is elsewhere: a network namespace with a cable to the one that this bench runs in, or with a long and bad
//! way to it, which threads of this process are. Both kernels see packets, so whatever is carried meets the same way.

use std::fs::File;
use std::io;
use std::net::Ipv4Addr;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::process::Command;
use std::sync::mpsc::{SyncSender, sync_channel};
use std::time::{Duration, Instant};

use anyhow::{Context, anyhow};
use causeway_netstack::tun;
use nix::sched::{CloneFlags, setns};

use crate::compare::namespace::ip;

/// What the bad way does to packets: a round trip takes twice this, and so many are lost each way.
const DELAY: Duration = Duration::from_millis(10);
const LOST: f64 = 0.001;
/// Packets on the bad way at a time; it is never what is full.
const ON_THE_WAY: usize = 100_000;
const MTU: u16 = 1500;

/// The other machine. It goes with the value.
pub(super) struct Far {
    name: String,
    /// This side's address on the way there, and the other's.
    pub(super) near: Ipv4Addr,
    pub(super) there: Ipv4Addr,
}

impl Far {
    /// At the end of a cable.
    pub(super) fn by_cable() -> anyhow::Result<Self> {
        let far = Self::new("c", 1)?;
        let Self { name, near, there } = &far;
        ip(&format!("link add {name} type veth peer name eth0 netns {name}"))?;
        ip(&format!("address add {near}/24 dev {name}"))?;
        ip(&format!("link set {name} up"))?;
        ip(&format!("-n {name} address add {there}/24 dev eth0"))?;
        ip(&format!("-n {name} link set eth0 up"))?;
        Ok(far)
    }

    /// At the end of a long and bad way.
    pub(super) fn by_bad_way() -> anyhow::Result<Self> {
        let far = Self::new("b", 2)?;
        let near_end = device(&far.name, far.near)?;
        let far_end = far.within(|| device("eth0", far.there))??;
        ip(&format!("link set {} txqueuelen 10000", far.name))?;
        ip(&format!("-n {} link set eth0 txqueuelen 10000", far.name))?;
        let (near, far_too) = (near_end.try_clone()?, far_end.try_clone()?);
        carry(near_end, far_end);
        carry(far_too, near);
        Ok(far)
    }

    fn new(kind: &str, network: u8) -> anyhow::Result<Self> {
        let at = |host: u8| Ipv4Addr::new(10, 9, network, host);
        let name = format!("cwb{}{kind}", std::process::id());
        let far = Self { name, near: at(1), there: at(2) };
        ip(&format!("netns add {}", far.name))?;
        ip(&format!("-n {} link set lo up", far.name))?;
        Ok(far)
    }

    pub(super) fn name(&self) -> &str {
        &self.name
    }

    /// A program there.
    pub(super) fn command(&self, program: &Path) -> Command {
        let mut command = Command::new("ip");
        command.args(["netns", "exec", &self.name]).arg(program);
        command
    }

    /// Does something there, on a thread of this process.
    pub(super) fn within<T: Send>(&self, act: impl FnOnce() -> T + Send) -> anyhow::Result<T> {
        let namespace = File::open(format!("/run/netns/{}", self.name)).context("the namespace is gone")?;
        let done = std::thread::scope(|scope| {
            let there = scope.spawn(|| setns(namespace, CloneFlags::CLONE_NEWNET).map(|()| act()));
            there.join()
        });
        let done = done.map_err(|_| anyhow!("a thread broke down in another namespace"))?;
        done.context("can't enter a namespace")
    }
}

impl Drop for Far {
    fn drop(&mut self) {
        let _ = ip(&format!("netns delete {}", self.name));
    }
}

fn device(name: &str, address: Ipv4Addr) -> anyhow::Result<OwnedFd> {
    let network = format!("{address}/24").parse()?;
    let settings = tun::Settings {
        name: name.to_owned(),
        mtu: MTU,
        addresses: vec![network],
        routes: Vec::new(),
        files: Vec::new(),
    };
    let device = tun::set_up(&settings).context("no device for a long way")?;
    // A thread waits for each.
    rustix::io::ioctl_fionbio(&device, false)?;
    Ok(device)
}

/// Carries packets one way for as long as there is one: late, and some not at all.
fn carry(from: OwnedFd, to: OwnedFd) {
    let (packet_tx, packet_rx) = sync_channel::<(Instant, Vec<u8>)>(ON_THE_WAY); // depart → arrive
    std::thread::spawn(move || depart(&from, &packet_tx));
    std::thread::spawn(move || {
        for (at, packet) in packet_rx {
            std::thread::sleep(at.saturating_duration_since(Instant::now()));
            // One that the other side has no room for is lost.
            let _ = rustix::io::write(&to, &packet);
        }
    });
}

fn depart(from: &OwnedFd, packet_tx: &SyncSender<(Instant, Vec<u8>)>) -> io::Result<()> {
    let mut buffer = vec![0; 1 << 16];
    loop {
        let count = rustix::io::read(from, &mut buffer)?;
        if causeway_base::random::fraction() >= LOST {
            let _ = packet_tx.try_send((Instant::now() + DELAY, buffer[..count].to_vec()));
        }
    }
}
