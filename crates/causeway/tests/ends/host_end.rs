//! Both ends in processes of their own, and services behind them.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::os::unix::net::UnixStream;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use causeway_ir::tunnel::protocol::{Line, Status};
use causeway_ir::tunnel::{LinkState, TunnelState, files};
use causeway_testkit::PATIENCE;
use causeway_testkit::blocking::eventually;
use causeway_testkit::port;
use causeway_testkit::server::program;
use serde_json::json;
use tempfile::TempDir;

pub struct Ends {
    pub client: Child,
    pub host: Child,
    dir: TempDir,
}

impl Drop for Ends {
    fn drop(&mut self) {
        for child in [&mut self.host, &mut self.client] {
            // It may have ended already.
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

impl Ends {
    /// Tunnels 1, 2 and so on to these services; the host end may have so many files open.
    pub fn start(services: &[SocketAddr], open_files: u64) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let made = Command::new(program()).args(["tunnel", "identity"]).arg(dir.path()).status().unwrap();
        assert!(made.success());
        let [control, data] = [0; 2].map(|_| SocketAddr::from((Ipv4Addr::LOCALHOST, port::free())));
        let tunnels: Vec<_> = (1..)
            .zip(services)
            .map(|(id, address)| {
                json!({ "id": id, "name": format!("t{id}"), "endpoints": [{ "address": address }] })
            })
            .collect();
        let plan = json!({
            "authority": files::AUTHORITY, "tunnels": tunnels, "dial": { "control": control, "data": data },
        });
        std::fs::write(dir.path().join(files::PLAN), plan.to_string()).unwrap();
        let client = Command::new(program())
            .args(["tunnel", "client", "--identity"])
            .arg(dir.path().join(files::IDENTITY))
            .args(["--control", &control.to_string(), "--data", &data.to_string()])
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        let host = Command::new("sh")
            .args(["-c", &format!("ulimit -n {open_files}; exec \"$0\" tunnel host --dir \"$1\""), program()])
            .arg(dir.path())
            .spawn()
            .unwrap();
        Self { client, host, dir }
    }

    /// What the host end says now.
    pub fn status(&self) -> Option<Status> {
        let socket = UnixStream::connect(self.dir.path().join(files::SOCKET)).ok()?;
        socket.set_read_timeout(Some(Duration::from_secs(1))).ok()?;
        let mut line = String::new();
        BufReader::new(socket).read_line(&mut line).ok()?;
        match serde_json::from_str(&line).ok()? {
            Line::Status(status) => Some(*status),
            Line::Answer { .. } => None,
        }
    }

    /// Waits until it says so.
    pub fn until(&self, what: &str, is_so: impl Fn(&Status) -> bool) -> Status {
        eventually(what, PATIENCE, || self.status().filter(|status| is_so(status)))
    }

    /// Waits until tunnels carry; their ports.
    pub fn ports<const N: usize>(&self) -> [u16; N] {
        let port = |status: &Status, id: usize| match status.tunnels.get(&(id as u32 + 1))?.state {
            TunnelState::Listening { port } => Some(port),
            _ => None,
        };
        let status = self.until("the tunnels carry", |status| {
            status.link == LinkState::Up && (0..N).all(|id| port(status, id).is_some())
        });
        std::array::from_fn(|id| port(&status, id).unwrap())
    }
}

/// A service that sends everything back, for as long as the tests run.
pub fn echo() -> SocketAddr {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            std::thread::spawn(move || std::io::copy(&mut stream.try_clone()?, &mut stream));
        }
    });
    address
}

/// Whether a byte comes back, and how long that took.
pub fn round(stream: &mut TcpStream) -> std::io::Result<Duration> {
    let began = Instant::now();
    stream.set_read_timeout(Some(Duration::from_secs(5)))?;
    stream.write_all(b"x")?;
    stream.read_exact(&mut [0])?;
    Ok(began.elapsed())
}
