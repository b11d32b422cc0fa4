//! What laptops reach: names, and nothing that is not allowed.

use std::io::ErrorKind;

use causeway_stowaway::hub::Reach;

use crate::cluster::{Cluster, UID, ip, place};
use crate::services::{echo, echoes, hears};

#[tokio::test(flavor = "multi_thread")]
async fn names_are_those_of_the_cluster() {
    let (cluster, service) = (Cluster::start().await, echo("web ").await);
    let port = service.port();
    let names = [
        ("web.shop", vec![ip("127.0.0.1")]),
        ("web.shop.svc.cluster.local", vec![ip("127.0.0.1")]),
        ("pair.shop", vec![ip("127.0.0.1"), ip("fd00::7"), ip("10.9.9.9")]),
        ("empty.shop", vec![]),
        ("hidden.shop", vec![ip("10.9.9.9")]),
    ];
    cluster.hub.set_reach(Reach {
        addresses: [ip("127.0.0.1"), ip("fd00::7")].into(),
        names: names.into_iter().map(|(name, addresses)| (name.to_owned(), addresses)).collect(),
        ..Reach::default()
    });
    let laptop = cluster.laptop(UID).await;
    for name in ["web.shop", "Web.Shop.svc.cluster.local."] {
        assert_eq!(laptop.resolve(name).await.expect("known"), [ip("127.0.0.1")], "{name}");
        let mut stream = laptop.connect(&place(&format!("{name}:{port}"))).await.expect("connects");
        hears(&mut stream, "web ").await;
        echoes(&mut stream, "by name").await;
    }
    assert_eq!(laptop.resolve("pair.shop").await.expect("known"), [ip("127.0.0.1"), ip("fd00::7")]);
    for (name, kind) in [
        ("nobody.shop", ErrorKind::NotFound),
        ("empty.shop", ErrorKind::ConnectionRefused),
        ("hidden.shop", ErrorKind::PermissionDenied),
        ("example.com", ErrorKind::NotFound),
        ("web", ErrorKind::NotFound),
        ("no name", ErrorKind::InvalidInput),
    ] {
        let error = laptop.resolve(name).await.expect_err(name);
        assert_eq!(error.kind(), kind, "{name}: {error}");
    }
    laptop.set_namespace(Some("shop".to_owned()));
    assert_eq!(laptop.resolve("web").await.expect("known"), [ip("127.0.0.1")]);
    let mut stream = laptop.connect(&place(&format!("web:{port}"))).await.expect("connects");
    hears(&mut stream, "web ").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_name_is_no_way_around_what_is_denied() {
    let (cluster, service) = (Cluster::start().await, echo("").await);
    let port = service.port();
    // Everything is allowed, but what a large network never includes is not.
    cluster.hub.set_reach(Reach {
        networks: vec!["0.0.0.0/0".parse().expect("a network"), "::/0".parse().expect("a network")],
        names: [(
            "rebound.shop".to_owned(),
            vec![ip("127.0.0.1"), ip("::ffff:127.0.0.1"), ip("169.254.169.254")],
        )]
        .into(),
        outside_names: true,
        ..Reach::default()
    });
    let laptop = cluster.laptop(UID).await;
    for target in [
        format!("127.0.0.1:{port}"),
        format!("[::ffff:127.0.0.1]:{port}"),
        format!("[::1]:{port}"),
        format!("0.0.0.0:{port}"),
        format!("rebound.shop:{port}"),
        // Looked up by the system.
        format!("localhost:{port}"),
        "169.254.169.254:80".to_owned(),
    ] {
        let error = laptop.connect(&place(&target)).await.expect_err(&target);
        assert_eq!(error.kind(), ErrorKind::PermissionDenied, "{target}: {error}");
    }
    assert_eq!(laptop.resolve("localhost").await.expect_err("denied").kind(), ErrorKind::PermissionDenied);
    assert!(laptop.connect(&place("rebound.shop:0")).await.is_err());
    // Exactly that is allowed, and then denied again.
    let mut reach = Reach { addresses: [ip("127.0.0.1")].into(), outside_names: true, ..Reach::default() };
    cluster.hub.set_reach(reach.clone());
    let mut open = laptop.connect(&place(&format!("localhost:{port}"))).await.expect("allowed");
    reach.denied = vec!["127.0.0.0/8".parse().expect("a network")];
    cluster.hub.set_reach(reach);
    let error = laptop.connect(&service.into()).await.expect_err("denied");
    assert_eq!(error.kind(), ErrorKind::PermissionDenied, "{error}");
    echoes(&mut open, "what is open goes on").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_is_reached_before_anybody_said_what() {
    let (cluster, service) = (Cluster::start().await, echo("").await);
    let laptop = cluster.laptop(UID).await;
    let error = laptop.connect(&service.into()).await.expect_err("nothing is allowed");
    assert_eq!(error.kind(), ErrorKind::PermissionDenied);
    assert_eq!(laptop.resolve("localhost").await.expect_err("unknown").kind(), ErrorKind::NotFound);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_address_that_does_not_answer_is_passed_over() {
    let (cluster, service) = (Cluster::start().await, echo("").await);
    cluster.hub.set_reach(Reach {
        addresses: [ip("127.0.0.1"), ip("127.0.0.99")].into(),
        names: [("web.shop".to_owned(), vec![ip("127.0.0.99"), ip("127.0.0.1")])].into(),
        ..Reach::default()
    });
    let laptop = cluster.laptop(UID).await;
    let place = place(&format!("web.shop:{}", service.port()));
    let mut stream = laptop.connect(&place).await.expect("the second answers");
    echoes(&mut stream, "there").await;
}
