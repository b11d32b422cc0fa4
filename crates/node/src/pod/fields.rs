//! Values that a pod knows about itself: `fieldRef` and `resourceFieldRef`, for environment and downward API volumes.

use std::{collections::BTreeMap, fmt::Write, net::IpAddr};

use causeway_base::Quantity;
use k8s_openapi::{
    api::core::v1::{Container, Pod, ResourceFieldSelector},
    apimachinery::pkg::api::resource,
};
use kube::ResourceExt;

/// What the node adds to what the pod knows.
#[derive(Clone, Copy, Debug)]
pub(super) struct Host<'a> {
    pub node: &'a str,
    /// The node's address.
    pub address: IpAddr,
    /// The pod's own address.
    pub pod_address: IpAddr,
    pub cpus: u64,
    pub memory: u64,
}

/// The value of a field path, or why there is none.
pub(super) fn field(pod: &Pod, host: Host<'_>, path: &str) -> Result<String, String> {
    if let Some((map, key)) = subscript(path) {
        let entries = match map {
            "metadata.labels" => pod.labels(),
            "metadata.annotations" => pod.annotations(),
            _ => return Err(format!("unsupported fieldPath: {path}")),
        };
        return Ok(entries.get(key).cloned().unwrap_or_default());
    }
    let spec = pod.spec.as_ref();
    Ok(match path {
        "metadata.name" => pod.name_any(),
        "metadata.namespace" => pod.namespace().unwrap_or_default(),
        "metadata.uid" => pod.uid().unwrap_or_default(),
        "metadata.labels" => lines(pod.labels()),
        "metadata.annotations" => lines(pod.annotations()),
        "spec.nodeName" => host.node.to_owned(),
        "spec.serviceAccountName" => {
            spec.and_then(|spec| spec.service_account_name.clone()).unwrap_or_else(|| "default".to_owned())
        }
        "status.podIP" | "status.podIPs" => host.pod_address.to_string(),
        "status.hostIP" | "status.hostIPs" => host.address.to_string(),
        _ => return Err(format!("unsupported fieldPath: {path}")),
    })
}

/// `metadata.labels['key']` as its two parts.
fn subscript(path: &str) -> Option<(&str, &str)> {
    let (map, rest) = path.split_once("['")?;
    Some((map, rest.strip_suffix("']")?))
}

/// One `key="value"` per line, as the downward API writes maps.
fn lines(entries: &BTreeMap<String, String>) -> String {
    let mut text = String::new();
    for (key, value) in entries {
        let separator = if text.is_empty() { "" } else { "\n" };
        // Writing to a String cannot fail.
        let _ = write!(text, "{separator}{key}={value:?}");
    }
    text
}

/// The value of a resource field: rounded up to whole units of the divisor.
pub(super) fn resource(
    container: &Container,
    host: Host<'_>,
    selector: &ResourceFieldSelector,
) -> Result<String, String> {
    let (list, name) = selector
        .resource
        .split_once('.')
        .ok_or_else(|| format!("unsupported container resource: {}", selector.resource))?;
    let resources = container.resources.clone().unwrap_or_default();
    let quantities = match list {
        "limits" => resources.limits,
        "requests" => resources.requests,
        _ => return Err(format!("unsupported container resource: {}", selector.resource)),
    };
    let set = quantities.unwrap_or_default().get(name).and_then(amount);
    let value = match (set, list, name) {
        (Some(value), ..) => value,
        // Without a limit a container may use the whole machine.
        (None, "limits", "cpu") => Quantity::from_units(host.cpus),
        (None, "limits", "memory") => Quantity::from_units(host.memory),
        _ => Quantity::from_units(0),
    };
    let units = selector.divisor.as_ref().and_then(amount).and_then(|divisor| value.in_units_of(divisor));
    Ok(units.or_else(|| value.in_units_of(Quantity::from_units(1))).unwrap_or_default().to_string())
}

/// What a quantity of the API says.
pub(super) fn amount(quantity: &resource::Quantity) -> Option<Quantity> {
    Quantity::parse(quantity.0.trim())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const HOST: Host<'_> = Host {
        node: "n1",
        address: IpAddr::V4(std::net::Ipv4Addr::LOCALHOST),
        pod_address: IpAddr::V4(std::net::Ipv4Addr::new(127, 128, 0, 1)),
        cpus: 2,
        memory: 1 << 30,
    };

    #[test]
    fn reads_fields_of_the_pod() {
        let pod: Pod = serde_json::from_value(json!({
            "metadata": {"name": "p", "namespace": "ns", "uid": "u", "labels": {"a/b": "1", "c": "x\"y"}},
            "spec": {"serviceAccountName": "sa", "containers": []}
        }))
        .unwrap();
        let cases = [
            ("metadata.name", "p"),
            ("metadata.namespace", "ns"),
            ("metadata.uid", "u"),
            ("metadata.labels['a/b']", "1"),
            ("metadata.annotations['none']", ""),
            ("metadata.labels", "a/b=\"1\"\nc=\"x\\\"y\""),
            ("spec.nodeName", "n1"),
            ("spec.serviceAccountName", "sa"),
            ("status.podIP", "127.128.0.1"),
            ("status.hostIP", "127.0.0.1"),
        ];
        for (path, expected) in cases {
            assert_eq!(field(&pod, HOST, path).as_deref(), Ok(expected), "{path}");
        }
        assert!(field(&pod, HOST, "spec.nothing").is_err());
    }

    #[test]
    fn reads_resources_in_units_of_the_divisor() {
        let container: Container = serde_json::from_value(
            json!({"name": "c", "resources": {"limits": {"cpu": "1500m", "memory": "64Mi"}, "requests": {"cpu": "0.25"}}}),
        )
        .unwrap();
        let read = |resource_name: &str, divisor: Option<&str>| {
            let selector: ResourceFieldSelector =
                serde_json::from_value(json!({"resource": resource_name, "divisor": divisor})).unwrap();
            resource(&container, HOST, &selector).unwrap()
        };
        assert_eq!(read("limits.cpu", None), "2");
        assert_eq!(read("limits.cpu", Some("1m")), "1500");
        assert_eq!(read("limits.memory", Some("1Mi")), "64");
        assert_eq!(read("limits.memory", None), (64 << 20).to_string());
        assert_eq!(read("requests.cpu", Some("1m")), "250");
        assert_eq!(read("requests.memory", None), "0");
    }
}
