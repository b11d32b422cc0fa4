//! The series of all clusters, written when they are asked for.

use std::fmt;
use std::sync::Arc;

use causeway_base::lock;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, NoLabelSet};
use prometheus_client::metrics::MetricType;
use prometheus_client::registry::Unit;

use crate::cluster::{Cluster, Clusters};
use crate::metrics::{ClusterMetrics, InlineCounter};

pub(super) struct ClusterSeries(pub(super) Clusters);

impl fmt::Debug for ClusterSeries {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ClusterSeries")
    }
}

impl Collector for ClusterSeries {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let mut clusters: Vec<Arc<Cluster>> = lock::read(&self.0).values().cloned().collect();
        clusters.sort_unstable_by(|a, b| a.name.cmp(&b.name));

        let help = "Connections to a cluster";
        let mut active =
            encoder.encode_descriptor("envoy_cluster_upstream_cx_active", help, None, MetricType::Gauge)?;
        for cluster in &clusters {
            let labels = [("envoy_cluster_name", cluster.name.as_str())];
            active.encode_family(&labels)?.encode_gauge(&cluster.metrics.active.get())?;
        }
        let mut count = |name, help, label, of: fn(&ClusterMetrics) -> &InlineCounter| -> fmt::Result {
            let mut series = encoder.encode_descriptor(name, help, None, MetricType::Counter)?;
            for cluster in &clusters {
                let labels = [(label, cluster.name.as_str())];
                let value = of(&cluster.metrics).get();
                series.encode_family(&labels)?.encode_counter::<NoLabelSet, u64, u64>(&value, None)?;
            }
            Ok(())
        };
        let [envoy, ours] = ["envoy_cluster_name", "cluster"];
        count("envoy_cluster_upstream_cx", "Connections made to a cluster", envoy, |m| &m.total)?;
        count("envoy_cluster_upstream_rq", "Requests sent to a cluster", envoy, |m| &m.requests)?;
        count("causeway_connect_failures", "Attempts to connect that failed", ours, |m| &m.connect_failures)?;
        let help = "Connections that the endpoint reset before it said a word";
        count("causeway_early_resets", help, ours, |m| &m.early_resets)?;
        let help = "Connections on which the endpoint never said a word until they idled out";
        count("causeway_unanswered", help, ours, |m| &m.unanswered)?;
        count("causeway_ejections", "Endpoints rested for failing", ours, |m| &m.ejections)?;

        let answered = || {
            clusters
                .iter()
                .filter_map(|cluster| Some((cluster.name.as_str(), cluster.metrics.answers.get()?)))
        };
        let help = "Requests that went to a cluster and were answered, by class of status";
        let mut requests =
            encoder.encode_descriptor("causeway_cluster_requests", help, None, MetricType::Counter)?;
        for (name, answers) in answered() {
            answers.encode_classes(&mut requests, &[("cluster", name)])?;
        }
        let (help, unit) = ("How long requests that went to a cluster took", Some(&Unit::Seconds));
        let mut times =
            encoder.encode_descriptor("causeway_cluster_request", help, unit, MetricType::Histogram)?;
        for (name, answers) in answered() {
            answers.times.encode(&mut times, &[("cluster", name)])?;
        }

        let mut bytes =
            encoder.encode_descriptor("causeway_bytes", "Bytes carried", None, MetricType::Counter)?;
        for cluster in &clusters {
            let metrics = &cluster.metrics;
            for (direction, value) in [("up", metrics.bytes_up.get()), ("down", metrics.bytes_down.get())] {
                let labels = [("cluster", cluster.name.as_str()), ("direction", direction)];
                bytes.encode_family(&labels)?.encode_counter::<NoLabelSet, u64, u64>(&value, None)?;
            }
        }
        Ok(())
    }
}
