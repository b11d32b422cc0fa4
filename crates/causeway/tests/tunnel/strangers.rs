//! Whoever is on the network but not the pair can do nothing on the pair's ports.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpListener};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use causeway_ir::tunnel::{Port, Tunnel, TunnelState};
use causeway_ir::{Endpoint, Name};
use causeway_testkit::daemon::Daemon;
use causeway_testkit::server::signal;
use causeway_tunnel::host::{Host, Options};
use causeway_tunnel::{Authority, Identity, client_identity, host_identity};
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use tokio::io::AsyncReadExt as _;
use tokio_rustls::TlsConnector;

use crate::echo::{Echo, dial, echoes, round};
use crate::world::{World, proxy, server_service};

const CONTROL: u16 = 15049;
const DATA: u16 = 15050;
/// Shorter than an end waits for the greeting of its pair, longer than a handshake takes.
const WAITED_FOR: Duration = Duration::from_secs(4);
/// The language of the link, which is agreed on in the handshake.
const LANGUAGE: &[u8] = b"causeway-link/2";

/// The authority of a proxy's pair, from the controller's own directory.
fn authority(world: &World, proxy: &str) -> Authority {
    let path = world.directory(proxy).join("authority.pem");
    use std::os::unix::fs::PermissionsExt as _;
    assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
    Authority::from_pem(&std::fs::read_to_string(path).unwrap()).unwrap()
}

/// A TLS client that trusts the pair's authority and shows what it is given.
fn connector(trusted: &Authority, shown: Option<&Identity>) -> TlsConnector {
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from_pem_slice(trusted.to_pem().as_bytes()).unwrap()).unwrap();
    let builder = ClientConfig::builder().with_root_certificates(roots);
    let mut config = match shown {
        None => builder.with_no_client_auth(),
        Some(identity) => {
            let pem = identity.to_pem();
            let chain = vec![CertificateDer::from_pem_slice(pem.as_bytes()).unwrap()];
            builder
                .with_client_auth_cert(chain, PrivateKeyDer::from_pem_slice(pem.as_bytes()).unwrap())
                .unwrap()
        }
    };
    config.alpn_protocols = vec![LANGUAGE.to_vec()];
    TlsConnector::from(Arc::new(config))
}

/// Whether the other end listens to this one after the handshake. A stranger is cut off at once; with TLS 1.3 that comes
/// after the client's own part of the handshake.
fn is_heard(world: &World, connector: &TlsConnector, address: SocketAddr) -> bool {
    let cut_off = async {
        let socket = tokio::net::TcpStream::connect(address).await?;
        let name = ServerName::try_from("container.link.causeway.internal").unwrap();
        let mut stream = connector.connect(name, socket).await?;
        // Nothing is said before this end has greeted: whoever is heard is waited for.
        stream.read_u8().await
    };
    world.bed.block_on(async { tokio::time::timeout(WAITED_FOR, cut_off).await }).is_err()
}

pub fn strangers_on_the_network_get_nothing(daemon: Daemon) {
    let Some(world) = World::start(daemon) else { return };
    let echo = Echo::start();
    let network = world.network("app", "{}");
    world.kubectl.apply(&server_service("api", echo.address, "TCP")).ok();
    world.make(&proxy("to-host", "app", "", &[("api", "api", "")]), "to-host");
    world.make(&proxy("neighbour", "app", "", &[("other", "api", "")]), "neighbour");
    let tunnel = world.address("to-host", "api");
    let mut open = dial(tunnel).unwrap();
    echoes(&mut open, "before").unwrap();

    let own = authority(&world, "to-host");
    let neighbours = host_identity(&authority(&world, "neighbour")).unwrap();
    let made_up = host_identity(&Authority::new().unwrap()).unwrap();
    let turned = client_identity(&own).unwrap();
    for port in [CONTROL, DATA] {
        let address = SocketAddr::new(tunnel.ip(), port);
        let heard = |shown| is_heard(&world, &connector(&own, shown), address);
        assert!(!heard(None), "no certificate, port {port}");
        assert!(!heard(Some(&made_up)), "a made-up authority's certificate, port {port}");
        assert!(!heard(Some(&neighbours)), "another pair's certificate, port {port}");
        assert!(!heard(Some(&turned)), "the container's own certificate, port {port}");
        // From a third container, without TLS.
        let (code, said) = world.bed.run(&network, &["echo", "--check", &address.to_string()]);
        assert!(code != 0 && said.contains("did not come back"), "port {port}: {code} {said}");
    }
    echoes(&mut open, "nobody was disturbed").unwrap();
    assert_eq!(round(tunnel, "x").unwrap(), "x");

    // The same greeting with the right certificate is heard: this test can fail.
    let right = host_identity(&own).unwrap();
    assert!(is_heard(&world, &connector(&own, Some(&right)), SocketAddr::new(tunnel.ip(), CONTROL)));
    world.until("the pair is itself again", || round(tunnel, "x").is_ok_and(|answer| answer == "x"));
    the_keys_are_nowhere_to_be_seen(&world);
}

fn the_keys_are_nowhere_to_be_seen(world: &World) {
    let container = world.container("to-host").unwrap();
    assert!(!world.bed.log_of(&container.id).contains("PRIVATE"), "not in the container's log");
    assert!(!world.logs("to-host").contains("PRIVATE"), "not in the proxy's log");
    assert!(!world.server.log().contains("PRIVATE"), "not in the control plane's log");
    let object = world.kubectl.ok(&["get", "cntp/to-host", "-o", "yaml"]);
    assert!(!object.contains("PRIVATE"), "not in the object");
    for entry in std::fs::read_dir("/proc").unwrap().flatten() {
        let read = |name: &str| std::fs::read(entry.path().join(name)).unwrap_or_default();
        if String::from_utf8_lossy(&read("cgroup")).contains(&container.id) {
            let shown = [read("cmdline"), read("environ")].concat();
            assert!(!String::from_utf8_lossy(&shown).contains("PRIVATE"), "not in arguments or environment");
        }
    }
}

pub fn what_was_recorded_is_worth_nothing(daemon: Daemon) {
    let Some(mut world) = World::start(daemon) else { return };
    let echo = Echo::start();
    world.network("app", "{}");
    world.kubectl.apply(&server_service("api", echo.address, "TCP")).ok();
    world.make(&proxy("to-host", "app", "", &[("api", "api", "")]), "to-host");
    let (tunnel, status) = (world.address("to-host", "api"), world.status("to-host"));
    let own = authority(&world, "to-host");
    let host_end = world.host_end("to-host");
    world.crash();
    signal(host_end, "KILL");

    // The right host end, with somebody listening in on both of its connections.
    let published =
        |port: Option<i32>| SocketAddr::from(([127, 0, 0, 1], u16::try_from(port.unwrap()).unwrap()));
    let control = Recorder::start(published(status.client_proxy_control_port));
    let data = Recorder::start(published(status.client_proxy_data_port));
    world.bed.block_on(async {
        let host = Host::start(Options::new(control.address, data.address, own));
        let mut carried = Tunnel::new(1, Name::parse("api").unwrap());
        carried.port = Port::Fixed(tunnel.port());
        carried.endpoints = vec![Endpoint::new(echo.address)];
        host.carry(vec![carried]);
        let mut states = host.status();
        let listens = states.wait_for(|status| {
            status.tunnels.get(&1).is_some_and(|state| matches!(state, TunnelState::Listening { .. }))
        });
        let linked = tokio::time::timeout(causeway_testkit::PATIENCE, listens)
            .await
            .is_ok_and(|status| status.is_ok());
        assert!(linked, "the link does not come up: {:?}", *host.status().borrow());
        let carried = tokio::task::spawn_blocking(move || round(tunnel, "x").unwrap());
        assert_eq!(carried.await.unwrap(), "x");
    });
    world.until("the container refuses again", || round(tunnel, "x").is_err());
    let before = echo.accepted();
    for (recorder, port) in [(&control, CONTROL), (&data, DATA)] {
        let recorded = recorder.recorded();
        assert!(recorded.iter().any(|bytes| bytes.len() > 200), "something was recorded");
        for bytes in recorded {
            let mut stream = dial(SocketAddr::new(tunnel.ip(), port)).unwrap();
            // It may be cut off in the middle.
            let _ = stream.write_all(&bytes);
            let mut answer = Vec::new();
            let _ = stream.read_to_end(&mut answer);
        }
        assert!(round(tunnel, "x").is_err(), "nobody carries after a replay");
    }
    assert_eq!(echo.accepted(), before, "nothing reached the host");
    world.start_again();
    world.until("the pair finds each other again", || round(tunnel, "x").is_ok_and(|answer| answer == "x"));
}

/// Hands connections on to an address and keeps what the clients send.
struct Recorder {
    address: SocketAddr,
    recorded: Arc<Mutex<Vec<Vec<u8>>>>,
}

impl Recorder {
    fn start(to: SocketAddr) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let recorded = Arc::new(Mutex::new(Vec::new()));
        let kept = recorded.clone();
        std::thread::spawn(move || {
            while let Ok((near, _)) = listener.accept() {
                let Ok(far) = dial(to) else { continue };
                let _ = far.set_read_timeout(None);
                let number = {
                    let mut kept = kept.lock().unwrap();
                    kept.push(Vec::new());
                    kept.len() - 1
                };
                let (mut from_near, mut to_far) = (near.try_clone().unwrap(), far.try_clone().unwrap());
                let kept = kept.clone();
                std::thread::spawn(move || {
                    let mut buffer = [0; 16384];
                    while let Ok(length @ 1..) = from_near.read(&mut buffer) {
                        kept.lock().unwrap()[number].extend_from_slice(&buffer[..length]);
                        if to_far.write_all(&buffer[..length]).is_err() {
                            break;
                        }
                    }
                    let _ = to_far.shutdown(std::net::Shutdown::Both);
                });
                let (mut from_far, mut to_near) = (far, near);
                std::thread::spawn(move || {
                    let _ = io::copy(&mut from_far, &mut to_near);
                    let _ = to_near.shutdown(std::net::Shutdown::Both);
                });
            }
        });
        Self { address, recorded }
    }

    fn recorded(&self) -> Vec<Vec<u8>> {
        self.recorded.lock().unwrap().clone()
    }
}
