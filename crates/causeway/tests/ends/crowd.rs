//! A crowd in two tunnels, with few descriptors in the process that all tunnels share.

use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::time::Duration;

use causeway_testkit::PATIENCE;
use causeway_testkit::blocking::eventually;

use crate::host_end::{Ends, echo, round};

/// Descriptors of the host end: fewer than the crowd wants.
const OPEN_FILES: u64 = 400;
const CROWD: usize = 600;

/// A client of this address.
fn dial(from: Ipv4Addr, port: u16) -> std::io::Result<TcpStream> {
    use rustix::net::{AddressFamily, SocketType, bind, connect, socket};
    let socket = socket(AddressFamily::INET, SocketType::STREAM, None)?;
    bind(&socket, &SocketAddr::from((from, 0)))?;
    connect(&socket, &SocketAddr::from((Ipv4Addr::LOCALHOST, port)))?;
    Ok(socket.into())
}

#[test]
fn a_crowd_in_two_tunnels_is_refused_and_others_are_served() {
    let echo = echo();
    let ends = Ends::start(&[echo, echo, echo], OPEN_FILES);
    let [first, second, third] = ends.ports();
    let (container, other) = (Ipv4Addr::new(127, 0, 0, 9), Ipv4Addr::new(127, 0, 0, 8));
    let mut crowd = Vec::new();
    for place in 0..CROWD {
        // Those that are refused may hear of it before their connect returns.
        crowd.extend(dial(container, if place % 2 == 0 { first } else { second }));
    }
    let status = ends.until("refusals are counted", |status| {
        [1, 2].iter().all(|id| status.tunnels[id].counters.limited > 0)
    });
    assert!(status.streams < OPEN_FILES, "{}", status.streams);
    let used = std::fs::read_dir(format!("/proc/{}/fd", ends.host.id())).unwrap().count() as u64;
    assert!(used < OPEN_FILES * 3 / 4, "{used} of {OPEN_FILES} descriptors are used");
    for _ in 0..20 {
        let took = round(&mut dial(other, third).unwrap()).expect("another tunnel is served");
        assert!(took < Duration::from_secs(1), "{took:?}");
        round(&mut dial(other, first).unwrap()).expect("another client of the same tunnel is served");
    }
    drop(crowd);
    eventually("places are free again", PATIENCE, || round(&mut dial(container, first).ok()?).ok());
}
