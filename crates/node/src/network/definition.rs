//! What a NetworkAttachmentDefinition says: the CNI configuration in its `spec.config`, of the plugins `bridge`, `macvlan`
//! and `vlan`, with `tuning` behind them and addresses of `static`. Pure.

use std::net::IpAddr;

use ipnet::IpNet;
use serde::Deserialize;
use serde_json::{Map, Value};

use super::{
    netlink::{Mac, Upper},
    request,
};

/// A network that a pod's interface can be on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Definition {
    pub kind: Kind,
    pub mtu: Option<u32>,
    pub mac: Option<Mac>,
    pub addresses: Vec<IpNet>,
    /// Destination, and the router if there is one.
    pub routes: Vec<(IpNet, Option<IpAddr>)>,
    /// Names with `IFNAME` for the interface, and values.
    pub sysctls: Vec<(String, String)>,
}

/// What an interface is made of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// A port of a bridge of this machine.
    Bridge { bridge: String },
    /// An interface on one of this machine; without a name, on that of the default route.
    On { master: Option<String>, upper: Upper },
}

const PLUGINS: &str = "bridge, macvlan and vlan, each with tuning behind it";

/// One plugin's configuration, of all that are understood.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Plugin {
    #[serde(rename = "type")]
    kind: String,
    bridge: Option<String>,
    master: Option<String>,
    mode: Option<String>,
    vlan_id: Option<u16>,
    mtu: Option<u32>,
    mac: Option<String>,
    ipam: Option<Ipam>,
    #[serde(default)]
    sysctl: Map<String, Value>,
    // What would have to be done, and is not.
    #[serde(default)]
    is_gateway: bool,
    #[serde(default)]
    is_default_gateway: bool,
    #[serde(default)]
    ip_masq: bool,
    #[serde(default)]
    macspoofchk: bool,
    #[serde(default)]
    port_isolation: bool,
    vlan: Option<u16>,
    vlan_trunk: Option<Value>,
}

#[derive(Deserialize)]
struct Ipam {
    #[serde(rename = "type")]
    kind: Option<String>,
    #[serde(default)]
    addresses: Vec<Address>,
    #[serde(default)]
    routes: Vec<Route>,
}

#[derive(Deserialize)]
struct Address {
    address: String,
    gateway: Option<String>,
}

#[derive(Deserialize)]
struct Route {
    dst: String,
    gw: Option<String>,
}

/// Reads a configuration: one plugin, or a list of them.
///
/// # Errors
/// What can't be done here, with its field.
pub(crate) fn parse(config: &str) -> Result<Definition, String> {
    let whole: Value =
        serde_json::from_str(config).map_err(|error| format!("spec.config is not JSON: {error}"))?;
    let plugins = match &whole["plugins"] {
        Value::Array(plugins) => plugins.clone(),
        _ => vec![whole],
    };
    let plugins: Vec<Plugin> = plugins
        .into_iter()
        .map(|plugin| serde_json::from_value(plugin).map_err(|error| format!("spec.config: {error}")))
        .collect::<Result<_, _>>()?;
    let Some((first, behind)) = plugins.split_first() else {
        return Err(format!("spec.config has no plugins; here there are {PLUGINS}"));
    };
    let mut definition = interface(first)?;
    for plugin in behind {
        if plugin.kind != "tuning" {
            return Err(format!("the plugin {:?} is not offered here; there are {PLUGINS}", plugin.kind));
        }
        for (name, value) in &plugin.sysctl {
            let value = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
            definition.sysctls.push((name.clone(), value));
        }
        definition.mtu = plugin.mtu.or(definition.mtu);
        definition.mac = plugin.mac.as_deref().map(request::mac).transpose()?.or(definition.mac);
    }
    Ok(definition)
}

fn interface(plugin: &Plugin) -> Result<Definition, String> {
    let master = plugin.master.clone().filter(|name| !name.is_empty());
    for (field, name) in [("bridge", &plugin.bridge), ("master", &master)] {
        let checked = name.as_deref().map(request::check_name).transpose();
        checked.map_err(|problem| format!("{field}: {problem}"))?;
    }
    let upper = |upper| Kind::On { master, upper };
    let kind = match plugin.kind.as_str() {
        "bridge" => {
            refuse_unoffered(plugin)?;
            Kind::Bridge { bridge: plugin.bridge.clone().unwrap_or_else(|| "cni0".to_owned()) }
        }
        "macvlan" => {
            let mode = plugin.mode.as_deref().unwrap_or("bridge");
            let number = match mode {
                "private" => 1,
                "vepa" => 2,
                "bridge" => 4,
                "passthru" => 8,
                _ => return Err(format!("mode: {mode:?} is none of bridge, private, vepa and passthru")),
            };
            upper(Upper::Macvlan { mode: number })
        }
        "vlan" => {
            let id = plugin.vlan_id.filter(|id| (1..=4094).contains(id));
            upper(Upper::Vlan { id: id.ok_or("vlanId: write the number of the VLAN, 1 to 4094")? })
        }
        other => return Err(format!("the plugin {other:?} is not offered here; there are {PLUGINS}")),
    };
    let mut definition = Definition {
        kind,
        mtu: plugin.mtu.filter(|mtu| *mtu > 0),
        mac: None,
        addresses: Vec::new(),
        routes: Vec::new(),
        sysctls: Vec::new(),
    };
    if let Some(ipam) = &plugin.ipam {
        addresses(ipam, &mut definition)?;
    }
    Ok(definition)
}

fn refuse_unoffered(plugin: &Plugin) -> Result<(), String> {
    let asked = [
        ("isGateway", plugin.is_gateway),
        ("isDefaultGateway", plugin.is_default_gateway),
        ("ipMasq", plugin.ip_masq),
        ("macspoofchk", plugin.macspoofchk),
        ("portIsolation", plugin.port_isolation),
        ("vlan", plugin.vlan.is_some_and(|vlan| vlan > 0)),
        ("vlanTrunk", plugin.vlan_trunk.is_some()),
    ];
    match asked.iter().find(|(_, is_asked)| *is_asked) {
        Some((field, _)) => Err(format!("{field} of the bridge plugin is not offered here: leave it out")),
        None => Ok(()),
    }
}

fn addresses(ipam: &Ipam, definition: &mut Definition) -> Result<(), String> {
    match ipam.kind.as_deref() {
        None | Some("") => return Ok(()),
        Some("static") => {}
        Some(other) => {
            return Err(format!(
                "ipam.type: {other:?} is not offered here; write static, with addresses or ips in the pod's annotation"
            ));
        }
    }
    let mut gateways: Vec<IpAddr> = Vec::new();
    for Address { address, gateway } in &ipam.addresses {
        let net = address.parse().map_err(|_| {
            format!("ipam.addresses: {address:?} is not an address with its prefix, such as 192.168.100.4/24")
        })?;
        definition.addresses.push(net);
        gateways.extend(gateway.as_deref().map(|text| router("ipam.addresses.gateway", text)).transpose()?);
    }
    for Route { dst, gw } in &ipam.routes {
        let to: IpNet = dst
            .parse()
            .map_err(|_| format!("ipam.routes: dst {dst:?} is not a network, such as 10.0.0.0/8"))?;
        let of_family = |gateway: &&IpAddr| gateway.is_ipv4() == to.addr().is_ipv4();
        let gateway = match gw.as_deref().filter(|text| !text.is_empty()) {
            Some(text) => Some(router("ipam.routes.gw", text)?),
            None => gateways.iter().find(of_family).copied(),
        };
        definition.routes.push((to, gateway));
    }
    Ok(())
}

fn router(field: &str, text: &str) -> Result<IpAddr, String> {
    text.parse().map_err(|_| format!("{field}: {text:?} is not an address"))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_sample_is_understood() {
        let sample = include_str!("../../../../deploy/samples/network-attachment.yaml");
        let config = sample.split_once("config: |").unwrap().1;
        let definition = parse(config).unwrap();
        assert_eq!(
            definition.kind,
            Kind::On { master: Some("eth1.100".to_owned()), upper: Upper::Macvlan { mode: 4 } }
        );
        assert_eq!(definition.sysctls[0], ("net.ipv4.conf.all.forwarding".to_owned(), "0".to_owned()));
    }

    #[test]
    fn addresses_and_routes_of_both_families() {
        let definition = parse(
            &json!({"type": "bridge", "bridge": "br1", "mtu": 1400, "ipam": {"type": "static",
                "addresses": [{"address": "10.0.0.2/24", "gateway": "10.0.0.1"}, {"address": "fd00::2/64"}],
                "routes": [{"dst": "0.0.0.0/0"}, {"dst": "10.9.0.0/16", "gw": "10.0.0.9"}, {"dst": "fd01::/64"}]}})
            .to_string(),
        )
        .unwrap();
        assert_eq!(definition.kind, Kind::Bridge { bridge: "br1".to_owned() });
        assert_eq!(definition.mtu, Some(1400));
        assert_eq!(definition.addresses.len(), 2);
        let gateways: Vec<_> = definition.routes.iter().map(|(_, gateway)| *gateway).collect();
        assert_eq!(gateways, [Some("10.0.0.1".parse().unwrap()), Some("10.0.0.9".parse().unwrap()), None]);
    }

    #[test]
    fn tuning_changes_what_the_first_plugin_made() {
        let definition = parse(
            &json!({"plugins": [{"type": "vlan", "master": "eth1", "vlanId": 100},
                {"type": "tuning", "mac": "02:00:00:00:00:01", "mtu": 1300, "sysctl": {"net.ipv4.conf.IFNAME.arp_ignore": 1}}]})
            .to_string(),
        )
        .unwrap();
        assert_eq!(
            definition.kind,
            Kind::On { master: Some("eth1".to_owned()), upper: Upper::Vlan { id: 100 } }
        );
        assert_eq!((definition.mtu, definition.mac), (Some(1300), Some([2, 0, 0, 0, 0, 1])));
        assert_eq!(definition.sysctls, [("net.ipv4.conf.IFNAME.arp_ignore".to_owned(), "1".to_owned())]);
    }

    #[test]
    fn what_is_not_offered_is_named() {
        for (config, word) in [
            ("{", "JSON"),
            (r#"{"plugins": []}"#, "no plugins"),
            (r#"{"name": "x"}"#, "type"),
            (r#"{"type": "ipvlan"}"#, "ipvlan"),
            (r#"{"plugins": [{"type": "bridge"}, {"type": "bandwidth"}]}"#, "bandwidth"),
            (r#"{"type": "bridge", "isGateway": true}"#, "isGateway"),
            (r#"{"type": "bridge", "ipMasq": true}"#, "ipMasq"),
            (r#"{"type": "bridge", "vlan": 5}"#, "vlan"),
            (r#"{"type": "bridge", "macspoofchk": true}"#, "macspoofchk"),
            (r#"{"type": "bridge", "portIsolation": true}"#, "portIsolation"),
            (r#"{"type": "bridge", "bridge": "a-name-that-is-too-long"}"#, "up to 15 letters"),
            (r#"{"type": "macvlan", "master": "eth0/1"}"#, "master: \"eth0/1\" is not"),
            (r#"{"type": "vlan", "master": "eth0"}"#, "vlanId"),
            (r#"{"type": "vlan", "vlanId": 4095}"#, "vlanId"),
            (r#"{"type": "macvlan", "mode": "hub"}"#, "hub"),
            (r#"{"type": "macvlan", "ipam": {"type": "dhcp"}}"#, "dhcp"),
            (
                r#"{"type": "macvlan", "ipam": {"type": "static", "addresses": [{"address": "10.0.0.1"}]}}"#,
                "10.0.0.1",
            ),
            (r#"{"type": "macvlan", "ipam": {"type": "static", "routes": [{"dst": "x"}]}}"#, "ipam.routes"),
        ] {
            let said = parse(config).unwrap_err();
            assert!(said.contains(word), "{config}: {said}");
        }
    }
}
