//! A relay that asks for addresses of ever new clients, many at a time, and remembers each that it was promised.

use std::collections::HashMap;
use std::net::{Ipv4Addr, UdpSocket};
use std::os::fd::AsFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};

const COOKIE: [u8; 4] = [99, 130, 83, 99];
/// Clients that ask at one time.
const AT_ONCE: u32 = 32;

/// A load that runs until it is stopped.
pub(crate) struct Load {
    stop: Arc<AtomicBool>,
    served: Arc<AtomicBool>,
    thread: JoinHandle<HashMap<u32, Ipv4Addr>>,
}

impl Load {
    /// Begins to ask, from a machine's namespace and its address there; the first client has this number.
    pub(crate) fn start(machine: &str, from: Ipv4Addr, server: &'static str, first: u32) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let served = Arc::new(AtomicBool::new(false));
        let (told, serves, machine) = (Arc::clone(&stop), Arc::clone(&served), machine.to_owned());
        let thread = std::thread::spawn(move || {
            let namespace = std::fs::File::open(format!("/var/run/netns/{machine}")).unwrap();
            move_into_link_name_space(namespace.as_fd(), Some(LinkNameSpaceType::Network)).unwrap();
            let socket = UdpSocket::bind((from, 67)).unwrap();
            socket.set_read_timeout(Some(Duration::from_millis(20))).unwrap();
            ask(&socket, from, server, first, &told, &serves)
        });
        Self { stop, served, thread }
    }

    /// Whether a client has got an address.
    pub(crate) fn is_served(&self) -> bool {
        self.served.load(Ordering::Relaxed)
    }

    /// Ends it; returns the addresses that were promised, by client.
    pub(crate) fn stop(self) -> HashMap<u32, Ipv4Addr> {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.join().unwrap()
    }
}

fn ask(
    socket: &UdpSocket,
    from: Ipv4Addr,
    server: &str,
    first: u32,
    stop: &AtomicBool,
    served: &AtomicBool,
) -> HashMap<u32, Ipv4Addr> {
    let mut promised = HashMap::new();
    let mut next = first;
    let mut discover = || {
        next += 1;
        // A server that was killed refuses what comes meanwhile.
        let _ = socket.send_to(&message(1, next, from, &[]), (server, 67));
    };
    let mut buffer = [0; 2048];
    (0..AT_ONCE).for_each(|_| discover());
    while !stop.load(Ordering::Relaxed) {
        let Ok((length, _)) = socket.recv_from(&mut buffer) else {
            // Lost, or the server is gone: others instead.
            (0..AT_ONCE).for_each(|_| discover());
            continue;
        };
        let reply = &buffer[..length];
        let client = u32::from_be_bytes(reply[4..8].try_into().unwrap());
        let address: [u8; 4] = reply[16..20].try_into().unwrap();
        match reply[242] {
            2 => {
                let wanted = [&[50, 4][..], &address, &[54, 4, 10, 77, 0, 2]].concat();
                let _ = socket.send_to(&message(3, client, from, &wanted), (server, 67));
            }
            5 => {
                promised.insert(client, address.into());
                served.store(true, Ordering::Relaxed);
                discover();
            }
            kind => panic!("an answer of type {kind}"),
        }
    }
    promised
}

fn message(kind: u8, client: u32, relay: Ipv4Addr, options: &[u8]) -> Vec<u8> {
    let mut bytes = vec![0; 240];
    bytes[..4].copy_from_slice(&[1, 1, 6, 1]);
    bytes[4..8].copy_from_slice(&client.to_be_bytes());
    bytes[24..28].copy_from_slice(&relay.octets());
    bytes[28..30].copy_from_slice(&[2, 1]);
    bytes[30..34].copy_from_slice(&client.to_be_bytes());
    bytes[236..].copy_from_slice(&COOKIE);
    bytes.extend_from_slice(&[53, 1, kind]);
    bytes.extend_from_slice(options);
    bytes.push(255);
    bytes
}
