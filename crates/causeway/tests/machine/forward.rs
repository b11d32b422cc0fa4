//! `kubectl port-forward` into a pod with a network namespace of its own.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Child, Command, Stdio};

use causeway_testkit::blocking::eventually;
use causeway_testkit::server::program;

use crate::lan;
use crate::world::{PATIENCE, World};

/// A process that ends with the test.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn ports_of_an_attached_pod_are_reached_on_its_address_and_on_its_own_loopback() {
    let Some(world) = World::new() else { return };
    world.bridge("lan", &lan::name());
    let pod = "apiVersion: v1
kind: Pod
metadata:
  name: web
  annotations: {k8s.v1.cni.cncf.io/networks: '[{\"name\": \"lan\", \"ips\": [\"192.168.100.9/24\"]}]'}
spec:
  terminationGracePeriodSeconds: 1
  containers:
  - name: echo
    image: causeway.dev/causeway:1
    args: [echo, --listen, '$(POD_IP):8080', --name, on-its-address]
    env: [{name: POD_IP, valueFrom: {fieldRef: {fieldPath: status.podIP}}}]
    readinessProbe: {tcpSocket: {port: 8080}, periodSeconds: 1}
";
    world.kubectl.apply(pod).ok();
    world.wait("pod/web", "Ready");
    let uid = world.kubectl.value("pod/web", ".metadata.uid");
    let mut inner = Command::new("ip");
    inner.args(["netns", "exec", &format!("causeway-{uid}"), program()]);
    inner.args(["echo", "--listen", "127.0.0.1:9090", "--name", "on-its-loopback"]);
    let _inner = Running(inner.stdout(Stdio::null()).spawn().unwrap());

    let mut command =
        world.kubectl.command(&["port-forward", "--address=127.0.0.1", "web", ":8080", ":9090"]);
    let mut forward = Running(command.stdout(Stdio::piped()).spawn().unwrap());
    let lines = BufReader::new(forward.0.stdout.take().unwrap()).lines().map_while(Result::ok);
    let mut places =
        lines.filter_map(|line| Some(line.strip_prefix("Forwarding from ")?.split(' ').next()?.to_owned()));
    for name in ["on-its-address", "on-its-loopback"] {
        let local = places.next().unwrap();
        eventually(&format!("{name} answers"), PATIENCE, || {
            let mut answer = String::new();
            let mut ask = || {
                let mut stream = TcpStream::connect(&local)?;
                stream.set_read_timeout(Some(PATIENCE))?;
                stream.write_all(b"GET / HTTP/1.1\r\nhost: web\r\nconnection: close\r\n\r\n")?;
                stream.read_to_string(&mut answer)
            };
            let asked = ask();
            if answer.contains(name) { Ok(()) } else { Err(format!("{asked:?} {answer}")) }
        });
    }
}
