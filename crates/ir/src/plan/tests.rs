use std::time::Duration;

use crate::{Action, Address, Cluster, Endpoint, Name, Plan, Protocol};

const FULL: &str = r#"
listeners:
- name: https
  bind: 0.0.0.0:443
  allowedSources: [10.0.0.0/8]
  acceptProxyProtocol: {from: [10.1.0.0/16]}
  protocol:
    tls:
      routes:
      - name: api
        serverNames: [api.example.test, "*.api.example.test"]
        connectionLimit: 100
        action: {forward: api}
      - name: site
        serverNames: [www.example.test]
        action:
          terminate:
            certificates: [site]
            then:
              http:
                routes:
                - name: all
                  hosts: [www.example.test]
                  matches: [{path: {prefix: /}, method: GET, headers: [{name: X-User, value: {regex: "a.*"}}]}]
                  filters:
                  - requestHeaders: {set: [{name: x-by, value: causeway}], remove: [x-old]}
                  - rewrite: {path: {prefix: /v2}}
                  - mirror: {cluster: api}
                  - cors: {allowOrigins: ["*"], maxAge: 1h}
                  timeouts: {request: 10s}
                  retry: {attempts: 2, statuses: [503]}
                  action: {forward: [{cluster: api, weight: 9}, {cluster: canary}]}
                - {name: old, matches: [{path: {exact: /old}}], action: {redirect: {path: {full: /new}, status: 301}}}
                - {name: no, matches: [{path: {exact: /no}}], action: {respond: {status: 403, body: "no"}}}
      noServerName: {forward: api}
      unknownServerName: {refuse: alert}
      plaintext: {refuse: close}
- name: database
  bind: "[::]:5432"
  protocol: {tcp: {name: database, action: {forward: laptop}}}
clusters:
- name: api
  policy: leastConnections
  connectTimeout: 2s
  healthCheck: {kind: tls, interval: 1s}
  endpoints:
  - address: 10.0.0.1:6443
  - {address: "[2001:db8::1]:6443", weight: 2, ready: false, terminating: true}
- {name: canary, transport: {tls: {serverName: canary.test}}, httpVersion: "2", endpoints: [{address: "unix:/run/canary.sock"}]}
- {name: laptop, transport: {link: anna}, endpoints: [{address: "place:database"}]}
links:
- {name: anna, meet: {listen: "0.0.0.0:7443"}, identity: stowaway, authorities: laptops}
drainTimeout: 1m
"#;

#[test]
fn reads_yaml_and_writes_what_it_read() {
    let plan: Plan = serde_saphyr::from_str(FULL).unwrap();
    assert_eq!(plan.validate(), []);
    let Protocol::Tls(tls) = &plan.listeners[0].protocol else { panic!("it is TLS") };
    assert_eq!(tls.no_server_name, Action::forward(Name::parse("api").unwrap()));
    assert_eq!(plan.clusters[0].endpoints[1].weight.get(), 2);
    assert_eq!(plan.clusters[0].connect_timeout.get(), Duration::from_secs(2));
    assert_eq!(plan.clusters[2].endpoints[0].address, Address::Place(Name::parse("database").unwrap()));
    let json = serde_json::to_string(&plan).unwrap();
    assert_eq!(serde_json::from_str::<Plan>(&json).unwrap(), plan);
    let yaml = serde_saphyr::to_string(&plan).unwrap();
    assert_eq!(serde_saphyr::from_str::<Plan>(&yaml).unwrap(), plan, "{yaml}");
}

#[test]
fn what_can_not_be_parsed_is_not_in_a_plan() {
    let edits = [
        ("bind: 0.0.0.0:443", "bnd: 0.0.0.0:443", "bnd"),
        ("0.0.0.0:443", "example.test:443", "write 0.0.0.0:443"),
        ("10.0.0.1:6443", "backend:6443", "not an address and port"),
        ("connectionLimit: 100", "connectionLimit: 0", "lets nothing in"),
        ("connectTimeout: 2s", "connectTimeout: 0s", "longer than 0s"),
        ("interval: 1s", "interval: 1", "not a duration"),
        ("weight: 2", "weight: 0", "0 lets nothing in"),
        ("[api.example.test, ", "[a*.test, ", "at the front only"),
        ("- name: api\n  policy", "- name: (api)\n  policy", "kept for the plan"),
        ("{forward: api}\n      - name: site", "{forward: []}\n      - name: site", "no cluster has a share"),
        ("action: {forward: api}", "action: {send: api}", "forward"),
        ("status: 301", "status: 200", "301, 302"),
        ("regex: \"a.*\"", "regex: \"(\"", "not a regular expression"),
        ("prefix: /v2", "prefix: v2", "begins with /"),
        ("10.1.0.0/16", "10.1.0.0/64", ""),
    ];
    for (from, to, part) in edits {
        assert!(FULL.contains(from), "{from}");
        let error = serde_saphyr::from_str::<Plan>(&FULL.replacen(from, to, 1)).unwrap_err().to_string();
        assert!(error.contains(part), "{to}: {error}");
    }
}

#[test]
fn defaults_are_the_same_read_or_made() {
    let read: Cluster = serde_saphyr::from_str("name: a\nendpoints: [{address: '1.2.3.4:5'}]").unwrap();
    let address: std::net::SocketAddr = "1.2.3.4:5".parse().unwrap();
    assert_eq!(read, Cluster::new(Name::parse("a").unwrap(), vec![Endpoint::new(address)]));
    assert_eq!(serde_saphyr::from_str::<Plan>("{}").unwrap(), Plan::default());
}
