//! Logs of custom kinds: offered once somebody keeps them, under a right of their own, and followed to the object's end.

use std::sync::Arc;

use bytes::Bytes;
use causeway_apiserver::{ApiError, LogOptions, ObjectLogs, User};
use causeway_testkit::soon;
use futures::future::BoxFuture;
use futures::stream::{self, BoxStream};
use futures::{AsyncBufReadExt, StreamExt};
use kube::Client;
use kube::api::{DeleteParams, PostParams};
use serde_json::{Value, json};

use crate::cluster::{Cluster, refused};
use crate::custom::{boat, boats, install};

/// Says what it was asked, and one line more when a follow is over.
struct Captain;

impl ObjectLogs for Captain {
    fn open(
        &self,
        namespace: String,
        name: String,
        options: LogOptions,
    ) -> BoxFuture<'static, Result<BoxStream<'static, std::io::Result<Bytes>>, ApiError>> {
        Box::pin(async move {
            let said = format!("{namespace}/{name} {:?} {}\n", options.tail_lines, options.timestamps);
            let first = stream::iter([Ok(Bytes::from(said))]);
            let Some(until) = options.follow_until else { return Ok(first.boxed()) };
            let last = stream::once(async move {
                until.await;
                Ok(Bytes::from_static(b"over\n"))
            });
            Ok(first.chain(last).boxed())
        })
    }

    fn is_left(&self, _: &str, name: &str) -> bool {
        name.contains("left")
    }
}

async fn get(client: &Client, path: &str) -> Result<String, kube::Error> {
    client.request_text(http::Request::get(path).body(Vec::new()).unwrap()).await
}

const LOG: &str = "/apis/example.dev/v1/namespaces/default/boats/b/log";

async fn names(cluster: &Cluster) -> Vec<String> {
    let text = get(&cluster.client, "/apis/example.dev/v1").await.unwrap();
    let list: Value = serde_json::from_str(&text).unwrap();
    list["resources"].as_array().unwrap().iter().map(|r| r["name"].as_str().unwrap().to_owned()).collect()
}

#[tokio::test]
async fn a_log_is_offered_once_somebody_keeps_it() {
    let cluster = Cluster::start().await;
    install(&cluster).await;
    boats(&cluster, "v1").create(&PostParams::default(), &boat("b", json!({"size": 1}))).await.unwrap();
    assert_eq!(refused(get(&cluster.client, LOG).await).code, 404, "nobody keeps one");
    assert!(!names(&cluster).await.contains(&"boats/log".to_owned()));

    cluster.server.set_object_logs("example.dev", "boats", Arc::new(Captain));
    assert!(names(&cluster).await.contains(&"boats/log".to_owned()));
    assert_eq!(get(&cluster.client, LOG).await.unwrap(), "default/b None false\n");
    let asked = format!("{LOG}?tailLines=3&timestamps=true");
    assert_eq!(get(&cluster.client, &asked).await.unwrap(), "default/b Some(3) true\n");
    assert_eq!(refused(get(&cluster.client, &format!("{LOG}?tailLines=few")).await).code, 400);
    let missing = refused(get(&cluster.client, &LOG.replace("/b/", "/c/")).await);
    assert_eq!((missing.code, missing.message.as_str()), (404, "boats.example.dev \"c\" not found"));
    let left = get(&cluster.client, &LOG.replace("/b/", "/left/")).await.unwrap();
    assert_eq!(left, "default/left None false\n", "a log outlives its object");
    for elsewhere in ["..%2Fother%2Fleft", "left%2F..%2F..", "%2e%2e", "left%252f"] {
        let refused = refused(get(&cluster.client, &LOG.replace("/b/", &format!("/{elsewhere}/"))).await);
        assert_eq!(refused.code, 400, "{elsewhere}: {}", refused.message);
    }
}

#[tokio::test]
async fn to_read_a_log_is_a_right_of_its_own() {
    let cluster = Cluster::start().await;
    install(&cluster).await;
    cluster.server.set_object_logs("example.dev", "boats", Arc::new(Captain));
    boats(&cluster, "v1").create(&PostParams::default(), &boat("b", json!({"size": 1}))).await.unwrap();
    let alice = cluster.server.client_as(User::new("alice", &["system:authenticated"]));
    let status = refused(get(&alice, LOG).await);
    assert_eq!(status.code, 403);
    assert!(status.message.contains("cannot get resource \"boats/log\""), "{}", status.message);
}

#[tokio::test]
async fn a_follow_ends_with_the_object() {
    let cluster = Cluster::start().await;
    install(&cluster).await;
    cluster.server.set_object_logs("example.dev", "boats", Arc::new(Captain));
    let api = boats(&cluster, "v1");
    api.create(&PostParams::default(), &boat("b", json!({"size": 1}))).await.unwrap();
    let request = http::Request::get(format!("{LOG}?follow=true")).body(Vec::new()).unwrap();
    let lines = cluster.client.request_stream(request).await.unwrap().lines();
    let mut lines = std::pin::pin!(lines);
    assert_eq!(lines.next().await.unwrap().unwrap(), "default/b None false");
    api.delete("b", &DeleteParams::default()).await.unwrap();
    // One that follows under the same name is another.
    api.create(&PostParams::default(), &boat("b", json!({"size": 1}))).await.unwrap();
    let last = soon("the follow ends", lines.next()).await;
    assert_eq!(last.unwrap().unwrap(), "over");
    assert!(lines.next().await.is_none());
}
