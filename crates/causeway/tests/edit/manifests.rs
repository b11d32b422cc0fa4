//! Two TLS services in pods and a `ProxyServer` in front of them.

use std::net::SocketAddr;

use serde_json::{Value, json};

use crate::tls::Authority;

const PORT: u16 = 9443;

pub fn services(authority: &Authority) -> String {
    let (certificate, key) = authority.issue(&["old.example.test", "moved.example.test", "new.example.test"]);
    let indent = |pem: &str| format!("    {}\n", pem.trim_end().replace('\n', "\n    "));
    let secret = format!(
        "apiVersion: v1\nkind: Secret\nmetadata: {{name: tls}}\nstringData:\n  tls.crt: |\n{}  tls.key: |\n{}",
        indent(&certificate),
        indent(&key)
    );
    [secret, service("one"), service("two")].join("---\n")
}

fn service(name: &str) -> String {
    format!(
        r#"apiVersion: apps/v1
kind: Deployment
metadata: {{name: {name}}}
spec:
  replicas: 2
  selector: {{matchLabels: {{app: {name}}}}}
  template:
    metadata: {{labels: {{app: {name}}}}}
    spec:
      containers:
      - name: server
        image: causeway.dev/causeway
        args: [echo, --name, {name}, --listen, "$(POD_IP):{PORT}", --tls-cert, /etc/tls/tls.crt, --tls-key, /etc/tls/tls.key]
        env: [{{name: POD_IP, valueFrom: {{fieldRef: {{fieldPath: status.podIP}}}}}}]
        readinessProbe: {{tcpSocket: {{port: {PORT}}}, periodSeconds: 1}}
        volumeMounts: [{{name: tls, mountPath: /etc/tls}}]
      volumes: [{{name: tls, secret: {{secretName: tls}}}}]
---
apiVersion: v1
kind: Service
metadata: {{name: {name}}}
spec:
  selector: {{app: {name}}}
  ports: [{{name: https, port: 443, targetPort: {PORT}}}]
"#
    )
}

pub fn proxy(engine: &str, address: SocketAddr) -> String {
    let (ip, port) = (address.ip(), address.port());
    format!(
        r"apiVersion: causeway.dev/v1alpha1
kind: ProxyServer
metadata: {{name: edge}}
spec:
  engine: {engine}
  port: {port}
  networkConfig: {{serverIP: {ip}}}
  backends:
  - name: one
    hostname: old.example.test
    port: {port}
    targetService: one
    targetPort: 443
    targetNamespace: default
    protocol: TLS
    timeoutSeconds: 5
  - name: two
    hostname: moved.example.test
    port: {port}
    targetService: two
    targetPort: 443
    targetNamespace: default
    protocol: TLS
    timeoutSeconds: 5
"
    )
}

/// The backend of this name for `HOST.example.test`, on the port of the tests of replicas.
pub fn backend(name: &str, host: &str) -> Value {
    backend_on(8446, name, host)
}

/// The same on another port.
pub fn backend_on(port: u16, name: &str, host: &str) -> Value {
    json!({
        "name": name, "hostname": format!("{host}.example.test"), "port": port,
        "targetService": name, "targetPort": 443, "targetNamespace": "default", "protocol": "TLS",
    })
}
