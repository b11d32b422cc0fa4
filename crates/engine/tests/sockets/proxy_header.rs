//! The PROXY protocol, in and out.

use tokio::io::{AsyncReadExt, AsyncWriteExt};

use crate::support::{Backend, PATIENCE, Running, plain_plan, read_all};

const FROM: &str = "PROXY TCP4 192.0.2.7 192.0.2.1 4000 443\r\n";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn passes_the_true_client_on() {
    let backend = Backend::named("").await;
    let plan = plain_plan(&[backend.address], "  sendProxyProtocol: v1\n")
        .replace("protocol:", "acceptProxyProtocol: {}, protocol:");
    let mut running = Running::start(&plan).await;
    let answer = running.ask("in", format!("{FROM}hello").as_bytes()).await;
    assert_eq!(String::from_utf8(answer).unwrap(), format!("{FROM}hello"));
    running.change(|plan| plan.clusters[0].send_proxy_protocol = Some(causeway_ir::ProxyVersion::V2)).await;
    let answer = running.ask("in", format!("{FROM}hello").as_bytes()).await;
    let client = "192.0.2.7:4000".parse().unwrap();
    let header = causeway_engine::proxy_protocol::encode_v2(client, "192.0.2.1:443".parse().unwrap());
    assert_eq!(answer, [&header[..], b"hello"].concat());
    running.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn refuses_a_client_without_the_header() {
    let backend = Backend::named("x").await;
    let plan = plain_plan(&[backend.address], "").replace("protocol:", "acceptProxyProtocol: {}, protocol:");
    let running = Running::start(&plan).await;
    assert_eq!(running.ask("in", b"hello").await, b"");
    running.closed("invalidProxyHeader", 1).await;
    running.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn names_the_address_that_the_client_asked_for() {
    let backend = Backend::named("").await;
    let plan =
        plain_plan(&[backend.address], "  sendProxyProtocol: v1\n").replace("127.0.0.1:0", "0.0.0.0:0");
    let running = Running::start(&plan).await;
    let port = running.address("in").port();
    let mut client = tokio::net::TcpStream::connect(("127.0.0.3", port)).await.unwrap();
    let from = client.local_addr().unwrap();
    client.shutdown().await.unwrap();
    let header = String::from_utf8(read_all(&mut client).await).unwrap();
    assert_eq!(header, format!("PROXY TCP4 {} 127.0.0.3 {} {port}\r\n", from.ip(), from.port()));
    running.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn believes_only_the_peers_it_is_told_to() {
    let backend = Backend::named("").await;
    let accept = "acceptProxyProtocol: {from: [127.0.0.1/32]}, allowedSources: [192.0.2.0/24], protocol:";
    let plan =
        plain_plan(&[backend.address], "").replace("protocol:", accept).replace("127.0.0.1:0", "0.0.0.0:0");
    let running = Running::start(&plan).await;
    let port = running.address("in").port();
    let ask = async |from: &str, bytes: &str| {
        let socket = tokio::net::TcpSocket::new_v4().unwrap();
        socket.bind(format!("{from}:0").parse().unwrap()).unwrap();
        // It may be refused before the connect is seen to succeed, or before all is sent.
        let Ok(mut client) = socket.connect(([127, 0, 0, 1], port).into()).await else { return Vec::new() };
        let _ = client.write_all(bytes.as_bytes()).await;
        let _ = client.shutdown().await;
        let mut heard = Vec::new();
        let _ = tokio::time::timeout(PATIENCE, client.read_to_end(&mut heard)).await.unwrap();
        heard
    };
    assert_eq!(ask("127.0.0.1", &format!("{FROM}hello")).await, b"hello");
    assert_eq!(ask("127.0.0.1", "PROXY TCP4 198.51.100.7 192.0.2.1 4000 443\r\nhello").await, b"");
    running.closed("sourceNotAllowed", 1).await;
    // The address of another peer is not among those that may connect, whatever it says of itself.
    assert_eq!(ask("127.0.0.2", &format!("{FROM}hello")).await, b"");
    running.closed("sourceNotAllowed", 2).await;
    running.stop().await;
}
