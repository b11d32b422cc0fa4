//! A resolver in the test's own hands, which may lie.

use std::net::{SocketAddr, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

/// Answers until the process ends.
pub(crate) struct Resolver {
    pub(crate) address: SocketAddr,
    asked: Arc<AtomicUsize>,
}

impl Resolver {
    /// `answer` gets each question with the socket that it came to and who sent it. Probes of the server are not shown to it.
    pub(crate) fn start(answer: impl Fn(&UdpSocket, &[u8], SocketAddr) + Send + 'static) -> Self {
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        let address = socket.local_addr().unwrap();
        let asked = Arc::new(AtomicUsize::new(0));
        let count = Arc::clone(&asked);
        std::thread::spawn(move || {
            let mut buffer = [0; 4096];
            while let Ok((length, from)) = socket.recv_from(&mut buffer) {
                let question = &buffer[..length];
                if !is_probe(&crate::message::name(question)) {
                    count.fetch_add(1, Relaxed);
                    answer(&socket, question, from);
                }
            }
        });
        Self { address, asked }
    }

    /// How many questions came.
    pub(crate) fn asked(&self) -> usize {
        self.asked.load(Relaxed)
    }
}

/// Names like `0-1.7f…`, by which a server finds out whether its questions come back to it.
fn is_probe(name: &str) -> bool {
    name.split_once('.')
        .is_some_and(|(_, top)| top.len() == 32 && top.bytes().all(|byte| byte.is_ascii_hexdigit()))
}
