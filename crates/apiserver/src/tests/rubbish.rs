//! Values of the wrong type at every place of every kind, and other requests that nobody should send: each gets a
//! `Status` that blames the client, and none makes the server panic.

use std::sync::Arc;

use crate::resource::Resource;
use crate::schema::Node;
use crate::server::{Server, Storage};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

/// How far down into the schemas; containers of pod templates are at seven.
const DEPTH: usize = 7;

/// A way down into an object: field names, and `0` for the first item of a list.
type FieldPath = Vec<String>;

/// Places of a schema, not more than a few hundred of each kind.
fn places(node: &Node, above: &[String], depth: usize, found: &mut Vec<FieldPath>) {
    found.push(above.to_vec());
    if depth == 0 {
        return;
    }
    let mut below = |name: &str, child: &Node| {
        let mut place = above.to_vec();
        place.push(name.to_owned());
        places(child, &place, depth - 1, found);
    };
    for (name, child) in &node.properties {
        below(name, child);
    }
    if let Some(child) = &node.additional {
        below("any", child);
    }
    if let Some(child) = &node.items {
        below("0", child);
    }
}

/// An object that is whole but for `rubbish` at one place.
fn object(resource: &Resource, place: &[String], rubbish: &Value) -> Value {
    let mut tree = rubbish.clone();
    for part in place.iter().rev() {
        tree = if part == "0" { json!([tree]) } else { json!({ part: tree }) };
    }
    if place.is_empty() {
        return tree;
    }
    tree["apiVersion"] = tree.get("apiVersion").cloned().unwrap_or_else(|| json!(resource.api_version()));
    tree["kind"] = tree.get("kind").cloned().unwrap_or_else(|| json!(resource.kind));
    if place[0] != "metadata" {
        tree["metadata"] = json!({"name": "rubbish"});
    } else if place.len() > 1 && place[1] != "name" {
        tree["metadata"]["name"] = json!("rubbish");
    }
    tree
}

fn path(resource: &Resource) -> String {
    let root =
        if resource.group.is_empty() { "/api/".to_owned() } else { format!("/apis/{}/", resource.group) };
    let namespace = if resource.namespaced { "namespaces/default/" } else { "" };
    format!("{root}{}/{namespace}{}", resource.version, resource.plural)
}

async fn send(
    client: &kube::Client,
    method: &str,
    uri: &str,
    media: &str,
    body: Vec<u8>,
) -> Result<Value, u16> {
    let request =
        http::Request::builder().method(method).uri(uri).header("content-type", media).body(body).unwrap();
    match client.request::<Value>(request).await {
        Ok(value) => Ok(value),
        Err(kube::Error::Api(status)) => {
            assert!(!status.message.contains("panic"), "{method} {uri}: {status:?}");
            Err(status.code)
        }
        Err(error) => panic!("{method} {uri}: {error:?}"),
    }
}

async fn start() -> (Arc<Server>, kube::Client) {
    let server = Server::start(Storage::Memory, CancellationToken::new()).await.unwrap();
    let client = server.client();
    (server, client)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn wrong_types_anywhere_are_the_clients_fault() {
    let (server, client) = start().await;
    let rubbish = [
        json!(null),
        json!(true),
        json!(-1),
        json!(1e300),
        json!("\u{1F4A5}"),
        json!([null]),
        json!({"0": []}),
    ];
    let mut kinds = tokio::task::JoinSet::new();
    for resource in server.catalog.listing().iter().cloned() {
        let (client, rubbish) = (client.clone(), rubbish.clone());
        kinds.spawn(async move {
            let mut all = Vec::new();
            places(&resource.schema.root, &[], DEPTH, &mut all);
            // Every place of small kinds; of the large ones, those near the root and then every n-th.
            let step = 1 + all.len() / 400;
            let chosen = all.iter().enumerate().filter(|(n, place)| place.len() <= 3 || n % step == 0);
            let (mut wrong, mut sent) = (Vec::new(), 0);
            for (_, place) in chosen {
                for value in &rubbish {
                    let body = object(&resource, place, value);
                    let uri = format!("{}?dryRun=All", path(&resource));
                    let bytes = serde_json::to_vec(&body).unwrap();
                    sent += 1;
                    if let Err(code) = send(&client, "POST", &uri, "application/json", bytes).await
                        && !(400..500).contains(&code)
                    {
                        wrong.push(format!("{code} {uri} {body}"));
                    }
                }
            }
            (wrong, sent)
        });
    }
    let (mut wrong, mut sent) = (Vec::new(), 0);
    while let Some(done) = kinds.join_next().await {
        let (more, count) = done.unwrap();
        wrong.extend(more);
        sent += count;
    }
    assert!(wrong.is_empty(), "{} of {sent}:\n{}", wrong.len(), wrong[..wrong.len().min(40)].join("\n"));
}

#[tokio::test]
async fn wrong_types_in_patches_are_the_clients_fault() {
    let (server, client) = start().await;
    let template = json!({
        "metadata": {"labels": {"app": "x"}},
        "spec": {"containers": [{"name": "main", "image": "example.dev/main:1"}]},
    });
    let live = [
        ("", "services", json!({"selector": {"app": "x"}, "ports": [{"port": 80}]})),
        ("apps", "deployments", json!({"selector": {"matchLabels": {"app": "x"}}, "template": template})),
        ("", "pods", template["spec"].clone()),
    ];
    let rubbish =
        [json!(null), json!(true), json!(-1), json!("x"), json!([null]), json!([{}]), json!({"0": []})];
    let mut wrong = Vec::new();
    for (group, plural, spec) in live {
        let resource = server.catalog.listing().find(group, "v1", plural).unwrap();
        let whole = json!({
            "apiVersion": resource.api_version(), "kind": resource.kind, "metadata": {"name": "live"}, "spec": spec,
        });
        let body = serde_json::to_vec(&whole).unwrap();
        send(&client, "POST", &path(&resource), "application/json", body).await.unwrap();
        let uri = format!("{}/live?dryRun=All&fieldManager=me&force=true", path(&resource));
        let mut all = Vec::new();
        places(&resource.schema.root, &[], DEPTH, &mut all);
        let step = 1 + all.len() / 250;
        for (n, place) in all.iter().enumerate() {
            if place.len() > 2 && n % step != 0 {
                continue;
            }
            let value = &rubbish[n % rubbish.len()];
            for media in ["merge-patch+json", "strategic-merge-patch+json", "apply-patch+yaml"] {
                let mut body = object(&resource, place, value);
                if body["metadata"]["name"] == "rubbish" {
                    body["metadata"] = json!({"name": "live"});
                }
                let bytes = serde_json::to_vec(&body).unwrap();
                // A list item without its merge key is an internal error in Kubernetes too.
                let answer = send(&client, "PATCH", &uri, &format!("application/{media}"), bytes).await;
                if answer.as_ref().is_err_and(|code| !(400..=500).contains(code)) {
                    wrong.push(format!("{answer:?} {media} {uri} {body}"));
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{}:\n{}", wrong.len(), wrong[..wrong.len().min(40)].join("\n"));
}

#[tokio::test]
async fn odd_paths_and_queries_are_the_clients_fault() {
    let (_server, client) = start().await;
    for uri in [
        "/api/v1/namespaces/default/configmaps?watch=true&timeoutSeconds=18446744073709551615&resourceVersion=1",
        "/api/v1/namespaces/default/configmaps?limit=18446744073709551616",
        "/api/v1/namespaces/default/configmaps?limit=-1",
        "/api/v1/namespaces/default/configmaps?resourceVersion=-5",
        "/api/v1/namespaces/default/configmaps?resourceVersion=99999999999999999999",
        "/api/v1/namespaces/default/configmaps?continue=%00%ff",
        "/api/v1/namespaces/default/configmaps?continue=eyJyZXZpc2lvbiI6MTg0NDY3NDQwNzM3MDk1NTE2MTUsImFmdGVyIjpbIiIsIiJdfQ",
        "/api/v1/namespaces/default/configmaps?labelSelector=%28%28%28",
        "/api/v1/namespaces/default/configmaps?labelSelector=a+in+%28",
        "/api/v1/namespaces/default/configmaps?fieldSelector=%3D%3D%3D",
        "/api/v1/namespaces/default/configmaps/%2e%2e%2f%2e%2e",
        "/api/v1/namespaces/default/configmaps/%00",
        "/api/v1/namespaces/%ff%fe/configmaps",
        "/api/v1/namespaces//configmaps",
        "/apis/////",
        "/apis/a/b/c/d/e/f/g/h/i",
        "/openapi/v3/apis/none/v1",
        "/openapi/v2/x",
        "/%",
        "/api/v1/%2525",
    ] {
        if uri.contains("watch=true") {
            let request = http::Request::get(uri).body(Vec::new()).unwrap();
            let stream =
                tokio::time::timeout(std::time::Duration::from_secs(5), client.request_stream(request));
            assert!(stream.await.unwrap().is_ok(), "{uri}");
            continue;
        }
        let answer = send(&client, "GET", uri, "", Vec::new()).await;
        assert!(
            answer.as_ref().is_ok_and(|v| !v.is_null())
                || answer.as_ref().is_err_and(|c| (400..500).contains(c)),
            "{uri}: {answer:?}"
        );
    }
}

#[tokio::test]
async fn bodies_that_are_no_objects_are_the_clients_fault() {
    let (_server, client) = start().await;
    let uri = "/api/v1/namespaces/default/configmaps";
    let nested =
        |open: &str, close: &str, n: usize| format!("{}{}", open.repeat(n), close.repeat(n)).into_bytes();
    let bodies: Vec<Vec<u8>> = vec![
        vec![],
        b"null".to_vec(),
        b"[]".to_vec(),
        b"\"text\"".to_vec(),
        b"12".to_vec(),
        b"{".to_vec(),
        b"{\"metadata\":".to_vec(),
        vec![0xff, 0xfe, 0x00],
        b"{\"metadata\":{\"name\":\"\xff\"}}".to_vec(),
        nested("[", "]", 100_000),
        nested("{\"a\":", "}", 100_000),
        nested("[", "", 1_000_000),
        b"a: &a [*a, *a]".to_vec(),
        b"a: &a [x,x,x,x,x,x,x,x,x]\nb: &b [*a,*a,*a,*a,*a,*a,*a,*a,*a]\nc: &c [*b,*b,*b,*b,*b,*b,*b,*b]\nd: &d [*c,*c,*c,*c,*c,*c,*c,*c]\ne: &e [*d,*d,*d,*d,*d,*d,*d]\nf: [*e,*e,*e,*e,*e,*e,*e,*e]".to_vec(),
    ];
    for media in [
        "application/json",
        "application/yaml",
        "application/merge-patch+json",
        "text/plain",
        "",
        "application/vnd.kubernetes.protobuf",
    ] {
        for body in &bodies {
            let answer = send(&client, "POST", uri, media, body.clone()).await;
            assert!(
                answer.as_ref().is_err_and(|c| [400, 415, 422].contains(c)),
                "{media} {:?}: {answer:?}",
                &body[..body.len().min(40)]
            );
        }
    }
    let huge = vec![b' '; (3 << 20) + 1];
    assert_eq!(send(&client, "POST", uri, "application/json", huge).await, Err(413));
}
