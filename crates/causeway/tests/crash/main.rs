//! `kill -9` under load, again and again on one data directory: nothing acknowledged is lost, nothing is half
//! written, and watches tell one story over all restarts.
//!
//! `CAUSEWAY_CRASH_ROUNDS` sets the number of rounds.

#![allow(clippy::unwrap_used, clippy::panic)]

mod follower;
mod generation;
mod ledger;
mod writer;

use std::path::Path;
use std::time::Duration;

use causeway_testkit::Dice;
use causeway_testkit::server::Server;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Api, Client, Config};

use follower::Follower;
use generation::Generation;
use ledger::Ledger;
use writer::Writer;

const WRITERS: usize = 8;
const ROUNDS: usize = 50;
/// How long writers run at most before the kill.
const LONGEST_ROUND: Duration = Duration::from_millis(400);

async fn connect(kubeconfig: &Path) -> Client {
    let kubeconfig = Kubeconfig::read_from(kubeconfig).unwrap();
    let config = Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await.unwrap();
    Client::try_from(config).unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_acknowledged_is_lost_when_the_server_is_killed() {
    let rounds = std::env::var("CAUSEWAY_CRASH_ROUNDS").map_or(ROUNDS, |n| n.parse().unwrap());
    let _ = rustls::crypto::aws_lc_rs::default_provider().install_default();
    let root = tempfile::tempdir().unwrap();
    let mut dice = Dice::from_env("CAUSEWAY_CRASH_SEED");
    println!("seed {}", dice.seed());
    let mut ledgers: Vec<Ledger> = (0..WRITERS).map(Ledger::new).collect();
    let mut follower = Follower::default();
    let mut generation = Generation::default();
    let (mut acknowledged, mut newest) = (0, 0);
    for round in 0..=rounds {
        let mut server = Server::start_in(root.path(), &["--no-node", "--no-operator"]);
        // A client of its own for each writer, so that each has its own connection.
        let reader: Api<ConfigMap> = Api::namespaced(connect(&server.kubeconfig()).await, "default");
        let revision = ledger::check(&reader, &mut ledgers, newest).await;
        follower.catch_up(&reader, revision).await;
        let deployments = Api::namespaced(connect(&server.kubeconfig()).await, "default");
        generation.check(&deployments).await;
        if round == rounds {
            server.stop();
            break;
        }
        let mut writers = Vec::new();
        for ledger in std::mem::take(&mut ledgers) {
            let api = Api::namespaced(connect(&server.kubeconfig()).await, "default");
            writers.push(tokio::spawn(Writer::new(api, ledger, dice.split()).run()));
        }
        let following = tokio::spawn(follower.run(reader));
        let counting = tokio::spawn(generation.run(deployments));
        tokio::time::sleep(dice.below_duration(LONGEST_ROUND)).await;
        server.kill();
        for writer in writers {
            let (ledger, count) = writer.await.unwrap();
            newest = newest.max(ledger.newest());
            ledgers.push(ledger);
            acknowledged += count;
        }
        follower = following.await.unwrap();
        generation = counting.await.unwrap();
    }
    println!("{rounds} rounds, {acknowledged} acknowledged writes, {} watch events", follower.events());
    assert!(acknowledged > rounds, "the writers did not get to write");
    assert!(follower.events() > 0, "the watcher saw nothing");
}
