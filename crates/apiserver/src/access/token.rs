//! ServiceAccount tokens: signed JWTs with Kubernetes' claims, bound to objects that must still exist.

use std::collections::BTreeMap;

use aws_lc_rs::{digest, rand};
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use jiff::{SignedDuration, Timestamp};
use jsonwebtoken::{Algorithm, DecodingKey, EncodingKey, Header, Validation};
use rcgen::{KeyPair, PublicKeyData};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{Objects, User, service_account_name};
use crate::object::meta;

/// Who issues our tokens, and the audience of those that are for this server.
pub(super) const ISSUER: &str = "https://kubernetes.default.svc.cluster.local";
pub(super) const CREDENTIAL_ID: &str = "authentication.kubernetes.io/credential-id";

/// A bound object that is being deleted keeps its tokens for this long, so that a pod can finish its work.
const DELETION_LEEWAY: SignedDuration = SignedDuration::from_secs(60);

/// Why a token was not accepted or could not be made.
#[derive(Debug, thiserror::Error)]
pub(super) enum Error {
    #[error("invalid bearer token")]
    Signature { source: jsonwebtoken::errors::Error },
    #[error("service account token has expired")]
    Expired,
    #[error("service account token is not valid yet")]
    NotYetValid,
    #[error("token audiences {token:?} is invalid for the target audiences {wanted:?}")]
    Audience { token: Vec<String>, wanted: Vec<String> },
    #[error("service account token has been invalidated: its {what} {name:?} is gone or was made anew")]
    BoundObject { what: &'static str, name: String },
    #[error("can't sign the token")]
    Sign { source: jsonwebtoken::errors::Error },
    #[error("no randomness for the token's id")]
    Random,
}

#[derive(Debug, Serialize, Deserialize)]
struct Claims {
    aud: Vec<String>,
    exp: i64,
    iat: i64,
    iss: String,
    #[serde(default)]
    jti: String,
    #[serde(rename = "kubernetes.io")]
    kubernetes: KubernetesClaims,
    nbf: i64,
    sub: String,
}

#[derive(Debug, Serialize, Deserialize)]
struct KubernetesClaims {
    namespace: String,
    #[serde(flatten)]
    bound: Binding,
    serviceaccount: Ref,
}

/// The objects a token depends on beside its ServiceAccount.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub(super) struct Binding {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub node: Option<Ref>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pod: Option<Ref>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub secret: Option<Ref>,
}

/// One particular object, not another of the same name that came later.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct Ref {
    pub name: String,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub uid: String,
}

impl Ref {
    pub(super) fn to(object: &Value) -> Self {
        Self { name: meta(object, "name").to_owned(), uid: meta(object, "uid").to_owned() }
    }
}

/// What a new token shall say.
pub(super) struct Request<'a> {
    pub service_account: &'a Value,
    pub binding: Binding,
    pub audiences: Vec<String>,
    pub lifetime: SignedDuration,
}

/// The two halves of the token key.
pub(super) struct ServiceAccountTokens {
    encoding: EncodingKey,
    decoding: DecodingKey,
    key_id: String,
}

impl ServiceAccountTokens {
    pub(super) fn new(key: &KeyPair) -> Self {
        let public = digest::digest(&digest::SHA256, &key.subject_public_key_info());
        Self {
            encoding: EncodingKey::from_ec_der(key.serialized_der()),
            decoding: DecodingKey::from_ec_der(key.public_key_raw()),
            key_id: URL_SAFE_NO_PAD.encode(public),
        }
    }

    /// Signs a token and says when it ends.
    pub(super) fn sign(&self, request: Request<'_>, now: Timestamp) -> Result<(String, Timestamp), Error> {
        let account = Ref::to(request.service_account);
        let namespace = meta(request.service_account, "namespace").to_owned();
        let issued = now.as_second();
        let expires = issued.saturating_add(request.lifetime.as_secs());
        let claims = Claims {
            aud: request.audiences,
            exp: expires,
            iat: issued,
            iss: ISSUER.to_owned(),
            jti: new_id()?,
            nbf: issued,
            sub: service_account_name(&namespace, &account.name),
            kubernetes: KubernetesClaims { namespace, bound: request.binding, serviceaccount: account },
        };
        let mut header = Header::new(Algorithm::ES256);
        header.typ = None;
        header.kid = Some(self.key_id.clone());
        let token = jsonwebtoken::encode(&header, &claims, &self.encoding)
            .map_err(|source| Error::Sign { source })?;
        Ok((token, Timestamp::from_second(expires).unwrap_or(Timestamp::MAX)))
    }

    /// The ServiceAccount that a token proves, and which of `audiences` it is for.
    pub(super) fn verify(
        &self,
        token: &str,
        audiences: &[&str],
        objects: &dyn Objects,
        now: Timestamp,
    ) -> Result<(User, Vec<String>), Error> {
        let claims = self.decode(token)?;
        // No leeway: the clock that checks is the clock that signed.
        if now.as_second() > claims.exp {
            return Err(Error::Expired);
        }
        if now.as_second() < claims.nbf {
            return Err(Error::NotYetValid);
        }
        let matching: Vec<String> =
            claims.aud.iter().filter(|a| audiences.contains(&a.as_str())).cloned().collect();
        if matching.is_empty() {
            let wanted = audiences.iter().map(|&a| a.to_owned()).collect();
            return Err(Error::Audience { token: claims.aud, wanted });
        }
        check_objects(&claims.kubernetes, objects, now)?;
        Ok((user_of(&claims), matching))
    }

    fn decode(&self, token: &str) -> Result<Claims, Error> {
        let mut validation = Validation::new(Algorithm::ES256);
        // Times and audiences are checked by `verify`, which is given the moment and the audiences.
        validation.validate_exp = false;
        validation.validate_nbf = false;
        validation.validate_aud = false;
        validation.set_issuer(&[ISSUER]);
        validation.set_required_spec_claims(&["exp", "nbf", "aud", "iss", "sub"]);
        jsonwebtoken::decode::<Claims>(token, &self.decoding, &validation)
            .map(|data| data.claims)
            .map_err(|source| Error::Signature { source })
    }
}

fn check_objects(claims: &KubernetesClaims, objects: &dyn Objects, now: Timestamp) -> Result<(), Error> {
    let namespace = claims.namespace.as_str();
    let account = Some(&claims.serviceaccount);
    // A pod's token also names its node, which may be gone before the pod is.
    let node = if claims.bound.pod.is_none() { claims.bound.node.as_ref() } else { None };
    let bound = [
        ("service account", "serviceaccounts", namespace, account),
        ("pod", "pods", namespace, claims.bound.pod.as_ref()),
        ("secret", "secrets", namespace, claims.bound.secret.as_ref()),
        ("node", "nodes", "", node),
    ];
    for (what, plural, namespace, reference) in bound {
        let Some(reference) = reference else { continue };
        let valid = objects
            .object("", plural, namespace, &reference.name)
            .is_some_and(|object| meta(&object, "uid") == reference.uid && !is_deleted(&object, now));
        if !valid {
            return Err(Error::BoundObject { what, name: reference.name.clone() });
        }
    }
    Ok(())
}

fn is_deleted(object: &Value, now: Timestamp) -> bool {
    match meta(object, "deletionTimestamp").parse::<Timestamp>() {
        Ok(deleted) => now.duration_since(deleted) > DELETION_LEEWAY,
        Err(_) => false,
    }
}

fn user_of(claims: &Claims) -> User {
    let kubernetes = &claims.kubernetes;
    let account = &kubernetes.serviceaccount;
    let mut extra = BTreeMap::new();
    if !claims.jti.is_empty() {
        extra.insert(CREDENTIAL_ID.to_owned(), vec![format!("JTI={}", claims.jti)]);
    }
    for (what, reference) in [("pod", &kubernetes.bound.pod), ("node", &kubernetes.bound.node)] {
        let Some(reference) = reference else { continue };
        for (field, value) in [("name", &reference.name), ("uid", &reference.uid)] {
            if !value.is_empty() {
                extra.insert(format!("authentication.kubernetes.io/{what}-{field}"), vec![value.clone()]);
            }
        }
    }
    User { extra, ..User::service_account(&kubernetes.namespace, &account.name, &account.uid) }
}

/// A random (version 4) UUID.
fn new_id() -> Result<String, Error> {
    let mut bytes = [0u8; 16];
    rand::fill(&mut bytes).map_err(|_| Error::Random)?;
    bytes[6] = bytes[6] & 0x0f | 0x40;
    bytes[8] = bytes[8] & 0x3f | 0x80;
    let n = u128::from_be_bytes(bytes);
    let part = |shift: u32, bits: u32| (n >> shift) & ((1u128 << bits) - 1);
    Ok(format!(
        "{:08x}-{:04x}-{:04x}-{:04x}-{:012x}",
        part(96, 32),
        part(80, 16),
        part(64, 16),
        part(48, 16),
        part(0, 48)
    ))
}
