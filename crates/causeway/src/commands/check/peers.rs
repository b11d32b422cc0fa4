//! What of others Causeway works with: the Gateway API, Multus, KubeVirt. None has to be there.

use std::collections::BTreeSet;

use kube::{Client, ResourceExt};

use super::Line;
use super::definitions::{Known, version};

const SECTION: &str = "what others bring";
/// The oldest bundle of the Gateway API whose kinds are all understood.
const OLDEST_GATEWAY_API: &str = "v1.2.0";

/// The Gateway API, as far as it can be seen.
#[derive(Debug, Default)]
enum GatewayApi {
    #[default]
    Missing,
    /// With the version of its bundle, if that is said.
    There(Option<String>),
}

/// What is there of them.
#[derive(Debug, Default)]
struct Peers {
    gateway_api: GatewayApi,
    multus: bool,
    kubevirt: bool,
}

impl Peers {
    fn of(known: &Known) -> Self {
        let gateway_api = match known.get("gateways.gateway.networking.k8s.io") {
            Some(crd) => {
                GatewayApi::There(crd.annotations().get("gateway.networking.k8s.io/bundle-version").cloned())
            }
            None => GatewayApi::Missing,
        };
        Self {
            gateway_api,
            multus: known.get("network-attachment-definitions.k8s.cni.cncf.io").is_some(),
            kubevirt: known.get("virtualmachineinstances.kubevirt.io").is_some(),
        }
    }

    /// By what the API server serves, which everybody may ask.
    fn of_groups(groups: &BTreeSet<String>) -> Self {
        let gateway_api = if groups.contains("gateway.networking.k8s.io") {
            GatewayApi::There(None)
        } else {
            GatewayApi::Missing
        };
        Self {
            gateway_api,
            multus: groups.contains("k8s.cni.cncf.io"),
            kubevirt: groups.contains("kubevirt.io"),
        }
    }

    fn lines(&self, says_version: bool) -> Vec<Line> {
        let gateway = match &self.gateway_api {
            GatewayApi::Missing => Line::warn(
                SECTION,
                "the Gateway API is not there: no Gateways, no routes, no hostnames, no grants for what is in other namespaces",
                "install its definitions, https://gateway-api.sigs.k8s.io, if you want these; the operator sees them at once",
            ),
            GatewayApi::There(_) if !says_version => Line::ok(SECTION, "the Gateway API is there"),
            GatewayApi::There(bundle) => {
                let bundle = bundle.as_deref().unwrap_or("of an unknown version");
                if version(bundle) < version(OLDEST_GATEWAY_API) {
                    let what = format!("the Gateway API is {bundle}, older than {OLDEST_GATEWAY_API}");
                    Line::warn(SECTION, what, "bring its definitions to a newer version")
                } else {
                    Line::ok(SECTION, format!("the Gateway API is {bundle}"))
                }
            }
        };
        let multus = if self.multus {
            Line::ok(SECTION, "Multus is there")
        } else {
            Line::warn(
                SECTION,
                "Multus is not there: proxies and servers can't be on isolated networks",
                "install Multus if you want Infra, or ProxyServers and servers with a networkAttachmentName",
            )
        };
        let machines =
            if self.kubevirt { "KubeVirt is there" } else { "KubeVirt is not there, and nothing needs it" };
        vec![gateway, multus, Line::ok(SECTION, machines)]
    }
}

pub(super) async fn lines(client: &Client, known: &Known) -> Vec<Line> {
    if known.is_seen() {
        return Peers::of(known).lines(true);
    }
    match client.list_api_groups().await {
        Ok(list) => {
            let groups = list.groups.into_iter().map(|group| group.name).collect();
            Peers::of_groups(&groups).lines(false)
        }
        Err(error) => vec![Line::unseen(SECTION, "which kinds are served can't be asked", &error)],
    }
}

#[cfg(test)]
mod tests {
    use super::super::line::Level;
    use super::*;

    #[test]
    fn what_is_missing_or_too_old_is_said_with_its_cure() {
        let there = |bundle: Option<&str>, multus, kubevirt| Peers {
            gateway_api: GatewayApi::There(bundle.map(str::to_owned)),
            multus,
            kubevirt,
        };
        use Level::{Ok, Warn};
        for (peers, levels, says) in [
            (Peers::default(), [Warn, Warn, Ok], "the Gateway API is not there"),
            (Peers::default(), [Warn, Warn, Ok], "Multus is not there"),
            (Peers::default(), [Warn, Warn, Ok], "KubeVirt is not there"),
            (there(Some("v1.6.0"), true, true), [Ok, Ok, Ok], "the Gateway API is v1.6.0"),
            (there(Some("v1.6.0"), true, true), [Ok, Ok, Ok], "KubeVirt is there"),
            (there(Some("v1.1.0"), true, false), [Warn, Ok, Ok], "v1.1.0, older than v1.2.0"),
            (there(None, false, false), [Warn, Warn, Ok], "of an unknown version"),
        ] {
            let lines = peers.lines(true);
            assert_eq!(lines.iter().map(|line| line.level).collect::<Vec<_>>(), levels, "{peers:?}");
            assert!(format!("{lines:?}").contains(says), "{lines:?}");
        }
    }

    #[test]
    fn who_may_not_see_definitions_goes_by_what_is_served() {
        let groups = ["apps", "gateway.networking.k8s.io", "kubevirt.io"].map(str::to_owned).into();
        let lines = Peers::of_groups(&groups).lines(false);
        let text = format!("{lines:?}");
        for said in ["the Gateway API is there", "Multus is not there", "KubeVirt is there"] {
            assert!(text.contains(said), "{text}");
        }
    }
}
