//! Networks of a runtime, as tests meet them.

use std::collections::BTreeMap;

use causeway_containers::{Network, labels};

use super::{KIND, observe::ExistingNetwork};

fn network(labels: &[(&str, &str)]) -> Network {
    Network {
        id: "4f".into(),
        name: "blue".into(),
        driver: "bridge".into(),
        ipv6: false,
        internal: false,
        subnets: Vec::new(),
        labels: labels
            .iter()
            .map(|(key, value)| ((*key).to_owned(), (*value).to_owned()))
            .collect::<BTreeMap<_, _>>(),
        containers: Vec::new(),
    }
}

/// A network with these labels, as the object `own` of the instance `here` sees it.
pub(crate) fn existing(labels: &[(&str, &str)]) -> ExistingNetwork {
    ExistingNetwork::of(network(labels), "own", "here")
}

/// A network that another object of this instance made.
pub(crate) fn of_other_object() -> ExistingNetwork {
    existing(&[
        (labels::OWNER, "other"),
        (labels::KIND, KIND),
        (labels::INSTANCE, "here"),
        (labels::NAME, "default/b"),
    ])
}
