//! The server over loopback with scripted clients: what a real Envoy can't be made to do.

#![allow(clippy::unwrap_used, clippy::panic)]

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use causeway_ir::tls::UpstreamTls;
use causeway_ir::{Address, Cluster, Endpoint, Name, Plan, Transport};
use causeway_xds::{Options, Server, Socket};
use envoy_types::pb::envoy::config::core::v3::Node;
use envoy_types::pb::envoy::service::discovery::v3::aggregated_discovery_service_client::AggregatedDiscoveryServiceClient;
use envoy_types::pb::envoy::service::discovery::v3::{DeltaDiscoveryRequest, DeltaDiscoveryResponse};
use envoy_types::pb::google::rpc;
use tokio::net::TcpListener;
use tokio::sync::{mpsc, watch};
use tokio_stream::wrappers::ReceiverStream;
use tonic::Streaming;

const CLUSTER: &str = "type.googleapis.com/envoy.config.cluster.v3.Cluster";
const ENDPOINTS: &str = "type.googleapis.com/envoy.config.endpoint.v3.ClusterLoadAssignment";
const LISTENER: &str = "type.googleapis.com/envoy.config.listener.v3.Listener";
const PATIENCE: Duration = Duration::from_secs(30);

struct Served {
    plan_tx: watch::Sender<Option<Arc<Plan>>>,
    server: Server,
    address: SocketAddr,
}

async fn serve(plan: Plan) -> (Served, Arc<Plan>) {
    let plan = Arc::new(plan);
    let (plan_tx, plan_rx) = watch::channel(Some(Arc::clone(&plan)));
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let server = Server::start(plan_rx, Socket::Tcp(listener), Options::default()).unwrap();
    (Served { plan_tx, server, address }, plan)
}

fn plan(clusters: usize, port: u16) -> Plan {
    let cluster =
        |i: usize| Cluster::new(Name::parse(&format!("c{i}")).unwrap(), vec![Endpoint::new(address(port))]);
    Plan { clusters: (0..clusters).map(cluster).collect(), ..Plan::default() }
}

fn address(port: u16) -> Address {
    SocketAddr::from(([127, 0, 0, 1], port)).into()
}

struct Client {
    request_tx: mpsc::Sender<DeltaDiscoveryRequest>,
    responses: Streaming<DeltaDiscoveryResponse>,
}

impl Client {
    async fn connect(address: SocketAddr) -> Self {
        let mut client =
            AggregatedDiscoveryServiceClient::connect(format!("http://{address}")).await.unwrap();
        let (request_tx, request_rx) = mpsc::channel(16);
        let responses = client.delta_aggregated_resources(ReceiverStream::new(request_rx)).await.unwrap();
        Self { request_tx, responses: responses.into_inner() }
    }

    async fn ask(&self, type_url: &str, names: &[String]) {
        let node = Node { id: "scripted".into(), ..Node::default() };
        let request = DeltaDiscoveryRequest {
            node: Some(node),
            type_url: type_url.to_owned(),
            resource_names_subscribe: names.to_vec(),
            ..DeltaDiscoveryRequest::default()
        };
        self.request_tx.send(request).await.unwrap();
    }

    async fn hear(&mut self) -> DeltaDiscoveryResponse {
        tokio::time::timeout(PATIENCE, self.responses.message())
            .await
            .expect("an answer in time")
            .unwrap()
            .unwrap()
    }

    async fn answer(&self, response: &DeltaDiscoveryResponse, error: Option<&str>) {
        let request = DeltaDiscoveryRequest {
            type_url: response.type_url.clone(),
            response_nonce: response.nonce.clone(),
            error_detail: error
                .map(|message| rpc::Status { message: message.to_owned(), ..rpc::Status::default() }),
            ..DeltaDiscoveryRequest::default()
        };
        self.request_tx.send(request).await.unwrap();
    }

    /// Hears and acknowledges until a type was heard.
    async fn until(&mut self, type_url: &str) -> DeltaDiscoveryResponse {
        loop {
            let response = self.hear().await;
            self.answer(&response, None).await;
            if response.type_url == type_url {
                return response;
            }
        }
    }
}

fn names(count: usize) -> Vec<String> {
    (0..count).map(|i| format!("c{i}")).collect()
}

#[tokio::test]
async fn a_change_sends_only_what_changed_and_settles() {
    let (served, first) = serve(plan(100, 1)).await;
    let handle = served.server.handle();
    assert!(handle.settled(&first).await, "nobody is there to wait for");
    let mut client = Client::connect(served.address).await;
    client.ask(CLUSTER, &[]).await;
    assert_eq!(client.until(CLUSTER).await.resources.len(), 100);
    client.ask(ENDPOINTS, &names(100)).await;
    assert_eq!(client.until(ENDPOINTS).await.resources.len(), 100);
    client.ask(LISTENER, &[]).await;
    client.until(LISTENER).await;
    assert!(handle.settled(&first).await);
    let status = handle.status();
    assert_eq!(status.clients.len(), 1);
    assert!(status.clients[0].up_to_date && status.clients[0].delta, "{:?}", status.clients);
    assert_eq!(status.clients[0].node, "scripted");

    let mut next = (*first).clone();
    next.clusters[7].endpoints[0].address = address(2);
    let next = Arc::new(next);
    served.plan_tx.send_replace(Some(Arc::clone(&next)));
    let response = client.hear().await;
    assert_eq!(response.resources.iter().map(|r| r.name.as_str()).collect::<Vec<_>>(), ["c7"]);
    client.answer(&response, None).await;
    assert!(handle.settled(&next).await);
    served.server.shutdown().await;
}

#[tokio::test]
async fn a_refusal_is_shown_and_a_plan_that_is_not_valid_is_not_served() {
    let (served, first) = serve(plan(1, 1)).await;
    let handle = served.server.handle();
    let mut client = Client::connect(served.address).await;
    client.ask(CLUSTER, &[]).await;
    let response = client.hear().await;
    client.answer(&response, Some("c0: no good")).await;
    client.ask(LISTENER, &[]).await;
    client.until(LISTENER).await;
    assert!(handle.settled(&first).await);
    let shown = handle.status().clients[0].clone();
    let nack = shown.nack.expect("a refusal");
    assert_eq!((nack.kind, nack.message.as_str()), ("cluster", "c0: no good"));
    assert!(!shown.up_to_date);

    let mut bad = plan(1, 1);
    let double = bad.clusters[0].endpoints[0].clone();
    bad.clusters[0].endpoints.push(double);
    let bad = Arc::new(bad);
    served.plan_tx.send_replace(Some(Arc::clone(&bad)));
    assert!(!handle.settled(&bad).await);
    let status = handle.status();
    assert!(Arc::ptr_eq(status.plan.as_ref().unwrap(), &first));
    assert_eq!(status.refused.unwrap().1[0].path, "clusters[0].endpoints[1].address");

    let mut beyond = plan(1, 1);
    beyond.clusters[0].transport = Transport::Tls(UpstreamTls::default());
    let beyond = Arc::new(beyond);
    served.plan_tx.send_replace(Some(Arc::clone(&beyond)));
    assert!(!handle.settled(&beyond).await, "what Envoy is not told is not left out");
    assert_eq!(handle.status().refused.unwrap().1[0].path, "clusters[0].transport.tls");
    served.server.shutdown().await;
}

#[tokio::test]
async fn a_client_that_does_not_read_delays_nobody() {
    const MANY: usize = 5000;
    let (served, _) = serve(plan(MANY, 1)).await;
    let stuck = Client::connect(served.address).await;
    stuck.ask(CLUSTER, &[]).await;
    stuck.ask(ENDPOINTS, &names(MANY)).await;

    let mut client = Client::connect(served.address).await;
    client.ask(CLUSTER, &[]).await;
    client.until(CLUSTER).await;
    client.ask(ENDPOINTS, &names(MANY)).await;
    client.until(ENDPOINTS).await;
    for port in 2..12 {
        let mut next = plan(MANY, 1);
        next.clusters[3].endpoints[0].address = address(port);
        served.plan_tx.send_replace(Some(Arc::new(next)));
        let response = client.until(ENDPOINTS).await;
        assert_eq!(response.resources.len(), 1);
    }
    served.server.shutdown().await;
}
