//! A running proxy, whichever it is: started with a plan, given other plans, asked where it listens, stopped.

pub mod envoy;
mod http;
mod native;
mod program;

use std::collections::HashMap;
use std::net::SocketAddr;

use causeway_ir::Plan;
use causeway_testkit::soon;
use tempfile::TempDir;
use tokio::net::TcpStream;

use crate::client;
use crate::port::Port;

/// What carries the traffic.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Engine {
    Native,
    Envoy,
}

enum Running {
    Native(native::Native),
    Envoy(envoy::Envoy),
}

pub struct Proxy {
    plan: Plan,
    /// The port of every listener that ever had port 0 in the plan, by its name.
    ports: HashMap<String, Port>,
    running: Running,
    _directory: TempDir,
}

impl Proxy {
    /// Starts with a plan and waits until it is in force. A listener with port 0 keeps the port it gets for good.
    pub async fn start(engine: Engine, plan: Plan) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let mut ports = HashMap::new();
        let placed = place(&plan, &mut ports);
        let running = match engine {
            Engine::Native => Running::Native(native::Native::start(directory.path(), &placed).await),
            Engine::Envoy => Running::Envoy(envoy::Envoy::start(directory.path(), &placed).await),
        };
        Self { plan, ports, running, _directory: directory }
    }

    /// Changes the plan and waits until the change is in force.
    pub async fn change(&mut self, change: impl FnOnce(&mut Plan)) {
        change(&mut self.plan);
        let placed = place(&self.plan, &mut self.ports);
        match &mut self.running {
            Running::Native(native) => native.change(&placed).await,
            Running::Envoy(envoy) => envoy.change(&placed).await,
        }
    }

    /// Offers a plan that can't be run, and waits until it is refused. The plan that runs stays the one to change.
    pub async fn fail_to_change(&mut self, change: impl FnOnce(&mut Plan)) {
        let mut plan = self.plan.clone();
        change(&mut plan);
        let placed = place(&plan, &mut self.ports);
        match &mut self.running {
            Running::Native(native) => native.fail_to_change(&placed).await,
            Running::Envoy(envoy) => envoy.fail_to_change(&placed).await,
        }
    }

    /// Where a listener is, or was while it was in the plan.
    pub fn address(&self, listener: &str) -> SocketAddr {
        self.ports[listener].address
    }

    pub async fn connect(&self, listener: &str) -> TcpStream {
        let stream = soon("connect", TcpStream::connect(self.address(listener))).await.unwrap();
        stream.set_nodelay(true).unwrap();
        stream
    }

    /// Sends bytes, ends when the answer begins, and gives all that comes back.
    pub async fn ask(&self, listener: &str, bytes: &[u8]) -> Vec<u8> {
        soon("an answer", client::exchange(self.address(listener), bytes)).await.unwrap()
    }

    /// Asks it to end in good order, and does not wait.
    pub fn terminate(&self) {
        match &self.running {
            Running::Native(native) => native.terminate(),
            Running::Envoy(envoy) => envoy.terminate(),
        }
    }

    /// Waits until it has ended by itself.
    pub async fn ended(mut self) {
        match &mut self.running {
            Running::Native(native) => native.ended().await,
            Running::Envoy(envoy) => envoy.ended().await,
        }
    }
}

/// The plan with a port in every listener.
fn place(plan: &Plan, ports: &mut HashMap<String, Port>) -> Plan {
    let mut placed = plan.clone();
    for listener in &mut placed.listeners {
        if listener.bind.port() == 0 {
            let name = listener.name.to_string();
            listener.bind = ports.entry(name).or_insert_with(|| Port::reserve(listener.bind)).address;
        }
    }
    placed
}
