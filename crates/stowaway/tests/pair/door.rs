//! The door: other processes of the same user.

use std::io::ErrorKind;
use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use causeway_stowaway::Way;
use causeway_stowaway::hub::Reach;
use causeway_stowaway::laptop::Handle;
use causeway_stowaway::laptop::door::{Door, Visitor};
use causeway_testkit::soon;
use tempfile::TempDir;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, UnixStream};

use crate::cluster::{Cluster, UID, ip, place};
use crate::services::{any, echo, echoes, hears, udp_echo};

struct House {
    cluster: Cluster,
    laptop: Arc<Handle>,
    door: Door,
    path: PathBuf,
    _folder: TempDir,
}

impl House {
    async fn start() -> Self {
        let cluster = Cluster::start().await;
        cluster.hub.set_reach(Reach {
            addresses: [ip("127.0.0.1")].into(),
            names: [("web.shop".to_owned(), vec![ip("127.0.0.1")])].into(),
            ..Reach::default()
        });
        let laptop = Arc::new(cluster.laptop(UID).await);
        let folder = TempDir::new().expect("a folder");
        let path = folder.path().join("door");
        let door = Door::open(&path, laptop.clone()).expect("opens");
        Self { cluster, laptop, door, path, _folder: folder }
    }

    fn visitor(&self) -> Visitor {
        Visitor::new(&self.path)
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn streams_flows_and_names_go_through_it() {
    let (house, service, datagrams) = (House::start().await, echo("hi ").await, udp_echo().await);
    let visitor = house.visitor();
    for host in ["127.0.0.1", "web.shop"] {
        let mut stream =
            visitor.connect(&place(&format!("{host}:{}", service.port()))).await.expect("connects");
        hears(&mut stream, "hi ").await;
        echoes(&mut stream, "through the door").await;
        stream.write_all(b"last").await.expect("writes");
        stream.shutdown().await.expect("ends");
        let mut rest = String::new();
        soon("the rest", stream.read_to_string(&mut rest)).await.expect("reads");
        assert_eq!(rest, "last");
    }
    let mut flow = visitor.datagrams(&place(&format!("web.shop:{}", datagrams.port()))).await.expect("opens");
    let mut heard = Vec::new();
    for datagram in [b"one".to_vec(), Vec::new(), vec![7; 50_000]] {
        flow.send(&datagram).await.expect("sends");
        soon("an echo", flow.receive(&mut heard)).await.expect("receives").expect("one");
        assert!(heard == datagram);
    }
    assert_eq!(visitor.resolve("web.shop").await.expect("known"), [ip("127.0.0.1")]);
    for (target, kind) in
        [("10.1.2.3:80", ErrorKind::PermissionDenied), ("nobody.shop:80", ErrorKind::NotFound)]
    {
        let error = visitor.connect(&place(target)).await.expect_err(target);
        assert_eq!(error.kind(), kind, "{error}");
        let error = visitor.datagrams(&place(target)).await.expect_err(target);
        assert_eq!(error.kind(), kind, "{error}");
    }
    assert_eq!(visitor.resolve("nobody.shop").await.expect_err("unknown").kind(), ErrorKind::NotFound);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_breaks_off_on_one_side_breaks_off_on_the_other() {
    let house = House::start().await;
    let service = TcpListener::bind(any()).await.expect("a port");
    let (visitor, to) = (house.visitor(), service.local_addr().expect("an address").into());
    let open = async || {
        let (stream, accepted) = tokio::join!(visitor.connect(&to), service.accept());
        (stream.expect("connects"), accepted.expect("accepts").0)
    };
    // The service resets.
    let (mut stream, there) = open().await;
    there.set_zero_linger().expect("is set");
    drop(there);
    is_reset(&mut stream).await;
    // The visitor goes before it has said its end.
    let (stream, mut there) = open().await;
    drop(stream);
    is_reset(&mut there).await;
    // The link is gone.
    let (mut stream, _there) = open().await;
    house.cluster.hub.stop(Duration::ZERO).await;
    is_reset(&mut stream).await;
}

async fn is_reset(stream: &mut (impl AsyncRead + Unpin)) {
    let error = soon("the reset", stream.read(&mut [0])).await.expect_err("no end");
    assert_eq!(error.kind(), ErrorKind::ConnectionReset, "{error}");
}

#[tokio::test(flavor = "multi_thread")]
async fn it_tells_how_things_stand_and_ends_the_daemon() {
    let House { cluster, laptop, door, path, _folder } = House::start().await;
    let visitor = Visitor::new(&path);
    let state = visitor.state().await.expect("told");
    let connection = state.connection.expect("connected");
    assert_eq!((connection.way, connection.replica.as_str()), (Way::Link, "first"));
    let waiting = visitor.clone();
    let lost = tokio::spawn(async move { waiting.wait_for(|state| state.connection.is_none()).await });
    cluster.hub.stop(Duration::ZERO).await;
    soon("the loss is told", lost).await.expect("no panic").expect("told");
    visitor.stop().await.expect("heard");
    soon("the daemon is asked", door.asked_to_stop()).await;
    laptop.stop().await;
    drop(door);
    assert!(!path.exists());
}

#[tokio::test(flavor = "multi_thread")]
async fn it_is_for_its_user_alone_and_there_is_one() {
    let house = House::start().await;
    let mode = std::fs::metadata(&house.path).expect("a socket").permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    let error = Door::open(&house.path, house.laptop.clone()).expect_err("another is there");
    assert_eq!(error.kind(), ErrorKind::AddrInUse, "{error}");
    house.visitor().state().await.expect("the first is still there");
    // One that was left behind is taken away.
    let stale = house.path.with_extension("stale");
    drop(std::os::unix::net::UnixListener::bind(&stale).expect("a socket"));
    let second = Door::open(&stale, house.laptop.clone()).expect("opens");
    Visitor::new(&stale).state().await.expect("told");
    drop(second);
    // A file that is something else is left alone.
    let file = house.path.with_extension("file");
    std::fs::write(&file, "mine").expect("writes");
    Door::open(&file, house.laptop.clone()).expect_err("something else is there");
    assert_eq!(std::fs::read_to_string(&file).expect("reads"), "mine");
}

#[tokio::test(flavor = "multi_thread")]
async fn nonsense_is_answered() {
    let house = House::start().await;
    for line in ["{}", "rubbish", r#"{"stream":"nowhere"}"#, r#"{"fly":"away"}"#] {
        let mut stream = UnixStream::connect(&house.path).await.expect("connects");
        stream.write_all(format!("{line}\n").as_bytes()).await.expect("writes");
        let mut answer = String::new();
        soon("an answer", stream.read_to_string(&mut answer)).await.expect("reads");
        assert!(answer.starts_with(r#"{"failed":"bad-request: "#), "{line}: {answer}");
    }
    let mut stream = UnixStream::connect(&house.path).await.expect("connects");
    stream.write_all(&vec![b'x'; 200_000]).await.ok();
    soon("it is closed", stream.read_to_end(&mut Vec::new())).await.ok();
    house.visitor().state().await.expect("still there");
}
