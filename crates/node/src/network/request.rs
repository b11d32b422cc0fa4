//! Which networks a pod asks for: the annotation `k8s.v1.cni.cncf.io/networks`, as JSON or in its short form.

use std::net::IpAddr;

use ipnet::IpNet;
use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt;
use serde::Deserialize;

use super::netlink::Mac;

/// What pods ask with.
pub(crate) const NETWORKS: &str = "k8s.v1.cni.cncf.io/networks";

/// The longest name of an interface.
const NAME_LENGTH: usize = 15;

/// One network that is asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Request {
    pub namespace: String,
    pub name: String,
    pub interface: String,
    /// In place of the addresses that the definition has.
    pub addresses: Vec<IpNet>,
    pub mac: Option<Mac>,
    /// Routers for everything else.
    pub default_routes: Vec<IpAddr>,
}

impl Request {
    /// The definition's name, with its namespace.
    pub(crate) fn definition(&self) -> String {
        format!("{}/{}", self.namespace, self.name)
    }
}

/// The JSON form; what is left out of Multus' fields has no meaning here.
#[derive(Deserialize)]
struct Element {
    name: String,
    namespace: Option<String>,
    interface: Option<String>,
    #[serde(default)]
    ips: Vec<String>,
    mac: Option<String>,
    #[serde(default, rename = "default-route")]
    default_routes: Vec<String>,
}

/// What a pod asks for that takes an interface of its own. A pod of the host's network has all that the host has; and all
/// of 127.0.0.0/8 is every process's on this machine, so who asks for nothing else needs no interface.
///
/// # Errors
/// When the annotation can't be understood; what to write instead.
pub(crate) fn requests(pod: &Pod) -> Result<Vec<Request>, String> {
    let is_on_host = pod.spec.as_ref().and_then(|spec| spec.host_network) == Some(true);
    let Some(text) = pod.annotations().get(NETWORKS).filter(|text| !text.trim().is_empty() && !is_on_host)
    else {
        return Ok(Vec::new());
    };
    let own = pod.namespace().unwrap_or_default();
    let mut requests =
        parse(text, &own).map_err(|problem| format!("the annotation {NETWORKS} can't be used: {problem}"))?;
    requests.retain(|request| {
        request.addresses.is_empty() || !request.addresses.iter().all(|address| address.addr().is_loopback())
    });
    Ok(requests)
}

fn parse(text: &str, own: &str) -> Result<Vec<Request>, String> {
    let elements: Vec<Element> = if text.trim_start().starts_with('[') {
        serde_json::from_str(text)
            .map_err(|error| format!("it is not the JSON that Multus reads: {error}"))?
    } else {
        text.split(',').map(|part| short(part.trim())).collect::<Result<_, _>>()?
    };
    let mut requests: Vec<Request> = Vec::new();
    for (number, element) in elements.into_iter().enumerate() {
        let request = read(element, number + 1, own)?;
        if requests.iter().any(|other| other.interface == request.interface) || request.interface == "eth0" {
            return Err(format!("two interfaces are called {}", request.interface));
        }
        requests.push(request);
    }
    Ok(requests)
}

/// `NAMESPACE/NAME@INTERFACE`, with the name alone required.
fn short(text: &str) -> Result<Element, String> {
    let (name, interface) =
        text.split_once('@').map_or((text, None), |(name, interface)| (name, Some(interface)));
    let (namespace, name) = name.split_once('/').map_or((None, name), |(space, name)| (Some(space), name));
    if name.is_empty() || name.contains('/') {
        return Err(format!("{text:?} is not NAME, NAMESPACE/NAME or NAME@INTERFACE"));
    }
    Ok(Element {
        name: name.to_owned(),
        namespace: namespace.map(str::to_owned),
        interface: interface.map(str::to_owned),
        ips: Vec::new(),
        mac: None,
        default_routes: Vec::new(),
    })
}

fn read(element: Element, number: usize, own: &str) -> Result<Request, String> {
    let interface = element.interface.unwrap_or_else(|| format!("net{number}"));
    check_name(&interface)?;
    let prefix = |text: &String| {
        text.parse()
            .map_err(|_| format!("ips: {text:?} is not an address with its prefix, such as 192.168.100.4/24"))
    };
    let router =
        |text: &String| text.parse().map_err(|_| format!("default-route: {text:?} is not an address"));
    Ok(Request {
        namespace: element
            .namespace
            .filter(|namespace| !namespace.is_empty())
            .unwrap_or_else(|| own.to_owned()),
        name: element.name,
        interface,
        addresses: element.ips.iter().map(prefix).collect::<Result<_, _>>()?,
        mac: element.mac.as_deref().filter(|mac| !mac.is_empty()).map(mac).transpose()?,
        default_routes: element.default_routes.iter().map(router).collect::<Result<_, _>>()?,
    })
}

/// Refuses what the kernel does not take as the name of an interface.
pub(super) fn check_name(interface: &str) -> Result<(), String> {
    let is_part = |c: char| c.is_ascii_graphic() && c != '/' && c != ':' && c != '%';
    let is_name = (1..=NAME_LENGTH).contains(&interface.len())
        && interface.chars().all(is_part)
        && !interface.starts_with('.');
    if is_name {
        return Ok(());
    }
    Err(format!(
        "{interface:?} is not the name of an interface: write up to {NAME_LENGTH} letters and digits"
    ))
}

/// A hardware address in its usual form.
pub(super) fn mac(text: &str) -> Result<Mac, String> {
    let bytes: Option<Vec<u8>> = text
        .split(':')
        .map(|part| if part.len() == 2 { u8::from_str_radix(part, 16).ok() } else { None })
        .collect();
    let mac: Option<Mac> = bytes.and_then(|bytes| bytes.try_into().ok());
    mac.filter(|mac| mac[0] & 1 == 0)
        .ok_or_else(|| format!("mac: {text:?} is not the address of one machine, such as 02:00:00:00:00:04"))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn of(text: &str) -> Result<Vec<Request>, String> {
        let pod = json!({"metadata": {"name": "p", "namespace": "ns", "annotations": {NETWORKS: text}}});
        requests(&serde_json::from_value(pod).unwrap())
    }

    #[test]
    fn both_forms_are_understood() {
        let long = of(r#"[{"name":"vlan","namespace":"net","ips":["192.168.100.4/24","fd00::4/64"],"mac":"02:00:00:00:00:0a"},
                         {"name":"b","interface":"lan","default-route":["10.0.0.1"]}]"#)
        .unwrap();
        assert_eq!(long[0].definition(), "net/vlan");
        assert_eq!((&*long[0].interface, &*long[1].interface), ("net1", "lan"));
        assert_eq!(long[0].addresses[1], "fd00::4/64".parse().unwrap());
        assert_eq!(long[0].mac, Some([2, 0, 0, 0, 0, 10]));
        assert_eq!(long[1].definition(), "ns/b");
        assert_eq!(long[1].default_routes, ["10.0.0.1".parse::<IpAddr>().unwrap()]);
        let short = of("a, other/b@up").unwrap();
        assert_eq!(
            short.iter().map(|request| (request.definition(), request.interface.clone())).collect::<Vec<_>>(),
            [("ns/a".to_owned(), "net1".to_owned()), ("other/b".to_owned(), "up".to_owned())]
        );
    }

    #[test]
    fn loopback_needs_no_interface() {
        assert_eq!(of(r#"[{"name":"vlan","ips":["127.77.0.1/24"]}]"#), Ok(Vec::new()));
        assert_eq!(of(r#"[{"name":"vlan","ips":["127.77.0.1/24","10.0.0.1/8"]}]"#).unwrap().len(), 1);
        assert_eq!(of(r#"[{"name":"vlan"}]"#).unwrap().len(), 1);
        assert_eq!(of(" "), Ok(Vec::new()));
    }

    #[test]
    fn what_is_wrong_is_named() {
        for (text, word) in [
            ("[{]", "JSON"),
            (r#"[{"namespace":"x"}]"#, "name"),
            (r#"[{"name":"a","ips":["192.168.1.4"]}]"#, "192.168.1.4"),
            (r#"[{"name":"a","mac":"01:00:00:00:00:01"}]"#, "01:00"),
            (r#"[{"name":"a","mac":"2:0:0:0:0:1"}]"#, "mac"),
            (r#"[{"name":"a","interface":"../x"}]"#, "../x"),
            (r#"[{"name":"a","interface":"eth0"}]"#, "eth0"),
            (r#"[{"name":"a","default-route":["x"]}]"#, "default-route"),
            ("a/b/c", "a/b/c"),
            ("a@x,b@x", "two interfaces"),
        ] {
            let said = of(text).unwrap_err();
            assert!(said.contains(word) && said.contains(NETWORKS), "{text}: {said}");
        }
    }
}
