//! Two ends to test with.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use causeway_link::{
    Authority, Credentials, Ended, Handler, Incoming, Link, Listener, Role, Settings, Stream, Traffic, dial,
};
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tokio::time::timeout;

pub const PATIENCE: Duration = Duration::from_secs(20);

pub async fn within<T>(what: &str, work: impl Future<Output = T>) -> T {
    timeout(PATIENCE, work).await.unwrap_or_else(|_| panic!("{what} took longer than {PATIENCE:?}"))
}

pub fn any() -> SocketAddr {
    (Ipv4Addr::LOCALHOST, 0).into()
}

pub fn settings() -> Settings {
    Settings { idle_timeout: PATIENCE, traffic: Arc::default(), client: None }
}

/// Accepts every stream and hands it to the test.
pub struct Taking(mpsc::UnboundedSender<(Vec<u8>, Stream)>, Arc<Traffic>);

impl Handler for Taking {
    fn opened(&self, incoming: Incoming<'_>) {
        let request = incoming.request().to_vec();
        let settings = Settings { traffic: self.1.clone(), ..settings() };
        self.0.send((request, incoming.accept(settings))).ok();
    }
}

/// One end of a link.
pub struct End {
    pub link: Arc<Link>,
    /// The streams that the other end opens.
    pub streams: mpsc::UnboundedReceiver<(Vec<u8>, Stream)>,
    /// What they carry.
    pub traffic: Arc<Traffic>,
    pub driver: JoinHandle<Ended>,
}

impl End {
    pub fn start(connection: causeway_link::Connection) -> Self {
        let (taken_tx, streams) = mpsc::unbounded_channel();
        let traffic: Arc<Traffic> = Arc::default();
        let (link, driver) = connection.start(Arc::new(Taking(taken_tx, traffic.clone())));
        Self { link, streams, traffic, driver: tokio::spawn(driver.run()) }
    }

    pub async fn next_stream(&mut self) -> (Vec<u8>, Stream) {
        within("a stream", self.streams.recv()).await.expect("the link is there")
    }

    pub async fn ended(self) -> Ended {
        within("the link's end", self.driver).await.expect("no panic")
    }
}

pub async fn listener(authority: &Authority) -> Listener {
    let identity = authority.issue(Role::Listener, "box").expect("keys");
    Listener::bind(any(), Credentials::new(&identity).expect("fits")).await.expect("a port")
}

/// The end that dialled and the end that listened.
pub async fn ends() -> (End, End) {
    let authority = Authority::new().expect("keys");
    let mut listener = listener(&authority).await;
    let at = listener.address();
    ends_at(&authority, &mut listener, at).await
}

/// The same, dialled at another address than the listener's.
pub async fn ends_at(authority: &Authority, listener: &mut Listener, at: SocketAddr) -> (End, End) {
    let identity = authority.issue(Role::Dialer, "laptop").expect("keys");
    let dialing = tokio::spawn(async move { dial(at, &identity, "box", b"good day").await });
    let accepted = within("a connection", listener.accept()).await;
    assert_eq!((accepted.peer(), accepted.greeting()), ("laptop", &b"good day"[..]));
    let accepted = End::start(accepted);
    let dialled = within("an answer", dialing).await.expect("no panic").expect("dials");
    (End::start(dialled), accepted)
}

/// A stream from one end to the other.
pub async fn stream(from: &End, to: &mut End) -> (Stream, Stream) {
    let near = from.link.open(b"one", settings()).expect("usable");
    let (request, far) = to.next_stream().await;
    assert_eq!(request, b"one");
    (near, far)
}
