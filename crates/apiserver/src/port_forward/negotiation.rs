//! Which protocol a client and this server speak, from the headers of a request.

use http::header::{
    CONNECTION, HeaderMap, HeaderName, HeaderValue, SEC_WEBSOCKET_ACCEPT, SEC_WEBSOCKET_KEY,
    SEC_WEBSOCKET_PROTOCOL, SEC_WEBSOCKET_VERSION, UPGRADE,
};

use super::{Wire, websocket};
use crate::error::{ApiError, Reason};

const SPDY: &str = "SPDY/3.1";
const PORT_FORWARD: &str = "portforward.k8s.io";
const TUNNEL: &str = "SPDY/3.1+portforward.k8s.io";
const CHANNELS: &str = "v4.channel.k8s.io";
static STREAM_PROTOCOL: HeaderName = HeaderName::from_static("x-stream-protocol-version");
/// A channel's number is a byte, and a port has two channels.
const MOST_PORTS: usize = 128;

/// What is spoken.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Form {
    /// Channels in a WebSocket, by the name under which the client asked for them, if it did.
    Channels {
        ports: Vec<u16>,
        name: Option<&'static str>,
    },
    /// SPDY in a WebSocket.
    Tunnel,
    Spdy,
}

impl Form {
    pub(super) fn wire(&self) -> Wire {
        match self {
            Self::Spdy => Wire::Plain,
            Self::Channels { .. } | Self::Tunnel => Wire::WebSocket,
        }
    }
}

/// What is spoken, and the headers of the answer that says so; `ports` are the values of the option of that name.
///
/// # Errors
/// When the request asks for nothing that there is, in Kubernetes' words.
pub(crate) fn negotiate<'a>(
    headers: &HeaderMap,
    ports: impl Iterator<Item = &'a str>,
) -> Result<(Form, HeaderMap), ApiError> {
    let wanted = words(headers, &UPGRADE);
    let is_upgrade = words(headers, &CONNECTION).iter().any(|word| word.eq_ignore_ascii_case("upgrade"));
    let asks_for =
        |protocol: &str| is_upgrade && wanted.iter().any(|word| word.eq_ignore_ascii_case(protocol));
    let mut answer = HeaderMap::new();
    answer.insert(CONNECTION, HeaderValue::from_static("Upgrade"));
    if asks_for("websocket") {
        let form = websocket_form(headers, ports)?;
        answer.insert(UPGRADE, HeaderValue::from_static("websocket"));
        answer.insert(SEC_WEBSOCKET_ACCEPT, accept(headers)?);
        let name = match &form {
            Form::Channels { name, .. } => *name,
            Form::Tunnel | Form::Spdy => Some(TUNNEL),
        };
        if let Some(name) = name {
            answer.insert(SEC_WEBSOCKET_PROTOCOL, HeaderValue::from_static(name));
        }
        return Ok((form, answer));
    }
    if asks_for(SPDY) {
        let offered = words(headers, &STREAM_PROTOCOL);
        if offered.is_empty() {
            let message = "unable to upgrade: header X-Stream-Protocol-Version does not exist in request";
            return Err(ApiError::bad_request(message));
        }
        if !offered.contains(&PORT_FORWARD) {
            return Err(not_offered(&offered, &[PORT_FORWARD]));
        }
        answer.insert(UPGRADE, HeaderValue::from_static(SPDY));
        answer.insert(&STREAM_PROTOCOL, HeaderValue::from_static(PORT_FORWARD));
        return Ok((Form::Spdy, answer));
    }
    Err(ApiError::bad_request("Upgrade request required"))
}

fn websocket_form<'a>(headers: &HeaderMap, ports: impl Iterator<Item = &'a str>) -> Result<Form, ApiError> {
    let offered = words(headers, &SEC_WEBSOCKET_PROTOCOL);
    if offered.contains(&TUNNEL) {
        return Ok(Form::Tunnel);
    }
    let known = |offered: &&str| [CHANNELS, PORT_FORWARD].into_iter().find(|name| name == offered);
    let name = offered.iter().find_map(known);
    if name.is_none() && !offered.is_empty() {
        return Err(not_offered(&offered, &[CHANNELS, TUNNEL]));
    }
    Ok(Form::Channels { ports: parse_ports(ports)?, name })
}

fn not_offered(client: &[&str], server: &[&str]) -> ApiError {
    let message = format!(
        "unable to upgrade: unable to negotiate protocol: client supports {client:?}, server accepts {server:?}"
    );
    ApiError::new(403, Reason::Forbidden, message)
}

fn accept(headers: &HeaderMap) -> Result<HeaderValue, ApiError> {
    if words(headers, &SEC_WEBSOCKET_VERSION) != ["13"] {
        return Err(ApiError::bad_request("unable to upgrade: Sec-WebSocket-Version: write 13"));
    }
    let missing = || ApiError::bad_request("unable to upgrade: Sec-WebSocket-Key is missing");
    let key = headers.get(SEC_WEBSOCKET_KEY).and_then(|key| key.to_str().ok()).ok_or_else(missing)?;
    HeaderValue::from_str(&websocket::accept_key(key)).map_err(|_| missing())
}

fn parse_ports<'a>(values: impl Iterator<Item = &'a str>) -> Result<Vec<u16>, ApiError> {
    let mut ports = Vec::new();
    for value in values {
        for text in value.split(',') {
            let port = text.parse().ok().filter(|port| *port > 0).ok_or_else(|| {
                ApiError::bad_request(format!("unable to parse {text:?} as a port: write 1 to 65535"))
            })?;
            ports.push(port);
        }
    }
    match ports.len() {
        0 => Err(ApiError::bad_request("query parameter \"ports\" is required")),
        1..=MOST_PORTS => Ok(ports),
        _ => Err(ApiError::bad_request(format!("at most {MOST_PORTS} ports fit into one request"))),
    }
}

/// The words of a header that holds a list.
fn words<'a>(headers: &'a HeaderMap, name: &HeaderName) -> Vec<&'a str> {
    let values = headers.get_all(name).into_iter().filter_map(|value| value.to_str().ok());
    values.flat_map(|value| value.split(',')).map(str::trim).filter(|word| !word.is_empty()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(list: &[(&'static str, &'static str)]) -> HeaderMap {
        let mut headers = HeaderMap::new();
        for (name, value) in list {
            headers.append(*name, HeaderValue::from_static(value));
        }
        headers
    }

    fn ask(list: &[(&'static str, &'static str)], ports: &[&str]) -> Result<(Form, HeaderMap), u16> {
        negotiate(&headers(list), ports.iter().copied()).map_err(|error| error.code)
    }

    const WEBSOCKET: [(&str, &str); 4] = [
        ("connection", "keep-alive, Upgrade"),
        ("upgrade", "WebSocket"),
        ("sec-websocket-version", "13"),
        ("sec-websocket-key", "dGhlIHNhbXBsZSBub25jZQ=="),
    ];

    fn with(name: &'static str, value: &'static str) -> Vec<(&'static str, &'static str)> {
        WEBSOCKET.into_iter().chain([(name, value)]).collect()
    }

    #[test]
    fn each_client_gets_what_it_speaks() {
        let kube = with("sec-websocket-protocol", "v5.channel.k8s.io, v4.channel.k8s.io");
        let (form, answer) = ask(&kube, &["80,443", "8080"]).unwrap();
        assert_eq!(form, Form::Channels { ports: vec![80, 443, 8080], name: Some(CHANNELS) });
        assert_eq!(answer["sec-websocket-protocol"], CHANNELS);
        assert_eq!(answer["sec-websocket-accept"], "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=");

        let (form, answer) = ask(&WEBSOCKET, &["80"]).unwrap();
        assert_eq!(form, Form::Channels { ports: vec![80], name: None });
        assert!(!answer.contains_key("sec-websocket-protocol"));

        let kubectl = with("sec-websocket-protocol", "SPDY/3.1+portforward.k8s.io");
        let (form, answer) = ask(&kubectl, &[]).unwrap();
        assert_eq!(
            (form, &answer["sec-websocket-protocol"]),
            (Form::Tunnel, &HeaderValue::from_static(TUNNEL))
        );

        let old =
            [("connection", "Upgrade"), ("upgrade", "SPDY/3.1"), ("x-stream-protocol-version", PORT_FORWARD)];
        let (form, answer) = ask(&old, &[]).unwrap();
        assert_eq!((form, &answer["upgrade"]), (Form::Spdy, &HeaderValue::from_static(SPDY)));
        assert_eq!(answer["x-stream-protocol-version"], PORT_FORWARD);
    }

    #[test]
    fn what_is_not_there_is_refused() {
        assert_eq!(ask(&[], &["80"]), Err(400));
        assert_eq!(ask(&[("upgrade", "websocket")], &["80"]), Err(400));
        assert_eq!(ask(&WEBSOCKET, &[]), Err(400));
        assert_eq!(ask(&WEBSOCKET[..3], &["80"]), Err(400));
        for port in ["0", "65536", "", "http", "80,"] {
            assert_eq!(ask(&WEBSOCKET, &[port]), Err(400), "{port:?}");
        }
        assert_eq!(ask(&WEBSOCKET, &["1"; 129]), Err(400));
        assert_eq!(ask(&with("sec-websocket-protocol", "v9.channel.k8s.io"), &["80"]), Err(403));
        let spdy = [("connection", "upgrade"), ("upgrade", "spdy/3.1")];
        assert_eq!(ask(&spdy, &[]), Err(400));
        assert_eq!(ask(&[&spdy[..], &[("x-stream-protocol-version", "v4.k8s.io")]].concat(), &[]), Err(403));
    }
}
