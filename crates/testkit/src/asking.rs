//! Clients that never stop asking for a page, each with a connection of its own for each request: what a workload's users see
//! of what is done to it.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use crate::PATIENCE;
use crate::blocking::eventually;

/// Who ask at the same time.
const CLIENTS: usize = 2;
/// How long an answer may take.
const LIMIT: Duration = Duration::from_secs(10);

/// Asks once: the first line of the answer, which says who answered, or what went wrong.
///
/// # Errors
/// With what went wrong, where it did.
pub fn ask(address: &str, port: u16, headers: &[&str]) -> Result<String, String> {
    let failed = |what: &str, error: std::io::Error| format!("{what}: {error}");
    let at = format!("{address}:{port}").parse().map_err(|error| format!("{address}: {error}"))?;
    let mut stream = TcpStream::connect_timeout(&at, LIMIT).map_err(|error| failed("connect", error))?;
    stream.set_read_timeout(Some(LIMIT)).map_err(|error| failed("limit", error))?;
    let own = [format!("host: {address}"), "connection: close".to_owned()];
    let lines = own.iter().map(String::as_str).chain(headers.iter().copied());
    let request = format!("GET /load HTTP/1.1\r\n{}\r\n\r\n", lines.collect::<Vec<_>>().join("\r\n"));
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

/// What is asked for.
#[derive(Debug, Clone)]
pub struct Asked {
    /// The address and port of a Service.
    pub at: (String, u16),
    /// What each request has.
    pub headers: Vec<&'static str>,
    /// Who may answer: anybody else is wrong.
    pub answerers: Vec<&'static str>,
    /// Between two requests of a client.
    pub pause: Duration,
}

/// Clients at work.
pub struct Load {
    began: Instant,
    stop: Arc<AtomicBool>,
    count: Arc<AtomicUsize>,
    last: Arc<Mutex<String>>,
    clients: Vec<JoinHandle<Vec<String>>>,
}

impl Load {
    /// Begins; `enter` is what each client does first.
    pub fn start(asked: &Asked, enter: impl Fn() + Clone + Send + 'static) -> Self {
        let (stop, count) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicUsize::new(0)));
        let (last, began) = (Arc::new(Mutex::new(String::new())), Instant::now());
        let client = |_| {
            let (stop, count, last) = (stop.clone(), count.clone(), last.clone());
            let (asked, enter) = (asked.clone(), enter.clone());
            std::thread::spawn(move || {
                enter();
                let (address, port) = &asked.at;
                let mut bad = Vec::new();
                while !stop.load(Ordering::Relaxed) {
                    let at = began.elapsed();
                    match ask(address, *port, &asked.headers) {
                        Ok(name) if asked.answerers.contains(&name.as_str()) => {
                            count.fetch_add(1, Ordering::Relaxed);
                            *last.lock().unwrap() = name;
                        }
                        Ok(name) => bad.push(format!("{at:.2?}: answered by {name:?}")),
                        Err(error) => bad.push(format!("{at:.2?}: {error}")),
                    }
                    std::thread::sleep(asked.pause);
                }
                bad
            })
        };
        let clients = (0..CLIENTS).map(client).collect();
        Self { began, stop, count, last, clients }
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

    /// Prints what is done to them at this time, to be found again beside what went wrong.
    pub fn note(&self, what: &str) {
        println!("{:.2?}: {what}", self.began.elapsed());
    }

    /// Ends; how many answers were good, and all that went wrong.
    pub fn end(self) -> (usize, Vec<String>) {
        self.stop.store(true, Ordering::Relaxed);
        let bad = self.clients.into_iter().flat_map(|client| client.join().unwrap()).collect();
        (self.count.load(Ordering::Relaxed), bad)
    }

    /// Ends; fails if anything went wrong.
    pub fn end_well(self, whose: &str) {
        let (good, bad) = self.end();
        println!("requests {whose}: {good} answered, {} failed", bad.len());
        assert!(bad.is_empty() && good > 0, "{} of {good} requests {whose} failed: {bad:#?}", bad.len());
    }
}
