//! Networks that clients are in. A list that is left out means everybody, so one that is written has some.

use ipnet::IpNet;
use serde::{Deserialize, Deserializer, de};

/// For `#[serde(deserialize_with)]`.
pub(crate) fn some<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<IpNet>, D::Error> {
    let networks = Vec::deserialize(deserializer)?;
    if networks.is_empty() {
        return Err(de::Error::custom(
            "no network is in this list: leave the field out if everybody is meant",
        ));
    }
    Ok(networks)
}

/// The network as it counts, if it is written with an address in it.
pub(crate) fn truncated(network: IpNet) -> Option<IpNet> {
    Some(network.trunc()).filter(|counts| *counts != network)
}
