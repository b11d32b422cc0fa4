//! Threads that ask for one name over and over, each request on a connection of its own: as fast as it goes, or at a pace.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use crate::tls::Client;

pub struct Load {
    shared: Arc<Shared>,
    threads: Vec<JoinHandle<()>>,
}

#[derive(Default)]
struct Shared {
    stop: AtomicBool,
    answered: AtomicUsize,
    failures: Mutex<Vec<String>>,
}

impl Load {
    pub fn start(client: &Client, host: &'static str, threads: usize) -> Self {
        Self::paced(&vec![client.clone(); threads], host, Duration::ZERO)
    }

    /// A thread for each client, which asks once in `pace`; one that had to wait makes up for it.
    pub fn paced(clients: &[Client], host: &'static str, pace: Duration) -> Self {
        let shared = Arc::new(Shared::default());
        let threads = clients.iter().enumerate().map(|(number, client)| {
            let (shared, client) = (Arc::clone(&shared), client.clone());
            std::thread::spawn(move || {
                let begun = Instant::now();
                let mut due = begun;
                while !shared.stop.load(Ordering::Relaxed) {
                    std::thread::sleep(due.saturating_duration_since(Instant::now()));
                    due += pace;
                    match client.ask(host) {
                        Ok(_) => {
                            shared.answered.fetch_add(1, Ordering::Relaxed);
                        }
                        Err(error) => {
                            let text = format!("client {number} after {:?}: {error}", begun.elapsed());
                            shared.failures.lock().unwrap().push(text);
                        }
                    }
                }
            })
        });
        let threads = threads.collect();
        Self { shared, threads }
    }

    pub fn answered(&self) -> usize {
        self.shared.answered.load(Ordering::Relaxed)
    }

    /// How many requests were answered, and what the others met.
    pub fn stop(self) -> (usize, Vec<String>) {
        self.shared.stop.store(true, Ordering::Relaxed);
        for thread in self.threads {
            thread.join().unwrap();
        }
        let failures = std::mem::take(&mut *self.shared.failures.lock().unwrap());
        (self.shared.answered.load(Ordering::Relaxed), failures)
    }
}
