//! Threads that ask for one name over and over, each request on a connection of its own.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;

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
        let shared = Arc::new(Shared::default());
        let threads = (0..threads).map(|_| {
            let (shared, client) = (Arc::clone(&shared), client.clone());
            std::thread::spawn(move || {
                while !shared.stop.load(Ordering::Relaxed) {
                    match client.ask(host) {
                        Ok(_) => {
                            shared.answered.fetch_add(1, Ordering::Relaxed);
                        }
                        Err(error) => shared.failures.lock().unwrap().push(error.to_string()),
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
