//! Containers and networks of a data directory's own id whose object is gone.

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::Context;
use causeway_containers::{Choice, Runtime, is_left_over, labels};

use super::Thing;
use super::living::Living;
use crate::parts::data_dir;

pub(super) async fn left(dir: &Path, living: &Living, choice: Option<Choice>) -> anyhow::Result<Vec<Thing>> {
    // Without an id nothing was ever made in a runtime.
    if !data_dir::node(dir).join("instance").exists() {
        return Ok(Vec::new());
    }
    let instance = data_dir::instance(dir)?;
    let choice = choice.context("--container-runtime is none")?;
    let runtime = Runtime::connect(&choice).await?;
    let ours = [(labels::INSTANCE, instance.as_str())];
    let alive = |uid: &str| living.uids.contains(uid);
    let mut left = Vec::new();
    for container in runtime.containers(&ours).await? {
        if is_left_over(&container.labels, &alive) {
            let of = owner(&container.labels);
            left.push(Thing::Container {
                runtime: runtime.clone(),
                id: container.id,
                name: container.name,
                of,
            });
        }
    }
    for network in runtime.networks(&ours).await? {
        if is_left_over(&network.labels, &alive) {
            let of = owner(&network.labels);
            left.push(Thing::Network { runtime: runtime.clone(), id: network.id, name: network.name, of });
        }
    }
    Ok(left)
}

fn owner(all: &BTreeMap<String, String>) -> String {
    let text = |label: &str| all.get(label).map_or("", String::as_str);
    format!("{} {}", text(labels::KIND), text(labels::NAME))
}
