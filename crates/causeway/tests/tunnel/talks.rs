//! Streams that stay open and never rest: whatever happens around them, every byte must come back as it was sent.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;

use causeway_testkit::blocking::eventually;

/// A stream that is stuck longer than this has failed.
const PATIENCE: Duration = Duration::from_secs(20);
/// Between two rounds: enough of them pass in any interruption.
const PAUSE: Duration = Duration::from_millis(2);

pub struct Talks {
    shared: Arc<Shared>,
    threads: Vec<JoinHandle<()>>,
}

#[derive(Default)]
struct Shared {
    stop: AtomicBool,
    rounds: Vec<AtomicU64>,
    failure: Mutex<Option<String>>,
}

impl Talks {
    /// Opens so many streams, of pieces of up to so many bytes.
    pub fn open(address: SocketAddr, streams: usize, bytes: usize) -> Self {
        let rounds = (0..streams).map(|_| AtomicU64::new(0)).collect();
        let shared = Arc::new(Shared { rounds, ..Shared::default() });
        let threads = (0..streams)
            .map(|number| {
                let stream = TcpStream::connect_timeout(&address, PATIENCE).unwrap();
                stream.set_read_timeout(Some(PATIENCE)).unwrap();
                stream.set_write_timeout(Some(PATIENCE)).unwrap();
                let shared = shared.clone();
                std::thread::spawn(move || {
                    if let Err(error) = shared.talk(number, stream, bytes) {
                        *shared.failure.lock().unwrap() = Some(format!("stream {number}: {error}"));
                    }
                })
            })
            .collect();
        Self { shared, threads }
    }

    /// Rounds of the stream that has had fewest.
    pub fn rounds(&self) -> u64 {
        self.fail_early();
        self.shared.rounds.iter().map(|rounds| rounds.load(Ordering::Relaxed)).min().unwrap_or(0)
    }

    /// Every stream goes on from here.
    pub fn go_on(&self, what: &str) {
        let before: Vec<_> = self.shared.rounds.iter().map(|rounds| rounds.load(Ordering::Relaxed)).collect();
        let is_past = || {
            self.shared
                .rounds
                .iter()
                .zip(&before)
                .all(|(now, before)| now.load(Ordering::Relaxed) > before + 10)
        };
        eventually(&format!("every stream goes on: {what}"), PATIENCE, || {
            self.fail_early();
            is_past()
        });
    }

    /// Closes the streams; none may have failed.
    pub fn close(mut self) -> u64 {
        self.shared.stop.store(true, Ordering::Relaxed);
        for thread in self.threads.drain(..) {
            thread.join().unwrap();
        }
        self.rounds()
    }

    fn fail_early(&self) {
        let failure = self.shared.failure.lock().unwrap().clone();
        assert_eq!(failure, None, "an open stream broke");
    }
}

impl Shared {
    fn talk(&self, number: usize, mut stream: TcpStream, bytes: usize) -> io::Result<()> {
        let mut state = 0x9e37_79b9_7f4a_7c15_u64.wrapping_mul(number as u64 + 1);
        let mut back = Vec::new();
        while !self.stop.load(Ordering::Relaxed) {
            let size = 8 + (state >> 20) as usize % bytes;
            let mut sent = Vec::with_capacity(size + 8);
            while sent.len() < size {
                state ^= state << 13;
                state ^= state >> 7;
                state ^= state << 17;
                sent.extend_from_slice(&state.to_le_bytes());
            }
            back.resize(sent.len(), 0);
            stream.write_all(&sent)?;
            stream.read_exact(&mut back)?;
            if back != sent {
                return Err(io::Error::other("bytes came back wrong"));
            }
            self.rounds[number].fetch_add(1, Ordering::Relaxed);
            std::thread::sleep(PAUSE);
        }
        Ok(())
    }
}
