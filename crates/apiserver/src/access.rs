//! Who is asking, and whether they may: client certificates, ServiceAccount tokens, impersonation, RBAC,
//! and the review kinds that let clients ask the same questions.
//!
//! The REST layer calls [`Access::authenticate`], then [`Access::authorize`], and for writes of roles and bindings
//! [`Access::check_escalation`].

mod attributes;
mod certificate;
mod defaults;
mod escalation;
mod impersonation;
mod objects;
mod policy;
mod reviews;
mod rule;
#[cfg(test)]
pub(crate) mod tests;
mod token;

pub(crate) use attributes::Attributes;
pub(crate) use certificate::PeerCertificate;
pub(crate) use defaults::default_roles;
pub(crate) use objects::Objects;
pub(crate) use reviews::ReviewKind;

use std::collections::BTreeMap;
use std::sync::Arc;

use http::{HeaderMap, header};
use jiff::Timestamp;
use serde_json::Value;

use crate::error::ApiError;
use crate::pki::Pki;
use attributes::{Decision, forbidden};
use policy::PolicyCache;
use token::ServiceAccountTokens;

/// The group whose members may do everything, whatever the roles say.
pub(crate) const SYSTEM_MASTERS: &str = "system:masters";
const AUTHENTICATED: &str = "system:authenticated";
const UNAUTHENTICATED: &str = "system:unauthenticated";
const ANONYMOUS: &str = "system:anonymous";

/// Paths that answer without credentials: probes and version negotiation.
const PUBLIC_PATHS: [&str; 4] = ["/livez", "/readyz", "/healthz", "/version"];
/// Of those, the ones that no role can close.
const ALWAYS_ALLOWED_PATHS: [&str; 3] = ["/livez", "/readyz", "/healthz"];

/// The identity behind a request.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct User {
    pub name: String,
    pub uid: String,
    pub groups: Vec<String>,
    pub extra: BTreeMap<String, Vec<String>>,
}

impl User {
    /// A user known by name and groups alone, as in-process callers are.
    pub fn new(name: &str, groups: &[&str]) -> Self {
        Self {
            name: name.to_owned(),
            groups: groups.iter().map(|&g| g.to_owned()).collect(),
            ..Self::default()
        }
    }

    /// The identity of a ServiceAccount.
    pub fn service_account(namespace: &str, name: &str, uid: &str) -> Self {
        Self {
            name: service_account_name(namespace, name),
            uid: uid.to_owned(),
            groups: service_account_groups(namespace),
            extra: BTreeMap::new(),
        }
    }

    fn anonymous() -> Self {
        Self::new(ANONYMOUS, &[UNAUTHENTICATED])
    }

    /// Adds the group that every identified user is in.
    pub(crate) fn authenticated(mut self) -> Self {
        if !self.is_in(AUTHENTICATED) && !self.is_in(UNAUTHENTICATED) {
            self.groups.push(AUTHENTICATED.to_owned());
        }
        self
    }

    pub fn is_in(&self, group: &str) -> bool {
        self.groups.iter().any(|g| g == group)
    }
}

fn service_account_name(namespace: &str, name: &str) -> String {
    format!("system:serviceaccount:{namespace}:{name}")
}

fn service_account_groups(namespace: &str) -> Vec<String> {
    vec!["system:serviceaccounts".to_owned(), format!("system:serviceaccounts:{namespace}")]
}

/// Authentication and authorization over the objects in the store.
pub(crate) struct Access {
    objects: Arc<dyn Objects>,
    tokens: ServiceAccountTokens,
    policy: PolicyCache,
}

impl Access {
    pub(crate) fn new(pki: &Pki, objects: Arc<dyn Objects>) -> Self {
        Self { tokens: ServiceAccountTokens::new(pki.token_key()), policy: PolicyCache::default(), objects }
    }

    /// The user that a request's credentials prove, after impersonation. Without credentials only the probe and
    /// version paths have a user, `system:anonymous`; anything else is 401.
    pub(crate) fn authenticate(
        &self,
        headers: &HeaderMap,
        peer: Option<&PeerCertificate>,
        path: &str,
    ) -> Result<User, ApiError> {
        let user = self.identify(headers, peer, path, Timestamp::now())?;
        impersonation::apply(self, user, headers)
    }

    fn identify(
        &self,
        headers: &HeaderMap,
        peer: Option<&PeerCertificate>,
        path: &str,
        now: Timestamp,
    ) -> Result<User, ApiError> {
        // A certificate may run out while its connection stays open.
        if let Some(peer) = peer.filter(|p| p.is_valid_at(now)) {
            return Ok(peer.user().authenticated());
        }
        if let Some(token) = bearer_token(headers) {
            return self.token_user(token, &[token::ISSUER], now).map(|(user, _)| user).map_err(|error| {
                tracing::debug!(error = &error as &dyn std::error::Error, "bearer token refused");
                ApiError::unauthorized()
            });
        }
        let has_credentials = peer.is_some() || headers.contains_key(header::AUTHORIZATION);
        if !has_credentials && PUBLIC_PATHS.contains(&path) {
            return Ok(User::anonymous());
        }
        Err(ApiError::unauthorized())
    }

    /// The user of a bearer token and which of `audiences` it is for.
    fn token_user(
        &self,
        token: &str,
        audiences: &[&str],
        now: Timestamp,
    ) -> Result<(User, Vec<String>), token::Error> {
        let (user, audiences) = self.tokens.verify(token, audiences, self.objects.as_ref(), now)?;
        Ok((user.authenticated(), audiences))
    }

    /// Whether `user` may do what `attributes` say, and by what.
    pub(crate) fn check(&self, user: &User, attributes: &Attributes<'_>) -> (bool, String) {
        let Decision { allowed, reason } = self.decide(user, attributes);
        (allowed, reason)
    }

    /// Whether `user` may do what `attributes` say; otherwise 403 in Kubernetes' words.
    pub(crate) fn authorize(&self, user: &User, attributes: &Attributes<'_>) -> Result<(), ApiError> {
        let mut attributes = *attributes;
        // A namespace counts as inside itself, so that a RoleBinding can let its members read it.
        let of_namespace = attributes.group.is_empty() && attributes.resource == "namespaces";
        if of_namespace && attributes.namespace.is_empty() && attributes.path.is_none() {
            attributes.namespace = attributes.name;
        }
        let decision = self.decide(user, &attributes);
        if decision.allowed { Ok(()) } else { Err(forbidden(user, &attributes, &decision.reason)) }
    }

    /// ClusterRoles with an `aggregationRule` whose stored `rules` do not show what they aggregate, with the rules
    /// they should have. Decisions do not depend on it; `kubectl describe clusterrole` does.
    pub(crate) fn stale_aggregates(&self) -> Vec<Value> {
        policy::stale_aggregates(&self.objects.objects(policy::RBAC, "clusterroles"))
    }

    fn decide(&self, user: &User, attributes: &Attributes<'_>) -> Decision {
        if user.is_in(SYSTEM_MASTERS) || attributes.path.is_some_and(|p| ALWAYS_ALLOWED_PATHS.contains(&p)) {
            return Decision { allowed: true, reason: String::new() };
        }
        self.policy.current(self.objects.as_ref()).decide(user, attributes)
    }
}

/// The token of an `Authorization: Bearer` header; an empty one is none.
fn bearer_token(headers: &HeaderMap) -> Option<&str> {
    let value = headers.get(header::AUTHORIZATION)?.to_str().ok()?.trim();
    let (scheme, token) = value.split_once(' ')?;
    let token = token.trim_start();
    (scheme.eq_ignore_ascii_case("bearer") && !token.is_empty()).then_some(token)
}
