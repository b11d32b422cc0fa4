//! Plans that change under traffic: what is open stays open, what is new takes the new way.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};

use causeway_ir::{Pattern, Period, Policy};
use causeway_testkit::{eventually, soon};

use crate::backend::Backend;
use crate::client;
use crate::hello::Hello;
use crate::plans::{by_name, cluster, endpoint, forward, one, plain, plan, route, routes, set_action};
use crate::proxy::{Engine, Proxy};

on_both!(
    a_new_name_answers_and_open_connections_stay,
    a_removed_name_is_unknown,
    a_name_that_moves_takes_new_connections_with_it,
    endpoints_that_change_move_new_connections_only,
    settings_of_a_cluster_change_under_open_connections,
    a_new_listener_answers_and_the_others_stay,
    no_request_fails_while_names_and_endpoints_change,
    a_bad_plan_is_refused_and_the_last_one_runs_on,
);

async fn a_new_name_answers_and_open_connections_stay(engine: Engine) {
    let old = Backend::tls("old", &["old.test"]).await;
    let new = Backend::tls("new", &["new.test", "*.new.test"]).await;
    let listener = by_name("in", [route(&["old.test"], "old")]);
    let mut proxy = Proxy::start(engine, plan([listener], [cluster("old", &[old.address])])).await;
    let address = proxy.address("in");
    let stream = proxy.connect("in").await;
    let mut open = client::tls(client::classic(), stream, "old.test").await.unwrap();
    assert_eq!(client::ask_line(&mut open, "before").await.unwrap(), "old: before");
    assert!(client::get(address, "new.test").await.is_err());
    proxy
        .change(|plan| {
            routes(plan).push(route(&["new.test", "*.new.test"], "new"));
            plan.clusters.push(cluster("new", &[new.address]));
        })
        .await;
    assert_eq!(client::get(address, "new.test").await.unwrap(), "new");
    assert_eq!(client::get(address, "x.new.test").await.unwrap(), "new");
    assert_eq!(client::get(address, "old.test").await.unwrap(), "old");
    assert_eq!(client::ask_line(&mut open, "after").await.unwrap(), "old: after");
    proxy.change(|plan| routes(plan)[0].server_names.push(Pattern::parse("older.test").unwrap())).await;
    assert_eq!(client::ask_line(&mut open, "after that").await.unwrap(), "old: after that");
}

async fn a_removed_name_is_unknown(engine: Engine) {
    let backend = Backend::tls("a", &["a.test", "b.test", "c.test"]).await;
    let listener = by_name("in", [route(&["a.test", "b.test"], "c"), route(&["c.test"], "c")]);
    let mut proxy = Proxy::start(engine, plan([listener], [cluster("c", &[backend.address])])).await;
    let address = proxy.address("in");
    for name in ["a.test", "b.test", "c.test"] {
        assert_eq!(client::get(address, name).await.unwrap(), "a");
    }
    proxy
        .change(|plan| {
            routes(plan).remove(1);
            routes(plan)[0].server_names.remove(1);
        })
        .await;
    for name in ["b.test", "c.test"] {
        assert!(client::get(address, name).await.is_err(), "{name}");
    }
    assert_eq!(client::get(address, "a.test").await.unwrap(), "a");
}

async fn a_name_that_moves_takes_new_connections_with_it(engine: Engine) {
    let (one, two) = (Backend::tls("one", &["a.test"]).await, Backend::tls("two", &["a.test"]).await);
    let listener = by_name("in", [route(&["a.test"], "one")]);
    let clusters = [cluster("one", &[one.address]), cluster("two", &[two.address])];
    let mut proxy = Proxy::start(engine, plan([listener], clusters)).await;
    let stream = proxy.connect("in").await;
    let mut open = client::tls(client::classic(), stream, "a.test").await.unwrap();
    assert_eq!(client::ask_line(&mut open, "before").await.unwrap(), "one: before");
    proxy.change(|plan| routes(plan)[0].action = forward("two")).await;
    assert_eq!(client::get(proxy.address("in"), "a.test").await.unwrap(), "two");
    assert_eq!(client::ask_line(&mut open, "after").await.unwrap(), "one: after");
}

async fn endpoints_that_change_move_new_connections_only(engine: Engine) {
    let (old, new) = (Backend::echo("o").await, Backend::echo("n").await);
    let mut proxy = Proxy::start(engine, one(&[old.address])).await;
    let mut open = proxy.connect("in").await;
    assert_eq!(client::read(&mut open, 1).await, b"o");
    client::say(&mut open, b"before").await;
    proxy.change(|plan| plan.clusters[0].endpoints = vec![endpoint(new.address)]).await;
    for _ in 0..5 {
        assert_eq!(proxy.ask("in", b"!").await, b"n!");
    }
    client::say(&mut open, b"after").await;
    // And back: an endpoint may return.
    proxy.change(|plan| plan.clusters[0].endpoints = vec![endpoint(old.address)]).await;
    for _ in 0..5 {
        assert_eq!(proxy.ask("in", b"!").await, b"o!");
    }
    client::say(&mut open, b"still").await;
}

async fn settings_of_a_cluster_change_under_open_connections(engine: Engine) {
    let backend = Backend::echo("").await;
    let mut proxy = Proxy::start(engine, one(&[backend.address])).await;
    let mut open = proxy.connect("in").await;
    client::say(&mut open, b"before").await;
    proxy
        .change(|plan| {
            plan.clusters[0].policy = Policy::LeastConnections;
            plan.clusters[0].connect_timeout = Period::from_secs(2);
            plan.clusters[0].retries = 0;
        })
        .await;
    assert_eq!(proxy.ask("in", b"new").await, b"new");
    client::say(&mut open, b"after").await;
}

async fn a_new_listener_answers_and_the_others_stay(engine: Engine) {
    let backend = Backend::echo("").await;
    let mut proxy = Proxy::start(engine, one(&[backend.address])).await;
    let mut open = proxy.connect("in").await;
    client::say(&mut open, b"before").await;
    proxy.change(|plan| plan.listeners.push(plain("second", "c"))).await;
    assert_eq!(proxy.ask("second", b"!").await, b"!");
    client::say(&mut open, b"after").await;
}

async fn no_request_fails_while_names_and_endpoints_change(engine: Engine) {
    let backends = [Backend::echo("a").await, Backend::echo("b").await];
    let listener = by_name("in", [route(&["stays.test"], "c")]);
    let mut proxy = Proxy::start(engine, plan([listener], [cluster("c", &[backends[0].address])])).await;
    let address = proxy.address("in");
    let (stop, count) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicUsize::new(0)));
    let load: Vec<_> = (0..4)
        .map(|_| {
            let (stop, count) = (Arc::clone(&stop), Arc::clone(&count));
            tokio::spawn(async move {
                let hello = Hello::to("stays.test").bytes();
                while !stop.load(Relaxed) {
                    let answer = soon("an answer", client::exchange(address, &hello)).await.unwrap();
                    assert_eq!(&answer[1..], hello);
                    count.fetch_add(1, Relaxed);
                }
            })
        })
        .collect();
    for round in 0..12usize {
        let before = count.load(Relaxed);
        eventually("requests go on", async || {
            count.load(Relaxed) >= before + 10 || load.iter().any(tokio::task::JoinHandle::is_finished)
        })
        .await;
        proxy
            .change(|plan| {
                plan.clusters[0].endpoints = vec![endpoint(backends[round % 2].address)];
                let routes = routes(plan);
                if routes.len() > 3 {
                    routes.truncate(1);
                } else {
                    routes.push(route(&[&format!("n{round}.test")], "c"));
                }
            })
            .await;
    }
    stop.store(true, Relaxed);
    for task in load {
        task.await.unwrap();
    }
}

async fn a_bad_plan_is_refused_and_the_last_one_runs_on(engine: Engine) {
    let backend = Backend::echo("a").await;
    let mut proxy = Proxy::start(engine, one(&[backend.address])).await;
    let mut open = proxy.connect("in").await;
    assert_eq!(client::read(&mut open, 1).await, b"a");
    proxy.fail_to_change(|plan| set_action(plan, forward("missing"))).await;
    assert_eq!(proxy.ask("in", b"!").await, b"a!");
    client::say(&mut open, b"still").await;
    proxy.change(|plan| plan.listeners.push(plain("second", "c"))).await;
    assert_eq!(proxy.ask("second", b"!").await, b"a!");
}
