use causeway_api::{Backend, ProxyNetwork, ProxyServerSpec};

use super::*;

fn agent(server_ip: Option<&str>, pod_ip: &str) -> Proxy {
    Proxy {
        name: "edge".into(),
        pod: "pod-1".into(),
        pod_ip: pod_ip.parse().unwrap(),
        server_ip: server_ip.map(|text| text.parse().unwrap()),
        engine: Engine::Native,
        follow_log_level: |_| {},
    }
}

fn checked(attachment: Option<&str>) -> Valid {
    let network_config = ProxyNetwork {
        server_ip: "192.168.100.5/24".into(),
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
fn listens(agent: &Proxy, proxy: &Valid, here: &[&str]) -> (Vec<(String, String)>, Option<bool>) {
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
        (vec![at("edge-listener-443", "192.168.100.6:443"), pod.clone()], Some(true))
    );
    assert_eq!(listens(&elsewhere, &checked(Some("vlan")), &[]), (vec![pod], Some(false)));

    let same = agent(Some("192.168.100.6"), "192.168.100.6");
    assert_eq!(same.needs(&checked(None)).addresses, [same.pod_ip]);
    let once = vec![at("edge-listener-443", "192.168.100.6:443")];
    assert_eq!(listens(&same, &checked(None), &["192.168.100.6"]), (once, None));
}

#[test]
fn serves_only_when_the_wanted_plan_runs_without_trouble() {
    let agent = agent(None, "10.0.0.9");
    let plan = Arc::new(Plan::default());
    let backends = vec![BackendState { name: "a".into(), ready_endpoints: 2, message: None }];
    let state = State::<Proxy> {
        generation: Some(3),
        plan: Some(Arc::clone(&plan)),
        notes: ProxyNotes { attached: None, backends },
        ..State::default()
    };
    let carried =
        Snapshot { plan: Some(plan), connections: [("edge-a".to_owned(), 7)].into(), ..Snapshot::default() };
    let good = agent.entry(&state, &carried);
    assert!(good.serving);
    assert_eq!((good.backends[0].ready_endpoints, good.backends[0].connections), (2, Some(7)));

    let taken = Snapshot { trouble: Some("port 443 is taken".into()), ..carried.clone() };
    let bad = agent.entry(&state, &taken);
    assert_eq!((bad.serving, bad.trouble.as_deref()), (false, Some("port 443 is taken")));
    let refused = State { refused: Some("spec.replicas: no".into()), ..state.clone() };
    assert!(!agent.entry(&refused, &carried).serving);
    assert!(!agent.entry(&state, &Snapshot::default()).serving);
}
