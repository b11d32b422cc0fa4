//! The fake runtime's end of the socket: requests taken apart, faults applied, the world asked.

use std::collections::{BTreeMap, HashMap};
use std::convert::Infallible;
use std::io::Read as _;
use std::os::unix::net::UnixListener;
use std::sync::Arc;

use axum::Router;
use axum::body::{Body, Bytes, to_bytes};
use axum::extract::{Query, Request, State};
use axum::http::{Method, StatusCode};
use axum::response::{IntoResponse as _, Response};
use futures::{StreamExt as _, stream};
use serde_json::{Value, json};
use tokio::sync::oneshot;

use super::state::Refusal;
use super::{Fault, Operation, Shared, inside, lock};
use crate::{File, Kind};

/// Serves until told to stop; all connections end with it.
pub(super) fn run(listener: UnixListener, shared: Arc<Shared>, stop_rx: oneshot::Receiver<()>) {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .expect("a thread of its own can have a runtime");
    runtime.block_on(async {
        listener.set_nonblocking(true).expect("a socket can be made non-blocking");
        let listener =
            tokio::net::UnixListener::from_std(listener).expect("a bound socket can be listened on");
        let router = Router::new().fallback(handle).with_state(shared);
        tokio::select! {
            _ = axum::serve(listener, router) => {}
            _ = stop_rx => {}
        }
    });
}

type Pairs = HashMap<String, String>;

async fn handle(State(shared): State<Arc<Shared>>, Query(query): Query<Pairs>, request: Request) -> Response {
    let method = request.method().clone();
    let path = request.uri().path().to_owned();
    let parts: Vec<&str> = path.split('/').filter(|part| !part.is_empty()).collect();
    let Some(operation) = operation(&method, &parts) else {
        return refuse((501, format!("the fake runtime does not know {method} {path}")));
    };
    let mut broken = None;
    match shared.next_fault(operation) {
        None => {}
        Some(Fault::Error { status, message }) => return refuse((status, message)),
        Some(Fault::Delay(time)) => tokio::time::sleep(time).await,
        Some(Fault::Hang) => std::future::pending().await,
        Some(Fault::StreamError(message)) => broken = Some(message),
    }
    let id = parts.get(1).copied().unwrap_or_default();
    let answer = match operation {
        Operation::Ping => Ok("OK".into_response()),
        Operation::Version => Ok(reply(200, version(&shared))),
        Operation::Events => Ok(events(&shared, &query)),
        Operation::Build => Ok(build(&shared, &query, request, broken).await),
        Operation::Pull => Err((404, "no registry is known".to_owned())),
        Operation::InspectImage => {
            let name = parts[1..parts.len() - 1].join("/");
            let image = lock(&shared.world).image(&name);
            image.map(|image| reply(200, image)).ok_or_else(|| (404, format!("No such image: {name}")))
        }
        Operation::RemoveImage => {
            let name = parts[1..].join("/");
            let removed = lock(&shared.world).remove_image(&name);
            if removed { Ok(reply(200, json!([]))) } else { Err((404, format!("No such image: {name}"))) }
        }
        Operation::CopyInto => copy_into(&shared, id, &query, request).await,
        Operation::WaitContainer => wait(&shared, id),
        Operation::Logs => logs(&shared, id, &query),
        _ => {
            let body = to_bytes(request.into_body(), 1 << 20).await.unwrap_or_default();
            let body: Value = serde_json::from_slice(&body).unwrap_or_default();
            plain(&shared, operation, id, &query, body)
        }
    };
    answer.unwrap_or_else(refuse)
}

fn operation(method: &Method, parts: &[&str]) -> Option<Operation> {
    let (get, post, delete) = (method == Method::GET, method == Method::POST, method == Method::DELETE);
    Some(match parts {
        ["_ping"] => Operation::Ping,
        ["version"] => Operation::Version,
        ["events"] => Operation::Events,
        ["build"] => Operation::Build,
        ["images", "create"] if post => Operation::Pull,
        ["images", .., "json"] if get => Operation::InspectImage,
        ["images", ..] if delete => Operation::RemoveImage,
        ["networks", "create"] if post => Operation::CreateNetwork,
        ["networks"] if get => Operation::ListNetworks,
        ["networks", _] if get => Operation::InspectNetwork,
        ["networks", _] if delete => Operation::RemoveNetwork,
        ["networks", _, "connect"] if post => Operation::Attach,
        ["networks", _, "disconnect"] if post => Operation::Detach,
        ["containers", "create"] if post => Operation::CreateContainer,
        ["containers", "json"] if get => Operation::ListContainers,
        ["containers", _, "json"] if get => Operation::InspectContainer,
        ["containers", _, "start"] if post => Operation::StartContainer,
        ["containers", _, "stop"] if post => Operation::StopContainer,
        ["containers", _, "kill"] if post => Operation::KillContainer,
        ["containers", _, "wait"] if post => Operation::WaitContainer,
        ["containers", _, "logs"] if get => Operation::Logs,
        ["containers", _, "archive"] if method == Method::PUT => Operation::CopyInto,
        ["containers", _] if delete => Operation::RemoveContainer,
        _ => return None,
    })
}

/// Everything that takes and gives plain JSON.
fn plain(
    shared: &Shared,
    operation: Operation,
    id: &str,
    query: &Pairs,
    body: Value,
) -> Result<Response, Refusal> {
    let mut world = lock(&shared.world);
    if matches!(operation, Operation::ListNetworks | Operation::InspectNetwork | Operation::ListContainers) {
        world.fail_if_lost()?;
    }
    let (answer, event) = match operation {
        Operation::CreateNetwork => {
            let name = body["Name"].as_str().unwrap_or_default().to_owned();
            if world.network_id(&name).is_some() {
                return Err((409, format!("network with name {name} already exists")));
            }
            let event = world.add_network(&body);
            (reply(201, json!({"Id": world.network_id(&name), "Warning": ""})), event)
        }
        Operation::ListNetworks => {
            (reply(200, world.list_networks(&filter(query, "label"), &filter(query, "name"))), None)
        }
        Operation::InspectNetwork => {
            let network = world.network(id).ok_or_else(|| (404, format!("network {id} not found")))?;
            (reply(200, network), None)
        }
        Operation::RemoveNetwork => {
            if world.is_in_use(id) {
                return Err((
                    403,
                    format!("error while removing network: network {id} has active endpoints"),
                ));
            }
            let event = world.drop_network(id).ok_or_else(|| (404, format!("network {id} not found")))?;
            (empty(204), Some(event))
        }
        Operation::Attach => {
            let container = body["Container"].as_str().unwrap_or_default();
            (empty(200), world.attach(container, id, &body["EndpointConfig"])?)
        }
        Operation::Detach => (empty(200), world.detach(body["Container"].as_str().unwrap_or_default(), id)?),
        Operation::CreateContainer => {
            let name = query.get("name").cloned().unwrap_or_default();
            let (id, event) = world.create_container(&name, body)?;
            (reply(201, json!({"Id": id, "Warnings": []})), Some(event))
        }
        Operation::ListContainers => (reply(200, world.list(&filter(query, "label"))), None),
        Operation::InspectContainer => (reply(200, world.inspect(id, shared.kind)?), None),
        Operation::StartContainer => {
            drop(world);
            let started = shared.begin(id)?;
            return Ok(empty(if started { 204 } else { 304 }));
        }
        Operation::StopContainer | Operation::KillContainer => {
            world.exit_code(id)?;
            drop(world);
            shared.end(id, if operation == Operation::KillContainer { 137 } else { 0 });
            return Ok(empty(204));
        }
        Operation::RemoveContainer => {
            world.exit_code(id)?;
            drop(world);
            shared.end(id, 137);
            let event = lock(&shared.world).remove_container(id);
            shared.tell(event);
            return Ok(empty(204));
        }
        _ => return Err((501, "not plain".to_owned())),
    };
    drop(world);
    shared.tell(event);
    Ok(answer)
}

fn version(shared: &Shared) -> Value {
    let component = match shared.kind {
        Kind::Docker => "Engine",
        Kind::Podman => "Podman Engine",
    };
    json!({
        "Version": "0.0-fake", "ApiVersion": "1.41", "MinAPIVersion": "1.12", "Os": "linux",
        "Arch": lock(&shared.world).architecture, "Components": [{"Name": component, "Version": "0.0-fake"}],
    })
}

fn filter(query: &Pairs, name: &str) -> Vec<String> {
    let filters: HashMap<String, Vec<String>> =
        query.get("filters").and_then(|text| serde_json::from_str(text).ok()).unwrap_or_default();
    filters.get(name).cloned().unwrap_or_default()
}

fn events(shared: &Shared, query: &Pairs) -> Response {
    // Subscribed before the past is read: what happens in between comes twice, as with the real ones.
    let live = shared.events_tx.subscribe();
    let since = query.get("since").and_then(|text| nanos(text)).unwrap_or(u128::MAX);
    let past: Vec<String> = lock(&shared.history)
        .iter()
        .filter(|(time, _)| *time >= since)
        .map(|(_, line)| line.clone())
        .collect();
    let live = stream::unfold(live, |mut live| async { live.recv().await.ok().map(|line| (line, live)) });
    let lines = stream::iter(past).chain(live);
    Body::from_stream(lines.map(|line| Ok::<_, Infallible>(line + "\n"))).into_response()
}

/// Reads seconds with nine decimals.
fn nanos(text: &str) -> Option<u128> {
    let (seconds, rest) = text.split_once('.')?;
    Some(seconds.parse::<u128>().ok()? * 1_000_000_000 + rest.parse::<u128>().ok()?)
}

async fn build(shared: &Shared, query: &Pairs, request: Request, broken: Option<String>) -> Response {
    // The recipe comes first; the rest is read and dropped.
    let mut head = Vec::new();
    let mut body = request.into_body().into_data_stream();
    while let Some(Ok(piece)) = body.next().await {
        if head.len() < 64 * 1024 {
            head.extend_from_slice(&piece);
        }
    }
    let mut dockerfile = String::new();
    if let Some(Ok(mut entry)) =
        tar::Archive::new(head.as_slice()).entries().ok().and_then(|mut all| all.next())
    {
        let _ = entry.read_to_string(&mut dockerfile);
    }
    let mut lines: Vec<Value> = dockerfile
        .lines()
        .enumerate()
        .map(|(number, line)| json!({"stream": format!("Step {} : {line}\n", number + 1)}))
        .collect();
    if let Some(message) = broken {
        lines.push(json!({"errorDetail": {"message": message}, "error": message}));
    } else {
        let labels: BTreeMap<String, String> =
            query.get("labels").and_then(|text| serde_json::from_str(text).ok()).unwrap_or_default();
        let mut world = lock(&shared.world);
        world.add_image(query.get("t").map_or("", String::as_str), labels);
        world.dockerfiles.push(dockerfile);
        lines.push(json!({"stream": "Successfully built\n"}));
    }
    lines.iter().fold(String::new(), |text, line| text + &line.to_string() + "\n").into_response()
}

async fn copy_into(shared: &Shared, id: &str, query: &Pairs, request: Request) -> Result<Response, Refusal> {
    let base = query.get("path").cloned().unwrap_or_default();
    // Containers of the fake have no directories but the root.
    if base != "/" {
        return Err((404, format!("Could not find the file {base} in container {id}")));
    }
    let body = to_bytes(request.into_body(), 64 << 20).await.unwrap_or_default();
    let files = unpack(&base, &body).map_err(|error| (400, error.to_string()))?;
    lock(&shared.world).copy_into(id, files)?;
    Ok(empty(200))
}

fn unpack(base: &str, body: &Bytes) -> std::io::Result<Vec<File>> {
    let mut files = Vec::new();
    for entry in tar::Archive::new(body.as_ref()).entries()? {
        let mut entry = entry?;
        if entry.header().entry_type() != tar::EntryType::Regular {
            continue;
        }
        let mut content = Vec::new();
        entry.read_to_end(&mut content)?;
        let header = entry.header();
        files.push(File {
            path: inside(base, &entry.path()?),
            content,
            mode: header.mode()?,
            uid: header.uid()? as u32,
            gid: header.gid()? as u32,
        });
    }
    Ok(files)
}

fn wait(shared: &Arc<Shared>, id: &str) -> Result<Response, Refusal> {
    lock(&shared.world).exit_code(id)?;
    let (shared, id) = (shared.clone(), id.to_owned());
    // The head of the answer goes out at once, the code when there is one.
    let code = stream::once(async move {
        loop {
            let changed = shared.changed.notified();
            match lock(&shared.world).exit_code(&id) {
                Ok(None) => {}
                Ok(Some(code)) => break Ok::<_, Infallible>(json!({"StatusCode": code}).to_string() + "\n"),
                Err(_) => break Ok(json!({"StatusCode": 137}).to_string() + "\n"),
            }
            changed.await;
        }
    });
    Ok(Body::from_stream(code).into_response())
}

fn logs(shared: &Arc<Shared>, id: &str, query: &Pairs) -> Result<Response, Refusal> {
    lock(&shared.world).logs(id, 0)?;
    let follow = query.get("follow").is_some_and(|follow| follow == "true");
    let state = (shared.clone(), id.to_owned(), 0_usize, false);
    let frames = stream::unfold(state, move |(shared, id, sent, ended)| async move {
        if ended {
            return None;
        }
        loop {
            let changed = shared.changed.notified();
            let (lines, running) = lock(&shared.world).logs(&id, sent).unwrap_or_default();
            let last = !(follow && running);
            if last || !lines.is_empty() {
                let sent = sent + lines.len();
                let bytes: Vec<u8> = lines.iter().flat_map(|line| frame(line)).collect();
                return Some((Ok::<_, Infallible>(bytes), (shared.clone(), id, sent, last)));
            }
            changed.await;
        }
    });
    Ok(Body::from_stream(frames).into_response())
}

/// One line of standard output in the form in which both outputs share a stream.
fn frame(line: &str) -> Vec<u8> {
    let mut bytes = vec![1, 0, 0, 0];
    bytes.extend_from_slice(&(line.len() as u32).to_be_bytes());
    bytes.extend_from_slice(line.as_bytes());
    bytes
}

fn reply(status: u16, value: Value) -> Response {
    (StatusCode::from_u16(status).unwrap_or_default(), axum::Json(value)).into_response()
}

fn empty(status: u16) -> Response {
    StatusCode::from_u16(status).unwrap_or_default().into_response()
}

fn refuse((status, message): Refusal) -> Response {
    reply(status, json!({"message": message}))
}
