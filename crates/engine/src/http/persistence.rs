//! Clients that stay with the endpoint that they had first. What they bring back tells them nothing: it names the endpoint
//! by a number that only who has the key can make, with the times of the session, and is signed.

use std::fmt::Write as _;
use std::sync::Arc;

use aws_lc_rs::hmac;
use causeway_ir::Address;
use causeway_ir::http::{CookieLifetime, Persistence as Planned, PersistenceBy, Scheme};

use super::h1::fields::Fields;
use super::route::Target;
use crate::cluster::{Endpoint, Standing};

/// Bytes of a token: the endpoint, two times, a signature.
const TOKEN: usize = 8 + 4 + 4 + 16;

/// What tokens are signed with.
pub(crate) struct Key(hmac::Key);

impl Key {
    /// Another one in each process that can't be guessed.
    ///
    /// # Panics
    /// If the system has no random numbers.
    pub(crate) fn random() -> Self {
        let mut bytes = [0; 32];
        aws_lc_rs::rand::fill(&mut bytes).expect("the system has random numbers");
        Self::new(&bytes)
    }

    pub(crate) fn new(bytes: &[u8; 32]) -> Self {
        Self(hmac::Key::new(hmac::HMAC_SHA256, bytes))
    }

    /// The number that stands for an endpoint of a cluster.
    fn number(&self, cluster: &str, address: &Address) -> [u8; 8] {
        let signed = hmac::sign(&self.0, format!("endpoint\n{cluster}\n{address}").as_bytes());
        let mut number = [0; 8];
        number.copy_from_slice(&signed.as_ref()[..8]);
        number
    }

    fn signature(&self, bytes: &[u8]) -> [u8; 16] {
        let signed = hmac::sign(&self.0, &[b"session\n", bytes].concat());
        let mut signature = [0; 16];
        signature.copy_from_slice(&signed.as_ref()[..16]);
        signature
    }
}

/// What a client brings back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Session {
    endpoint: [u8; 8],
    /// Seconds since 1970.
    began: u32,
    seen: u32,
}

impl Session {
    fn write(self, key: &Key) -> String {
        let mut bytes = self.endpoint.to_vec();
        bytes.extend(self.began.to_be_bytes());
        bytes.extend(self.seen.to_be_bytes());
        bytes.extend(key.signature(&bytes));
        let mut text = String::with_capacity(2 * TOKEN);
        for byte in bytes {
            // Writing to text does not fail.
            let _ = write!(text, "{byte:02x}");
        }
        text
    }

    /// Reads a token that was signed here.
    fn read(text: &[u8], key: &Key) -> Option<Self> {
        if text.len() != 2 * TOKEN {
            return None;
        }
        let bytes: Vec<u8> = text.chunks_exact(2).map(super::path::hex).collect::<Option<_>>()?;
        let (body, signature) = bytes.split_at(TOKEN - 16);
        aws_lc_rs::constant_time::verify_slices_are_equal(&key.signature(body), signature).ok()?;
        Some(Self {
            endpoint: body[..8].try_into().ok()?,
            began: u32::from_be_bytes(body[8..12].try_into().ok()?),
            seen: u32::from_be_bytes(body[12..].try_into().ok()?),
        })
    }
}

/// How clients of a route stay where they are.
pub(crate) struct Persistence {
    by: PersistenceBy,
    name: Box<str>,
    is_permanent: bool,
    /// Seconds.
    absolute: Option<u32>,
    idle: Option<u32>,
    key: Arc<Key>,
}

/// The endpoint of a client, and what it hears of that.
pub(crate) struct Stays {
    /// The place of the target.
    pub(crate) target: usize,
    pub(crate) endpoint: Arc<Endpoint>,
    /// Lines for the answer.
    pub(crate) lines: Vec<u8>,
}

impl Persistence {
    pub(crate) fn compile(planned: &Planned, key: &Arc<Key>) -> Self {
        let seconds =
            |period: causeway_ir::Period| u32::try_from(period.get().as_secs().max(1)).unwrap_or(u32::MAX);
        Self {
            by: planned.by,
            name: planned.name.as_str().into(),
            is_permanent: planned.lifetime == CookieLifetime::Permanent,
            absolute: planned.absolute_timeout.map(seconds),
            idle: planned.idle_timeout.map(seconds),
            key: Arc::clone(key),
        }
    }

    /// Where the client of a request stays, if it brings back what it was given and may still.
    pub(crate) fn stays(
        &self,
        targets: &[Target],
        fields: Fields<'_>,
        scheme: Scheme,
        now: u32,
    ) -> Option<Stays> {
        let session = self.session(fields, now)?;
        let (target, endpoint) = targets.iter().enumerate().find_map(|(place, target)| {
            let state = target.cluster.state();
            let usable =
                state.members.iter().filter(|m| m.standing != Standing::Down && m.endpoint.is_healthy());
            let mut of_session =
                usable.filter(|m| self.number(&target.cluster.name, &m.endpoint) == session.endpoint);
            of_session.next().map(|member| (place, Arc::clone(&member.endpoint)))
        })?;
        // The time without a request begins anew, but not with each one.
        let is_stale = self.idle.is_some_and(|idle| now.saturating_sub(session.seen) > idle / 10);
        let lines =
            if is_stale { self.lines(Session { seen: now, ..session }, scheme, now) } else { Vec::new() };
        Some(Stays { target, endpoint, lines })
    }

    /// What a client hears that will stay with an endpoint from now on.
    pub(crate) fn begin(&self, cluster: &str, endpoint: &Endpoint, scheme: Scheme, now: u32) -> Vec<u8> {
        let endpoint = self.number(cluster, endpoint);
        self.lines(Session { endpoint, began: now, seen: now }, scheme, now)
    }

    fn number(&self, cluster: &str, endpoint: &Endpoint) -> [u8; 8] {
        endpoint.session_number(|| self.key.number(cluster, &endpoint.address))
    }

    fn session(&self, fields: Fields<'_>, now: u32) -> Option<Session> {
        let brought = match self.by {
            PersistenceBy::Header => fields.get(&self.name)?.into_owned(),
            PersistenceBy::Cookie => cookie(&fields.get("cookie")?, self.name.as_bytes())?.to_vec(),
        };
        let session = Session::read(&brought, &self.key)?;
        let is_over =
            |limit: Option<u32>, since: u32| limit.is_some_and(|limit| now.saturating_sub(since) >= limit);
        (!is_over(self.absolute, session.began) && !is_over(self.idle, session.seen)).then_some(session)
    }

    fn lines(&self, session: Session, scheme: Scheme, now: u32) -> Vec<u8> {
        let token = session.write(&self.key);
        let mut line = match self.by {
            PersistenceBy::Header => format!("{}: {token}", self.name),
            PersistenceBy::Cookie => {
                format!("set-cookie: {}={token}; Path=/; HttpOnly; SameSite=Lax", self.name)
            }
        };
        if self.by == PersistenceBy::Cookie {
            if let Some(absolute) = self.absolute.filter(|_| self.is_permanent) {
                let left = absolute.saturating_sub(now.saturating_sub(session.began));
                let _ = write!(line, "; Max-Age={left}");
            }
            if scheme == Scheme::Https {
                line.push_str("; Secure");
            }
        }
        line.push_str("\r\n");
        line.into_bytes()
    }
}

/// The value of a cookie.
fn cookie<'a>(cookies: &'a [u8], name: &[u8]) -> Option<&'a [u8]> {
    cookies.split(|b| matches!(b, b';' | b',')).find_map(|pair| {
        let pair = pair.trim_ascii();
        pair.strip_prefix(name)?.strip_prefix(b"=")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_is_read_by_who_signed_it_and_by_nobody_else() {
        let (key, other) = (Key::random(), Key::random());
        let address = Address::Socket(([10, 0, 0, 1], 80).into());
        let session = Session { endpoint: key.number("c", &address), began: 100, seen: 200 };
        let token = session.write(&key);
        assert_eq!(Session::read(token.as_bytes(), &key), Some(session));
        assert_eq!(Session::read(token.as_bytes(), &other), None);
        assert_ne!(key.number("c", &address), key.number("d", &address));
        for place in 0..token.len() {
            let mut changed = token.clone().into_bytes();
            changed[place] = if changed[place] == b'0' { b'1' } else { b'0' };
            assert_eq!(Session::read(&changed, &key), None, "{place}");
        }
        assert_eq!(Session::read(b"", &key), None);
    }

    #[test]
    fn sessions_end_in_their_time() {
        let key = Arc::new(Key::random());
        let planned =
            serde_saphyr::from_str("{absoluteTimeout: 100s, idleTimeout: 10s, lifetime: permanent}").unwrap();
        let persistence = Persistence::compile(&planned, &key);
        let session = Session { endpoint: [1; 8], began: 1000, seen: 1050 };
        let token = session.write(&key);
        let head = format!("Cookie: a=b; causeway-session={token}\r\n\r\n");
        let mut index = Vec::new();
        let fields = Fields::parse(head.as_bytes(), 0, &mut index).unwrap();
        for (now, stays) in [(1050, true), (1059, true), (1060, false), (1101, false)] {
            assert_eq!(persistence.session(fields, now).is_some(), stays, "{now}");
        }
        let lines = String::from_utf8(persistence.lines(session, Scheme::Https, 1040)).unwrap();
        let end = "; Path=/; HttpOnly; SameSite=Lax; Max-Age=60; Secure\r\n";
        assert_eq!(lines, format!("set-cookie: causeway-session={token}{end}"));
    }
}
