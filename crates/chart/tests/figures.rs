//! Each figure that a rule or panel for data planes names is one that the code registers. Those of the operator's own are held to what it
//! serves, with its controllers.

#![allow(clippy::unwrap_used)]

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use causeway_testkit::deploy;

/// Figures that a part registers under a front of its own, and where.
const FRONTS: [(&str, &str); 4] = [
    ("causeway_dns_", "dns/src/metrics.rs"),
    ("causeway_stowaway_", "agent/src/stowaway.rs"),
    ("causeway_tunnel_", "controllers/src/containers/tunnel/figures.rs"),
    ("causeway_operator_", "controllers/src/framework/metrics.rs"),
];
/// Where those are registered by their whole names.
const WHOLE: [&str; 5] = [
    "engine/src/metrics.rs",
    "engine/src/metrics/clusters.rs",
    "engine/src/metrics/times.rs",
    "engine/src/tls/expiry.rs",
    "dhcp/src/metrics.rs",
];
/// What the type and the unit of a figure add to its name.
const ENDS: [&str; 6] = ["_total", "_bucket", "_count", "_sum", "_seconds", "_bytes"];

fn source(path: &str) -> String {
    fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(path)).unwrap()
}

/// The name, and what it is without one end after the other.
fn bare(name: &str) -> Vec<&str> {
    let mut names = vec![name];
    let mut rest = name;
    while let Some(shorter) = ENDS.iter().find_map(|end| rest.strip_suffix(end)) {
        names.push(shorter);
        rest = shorter;
    }
    names
}

fn is_registered(name: &str) -> bool {
    let has = |path: &str, name: &str| source(path).contains(&format!("\"{name}\""));
    bare(name).iter().any(|name| {
        let by_front = FRONTS.iter().any(|(front, path)| {
            name.strip_prefix(front).is_some_and(|own| has(path, own) || has(path, name))
        });
        by_front || WHOLE.iter().any(|path| has(path, name))
    })
}

#[test]
fn every_figure_of_rules_and_panels_for_data_planes_is_registered() {
    let mut named = BTreeSet::new();
    for file in ["data-plane-rules.yaml", "data-planes.json"] {
        let text = fs::read_to_string(deploy("chart/files").join(file)).unwrap();
        let words = text.split(|c: char| !(c.is_ascii_alphanumeric() || c == '_'));
        named.extend(words.filter(|word| word.starts_with("causeway_")).map(ToOwned::to_owned));
    }
    assert!(named.len() > 20, "{named:?}");
    let missing: Vec<&String> = named.iter().filter(|name| !is_registered(name)).collect();
    assert!(missing.is_empty(), "nobody registers {missing:?}");
    assert!(!is_registered("causeway_dns_questions_total") && !is_registered("causeway_bytes_seconds_sum_x"));
}
