//! Requests to an authority: each with a deadline, those that only read again after a failure, and what a refusal means.

use std::pin::Pin;
use std::time::{Duration, SystemTime};

use bytes::Bytes;
use http::header::RETRY_AFTER;
use http::{Method, Request, Response, StatusCode};
use http_body_util::{BodyExt as _, Full, Limited};
use instant_acme::{BodyWrapper, BytesResponse, HttpClient, Problem};
use tokio::time::{sleep, timeout};

use super::{Settings, is, words};
use crate::Error;
use crate::http::{Http, client};

/// For one request.
const DEADLINE: Duration = Duration::from_secs(20);
/// No authority's answer is longer.
const LONGEST: usize = 1 << 20;
/// When an authority limits without saying for how long.
const PAUSE: Duration = Duration::from_mins(5);
/// Before a request that was not answered is made again.
const BACKOFF: causeway_base::Backoff =
    causeway_base::Backoff::new(Duration::from_millis(250), Duration::from_secs(2));

/// The authority wants fewer requests.
#[derive(Debug, thiserror::Error)]
#[error("{said}")]
struct Limited429 {
    retry_after: Duration,
    said: String,
}

#[derive(Clone)]
pub(super) struct Transport(Http<BodyWrapper<Bytes>>);

impl Transport {
    pub(super) fn new(settings: &Settings) -> Result<Self, Error> {
        Ok(Self(client(settings.authorities.as_deref())?))
    }

    async fn send(&self, request: Request<BodyWrapper<Bytes>>) -> Result<BytesResponse, instant_acme::Error> {
        // What has a signature has a number that is good once, so only plain reads are made again here.
        let again = [Method::GET, Method::HEAD].contains(request.method()).then(|| {
            let mut copy = Request::new(());
            (*copy.method_mut(), *copy.uri_mut()) = (request.method().clone(), request.uri().clone());
            *copy.headers_mut() = request.headers().clone();
            copy
        });
        let mut retries = BACKOFF.retries();
        let mut request = Some(request);
        loop {
            let next =
                request.take().or_else(|| again.clone().map(|copy| copy.map(|()| BodyWrapper::default())));
            let Some(next) = next else {
                return Err(instant_acme::Error::Str("a request without an answer"));
            };
            match self.attempt(next).await {
                Err(instant_acme::Error::Other(error))
                    if !error.is::<Limited429>() && again.is_some() && retries.failures() < 2 =>
                {
                    sleep(retries.next_delay()).await;
                }
                done => return done,
            }
        }
    }

    async fn attempt(
        &self,
        request: Request<BodyWrapper<Bytes>>,
    ) -> Result<BytesResponse, instant_acme::Error> {
        let other = |error: Box<dyn std::error::Error + Send + Sync>| instant_acme::Error::Other(error);
        let answered = timeout(DEADLINE, async {
            let (parts, body) = self.0.request(request).await.map_err(|e| other(e.into()))?.into_parts();
            let body = Limited::new(body, LONGEST).collect().await.map_err(other)?;
            Ok::<_, instant_acme::Error>(Response::from_parts(parts, body.to_bytes()))
        });
        let late = || format!("no answer in {} s", DEADLINE.as_secs());
        let response = answered.await.map_err(|_| other(late().into()))??;
        let limited =
            [StatusCode::TOO_MANY_REQUESTS, StatusCode::SERVICE_UNAVAILABLE].contains(&response.status());
        if limited {
            let said = serde_json::from_slice::<Problem>(response.body());
            let said = said.map_or_else(|_| response.status().to_string(), |problem| words(&problem));
            let retry_after =
                response.headers().get(RETRY_AFTER).and_then(|value| wait(value.to_str().ok()?));
            let retry_after = retry_after.unwrap_or(PAUSE);
            return Err(other(Limited429 { retry_after, said }.into()));
        }
        let refused = response.status().is_client_error() || response.status().is_server_error();
        if refused && serde_json::from_slice::<Problem>(response.body()).is_err() {
            // What stands between the authority and us answers in its own way, or with nothing.
            let status = response.status();
            let problem =
                serde_json::json!({"status": status.as_u16(), "detail": status.to_string()}).to_string();
            return Ok(BytesResponse::from(response.map(|_| Full::new(Bytes::from(problem)))));
        }
        Ok(BytesResponse::from(response.map(Full::new)))
    }
}

/// `Retry-After` in seconds or as a date.
fn wait(value: &str) -> Option<Duration> {
    if let Ok(seconds) = value.trim().parse() {
        return Some(Duration::from_secs(seconds));
    }
    let date = httpdate::parse_http_date(value.trim()).ok()?;
    Some(date.duration_since(SystemTime::now()).unwrap_or_default())
}

impl HttpClient for Transport {
    fn request(
        &self,
        request: Request<BodyWrapper<Bytes>>,
    ) -> Pin<Box<dyn Future<Output = Result<BytesResponse, instant_acme::Error>> + Send>> {
        let transport = self.clone();
        Box::pin(async move { transport.send(request).await })
    }
}

/// Whether it is about too many requests.
pub(super) fn is_limit(error: &instant_acme::Error) -> bool {
    match error {
        instant_acme::Error::Other(error) => error.is::<Limited429>(),
        instant_acme::Error::Api(problem) => is(problem, "rateLimited"),
        _ => false,
    }
}

/// What the failure of a request comes to.
pub(super) fn error(at: &str, error: instant_acme::Error) -> Error {
    match error {
        instant_acme::Error::Other(error) => match error.downcast::<Limited429>() {
            Ok(limited) => {
                Error::RateLimited { at: at.to_owned(), retry_after: limited.retry_after, said: limited.said }
            }
            Err(error) => Error::unavailable(at, error),
        },
        instant_acme::Error::Api(problem) => refusal(at, &problem),
        other => Error::unavailable(at, other),
    }
}

fn refusal(at: &str, problem: &Problem) -> Error {
    let said = words(problem);
    if is(problem, "rateLimited") {
        return Error::RateLimited { at: at.to_owned(), retry_after: PAUSE, said };
    }
    let missing = [
        ("externalAccountRequired", "an external account (its id and key)"),
        ("unauthorized", "an account that may do this, or proof of the names"),
        ("accountDoesNotExist", "the stored account: remove its Secret for a new one"),
        ("userActionRequired", "consent to new terms, at the authority's site"),
        ("caa", "a CAA record that allows this authority"),
    ];
    if let Some((_, missing)) = missing.iter().find(|(kind, _)| is(problem, kind)) {
        return Error::Denied { missing: format!("{missing} (at {at})"), said };
    }
    match problem.status {
        Some(500..) | None => Error::unavailable(at, said),
        Some(_) => {
            Error::invalid(format!("{at} refuses the order: {said}"), "change the names or the settings")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_as_long_as_it_is_told() {
        assert_eq!(wait("120"), Some(Duration::from_mins(2)));
        assert_eq!(wait("Wed, 21 Oct 2015 07:28:00 GMT"), Some(Duration::ZERO));
        assert_eq!(wait("soon"), None);
    }

    #[test]
    fn refusals_name_what_is_missing() {
        let problem = |text: &str| serde_json::from_str(text).unwrap();
        let caa = r#"{"type":"urn:ietf:params:acme:error:caa","detail":"CAA forbids","status":403}"#;
        let said = refusal("acme.test", &problem(caa)).to_string();
        assert_eq!(
            said,
            "not allowed: a CAA record that allows this authority (at acme.test) is missing (CAA forbids)"
        );
        let bad =
            r#"{"type":"urn:ietf:params:acme:error:rejectedIdentifier","detail":"policy","status":400}"#;
        assert!(matches!(refusal("acme.test", &problem(bad)), Error::Invalid { .. }));
        let limit = r#"{"type":"urn:ietf:params:acme:error:rateLimited","detail":"too many","status":429}"#;
        assert!(matches!(refusal("acme.test", &problem(limit)), Error::RateLimited { .. }));
    }
}
