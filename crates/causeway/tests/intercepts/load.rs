//! Clients that never stop asking, each with a connection of its own for each request.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use causeway_testkit::PATIENCE;
use causeway_testkit::blocking::eventually;

/// What became of one request: who answered, or what went wrong.
pub fn ask(address: &str, headers: &[&str]) -> Result<String, String> {
    ask_at(address, 80, headers)
}

/// The same at another port.
pub fn ask_at(address: &str, port: u16, headers: &[&str]) -> Result<String, String> {
    let failed = |what: &str, error: std::io::Error| format!("{what}: {error}");
    let mut stream = TcpStream::connect((address, port)).map_err(|error| failed("connect", error))?;
    let limit = Some(Duration::from_secs(10));
    stream.set_read_timeout(limit).map_err(|error| failed("limit", error))?;
    let mut request = format!("GET /load HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\n");
    for header in headers {
        request += &format!("{header}\r\n");
    }
    request += "\r\n";
    stream.write_all(request.as_bytes()).map_err(|error| failed("write", error))?;
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).map_err(|error| failed("read", error))?;
    let answer = String::from_utf8_lossy(&answer);
    let (head, body) = answer.split_once("\r\n\r\n").ok_or_else(|| format!("no answer: {answer:?}"))?;
    if !head.starts_with("HTTP/1.1 200") {
        return Err(head.lines().next().unwrap_or_default().to_owned());
    }
    // The body of an answer in pieces begins with the length of the first.
    let is_in_pieces = head.to_ascii_lowercase().contains("transfer-encoding: chunked");
    Ok(body.lines().nth(usize::from(is_in_pieces)).unwrap_or_default().to_owned())
}

/// Clients at work.
pub struct Load {
    stop: Arc<AtomicBool>,
    count: Arc<AtomicUsize>,
    last: Arc<Mutex<String>>,
    clients: Vec<JoinHandle<Vec<String>>>,
}

impl Load {
    /// Asks a Service with these headers; whoever is not among `answerers` is wrong.
    pub fn start(address: &str, headers: &[&'static str], answerers: &[&'static str]) -> Self {
        let (stop, count) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicUsize::new(0)));
        let last = Arc::new(Mutex::new(String::new()));
        let began = Instant::now();
        let client = |_| {
            let (stop, count, last) = (stop.clone(), count.clone(), last.clone());
            let (address, headers, answerers) = (address.to_owned(), headers.to_vec(), answerers.to_vec());
            std::thread::spawn(move || {
                let mut bad = Vec::new();
                while !stop.load(Ordering::Relaxed) {
                    let at = began.elapsed();
                    match ask(&address, &headers) {
                        Ok(name) if answerers.contains(&name.as_str()) => {
                            count.fetch_add(1, Ordering::Relaxed);
                            *last.lock().unwrap() = name;
                        }
                        Ok(name) => bad.push(format!("{at:?}: answered by {name:?}")),
                        Err(error) => bad.push(format!("{at:?}: {error}")),
                    }
                    std::thread::sleep(Duration::from_millis(2));
                }
                bad
            })
        };
        let clients = (0..2).map(client).collect();
        Self { stop, count, last, clients }
    }

    /// Waits for so many further good answers.
    pub fn goes_on(&self, more: usize) {
        let goal = self.count.load(Ordering::Relaxed) + more;
        eventually("requests go on", PATIENCE, || self.count.load(Ordering::Relaxed) >= goal);
    }

    /// Who answered last.
    pub fn answered_by(&self) -> String {
        self.last.lock().unwrap().clone()
    }

    /// Ends; all that went wrong.
    pub fn end(self) -> Vec<String> {
        self.stop.store(true, Ordering::Relaxed);
        self.clients.into_iter().flat_map(|client| client.join().unwrap()).collect()
    }
}
