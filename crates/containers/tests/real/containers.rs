//! Containers: files copied in, ports published, ends and logs.

use std::io::{BufRead as _, BufReader, Write as _};
use std::net::{TcpListener, TcpStream};
use std::time::{Duration, Instant};

use causeway_containers::labels::{INSTANCE, Owner};
use causeway_containers::{
    Attachment, Container, ContainerSpec, ErrorKind, File, LogOptions, Mount, NetworkSpec, Output, PortSpec,
    Protocol, State,
};
use causeway_testkit::eventually;
use futures::StreamExt as _;

use crate::{Bed, unique};

mod runs {
    crate::on_both!(
        files_copied_before_start_keep_mode_and_owner,
        ports_are_published_on_loopback_only,
        logs_and_exit_code_are_told,
        stop_waits_for_the_grace_and_no_longer,
        mounts_show_files_of_the_host,
        names_and_images_that_are_taken_or_missing,
        a_sweep_removes_what_dead_owners_left,
    );
}

async fn lines(bed: &Bed, id: &str) -> Vec<(Output, String)> {
    bed.runtime
        .logs(id, LogOptions::default())
        .map(|line| {
            let line = line.unwrap();
            assert!(line.time.is_some(), "{line:?}");
            (line.output, String::from_utf8(line.text.to_vec()).unwrap())
        })
        .collect()
        .await
}

async fn files_copied_before_start_keep_mode_and_owner(bed: &Bed) {
    let mut spec = bed.spec(&unique("files"), "file");
    spec.env.push(("FILE".to_owned(), "/etc/causeway/deep/key.pem".to_owned()));
    let id = bed.runtime.create(&spec).await.unwrap();
    let file = |path: &str| File {
        path: path.into(),
        content: b"secret".to_vec(),
        mode: 0o440,
        uid: 1234,
        gid: 4321,
    };
    bed.runtime
        .copy_into(
            &id,
            &[file("/etc/causeway/deep/key.pem"), file("/etc/causeway/deep/other"), file("/tmp-file")],
        )
        .await
        .unwrap();
    bed.runtime.start(&id).await.unwrap();
    assert_eq!(bed.runtime.wait(&id).await.unwrap(), 0);
    let said = lines(bed, &id).await;
    assert!(said.iter().any(|(_, line)| line.contains("file 440 1234:4321 secret")), "{said:?}");
    bed.runtime.remove(&id).await.unwrap();
    let gone = bed.runtime.copy_into(&id, &[file("/x")]).await.unwrap_err();
    assert_eq!(gone.kind(), ErrorKind::NotFound);
}

async fn ports_are_published_on_loopback_only(bed: &Bed) {
    let network = NetworkSpec { name: unique("ports"), ..NetworkSpec::default() };
    bed.runtime.create_network(&network).await.unwrap();
    let networks = vec![Attachment { network: network.name.clone(), aliases: vec![] }];
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = taken.local_addr().unwrap().port();
    let ports = vec![PortSpec::loopback(8080, port)];
    let spec = ContainerSpec { networks, ports, ..bed.spec(&unique("ports"), "echo") };
    let id = bed.runtime.create(&spec).await.unwrap();
    assert_eq!(bed.runtime.start(&id).await.unwrap_err().kind(), ErrorKind::PortTaken);
    drop(taken);
    bed.runtime.start(&id).await.unwrap();
    let container = bed.runtime.container(&id).await.unwrap();
    let host = container.published(8080, Protocol::Tcp).unwrap();
    assert_eq!(host, format!("127.0.0.1:{port}").parse().unwrap());
    let line = eventually("the echo comes back", async || {
        let mut stream = TcpStream::connect(host).ok()?;
        stream.write_all(b"ahoy\n").ok()?;
        let mut line = String::new();
        BufReader::new(stream).read_line(&mut line).ok()?;
        (!line.is_empty()).then_some(line)
    })
    .await;
    assert_eq!(line, "ahoy\n");
    bed.runtime.remove(&id).await.unwrap();
    bed.runtime.remove_network(&network.name).await.unwrap();
}

async fn logs_and_exit_code_are_told(bed: &Bed) {
    let id = bed.runtime.create(&bed.spec(&unique("hello"), "hello")).await.unwrap();
    assert_eq!(bed.runtime.container(&id).await.unwrap().state, State::Created);
    bed.runtime.start(&id).await.unwrap();
    assert_eq!(bed.runtime.wait(&id).await.unwrap(), 7);
    let ended: Container = bed.runtime.container(&id).await.unwrap();
    assert_eq!((ended.state, ended.exit_code), (State::Exited, Some(7)));
    assert!(ended.started_at.is_some() && ended.finished_at.is_some(), "{ended:?}");
    let said = lines(bed, &id).await;
    assert!(
        said.iter().any(|(output, line)| *output == Output::Stdout && line.ends_with("hello to out")),
        "{said:?}"
    );
    assert!(said.contains(&(Output::Stderr, "hello to err".to_owned())), "{said:?}");
    bed.runtime.remove(&id).await.unwrap();
}

async fn stop_waits_for_the_grace_and_no_longer(bed: &Bed) {
    let id = bed.runtime.create(&bed.spec(&unique("stop"), "sleep")).await.unwrap();
    bed.runtime.start(&id).await.unwrap();
    let begin = Instant::now();
    // The first process of a container has no default for SIGTERM, so it is killed after the grace.
    bed.runtime.stop(&id, Duration::from_secs(1)).await.unwrap();
    assert!(begin.elapsed() >= Duration::from_secs(1), "{:?}", begin.elapsed());
    let ended = bed.runtime.container(&id).await.unwrap();
    assert_eq!((ended.state, ended.exit_code), (State::Exited, Some(137)));
    bed.runtime.stop(&id, Duration::from_secs(1)).await.expect("stopping twice is fine");
    bed.runtime.remove(&id).await.unwrap();
}

async fn mounts_show_files_of_the_host(bed: &Bed) {
    let directory = tempfile::tempdir().unwrap();
    std::fs::write(directory.path().join("note"), "from the host").unwrap();
    let mut spec = bed.spec(&unique("mount"), "file");
    spec.env.push(("FILE".to_owned(), "/data/note".to_owned()));
    spec.mounts =
        vec![Mount { source: directory.path().to_owned(), target: "/data".to_owned(), read_only: true }];
    let id = bed.runtime.create(&spec).await.unwrap();
    bed.runtime.start(&id).await.unwrap();
    assert_eq!(bed.runtime.wait(&id).await.unwrap(), 0);
    let said = lines(bed, &id).await;
    assert!(said.iter().any(|(_, line)| line.contains("from the host")), "{said:?}");
    bed.runtime.remove(&id).await.unwrap();
}

async fn names_and_images_that_are_taken_or_missing(bed: &Bed) {
    let spec = bed.spec(&unique("taken"), "sleep");
    let id = bed.runtime.create(&spec).await.unwrap();
    assert_eq!(bed.runtime.create(&spec).await.unwrap_err().kind(), ErrorKind::NameTaken);
    let missing =
        ContainerSpec { image: "causeway-no-such-image:1".into(), ..bed.spec(&unique("missing"), "sleep") };
    assert_eq!(bed.runtime.create(&missing).await.unwrap_err().kind(), ErrorKind::NotFound);
    let networks = vec![Attachment { network: "no-such-network".into(), aliases: vec![] }];
    let lost = ContainerSpec { networks, ..bed.spec(&unique("lost"), "sleep") };
    let refused = match bed.runtime.create(&lost).await {
        Ok(id) => bed.runtime.start(&id).await.unwrap_err(),
        Err(error) => error,
    };
    assert_eq!(refused.kind(), ErrorKind::NotFound, "{}", refused.report());
    bed.runtime.remove(&lost.name).await.unwrap();
    bed.runtime.remove(&id).await.unwrap();
    assert_eq!(bed.runtime.container(&id).await.unwrap_err().kind(), ErrorKind::NotFound);
    bed.runtime.remove(&id).await.expect("removing twice is fine");
}

async fn a_sweep_removes_what_dead_owners_left(bed: &Bed) {
    let instance = unique("instance");
    let owned = |uid: &str| {
        let labels = Owner { uid, kind: "Test", name: "default/test", instance: &instance }.labels();
        ContainerSpec { labels, ..bed.spec(&unique(uid), "sleep") }
    };
    let (dead, alive) = (owned("dead"), owned("alive"));
    for spec in [&dead, &alive] {
        let id = bed.runtime.create(spec).await.unwrap();
        bed.runtime.start(&id).await.unwrap();
    }
    let swept = bed.runtime.sweep(&instance, "Test", |uid| uid == "alive").await.unwrap();
    assert_eq!(swept.containers, [dead.name]);
    let left = bed.runtime.containers(&[(INSTANCE, &instance)]).await.unwrap();
    assert_eq!(left.iter().map(|container| &container.name).collect::<Vec<_>>(), [&alive.name]);
    assert!(left[0].is_running());
    bed.runtime.remove(&alive.name).await.unwrap();
}
