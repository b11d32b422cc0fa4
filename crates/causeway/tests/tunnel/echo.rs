//! Services of the host that send everything back, and clients that check it.

use std::io::{self, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

const PATIENCE: Duration = Duration::from_secs(10);

/// An echo server for connections; it listens until it is dropped.
pub struct Echo {
    pub address: SocketAddr,
    stop: Arc<AtomicBool>,
    accepted: Arc<AtomicU64>,
    task: Option<JoinHandle<()>>,
}

impl Echo {
    pub fn start() -> Self {
        Self::on("127.0.0.1:0".parse().unwrap(), "")
    }

    /// One that says its name first, to tell several apart.
    pub fn named(name: &'static str) -> Self {
        Self::on("127.0.0.1:0".parse().unwrap(), name)
    }

    pub fn on(address: SocketAddr, name: &'static str) -> Self {
        let listener = TcpListener::bind(address).unwrap();
        let address = listener.local_addr().unwrap();
        let stop = Arc::new(AtomicBool::new(false));
        let accepted = Arc::new(AtomicU64::new(0));
        let (stopped, counted) = (stop.clone(), accepted.clone());
        let task = std::thread::spawn(move || {
            for stream in listener.incoming() {
                if stopped.load(Ordering::Relaxed) {
                    return;
                }
                if let Ok(stream) = stream {
                    counted.fetch_add(1, Ordering::Relaxed);
                    std::thread::spawn(move || drop(answer(stream, name)));
                }
            }
        });
        Self { address, stop, accepted, task: Some(task) }
    }

    /// How many connections it has taken.
    pub fn accepted(&self) -> u64 {
        self.accepted.load(Ordering::Relaxed)
    }
}

impl Drop for Echo {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        // One more connection wakes it.
        let _ = TcpStream::connect(self.address);
        if let Some(task) = self.task.take() {
            let _ = task.join();
        }
    }
}

fn answer(mut stream: TcpStream, name: &str) -> io::Result<()> {
    stream.write_all(name.as_bytes())?;
    let mut reader = stream.try_clone()?;
    io::copy(&mut reader, &mut stream)?;
    stream.shutdown(Shutdown::Write)
}

/// An echo server for datagrams, as long as the tests run.
pub fn datagrams() -> SocketAddr {
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    let address = socket.local_addr().unwrap();
    std::thread::spawn(move || {
        let mut buffer = vec![0; 65536];
        while let Ok((length, peer)) = socket.recv_from(&mut buffer) {
            let _ = socket.send_to(&buffer[..length], peer);
        }
    });
    address
}

pub fn dial(address: SocketAddr) -> io::Result<TcpStream> {
    let stream = TcpStream::connect_timeout(&address, PATIENCE)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.set_write_timeout(Some(PATIENCE))?;
    Ok(stream)
}

/// Sends a word over an open stream and reads it back.
pub fn echoes(stream: &mut TcpStream, word: &str) -> io::Result<()> {
    stream.write_all(word.as_bytes())?;
    let mut back = vec![0; word.len()];
    stream.read_exact(&mut back)?;
    if back == word.as_bytes() { Ok(()) } else { Err(io::Error::other("changed on the way")) }
}

/// Dials, sends a word and its end, and reads everything back.
pub fn round(address: SocketAddr, word: &str) -> io::Result<String> {
    let mut stream = dial(address)?;
    stream.write_all(word.as_bytes())?;
    stream.shutdown(Shutdown::Write)?;
    let mut back = String::new();
    stream.read_to_string(&mut back)?;
    Ok(back)
}

/// Whether a datagram comes back.
pub fn datagram_round(address: SocketAddr, word: &str) -> io::Result<bool> {
    let socket = UdpSocket::bind(if address.is_ipv4() { "0.0.0.0:0" } else { "[::]:0" })?;
    socket.connect(address)?;
    socket.set_read_timeout(Some(Duration::from_secs(2)))?;
    socket.send(word.as_bytes())?;
    let mut back = [0; 2048];
    let length = socket.recv(&mut back)?;
    Ok(&back[..length] == word.as_bytes())
}
