//! What tunnels have carried, read from the metrics of a control plane on this machine. A cluster's API server has none of
//! them; there they are in the operator's own metrics.

use std::collections::BTreeMap;
use std::fmt;

use kube::Client;
use serde::Serialize;

/// A tunnel: its namespace, proxy and name.
pub(crate) type Key = (String, String, String);

/// What a tunnel, or all of a proxy, carries.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Figures {
    pub(crate) streams: u64,
    pub(crate) bytes_to_host: u64,
    pub(crate) bytes_to_containers: u64,
}

impl fmt::Display for Figures {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { streams, bytes_to_host, bytes_to_containers } = self;
        write!(f, "{streams} streams, {bytes_to_host} bytes to the host, {bytes_to_containers} to containers")
    }
}

/// The same by namespace and name of the proxy.
pub(crate) async fn by_proxy(client: &Client) -> BTreeMap<(String, String), Figures> {
    let mut sums: BTreeMap<_, Figures> = BTreeMap::new();
    for ((namespace, proxy, _), figures) in read(client).await {
        let sum = sums.entry((namespace, proxy)).or_default();
        sum.streams += figures.streams;
        sum.bytes_to_host += figures.bytes_to_host;
        sum.bytes_to_containers += figures.bytes_to_containers;
    }
    sums
}

/// The figures of all tunnels; empty where the API server does not know them or does not show them.
pub(crate) async fn read(client: &Client) -> BTreeMap<Key, Figures> {
    let Ok(request) = http::Request::get("/metrics").body(Vec::new()) else { return BTreeMap::new() };
    client.request_text(request).await.map(|text| parse(&text)).unwrap_or_default()
}

fn parse(text: &str) -> BTreeMap<Key, Figures> {
    let mut found: BTreeMap<Key, Figures> = BTreeMap::new();
    for line in text.lines() {
        let Some((name, rest)) = line.strip_prefix("causeway_tunnel_").and_then(|line| line.split_once('{'))
        else {
            continue;
        };
        let Some((labels, value)) = rest.split_once("} ") else { continue };
        // Names of objects hold neither quotes nor commas.
        let label = |key: &str| {
            let start = format!("{key}=\"");
            let found = labels.split(',').find_map(|label| label.strip_prefix(&start)?.strip_suffix('"'));
            found.unwrap_or_default().to_owned()
        };
        let figures = found.entry((label("namespace"), label("proxy"), label("tunnel"))).or_default();
        let value = value.parse().unwrap_or_default();
        match name {
            "streams" => figures.streams = value,
            "bytes_to_host_total" => figures.bytes_to_host = value,
            "bytes_to_containers_total" => figures.bytes_to_containers = value,
            _ => {}
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn series_become_figures_by_tunnel() {
        let text = "# TYPE causeway_tunnel_streams gauge\n\
            causeway_tunnel_streams{namespace=\"a\",proxy=\"p\",tunnel=\"t\"} 3\n\
            causeway_tunnel_bytes_to_host_total{namespace=\"a\",proxy=\"p\",tunnel=\"t\"} 20\n\
            causeway_operator_leader 1\n";
        let key = ("a".to_owned(), "p".to_owned(), "t".to_owned());
        let figures = Figures { streams: 3, bytes_to_host: 20, bytes_to_containers: 0 };
        assert_eq!(parse(text), BTreeMap::from([(key, figures)]));
    }
}
