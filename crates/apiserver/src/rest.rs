//! The REST doors: who is asking, what for, may they; then the handler of the verb.

mod body;
pub(crate) mod delete;
pub(crate) mod logs;
mod names;
mod patch;
pub(crate) mod pods;
mod port_forward;
mod read;
mod scale;
mod watch;
mod write;

use std::borrow::Cow;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Instant;

use axum::body::Body;
use axum::response::{IntoResponse, Response};
use futures::FutureExt;
use http::request::Parts;
use http::{Extensions, HeaderMap, HeaderValue, Method, Request, StatusCode, header};
use serde_json::{Value, json};

use crate::access::{Attributes, PeerCertificate, ReviewKind, User};
use crate::admission::policies::{Act, Attempt, Other};
use crate::discovery;
use crate::error::{ApiError, Reason};
use crate::openapi::Document;
use crate::request::{self, Options, Target};
use crate::resource::Resource;
use crate::selector::FieldSelector;
use crate::server::{self, Server};
use crate::store::{GroupResource, Key};
use crate::table::{self, Form, IncludeObject};
use write::{Ownership, Part};

pub(crate) use names::uid;
pub(crate) use read::view;
pub(crate) use write::{convert, is_finished};

/// Put into a request's extensions by callers inside this process, who need no credentials.
#[derive(Debug, Clone)]
pub(crate) struct Trusted(pub User);

/// Marks a request with an object of this program, which its tests have found to be good: to judge it again would be most
/// of the work of a start.
#[derive(Clone)]
pub(crate) struct Vetted;

/// One request about one resource.
pub(crate) struct Call<'a> {
    pub server: &'a Server,
    pub resource: &'a Resource,
    resource_arc: Arc<Resource>,
    pub target: &'a Target,
    pub options: &'a Options,
    pub headers: &'a HeaderMap,
    /// What the front says of the connection.
    extensions: &'a Extensions,
    /// Set for namespaced resources, but for lists across namespaces.
    pub namespace: Option<String>,
    pub user: &'a User,
    /// The time of the request, as objects carry it.
    pub now: String,
    form: Form,
    /// Answered as `Warning` headers.
    warnings: Vec<String>,
    /// Fields that occurred twice in the body.
    duplicates: Vec<String>,
    /// The body states the revision it was made from (an update), rather than carrying it along (a patch).
    pins_revision: bool,
    is_patch: bool,
}

/// A time as Kubernetes objects carry it: whole seconds, UTC.
pub(crate) fn timestamp(at: jiff::Timestamp) -> String {
    at.strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}

impl Call<'_> {
    pub(crate) fn collection(&self) -> GroupResource {
        GroupResource::new(&self.resource.storage_group, &self.resource.plural)
    }

    pub(crate) fn key(&self, name: &str) -> Key {
        Key::new(&self.collection(), self.namespace.as_deref().unwrap_or_default(), name)
    }

    /// Refuses what a policy denies. `name` is empty where the server makes it up, or several objects are meant.
    fn check_policies(
        &mut self,
        operation: Act,
        kind: Option<Other>,
        name: &str,
        object: Option<Cow<'_, Value>>,
        old: Option<Cow<'_, Value>>,
    ) -> Result<(), ApiError> {
        let (server, resource) = (self.server, self.resource);
        let mut warnings = std::mem::take(&mut self.warnings);
        let checked = server.check_policies(&resource.plural, &mut warnings, || Attempt {
            operation,
            resource,
            subresource: self.target.subresource.as_deref().unwrap_or_default(),
            kind,
            namespace: self.namespace.as_deref().unwrap_or(match resource.plural.as_str() {
                "namespaces" if resource.group.is_empty() => name,
                _ => "",
            }),
            name,
            object,
            old,
            options: self.write_options(operation),
            dry_run: self.options.dry_run,
            user: self.user,
        });
        self.warnings = warnings;
        checked
    }

    /// The options of a write as an object, as policies see them.
    fn write_options(&self, operation: Act) -> Value {
        let kind = match (operation, self.is_patch) {
            (Act::Create, false) => "CreateOptions",
            (Act::Update, false) => "UpdateOptions",
            (Act::Create | Act::Update, true) => "PatchOptions",
            (Act::Delete, _) => "DeleteOptions",
            (Act::Connect, _) => return Value::Null,
        };
        let mut options = json!({"kind": kind, "apiVersion": "meta.k8s.io/v1"});
        if operation != Act::Delete {
            options["fieldManager"] = json!(self.field_manager());
            options["fieldValidation"] = json!(format!("{:?}", self.options.field_validation));
        }
        if self.options.dry_run {
            options["dryRun"] = json!(["All"]);
        }
        options
    }

    fn not_found(&self, name: &str) -> ApiError {
        ApiError::not_found(&self.resource.group, &self.resource.plural, name)
    }

    fn accept(&self) -> &str {
        text(self.headers, header::ACCEPT)
    }

    fn content_type(&self) -> &str {
        text(self.headers, header::CONTENT_TYPE).split(';').next().unwrap_or_default().trim()
    }

    fn decode(&mut self, bytes: &[u8]) -> Result<Value, ApiError> {
        let decoded = body::decode(bytes, self.content_type())?;
        self.duplicates = decoded.duplicates;
        Ok(decoded.value)
    }

    /// Who owns the fields this request sets: as given, else the program that asks.
    fn field_manager(&self) -> String {
        if !self.options.field_manager.is_empty() {
            return self.options.field_manager.clone();
        }
        let agent = text(self.headers, header::USER_AGENT).split('/').next().unwrap_or_default();
        let name: String = agent.chars().filter(|c| !c.is_control()).take(128).collect();
        if name.is_empty() { "unknown".to_owned() } else { name }
    }
}

fn text(headers: &HeaderMap, name: header::HeaderName) -> &str {
    headers.get(name).and_then(|v| v.to_str().ok()).unwrap_or_default()
}

/// Answers one request.
pub(crate) async fn handle(server: Arc<Server>, request: Request<Body>) -> Response {
    let started = Instant::now();
    let (parts, body) = request.into_parts();
    let mut seen = Seen::default();
    // A defect must cost one request, not the connection and the other requests on it.
    let answered = AssertUnwindSafe(answer(&server, &parts, body, &mut seen)).catch_unwind().await;
    let response = match answered {
        Ok(Ok(response)) => response,
        Ok(Err(error)) => error.into_response(),
        Err(_) => {
            tracing::error!(method = %parts.method, path = parts.uri.path(), "a request made the server panic");
            ApiError::internal("this request made the server panic; its log says where").into_response()
        }
    };
    // Answers depend on who asks, and on the moment.
    let mut response = response;
    let caching = HeaderValue::from_static("no-cache, private");
    response.headers_mut().entry(header::CACHE_CONTROL).or_insert(caching);
    server.metrics.request_done(&seen.verb, &seen.resource, response.status().as_u16(), started.elapsed());
    response
}

/// What the metrics say about a request.
#[derive(Default)]
struct Seen {
    verb: String,
    /// Empty unless it is one that is served: strangers' words would fill the memory.
    resource: String,
}

async fn answer(
    server: &Arc<Server>,
    parts: &Parts,
    body: Body,
    seen: &mut Seen,
) -> Result<Response, ApiError> {
    let path = parts.uri.path();
    let user = match parts.extensions.get::<Trusted>() {
        Some(Trusted(user)) => user.clone(),
        None => {
            server.access.authenticate(&parts.headers, parts.extensions.get::<PeerCertificate>(), path)?
        }
    };
    let options = Options::parse(parts.uri.query().unwrap_or_default())?;
    if let Some(target) = Target::parse(path) {
        let verb =
            request::verb(&parts.method, &target, &options).ok_or_else(ApiError::method_not_allowed)?;
        verb.clone_into(&mut seen.verb);
        // Who may read one object by name may also list and watch that one.
        let selector = match verb {
            "list" | "watch" => FieldSelector::read(&options.field_selector)?,
            _ => FieldSelector::default(),
        };
        server.access.authorize(
            &user,
            &Attributes {
                verb,
                group: &target.group,
                resource: &target.plural,
                subresource: target.subresource.as_deref().unwrap_or_default(),
                namespace: target.namespace.as_deref().unwrap_or_default(),
                name: target.name.as_deref().or(selector.exact_name()).unwrap_or_default(),
                path: None,
            },
        )?;
        target.check_names()?;
        return resource(server, parts, body, &user, &target, &options, seen).await;
    }
    let verb = parts.method.as_str().to_ascii_lowercase();
    seen.verb.clone_from(&verb);
    server.access.authorize(&user, &Attributes { verb: &verb, path: Some(path), ..Attributes::default() })?;
    if parts.method != Method::GET && parts.method != Method::HEAD {
        return Err(ApiError::method_not_allowed());
    }
    outside_resources(server, parts, path, &options)
}

/// Health, version, metrics, discovery and schemas.
fn outside_resources(
    server: &Arc<Server>,
    parts: &Parts,
    path: &str,
    options: &Options,
) -> Result<Response, ApiError> {
    let plain = |text: String| body::raw(StatusCode::OK, "text/plain; charset=utf-8", Body::from(text));
    // The Python client asks for `/version/`.
    match path.strip_suffix('/').unwrap_or(path) {
        "/healthz" | "/livez" | "/healthz/ping" | "/livez/ping" | "/readyz/ping" => {
            return Ok(plain("ok".into()));
        }
        "/readyz" if server.is_ready() => return Ok(plain("ok".into())),
        "/readyz" => {
            return Err(ApiError::new(503, Reason::ServiceUnavailable, "the server is still starting"));
        }
        "/version" => {
            return Ok(body::respond(StatusCode::OK, &server::version(), &parts.headers, options.pretty));
        }
        "/metrics" => return Ok(plain(server.metrics.render(&server.store))),
        _ => {}
    }
    let listing = server.catalog.listing();
    let pieces: Vec<&str> = path.split('/').filter(|p| !p.is_empty()).collect();
    let accept = text(&parts.headers, header::ACCEPT);
    if pieces.first() == Some(&"openapi") {
        let hash = options.other("hash").unwrap_or_default();
        let document = server
            .documents
            .respond(&pieces, accept, hash, &listing)
            .ok_or_else(ApiError::no_such_path)??;
        return Ok(send_document(document, &parts.headers));
    }
    if pieces.is_empty() {
        let paths = json!({"paths": ["/api", "/apis", "/healthz", "/livez", "/metrics", "/openapi/v2", "/openapi/v3", "/readyz", "/version"]});
        return Ok(body::respond(StatusCode::OK, &paths, &parts.headers, options.pretty));
    }
    let (media, document) =
        discovery::respond(&pieces, accept, &listing).ok_or_else(ApiError::no_such_path)?;
    let mut response = body::respond(StatusCode::OK, &document, &HeaderMap::new(), options.pretty);
    if let Ok(media) = media.parse() {
        response.headers_mut().insert(header::CONTENT_TYPE, media);
    }
    Ok(response)
}

/// A document that changes only with what is served: clients keep it by its tag.
fn send_document(document: Document, headers: &HeaderMap) -> Response {
    let tag = format!("\"{}\"", document.etag);
    let known = text(headers, header::IF_NONE_MATCH) == tag;
    let mut response = if known {
        body::raw(StatusCode::NOT_MODIFIED, "application/json", Body::empty())
    } else {
        body::raw(StatusCode::OK, "application/json", Body::from(document.body))
    };
    let cache = if document.immutable { "public, immutable" } else { "no-cache, private" };
    response.headers_mut().insert(header::CACHE_CONTROL, HeaderValue::from_static(cache));
    if let Ok(tag) = tag.parse() {
        response.headers_mut().insert(header::ETAG, tag);
    }
    response
}

async fn resource(
    server: &Arc<Server>,
    parts: &Parts,
    body: Body,
    user: &User,
    target: &Target,
    options: &Options,
    seen: &mut Seen,
) -> Result<Response, ApiError> {
    if let Some(kind) = ReviewKind::find(&target.group, &target.plural) {
        return review(server, parts, body, user, target, kind).await;
    }
    let resource = server
        .catalog
        .listing()
        .find(&target.group, &target.version, &target.plural)
        .ok_or_else(ApiError::no_such_path)?;
    seen.resource = crate::error::qualified(&resource.group, &resource.plural);
    if target.namespace.is_some() && !resource.namespaced {
        return Err(ApiError::no_such_path());
    }
    if resource.namespaced && target.namespace.is_none() {
        if target.name.is_some() {
            return Err(ApiError::no_such_path());
        }
        if matches!(parts.method, Method::POST | Method::DELETE) {
            return Err(ApiError::method_not_allowed());
        }
    }
    options.check(&parts.method, text(&parts.headers, header::CONTENT_TYPE))?;
    let form = table::form(text(&parts.headers, header::ACCEPT)).ok_or_else(ApiError::not_acceptable)?;
    if matches!(form, Form::Table(_)) && IncludeObject::parse(&options.include_object).is_none() {
        return Err(ApiError::bad_request(format!(
            "Unable to convert to Table as requested: includeObject: Invalid value: {:?}: must be 'Metadata', 'Object', 'None', or empty",
            options.include_object
        )));
    }
    let mut call = Call {
        server,
        resource: &resource,
        resource_arc: resource.clone(),
        target,
        options,
        headers: &parts.headers,
        extensions: &parts.extensions,
        namespace: target.namespace.clone(),
        user,
        now: timestamp(jiff::Timestamp::now()),
        form,
        warnings: resource.deprecation_warning.iter().cloned().collect(),
        duplicates: Vec::new(),
        pins_revision: parts.method == Method::PUT,
        is_patch: parts.method == Method::PATCH,
    };
    // Who is refused is warned, too.
    let answered = dispatch(&mut call, &parts.method, body).await;
    let mut response = answered.unwrap_or_else(IntoResponse::into_response);
    body::warn(&mut response, &call.warnings);
    Ok(response)
}

async fn dispatch(call: &mut Call<'_>, method: &Method, body: Body) -> Result<Response, ApiError> {
    let target = call.target;
    let is_read = matches!(*method, Method::GET | Method::HEAD);
    if is_read && call.options.watch && target.name.is_none() {
        return watch::watch(call);
    }
    match (&target.name, target.subresource.as_deref()) {
        (None, _) if is_read => read::list(call),
        (None, _) if *method == Method::DELETE && call.resource.can_be_emptied() => {
            let options = delete_options(call, body).await?;
            delete::delete_collection(call, &options).await
        }
        (None, _) if *method == Method::POST => {
            let bytes = body::read(body).await?;
            let value = call.decode(&bytes)?;
            let created = write::create(call, value, Ownership::Track).await?;
            Ok(created.show(call, StatusCode::CREATED))
        }
        (None, _) => Err(ApiError::method_not_allowed()),
        (Some(name), None) if *method == Method::DELETE => {
            let options = delete_options(call, body).await?;
            delete::delete(call, name, &options).await
        }
        (Some(name), None) => object(call, name, Part::Main, method, body).await,
        (Some(name), Some("status")) if call.resource.subresources.status => {
            object(call, name, Part::Status, method, body).await
        }
        (Some(name), Some("scale")) if matches!(*method, Method::GET | Method::PUT | Method::PATCH) => {
            let bytes = body::read(body).await?;
            scale::scale(call, name, method, bytes).await
        }
        (Some(name), Some(subresource))
            if call.resource.subresources.others.iter().any(|s| s == subresource) =>
        {
            other_subresource(call, name, subresource, method, body).await
        }
        (Some(_), Some(subresource)) => {
            Err(pods::stream_refusal(&call.resource.plural, subresource)
                .unwrap_or_else(ApiError::no_such_path))
        }
    }
}

async fn object(
    call: &mut Call<'_>,
    name: &str,
    part: Part,
    method: &Method,
    body: Body,
) -> Result<Response, ApiError> {
    match *method {
        Method::GET | Method::HEAD => read::get(call, name),
        Method::PUT => {
            let bytes = body::read(body).await?;
            let value = call.decode(&bytes)?;
            write::require_name(name, &value)?;
            let written = write::update(call, name, part, Ownership::Track, |call, _| {
                write::require_revision(call, &value)?;
                Ok(value.clone())
            })
            .await?;
            Ok(written.show(call, StatusCode::OK))
        }
        Method::PATCH => {
            let bytes = body::read(body).await?;
            patch::patch(call, name, part, bytes).await
        }
        _ => Err(ApiError::method_not_allowed()),
    }
}

async fn other_subresource(
    call: &mut Call<'_>,
    name: &str,
    subresource: &str,
    method: &Method,
    body: Body,
) -> Result<Response, ApiError> {
    match (call.resource.plural.as_str(), subresource, method) {
        ("pods", "log", &Method::GET) => pods::log(call, name).await,
        ("pods", port_forward::PORT_FORWARD, &Method::GET | &Method::POST) => {
            port_forward::port_forward(call, name)
        }
        ("pods", pods::BINDING, &Method::POST) => {
            let bytes = body::read(body).await?;
            let binding = call.decode(&bytes)?;
            pods::bind(call, name, binding).await
        }
        (_, logs::LOG, &Method::GET) => logs::log(call, name).await,
        ("namespaces", "finalize", &Method::PUT) => object(call, name, Part::Main, method, body).await,
        ("serviceaccounts", "token", &Method::POST) => {
            let bytes = body::read(body).await?;
            let request = call.decode(&bytes)?;
            let asked = Some(Cow::Borrowed(&request));
            call.check_policies(Act::Create, Some(Other::TOKEN_REQUEST), name, asked, None)?;
            let namespace = call.namespace.clone().unwrap_or_default();
            let answer = call.server.access.request_token(&namespace, name, request)?;
            Ok(body::respond(StatusCode::CREATED, &answer, call.headers, call.options.pretty))
        }
        _ => Err(ApiError::method_not_allowed()),
    }
}

async fn delete_options(call: &mut Call<'_>, body: Body) -> Result<Value, ApiError> {
    let bytes = body::read(body).await?;
    if bytes.is_empty() { Ok(Value::Null) } else { call.decode(&bytes) }
}

async fn review(
    server: &Arc<Server>,
    parts: &Parts,
    body: Body,
    user: &User,
    target: &Target,
    kind: ReviewKind,
) -> Result<Response, ApiError> {
    if parts.method != Method::POST || target.name.is_some() {
        return Err(ApiError::method_not_allowed());
    }
    let bytes = body::read(body).await?;
    let request = body::decode(&bytes, text(&parts.headers, header::CONTENT_TYPE))?.value;
    let answer = server.access.review(user, kind, target.namespace.as_deref(), request)?;
    Ok(body::respond(StatusCode::CREATED, &answer, &parts.headers, false))
}
