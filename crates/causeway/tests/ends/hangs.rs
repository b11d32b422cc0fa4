//! An end that hangs, as a process that was stopped does: its kernel still takes connections and bytes.

use std::net::{Ipv4Addr, TcpStream};
use std::time::{Duration, Instant};

use causeway_ir::tunnel::LinkState;
use causeway_testkit::PATIENCE;
use causeway_testkit::blocking::eventually;
use causeway_testkit::server::signal;

use crate::host_end::{Ends, echo, round};

/// Three seconds of silence, and a loaded machine.
const SECONDS: Duration = Duration::from_secs(8);

#[test]
fn a_client_end_that_hangs_is_missed_within_seconds() {
    let ends = Ends::start(&[echo()], 1024);
    let [port] = ends.ports();
    signal(ends.client.id(), "STOP");
    let stopped = Instant::now();
    ends.until("the link is down", |status| status.link != LinkState::Up);
    assert!(stopped.elapsed() < SECONDS, "{:?}", stopped.elapsed());
    signal(ends.client.id(), "CONT");
    assert_eq!(ends.ports(), [port], "the same port when it goes on");
}

#[test]
fn a_host_end_that_hangs_is_missed_within_seconds_by_the_client_end() {
    let ends = Ends::start(&[echo()], 1024);
    let [port] = ends.ports();
    signal(ends.host.id(), "STOP");
    let stopped = Instant::now();
    eventually("clients are refused", PATIENCE, || TcpStream::connect((Ipv4Addr::LOCALHOST, port)).is_err());
    assert!(stopped.elapsed() < SECONDS, "{:?}", stopped.elapsed());
    signal(ends.host.id(), "CONT");
    assert_eq!(ends.ports(), [port], "the same port when it goes on");
    eventually("streams pass", PATIENCE, || {
        let mut stream = TcpStream::connect((Ipv4Addr::LOCALHOST, port)).ok()?;
        round(&mut stream).ok()
    });
}
