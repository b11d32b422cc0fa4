use std::sync::{Arc, Mutex};

use http::{Method, Request, Response, StatusCode};
use kube::client::Body;
use tower::service_fn;

use super::*;

type Asked = Arc<Mutex<Vec<(Method, serde_json::Value)>>>;

/// Answers requests in the server's place and keeps what was asked.
fn recording(status: fn(&Method) -> StatusCode) -> (Client, Asked) {
    let asked = Asked::default();
    let seen = asked.clone();
    let service = service_fn(move |request: Request<Body>| {
        let seen = seen.clone();
        async move {
            let method = request.method().clone();
            let bytes = request.into_body().collect_bytes().await.unwrap();
            let body: serde_json::Value = serde_json::from_slice(&bytes).unwrap();
            seen.lock().unwrap().push((method.clone(), body.clone()));
            let code = status(&method);
            let answer = if code.is_success() {
                serde_json::json!({"metadata": {"name": "x"}, "eventTime": null})
            } else {
                serde_json::json!({"status": "Failure", "code": code.as_u16(), "reason": "NotFound", "message": "gone"})
            };
            let response =
                Response::builder().status(code).body(Body::from(answer.to_string().into_bytes())).unwrap();
            Ok::<_, std::convert::Infallible>(response)
        }
    });
    (Client::new(service, "default"), asked)
}

fn infra() -> ObjectReference {
    ObjectReference {
        name: Some("lab".into()),
        namespace: Some("clusters".into()),
        uid: Some("u-1".into()),
        ..ObjectReference::default()
    }
}

fn note(text: &str) -> Note {
    Note { severity: Severity::Warning, reason: "Invalid".into(), action: "Reconcile", text: text.into() }
}

#[tokio::test]
async fn equal_events_become_a_series_and_other_text_a_new_event() {
    let (client, asked) = recording(|_| StatusCode::OK);
    let recorder = Recorder::new(client, "infra", "replica-0");
    for text in ["a", "a", "a", "b"] {
        recorder.publish(&infra(), note(text)).await;
    }
    let asked = asked.lock().unwrap();
    let methods: Vec<_> = asked.iter().map(|(method, _)| method.as_str()).collect();
    assert_eq!(methods, ["POST", "PATCH", "PATCH", "POST"]);
    assert_eq!(asked[2].1["series"]["count"], 3);
    assert_eq!(asked[3].1["note"], "b");
    assert_eq!(asked[3].1["type"], "Warning");
}

#[tokio::test]
async fn an_event_the_server_forgot_is_told_anew() {
    let (client, asked) =
        recording(|method| if method == Method::PATCH { StatusCode::NOT_FOUND } else { StatusCode::OK });
    let recorder = Recorder::new(client, "infra", "replica-0");
    recorder.publish(&infra(), note("a")).await;
    recorder.publish(&infra(), note("a")).await;
    let methods: Vec<_> = asked.lock().unwrap().iter().map(|(method, _)| method.to_string()).collect();
    assert_eq!(methods, ["POST", "PATCH", "POST"]);
}

#[tokio::test]
async fn long_text_is_cut_and_a_failing_server_is_no_failure() {
    let (client, asked) = recording(|_| StatusCode::INTERNAL_SERVER_ERROR);
    let recorder = Recorder::new(client, "infra", "replica-0");
    recorder.publish(&infra(), note(&"x".repeat(5000))).await;
    let length = asked.lock().unwrap()[0].1["note"].as_str().unwrap().len();
    assert!(length <= report::NOTE_LIMIT, "{length}");
}
