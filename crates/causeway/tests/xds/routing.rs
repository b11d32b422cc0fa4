//! Every way through a listener, in both variants of the protocol.

use std::net::UdpSocket;
use std::time::Duration;

use causeway_testkit::PATIENCE;
use causeway_testkit::blocking::eventually;
use causeway_testkit::envoy;

use crate::backend::{backend, free_port, heard, hello, who};
use crate::control_plane::ControlPlane;

const UNRECOGNIZED_NAME: [u8; 7] = [21, 3, 3, 0, 2, 2, 112];

fn routes(delta: bool, listen: &str) {
    let Some(program) = envoy::program() else { return };
    let (tls, plain, udp) = (free_port(), free_port(), free_port());
    let (a, b, d) = (backend("a"), backend("b"), backend("d"));
    let answering = UdpSocket::bind("127.0.0.1:0").unwrap();
    let server = answering.local_addr().unwrap();
    std::thread::spawn(move || {
        let mut buffer = [0; 2048];
        while let Ok((count, from)) = answering.recv_from(&mut buffer) {
            let _ = answering.send_to(&buffer[..count], from);
        }
    });
    let control_plane = ControlPlane::start_on(
        &format!(
            "
listeners:
- name: tls
  bind: 127.0.0.1:{tls}
  protocol:
    tls:
      routes:
      - {{name: a, serverNames: [a.test, alternate.test], action: {{forward: a}}}}
      - {{name: apps, serverNames: ['*.apps.test'], action: {{forward: b}}}}
      - {{name: deep, serverNames: ['*.x.apps.test', 'exact.apps.test'], action: {{forward: a}}}}
      noServerName: {{forward: d}}
      plaintext: {{refuse: close}}
- {{name: plain, bind: '127.0.0.1:{plain}', protocol: {{tcp: {{name: all, action: {{forward: d}}}}}}}}
- {{name: udp, bind: '127.0.0.1:{udp}', protocol: {{udp: {{name: all, action: {{forward: u}}}}}}}}
clusters:
- {{name: a, policy: leastConnections, slowStart: 1s, endpoints: [{{address: '{a}'}}]}}
- {{name: b, policy: sourceHash, healthCheck: {{kind: tcp, interval: 200ms}}, endpoints: [{{address: '{b}'}}]}}
- {{name: d, endpoints: [{{address: '{d}'}}]}}
- {{name: u, endpoints: [{{address: '{server}'}}]}}
- {{name: xds_cluster}}
"
        ),
        listen,
    );
    let envoy = control_plane.envoy(&program, "edge", delta);
    eventually("the first route answers", PATIENCE, || who(tls, &hello(Some("a.test"))) == "a");
    for (name, answers) in [
        ("alternate.test", "a"),
        ("ALTERNATE.test", "a"),
        ("one.apps.test", "b"),
        ("two.one.apps.test", "b"),
        ("one.x.apps.test", "a"),
        ("x.apps.test", "b"),
        ("exact.apps.test", "a"),
    ] {
        eventually(&format!("{name} is answered by {answers}"), PATIENCE, || {
            who(tls, &hello(Some(name))) == answers
        });
    }
    assert_eq!(who(tls, &hello(None)), "d");
    for unknown in ["apps.test", "other.test"] {
        assert_eq!(heard(tls, &hello(Some(unknown))), UNRECOGNIZED_NAME, "{unknown}");
    }
    assert_eq!(heard(tls, b"GET / HTTP/1.1\r\n\r\n"), b"");
    assert_eq!(who(plain, b""), "d", "the server speaks first");

    let client = UdpSocket::bind("127.0.0.1:0").unwrap();
    client.set_read_timeout(Some(Duration::from_millis(500))).unwrap();
    let mut buffer = [0; 16];
    eventually("datagrams come back", PATIENCE, || {
        client.send_to(b"ping", ("127.0.0.1", udp)).unwrap();
        client.recv(&mut buffer).is_ok_and(|count| &buffer[..count] == b"ping")
    });

    control_plane.says("): up to date");
    assert!(control_plane.log().contains("edge ("));
    let metrics = envoy.page("/stats/prometheus");
    assert!(metrics.contains("envoy_cluster_upstream_cx_active{envoy_cluster_name=\"a\"}"), "{metrics}");
    assert!(metrics.contains("envoy_listener_downstream_cx_active{"), "{metrics}");
    eventually("the access log has the route", PATIENCE, || {
        envoy.log().lines().any(|line| {
            let line = serde_json::from_str::<serde_json::Value>(line).unwrap_or_default();
            line["route"] == "apps"
                && line["serverName"] == "two.one.apps.test"
                && line["endpoint"] == b.to_string()
                && line["listener"] == "tls"
        })
    });
}

#[test]
fn envoy_routes_as_the_plan_says_by_delta() {
    routes(true, "127.0.0.1:0");
}

#[test]
fn envoy_routes_as_the_plan_says_by_state_of_the_world() {
    routes(false, "127.0.0.1:0");
}

#[test]
fn envoy_is_fed_over_a_unix_socket() {
    routes(true, "xds.sock");
}
