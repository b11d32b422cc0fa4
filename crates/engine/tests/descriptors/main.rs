//! A process that has no descriptors left; in a test of its own, since all tests of a process share them.
#![allow(clippy::unwrap_used)]

use std::fs::File;
use std::io::Read;
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;

use causeway_engine::{Engine, Handle, Options};
use causeway_testkit::eventually;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use tokio::sync::watch;

/// Opens files until there are no descriptors left.
fn take_all() -> Vec<File> {
    std::iter::from_fn(|| File::open("/dev/null").ok()).collect()
}

fn failures(handle: &Handle) -> u64 {
    handle.clusters()[0].connect_failures
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_connect_without_descriptors_is_not_the_endpoints_fault() {
    let endpoint = TcpListener::bind("127.0.0.1:0").unwrap();
    let plan = format!(
        "listeners: [{{name: in, bind: '127.0.0.1:0', protocol: {{tcp: {{name: r, action: {{forward: c}}}}}}}}]\n\
         clusters: [{{name: c, ejection: {{consecutiveFailures: 1, time: 1h}}, endpoints: [{{address: '{}'}}]}}]",
        endpoint.local_addr().unwrap()
    );
    let plan = Arc::new(serde_saphyr::from_str(&plan).unwrap());
    let (_plan_tx, plan_rx) = watch::channel(Some(Arc::clone(&plan)));
    let engine = Engine::start(plan_rx, &Options { workers: 1, ..Options::default() }).unwrap();
    let handle = engine.handle();
    assert!(handle.settled(&plan).await);
    let address = handle.status().address("in").unwrap();

    let maximum = getrlimit(Resource::Nofile).maximum;
    setrlimit(Resource::Nofile, Rlimit { current: Some(256), maximum }).unwrap();
    let mut taken = take_all();
    // One for the client and one for the engine to accept it with; none to connect with.
    taken.truncate(taken.len() - 2);
    let mut client = TcpStream::connect(address).unwrap();
    eventually("the engine has tried to connect", async || failures(&handle) > 0).await;
    assert!(!handle.clusters()[0].endpoints[0].ejected);
    drop(taken);
    let heard = tokio::task::spawn_blocking(move || client.read(&mut [0])).await.unwrap();
    assert!(matches!(heard, Ok(0) | Err(_)));
    engine.shutdown().await;
}
