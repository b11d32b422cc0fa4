//! Ends that were taken over: they speak the protocol, but keep to no rule.

use std::sync::Arc;
use std::time::Duration;

use causeway_link::{Connection, Credentials, Flow, Handler, Incoming, Link, Listener, Role, Settings, dial};
use causeway_stowaway::STOWAWAY;
use causeway_testkit::{eventually, soon};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

use crate::cluster::{Cluster, OTHER, UID, connected, direct, until};
use crate::services::{any, echo, echoes};

struct NoStreams;

impl Handler for NoStreams {
    fn opened(&self, incoming: Incoming<'_>) {
        drop(incoming);
    }
}

fn settings() -> Settings {
    Settings { idle_timeout: Duration::from_mins(1), traffic: Arc::default(), client: None }
}

fn drive(connection: Connection) -> Arc<Link> {
    let (link, driver) = connection.start(Arc::new(NoStreams));
    tokio::spawn(driver.run());
    link
}

/// A link of a laptop that does as it likes.
async fn rogue(cluster: &Cluster, session: &str) -> Arc<Link> {
    let greeting = format!(r#"{{"way":"Link","session":"{session}"}}"#);
    let dialled =
        soon("a link", dial(cluster.link(), &cluster.identity(UID), STOWAWAY, greeting.as_bytes())).await;
    drive(dialled.expect("a link"))
}

/// What becomes of a stream with this request.
async fn refusal(link: &Arc<Link>, request: &[u8]) -> String {
    let mut stream = link.open(request, settings()).expect("usable");
    soon("a refusal", stream.read_u8()).await.expect_err("refused").to_string()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_rogue_laptop_gets_no_further_than_an_honest_one() {
    let (cluster, service) = (Cluster::start().await, echo("").await);
    let honest = cluster.laptop(OTHER).await;
    let link = rogue(&cluster, "s").await;
    for request in [
        &b""[..],
        b"\x00",
        b"\xff\xff\xff",
        &[2],
        &[2, 0, 80],
        &[2, 0, 80, 4, 1, 2],
        &[2, 0, 80, 6, 1],
        &[2, 0, 80, 1],
        &[4, 0xff],
        &[4],
        &[5, 0, 80, 0, 80, 4, 1, 2, 3, 4, 0],
        &[3, 0, 80, 4, 127, 0, 0, 1],
        &[9; 400],
    ] {
        refusal(&link, request).await;
    }
    let [a, b] = service.port().to_be_bytes();
    assert!(refusal(&link, &[2, a, b, 4, 127, 0, 0, 1]).await.starts_with("denied"), "nothing is allowed");
    let flow: Flow =
        link.open_flow(&[3, a, b, 4, 127, 0, 0, 1], settings(), Box::new(|_| {})).expect("usable");
    assert!(soon("a refusal", flow.over()).await.expect("a reason").starts_with("denied"));
    let flow = link.open_flow(&[2, a, b, 4, 127, 0, 0, 1], settings(), Box::new(|_| {})).expect("usable");
    assert!(soon("a refusal", flow.over()).await.is_some(), "a flow for a stream");
    // It may take its own seat, once, and no other.
    let mut seat = link.open(&[1], settings()).expect("usable");
    assert_eq!(soon("a word", seat.read_u8()).await.expect("welcome"), 0);
    assert!(refusal(&link, &[1]).await.contains("in use"));
    assert_eq!(cluster.hub.standings().borrow().len(), 2);
    // Whatever it says there, it gives the seat up with it.
    seat.write_all(b"nonsense").await.expect("writes");
    cluster.loses(UID, Duration::from_secs(5)).await;
    cluster.allow(&[service]);
    echoes(&mut honest.connect(&service.into()).await.expect("connects"), "nobody else noticed").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_laptop_has_a_few_links_and_so_many_streams() {
    let (cluster, service) = (Cluster::start().await, echo("").await);
    cluster.allow(&[service]);
    let mut links = Vec::new();
    for _ in 0..20 {
        links.push(rogue(&cluster, "s").await);
    }
    let usable = || links.iter().filter(|link| link.is_usable()).count();
    eventually("most are closed", async || (usable() <= 8).then_some(()).ok_or(usable())).await;
    let last = links.last().expect("links");
    let [a, b] = service.port().to_be_bytes();
    let mut inside = Vec::new();
    let refused = loop {
        let mut stream = last.open(&[2, a, b, 4, 127, 0, 0, 1], settings()).expect("usable");
        match soon("an answer", stream.read_u8()).await {
            Ok(_) => inside.push(stream),
            Err(error) => break error,
        }
        assert!(inside.len() <= 4096);
    };
    assert!(refused.to_string().starts_with("busy"), "{refused}");
    let other = cluster.laptop(OTHER).await;
    echoes(&mut other.connect(&service.into()).await.expect("connects"), "others have their places").await;
    drop(inside);
    eventually("its places are free", async || cluster.hub.figures().streams <= 1).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_link_that_is_not_put_to_use_is_closed() {
    let cluster = Cluster::start().await;
    let link = rogue(&cluster, "s").await;
    eventually("it is closed", async || !link.is_usable()).await;
    assert!(cluster.hub.standings().borrow().is_empty());
}

/// A hub that does as it likes.
async fn rogue_hub(cluster: &Cluster) -> Listener {
    let identity = cluster.authority.issue(Role::Listener, STOWAWAY).expect("keys");
    Listener::bind(any(), Credentials::new(&identity).expect("fits")).await.expect("a port")
}

#[tokio::test(flavor = "multi_thread")]
async fn a_rogue_hub_reaches_only_what_the_user_allows() {
    struct Welcoming;
    impl Handler for Welcoming {
        fn opened(&self, incoming: Incoming<'_>) {
            let mut stream = incoming.accept(settings());
            tokio::spawn(async move {
                stream.write_all(b"\0{\"replica\":\"rogue\"}\n").await.expect("writes");
                stream.read_u8().await.ok();
            });
        }
    }
    let (cluster, program) = (Cluster::start().await, echo("x").await);
    let mut hub = rogue_hub(&cluster).await;
    let laptop = cluster.start_laptop(UID, vec![direct(hub.address())]);
    let (link, driver) = soon("the laptop", hub.accept()).await.start(Arc::new(Welcoming));
    tokio::spawn(driver.run());
    connected(&laptop).await;
    let [a, b] = program.port().to_be_bytes();
    for request in [
        &b""[..],
        b"\xff",
        &[5],
        &[5, a, b],
        &[5, a, b, 0, 80, 0, 0],
        &[5, a, b, 0, 80, 4, 1, 2, 3, 4],
        &[1],
        &[2, a, b, 4, 127, 0, 0, 1],
        &[5, 0, 0, 0, 80, 4, 1, 2, 3, 4, 0],
        // Addresses that nobody named.
        &[5, a, b, 0, 80, 4, 1, 2, 3, 4, 4, 192, 168, 1, 1],
        &[5, a, b, 0, 80, 4, 1, 2, 3, 4, 4, 169, 254, 169, 254],
    ] {
        refusal(&link, request).await;
    }
    let mut stream = link.open(&[5, a, b, 0, 80, 4, 1, 2, 3, 4, 0], settings()).expect("usable");
    assert_eq!(soon("a word", stream.read_u8()).await.expect("connected"), 0);
    assert_eq!(soon("a word", stream.read_u8()).await.expect("the program"), b'x');
}

#[tokio::test(flavor = "multi_thread")]
async fn a_hub_that_answers_nonsense_is_left_alone() {
    for answer in [&b"\0not json\n"[..], b"\x07", b"\0", &[b'x'; 9000]] {
        struct Nonsense(Vec<u8>);
        impl Handler for Nonsense {
            fn opened(&self, incoming: Incoming<'_>) {
                let (mut stream, answer) = (incoming.accept(settings()), self.0.clone());
                tokio::spawn(async move {
                    stream.write_all(&answer).await.ok();
                    stream.read_u8().await.ok();
                });
            }
        }
        let cluster = Cluster::start().await;
        let mut hub = rogue_hub(&cluster).await;
        let laptop = cluster.start_laptop(UID, vec![direct(hub.address())]);
        let (_link, driver) =
            soon("the laptop", hub.accept()).await.start(Arc::new(Nonsense(answer.to_vec())));
        tokio::spawn(driver.run());
        let state = until(&laptop, "it is told", |state| state.ways[0].error.is_some()).await;
        assert!(state.connection.is_none());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_hub_that_welcomes_and_hangs_up_is_not_stormed() {
    const TIMES: u32 = 8;
    struct Fickle;
    impl Handler for Fickle {
        fn opened(&self, incoming: Incoming<'_>) {
            let link = incoming.link().clone();
            let mut stream = incoming.accept(settings());
            tokio::spawn(async move {
                stream.write_all(b"\0{\"replica\":\"fickle\"}\n").await.expect("writes");
                link.close("enough");
            });
        }
    }
    let cluster = Cluster::start().await;
    let mut hub = rogue_hub(&cluster).await;
    let _laptop = cluster.start_laptop(UID, vec![direct(hub.address())]);
    let began = std::time::Instant::now();
    for _ in 0..TIMES {
        let (_link, driver) = soon("the laptop", hub.accept()).await.start(Arc::new(Fickle));
        soon("its end", driver.run()).await;
    }
    // However lucky it is: no try follows at once.
    assert!(began.elapsed() >= Duration::from_millis(50) * (TIMES - 1), "{:?}", began.elapsed());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_hub_that_says_nothing_keeps_nobody_from_another() {
    struct Silent(tokio::sync::mpsc::UnboundedSender<causeway_link::Stream>);
    impl Handler for Silent {
        fn opened(&self, incoming: Incoming<'_>) {
            self.0.send(incoming.accept(settings())).ok();
        }
    }
    let cluster = Cluster::start().await;
    let mut hub = rogue_hub(&cluster).await;
    let laptop = cluster.start_laptop(UID, vec![direct(hub.address())]);
    let (opened, mut asked) = tokio::sync::mpsc::unbounded_channel();
    let (_link, driver) = soon("the laptop", hub.accept()).await.start(Arc::new(Silent(opened)));
    tokio::spawn(driver.run());
    let mut seat = soon("it asks for a seat", asked.recv()).await.expect("a stream");
    // Its word is waited for, but not when another way is asked for.
    laptop.set_ways(vec![direct(cluster.link())]);
    let limit = Duration::from_millis(1500);
    tokio::time::timeout(limit, connected(&laptop))
        .await
        .expect("connected before the first has had its time");
    let mut rest = Vec::new();
    soon("the first is given up", seat.read_to_end(&mut rest)).await.ok();
}
