//! The PROXY protocol, in and out.

use crate::support::{Backend, Running, plain_plan};

const FROM: &str = "PROXY TCP4 192.0.2.7 192.0.2.1 4000 443\r\n";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn passes_the_true_client_on() {
    let backend = Backend::named("").await;
    let plan = plain_plan(&[backend.address], "  sendProxyProtocol: v1\n")
        .replace("routes:", "acceptProxyProtocol: true, routes:");
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
    let plan = plain_plan(&[backend.address], "").replace("routes:", "acceptProxyProtocol: true, routes:");
    let running = Running::start(&plan).await;
    assert_eq!(running.ask("in", b"hello").await, b"");
    running.closed("invalidProxyHeader", 1).await;
    running.stop().await;
}
