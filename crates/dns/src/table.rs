//! A plan, compiled for answering. Workers hold one and swap to the next by pointer.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use causeway_ir::dns::{DnsPlan, View as Planned};
use ipnet::IpNet;

use crate::forward::Forwarder;
use crate::metrics::{Metrics, ViewCounts};
use crate::status::ViewStatus;
use crate::zones::Zones;

/// Counted for clients that no view has.
const NOBODY: &str = "(none)";

/// Networks that are nobody's on the Internet: an open resolver for these is none.
const PRIVATE: [&str; 10] = [
    "10.0.0.0/8",
    "172.16.0.0/12",
    "192.168.0.0/16",
    "127.0.0.0/8",
    "169.254.0.0/16",
    "100.64.0.0/10",
    "::1/128",
    "fc00::/7",
    "fe80::/10",
    "::ffff:127.0.0.0/104",
];

pub(crate) struct Table {
    views: Vec<View>,
    pub(crate) nobody: Arc<ViewCounts>,
    pub(crate) forwarder: Arc<Forwarder>,
    /// Answers a second to a network of clients, for each worker.
    pub(crate) rate: Option<u32>,
    /// How long a connection may be without a question.
    pub(crate) tcp_idle: Duration,
}

pub(crate) struct View {
    pub(crate) counts: Arc<ViewCounts>,
    pub(crate) zones: Zones,
    sources: Vec<IpNet>,
    recursion: Vec<IpNet>,
}

impl Table {
    pub(crate) fn new(plan: &DnsPlan, metrics: &Metrics, workers: usize, forwarder: Arc<Forwarder>) -> Self {
        let view = |view: &Planned| View {
            counts: metrics.view(&view.name, workers + 1),
            zones: Zones::new(view, &plan.binds),
            sources: view.sources.clone(),
            recursion: recursion(view),
        };
        let share = |limit: u32| (limit / workers.max(1) as u32).max(1);
        Self {
            views: plan.views.iter().map(view).collect(),
            nobody: metrics.view(NOBODY, workers + 1),
            forwarder,
            rate: plan.limits.responses_per_second.map(|limit| share(limit.get())),
            tcp_idle: plan.limits.tcp_idle_timeout.get(),
        }
    }

    /// The view of a client.
    pub(crate) fn view(&self, client: IpAddr) -> Option<&View> {
        self.views.iter().find(|view| view.sources.is_empty() || has(&view.sources, client))
    }

    /// How many names are answered from the plan, by view.
    pub(crate) fn statuses(&self) -> Vec<ViewStatus> {
        let status =
            |view: &View| ViewStatus { name: view.counts.name.to_string(), names: view.zones.count() };
        self.views.iter().map(status).collect()
    }
}

impl View {
    /// Whether this client's questions are forwarded.
    pub(crate) fn recurses(&self, client: IpAddr) -> bool {
        has(&self.recursion, client)
    }
}

fn has(networks: &[IpNet], client: IpAddr) -> bool {
    networks.iter().any(|network| network.contains(&client))
}

/// Whose questions are forwarded.
fn recursion(view: &Planned) -> Vec<IpNet> {
    if let Some(recursion) = &view.recursion {
        return recursion.clone();
    }
    let everybody = view.sources.is_empty() || view.sources.iter().any(|network| network.prefix_len() == 0);
    if everybody {
        return PRIVATE.iter().filter_map(|network| network.parse().ok()).collect();
    }
    view.sources.clone()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn strangers_are_not_forwarded_for_by_default() {
        for (view, client, forwarded) in [
            ("{name: a}", "10.1.2.3", true),
            ("{name: a}", "8.8.8.8", false),
            ("{name: a, sources: [0.0.0.0/0]}", "8.8.8.8", false),
            ("{name: a, sources: [192.0.2.0/24]}", "192.0.2.9", true),
            ("{name: a, recursion: []}", "10.1.2.3", false),
            ("{name: a, recursion: [0.0.0.0/0]}", "8.8.8.8", true),
            ("{name: a}", "fd00::1", true),
            ("{name: a}", "2001:db8::1", false),
        ] {
            let planned: Planned = serde_saphyr::from_str(view).unwrap();
            assert_eq!(has(&recursion(&planned), client.parse().unwrap()), forwarded, "{view} {client}");
        }
    }
}
