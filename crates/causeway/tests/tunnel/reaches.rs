//! The whole story once: a program on the host, a container that dials an alias, checks the echo and reports.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};

use causeway_api::conditions::ConditionType;
use causeway_api::{TunnelProxyState, TunnelState};
use causeway_testkit::PATIENCE;
use causeway_testkit::daemon::Daemon;
use kube::ResourceExt;

use crate::echo::Echo;
use crate::world::{World, proxy, server_service};

pub fn a_container_reaches_the_host_by_name(daemon: Daemon) {
    let Some(world) = World::start(daemon) else { return };
    let echo = Echo::start();
    let network = world.network("app", "{}");
    world.kubectl.apply(&server_service("echo", echo.address, "TCP")).ok();
    world.make(&proxy("to-host", "app", ", aliases: [host-services]", &[("echo", "echo", "")]), "to-host");

    let status = world.status("to-host");
    assert_eq!(status.state, Some(TunnelProxyState::Running));
    assert_eq!(status.client_proxy_container_image.as_deref(), Some(world.bed.image.as_str()));
    let container = world.container("to-host").expect("a container");
    assert_eq!(status.client_proxy_container_id.as_deref(), Some(container.id.as_str()));
    let uid = world.proxy("to-host").uid().unwrap();
    assert_eq!(container.name, format!("causeway-to-host-{}", &uid[..8]));
    assert_eq!(container.networks.keys().collect::<Vec<_>>(), [&network], "on the target network alone");
    assert!(container.published.iter().all(|port| port.host.ip() == Ipv4Addr::LOCALHOST));
    assert_eq!(container.published.len(), 2, "{:?}", container.published);
    for port in [status.client_proxy_control_port, status.client_proxy_data_port] {
        let port = u16::try_from(port.expect("a port")).unwrap();
        assert!(container.published.iter().any(|published| published.host.port() == port));
    }
    let tunnel = world.tunnel("to-host", "echo");
    assert_eq!(tunnel.state, Some(TunnelState::Ready));
    assert!(tunnel.tunnel_id > 0 && tunnel.timestamp.is_some());
    assert_eq!(
        tunnel.client_proxy_port,
        Some(i32::from(echo.address.port())),
        "the Service's own port is free"
    );
    let ip = container.networks[&network].ipv4.unwrap().to_string();
    assert_eq!(tunnel.client_proxy_addresses, [ip.as_str()]);
    assert_eq!(world.endpoints("echo-client"), [(ip, i32::from(echo.address.port()))]);
    for kind in ["RuntimeAvailable", "ImageBuilt", "LinkUp", "TunnelsReady", "Ready"] {
        let known = status.conditions.iter().any(|one| one.type_ == kind && one.status == "True");
        assert!(known, "{kind}: {:?}", status.conditions);
    }
    assert_eq!(status.observed_generation, world.proxy("to-host").metadata.generation);

    // A pod on that network dials the alias.
    let report = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let target = format!("host-services:{}", echo.address.port());
    world.kubectl.trust();
    world.kubectl.apply(&visitor(&world, &network, &target, report)).ok();
    world.until("the visitor reports that everything came back", || {
        ask(report).is_some_and(|answer| answer.starts_with("HTTP/1.1 200") && answer.contains("\"passed\":"))
    });
    world.until("the metrics count what was carried", || {
        let metrics = world.kubectl.ok(&["get", "--raw", "/metrics"]);
        let of = format!("{{namespace=\"{}\",proxy=\"to-host\",tunnel=\"echo\"}} ", world.namespace());
        ["bytes_to_host", "bytes_to_containers"].iter().all(|figure| {
            let series = format!("causeway_tunnel_{figure}_total{of}");
            metrics.lines().any(|line| line.strip_prefix(&series).is_some_and(|bytes| bytes != "0"))
        })
    });

    let status = world.causeway(&["status", "-n", world.namespace()]).ok();
    assert!(status.contains("bytes to the host"), "{status}");

    the_log_tells_the_story(&world);
    world.delete("pod/visitor");
    let (owner, networks) = (uid, world.network_object("app").uid().unwrap());
    world.delete("cntp/to-host");
    assert_eq!(world.bed.containers_of(&owner), [], "the container is gone");
    assert_eq!(world.endpoints("echo-client"), [], "the Service leads nowhere");
    assert!(!world.directory("to-host").join("authority.pem").exists(), "the keys are gone");
    world.delete("containernetwork/app");
    assert_eq!(world.bed.networks_of(&networks), Vec::<String>::new(), "the network is gone");
}

fn the_log_tells_the_story(world: &World) {
    let log = world.logs("to-host");
    assert!(log.lines().count() >= 3, "{log}");
    assert!(
        log.lines().all(|line| line.starts_with("20") && line.contains("Z ")),
        "each line has a time: {log}"
    );
    let last = world.causeway(&["logs", "cntp/to-host", "-n", world.namespace(), "--tail", "1"]).ok();
    assert_eq!(last.lines().count(), 1, "{last}");
    let path = format!(
        "/apis/causeway.dev/v1alpha1/namespaces/{}/containernetworktunnelproxies/to-host/log?tailLines=1",
        world.namespace()
    );
    let raw = world.kubectl.ok(&["get", "--raw", &path]);
    assert!(last.trim_end().ends_with(raw.trim_end()) && !raw.starts_with("20"), "{raw}");
    let missing = world.causeway(&["logs", "cntp/nobody", "-n", world.namespace()]).fails();
    assert!(missing.contains("there is no ContainerNetworkTunnelProxy nobody"), "{missing}");
    assert!(
        !world.kubectl.ok(&["get", "events", "--field-selector", "involvedObject.name=to-host"]).is_empty()
    );
    assert!(world.holds("to-host", ConditionType::Ready));
}

fn visitor(world: &World, network: &str, target: &str, report: SocketAddr) -> String {
    format!(
        "apiVersion: v1
kind: Pod
metadata: {{name: visitor, annotations: {{causeway.dev/networks: {network}}}}}
spec:
  terminationGracePeriodSeconds: 1
  containers:
  - name: visitor
    image: {image}
    imagePullPolicy: Never
    args: [echo, --check, '{target}', --report, '0.0.0.0:8080']
    ports: [{{containerPort: 8080, hostPort: {port}, hostIP: 127.0.0.1}}]
",
        image = world.bed.image,
        port = report.port()
    )
}

fn ask(address: SocketAddr) -> Option<String> {
    let mut stream = TcpStream::connect(address).ok()?;
    stream.set_read_timeout(Some(PATIENCE)).ok()?;
    stream.write_all(b"GET / HTTP/1.1\r\nhost: visitor\r\nconnection: close\r\n\r\n").ok()?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).ok()?;
    Some(answer)
}
