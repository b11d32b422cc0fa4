//! Links begin and end in order.

use causeway_link::{Authority, Ended, Error, Role, dial};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

use crate::ends::{End, ends, listener, settings, stream, within};

#[tokio::test(flavor = "multi_thread")]
async fn a_listener_tells_its_peers_apart() {
    let authority = Authority::new().expect("keys");
    let mut listener = listener(&authority).await;
    let at = listener.address();
    let mut ends = Vec::new();
    for name in ["laptop-1", "laptop-2"] {
        let identity = authority.issue(Role::Dialer, name).expect("keys");
        let dialing = tokio::spawn(async move { dial(at, &identity, "box", name.as_bytes()).await });
        let accepted = within("a connection", listener.accept()).await;
        assert_eq!((accepted.peer(), accepted.greeting()), (name, name.as_bytes()));
        ends.push((End::start(accepted), End::start(dialing.await.expect("no panic").expect("dials"))));
    }
    for (accepted, dialled) in &mut ends {
        let (mut near, mut far) = stream(accepted, dialled).await;
        near.write_all(b"hello").await.expect("writes");
        let mut word = [0; 5];
        within("a word", far.read_exact(&mut word)).await.expect("reads");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_refused_connection_is_told_why() {
    let authority = Authority::new().expect("keys");
    let mut listener = listener(&authority).await;
    let (at, identity) = (listener.address(), authority.issue(Role::Dialer, "laptop").expect("keys"));
    let dialing = tokio::spawn(async move { dial(at, &identity, "box", b"").await });
    within("a connection", listener.accept()).await.refuse("not today").await;
    let error = dialing.await.expect("no panic").expect_err("refused");
    assert!(matches!(&error, Error::Refused(reason) if reason == "not today"), "{error:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_dialer_does_not_talk_to_another_name() {
    let authority = Authority::new().expect("keys");
    let listener = listener(&authority).await;
    let identity = authority.issue(Role::Dialer, "laptop").expect("keys");
    let error = dial(listener.address(), &identity, "another", b"").await.expect_err("somebody else");
    assert!(matches!(error, Error::Handshake(_)), "{error:?}");
    let disguised = authority.issue(Role::Listener, "laptop").expect("keys");
    let error = dial(listener.address(), &disguised, "box", b"").await.expect_err("not a dialer");
    assert!(matches!(error, Error::Handshake(_)), "{error:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_link_that_leaves_ends_with_its_last_stream() {
    let (dialled, mut accepted) = ends().await;
    let (mut near, mut far) = stream(&dialled, &mut accepted).await;
    dialled.link.leave();
    assert!(dialled.link.open(b"", settings()).is_err(), "it leaves");
    within("the other end hears of it", async {
        while accepted.link.is_usable() {
            tokio::task::yield_now().await;
        }
    })
    .await;
    near.write_all(b"still").await.expect("writes");
    let mut word = [0; 5];
    within("a word", far.read_exact(&mut word)).await.expect("reads");
    drop((near, far));
    assert!(matches!(accepted.ended().await, Ended::Left));
    assert!(matches!(dialled.ended().await, Ended::ClosedThere(_)));
}

#[tokio::test(flavor = "multi_thread")]
async fn what_was_sent_before_the_link_closed_arrives() {
    for _ in 0..20 {
        let (dialled, mut accepted) = ends().await;
        let (mut near, mut far) = stream(&dialled, &mut accepted).await;
        // Something is on its way here too: a connection closed with it unread would take the rest back.
        far.write_all(&vec![1; 100_000]).await.expect("writes");
        near.write_all(&vec![2; 100_000]).await.expect("writes");
        near.shutdown().await.expect("ends its half");
        dialled.link.close("done");
        let mut got = Vec::new();
        within("the bytes", far.read_to_end(&mut got)).await.expect("all of it, and the end");
        assert_eq!(got.len(), 100_000);
        assert!(matches!(accepted.ended().await, Ended::ClosedThere(reason) if reason == "done"));
        assert!(matches!(dialled.ended().await, Ended::ClosedHere(reason) if reason == "done"));
    }
}
