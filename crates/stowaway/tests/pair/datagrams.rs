//! Datagrams arrive whole, both ways.

use std::io::ErrorKind;

use causeway_stowaway::hub::Reach;
use causeway_testkit::soon;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::sync::mpsc;
use tokio_rustls::client::TlsStream;

use crate::cluster::{Cluster, UID, ip, place};
use crate::services::udp_echo;

#[tokio::test(flavor = "multi_thread")]
async fn the_laptops_datagrams_reach_the_cluster_and_come_back() {
    let (cluster, service) = (Cluster::start().await, udp_echo().await);
    cluster.hub.set_reach(Reach {
        addresses: [ip("127.0.0.1")].into(),
        names: [("dns.system".to_owned(), vec![ip("127.0.0.1")])].into(),
        ..Reach::default()
    });
    let laptop = cluster.laptop(UID).await;
    for to in [service.to_string(), format!("dns.system:{}", service.port())] {
        let (heard_tx, mut heard) = mpsc::unbounded_channel();
        let sink = Box::new(move |datagram: &[u8]| heard_tx.send(datagram.to_vec()).expect("the test waits"));
        let flow = laptop.datagrams(&place(&to), sink).await.expect("opens");
        for datagram in [b"one".to_vec(), Vec::new(), vec![0], vec![7; 60_000]] {
            assert!(flow.send(&datagram), "there is room");
            assert!(
                soon("an echo", heard.recv()).await.expect("there") == datagram,
                "{} bytes",
                datagram.len()
            );
        }
    }
    for (to, kind) in
        [("10.1.2.3:53", ErrorKind::PermissionDenied), ("nobody.system:53", ErrorKind::NotFound)]
    {
        let error = laptop.datagrams(&place(to), Box::new(|_| {})).await.expect_err(to);
        assert_eq!(error.kind(), kind, "{to}: {error}");
    }
}

async fn say(stream: &mut TlsStream<TcpStream>, datagram: &[u8]) {
    stream.write_u16(datagram.len() as u16).await.expect("writes");
    stream.write_all(datagram).await.expect("writes");
    stream.flush().await.expect("flushes");
}

async fn hear(stream: &mut TlsStream<TcpStream>) -> Vec<u8> {
    let length = soon("a datagram", stream.read_u16()).await.expect("reads");
    let mut datagram = vec![0; length.into()];
    soon("a datagram", stream.read_exact(&mut datagram)).await.expect("reads");
    datagram
}

#[tokio::test(flavor = "multi_thread")]
async fn a_carriers_datagrams_reach_the_laptop_and_come_back() {
    let (cluster, program) = (Cluster::start().await, udp_echo().await);
    cluster.grant(&[program.port()]);
    let name = format!("u{}.{UID}", program.port());
    cluster.carry(&name).await.expect_err("the laptop is not there");
    let laptop = cluster.laptop(UID).await;
    let mut stream = cluster.carry(&name).await.expect("delivered");
    for datagram in [b"one".to_vec(), Vec::new(), vec![7; 60_000]] {
        say(&mut stream, &datagram).await;
        assert!(hear(&mut stream).await == datagram, "{} bytes", datagram.len());
    }
    laptop.stop().await;
    soon("its end", stream.read_u8()).await.expect_err("the laptop has left");
}
