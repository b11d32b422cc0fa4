//! Clients that open stream after stream and check every byte that comes back.

use std::io::{self, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// A stream that is stuck longer than this has failed.
const PATIENCE: Duration = Duration::from_secs(5);
/// Between two streams that failed.
const PAUSE: Duration = Duration::from_millis(10);

pub struct Load {
    shared: Arc<Shared>,
    clients: Vec<JoinHandle<()>>,
}

struct Shared {
    address: Mutex<SocketAddr>,
    stop: AtomicBool,
    passed: AtomicU64,
    broken: AtomicU64,
    corrupt: AtomicU64,
    since: Mutex<Since>,
}

/// What became of streams that were opened after a moment.
#[derive(Clone)]
pub struct Since {
    from: Instant,
    /// In a row, up to now.
    pub passed: u64,
    /// When the last one that failed was opened, and how it failed.
    pub failure: Option<(Instant, String)>,
}

impl Since {
    fn new() -> Self {
        Self { from: Instant::now(), passed: 0, failure: None }
    }
}

impl Load {
    /// So many clients at the same time, of streams of up to so many bytes.
    pub fn start(address: SocketAddr, clients: u64, bytes: usize) -> Self {
        let shared = Arc::new(Shared {
            address: Mutex::new(address),
            stop: AtomicBool::new(false),
            passed: AtomicU64::new(0),
            broken: AtomicU64::new(0),
            corrupt: AtomicU64::new(0),
            since: Mutex::new(Since::new()),
        });
        let clients = (1..=clients)
            .map(|seed| {
                let shared = shared.clone();
                std::thread::spawn(move || shared.run(seed, bytes))
            })
            .collect();
        Self { shared, clients }
    }

    /// The tunnel is here now.
    pub fn aim(&self, address: SocketAddr) {
        *self.shared.address.lock().unwrap() = address;
    }

    /// From now on only streams count that are opened from now on.
    pub fn mark(&self) {
        *self.shared.since.lock().unwrap() = Since::new();
    }

    pub fn since(&self) -> Since {
        self.shared.since.lock().unwrap().clone()
    }

    pub fn passed(&self) -> u64 {
        self.shared.passed.load(Ordering::Relaxed)
    }

    /// Streams that broke; those with wrong bytes are not among them.
    pub fn broken(&self) -> u64 {
        self.shared.broken.load(Ordering::Relaxed)
    }

    /// Ends it; no byte may have come back wrong.
    pub fn end(mut self) -> (u64, u64) {
        self.halt();
        assert_eq!(self.shared.corrupt.load(Ordering::Relaxed), 0, "bytes came back wrong");
        (self.passed(), self.broken())
    }

    fn halt(&mut self) {
        self.shared.stop.store(true, Ordering::Relaxed);
        for client in self.clients.drain(..) {
            client.join().unwrap();
        }
    }
}

impl Drop for Load {
    fn drop(&mut self) {
        self.shared.stop.store(true, Ordering::Relaxed);
    }
}

impl Shared {
    fn run(&self, seed: u64, bytes: usize) {
        let mut dice = Dice(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15));
        while !self.stop.load(Ordering::Relaxed) {
            let start = Instant::now();
            let address = *self.address.lock().unwrap();
            let size = 1 + usize::try_from(dice.next() % bytes as u64).unwrap();
            let outcome = stream(address, dice.next(), size);
            // This machine has no port left for a client until those of streams that ended are free again.
            if outcome.as_ref().is_err_and(|error| error.kind() == io::ErrorKind::AddrNotAvailable) {
                std::thread::sleep(PAUSE);
                continue;
            }
            let mut since = self.since.lock().unwrap();
            let counts = start >= since.from;
            match outcome {
                Ok(()) => {
                    self.passed.fetch_add(1, Ordering::Relaxed);
                    since.passed += u64::from(counts);
                }
                Err(error) => {
                    let corrupt = error.kind() == io::ErrorKind::InvalidData;
                    let counter = if corrupt { &self.corrupt } else { &self.broken };
                    counter.fetch_add(1, Ordering::Relaxed);
                    if counts {
                        since.passed = 0;
                        since.failure = Some((start, error.to_string()));
                    }
                    drop(since);
                    std::thread::sleep(PAUSE);
                }
            }
        }
    }
}

/// Numbers that look random, the same for the same seed.
struct Dice(u64);

impl Dice {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }
}

/// One stream with its own bytes: there and back, with half-close. `InvalidData` if a byte differs.
fn stream(address: SocketAddr, seed: u64, size: usize) -> io::Result<()> {
    let mut dice = Dice(seed | 1);
    let mut sent: Vec<u8> = Vec::with_capacity(size + 8);
    while sent.len() < size {
        sent.extend_from_slice(&dice.next().to_le_bytes());
    }
    let mut stream = TcpStream::connect_timeout(&address, PATIENCE)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.set_write_timeout(Some(PATIENCE))?;
    let mut writer = stream.try_clone()?;
    let mut back = Vec::with_capacity(sent.len());
    let (wrote, read) = std::thread::scope(|scope| {
        let wrote = scope.spawn(|| writer.write_all(&sent).and_then(|()| writer.shutdown(Shutdown::Write)));
        let read = stream.read_to_end(&mut back);
        if read.is_err() {
            let _ = stream.shutdown(Shutdown::Both);
        }
        (wrote.join().unwrap(), read)
    });
    if !sent.starts_with(&back) {
        return Err(io::Error::new(io::ErrorKind::InvalidData, "bytes came back wrong"));
    }
    wrote?;
    read?;
    if back.len() < sent.len() {
        return Err(io::Error::new(io::ErrorKind::UnexpectedEof, "the stream was cut"));
    }
    Ok(())
}
