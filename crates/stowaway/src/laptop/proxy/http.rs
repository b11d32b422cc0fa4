//! HTTP as a proxy speaks it: CONNECT for anything, and requests with a whole address for plain HTTP.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use bytes::Bytes;
use http::header::{
    CONNECTION, HOST, HeaderName, PROXY_AUTHENTICATE, PROXY_AUTHORIZATION, TE, TRAILER, TRANSFER_ENCODING,
    UPGRADE,
};
use http::{HeaderMap, HeaderValue, Method, Request, Response, StatusCode, Uri};
use http_body_util::combinators::BoxBody;
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::client::conn::http1 as client;
use hyper::server::conn::http1 as server;
use hyper::service::service_fn;
use hyper::upgrade::{OnUpgrade, Upgraded};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::io::AsyncWriteExt as _;
use tokio::net::TcpStream;

use super::WayOut;
use crate::join::join;
use crate::place::Place;

/// How long a client has for the head of a request.
const HEAD: Duration = Duration::from_secs(30);

type Body = BoxBody<Bytes, hyper::Error>;

/// Serves one client.
pub(super) async fn serve(socket: TcpStream, way_out: Arc<WayOut>) -> io::Result<()> {
    let service = service_fn(move |request| {
        let way_out = way_out.clone();
        async move { Ok::<_, std::convert::Infallible>(answer(request, &way_out).await) }
    });
    let serving = server::Builder::new()
        .preserve_header_case(true)
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD)
        .serve_connection(TokioIo::new(socket), service);
    serving.with_upgrades().await.map_err(io::Error::other)
}

async fn answer(request: Request<Incoming>, way_out: &WayOut) -> Response<Body> {
    let given = request.headers().get(PROXY_AUTHORIZATION).and_then(password);
    if !way_out.admits(given.as_deref()) {
        let mut refused = say(StatusCode::PROXY_AUTHENTICATION_REQUIRED, "the proxy asks for its password\n");
        refused
            .headers_mut()
            .insert(PROXY_AUTHENTICATE, HeaderValue::from_static("Basic realm=\"causeway\""));
        return refused;
    }
    let result = if request.method() == Method::CONNECT {
        tunnel(request, way_out).await
    } else {
        forward(request, way_out).await
    };
    result.unwrap_or_else(|error| {
        tracing::debug!(%error, "the proxy can't serve a request");
        let status = match error.kind() {
            io::ErrorKind::InvalidInput => StatusCode::BAD_REQUEST,
            io::ErrorKind::PermissionDenied => StatusCode::FORBIDDEN,
            io::ErrorKind::TimedOut => StatusCode::GATEWAY_TIMEOUT,
            io::ErrorKind::NotConnected => StatusCode::SERVICE_UNAVAILABLE,
            _ => StatusCode::BAD_GATEWAY,
        };
        say(status, &format!("{error}\n"))
    })
}

/// The password of `Basic` credentials.
fn password(value: &HeaderValue) -> Option<Vec<u8>> {
    let (scheme, encoded) = value.to_str().ok()?.split_once(' ')?;
    let decoded =
        BASE64_STANDARD.decode(encoded.trim()).ok().filter(|_| scheme.eq_ignore_ascii_case("basic"))?;
    let colon = decoded.iter().position(|byte| *byte == b':')?;
    Some(decoded[colon + 1..].to_vec())
}

/// CONNECT: bytes both ways, whatever they are.
async fn tunnel(request: Request<Incoming>, way_out: &WayOut) -> io::Result<Response<Body>> {
    let mut stream = way_out.laptop.connect(&place(request.uri(), None)?).await?;
    tokio::spawn(async move {
        let Ok(upgraded) = hyper::upgrade::on(request).await else { return };
        // What came with the head goes first.
        let (socket, early) = match upgraded.downcast::<TokioIo<TcpStream>>() {
            Ok(parts) => (parts.io.into_inner(), parts.read_buf),
            Err(upgraded) => {
                let _ = join(&mut TokioIo::new(upgraded), &mut stream).await;
                return;
            }
        };
        if stream.write_all(&early).await.is_ok() {
            stream.relay(socket).await;
        }
    });
    Ok(Response::new(empty()))
}

/// A request with a whole address: the same request, as its server wants it.
async fn forward(mut request: Request<Incoming>, way_out: &WayOut) -> io::Result<Response<Body>> {
    let uri = request.uri();
    if uri.scheme_str() != Some("http") {
        return Err(bad("this is a proxy: ask it for http://HOST/PATH, or by CONNECT"));
    }
    let authority = uri.authority().ok_or_else(|| bad("the request names no host"))?.as_str();
    // Whoever is named before it is nobody's business.
    let host = authority.rsplit_once('@').map_or(authority, |(_, host)| host).to_owned();
    let stream = way_out.laptop.connect(&place(uri, Some(80))?).await?;
    let path = uri.path_and_query().map_or("/", |path| path.as_str()).to_owned();
    *request.uri_mut() = path.parse().map_err(|_| bad("the request names no path"))?;
    let upgrade = strip(request.headers_mut());
    request.headers_mut().insert(HOST, host.parse().map_err(|_| bad("the request names no host"))?);
    let client_side = upgrade.is_some().then(|| hyper::upgrade::on(&mut request));
    restore(request.headers_mut(), upgrade);
    let (mut sender, connection) = client::Builder::new()
        .preserve_header_case(true)
        .handshake(TokioIo::new(stream))
        .await
        .map_err(broken)?;
    tokio::spawn(connection.with_upgrades());
    let mut response = sender.send_request(request).await.map_err(broken)?;
    let upgrade = strip(response.headers_mut());
    if response.status() == StatusCode::SWITCHING_PROTOCOLS
        && let Some(client_side) = client_side
    {
        tokio::spawn(join_upgraded(client_side, hyper::upgrade::on(&mut response)));
        restore(response.headers_mut(), upgrade);
    }
    Ok(response.map(BodyExt::boxed))
}

async fn join_upgraded(client: OnUpgrade, server: OnUpgrade) {
    if let (Ok(client), Ok(server)) = tokio::join!(client, server) {
        let io = |upgraded: Upgraded| TokioIo::new(upgraded);
        // Each side sees the other's end.
        let _ = join(&mut io(client), &mut io(server)).await;
    }
}

/// Takes away what is between two neighbours only; gives what they want to speak instead, if they do.
fn strip(headers: &mut HeaderMap) -> Option<HeaderValue> {
    let named: Vec<HeaderName> = headers
        .get_all(CONNECTION)
        .iter()
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(','))
        .filter_map(|name| name.trim().parse().ok())
        .collect();
    let upgrade = headers.remove(UPGRADE).filter(|_| named.contains(&UPGRADE));
    let between = [
        CONNECTION,
        HeaderName::from_static("keep-alive"),
        HeaderName::from_static("proxy-connection"),
        PROXY_AUTHORIZATION,
        PROXY_AUTHENTICATE,
        TE,
        TRAILER,
    ];
    // How long a body is the library says again.
    for name in named.into_iter().chain(between).filter(|name| *name != TRANSFER_ENCODING) {
        headers.remove(name);
    }
    upgrade
}

/// Says again what two neighbours want to speak instead.
fn restore(headers: &mut HeaderMap, upgrade: Option<HeaderValue>) {
    if let Some(upgrade) = upgrade {
        headers.insert(UPGRADE, upgrade);
        headers.insert(CONNECTION, HeaderValue::from_static("upgrade"));
    }
}

fn place(uri: &Uri, default_port: Option<u16>) -> io::Result<Place> {
    let host = uri.host().ok_or_else(|| bad("the request names no host"))?;
    let port = uri.port_u16().or(default_port).ok_or_else(|| bad("the request names no port"))?;
    Place::new(host, port).map_err(|error| bad(&error.to_string()))
}

fn bad(text: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, text)
}

fn broken(error: hyper::Error) -> io::Error {
    io::Error::new(io::ErrorKind::ConnectionReset, error)
}

fn say(status: StatusCode, text: &str) -> Response<Body> {
    let body = Full::new(Bytes::copy_from_slice(text.as_bytes())).map_err(|never| match never {}).boxed();
    let mut response = Response::new(body);
    *response.status_mut() = status;
    response
}

fn empty() -> Body {
    http_body_util::Empty::new().map_err(|never| match never {}).boxed()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_between_neighbours_stays_there() {
        let mut headers = HeaderMap::new();
        for (name, value) in [
            ("connection", "keep-alive, X-Own"),
            ("x-own", "1"),
            ("proxy-authorization", "Basic eDp5"),
            ("upgrade", "websocket"),
            ("te", "trailers"),
            ("accept", "*/*"),
            ("transfer-encoding", "chunked"),
        ] {
            headers.insert(HeaderName::from_static(name), HeaderValue::from_static(value));
        }
        assert_eq!(strip(&mut headers), None, "an upgrade that nobody asked for");
        let mut left: Vec<_> = headers.keys().map(HeaderName::as_str).collect();
        left.sort_unstable();
        assert_eq!(left, ["accept", "transfer-encoding"]);
        let mut headers = HeaderMap::new();
        headers.insert(CONNECTION, HeaderValue::from_static("Upgrade"));
        headers.insert(UPGRADE, HeaderValue::from_static("websocket"));
        let upgrade = strip(&mut headers);
        assert!(headers.is_empty());
        restore(&mut headers, upgrade);
        assert_eq!(
            (&headers[UPGRADE], &headers[CONNECTION]),
            (&"websocket".parse().unwrap(), &"upgrade".parse().unwrap())
        );
    }

    #[test]
    fn a_password_is_what_stands_behind_the_colon() {
        let value = |text: &str| HeaderValue::from_str(text).unwrap();
        assert_eq!(password(&value("Basic eDp5Og==")).as_deref(), Some(&b"y:"[..]));
        assert_eq!(password(&value("basic eDo=")).as_deref(), Some(&b""[..]));
        for bad in ["Basic", "Basic !", "Basic eA==", "Bearer eDp5Og=="] {
            assert_eq!(password(&value(bad)), None, "{bad}");
        }
    }
}
