//! A machine with `wireguard-go` on it, and the hub that it talks to.

use std::net::SocketAddr;
use std::process::{Child, Command, Output, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};

use causeway_netstack::wireguard::{Config, Hub, Peer, SecretKey, bind};
use causeway_netstack::{Arrivals, Stack};
use causeway_testkit::{eventually, peer};
use nix::sched::{CloneFlags, unshare};

/// Runs a test in a network of its own, unless that can't be had.
pub fn alone(test: impl AsyncFnOnce()) {
    let missing =
        ["ip", "wireguard-go", "wg", "curl", "nft", "busybox", "python3"].into_iter().find(|program| {
            !std::env::split_paths(&std::env::var_os("PATH").unwrap())
                .any(|path| path.join(program).is_file())
        });
    let is_root = rustix::process::geteuid().is_root();
    if let Some(program) = missing.or((!is_root).then_some("root")) {
        peer::skip(&format!("{program}, for a real peer of WireGuard"));
        return;
    }
    // Of this thread, and of those that it starts.
    unshare(CloneFlags::CLONE_NEWNET).unwrap();
    ip("link set lo up");
    tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .unwrap()
        .block_on(test());
}

fn ip(arguments: &str) {
    let output = Command::new("ip").args(arguments.split(' ')).output().unwrap();
    assert!(output.status.success(), "ip {arguments}: {}", String::from_utf8_lossy(&output.stderr));
}

/// The other machine; all of it goes with the value.
pub struct Machine {
    name: String,
    daemon: Child,
}

/// Where the hub is for the machine, and the addresses in the tunnel.
const HUB: &str = "192.0.2.1";
const MACHINE: &str = "10.7.0.2";

impl Machine {
    /// A machine with a tunnel to the hub, whose key and port are known.
    pub async fn new(secret: &SecretKey, hub: &Hub) -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let name = format!("wg{:x}n{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
        ip(&format!("netns add {name}"));
        ip(&format!("link add {name}c type veth peer name eth0 netns {name}"));
        ip(&format!("address add {HUB}/24 dev {name}c"));
        ip(&format!("link set {name}c up"));
        ip(&format!("-n {name} link set lo up"));
        ip(&format!("-n {name} link set eth0 up"));
        ip(&format!("-n {name} address add 192.0.2.2/24 dev eth0"));
        let daemon = Command::new("ip")
            .args(["netns", "exec", &name, "wireguard-go", "--foreground", &name])
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let machine = Self { name, daemon };
        let key = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(&key, secret.to_base64()).unwrap();
        let path = key.path().to_str().unwrap();
        let endpoint = format!("{HUB}:{}", hub.local_addr().port());
        let public = hub.public_key().to_string();
        eventually("wireguard-go takes its settings", async || {
            let networks = "10.7.0.0/24,10.96.0.0/16,fd00:7::/64,fd00:96::/64";
            let set = [
                "set",
                &machine.name,
                "private-key",
                path,
                "peer",
                &public,
                "endpoint",
                &endpoint,
                "allowed-ips",
                networks,
                "persistent-keepalive",
                "1",
            ];
            let output = machine.run("wg", &set).await;
            if output.status.success() { Ok(()) } else { Err(text(&output.stderr)) }
        })
        .await;
        let name = &machine.name;
        ip(&format!("-n {name} address add {MACHINE}/24 dev {name}"));
        ip(&format!("-n {name} address add fd00:7::2/64 dev {name} nodad"));
        ip(&format!("-n {name} link set {name} mtu 1420 up"));
        ip(&format!("-n {name} route add 10.96.0.0/16 dev {name}"));
        ip(&format!("-n {name} route add fd00:96::/64 dev {name}"));
        machine
    }

    fn command(&self, program: &str) -> tokio::process::Command {
        let mut command = tokio::process::Command::new("ip");
        command.args(["netns", "exec", &self.name, program]).stdin(Stdio::null());
        command
    }

    /// Runs a program there to its end.
    pub async fn run(&self, program: &str, arguments: &[&str]) -> Output {
        self.command(program).args(arguments).output().await.unwrap()
    }

    /// What a program there prints; it must succeed.
    pub async fn ask(&self, program: &str, arguments: &[&str]) -> String {
        let output = self.run(program, arguments).await;
        assert!(output.status.success(), "{program} {arguments:?}: {}", text(&output.stderr));
        text(&output.stdout)
    }

    /// Starts a program there that ends with the value.
    pub fn start(&self, program: &str, arguments: &[&str]) -> tokio::process::Child {
        let mut command = self.command(program);
        command.args(arguments).stdout(Stdio::null()).stderr(Stdio::null()).kill_on_drop(true);
        command.spawn().unwrap()
    }

    /// Loses so many of a thousand datagrams, both ways.
    pub async fn lose(&self, thousandth: u32) {
        for (chain, hook, card) in [("inward", "input", "iif"), ("outward", "output", "oif")] {
            let commands = format!(
                "add table inet loss; add chain inet loss {chain} {{ type filter hook {hook} priority 0; }}; \
                 add rule inet loss {chain} {card} eth0 meta l4proto udp numgen random mod 1000 < {thousandth} drop"
            );
            self.ask("nft", &[&commands]).await;
        }
    }

    /// Moves it to another address.
    pub async fn move_to(&self, address: &str) {
        self.ask("ip", &["address", "flush", "dev", "eth0", "scope", "global"]).await;
        self.ask("ip", &["address", "add", address, "dev", "eth0"]).await;
        // This wireguard-go goes on sending from an address that it has no longer, until it opens another socket.
        let port = (20_000 + std::process::id() % 10_000 + u32::from(address.as_bytes()[8])).to_string();
        self.ask("wg", &["set", &self.name, "listen-port", &port]).await;
    }
}

impl Drop for Machine {
    fn drop(&mut self) {
        // `ip netns exec` becomes what it runs, so this is its pid.
        let _ = self.daemon.kill();
        let _ = self.daemon.wait();
        let _ = Command::new("ip").args(["netns", "delete", &self.name]).output();
        let _ = std::fs::remove_file(format!("/var/run/wireguard/{}.sock", self.name));
    }
}

pub fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// A hub with a stack, and a machine that is its peer.
pub async fn world() -> (Hub, Stack, Arrivals, Machine) {
    let secret = SecretKey::generate();
    let (hub, device) = bind(Config::new(SecretKey::generate(), SocketAddr::from(([0; 16], 0)))).unwrap();
    let allowed = [format!("{MACHINE}/32"), "fd00:7::2/128".to_owned()];
    hub.set_peers(vec![Peer::new(secret.public(), allowed.iter().map(|net| net.parse().unwrap()).collect())]);
    let (stack, arrivals) = Stack::start(device, &causeway_netstack::Config::default());
    let machine = Machine::new(&secret, &hub).await;
    eventually("a handshake", async || {
        hub.standings().values().any(|status| status.last_handshake.is_some())
    })
    .await;
    (hub, stack, arrivals, machine)
}
