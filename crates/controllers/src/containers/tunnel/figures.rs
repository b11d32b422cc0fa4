//! What tunnels carry, as metrics. Figures always move, so they are no part of a status, which says what is true.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex};

use causeway_base::lock::lock;
use causeway_ir::tunnel::Counters;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, NoLabelSet};
use prometheus_client::metrics::MetricType;

/// Counters by tunnel.
type ByTunnel = BTreeMap<String, Counters>;

/// The figures of all tunnels, by namespace and name of their proxy.
#[derive(Clone, Debug, Default)]
pub(crate) struct Figures(Arc<Mutex<BTreeMap<(String, String), ByTunnel>>>);

impl Figures {
    /// Those of one proxy; they go when the answer is dropped.
    pub(super) fn of_proxy(&self, namespace: &str, name: &str) -> ProxyFigures {
        ProxyFigures { all: self.clone(), proxy: (namespace.to_owned(), name.to_owned()) }
    }
}

/// The figures of one proxy's tunnels.
pub(super) struct ProxyFigures {
    all: Figures,
    proxy: (String, String),
}

impl ProxyFigures {
    /// What the host end said last.
    pub(super) fn set(&self, by_tunnel: ByTunnel) {
        lock(&self.all.0).insert(self.proxy.clone(), by_tunnel);
    }
}

impl Drop for ProxyFigures {
    fn drop(&mut self) {
        lock(&self.all.0).remove(&self.proxy);
    }
}

impl Collector for Figures {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let all = lock(&self.0).clone();
        let each = || {
            all.iter().flat_map(|((namespace, proxy), tunnels)| {
                tunnels.iter().map(move |(tunnel, counters)| {
                    let labels = [
                        ("namespace", namespace.as_str()),
                        ("proxy", proxy.as_str()),
                        ("tunnel", tunnel.as_str()),
                    ];
                    (labels, counters)
                })
            })
        };
        let help = "Streams that are open";
        let mut open = encoder.encode_descriptor("streams", help, None, MetricType::Gauge)?;
        for (labels, counters) in each() {
            let streams = i64::try_from(counters.streams).unwrap_or(i64::MAX);
            open.encode_family(&labels)?.encode_gauge(&streams)?;
        }
        let mut count = |name, help, of: fn(&Counters) -> u64| -> fmt::Result {
            let mut series = encoder.encode_descriptor(name, help, None, MetricType::Counter)?;
            for (labels, counters) in each() {
                series.encode_family(&labels)?.encode_counter::<NoLabelSet, u64, u64>(&of(counters), None)?;
            }
            Ok(())
        };
        count("streams_opened", "Streams that were opened", |counters| counters.opened)?;
        count("streams_refused", "Streams that were refused", |counters| counters.refused)?;
        count("streams_limited", "Streams that were refused because of a limit", |counters| {
            counters.limited
        })?;
        count("bytes_to_host", "Bytes carried to the host", |counters| counters.to_host)?;
        count("bytes_to_containers", "Bytes carried to containers", |counters| counters.to_container)
    }
}

#[cfg(test)]
mod tests {
    use prometheus_client::{encoding::text::encode, registry::Registry};

    use super::*;

    fn text(figures: &Figures) -> String {
        let mut registry = Registry::with_prefix("causeway_tunnel");
        registry.register_collector(Box::new(figures.clone()));
        let mut text = String::new();
        encode(&mut text, &registry).unwrap();
        text
    }

    #[test]
    fn every_tunnel_has_its_series_for_as_long_as_somebody_works_for_it() {
        let figures = Figures::default();
        let proxy = figures.of_proxy("lab", "to-host");
        proxy.set(BTreeMap::from([(
            "web".to_owned(),
            Counters { streams: 2, to_host: 9, ..Counters::default() },
        )]));
        let labels = r#"{namespace="lab",proxy="to-host",tunnel="web"}"#;
        let said = text(&figures);
        assert!(said.contains(&format!("causeway_tunnel_streams{labels} 2")), "{said}");
        assert!(said.contains(&format!("causeway_tunnel_bytes_to_host_total{labels} 9")), "{said}");
        drop(proxy);
        assert!(!text(&figures).contains("to-host"));
    }
}
