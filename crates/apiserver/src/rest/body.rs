//! Bodies in and out: JSON, YAML or protobuf to a tree, with the duplicate fields that strict validation reports, and the
//! response forms a client may accept.

use std::fmt;

use axum::body::Body;
use axum::response::Response;
use http::{HeaderMap, HeaderValue, StatusCode, header};
use http_body_util::BodyExt;
use serde::de::{DeserializeSeed, Deserializer, Error as _, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Number, Value};

use crate::error::{ApiError, Reason};
use crate::wire;

/// The size Kubernetes accepts for one request.
const LIMIT: usize = 3 << 20;

/// A decoded body and the fields that occurred twice in it.
#[derive(Debug)]
pub(super) struct Decoded {
    pub value: Value,
    pub duplicates: Vec<String>,
}

/// Reads a request's body, up to the limit.
pub(super) async fn read(body: Body) -> Result<bytes::Bytes, ApiError> {
    match http_body_util::Limited::new(body, LIMIT).collect().await {
        Ok(collected) => Ok(collected.to_bytes()),
        Err(error) if error.is::<http_body_util::LengthLimitError>() => Err(ApiError::new(
            413,
            Reason::RequestEntityTooLarge,
            format!("Request entity too large: limit is {LIMIT}"),
        )),
        Err(error) => Err(ApiError::bad_request(format!("unable to read the request's body: {error}"))),
    }
}

/// Decodes by content type; a body without one is JSON.
pub(super) fn decode(bytes: &[u8], content_type: &str) -> Result<Decoded, ApiError> {
    let media = content_type.split(';').next().unwrap_or_default().trim();
    match media {
        "" | "application/json" | "*/*" => decode_json(bytes),
        _ if media.ends_with("+json") => decode_json(bytes),
        "application/yaml" | "text/yaml" | "application/x-yaml" | "application/apply-patch+yaml" => {
            decode_yaml(bytes)
        }
        wire::MEDIA_TYPE => Ok(Decoded { value: wire::decode(bytes)?, duplicates: Vec::new() }),
        _ => Err(ApiError::unsupported_media_type(
            "the body of the request was in an unknown format - accepted media types include: application/json, application/yaml, application/vnd.kubernetes.protobuf",
        )),
    }
}

fn decode_json(bytes: &[u8]) -> Result<Decoded, ApiError> {
    let mut duplicates = Vec::new();
    let mut deserializer = serde_json::Deserializer::from_slice(bytes);
    let value = Tree { path: String::new(), duplicates: &mut duplicates }
        .deserialize(&mut deserializer)
        .and_then(|value| deserializer.end().map(|()| value))
        .map_err(|e| {
            ApiError::bad_request(format!("the object provided is unrecognized (must be JSON or YAML): {e}"))
        })?;
    Ok(Decoded { value, duplicates })
}

fn decode_yaml(bytes: &[u8]) -> Result<Decoded, ApiError> {
    // kubectl sends apply bodies as JSON under a YAML content type: JSON is YAML, and far cheaper to read as such.
    if bytes.first() == Some(&b'{')
        && let Ok(decoded) = decode_json(bytes)
    {
        return Ok(decoded);
    }
    let text = std::str::from_utf8(bytes).map_err(|_| ApiError::bad_request("the body is not UTF-8"))?;
    let value = serde_saphyr::from_str(text)
        .map_err(|e| ApiError::bad_request(format!("error converting YAML to JSON: {e}")))?;
    Ok(Decoded { value, duplicates: Vec::new() })
}

/// Builds a tree and notes keys that occur twice in one object; the last one wins, as in Kubernetes.
struct Tree<'a> {
    path: String,
    duplicates: &'a mut Vec<String>,
}

impl<'de> DeserializeSeed<'de> for Tree<'_> {
    type Value = Value;
    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Tree<'_> {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON value")
    }
    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }
    fn visit_bool<E>(self, v: bool) -> Result<Value, E> {
        Ok(Value::Bool(v))
    }
    fn visit_i64<E>(self, v: i64) -> Result<Value, E> {
        Ok(Value::Number(v.into()))
    }
    fn visit_u64<E>(self, v: u64) -> Result<Value, E> {
        Ok(Value::Number(v.into()))
    }
    fn visit_f64<E: serde::de::Error>(self, v: f64) -> Result<Value, E> {
        Number::from_f64(v).map(Value::Number).ok_or_else(|| E::custom("a number out of range"))
    }
    fn visit_str<E>(self, v: &str) -> Result<Value, E> {
        Ok(Value::String(v.to_owned()))
    }
    fn visit_string<E>(self, v: String) -> Result<Value, E> {
        Ok(Value::String(v))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Value, A::Error> {
        let mut items = Vec::new();
        loop {
            let path = format!("{}[{}]", self.path, items.len());
            match seq.next_element_seed(Tree { path, duplicates: self.duplicates })? {
                Some(item) => items.push(item),
                None => return Ok(Value::Array(items)),
            }
        }
    }

    fn visit_map<A: MapAccess<'de>>(self, mut access: A) -> Result<Value, A::Error> {
        let mut map = Map::new();
        while let Some(key) = access.next_key::<String>()? {
            let path = if self.path.is_empty() { key.clone() } else { format!("{}.{key}", self.path) };
            let seed = Tree { path, duplicates: self.duplicates };
            let value = access.next_value_seed(seed).map_err(|e| A::Error::custom(format!("{key}: {e}")))?;
            if map.insert(key.clone(), value).is_some() {
                let path = if self.path.is_empty() { key } else { format!("{}.{key}", self.path) };
                self.duplicates.push(path);
            }
        }
        Ok(Value::Object(map))
    }
}

/// A JSON response, or YAML where the client prefers it.
pub(super) fn respond(code: StatusCode, value: &Value, headers: &HeaderMap, pretty: bool) -> Response {
    let accept = headers.get(header::ACCEPT).and_then(|v| v.to_str().ok()).unwrap_or_default();
    let first = accept.split([',', ';']).next().unwrap_or_default().trim();
    let (media, text) = if first == "application/yaml" {
        ("application/yaml", serde_saphyr::to_string(value).unwrap_or_default())
    } else if pretty {
        ("application/json", serde_json::to_string_pretty(value).unwrap_or_default())
    } else {
        ("application/json", value.to_string())
    };
    raw(code, media, Body::from(text))
}

/// A response with a body that is ready to send.
pub(super) fn raw(code: StatusCode, media: &'static str, body: Body) -> Response {
    let mut response = Response::new(body);
    *response.status_mut() = code;
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static(media));
    response
}

/// Adds `Warning` headers in the form clients print.
pub(super) fn warn(response: &mut Response, warnings: &[String]) {
    for warning in warnings {
        let text: String = warning.chars().filter(|c| !c.is_control()).collect();
        let quoted = text.replace('\\', "\\\\").replace('"', "\\\"");
        if let Ok(value) = HeaderValue::from_str(&format!("299 - \"{quoted}\"")) {
            response.headers_mut().append("warning", value);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn duplicate_fields_are_noted_and_the_last_wins() {
        let decoded = decode(br#"{"a":{"b":1,"b":2},"l":[{"x":1,"x":2}]}"#, "application/json").unwrap();
        assert_eq!(decoded.duplicates, ["a.b", "l[0].x"]);
        assert_eq!(decoded.value["a"]["b"], 2);
    }

    #[test]
    fn yaml_and_json_agree() {
        let yaml = decode(b"a:\n  b: 1\n  c: [x, true]\n", "application/yaml").unwrap();
        let json = decode(br#"{"a":{"b":1,"c":["x",true]}}"#, "application/apply-patch+yaml").unwrap();
        assert_eq!(yaml.value, json.value);
    }

    #[test]
    fn rubbish_is_a_bad_request_and_cbor_an_unsupported_type() {
        assert_eq!(decode(b"{", "application/json").unwrap_err().code, 400);
        assert_eq!(decode(b"{} x", "").unwrap_err().code, 400);
        assert_eq!(decode(b"a: [", "application/yaml").unwrap_err().code, 400);
        assert_eq!(decode(b"k8s\0", "application/vnd.kubernetes.protobuf").unwrap_err().code, 400);
        assert_eq!(decode(b"\xa0", "application/cbor").unwrap_err().code, 415);
    }
}
