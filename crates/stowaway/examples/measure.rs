//! Figures of the two ends, each in a process of its own on this machine:
//! `measure bulk [SECONDS]`, `measure streams [SECONDS]`, `measure crowd [WORKSTATIONS] [INTERCEPTS]`.
//! Build it with `--release`; the path is client → proxy of the laptop → link → hub → server, plain TCP at both ends.

#![allow(clippy::expect_used, clippy::print_stdout, reason = "a tool for people who measure")]

use std::io::{BufRead as _, BufReader, Write as _};
use std::net::{Ipv4Addr, SocketAddr};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

use causeway_link::{Authority, Identity, Role};
use causeway_stowaway::hub::{self, Grant, Reach, Workstation};
use causeway_stowaway::laptop::proxy::Proxy;
use causeway_stowaway::laptop::{self, Approach};
use causeway_stowaway::{STOWAWAY, carrier_name, workstation_name};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};

/// Bytes that are written at once.
const PIECE: usize = 256 << 10;

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let number = |at: usize, or: u64| arguments.get(at).map_or(or, |text| text.parse().expect("a number"));
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().expect("a runtime");
    let _inside = runtime.enter();
    match arguments.first().map(String::as_str) {
        Some("hub") => runtime.block_on(run_hub(number(1, 1), number(2, 0))),
        Some("laptop") => runtime.block_on(run_laptop(arguments[1].parse().expect("an address"))),
        Some("bulk") => runtime.block_on(bulk(number(1, 5))),
        Some("streams") => runtime.block_on(streams(number(1, 5))),
        Some("crowd") => runtime.block_on(crowd(number(1, 1000), number(2, 100))),
        _ => println!("measure bulk|streams [SECONDS], measure crowd [WORKSTATIONS] [INTERCEPTS]"),
    }
}

fn uid(number: u64) -> String {
    format!("00000000-0000-4000-8000-{number:012x}")
}

fn any() -> SocketAddr {
    (Ipv4Addr::LOCALHOST, 0).into()
}

/// A hub that knows so many workstations; says its port and its authority, and reads until told to end.
async fn run_hub(workstations: u64, intercepts: u64) {
    let authority = Authority::new().expect("keys");
    let identity = authority.issue(Role::Listener, STOWAWAY).expect("keys");
    let config = hub::Config {
        name: "measured".to_owned(),
        link: any(),
        carriers: any(),
        wireguard: Some(any()),
        identity,
        wireguard_key: Some([7; 32]),
    };
    let hub = hub::start(config).await.expect("ports");
    let known = (0..workstations).map(|number| {
        let mut key = [0; 32];
        key[..8].copy_from_slice(&(number + 1).to_be_bytes());
        let address = Ipv4Addr::from_bits(0x6440_0000 + number as u32 + 2).into();
        let label = format!("team/{number}");
        Workstation { uid: uid(number), label, wireguard_key: Some(key), address: Some(address) }
    });
    hub.set_workstations(known.collect());
    let granted = (0..intercepts).map(|number| Grant {
        carrier: carrier_name(&uid(number)),
        workstation: uid(number % workstations.max(1)),
        address: None,
        port: 3000 + (number % 1000) as u16,
    });
    hub.set_grants(granted.collect());
    // As a cluster has them: some thousand Services with three names each.
    let services = (0..5000_u32).map(|number| Ipv4Addr::from_bits(0x0a60_0000 + number).into());
    let names = services.clone().enumerate().flat_map(|(number, address)| {
        ["", ".svc", ".svc.cluster.local"].map(|end| (format!("service-{number}.shop{end}"), vec![address]))
    });
    let mut reach = Reach { names: names.collect(), ..Reach::default() };
    reach.addresses = services.chain([Ipv4Addr::LOCALHOST.into()]).collect();
    hub.set_reach(reach);
    println!("{}", hub.addresses().link);
    println!("{}", authority.to_pem().replace('\n', "|"));
    std::io::stdout().flush().expect("writes");
    tokio::task::spawn_blocking(wait_for_end).await.expect("no panic");
}

/// A laptop with its proxy; reads its identity, says the proxy's address, and reads until told to end.
async fn run_laptop(hub: SocketAddr) {
    let mut pem = String::new();
    std::io::stdin().read_line(&mut pem).expect("reads");
    let identity = Identity::from_pem(&pem.replace('|', "\n")).expect("an identity");
    let laptop = laptop::start(laptop::Config::new(identity, vec![Approach::Direct(vec![hub.to_string()])]));
    connected(&laptop).await;
    let proxy = Proxy::bind(any(), None, Arc::new(laptop)).await.expect("a port");
    println!("{}", proxy.address());
    std::io::stdout().flush().expect("writes");
    tokio::task::spawn_blocking(wait_for_end).await.expect("no panic");
}

async fn connected(laptop: &laptop::Handle) {
    let mut state = laptop.state();
    state.wait_for(|state| state.connection.is_some()).await.expect("runs");
}

fn wait_for_end() {
    for line in std::io::stdin().lines() {
        drop(line);
    }
}

/// A process of this program.
struct Part {
    child: Child,
    lines: BufReader<std::process::ChildStdout>,
}

impl Part {
    fn start(arguments: &[&str]) -> Self {
        let program = std::env::current_exe().expect("this program");
        let mut command = Command::new(program);
        let mut child =
            command.args(arguments).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("starts");
        let lines = BufReader::new(child.stdout.take().expect("piped"));
        Self { child, lines }
    }

    fn line(&mut self) -> String {
        let mut line = String::new();
        self.lines.read_line(&mut line).expect("reads");
        line.trim().to_owned()
    }

    fn say(&mut self, line: &str) {
        writeln!(self.child.stdin.as_mut().expect("piped"), "{line}").expect("writes");
    }

    /// Processor time so far.
    fn seconds(&self) -> f64 {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", self.child.id())).expect("reads");
        let fields: Vec<&str> = stat[stat.rfind(')').expect("a name") + 2..].split(' ').collect();
        let ticks: u64 = fields[11..13].iter().map(|field| field.parse::<u64>().expect("a number")).sum();
        ticks as f64 / 100.0
    }

    fn memory(&self) -> u64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.child.id())).expect("reads");
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).expect("a line");
        line.trim().trim_end_matches(" kB").parse().expect("a number")
    }
}

impl Drop for Part {
    fn drop(&mut self) {
        drop(self.child.stdin.take());
        self.child.wait().ok();
    }
}

/// A hub and a laptop; gives the proxy's address.
fn pair() -> (Part, Part, SocketAddr) {
    let mut hub = Part::start(&["hub", "1"]);
    let (link, authority) = (hub.line(), hub.line().replace('|', "\n"));
    let authority = Authority::from_pem(&authority).expect("an authority");
    let identity = authority.issue(Role::Dialer, &workstation_name(&uid(0))).expect("keys");
    let mut laptop = Part::start(&["laptop", &link]);
    laptop.say(&identity.to_pem().replace('\n', "|"));
    let proxy = laptop.line().parse().expect("an address");
    (hub, laptop, proxy)
}

async fn through(proxy: SocketAddr, to: SocketAddr) -> TcpStream {
    let mut stream = TcpStream::connect(proxy).await.expect("connects");
    stream.set_nodelay(true).expect("an option");
    let [high, low] = to.port().to_be_bytes();
    stream.write_all(&[5, 1, 0, 5, 1, 0, 1, 127, 0, 0, 1, high, low]).await.expect("writes");
    let mut answer = [0; 12];
    stream.read_exact(&mut answer).await.expect("reads");
    assert_eq!(answer[3], 0, "refused");
    stream
}

async fn bulk(seconds: u64) {
    let (hub, laptop, proxy) = pair();
    let listener = TcpListener::bind(any()).await.expect("a port");
    let to = listener.local_addr().expect("an address");
    let received = Arc::new(AtomicU64::new(0));
    let counted = received.clone();
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let counted = counted.clone();
            tokio::spawn(async move {
                let mut piece = vec![0; PIECE];
                while let Ok(count) = stream.read(&mut piece).await {
                    counted.fetch_add(count as u64, Relaxed);
                    if count == 0 {
                        return;
                    }
                }
            });
        }
    });
    for count in [1, 16] {
        let mut writers = tokio::task::JoinSet::new();
        for _ in 0..count {
            let mut stream = through(proxy, to).await;
            writers.spawn(async move {
                let piece = vec![7; PIECE];
                while stream.write_all(&piece).await.is_ok() {}
            });
        }
        tokio::time::sleep(Duration::from_millis(500)).await;
        let (bytes, before, began) =
            (received.load(Relaxed), hub.seconds() + laptop.seconds(), Instant::now());
        tokio::time::sleep(Duration::from_secs(seconds)).await;
        let (bytes, spent) = (received.load(Relaxed) - bytes, hub.seconds() + laptop.seconds() - before);
        let gibibytes = bytes as f64 / (1_u64 << 30) as f64;
        let speed = bytes as f64 * 8e-9 / began.elapsed().as_secs_f64();
        println!("{count:2} streams: {speed:.1} Gbit/s, {:.2} CPU s/GiB of both ends", spent / gibibytes);
        writers.shutdown().await;
    }
}

async fn streams(seconds: u64) {
    let (hub, laptop, proxy) = pair();
    let listener = TcpListener::bind(any()).await.expect("a port");
    let to = listener.local_addr().expect("an address");
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            tokio::spawn(async move {
                let byte = stream.read_u8().await.unwrap_or_default();
                stream.write_u8(byte).await.ok();
            });
        }
    });
    let (done, began, before) =
        (Arc::new(AtomicU64::new(0)), Instant::now(), hub.seconds() + laptop.seconds());
    let mut clients = tokio::task::JoinSet::new();
    for _ in 0..16 {
        let done = done.clone();
        clients.spawn(async move {
            while began.elapsed() < Duration::from_secs(seconds) {
                let mut stream = through(proxy, to).await;
                stream.write_u8(7).await.expect("writes");
                stream.read_u8().await.expect("reads");
                done.fetch_add(1, Relaxed);
            }
        });
    }
    clients.join_all().await;
    let done = done.load(Relaxed) as f64;
    let spent = hub.seconds() + laptop.seconds() - before;
    println!(
        "{:.0} streams/s, {:.2} CPU s per 10,000 of both ends",
        done / began.elapsed().as_secs_f64(),
        spent / done * 1e4
    );
}

async fn crowd(workstations: u64, intercepts: u64) {
    let mut hub = Part::start(&["hub", &workstations.to_string(), &intercepts.to_string()]);
    let (link, authority) = (hub.line(), hub.line().replace('|', "\n"));
    let authority = Authority::from_pem(&authority).expect("an authority");
    println!("alone: {} MiB", hub.memory() >> 10);
    let began = Instant::now();
    let mut laptops = Vec::new();
    for number in 0..workstations {
        let identity = authority.issue(Role::Dialer, &workstation_name(&uid(number))).expect("keys");
        let config = laptop::Config::new(identity, vec![Approach::Direct(vec![link.clone()])]);
        laptops.push(laptop::start(config));
    }
    for laptop in &laptops {
        connected(laptop).await;
    }
    println!(
        "{workstations} connected after {:.1} s: {} MiB",
        began.elapsed().as_secs_f64(),
        hub.memory() >> 10
    );
    for _ in 0..3 {
        let before = hub.seconds();
        tokio::time::sleep(Duration::from_secs(3)).await;
        println!(
            "at rest: {} MiB, {:.1} % of a core",
            hub.memory() >> 10,
            (hub.seconds() - before) / 3.0 * 100.0
        );
    }
}
