//! How a client stays with its endpoint, in the words of a plan.

use std::hash::{DefaultHasher, Hash as _, Hasher as _};

use causeway_ir::http::{CookieLifetime, HeaderName, Persistence, PersistenceBy};

use super::{Problem, period};
use crate::gateway::kinds;

/// What a rule asks for. Its session has a name of its own unless one is written: two rules that shared one would take
/// each other's clients for strangers.
pub(super) fn persistence(
    written: Option<&kinds::SessionPersistence>,
    rule: impl FnOnce() -> String,
) -> Result<Option<Persistence>, Problem> {
    let Some(written) = written else { return Ok(None) };
    let by = match written.kind.as_deref() {
        None | Some("Cookie") => PersistenceBy::Cookie,
        Some("Header") => PersistenceBy::Header,
        Some(other) => {
            return Err(Problem::unsupported(format!(
                "sessionPersistence.type: {other} is not known here: write Cookie or Header"
            )));
        }
    };
    let name = written.session_name.clone().unwrap_or_else(|| {
        let mut hasher = DefaultHasher::new();
        rule().hash(&mut hasher);
        format!("causeway-session-{:08x}", hasher.finish() as u32)
    });
    let name = HeaderName::parse(&name)
        .map_err(|why| Problem::unsupported(format!("sessionPersistence.sessionName: {why}")))?;
    let absolute_timeout = period("sessionPersistence.absoluteTimeout", written.absolute_timeout.as_deref())?;
    let idle_timeout = period("sessionPersistence.idleTimeout", written.idle_timeout.as_deref())?;
    let lifetime = written.cookie_config.as_ref().and_then(|config| config.lifetime_type.as_deref());
    let path = "sessionPersistence.cookieConfig.lifetimeType";
    let lifetime = match (lifetime, by, absolute_timeout) {
        (None | Some("Session"), ..) => CookieLifetime::Session,
        (Some("Permanent"), PersistenceBy::Header, _) => {
            return Err(Problem::unsupported(format!("{path}: is for cookies: leave cookieConfig out")));
        }
        (Some("Permanent"), PersistenceBy::Cookie, None) => {
            return Err(Problem::unsupported(format!(
                "{path}: Permanent needs an absoluteTimeout: write one"
            )));
        }
        (Some("Permanent"), PersistenceBy::Cookie, Some(_)) => CookieLifetime::Permanent,
        (Some(other), ..) => {
            return Err(Problem::unsupported(format!(
                "{path}: {other} is not known here: write Session or Permanent"
            )));
        }
    };
    Ok(Some(Persistence { by, name, lifetime, absolute_timeout, idle_timeout }))
}
