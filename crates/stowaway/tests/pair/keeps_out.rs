//! Who may not come in does not: strangers, carriers without a grant, workstations that were removed.

use std::io;
use std::time::Duration;

use causeway_link::{Authority, Error, Role, dial};
use causeway_stowaway::hub::Workstation;
use causeway_stowaway::{STOWAWAY, laptop, workstation_name};
use causeway_testkit::{eventually, soon};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};

use crate::carrier::Carrier;
use crate::cluster::{CARRIER, Cluster, OTHER, UID, connected, direct, grant, until, workstation};
use crate::services::{any, echo, echoes};

const GREETING: &[u8] = br#"{"way":"Link","session":"s"}"#;

/// Whether a carrier got through: it hears a word of the program.
async fn gets_through(carrier: &Carrier, cluster: &Cluster, name: &str) -> io::Result<()> {
    let hub = cluster.hub.addresses().carriers;
    let mut stream = soon("a handshake", carrier.ask(hub, name)).await?;
    soon("a word or the end", stream.read_u8()).await.map(|_| ())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_carrier_gets_what_it_was_granted_and_nothing_else() {
    let (cluster, program) = (Cluster::start().await, echo("x").await);
    let (port, other) = (program.port(), echo("y").await.port());
    cluster.grant(&[port]);
    let _laptop = cluster.laptop(UID).await;
    let _second = cluster.laptop(OTHER).await;
    let carrier = Carrier::new(&cluster.authority, CARRIER);
    let name = format!("p{port}.{UID}");
    gets_through(&carrier, &cluster, &name).await.expect("granted");
    gets_through(&carrier, &cluster, &format!("p{other}.{UID}")).await.expect_err("another port");
    gets_through(&carrier, &cluster, &format!("p{port}.{OTHER}")).await.expect_err("another workstation");
    gets_through(&carrier, &cluster, &format!("p0.{OTHER}")).await.expect_err("not even whether it is there");
    let stranger = Authority::new().expect("keys").issue(Role::Dialer, CARRIER).expect("keys");
    for (shown, what) in [
        (Some(cluster.authority.issue(Role::Dialer, "carrier-other").expect("keys")), "another carrier"),
        (Some(cluster.identity(UID)), "the workstation itself"),
        (
            Some(cluster.authority.issue(Role::Listener, CARRIER).expect("keys")),
            "a certificate of a listener",
        ),
        (Some(stranger), "another authority"),
        (None, "no certificate"),
    ] {
        let carrier = Carrier::with(&cluster.authority, shown.as_ref());
        gets_through(&carrier, &cluster, &name).await.expect_err(what);
    }
    cluster.hub.set_grants(Vec::new());
    gets_through(&carrier, &cluster, &name).await.expect_err("taken back");
    assert_eq!(cluster.hub.standings().borrow().len(), 2, "nobody else noticed");
}

#[tokio::test(flavor = "multi_thread")]
async fn nobody_causes_a_connection_on_a_laptop_who_was_not_granted_it() {
    let (cluster, program) = (Cluster::start().await, TcpListener::bind(any()).await.expect("a port"));
    let port = program.local_addr().expect("an address").port();
    cluster.grant(&[port]);
    let _laptop = cluster.laptop(UID).await;
    let hub = cluster.hub.addresses().carriers;
    let name = format!("p{port}.{UID}");
    let stranger = Authority::new().expect("keys").issue(Role::Dialer, CARRIER).expect("keys");
    let other = cluster.authority.issue(Role::Dialer, "carrier-other").expect("keys");
    // Also those who know of a port that somebody else was granted.
    for shown in [None, Some(&stranger), Some(&other)] {
        let carrier = Carrier::with(&cluster.authority, shown);
        soon("a refusal", carrier.ask(hub, &name)).await.expect_err("not granted");
    }
    // One that never shows who it is.
    let mut mute = TcpStream::connect(hub).await.expect("connects");
    mute.write_all(&hello(&format!("{name}.workstation.causeway"))).await.expect("writes");
    soon("an answer or the end", mute.read_u8()).await.ok();
    // The first one that the program hears of is the one that may.
    let carrier = Carrier::new(&cluster.authority, CARRIER);
    let (granted, accepted) = tokio::join!(soon("delivery", carrier.ask(hub, &name)), program.accept());
    let (mut granted, (mut heard, _)) = (granted.expect("granted"), accepted.expect("accepts"));
    granted.write_all(b"me").await.expect("writes");
    let mut word = [0; 2];
    soon("a word", heard.read_exact(&mut word)).await.expect("reads");
    assert_eq!(&word, b"me");
}

/// The first message of a client that asks for a name.
fn hello(name: &str) -> Vec<u8> {
    let name = rustls::pki_types::ServerName::try_from(name.to_owned()).expect("a name");
    let authority = Authority::new().expect("keys");
    let mut client =
        rustls::ClientConnection::new(Carrier::with(&authority, None).config, name).expect("a client");
    let mut bytes = Vec::new();
    client.write_tls(&mut bytes).expect("writes");
    bytes
}

#[tokio::test(flavor = "multi_thread")]
async fn rubbish_at_the_carriers_entry_harms_nobody() {
    let (cluster, program) = (Cluster::start().await, echo("x").await);
    cluster.grant(&[program.port()]);
    let _laptop = cluster.laptop(UID).await;
    let hub = cluster.hub.addresses().carriers;
    let carrier = Carrier::new(&cluster.authority, CARRIER);
    for name in [
        "example.com",
        "p80.workstation.causeway",
        "p99999.u.workstation.causeway",
        "px.u.workstation.causeway",
        "p80.a1-2.u.workstation.causeway",
        "workstation.causeway",
        "p80.a.b.c.d.workstation.causeway",
    ] {
        let error = soon("a refusal", carrier.ask_for(hub, name)).await.expect_err(name);
        assert!(error.to_string().contains("AccessDenied"), "{name}: {error}");
    }
    let error = soon("a refusal", carrier.ask_for(hub, "127.0.0.1")).await.expect_err("no name at all");
    assert!(error.to_string().contains("AccessDenied"), "{error}");
    let web = b"GET / HTTP/1.1\r\n\r\n".to_vec();
    for bytes in [web, b"\x16\x03\x01\xff\xff".to_vec(), vec![0; 3000], vec![0xff; 70_000]] {
        let mut socket = TcpStream::connect(hub).await.expect("connects");
        // It may be closed in the middle of it.
        socket.write_all(&bytes).await.ok();
        socket.shutdown().await.ok();
        soon("the end", socket.read_to_end(&mut Vec::new())).await.ok();
    }
    gets_through(&carrier, &cluster, &format!("p{}.{UID}", program.port())).await.expect("still served");
}

#[tokio::test(flavor = "multi_thread")]
async fn handshakes_that_never_end_keep_nobody_out() {
    let (cluster, program) = (Cluster::start().await, echo("x").await);
    cluster.grant(&[program.port()]);
    let addresses = cluster.hub.addresses();
    let mut idle = Vec::new();
    for _ in 0..300 {
        for address in [addresses.link, addresses.carriers] {
            idle.push(TcpStream::connect(address).await.expect("connects"));
        }
    }
    let _laptop = cluster.laptop(UID).await;
    let carrier = Carrier::new(&cluster.authority, CARRIER);
    gets_through(&carrier, &cluster, &format!("p{}.{UID}", program.port())).await.expect("served");
    // They are not kept for ever either.
    for mut socket in idle {
        soon("it is closed", socket.read(&mut [0; 1])).await.ok();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn only_workstations_that_are_known_come_in() {
    let cluster = Cluster::start().await;
    let refused = async |identity: &causeway_link::Identity, greeting: &[u8]| match soon(
        "an answer",
        dial(cluster.link(), identity, STOWAWAY, greeting),
    )
    .await
    {
        Err(Error::Refused(reason)) => reason,
        other => panic!("{other:?}"),
    };
    let unknown = cluster.authority.issue(Role::Dialer, &workstation_name("nobody")).expect("keys");
    assert!(refused(&unknown, GREETING).await.contains("workstation nobody is not there"));
    let carrier = cluster.authority.issue(Role::Dialer, CARRIER).expect("keys");
    assert!(refused(&carrier, GREETING).await.contains("not the name of a workstation"));
    assert!(refused(&cluster.identity(UID), b"\xff\x00").await.contains("greeting"));
    assert!(refused(&cluster.identity(UID), b"").await.contains("greeting"));
    let foreign = Authority::new().expect("keys").issue(Role::Dialer, &workstation_name(UID)).expect("keys");
    let error =
        soon("an answer", dial(cluster.link(), &foreign, STOWAWAY, GREETING)).await.expect_err("a stranger");
    assert!(matches!(error, Error::Handshake(_) | Error::Closed | Error::Io(_)), "{error:?}");
    let disguised = cluster.authority.issue(Role::Listener, &workstation_name(UID)).expect("keys");
    soon("an answer", dial(cluster.link(), &disguised, STOWAWAY, GREETING)).await.expect_err("not a dialer");
    assert!(cluster.hub.standings().borrow().is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_laptop_does_not_talk_to_another_end() {
    let (cluster, impostor) = (Cluster::start().await, Authority::new().expect("keys"));
    // One with an authority of its own, and one that is not the cluster's end though the authority knows it.
    let other = Cluster::replica(impostor, "impostor").await;
    let laptop = cluster.start_laptop(UID, vec![direct(other.link())]);
    let state = until(&laptop, "a refusal", |state| state.ways[0].error.is_some()).await;
    assert!(state.connection.is_none(), "{state:?}");
    assert!(state.complaint().contains("handshake"), "{}", state.complaint());
    assert!(other.hub.standings().borrow().is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_workstation_that_is_removed_is_cut_and_nobody_else() {
    let (cluster, program) = (Cluster::start().await, echo("").await);
    cluster.allow(&[program]);
    let port = program.port();
    cluster.hub.set_grants(vec![grant(CARRIER, UID, port), grant(CARRIER, OTHER, port)]);
    let (removed, kept) = (cluster.laptop(UID).await, cluster.laptop(OTHER).await);
    let mut cut_outward = removed.connect(&program.into()).await.expect("connects");
    let mut cut_inward = cluster.carry(&format!("p{port}.{UID}")).await.expect("delivered");
    let mut outward = kept.connect(&program.into()).await.expect("connects");
    let mut inward = cluster.carry(&format!("p{port}.{OTHER}")).await.expect("delivered");
    let since = cluster.has(OTHER).await.since;
    cluster.hub.set_workstations(vec![workstation(OTHER)]);
    cluster.loses(UID, Duration::from_secs(5)).await;
    soon("it is cut", cut_outward.read_u8()).await.expect_err("cut");
    soon("it is cut", cut_inward.read_u8()).await.expect_err("cut");
    for _ in 0..3 {
        echoes(&mut outward, "still").await;
        echoes(&mut inward, "here").await;
    }
    assert_eq!(cluster.has(OTHER).await.since, since, "the same link");
    let state = until(&removed, "it is told", |state| state.ways[0].error.is_some()).await;
    assert!(state.complaint().contains("is not there"), "{}", state.complaint());
    // And it may come again.
    cluster.hub.set_workstations(vec![workstation(OTHER), workstation(UID)]);
    connected(&removed).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn who_had_a_workstation_before_has_it_no_more() {
    let cluster = Cluster::start().await;
    let lost = cluster.laptop(UID).await;
    let taker = cluster.authority.issue(Role::Dialer, &workstation_name(UID)).expect("keys");
    let taken_over = Workstation { link_key: taker.key_id(), ..workstation(UID) };
    cluster.hub.set_workstations(vec![taken_over, workstation(OTHER)]);
    cluster.loses(UID, Duration::from_secs(5)).await;
    let state = until(&lost, "it is told", |state| state.ways[0].error.is_some()).await;
    assert!(state.complaint().contains("has another key"), "{}", state.complaint());
    let laptop = laptop::start(laptop::Config::new(taker, vec![direct(cluster.link())]));
    connected(&laptop).await;
    // Without a key nobody comes, whatever certificate is shown.
    cluster.hub.set_workstations(vec![Workstation { link_key: None, ..workstation(UID) }]);
    cluster.loses(UID, Duration::from_secs(5)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn coming_and_going_of_others_touches_nobody() {
    let (cluster, program) = (Cluster::start().await, echo("").await);
    cluster.allow(&[program]);
    let all = |count: usize| -> Vec<Workstation> {
        let others = (0..count).map(|number| workstation(&format!("crowd-{number}")));
        others.chain([workstation(UID)]).collect()
    };
    cluster.hub.set_workstations(all(20));
    let laptop = cluster.laptop(UID).await;
    let mut stream = laptop.connect(&program.into()).await.expect("connects");
    let since = cluster.has(UID).await.since;
    let mut others = Vec::new();
    for number in 0..20 {
        others.push(cluster.laptop(&format!("crowd-{number}")).await);
        echoes(&mut stream, "meanwhile").await;
    }
    cluster.hub.set_workstations(all(10));
    echoes(&mut stream, "after ten were removed").await;
    drop(others);
    eventually("they are gone", async || cluster.hub.standings().borrow().len() == 1).await;
    echoes(&mut stream, "after all had gone").await;
    assert_eq!(cluster.has(UID).await.since, since);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_renewed_certificate_is_shown_to_the_next_and_old_ones_go_on() {
    let (cluster, program) = (Cluster::start().await, echo("").await);
    cluster.allow(&[program]);
    cluster.grant(&[program.port()]);
    let laptop = cluster.laptop(UID).await;
    let mut stream = laptop.connect(&program.into()).await.expect("connects");
    let name = format!("p{}.{UID}", program.port());
    let shown = async || {
        let stream = cluster.carry(&name).await.expect("delivered");
        stream.get_ref().1.peer_certificates().expect("shown")[0].to_vec()
    };
    let before = shown().await;
    cluster.hub.renew(&cluster.authority.issue(Role::Listener, STOWAWAY).expect("keys")).expect("fits");
    assert_ne!(shown().await, before);
    echoes(&mut stream, "the same").await;
}
