//! The gRPC server: aggregated discovery, state of the world and delta, for any number of Envoys.

use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use causeway_ir::Plan;
use envoy_types::pb::envoy::service::discovery::v3::aggregated_discovery_service_server::{
    AggregatedDiscoveryService, AggregatedDiscoveryServiceServer,
};
use envoy_types::pb::envoy::service::discovery::v3::{
    DeltaDiscoveryRequest, DeltaDiscoveryResponse, DiscoveryRequest, DiscoveryResponse,
};
use futures::Stream;
use thiserror::Error;
use tokio::net::{TcpListener, UnixListener};
use tokio::sync::{Semaphore, mpsc, watch};
use tokio::task::JoinHandle;
use tokio_stream::wrappers::ReceiverStream;
use tokio_util::sync::CancellationToken;
use tonic::transport::server::TlsConnectInfo;
use tonic::transport::{Certificate, Identity, ServerTlsConfig};
use tonic::{Request, Response, Status as Refusal, Streaming};

use crate::client_stream::{self, Context, Message};
use crate::clients::Clients;
use crate::connection::{self, Peer};
use crate::resources;
use crate::snapshot::Snapshot;
use crate::status::Handle;

/// Streams at a time; an Envoy has one.
const MOST_STREAMS: usize = 2048;
/// An Envoy that reconnects says each version it has.
const LARGEST_REQUEST: usize = 32 << 20;
const KEEPALIVE_INTERVAL: Duration = Duration::from_secs(30);
/// An Envoy that takes in thousands of clusters answers nothing meanwhile; it must not lose its stream for that.
const KEEPALIVE_TIMEOUT: Duration = Duration::from_mins(5);
const HANDSHAKE_LIMIT: Duration = Duration::from_secs(10);
const STOP_LIMIT: Duration = Duration::from_secs(2);

/// The socket that Envoys connect to. A TCP address beyond loopback needs TLS.
pub enum Socket {
    /// An address and port.
    Tcp(TcpListener),
    /// A socket in the file system.
    Unix(UnixListener),
}

/// How a server runs.
#[derive(Default)]
pub struct Options {
    /// Envoys must show a certificate of the client CA.
    pub tls: Option<Tls>,
}

/// Certificates as PEM.
pub struct Tls {
    /// Of the server, with its chain.
    pub certificate: Vec<u8>,
    /// Of the server.
    pub key: Vec<u8>,
    /// Whose clients may connect.
    pub client_ca: Vec<u8>,
}

/// Why a server can't start.
#[derive(Debug, Error)]
pub enum Error {
    /// Everybody on the network could read the configuration.
    #[error(
        "xDS on {0} without TLS is open to the whole network: use a loopback address, a Unix socket, or TLS with a client CA"
    )]
    Open(std::net::SocketAddr),
    /// The socket.
    #[error("can't ask the xDS socket for its address")]
    Address(#[source] std::io::Error),
    /// The certificates.
    #[error("can't use the certificates for xDS")]
    Tls(#[source] tonic::transport::Error),
}

/// A running server.
pub struct Server {
    handle: Handle,
    clients: Arc<Clients>,
    stop: CancellationToken,
    tasks: Vec<JoinHandle<()>>,
}

impl Server {
    /// Serves the newest plan of a channel; `None` means that there is none yet.
    ///
    /// # Errors
    /// If the socket is open to the network without TLS, or the certificates can't be used.
    ///
    /// # Panics
    /// Outside of a tokio runtime.
    pub fn start(
        plans_rx: watch::Receiver<Option<Arc<Plan>>>,
        socket: Socket,
        options: Options,
    ) -> Result<Self, Error> {
        if let Socket::Tcp(listener) = &socket {
            let address = listener.local_addr().map_err(Error::Address)?;
            if options.tls.is_none() && !address.ip().is_loopback() {
                return Err(Error::Open(address));
            }
        }
        let clients = Clients::new();
        let stop = CancellationToken::new();
        let (snapshots_tx, snapshots_rx) = watch::channel(Arc::new(Snapshot::default())); // plans → streams
        let service = AggregatedDiscoveryServiceServer::new(Service {
            snapshots_rx,
            clients: Arc::clone(&clients),
            stop: stop.clone(),
            permits: Arc::new(Semaphore::new(MOST_STREAMS)),
        })
        .max_decoding_message_size(LARGEST_REQUEST);
        let mut builder = tonic::transport::Server::builder()
            .http2_keepalive_interval(Some(KEEPALIVE_INTERVAL))
            .http2_keepalive_timeout(Some(KEEPALIVE_TIMEOUT))
            .max_concurrent_streams(16);
        let tls = options.tls.is_some();
        if let Some(tls) = options.tls {
            let config = ServerTlsConfig::new()
                .identity(Identity::from_pem(tls.certificate, tls.key))
                .client_ca_root(Certificate::from_pem(tls.client_ca))
                .timeout(HANDSHAKE_LIMIT);
            builder = builder.tls_config(config).map_err(Error::Tls)?;
        }
        let (connection_tx, connection_rx) = mpsc::channel(16); // accept → HTTP/2
        let accepting = connection::accept(socket, tls, connection_tx, stop.clone());
        let stopped = stop.clone();
        let router = builder.add_service(service);
        let serving = async move {
            let incoming = ReceiverStream::new(connection_rx);
            let served = router.serve_with_incoming_shutdown(incoming, stopped.cancelled_owned()).await;
            if let Err(error) = served {
                tracing::error!(%error, "xDS is no longer served");
            }
        };
        let following = follow(plans_rx, snapshots_tx, Arc::clone(&clients), stop.clone());
        let tasks = vec![tokio::spawn(accepting), tokio::spawn(serving), tokio::spawn(following)];
        Ok(Self { handle: Handle::new(Arc::clone(&clients)), clients, stop, tasks })
    }

    /// A view that can be given away.
    pub fn handle(&self) -> Handle {
        self.handle.clone()
    }

    /// Ends all streams and stops. Envoys go on with what they have.
    ///
    /// # Cancellation
    /// If it is dropped, the streams end all the same, only nothing waits for them.
    pub async fn shutdown(self) {
        self.stop.cancel();
        self.clients.stop();
        for mut task in self.tasks {
            if tokio::time::timeout(STOP_LIMIT, &mut task).await.is_err() {
                task.abort();
            }
        }
    }
}

/// Makes a snapshot of each new valid plan.
async fn follow(
    mut plans_rx: watch::Receiver<Option<Arc<Plan>>>,
    snapshots_tx: watch::Sender<Arc<Snapshot>>,
    clients: Arc<Clients>,
    stop: CancellationToken,
) {
    loop {
        let plan = plans_rx.borrow_and_update().clone();
        if let Some(plan) = plan {
            let last = snapshots_tx.borrow().clone();
            let known = last.plan.as_ref().is_some_and(|served| Arc::ptr_eq(served, &plan));
            if !known {
                // A large plan takes a while; streams must not wait for it.
                let made = tokio::task::spawn_blocking(move || {
                    let mut problems = match &last.plan {
                        Some(served) => plan.validate_after(served),
                        None => plan.validate(),
                    };
                    if problems.is_empty() {
                        problems = resources::problems(&plan);
                    }
                    if problems.is_empty() { Ok(last.next(plan)) } else { Err((plan, problems)) }
                });
                match made.await {
                    Ok(Ok(snapshot)) => {
                        let (plan, number) = (snapshot.plan.clone(), snapshot.number);
                        // Before the streams get it: no client may be settled with a plan that is not known.
                        if let Some(plan) = plan {
                            clients.serve(plan, number);
                        }
                        snapshots_tx.send_replace(Arc::new(snapshot));
                    }
                    Ok(Err((plan, problems))) => clients.refuse(plan, problems),
                    Err(error) => tracing::error!(%error, "a plan could not be translated"),
                }
            }
        }
        tokio::select! {
            changed = plans_rx.changed() => {
                if changed.is_err() {
                    // No more plans will come; the last one is served on.
                    stop.cancelled().await;
                    return;
                }
            }
            () = stop.cancelled() => return,
        }
    }
}

struct Service {
    snapshots_rx: watch::Receiver<Arc<Snapshot>>,
    clients: Arc<Clients>,
    stop: CancellationToken,
    permits: Arc<Semaphore>,
}

type Answers<T> = Pin<Box<dyn Stream<Item = Result<T, Refusal>> + Send>>;

impl Service {
    fn open<M: Message + Send + 'static>(
        &self,
        request: Request<Streaming<M>>,
    ) -> Result<Response<Answers<M::Answer>>, Refusal> {
        let permit = Arc::clone(&self.permits)
            .try_acquire_owned()
            .map_err(|_| Refusal::resource_exhausted("too many discovery streams"))?;
        let extensions = request.extensions();
        let peer = extensions.get::<Peer>();
        let peer = peer.or_else(|| extensions.get::<TlsConnectInfo<Peer>>().map(TlsConnectInfo::get_ref));
        let context = Context {
            snapshots_rx: self.snapshots_rx.clone(),
            clients: Arc::clone(&self.clients),
            stop: self.stop.clone(),
            address: peer.map_or_else(String::new, |peer| peer.0.clone()),
            _permit: permit,
        };
        let (answer_tx, answer_rx) = mpsc::channel(1); // session → HTTP/2
        tokio::spawn(client_stream::run(context, request.into_inner(), answer_tx));
        Ok(Response::new(Box::pin(ReceiverStream::new(answer_rx))))
    }
}

#[tonic::async_trait]
impl AggregatedDiscoveryService for Service {
    type StreamAggregatedResourcesStream = Answers<DiscoveryResponse>;

    async fn stream_aggregated_resources(
        &self,
        request: Request<Streaming<DiscoveryRequest>>,
    ) -> Result<Response<Self::StreamAggregatedResourcesStream>, Refusal> {
        self.open(request)
    }

    type DeltaAggregatedResourcesStream = Answers<DeltaDiscoveryResponse>;

    async fn delta_aggregated_resources(
        &self,
        request: Request<Streaming<DeltaDiscoveryRequest>>,
    ) -> Result<Response<Self::DeltaAggregatedResourcesStream>, Refusal> {
        self.open(request)
    }
}
