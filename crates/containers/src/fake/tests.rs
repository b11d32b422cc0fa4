//! The client against the fake: time limits, gaps, faults, and the sweep.

use std::time::Instant;

use futures::StreamExt as _;

use super::*;
use crate::labels::{INSTANCE, Owner, PERSISTENT};
use crate::{
    Attachment, ContainerAction, ContainerSpec, ErrorKind, Event, Limits, LogOptions, NetworkSpec, PortSpec,
    Protocol, State,
};

fn spec(name: &str) -> ContainerSpec {
    ContainerSpec { name: name.into(), image: "web:1".into(), ..ContainerSpec::default() }
}

async fn with_image(kind: Kind) -> (Fake, Runtime) {
    let fake = Fake::start(kind);
    fake.add_image("web:1");
    let runtime = fake.connect().await;
    (fake, runtime)
}

#[tokio::test]
async fn knows_what_it_is_connected_to() {
    for kind in [Kind::Docker, Kind::Podman] {
        let fake = Fake::start(kind);
        let runtime = fake.connect().await;
        assert_eq!(runtime.kind(), kind);
        assert_eq!(runtime.info().await.unwrap().architecture, std::env::consts::ARCH);
    }
}

#[tokio::test]
async fn names_the_socket_that_does_not_answer() {
    let fake = Fake::start(Kind::Docker);
    fake.die();
    let said = Runtime::connect(&fake.choice()).await.unwrap_err().to_string();
    assert!(said.contains(&format!("{} (no such file)", fake.socket().display())), "{said}");
    assert!(said.contains("--container-runtime"), "{said}");
}

#[tokio::test]
async fn a_socket_that_hangs_is_given_up_after_two_seconds() {
    let fake = Fake::start(Kind::Docker);
    fake.fault(Operation::Version, Fault::Hang, usize::MAX);
    let begin = Instant::now();
    let error = Runtime::connect(&fake.choice()).await.unwrap_err();
    assert!(begin.elapsed() < Duration::from_secs(10), "{:?}", begin.elapsed());
    assert_eq!(error.tried()[0].why, "no answer within 2 s");
}

#[tokio::test]
async fn a_container_lives_and_ends() {
    let (fake, runtime) = with_image(Kind::Docker).await;
    fake.add_network("blue");
    let networks = vec![Attachment { network: "blue".into(), aliases: vec!["api".into()] }];
    let id = runtime
        .create(&ContainerSpec { networks, ports: vec![PortSpec::loopback(80, 0)], ..spec("web") })
        .await
        .unwrap();
    let file = File {
        path: "/etc/causeway/identity.pem".into(),
        content: b"key".to_vec(),
        mode: 0o400,
        uid: 7,
        gid: 8,
    };
    runtime.copy_into(&id, std::slice::from_ref(&file)).await.unwrap();
    assert_eq!(fake.container("web").unwrap().files, [file]);
    assert_eq!(runtime.container("web").await.unwrap().state, State::Created);
    runtime.start(&id).await.unwrap();
    runtime.start(&id).await.expect("starting twice is fine");
    let container = runtime.container("web").await.unwrap();
    assert!(container.is_running());
    assert_ne!(container.published(80, Protocol::Tcp).unwrap().port(), 0);
    assert!(container.networks["blue"].ipv4.is_some());
    assert_eq!(runtime.network("blue").await.unwrap().containers[0].name, "web");
    let waiting = tokio::spawn({
        let (runtime, id) = (runtime.clone(), id.clone());
        async move { runtime.wait(&id).await }
    });
    fake.exit("web", 3);
    assert_eq!(waiting.await.unwrap().unwrap(), 3);
    assert_eq!(runtime.container("web").await.unwrap().exit_code, Some(3));
    runtime.remove(&id).await.unwrap();
    runtime.remove(&id).await.expect("removing twice is fine");
    assert_eq!(runtime.container("web").await.unwrap_err().kind(), ErrorKind::NotFound);
}

#[tokio::test]
async fn a_container_that_is_about_to_go_hides_no_other() {
    let (fake, runtime) = with_image(Kind::Podman).await;
    fake.add_network("blue");
    runtime.create(&spec("web")).await.unwrap();
    let gone = || Fault::error(500, "getting container from store \"4f\": container not known");
    fake.fault(Operation::ListContainers, gone(), 2);
    assert_eq!(runtime.containers(&[]).await.unwrap().len(), 1);
    fake.fault(Operation::InspectNetwork, gone(), 2);
    assert_eq!(runtime.network("blue").await.unwrap().name, "blue");
    fake.fault(Operation::InspectContainer, gone(), 2);
    assert_eq!(runtime.containers(&[]).await.unwrap().len(), 1);
    fake.fault(Operation::InspectContainer, gone(), 1);
    assert_eq!(runtime.container("web").await.unwrap_err().kind(), ErrorKind::Broken, "asked for by itself");
}

#[tokio::test]
async fn a_failed_second_network_leaves_nothing_behind() {
    let (fake, runtime) = with_image(Kind::Docker).await;
    fake.add_network("blue");
    let networks =
        ["blue", "nope"].map(|network| Attachment { network: network.into(), aliases: vec![] }).to_vec();
    let error = runtime.create(&ContainerSpec { networks, ..spec("web") }).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NotFound);
    assert!(fake.containers().is_empty());
}

#[tokio::test]
async fn tells_what_is_taken_missing_or_in_use() {
    let (fake, runtime) = with_image(Kind::Docker).await;
    runtime.create_network(&NetworkSpec { name: "blue".into(), ..NetworkSpec::default() }).await.unwrap();
    let again = runtime.create_network(&NetworkSpec { name: "blue".into(), ..NetworkSpec::default() }).await;
    assert_eq!(again.unwrap_err().kind(), ErrorKind::AlreadyExists);
    let networks = vec![Attachment { network: "blue".into(), aliases: vec![] }];
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let ports = vec![PortSpec::loopback(80, taken.local_addr().unwrap().port())];
    let id = runtime.create(&ContainerSpec { networks, ports, ..spec("web") }).await.unwrap();
    assert_eq!(runtime.create(&spec("web")).await.unwrap_err().kind(), ErrorKind::NameTaken);
    assert_eq!(runtime.start(&id).await.unwrap_err().kind(), ErrorKind::PortTaken);
    drop(taken);
    runtime.start(&id).await.unwrap();
    assert_eq!(runtime.remove_network("blue").await.unwrap_err().kind(), ErrorKind::InUse);
    let missing = ContainerSpec { image: "nope:1".into(), ..spec("other") };
    assert_eq!(runtime.create(&missing).await.unwrap_err().kind(), ErrorKind::NotFound);
    drop(fake);
    assert_eq!(runtime.ping().await.unwrap_err().kind(), ErrorKind::Unreachable);
}

#[tokio::test]
async fn a_call_that_hangs_is_given_up() {
    let (fake, runtime) = with_image(Kind::Docker).await;
    let soon = Duration::from_millis(200);
    let runtime = runtime.with_limits(Limits { call: soon, create: soon, slow: soon });
    fake.fault(Operation::CreateContainer, Fault::Hang, 1);
    let error = runtime.create(&spec("web")).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Timeout);
    assert!(error.report().contains("no answer within 0.2 s"), "{}", error.report());
    runtime.create(&spec("web")).await.expect("the next call is not in the way of the first");
}

#[tokio::test]
async fn follows_events_over_a_death_of_the_runtime() {
    let (fake, runtime) = with_image(Kind::Docker).await;
    let mut events = runtime.events();
    let id = runtime.create(&spec("web")).await.unwrap();
    assert!(matches!(
        events.next().await.unwrap(),
        Event::Container { action: ContainerAction::Created, name, .. } if name == "web"
    ));
    runtime.start(&id).await.unwrap();
    assert!(matches!(
        events.next().await.unwrap(),
        Event::Container { action: ContainerAction::Started, .. }
    ));
    fake.die();
    assert!(matches!(events.next().await.unwrap(), Event::Lost { .. }));
    // Nobody can hear this; it is asked for after the gap.
    fake.exit("web", 5);
    fake.restart();
    assert_eq!(events.next().await.unwrap(), Event::Back);
    let Some(Event::Container { action, exit_code, .. }) = events.next().await else { panic!("no event") };
    assert_eq!((action, exit_code), (ContainerAction::Died, Some(5)));
}

#[tokio::test]
async fn reads_logs_while_they_are_written() {
    let (fake, runtime) = with_image(Kind::Docker).await;
    let id = runtime.create(&spec("web")).await.unwrap();
    runtime.start(&id).await.unwrap();
    fake.write_log("web", "one");
    let mut lines = std::pin::pin!(runtime.logs(&id, LogOptions { follow: true, ..LogOptions::default() }));
    assert_eq!(lines.next().await.unwrap().unwrap().text, "one");
    fake.write_log("web", "two");
    let two = lines.next().await.unwrap().unwrap();
    assert_eq!(two.text, "two");
    assert!(two.time.is_some());
    fake.exit("web", 0);
    assert!(lines.next().await.is_none(), "the log ends with the container");
}

#[tokio::test]
async fn sweeps_what_dead_owners_left_and_nothing_else() {
    let (fake, runtime) = with_image(Kind::Docker).await;
    let labels =
        |uid: &str, instance: &str| Owner { uid, kind: "Tunnel", name: "default/web", instance }.labels();
    for (name, uid, instance) in [("left", "dead", "one"), ("kept", "alive", "one"), ("other", "dead", "two")]
    {
        runtime.create(&ContainerSpec { labels: labels(uid, instance), ..spec(name) }).await.unwrap();
        let network =
            NetworkSpec { name: name.into(), labels: labels(uid, instance), ..NetworkSpec::default() };
        runtime.create_network(&network).await.unwrap();
    }
    let mut persistent = labels("dead", "one");
    persistent.insert(PERSISTENT.to_owned(), "true".to_owned());
    let network = NetworkSpec { name: "persistent".into(), labels: persistent, ..NetworkSpec::default() };
    runtime.create_network(&network).await.unwrap();
    let swept = runtime.sweep("one", "Tunnel", |owner| owner == "alive").await.unwrap();
    assert_eq!(swept.containers, ["left"]);
    assert_eq!(swept.networks, ["left"]);
    assert_eq!(fake.networks(), ["kept", "other", "persistent"]);
    assert_eq!(runtime.containers(&[(INSTANCE, "one")]).await.unwrap().len(), 1);
}

#[tokio::test]
async fn a_hook_stands_in_for_the_process() {
    let (fake, runtime) = with_image(Kind::Docker).await;
    fake.on_start(|container| {
        Box::new(std::net::TcpListener::bind(container.ports[&80]).expect("the port is free"))
    });
    let id = runtime
        .create(&ContainerSpec { ports: vec![PortSpec::loopback(80, 0)], ..spec("web") })
        .await
        .unwrap();
    runtime.start(&id).await.unwrap();
    let address = runtime.container(&id).await.unwrap().published(80, Protocol::Tcp).unwrap();
    std::net::TcpStream::connect(address).expect("someone listens");
    runtime.stop(&id, Duration::ZERO).await.unwrap();
    assert!(std::net::TcpStream::connect(address).is_err(), "it went with the container");
}
