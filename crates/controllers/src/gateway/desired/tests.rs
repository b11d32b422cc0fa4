use std::time::Duration;

use causeway_api::GatewayParametersSpec;
use causeway_translate::gateway::{World, picture};
use causeway_translate::gateway_pod::parts;
use k8s_openapi::jiff::Timestamp;
use kube::api::DynamicObject;
use serde_json::{Value, json};

use super::*;
use crate::{gateway::Settings, vlan::proxy};

/// A Gateway of ours with these fields in its spec.
fn gateway(name: &str, spec: &Value) -> GatewayPicture {
    let mut full = json!({
        "gatewayClassName": "causeway",
        "listeners": [
            {"name": "http", "port": 80, "protocol": "HTTP"},
            {"name": "health", "port": 19080, "protocol": "HTTP"},
            {"name": "dns", "port": 53, "protocol": "UDP"},
        ],
    });
    for (key, value) in spec.as_object().into_iter().flatten() {
        full[key] = value.clone();
    }
    let api = "gateway.networking.k8s.io/v1";
    let objects = [
        json!({"apiVersion": api, "kind": "GatewayClass", "metadata": {"name": "causeway"},
               "spec": {"controllerName": "causeway.dev/gateway"}}),
        json!({"apiVersion": api, "kind": "Gateway", "metadata": {"name": name, "namespace": "shop", "generation": 4},
               "spec": full}),
        json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "shop"}}),
    ];
    let objects: Vec<DynamicObject> =
        objects.into_iter().map(|object| serde_json::from_value(object).unwrap()).collect();
    let (world, unread) = World::read(&objects);
    assert!(unread.is_empty(), "{unread:?}");
    picture(&world, Timestamp::UNIX_EPOCH).gateways.remove(&ObjectRef::new("shop", name)).unwrap()
}

fn desired(name: &str, picture: &GatewayPicture, address: Option<&str>) -> Desired {
    let effective = Effective::of(&picture.parameters, &Settings::default(), &proxy::Settings::default());
    let at = ObjectRef::new("shop", name);
    let session_key = &[7; 32];
    let subject = Subject { at: &at, picture, effective: &effective, openshift: false, address, session_key };
    subject.desired(&parts::split(&picture.plan))
}

#[test]
fn the_service_has_the_listeners_ports_and_pods_keep_their_own() {
    let desired = desired("web", &gateway("web", &json!({})), Some("10.96.0.77"));
    let spec = desired.service.unwrap().spec.unwrap();
    let ports: Vec<String> = spec
        .ports
        .unwrap()
        .iter()
        .map(|port| {
            let Some(IntOrString::Int(target)) = port.target_port else { panic!("{port:?}") };
            format!("{} {} {target}", port.name.as_deref().unwrap(), port.port)
        })
        .collect();
    assert_eq!(ports, ["tcp-80 80 80", "tcp-19080 19080 19180", "udp-53 53 53"]);
    assert_eq!((spec.type_.as_deref(), spec.cluster_ip.as_deref()), (Some("ClusterIP"), Some("10.96.0.77")));
    assert_eq!(spec.selector.unwrap()[names::LABEL_OWNER_NAME], "web-causeway");
}

#[test]
fn pods_are_restricted_and_have_rights_by_name() {
    let desired = desired("web", &gateway("web", &json!({})), None);
    let pod = desired.deployment.spec.as_ref().unwrap().template.spec.clone().unwrap();
    assert_eq!(pod.security_context.unwrap().run_as_non_root, Some(true));
    let container = &pod.containers[0];
    assert_eq!(container.args.as_deref().unwrap()[..3], ["gateway", "--namespace", "shop"]);
    assert_eq!(container.security_context.as_ref().unwrap().read_only_root_filesystem, Some(true));
    let volume = pod.volumes.unwrap()[0].empty_dir.clone().unwrap();
    assert_eq!(volume.medium.as_deref(), Some("Memory"), "certificates are in it");
    for rule in desired.role.rules.as_ref().unwrap() {
        let resources = rule.resources.as_deref().unwrap();
        assert!(rule.resource_names.is_some() || resources == ["supplies"], "{rule:?}");
        assert_ne!(resources, ["secrets"], "there are none to read");
    }
    assert!(desired.secrets.is_empty() && desired.budget.is_none());
    // The key of sessions is nobody's but the pods'.
    assert_eq!(desired.session.name_any(), "web-causeway-session");
    assert_eq!(desired.session.data.as_ref().unwrap()[SESSION_ENTRY].0, [7; 32]);
    assert!(!serde_json::to_string(&desired.deployment).unwrap().contains("BwcHBw"));
}

#[test]
fn infrastructure_is_on_everything_and_takes_nothing_of_ours_away() {
    let infrastructure = json!({
        "labels": {"team": "net", "app": "other"}, "annotations": {"note": "x"},
    });
    let desired = desired("web", &gateway("web", &json!({"infrastructure": infrastructure})), None);
    let template = desired.deployment.spec.as_ref().unwrap().template.metadata.clone().unwrap();
    let service = desired.service.as_ref().unwrap().metadata.clone();
    for metadata in [&desired.service_account.metadata, &service, &template, &desired.deployment.metadata] {
        let labels = metadata.labels.as_ref().unwrap();
        assert_eq!((labels["team"].as_str(), labels["app"].as_str()), ("net", "gateway"));
        assert_eq!(labels[names::LABEL_GATEWAY_NAME], "web");
        assert_eq!(metadata.annotations.as_ref().unwrap()["note"], "x");
    }
}

#[test]
fn parameters_decide_on_service_replicas_and_ports_of_nodes() {
    let mut picture = gateway("web", &json!({}));
    picture.parameters = GatewayParametersSpec {
        service_type: Some(GatewayServiceType::LoadBalancer),
        load_balancer_class: Some("example.com/metal".into()),
        external_traffic_policy: Some(ExternalTrafficPolicy::Local),
        replicas: Some(3),
        host_ports: Some(true),
        ..GatewayParametersSpec::default()
    };
    let desired = desired("web", &picture, Some("192.0.2.7"));
    let service = desired.service.as_ref().unwrap().spec.as_ref().unwrap();
    assert_eq!(service.type_.as_deref(), Some("LoadBalancer"));
    assert_eq!(service.load_balancer_ip.as_deref(), Some("192.0.2.7"));
    assert_eq!(service.cluster_ip, None);
    assert_eq!(service.external_traffic_policy.as_deref(), Some("Local"));
    let deployment = desired.deployment.spec.as_ref().unwrap();
    assert_eq!(deployment.replicas, Some(3));
    assert!(desired.budget.is_some());
    let ports = deployment.template.spec.as_ref().unwrap().containers[0].ports.clone().unwrap();
    let hosts: Vec<_> = ports.iter().filter_map(|port| port.host_port).collect();
    assert_eq!(hosts, [80, 19080, 53]);
}

#[test]
fn a_change_of_listeners_replaces_no_pod() {
    let one = desired("web", &gateway("web", &json!({})), None);
    let listeners = json!([{"name": "other", "port": 8080, "protocol": "HTTP"}]);
    let other = desired("web", &gateway("web", &json!({"listeners": listeners})), None);
    assert_ne!(one.service, other.service);
    assert_eq!(one.deployment, other.deployment);
}

#[test]
fn another_time_to_drain_replaces_pods_only_if_they_could_not_take_it() {
    let made = |seconds: Option<u64>| {
        let mut picture = gateway("web", &json!({}));
        if let Some(seconds) = seconds {
            picture.plan.drain_timeout = Duration::from_secs(seconds);
        }
        let deployment = desired("web", &picture, None).deployment;
        let pod = deployment.spec.unwrap().template.spec.unwrap();
        pod.termination_grace_period_seconds.unwrap()
    };
    assert_eq!([0, 5, 30].map(|seconds| made(Some(seconds))), [made(None); 3]);
    for seconds in [0, 30, 31, 120, 121, 600, 601, 3600] {
        let given = made(Some(seconds));
        assert!(given >= i64::try_from(seconds).unwrap() + 10, "{seconds}: {given}");
    }
    assert_ne!(made(Some(31)), made(None));
    assert_eq!(made(Some(31)), made(Some(120)));
}

#[test]
fn a_name_of_253_letters_makes_children() {
    let name = format!("{}.{}", "a".repeat(60), "b".repeat(192));
    let desired = desired(&name, &gateway(&name, &json!({})), None);
    for wanted in [desired.service.as_ref().unwrap().name_any(), desired.deployment.name_any()] {
        assert!(wanted.len() <= 63, "{wanted}");
    }
    let labels = desired.deployment.metadata.labels.as_ref().unwrap();
    assert!(labels.values().all(|value| value.len() <= 63), "{labels:?}");
}
