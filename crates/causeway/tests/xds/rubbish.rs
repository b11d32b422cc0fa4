//! Clients that are no Envoys: the port must stay usable for those that are.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use causeway_testkit::PATIENCE;
use causeway_testkit::blocking::eventually;
use causeway_testkit::envoy;
use causeway_testkit::server::program;

use crate::backend::{backend, free_port, hello, who};
use crate::control_plane::ControlPlane;

#[test]
fn rubbish_and_silence_on_the_port_harm_nobody() {
    let Some(program) = envoy::program() else { return };
    let (port, a) = (free_port(), backend("a"));
    let control_plane = ControlPlane::start(&format!(
        "{{listeners: [{{name: l, bind: '127.0.0.1:{port}', protocol: {{tcp: {{name: all, action: {{forward: a}}}}}}}}], \
         clusters: [{{name: a, endpoints: [{{address: '{a}'}}]}}]}}"
    ));
    let mut silent: Vec<TcpStream> = Vec::new();
    for round in 0..200 {
        let mut stream = TcpStream::connect(control_plane.address()).unwrap();
        match round % 4 {
            0 => {}
            1 => stream.write_all(&hello(Some("x.test"))).unwrap(),
            2 => {
                stream
                    .write_all(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\xff\xff\xff\xff\xff\xff\xff\xff")
                    .unwrap();
            }
            _ => {
                stream.write_all(b"GET / HTTP/1.1\r\n\r\n").unwrap();
                stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
                let mut said = Vec::new();
                let _ = stream.read_to_end(&mut said);
                assert!(said.is_empty(), "dropped without a word: {said:?}");
            }
        }
        silent.push(stream);
    }
    let _envoy = control_plane.envoy(&program, "edge", true);
    eventually("Envoy is fed beside them", PATIENCE, || who(port, &hello(Some("a.test"))) == "a");
}

#[test]
fn an_open_address_needs_certificates() {
    let dir = tempfile::tempdir().unwrap();
    let plan = dir.path().join("plan.yaml");
    std::fs::write(&plan, "{}").unwrap();
    let mut command = std::process::Command::new(program());
    let ran = command.args(["xds", "--listen", "0.0.0.0:0", "--config"]).arg(&plan).output().unwrap();
    let said = String::from_utf8_lossy(&ran.stderr);
    assert!(!ran.status.success() && said.contains("without TLS is open to the whole network"), "{said}");
}
