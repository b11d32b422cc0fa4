//! What a new plan costs: `cargo run --release -p causeway-engine --example swap`. Prints milliseconds to validate, to
//! compare and to take into use plans of 10,000 and 100,000 routes, each with a cluster of its own, whole and with one
//! route changed.
#![allow(clippy::unwrap_used, reason = "a tool for developers: it may end with a backtrace")]

use std::sync::Arc;
use std::time::Instant;

use causeway_engine::{Engine, Options};
use causeway_ir::{Cluster, Endpoint, Plan, Route};
use tokio::sync::watch;

fn plan(count: usize) -> Plan {
    let text = "listeners: [{name: in, bind: '127.0.0.1:0', sniff: tls, routes: []}]";
    let mut plan: Plan = serde_saphyr::from_str(text).unwrap();
    for i in 0..count {
        let name = format!("c{i}");
        plan.clusters.push(Cluster::new(
            name.clone(),
            vec![Endpoint::new(format!("10.0.{}.{}:443", i >> 8 & 255, i & 255))],
        ));
        let server_names = vec![format!("n{i}.example.test")];
        plan.listeners[0].routes.push(Route {
            name: format!("r{i}"),
            server_names,
            cluster: name,
            connection_limit: None,
        });
    }
    plan
}

fn millis(began: Instant) -> f64 {
    began.elapsed().as_secs_f64() * 1000.0
}

#[tokio::main]
async fn main() {
    println!("routes   change   validate   diff   in use (all included), ms");
    for count in [10_000, 100_000] {
        let (plan_tx, plan_rx) = watch::channel(None);
        let engine = Engine::start(plan_rx, &Options::default()).unwrap();
        let handle = engine.handle();
        let mut old = Arc::new(Plan::default());
        let whole = plan(count);
        let mut one = whole.clone();
        one.listeners[0].routes[count / 2].server_names.push("another.example.test".into());
        for (what, next) in [("whole", whole), ("one", one)] {
            let next = Arc::new(next);
            let began = Instant::now();
            assert!(next.validate().is_empty());
            let validate = millis(began);
            let began = Instant::now();
            let changes = causeway_ir::diff(&old, &next);
            let diff = millis(began);
            assert_eq!(changes.routes.changed.len(), usize::from(what == "one"));
            let began = Instant::now();
            plan_tx.send_replace(Some(Arc::clone(&next)));
            assert!(handle.settled(&next).await);
            println!("{count:6} {what:>8} {validate:10.1} {diff:6.1} {:8.1}", millis(began));
            old = next;
        }
        engine.shutdown().await;
    }
}
