//! Requests that go on while things change.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread::JoinHandle;

use crate::backend::curl;

/// Clients that ask again and again, each with a connection of its own for each request.
pub(crate) struct Load {
    stop: Arc<AtomicBool>,
    good: Arc<AtomicUsize>,
    clients: Vec<JoinHandle<Vec<String>>>,
}

impl Load {
    /// Asks with these arguments of curl, by several clients; an answer is good if it contains one of these words.
    pub(crate) fn start(args: Vec<String>, words: &'static [&'static str]) -> Self {
        let (stop, good) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicUsize::new(0)));
        let client = || {
            let (stop, good, args) = (stop.clone(), good.clone(), args.clone());
            std::thread::spawn(move || {
                let args: Vec<&str> = args.iter().map(String::as_str).collect();
                let mut bad = Vec::new();
                while !stop.load(Ordering::Relaxed) {
                    let answer = curl(&args);
                    if words.iter().any(|word| answer.contains(word)) {
                        good.fetch_add(1, Ordering::Relaxed);
                    } else {
                        bad.push(answer);
                    }
                }
                bad
            })
        };
        let clients = (0..3).map(|_| client()).collect();
        Self { stop, good, clients }
    }

    /// How many answers were good so far.
    pub(crate) fn good(&self) -> usize {
        self.good.load(Ordering::Relaxed)
    }

    /// Ends, and says which answers were bad.
    pub(crate) fn end(self) -> Vec<String> {
        self.stop.store(true, Ordering::Relaxed);
        self.clients.into_iter().flat_map(|client| client.join().unwrap()).collect()
    }
}
