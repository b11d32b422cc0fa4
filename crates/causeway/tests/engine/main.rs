//! `causeway engine` as a process: replaced while it serves, short of descriptors, with its log level changed.
#![allow(clippy::unwrap_used, clippy::panic)]

mod certificates;
mod documents;
mod files;
mod traces;

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::path::Path;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};

use causeway_testkit::PATIENCE;
use causeway_testkit::blocking::eventually;
use causeway_testkit::server::program;

/// A running engine. Killed if it is dropped.
struct Engine {
    child: Child,
    stdout: BufReader<ChildStdout>,
}

impl Engine {
    fn start(command: &mut Command) -> Self {
        let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
        let stdout = BufReader::new(child.stdout.take().unwrap());
        Self { child, stdout }
    }

    fn new(plan: &Path, more: &[&str]) -> Self {
        let mut command = Command::new(program());
        Self::start(command.args(["engine", "--config"]).arg(plan).args(more))
    }

    /// Reads lines until one contains `text`.
    fn line(&mut self, text: &str) -> String {
        loop {
            let mut line = String::new();
            assert!(self.stdout.read_line(&mut line).unwrap() > 0, "ended before it said `{text}`");
            if line.contains(text) {
                return line;
            }
        }
    }

    fn address(&mut self, listener: &str) -> SocketAddr {
        let line = self.line(&format!("{listener} listening on "));
        line.trim().rsplit(' ').next().unwrap().parse().unwrap()
    }

    fn has_ended(&mut self) -> bool {
        self.child.try_wait().unwrap().is_some()
    }
}

impl Drop for Engine {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A server that sends everything back.
fn echo() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            std::thread::spawn(move || std::io::copy(&mut stream.try_clone().unwrap(), &mut stream));
        }
    });
    address
}

fn say(stream: &mut TcpStream, word: &[u8]) -> std::io::Result<()> {
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.write_all(word)?;
    let mut echoed = vec![0; word.len()];
    stream.read_exact(&mut echoed)?;
    assert_eq!(echoed, word);
    Ok(())
}

fn write_plan(path: &Path, endpoint: SocketAddr) {
    let udp = UdpSocket::bind("127.0.0.1:0").unwrap();
    let udp_endpoint = udp.local_addr().unwrap();
    std::thread::spawn(move || {
        let mut buffer = [0; 2048];
        while let Ok((count, from)) = udp.recv_from(&mut buffer) {
            udp.send_to(&buffer[..count], from).unwrap();
        }
    });
    let plan = format!(
        "listeners:\n\
         - {{name: in, bind: '127.0.0.1:0', protocol: {{tcp: {{name: r, action: {{forward: c}}}}}}}}\n\
         - {{name: datagrams, bind: '127.0.0.1:0', protocol: {{udp: {{name: r, action: {{forward: d}}}}}}}}\n\
         clusters:\n\
         - {{name: c, endpoints: [{{address: '{endpoint}'}}]}}\n\
         - {{name: d, idleTimeout: 1s, endpoints: [{{address: '{udp_endpoint}'}}]}}\n\
         drainTimeout: 1m\n"
    );
    std::fs::write(path, plan).unwrap();
}

#[test]
fn a_successor_takes_over_without_a_refused_or_dropped_connection() {
    let directory = tempfile::tempdir().unwrap();
    let (plan, door) = (directory.path().join("plan.yaml"), directory.path().join("door"));
    write_plan(&plan, echo());
    let door = door.to_str().unwrap();
    let mut old = Engine::new(&plan, &["--handover", door, "--admin", "127.0.0.1:0", "--workers", "3"]);
    let address = old.address("in");
    let datagrams = old.address("datagrams");
    let mut kept = TcpStream::connect(address).unwrap();
    say(&mut kept, b"before").unwrap();
    let udp = UdpSocket::bind("127.0.0.1:0").unwrap();
    udp.connect(datagrams).unwrap();
    udp.set_read_timeout(Some(PATIENCE)).unwrap();
    let ask = |word: &[u8]| {
        udp.send(word).unwrap();
        let mut answer = [0; 16];
        let count = udp.recv(&mut answer).unwrap();
        assert_eq!(&answer[..count], word);
    };
    ask(b"before");

    let (stop, served) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
    let load: Vec<_> = (0..8)
        .map(|_| {
            let (stop, served) = (Arc::clone(&stop), Arc::clone(&served));
            std::thread::spawn(move || {
                while !stop.load(Relaxed) {
                    let mut stream = TcpStream::connect(address).expect("no connect fails");
                    say(&mut stream, b"request").expect("no request fails");
                    served.fetch_add(1, Relaxed);
                }
            })
        })
        .collect();
    let served_more = |count: u64| {
        let before = served.load(Relaxed);
        eventually("more requests", PATIENCE, || served.load(Relaxed) >= before + count);
    };
    served_more(50);
    // Fewer cores, then more: every socket is served each time.
    for workers in ["1", "4"] {
        let mut new =
            Engine::new(&plan, &["--handover", door, "--admin", "127.0.0.1:0", "--workers", workers]);
        new.line("taking over");
        assert_eq!(new.address("in"), address);
        assert_eq!(new.address("datagrams"), datagrams);
        old.line("has taken over");
        served_more(50);
        ask(b"after");
        say(&mut kept, b"still here").unwrap();
        if workers == "1" {
            assert!(!old.has_ended(), "a connection is open");
            kept.shutdown(std::net::Shutdown::Write).unwrap();
            assert_eq!(kept.read(&mut [0; 1]).unwrap(), 0);
            kept = TcpStream::connect(address).unwrap();
            say(&mut kept, b"to the second").unwrap();
        } else {
            drop(kept.shutdown(std::net::Shutdown::Both));
        }
        eventually("the old one ends", PATIENCE, || old.has_ended());
        old = new;
    }
    stop.store(true, Relaxed);
    for thread in load {
        thread.join().unwrap();
    }
}

#[test]
fn a_successor_that_dies_before_it_is_ready_changes_nothing() {
    let directory = tempfile::tempdir().unwrap();
    let (plan, door) = (directory.path().join("plan.yaml"), directory.path().join("door"));
    write_plan(&plan, echo());
    let mut old = Engine::new(&plan, &["--handover", door.to_str().unwrap()]);
    let address = old.address("in");
    eventually("the place is there", PATIENCE, || door.exists());
    // It takes the sockets, as a successor would, and is gone before it says that it is ready.
    let path = door.clone();
    drop(causeway_engine::handover::Claim::take(&path).unwrap().unwrap());
    for _ in 0..20 {
        let mut stream = TcpStream::connect(address).unwrap();
        say(&mut stream, b"on").unwrap();
    }
    let mut new = Engine::new(&plan, &["--handover", door.to_str().unwrap()]);
    assert_eq!(new.address("in"), address);
    eventually("the old one ends", PATIENCE, || old.has_ended());
}

/// What a program reads that takes the log from standard output.
#[test]
fn the_access_log_has_standard_output_for_itself() {
    let directory = tempfile::tempdir().unwrap();
    let plan = directory.path().join("plan.yaml");
    write_plan(&plan, echo());
    let said = directory.path().join("said");
    let mut command = Command::new(program());
    command.args(["engine", "--access-log", "-", "--config"]).arg(&plan);
    let mut engine = Engine::start(command.stderr(std::fs::File::create(&said).unwrap()));
    let address: SocketAddr = eventually("it listens", PATIENCE, || {
        let said = std::fs::read_to_string(&said).ok()?;
        said.lines().find_map(|line| line.strip_prefix("in listening on ")?.parse().ok())
    });
    let mut stream = TcpStream::connect(address).unwrap();
    say(&mut stream, b"hello").unwrap();
    drop(stream);
    let mut line = String::new();
    engine.stdout.read_line(&mut line).unwrap();
    let line: serde_json::Value =
        serde_json::from_str(&line).unwrap_or_else(|error| panic!("{line}: {error}"));
    assert_eq!(line["listener"], "in");
}

#[test]
fn without_descriptors_it_refuses_and_recovers() {
    let directory = tempfile::tempdir().unwrap();
    let plan = directory.path().join("plan.yaml");
    write_plan(&plan, echo());
    let script = format!("ulimit -n 320; exec {} engine --config {}", program(), plan.display());
    let mut engine = Engine::start(Command::new("bash").args(["-c", &script]));
    let address = engine.address("in");
    let mut first = TcpStream::connect(address).unwrap();
    say(&mut first, b"first").unwrap();
    let mut held = Vec::new();
    let mut refused = 0;
    for _ in 0..200 {
        let mut stream = TcpStream::connect(address).unwrap();
        match say(&mut stream, b"x") {
            Ok(()) => held.push(stream),
            Err(_) => refused += 1,
        }
    }
    assert!(refused > 0 && !held.is_empty(), "{refused} refused, {} held", held.len());
    say(&mut first, b"still here").unwrap();
    drop(held);
    eventually("it recovers", PATIENCE, || {
        TcpStream::connect(address).and_then(|mut stream| say(&mut stream, b"again")).is_ok()
    });
}

#[test]
fn the_log_level_changes_while_it_runs() {
    let directory = tempfile::tempdir().unwrap();
    let plan = directory.path().join("plan.yaml");
    write_plan(&plan, echo());
    let mut engine = Engine::new(&plan, &["--admin", "127.0.0.1:0"]);
    let line = engine.line("admin on ");
    let admin = line.trim().rsplit('/').next().unwrap().to_owned();
    let ask_as = |host: &str, method: &str, path: &str| {
        let mut stream = TcpStream::connect(&admin).unwrap();
        write!(stream, "{method} {path} HTTP/1.1\r\nhost: {host}\r\nconnection: close\r\n\r\n").unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        answer
    };
    let ask = |method: &str, path: &str| ask_as("localhost", method, path);
    assert!(ask("GET", "/logging").contains("causeway=info"));
    for page in ["localhost\r\norigin: http://evil.test", "evil.test"] {
        let refused = ask_as(page, "POST", "/logging?level=trace");
        assert!(refused.starts_with("HTTP/1.1 403"), "a web page that asks: {refused}");
    }
    assert!(ask("POST", "/logging?level=debug").contains("causeway=debug"));
    assert!(ask("GET", "/logging").contains("causeway=debug"));
    let wrong = ask("PUT", "/logging?level=loud%20");
    assert!(wrong.starts_with("HTTP/1.1 400") && wrong.contains("write a level"), "{wrong}");
    assert!(ask("GET", "/stats/prometheus").contains("envoy_cluster_upstream_cx_active"));
}
