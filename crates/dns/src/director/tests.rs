use std::net::UdpSocket;

use causeway_testkit::{PATIENCE, blocking::eventually};
use tempfile::TempDir;

use super::*;
use crate::cookie::Secret;
use crate::query_log::QueryLog;
use crate::wire::query::tests::question;

const PLAN: &str = "{binds: ['127.0.0.1:0'], views: [{name: all, zones: [{domain: lab.test}]}]}";

fn director() -> (Director, TempDir) {
    let directory = tempfile::tempdir().unwrap();
    let desk = Arc::new(Desk { secret: Secret::new([1; 16]), log: QueryLog::default() });
    let path = directory.path().join("resolv.conf");
    std::fs::write(&path, "nameserver 127.0.0.53\n").unwrap();
    (Director::new(desk, Metrics::new(), 1, path).unwrap().0, directory)
}

fn plan(text: &str) -> Arc<DnsPlan> {
    Arc::new(serde_saphyr::from_str(text).unwrap())
}

#[tokio::test]
async fn a_file_that_names_no_resolver_for_a_moment_changes_nothing() {
    let (mut director, directory) = director();
    director.apply(plan(PLAN));
    let before = Arc::clone(&director.forwarder);
    let path = directory.path().join("resolv.conf");
    for nothing in [Some(""), None] {
        match nothing {
            Some(text) => std::fs::write(&path, text).unwrap(),
            None => std::fs::remove_file(&path).unwrap(),
        }
        director.look_again();
        assert!(Arc::ptr_eq(&before, &director.forwarder), "what is kept is kept");
    }
    std::fs::write(&path, "nameserver 127.0.0.54\n").unwrap();
    director.look_again();
    assert_eq!(director.forwarder.statuses()[0].address.to_string(), "127.0.0.54:53");
}

#[tokio::test]
async fn a_worker_that_ended_is_replaced() {
    let (mut director, _directory) = director();
    director.apply(plan(PLAN));
    let bound = director.binds.values().next().unwrap();
    bound.sockets[0].stop();
    eventually("it ended", PATIENCE, || bound.threads[0].is_finished());
    director.look_again();
    let address = director.status_tx.borrow().listeners[0].address.unwrap();
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    socket.set_read_timeout(Some(PATIENCE)).unwrap();
    socket.send_to(&question("lab.test", 6, None), address).unwrap();
    socket.recv(&mut [0; 512]).expect("an answer");
}
