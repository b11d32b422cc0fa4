use serde_json::{Value, json};

use super::*;

fn pod(name: &str, host: &str) -> Pod {
    serde_json::from_value(json!({
        "metadata": {"name": name}, "status": {"hostIP": host, "phase": "Running"},
    }))
    .unwrap()
}

fn service(type_: &str, ingress: Value) -> Service {
    serde_json::from_value(json!({
        "metadata": {"name": "web-causeway"},
        "spec": {"type": type_, "clusterIP": "10.96.0.7", "clusterIPs": ["10.96.0.7", "fd00::7"]},
        "status": {"loadBalancer": {"ingress": ingress}},
    }))
    .unwrap()
}

fn plan(replicas: Value) -> GatewayPlan {
    serde_json::from_value(json!({
        "metadata": {"name": "web-causeway"}, "spec": {"gateway": "web"}, "status": {"replicas": replicas},
    }))
    .unwrap()
}

fn values(standing: &Standing) -> Vec<String> {
    standing.observed(&BTreeMap::new()).addresses.into_iter().map(|address| address.value).collect()
}

#[test]
fn addresses_are_true_for_the_type_of_the_service() {
    let pods = vec![pod("a", "192.0.2.1"), pod("b", "192.0.2.2"), pod("c", "192.0.2.1")];
    let of = |service| Standing { service: Some(service), pods: pods.clone(), ..Standing::default() };
    assert_eq!(values(&of(service("ClusterIP", json!([])))), ["10.96.0.7", "fd00::7"]);
    let mut on_nodes = service("NodePort", json!([]));
    let ports = json!([{"port": 80, "nodePort": 30080}, {"port": 53, "nodePort": 30053, "protocol": "UDP"}]);
    on_nodes.spec.as_mut().unwrap().ports = serde_json::from_value(ports).unwrap();
    assert_eq!(values(&of(on_nodes.clone())), ["192.0.2.1", "192.0.2.2"]);
    let told = of(on_nodes.clone()).observed(&BTreeMap::new()).node_ports;
    let told: Vec<String> = told.iter().map(|(port, on_node)| format!("{port} {on_node}")).collect();
    assert_eq!(told, ["80/TCP 30080", "53/UDP 30053"]);
    on_nodes.spec.as_mut().unwrap().ports.as_mut().unwrap()[1].node_port = None;
    assert!(values(&of(on_nodes)).is_empty(), "an address without a port is of no use");
    assert!(values(&of(service("LoadBalancer", json!([])))).is_empty(), "it has none yet");
    let ingress = json!([{"ip": "198.51.100.4"}, {"hostname": "lb.example.com"}]);
    let balanced = of(service("LoadBalancer", ingress));
    assert_eq!(values(&balanced), ["198.51.100.4", "lb.example.com"]);
    assert_eq!(balanced.observed(&BTreeMap::new()).addresses[1].kind, AddressKind::Hostname);

    let deployment = json!({
        "metadata": {"name": "web-causeway"},
        "spec": {"selector": {}, "template": {"spec": {"containers": [
            {"name": "gateway", "ports": [{"containerPort": 80, "hostPort": 80}]}]}}},
    });
    let hosted = Standing {
        deployment: Some(serde_json::from_value(deployment).unwrap()),
        ..of(service("ClusterIP", json!([])))
    };
    assert_eq!(values(&hosted), ["192.0.2.1", "192.0.2.2"]);
    assert!(hosted.observed(&BTreeMap::new()).node_ports.is_empty(), "they are the Gateway's own");
}

#[test]
fn serves_what_every_pod_that_serves_has_and_says_what_is_wrong_with_the_others() {
    let standing = |replicas: Value| Standing {
        plan: Some(plan(replicas)),
        pods: vec![pod("a", "192.0.2.1"), pod("b", "192.0.2.2")],
        ..Standing::default()
    };
    let of = |replicas: Value| standing(replicas).observed(&BTreeMap::new());
    let none = of(json!([]));
    assert_eq!((none.serving, none.running_generation, none.trouble), (false, None, None));
    let both = of(json!([
        {"name": "a", "serving": true, "gatewayGeneration": 3},
        {"name": "b", "serving": true, "gatewayGeneration": 2},
        {"name": "gone", "serving": true, "gatewayGeneration": 1},
    ]));
    assert_eq!((both.serving, both.running_generation), (true, Some(2)));
    let one = of(json!([
        {"name": "a", "serving": true, "gatewayGeneration": 3},
        {"name": "b", "serving": false, "gatewayGeneration": 2, "trouble": "port 80 is taken"},
    ]));
    assert_eq!((one.serving, one.running_generation), (true, Some(3)));
    assert_eq!(one.trouble.as_deref(), Some("pod b: port 80 is taken"));
}

#[test]
fn nobody_waits_for_pods_that_can_not_start() {
    let rolling = json!({
        "metadata": {"name": "web-causeway", "generation": 2}, "spec": {"selector": {}, "template": {}},
        "status": {"observedGeneration": 1},
    });
    let mut standing =
        Standing { deployment: Some(serde_json::from_value(rolling).unwrap()), ..Standing::default() };
    assert!(standing.is_rolling() && standing.is_updating());
    let waiting = json!({"reason": "ErrImagePull", "message": "not found"});
    let stuck = json!({
        "metadata": {"name": "a"},
        "status": {"containerStatuses": [{"name": "gateway", "image": "", "imageID": "", "ready": false,
            "restartCount": 0, "state": {"waiting": waiting}}]},
    });
    standing.pods.push(serde_json::from_value(stuck).unwrap());
    assert!(standing.is_rolling() && !standing.is_updating());
}
