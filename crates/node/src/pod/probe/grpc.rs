//! The gRPC health check, `grpc.health.v1.Health/Check`: one unary call, small enough to be written by hand.

use bytes::{BufMut, Bytes, BytesMut};
use causeway_base::varint;
use http::{Request, Uri, header};
use http_body_util::{BodyExt, Full, Limited};
use hyper::client::conn::http2;
use hyper_util::rt::{TokioExecutor, TokioIo};
use tokio::net::TcpStream;

const MAX_ANSWER: usize = 64 * 1024;
const SERVING: u64 = 1;

/// Asks a server whether `service` is serving.
pub(super) async fn check(host: &str, port: u16, service: &str) -> Result<(), String> {
    let address = if host.contains(':') { format!("[{host}]:{port}") } else { format!("{host}:{port}") };
    let failed = |error: &dyn std::fmt::Display| format!("failed to connect service {address:?}: {error}");
    let stream = TcpStream::connect((host, port)).await.map_err(|error| failed(&error))?;
    let (mut sender, connection) =
        http2::handshake(TokioExecutor::new(), TokioIo::new(stream)).await.map_err(|error| failed(&error))?;
    let uri: Uri =
        format!("http://{address}/grpc.health.v1.Health/Check").parse().map_err(|error| failed(&error))?;
    let request = Request::post(uri)
        .header(header::CONTENT_TYPE, "application/grpc")
        .header(header::TE, "trailers")
        .header(header::USER_AGENT, "kube-probe/1.34")
        .body(Full::new(encode(service)))
        .map_err(|error| failed(&error))?;
    let call = async move {
        let response = sender.send_request(request).await.map_err(|error| error.to_string())?;
        let headers = response.headers().clone();
        let body = Limited::new(response.into_body(), MAX_ANSWER)
            .collect()
            .await
            .map_err(|error| error.to_string())?;
        let status =
            body.trailers().unwrap_or(&headers).get("grpc-status").or(headers.get("grpc-status")).cloned();
        Ok::<_, String>((status, body.to_bytes()))
    };
    let (status, body) = tokio::select! {
        answer = call => answer.map_err(|error| failed(&error))?,
        ended = connection => return Err(failed(&ended.err().map_or_else(|| "connection closed".to_owned(), |error| error.to_string()))),
    };
    match status.as_ref().and_then(|status| status.to_str().ok()) {
        Some("0") => {}
        Some("12") => {
            return Err(
                "this server does not implement the grpc health protocol (grpc.health.v1.Health)".to_owned()
            );
        }
        Some("5") => return Err(format!("service {service:?} is unknown to the server")),
        other => return Err(format!("rpc error: code = {}", other.unwrap_or("missing"))),
    }
    match decode(&body) {
        Some(SERVING) => Ok(()),
        other => {
            let name = match other {
                Some(2) => "NOT_SERVING",
                Some(3) => "SERVICE_UNKNOWN",
                _ => "UNKNOWN",
            };
            Err(format!("service unhealthy (responded with {name:?})"))
        }
    }
}

/// A `HealthCheckRequest` in a gRPC frame: field 1 is the service's name.
fn encode(service: &str) -> Bytes {
    let mut message = BytesMut::new();
    if !service.is_empty() {
        message.put_u8(0x0a);
        put_varint(&mut message, service.len() as u64);
        message.put_slice(service.as_bytes());
    }
    let mut frame = BytesMut::new();
    frame.put_u8(0);
    frame.put_u32(message.len() as u32);
    frame.put_slice(&message);
    frame.freeze()
}

fn put_varint(buffer: &mut BytesMut, mut value: u64) {
    while value >= 0x80 {
        buffer.put_u8((value as u8 & 0x7f) | 0x80);
        value >>= 7;
    }
    buffer.put_u8(value as u8);
}

/// The status in a `HealthCheckResponse`: field 1, 0 when left out.
fn decode(frame: &[u8]) -> Option<u64> {
    let (head, rest) = frame.split_at_checked(5)?;
    let length = u32::from_be_bytes(head.get(1..)?.try_into().ok()?) as usize;
    if head.first() != Some(&0) {
        return None;
    }
    let mut message = rest.get(..length)?;
    let mut status = 0;
    while !message.is_empty() {
        let tag = varint::take(&mut message).ok()?;
        match tag & 7 {
            0 => {
                let value = varint::take(&mut message).ok()?;
                if tag >> 3 == 1 {
                    status = value;
                }
            }
            2 => {
                let length = varint::take(&mut message).ok()? as usize;
                message = message.get(length..)?;
            }
            _ => return None,
        }
    }
    Some(status)
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use http::{HeaderMap, Response};
    use http_body_util::StreamBody;
    use hyper::{body::Frame, server::conn::http2 as server, service::service_fn};
    use tokio::net::TcpListener;

    use super::*;

    #[test]
    fn encodes_and_decodes_frames() {
        assert_eq!(encode("").as_ref(), [0, 0, 0, 0, 0]);
        assert_eq!(encode("ab").as_ref(), [0, 0, 0, 0, 4, 0x0a, 2, b'a', b'b']);
        assert_eq!(decode(&[0, 0, 0, 0, 2, 0x08, 1]), Some(1));
        assert_eq!(decode(&[0, 0, 0, 0, 0]), Some(0));
        assert_eq!(decode(&[0, 0, 0, 0, 9, 0x08]), None);
        assert_eq!(decode(&[]), None);
    }

    async fn ask(status: u8, code: &'static str) -> Result<(), String> {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let handler = tokio::spawn(async move {
            let (stream, _) = listener.accept().await.unwrap();
            let service = service_fn(move |request: Request<hyper::body::Incoming>| async move {
                assert_eq!(request.uri().path(), "/grpc.health.v1.Health/Check");
                let mut trailers = HeaderMap::new();
                trailers.insert("grpc-status", code.parse().unwrap());
                let frames =
                    [Frame::data(Bytes::from(vec![0, 0, 0, 0, 2, 0x08, status])), Frame::trailers(trailers)];
                let body = StreamBody::new(futures::stream::iter(frames.map(Ok::<_, Infallible>)));
                Ok::<_, Infallible>(Response::new(body))
            });
            let _ = server::Builder::new(TokioExecutor::new())
                .serve_connection(TokioIo::new(stream), service)
                .await;
        });
        let result = check("127.0.0.1", port, "svc").await;
        handler.abort();
        result
    }

    #[tokio::test]
    async fn only_serving_passes() {
        assert_eq!(ask(1, "0").await, Ok(()));
        assert!(ask(2, "0").await.unwrap_err().contains("NOT_SERVING"));
        assert!(ask(1, "12").await.unwrap_err().contains("does not implement"));
    }
}
