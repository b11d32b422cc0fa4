//! What of others Causeway works with: the Gateway API, Multus, KubeVirt. None has to be there.

use kube::ResourceExt;

use super::Line;
use super::definitions::{Known, version};

const SECTION: &str = "what others bring";
/// The oldest bundle of the Gateway API whose kinds are all understood.
const OLDEST_GATEWAY_API: &str = "v1.2.0";

pub(super) fn lines(known: &Known) -> Vec<Line> {
    if !known.is_seen() {
        return Vec::new();
    }
    let gateway = match known.get("gateways.gateway.networking.k8s.io") {
        None => Line::warn(
            SECTION,
            "the Gateway API is not there: no Gateways, no routes, no hostnames, no grants for what is in other namespaces",
            "install its definitions, https://gateway-api.sigs.k8s.io, if you want these; the operator sees them at once",
        ),
        Some(crd) => {
            let bundle = crd.annotations().get("gateway.networking.k8s.io/bundle-version");
            let bundle = bundle.map_or("of an unknown version", String::as_str);
            if version(bundle) < version(OLDEST_GATEWAY_API) {
                let what = format!("the Gateway API is {bundle}, older than {OLDEST_GATEWAY_API}");
                Line::warn(SECTION, what, "bring its definitions to a newer version")
            } else {
                Line::ok(SECTION, format!("the Gateway API is {bundle}"))
            }
        }
    };
    let multus = match known.get("network-attachment-definitions.k8s.cni.cncf.io") {
        None => Line::warn(
            SECTION,
            "Multus is not there: proxies and servers can't be on isolated networks",
            "install Multus if you want Infra, or ProxyServers and servers with a networkAttachmentName",
        ),
        Some(_) => Line::ok(SECTION, "Multus is there"),
    };
    let machines = known.get("virtualmachineinstances.kubevirt.io").is_some();
    let machines = if machines { "KubeVirt is there" } else { "KubeVirt is not there, and nothing needs it" };
    vec![gateway, multus, Line::ok(SECTION, machines)]
}
