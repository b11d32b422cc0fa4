//! Both ways carry what they should, and say at once what they can't.

use std::io::ErrorKind;
use std::net::SocketAddr;
use std::time::Instant;

use causeway_stowaway::laptop::{MayDeliver, Ports};
use causeway_testkit::{eventually, soon};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;

use crate::carrier::Carrier;
use crate::cluster::{CARRIER, Cluster, UID, grant, place};
use crate::services::{any, echo, echoes, hears, nobody};

#[tokio::test(flavor = "multi_thread")]
async fn a_carriers_stream_arrives_at_the_laptops_port() {
    let (cluster, program) = (Cluster::start().await, echo("hello ").await);
    let port = program.port();
    cluster.grant(&[port]);
    let laptop = cluster.laptop(UID).await;
    let mut stream = cluster.carry(&format!("p{port}.{UID}")).await.expect("delivered");
    hears(&mut stream, "hello ").await;
    echoes(&mut stream, "from the cluster").await;
    // Ends one half; the other goes on until the program ends it.
    stream.write_all(b"last").await.expect("writes");
    stream.shutdown().await.expect("ends");
    let mut rest = String::new();
    soon("the rest", stream.read_to_string(&mut rest)).await.expect("ends in order");
    assert_eq!(rest, "last");
    eventually("its place is free", async || cluster.hub.figures().streams == 0).await;
    assert!(cluster.hub.figures().sent >= 20);
    laptop.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_program_that_speaks_first_and_ends_first_is_heard_to_its_end() {
    const SIZE: usize = 3 << 20;
    let cluster = Cluster::start().await;
    let listener = TcpListener::bind(any()).await.expect("a port");
    let port = listener.local_addr().expect("an address").port();
    tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await.expect("a client");
        stream.write_all(&vec![7; SIZE]).await.expect("writes");
        stream.shutdown().await.expect("ends");
        // The other half goes on.
        let mut heard = String::new();
        stream.read_to_string(&mut heard).await.expect("reads");
        assert_eq!(heard, "thanks");
    });
    cluster.grant(&[port]);
    let _laptop = cluster.laptop(UID).await;
    let mut stream = cluster.carry(&format!("p{port}.{UID}")).await.expect("delivered");
    let mut got = Vec::new();
    soon("all of it", stream.read_to_end(&mut got)).await.expect("ends in order");
    assert!(got.len() == SIZE && got.iter().all(|byte| *byte == 7));
    stream.write_all(b"thanks").await.expect("writes");
    stream.shutdown().await.expect("ends");
}

#[tokio::test(flavor = "multi_thread")]
async fn bulk_both_ways_at_once() {
    const SIZE: usize = 20 << 20;
    let (cluster, program) = (Cluster::start().await, echo("").await);
    cluster.allow(&[program]);
    cluster.grant(&[program.port()]);
    let laptop = cluster.laptop(UID).await;
    let inward = cluster.carry(&format!("p{}.{UID}", program.port())).await.expect("delivered");
    let outward = laptop.connect(&program.into()).await.expect("connects");
    async fn pump(stream: impl tokio::io::AsyncRead + tokio::io::AsyncWrite) {
        let (mut read, mut write) = tokio::io::split(stream);
        let sent = async {
            write.write_all(&vec![5; SIZE]).await.expect("writes");
            write.shutdown().await.expect("ends");
        };
        let mut got = Vec::new();
        let ((), read) = tokio::join!(sent, read.read_to_end(&mut got));
        read.expect("reads");
        assert!(got.len() == SIZE && got.iter().all(|byte| *byte == 5));
    }
    soon("both", async { tokio::join!(pump(inward), pump(outward)) }).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn it_ends_at_once_where_nobody_would_answer() {
    let (cluster, silent) = (Cluster::start().await, nobody().await);
    cluster.grant(&[silent.port()]);
    let name = format!("p{}.{UID}", silent.port());
    let began = Instant::now();
    let error = cluster.carry(&name).await.expect_err("the laptop is not there");
    assert_eq!(error.kind(), ErrorKind::UnexpectedEof, "the end, in order: {error}");
    let laptop = cluster.laptop(UID).await;
    let error = cluster.carry(&name).await.expect_err("the program is not there");
    assert_eq!(error.kind(), ErrorKind::UnexpectedEof, "the end, in order: {error}");
    assert!(began.elapsed().as_secs() < 10, "nothing waits for a limit");
    // With the program it works, and without the laptop no more.
    let listener = TcpListener::bind(silent).await.expect("the port");
    let mut stream = cluster.carry(&name).await.expect("delivered");
    let (mut program, _) = soon("the program is asked", listener.accept()).await.expect("accepts");
    program.write_all(b"here").await.expect("writes");
    hears(&mut stream, "here").await;
    laptop.stop().await;
    cluster.carry(&name).await.expect_err("the laptop has left");
}

#[tokio::test(flavor = "multi_thread")]
async fn presence_is_told_and_carries_nothing() {
    let cluster = Cluster::start().await;
    cluster.grant(&[3000]);
    let name = format!("p0.{UID}");
    cluster.carry(&name).await.expect_err("it is not there");
    let laptop = cluster.laptop(UID).await;
    let mut stream = cluster.carry(&name).await.expect("it is there");
    let mut rest = Vec::new();
    soon("the end", stream.read_to_end(&mut rest)).await.expect("ends in order");
    assert!(rest.is_empty());
    laptop.stop().await;
    cluster.carry(&name).await.expect_err("it has left");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_spoken_inside_is_agreed_on() {
    let (cluster, program) = (Cluster::start().await, echo("").await);
    cluster.grant(&[program.port()]);
    let _laptop = cluster.laptop(UID).await;
    let name = format!("p{}.{UID}", program.port());
    for (offered, wanted) in [
        (&[][..], None),
        (&["h2"], Some("h2")),
        (&["http/1.1"], Some("http/1.1")),
        (&["h2", "http/1.1"], Some("http/1.1")),
    ] {
        let carrier = Carrier::new(&cluster.authority, CARRIER).speaking(offered);
        let stream = soon("a handshake", carrier.ask(cluster.hub.addresses().carriers, &name))
            .await
            .expect("delivered");
        let agreed = stream.get_ref().1.alpn_protocol().map(String::from_utf8_lossy);
        assert_eq!(agreed.as_deref(), wanted, "{offered:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_address_behind_the_laptop_is_reached_if_both_allow_it() {
    let (cluster, behind) =
        (Cluster::start().await, TcpListener::bind("127.0.0.77:0").await.expect("a port"));
    let port = behind.local_addr().expect("an address").port();
    let mut granted = grant(CARRIER, UID, port);
    granted.address = Some("127.0.0.77".parse().expect("an address"));
    cluster.hub.set_grants(vec![granted]);
    let laptop = cluster.laptop(UID).await;
    let name = format!("p{port}.a127-0-0-77.{UID}");
    cluster.carry(&name).await.expect("the laptop allows its loopback");
    cluster.carry(&format!("p{port}.{UID}")).await.expect_err("that was not granted");
    laptop.set_may_deliver(MayDeliver { loopback: Ports::Only([1].into()), places: [].into() });
    cluster.carry(&name).await.expect_err("the laptop does not allow it any more");
    laptop.set_may_deliver(MayDeliver {
        loopback: Ports::Only([].into()),
        places: [SocketAddr::new("127.0.0.77".parse().expect("an address"), port)].into(),
    });
    cluster.carry(&name).await.expect("the address is allowed");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_program_that_listens_on_ipv6_alone_is_found() {
    let Ok(listener) = TcpListener::bind("[::1]:0").await else { return };
    let port = listener.local_addr().expect("an address").port();
    let cluster = Cluster::start().await;
    cluster.grant(&[port]);
    let _laptop = cluster.laptop(UID).await;
    cluster.carry(&format!("p{port}.{UID}")).await.expect("delivered");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_laptop_goes_out_and_is_told_why_it_can_not() {
    let (cluster, service, silent) = (Cluster::start().await, echo("cluster ").await, nobody().await);
    cluster.allow(&[service]);
    let laptop = cluster.laptop(UID).await;
    let mut stream = laptop.connect(&service.into()).await.expect("connects");
    hears(&mut stream, "cluster ").await;
    echoes(&mut stream, "from the laptop").await;
    stream.write_all(b"last").await.expect("writes");
    stream.shutdown().await.expect("ends");
    let mut rest = String::new();
    soon("the rest", stream.read_to_string(&mut rest)).await.expect("ends in order");
    assert_eq!(rest, "last");
    let error = laptop.connect(&silent.into()).await.expect_err("nobody listens");
    assert_eq!(error.kind(), ErrorKind::ConnectionRefused, "{error}");
    let error = laptop.connect(&place("10.255.255.1:80")).await.expect_err("not allowed");
    assert_eq!(error.kind(), ErrorKind::PermissionDenied, "{error}");
    let error = laptop.connect(&place("nobody.shop:80")).await.expect_err("no such name");
    assert_eq!(error.kind(), ErrorKind::NotFound, "{error}");
    laptop.stop().await;
    let error = laptop.connect(&service.into()).await.expect_err("it has left");
    assert_eq!(error.kind(), ErrorKind::NotConnected, "{error}");
}
