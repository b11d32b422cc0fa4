//! Writers: each a client with a connection of its own and one write on the way, for a fixed time.

use std::time::{Duration, Instant};

use anyhow::Context;
use tokio::task::JoinSet;

use crate::samples::Samples;
use crate::{cpu, etcd, kubernetes};

/// Bytes of each object's value.
pub(crate) const VALUE: usize = 1024;

/// Who takes the writes.
#[derive(Clone)]
pub(crate) enum Target {
    Causeway(kubernetes::Endpoint),
    Etcd(etcd::Endpoint),
}

/// What one round of writes gave.
#[derive(Debug)]
pub(crate) struct Round {
    pub(crate) per_second: f64,
    pub(crate) latency_ms: Samples,
    /// Processor seconds of the server for 10,000 writes.
    pub(crate) cpu_per_10k: f64,
}

/// Lets `clients` write for `length`; `label` keeps the names of the rounds apart.
pub(crate) async fn round(
    target: &Target,
    pid: u32,
    clients: usize,
    length: Duration,
    label: &str,
) -> anyhow::Result<Round> {
    let mut writers = Vec::with_capacity(clients);
    for client in 0..clients {
        writers.push(Writer::connect(target, &format!("{label}-{client}")).await?);
    }
    let cpu_before = cpu::seconds(pid)?;
    let started = Instant::now();
    let deadline = started + length;
    let mut tasks = JoinSet::new();
    for writer in writers {
        tasks.spawn(writer.write_until(deadline));
    }
    let mut latency_ms = Samples::default();
    while let Some(done) = tasks.join_next().await {
        latency_ms.extend(done.context("a writer crashed")??);
    }
    let elapsed = started.elapsed().as_secs_f64();
    let count = latency_ms.len() as f64;
    Ok(Round {
        per_second: count / elapsed,
        cpu_per_10k: (cpu::seconds(pid)? - cpu_before) / count * 1e4,
        latency_ms,
    })
}

struct Writer {
    target: Target,
    connection: crate::http2::Connection,
    prefix: String,
}

impl Writer {
    /// Connects and makes one write, so that the round starts warm.
    async fn connect(target: &Target, prefix: &str) -> anyhow::Result<Self> {
        let connection = match target {
            Target::Causeway(endpoint) => endpoint.connect().await?,
            Target::Etcd(endpoint) => endpoint.connect().await?,
        };
        let mut writer = Self { target: target.clone(), connection, prefix: prefix.to_owned() };
        writer.write("warm").await?;
        Ok(writer)
    }

    async fn write_until(mut self, deadline: Instant) -> anyhow::Result<Samples> {
        let mut samples = Samples::default();
        while Instant::now() < deadline {
            let start = Instant::now();
            self.write(&samples.len().to_string()).await?;
            samples.push(start.elapsed().as_secs_f64() * 1e3);
        }
        Ok(samples)
    }

    async fn write(&mut self, name: &str) -> anyhow::Result<()> {
        let name = format!("{}-{name}", self.prefix);
        let value = "v".repeat(VALUE);
        match &self.target {
            Target::Causeway(endpoint) => {
                let body = kubernetes::config_map(&name, &value);
                let request = endpoint.post(&kubernetes::config_maps("default"), body);
                self.connection.call(request).await?.expect(201).map(drop)
            }
            Target::Etcd(endpoint) => {
                let key = format!("/registry/configmaps/default/{name}");
                endpoint.put(&mut self.connection, &key, value.as_bytes()).await
            }
        }
    }
}

/// Fills a namespace with `count` ConfigMaps.
pub(crate) async fn fill(
    endpoint: &kubernetes::Endpoint,
    namespace: &str,
    count: usize,
) -> anyhow::Result<()> {
    const WRITERS: usize = 32;
    let request = endpoint.post("/api/v1/namespaces", kubernetes::namespace(namespace));
    endpoint.connect().await?.call(request).await?.expect(201)?;
    let path = kubernetes::config_maps(namespace);
    let mut tasks = JoinSet::new();
    for writer in 0..WRITERS {
        let mut connection = endpoint.connect().await?;
        let (endpoint, path) = (endpoint.clone(), path.clone());
        tasks.spawn(async move {
            let value = "v".repeat(VALUE);
            for n in (writer..count).step_by(WRITERS) {
                let body = kubernetes::config_map(&format!("object-{n:06}"), &value);
                connection.call(endpoint.post(&path, body)).await?.expect(201)?;
            }
            anyhow::Ok(())
        });
    }
    while let Some(done) = tasks.join_next().await {
        done.context("a writer crashed")??;
    }
    Ok(())
}
