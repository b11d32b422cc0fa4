//! Workstations that come by WireGuard: peers that are not ours, and laptops of ours with their link inside.

use std::net::{IpAddr, SocketAddr};
use std::time::{Duration, Instant};

use causeway_link::{Authority, Role};
use causeway_netstack::wireguard::{self, MTU, Peer, PublicKey, SecretKey};
use causeway_netstack::{Arrivals, Config, Incoming, Stack, TcpFlow};
use causeway_stowaway::hub::{self, Reach, Workstation};
use causeway_stowaway::laptop::{self, Approach};
use causeway_stowaway::wireguard::GATEWAY_V4;
use causeway_stowaway::{STOWAWAY, Way};
use causeway_testkit::{eventually, soon};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::UdpSocket;
use tokio::task::JoinHandle;

use crate::cluster::{Cluster, OTHER, UID, direct, grant, ip, until, way, workstation};
use crate::services::{any, echo, echoes, hears, udp_echo};

/// A cluster that takes WireGuard.
struct Net {
    cluster: Cluster,
    server: PublicKey,
}

fn address(uid: &str) -> IpAddr {
    ip(if uid == UID { "100.64.7.2" } else { "100.64.7.3" })
}

fn peer(uid: &str, key: &SecretKey) -> Workstation {
    Workstation { wireguard_key: Some(key.public().0), address: Some(address(uid)), ..workstation(uid) }
}

impl Net {
    async fn start() -> Self {
        let (authority, key) = (Authority::new().expect("keys"), SecretKey::generate());
        let config = hub::Config {
            name: "first".to_owned(),
            link: any(),
            carriers: any(),
            wireguard: Some(any()),
            identity: authority.issue(Role::Listener, STOWAWAY).expect("keys"),
            wireguard_key: Some(key.0),
        };
        let hub = hub::start(config).await.expect("ports");
        Self { cluster: Cluster { authority, hub }, server: key.public() }
    }

    fn endpoint(&self) -> SocketAddr {
        self.cluster.hub.addresses().wireguard.expect("it listens")
    }

    /// A peer that knows nothing of us.
    fn stock(&self, key: &SecretKey) -> (Stack, Arrivals) {
        self.stock_by(key, self.endpoint())
    }

    fn stock_by(&self, key: &SecretKey, endpoint: SocketAddr) -> (Stack, Arrivals) {
        let hub = Peer::hub(self.server, endpoint);
        let (_, device) = wireguard::dial(key.clone(), MTU, hub).expect("a socket");
        Stack::start(device, &Config::default())
    }

    fn approach(&self, uid: &str, key: &SecretKey) -> Approach {
        let endpoint = self.endpoint().to_string();
        laptop::WireGuard { key: key.0, hub: self.server.0, endpoint, address: address(uid) }.into()
    }
}

/// A way for one peer to the hub, which is there until it is aborted; and where it begins.
async fn path(hub: SocketAddr) -> (SocketAddr, JoinHandle<()>) {
    let (near, far) =
        (UdpSocket::bind(any()).await.expect("a port"), UdpSocket::bind(any()).await.expect("a port"));
    far.connect(hub).await.expect("connects");
    let at = near.local_addr().expect("an address");
    let carrying = tokio::spawn(async move {
        let (mut there, mut back, mut peer) = (vec![0; 2048], vec![0; 2048], None);
        loop {
            tokio::select! {
                Ok((count, from)) = near.recv_from(&mut there) => {
                    peer = Some(from);
                    far.send(&there[..count]).await.ok();
                }
                Ok(count) = far.recv(&mut back), if peer.is_some() => {
                    near.send_to(&back[..count], peer.expect("it was asked for")).await.ok();
                }
            }
        }
    });
    (at, carrying)
}

async fn dial(stack: &Stack, uid: &str, to: SocketAddr) -> std::io::Result<TcpFlow> {
    soon("an answer", stack.connect_tcp((address(uid), 0).into(), to)).await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_peer_reaches_what_is_allowed_and_nothing_else() {
    let (net, service, datagrams) = (Net::start().await, echo("hi ").await, udp_echo().await);
    let key = SecretKey::generate();
    net.cluster.hub.set_workstations(vec![peer(UID, &key)]);
    let (stack, _arrivals) = net.stock(&key);
    dial(&stack, UID, service).await.expect_err("nothing is allowed");
    net.cluster.allow(&[service]);
    let mut stream = dial(&stack, UID, service).await.expect("connects");
    hears(&mut stream, "hi ").await;
    echoes(&mut stream, "through WireGuard").await;
    stream.write_all(b"last").await.expect("writes");
    stream.shutdown().await.expect("ends");
    let mut rest = String::new();
    soon("the rest", stream.read_to_string(&mut rest)).await.expect("ends in order");
    assert_eq!(rest, "last");
    let refused =
        dial(&stack, UID, "10.9.9.9:80".parse().expect("an address")).await.expect_err("not allowed");
    assert_eq!(refused.kind(), std::io::ErrorKind::ConnectionRefused);
    let flow = stack.open_udp((address(UID), 0).into(), datagrams).await.expect("opens");
    eventually("an echo", async || {
        flow.send(b"datagram");
        tokio::time::timeout(Duration::from_secs(1), flow.receive())
            .await
            .ok()
            .flatten()
            .is_some_and(|got| got == "datagram")
    })
    .await;
    let standing = net.cluster.has(UID).await;
    assert_eq!(standing.way, Way::WireGuard);
    eventually("its places are free", async || net.cluster.hub.figures().streams <= 1).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_carriers_stream_arrives_at_a_peer() {
    let net = Net::start().await;
    let key = SecretKey::generate();
    net.cluster.hub.set_workstations(vec![peer(UID, &key)]);
    net.cluster.grant(&[3000, 3001]);
    net.cluster.carry(&format!("p3000.{UID}")).await.expect_err("it is not there");
    let (_stack, mut arrivals) = net.stock(&key);
    tokio::spawn(async move {
        while let Some(incoming) = arrivals.next().await {
            match incoming {
                Incoming::Tcp(pending) if pending.to().port() == 3000 => {
                    assert_eq!(pending.from().ip(), IpAddr::from(GATEWAY_V4));
                    assert_eq!(pending.to().ip(), address(UID));
                    let mut flow = pending.accept();
                    tokio::spawn(async move {
                        flow.write_all(b"peer ").await.expect("writes");
                        let (mut read, mut write) = tokio::io::split(flow);
                        tokio::io::copy(&mut read, &mut write).await.ok();
                        write.shutdown().await.ok();
                    });
                }
                Incoming::Tcp(pending) => pending.refuse(),
                Incoming::Udp(flow) => {
                    tokio::spawn(async move {
                        while let Some(datagram) = flow.receive().await {
                            flow.send(&datagram);
                        }
                    });
                }
            }
        }
    });
    net.cluster.has(UID).await;
    net.cluster.carry(&format!("p0.{UID}")).await.expect("it is there");
    let mut stream = net.cluster.carry(&format!("p3000.{UID}")).await.expect("delivered");
    hears(&mut stream, "peer ").await;
    echoes(&mut stream, "through WireGuard").await;
    stream.shutdown().await.expect("ends");
    let mut rest = Vec::new();
    soon("the end", stream.read_to_end(&mut rest)).await.expect("ends in order");
    net.cluster.carry(&format!("p3001.{UID}")).await.expect_err("its program is not there");
    let mut stream = net.cluster.carry(&format!("u3000.{UID}")).await.expect("delivered");
    stream.write_all(&[0, 3, b'o', b'n', b'e']).await.expect("writes");
    stream.flush().await.expect("flushes");
    let mut back = [0; 5];
    soon("an echo", stream.read_exact(&mut back)).await.expect("reads");
    assert_eq!(back, [0, 3, b'o', b'n', b'e']);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_peer_that_has_gone_is_given_up() {
    let net = Net::start().await;
    let key = SecretKey::generate();
    net.cluster.hub.set_workstations(vec![peer(UID, &key)]);
    net.cluster.grant(&[3000]);
    let (stack, arrivals) = net.stock(&key);
    net.cluster.has(UID).await;
    drop((stack, arrivals));
    net.cluster.carry(&format!("p3000.{UID}")).await.expect_err("no answer");
    net.cluster.loses(UID, Duration::from_secs(5)).await;
    net.cluster.carry(&format!("p0.{UID}")).await.expect_err("known to be gone");
    let (_stack, _arrivals) = net.stock(&key);
    net.cluster.has(UID).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stream_to_a_peer_that_falls_silent_ends_in_seconds() {
    let net = Net::start().await;
    let key = SecretKey::generate();
    net.cluster.hub.set_workstations(vec![peer(UID, &key)]);
    net.cluster.grant(&[3000]);
    let (endpoint, path) = path(net.endpoint()).await;
    let (_stack, mut arrivals) = net.stock_by(&key, endpoint);
    tokio::spawn(async move {
        while let Some(Incoming::Tcp(pending)) = arrivals.next().await {
            let (mut read, mut write) = tokio::io::split(pending.accept());
            tokio::spawn(async move { tokio::io::copy(&mut read, &mut write).await });
        }
    });
    net.cluster.has(UID).await;
    let mut stream = net.cluster.carry(&format!("p3000.{UID}")).await.expect("delivered");
    echoes(&mut stream, "before").await;
    path.abort();
    let began = Instant::now();
    soon("it ends", stream.read_u8()).await.expect_err("cut");
    // Three seconds, and a loaded machine.
    assert!(began.elapsed() < Duration::from_secs(5), "after {:?}", began.elapsed());
    // Whoever comes next has no silence to wait for.
    let asked = Instant::now();
    net.cluster.carry(&format!("p3000.{UID}")).await.expect_err("known to be gone");
    assert!(asked.elapsed() < Duration::from_secs(1), "after {:?}", asked.elapsed());
}

#[tokio::test(flavor = "multi_thread")]
async fn strangers_and_removed_peers_have_nothing() {
    let (net, service) = (Net::start().await, echo("").await);
    net.cluster.allow(&[service]);
    let (key, other, stranger) = (SecretKey::generate(), SecretKey::generate(), SecretKey::generate());
    net.cluster.hub.set_workstations(vec![peer(UID, &key), peer(OTHER, &other)]);
    let (outside, _no_arrivals) = net.stock(&stranger);
    let asking =
        tokio::time::timeout(Duration::from_secs(2), outside.connect_tcp((address(UID), 0).into(), service));
    assert!(!matches!(asking.await, Ok(Ok(_))), "a key that nobody knows");
    let ((stack, _arrivals), (second, _others)) = (net.stock(&key), net.stock(&other));
    let mut cut = dial(&stack, UID, service).await.expect("connects");
    echoes(&mut cut, "before").await;
    let mut kept = dial(&second, OTHER, service).await.expect("connects");
    // An address that is another's does not come through.
    let stolen =
        tokio::time::timeout(Duration::from_secs(1), second.connect_tcp((address(UID), 0).into(), service));
    assert!(!matches!(stolen.await, Ok(Ok(_))), "another's address");
    net.cluster.hub.set_workstations(vec![peer(OTHER, &other)]);
    net.cluster.loses(UID, Duration::from_secs(5)).await;
    for _ in 0..3 {
        echoes(&mut kept, "nobody else noticed").await;
    }
    eventually("its stream is over on this side", async || net.cluster.hub.figures().streams == 1).await;
    let asking =
        tokio::time::timeout(Duration::from_secs(1), stack.connect_tcp((address(UID), 0).into(), service));
    assert!(!matches!(asking.await, Ok(Ok(_))), "removed");
    // A key that another workstation claims, too, stays with the first.
    net.cluster.hub.set_workstations(vec![peer(OTHER, &other), peer(UID, &other)]);
    echoes(&mut kept, "still the same").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_laptop_of_ours_has_its_link_inside_and_moves_to_a_better_way() {
    let (net, service) = (Net::start().await, echo("").await);
    let cluster = &net.cluster;
    cluster.allow(&[service]);
    let key = SecretKey::generate();
    cluster.hub.set_workstations(vec![peer(UID, &key)]);
    cluster.hub.set_grants(vec![grant(crate::cluster::CARRIER, UID, service.port())]);
    let laptop = cluster.start_laptop(UID, vec![net.approach(UID, &key)]);
    until(&laptop, "it comes by WireGuard", |state| way(state) == Some(Way::WireGuard)).await;
    let standing = cluster.has(UID).await;
    assert_eq!(standing.way, Way::WireGuard);
    let name = format!("p{}.{UID}", service.port());
    let mut inward = cluster.carry(&name).await.expect("delivered");
    echoes(&mut inward, "inward").await;
    let mut outward = laptop.connect(&service.into()).await.expect("connects");
    echoes(&mut outward, "outward").await;
    laptop.set_ways(vec![net.approach(UID, &key), direct(cluster.link())]);
    until(&laptop, "it moves", |state| way(state) == Some(Way::Link)).await;
    eventually("the hub knows it", async || {
        cluster.hub.standings().borrow().get(UID).is_some_and(|standing| standing.way == Way::Link)
    })
    .await;
    echoes(&mut inward, "what was open").await;
    echoes(&mut outward, "goes on").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_laptop_of_ours_that_went_elsewhere_is_refused_at_once() {
    let net = Net::start().await;
    let key = SecretKey::generate();
    net.cluster.hub.set_workstations(vec![peer(UID, &key)]);
    net.cluster.grant(&[3000]);
    let laptop = net.cluster.start_laptop(UID, vec![net.approach(UID, &key)]);
    until(&laptop, "it comes by WireGuard", |state| way(state) == Some(Way::WireGuard)).await;
    net.cluster.has(UID).await;
    // Its packets were heard a moment ago, and whoever waits for it has another to go to.
    laptop.stop().await;
    net.cluster.loses(UID, Duration::from_secs(5)).await;
    let asked = Instant::now();
    net.cluster.carry(&format!("p3000.{UID}")).await.expect_err("it is not there");
    assert!(asked.elapsed() < Duration::from_secs(1), "after {:?}", asked.elapsed());
}

#[tokio::test(flavor = "multi_thread")]
async fn the_gateway_has_no_other_port() {
    let net = Net::start().await;
    let key = SecretKey::generate();
    net.cluster.hub.set_workstations(vec![peer(UID, &key)]);
    // Whatever is allowed.
    net.cluster
        .hub
        .set_reach(Reach { networks: vec!["10.0.0.0/8".parse().expect("a network")], ..Reach::default() });
    let (stack, _arrivals) = net.stock(&key);
    for port in [22, 80, 7845] {
        dial(&stack, UID, (GATEWAY_V4, port).into()).await.expect_err("nobody listens");
    }
    dial(&stack, UID, (GATEWAY_V4, 7844).into()).await.expect("the port for links");
}
