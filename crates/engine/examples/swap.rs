//! What a new plan costs: `cargo run --release -p causeway-engine --example swap`. Prints milliseconds to validate, to
//! compare and to take into use plans of 10,000 and 100,000 routes, each with a cluster of its own: all routes new, and
//! one changed. A client that asks without pause meanwhile, through the engine and beside it, tells whether the cores
//! were held up.
#![allow(clippy::unwrap_used, reason = "a tool for developers: it may end with a backtrace")]

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::{Duration, Instant};

use causeway_engine::{Engine, Options};
use causeway_ir::{Action, Cluster, Endpoint, Name, Pattern, Plan, Protocol, TlsRoute};
use tokio::sync::watch;

/// Changes of each kind; the median counts.
const ROUNDS: usize = 9;

fn plan(count: usize, letter: char, echo: SocketAddr) -> Plan {
    let text = "listeners:\n- {name: in, bind: '127.0.0.1:0', protocol: {tls: {routes: []}}}\n\
                - {name: echo, bind: '127.0.0.1:0', protocol: {tcp: {name: all, action: {forward: echo}}}}";
    let mut plan: Plan = serde_saphyr::from_str(text).unwrap();
    plan.clusters.push(Cluster::new(Name::parse("echo").unwrap(), vec![Endpoint::new(echo)]));
    for i in 0..count {
        let name = Name::parse(&format!("{letter}{i}")).unwrap();
        let address = SocketAddr::from(([10, 0, (i >> 8 & 255) as u8, (i & 255) as u8], 443));
        plan.clusters.push(Cluster::new(name.clone(), vec![Endpoint::new(address)]));
        routes(&mut plan).push(TlsRoute {
            server_names: vec![Pattern::parse(&format!("{name}.example.test")).unwrap()],
            action: Action::forward(name.clone()),
            name,
            connection_limit: None,
        });
    }
    plan
}

/// The routes of the first listener.
fn routes(plan: &mut Plan) -> &mut Vec<TlsRoute> {
    let Protocol::Tls(tls) = &mut plan.listeners[0].protocol else { unreachable!("it is TLS") };
    &mut tls.routes
}

fn millis(began: Instant) -> f64 {
    began.elapsed().as_secs_f64() * 1000.0
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

/// Gives back what it gets, on as many connections as come.
fn echo() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            std::thread::spawn(move || {
                let mut byte = [0];
                while let Ok(1) = stream.read(&mut byte) {
                    stream.write_all(&byte).unwrap();
                }
            });
        }
    });
    address
}

/// Round trips on several connections, so that every core has some; tells how long they took.
fn probe(address: SocketAddr, times_tx: Sender<f64>) {
    std::thread::spawn(move || {
        let mut streams: Vec<_> = (0..8).map(|_| TcpStream::connect(address).unwrap()).collect();
        for stream in &streams {
            stream.set_nodelay(true).unwrap();
        }
        loop {
            for stream in &mut streams {
                let began = Instant::now();
                if stream.write_all(&[1]).is_err() || stream.read_exact(&mut [0]).is_err() {
                    return;
                }
                if times_tx.send(millis(began)).is_err() {
                    return;
                }
            }
            std::thread::sleep(Duration::from_millis(1));
        }
    });
}

#[tokio::main]
async fn main() {
    println!(
        "routes   change   validate   diff   in use (all included)   longest round trip: through   beside, ms"
    );
    let echo = echo();
    for count in [10_000, 100_000] {
        let (plan_tx, plan_rx) = watch::channel(None);
        let engine = Engine::start(plan_rx, &Options::default()).unwrap();
        let handle = engine.handle();
        let mut old = Arc::new(plan(0, 'a', echo));
        plan_tx.send_replace(Some(Arc::clone(&old)));
        handle.settled(&old).await;
        let listeners = handle.status().listeners;
        let address = listeners.iter().find(|listener| listener.name == "echo").unwrap().address.unwrap();
        let (times_tx, times_rx) = channel();
        probe(address, times_tx);
        let (beside_tx, beside_rx) = channel();
        probe(echo, beside_tx);
        for what in ["nothing", "whole", "one"] {
            let (mut validate, mut diff, mut used) = (Vec::new(), Vec::new(), Vec::new());
            for round in 0..ROUNDS {
                let mut next = match what {
                    "whole" => plan(count, ['b', 'c'][round % 2], echo),
                    _ => Plan::clone(&old),
                };
                if what == "one" {
                    let names = &mut routes(&mut next)[count / 2].server_names;
                    names.truncate(1);
                    names.push(Pattern::parse(&format!("another{round}.example.test")).unwrap());
                }
                let next = Arc::new(next);
                tokio::time::sleep(Duration::from_millis(50)).await;
                if round == 0 {
                    times_rx.try_iter().chain(beside_rx.try_iter()).for_each(drop);
                }
                let began = Instant::now();
                assert!(next.validate_after(&old).is_empty());
                validate.push(millis(began));
                let began = Instant::now();
                let changes = causeway_ir::diff(&old, &next);
                diff.push(millis(began));
                assert_eq!(changes.routes.changed.len(), usize::from(what == "one"));
                let began = Instant::now();
                plan_tx.send_replace(Some(Arc::clone(&next)));
                assert!(handle.settled(&next).await);
                used.push(millis(began));
                old = next;
            }
            let longest = |trips: &Receiver<f64>| trips.try_iter().fold(0.0, f64::max);
            println!(
                "{count:6} {what:>8} {:10.1} {:6.1} {:23.1} {:29.1} {:8.1}",
                median(validate),
                median(diff),
                median(used),
                longest(&times_rx),
                longest(&beside_rx)
            );
        }
        engine.shutdown().await;
    }
}
