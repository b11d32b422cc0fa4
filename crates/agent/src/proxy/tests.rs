use std::sync::Arc;

use causeway_api::{Backend, ProxyNetwork, ProxyServerSpec};

use super::*;

fn agent(server_ip: Option<&str>, pod_ip: &str) -> Proxy {
    Proxy {
        name: "edge".into(),
        pod: "pod-1".into(),
        pod_ip: pod_ip.parse().unwrap(),
        server_ip: server_ip.map(|text| text.parse().unwrap()),
        engine: Engine::Native,
        follow_log_level: Box::new(|_| {}),
    }
}

fn checked(attachment: Option<&str>) -> Valid {
    let network_config = ProxyNetwork {
        server_ip: Some("192.168.100.5/24".into()),
        additional_server_ips: vec!["192.168.100.6".into()],
        network_attachment_name: attachment.map(Into::into),
        ..ProxyNetwork::default()
    };
    let backend = Backend {
        name: "a".into(),
        hostname: "a.test".into(),
        port: 443,
        target_service: "a".into(),
        target_port: 443,
        target_namespace: "apps".into(),
        ..Backend::default()
    };
    let spec = ProxyServerSpec { network_config, backends: vec![backend], ..ProxyServerSpec::default() };
    validate(&ProxyServer::new("edge", spec)).unwrap()
}

/// Where it listens, by listener, and whether it is attached.
fn listens(agent: &Proxy, proxy: &Valid, here: &[&str]) -> (Vec<(String, String)>, bool) {
    let here = here.iter().map(|text| text.parse().unwrap()).collect();
    let (plan, notes) = agent.plan(proxy, &Surroundings { here, ..Surroundings::default() }, None).unwrap();
    let listeners = plan.listeners.iter();
    (
        listeners.map(|listener| (listener.name.to_string(), listener.bind.to_string())).collect(),
        notes.attached,
    )
}

#[test]
fn listens_on_what_this_machine_has_and_always_on_the_pods_address() {
    let at = |name: &str, bind: &str| (name.to_owned(), bind.to_owned());
    let pod = at("edge-listener-443-pod", "10.0.0.9:443");
    let elsewhere = agent(None, "10.0.0.9");
    assert_eq!(elsewhere.needs(&checked(None)).addresses.len(), 2, "those of all replicas");
    assert_eq!(
        listens(&elsewhere, &checked(Some("vlan")), &["192.168.100.6"]),
        (vec![at("edge-listener-443", "192.168.100.6:443"), pod.clone()], true)
    );
    assert_eq!(listens(&elsewhere, &checked(Some("vlan")), &[]), (vec![pod], false));

    let same = agent(Some("192.168.100.6"), "192.168.100.6");
    assert_eq!(same.needs(&checked(None)).addresses, [same.pod_ip]);
    let once = vec![at("edge-listener-443", "192.168.100.6:443")];
    assert_eq!(listens(&same, &checked(None), &["192.168.100.6"]), (once, true));
}

#[test]
fn serves_only_when_the_wanted_plan_runs_without_trouble() {
    let agent = agent(None, "10.0.0.9");
    let plan = Arc::new(Plan::default());
    let backends = vec![BackendState { name: "a".into(), ready_endpoints: 2, message: None }];
    let state = State::<Proxy> {
        generation: Some(3),
        running: Some(3),
        plan: Some(Arc::clone(&plan)),
        notes: ProxyNotes { attached: true, backends, ..ProxyNotes::default() },
        ..State::default()
    };
    let carried = Snapshot { plan: Some(plan), ..Snapshot::default() };
    let good = agent.entry(&state, &carried);
    assert!(good.serving);
    assert_eq!((good.ready_backends, good.backends.len()), (1, 0), "nothing is to be said of it");

    let taken = Snapshot { trouble: Some("port 443 is taken".into()), ..carried.clone() };
    let bad = agent.entry(&state, &taken);
    assert_eq!((bad.serving, bad.trouble.as_deref()), (false, Some("port 443 is taken")));
    let refused = State { refused: Some("spec.replicas: no".into()), ..state.clone() };
    assert!(!agent.entry(&refused, &carried).serving);
    assert!(!agent.entry(&state, &Snapshot::default()).serving);
    let earlier = Plan { drain_timeout: std::time::Duration::from_secs(7), ..Plan::default() };
    let behind = Snapshot { plan: Some(Arc::new(earlier)), ..carried };
    assert!(!agent.entry(&state, &behind).serving, "another plan than the wanted one runs");
}

#[test]
fn endpoints_that_fail_the_health_check_are_not_ready() {
    let agent = agent(None, "10.0.0.9");
    let backends = ["a", "b", "c"]
        .map(|name| BackendState { name: name.into(), ready_endpoints: 2, message: None })
        .into();
    let state = State::<Proxy> {
        notes: ProxyNotes { attached: true, backends, ..ProxyNotes::default() },
        ..State::default()
    };
    let healthy = [("edge-a".to_owned(), 1), ("edge-b".to_owned(), 0), ("edge-c".to_owned(), 2)].into();
    let entry = agent.entry(&state, &Snapshot { healthy, ..Snapshot::default() });
    assert_eq!(entry.ready_backends, 2);
    let told: Vec<_> = entry
        .backends
        .iter()
        .map(|b| (b.name.as_str(), b.ready_endpoints, b.message.as_deref().unwrap_or_default()))
        .collect();
    assert_eq!(
        told,
        [
            ("b", 0, "2 of 2 endpoints fail the health check"),
            ("a", 1, "1 of 2 endpoints fail the health check")
        ]
    );
}

#[test]
fn a_report_stays_small_whatever_the_number_of_backends() {
    let agent = agent(None, "10.0.0.9");
    let message = || Some("there is no Service apps/a-name-of-the-usual-length: create it".repeat(3));
    let backends = (0..10_000)
        .map(|i| BackendState { name: format!("backend-{i}"), ready_endpoints: 0, message: message() })
        .collect();
    let state = State::<Proxy> {
        notes: ProxyNotes { attached: true, backends, ..ProxyNotes::default() },
        ..State::default()
    };
    let entry = agent.entry(&state, &Snapshot::default());
    let size = serde_json::to_string(&entry).unwrap().len();
    assert!(size * 16 < 128 << 10, "sixteen such reports take {} KiB", (size * 16) >> 10);
}

#[test]
fn knows_a_pod_that_still_has_its_address() {
    let agent = agent(Some("192.168.100.5"), "10.0.0.9");
    let reported = |name: &str, address: Option<&str>| {
        let entry =
            ReplicaStatus { name: name.into(), address: address.map(Into::into), ..ReplicaStatus::default() };
        let mut proxy = ProxyServer::new("edge", ProxyServerSpec::default());
        proxy.status = Some(causeway_api::ProxyServerStatus { replicas: vec![entry], ..Default::default() });
        agent.is_shared(&proxy)
    };
    assert!(reported("pod-0", Some("192.168.100.5")));
    assert!(!reported("pod-1", Some("192.168.100.5")), "its own");
    assert!(!reported("pod-0", Some("192.168.100.6")));
    assert!(!reported("pod-0", None), "of an earlier version");
}
