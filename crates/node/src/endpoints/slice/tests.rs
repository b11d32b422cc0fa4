use serde_json::json;

use super::*;

fn service(extra: serde_json::Value) -> Service {
    let mut spec =
        json!({"selector": {"app": "web"}, "ports": [{"name": "http", "port": 80, "targetPort": "web"}]});
    spec.as_object_mut().unwrap().extend(extra.as_object().unwrap().clone());
    serde_json::from_value(json!({"metadata": {"name": "web", "namespace": "ns", "uid": "s"}, "spec": spec}))
        .unwrap()
}

fn pod(name: &str, port: i32, ready: bool) -> Pod {
    serde_json::from_value(json!({
        "metadata": {"name": name, "namespace": "ns", "uid": name},
        "spec": {"nodeName": "n", "containers": [{"name": "c", "ports": [{"name": "web", "containerPort": port}]}]},
        "status": {"phase": "Running", "podIP": "127.0.0.1",
                   "conditions": [{"type": "Ready", "status": if ready { "True" } else { "False" }}]}
    }))
    .unwrap()
}

fn ready(slice: &EndpointSlice) -> Vec<(String, bool)> {
    let of = |endpoint: &Endpoint| {
        (target_name(endpoint).unwrap().to_owned(), endpoint.conditions.as_ref().unwrap().ready.unwrap())
    };
    slice.endpoints.iter().map(of).collect()
}

#[test]
fn pods_with_other_ports_get_other_slices() {
    let slices = build_slices(
        &service(json!({})),
        &[pod("b", 8080, false), pod("a", 8080, true), pod("c", 9090, true)],
    );
    assert_eq!(slices.len(), 2);
    assert_eq!(ready(&slices[0]), [("a".to_owned(), true), ("b".to_owned(), false)]);
    assert_eq!(slices[0].ports.as_ref().unwrap()[0].port, Some(8080));
    assert_eq!(slices[1].ports.as_ref().unwrap()[0].port, Some(9090));
    assert_eq!(slices[0].metadata.labels.as_ref().unwrap()[SERVICE_NAME_LABEL], "web");
    assert_ne!(slices[0].metadata.name, slices[1].metadata.name);
}

#[test]
fn terminating_pods_serve_but_are_not_ready() {
    let mut leaving = pod("a", 1, true);
    leaving.metadata.deletion_timestamp =
        Some(k8s_openapi::apimachinery::pkg::apis::meta::v1::Time(jiff::Timestamp::UNIX_EPOCH));
    let slices = build_slices(&service(json!({})), std::slice::from_ref(&leaving));
    let conditions = slices[0].endpoints[0].conditions.clone().unwrap();
    assert_eq!(
        (conditions.ready, conditions.serving, conditions.terminating),
        (Some(false), Some(true), Some(true))
    );
    assert_eq!(build_endpoints(&service(json!({})), &[leaving]).subsets, None);
}

#[test]
fn unready_pods_are_published_on_request() {
    let service = service(json!({"publishNotReadyAddresses": true}));
    let slices = build_slices(&service, &[pod("a", 1, false)]);
    assert_eq!(ready(&slices[0]), [("a".to_owned(), true)]);
    assert_eq!(slices[0].endpoints[0].conditions.as_ref().unwrap().serving, Some(false));
    let subsets = build_endpoints(&service, &[pod("a", 1, false)]).subsets.unwrap();
    assert_eq!(subsets[0].addresses.as_ref().unwrap().len(), 1);
}

#[test]
fn finished_pods_pods_without_address_and_without_the_port_are_left_out() {
    let mut done = pod("done", 1, false);
    done.status.as_mut().unwrap().phase = Some("Succeeded".into());
    let mut placeless = pod("placeless", 1, false);
    placeless.status.as_mut().unwrap().pod_ip = None;
    let mut portless = pod("portless", 1, true);
    portless.spec.as_mut().unwrap().containers[0].ports = None;
    let slices = build_slices(&service(json!({})), &[done, placeless, portless]);
    assert_eq!(slices.len(), 1, "an empty slice stays, so that a reader knows the Service is handled");
    assert!(slices[0].endpoints.is_empty());
}

#[test]
fn numbers_and_missing_target_ports_stand_for_themselves() {
    let ports = json!({"ports": [{"name": "a", "port": 80}, {"name": "b", "port": 81, "targetPort": 8081, "protocol": "UDP"}]});
    let slices = build_slices(&service(ports), &[pod("a", 1, true)]);
    let ports: Vec<_> = slices[0]
        .ports
        .clone()
        .unwrap()
        .into_iter()
        .map(|p| (p.name.unwrap(), p.port.unwrap(), p.protocol.unwrap()))
        .collect();
    assert_eq!(ports, [("a".into(), 80, "TCP".to_owned()), ("b".into(), 8081, "UDP".into())]);
}

#[test]
fn a_slice_keeps_its_family_whatever_others_come() {
    let at = |name: &str, address: &str| {
        let mut pod = pod(name, 80, true);
        pod.status.as_mut().unwrap().pod_ip = Some(address.to_owned());
        pod
    };
    let (six, four) = (at("six", "fd00::1"), at("four", "10.0.0.1"));
    let families = |pods: &[Pod]| -> BTreeMap<String, String> {
        let slices = build_slices(&service(json!({})), pods);
        slices.into_iter().map(|slice| (slice.name_any(), slice.address_type)).collect()
    };
    let alone = families(std::slice::from_ref(&six));
    let both = families(&[six, four]);
    assert_eq!((alone.len(), both.len()), (1, 2));
    for (name, family) in alone {
        assert_eq!(both.get(&name), Some(&family), "{name} can't become another family's");
    }
}

#[test]
fn a_pod_has_a_name_below_the_service_that_it_names() {
    let mut named = pod("db-0", 1, true);
    let spec = named.spec.as_mut().unwrap();
    (spec.hostname, spec.subdomain) = (Some("db-0".to_owned()), Some("web".to_owned()));
    let mut other = pod("db-1", 1, true);
    let spec = other.spec.as_mut().unwrap();
    (spec.hostname, spec.subdomain) = (Some("db-1".to_owned()), Some("elsewhere".to_owned()));
    let service = service(json!({}));
    assert_eq!(service.name_any(), "web");
    let slices = build_slices(&service, &[named.clone(), other.clone()]);
    let names: Vec<_> = slices[0].endpoints.iter().map(|endpoint| endpoint.hostname.as_deref()).collect();
    assert_eq!(names, [Some("db-0"), None]);
    let subsets = build_endpoints(&service, &[named, other]).subsets.unwrap();
    assert_eq!(subsets[0].addresses.as_ref().unwrap()[0].hostname.as_deref(), Some("db-0"));
}
