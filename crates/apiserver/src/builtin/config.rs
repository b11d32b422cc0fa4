//! ConfigMaps, Secrets and ServiceAccounts.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::Value;

use super::check::Errors;
use super::json::{entries, fill_empty, flag, is_set, made, text};
use super::kind::Kind;
use super::print;
use super::syntax;
use crate::error::FieldError;
use crate::resource::{Resource, Strategy};

const SIZE_LIMIT: usize = 1024 * 1024;
const HELD: &str = "field is immutable when `immutable` is set";

pub(super) fn kinds() -> Vec<Resource> {
    vec![
        Kind::new("", "v1", "ConfigMap", "configmaps")
            .short(&["cm"])
            .columns(print::CONFIG_MAP, print::config_map)
            .strategy(ConfigMap)
            .build(),
        Kind::new("", "v1", "Secret", "secrets")
            .selectable(&["type"])
            .columns(print::SECRET, print::secret)
            .strategy(Secret)
            .build(),
        Kind::new("", "v1", "ServiceAccount", "serviceaccounts")
            .short(&["sa"])
            .others(&["token"])
            .columns(print::SERVICE_ACCOUNT, print::service_account)
            .strategy(ServiceAccount)
            .build(),
    ]
}

struct ConfigMap;

impl Strategy for ConfigMap {
    fn validate(&self, new: &Value, old: Option<&Value>) -> Vec<FieldError> {
        let mut errors = Errors::default();
        let mut size = 0;
        for (key, value) in entries(new, "data") {
            let path = format!("data[{key}]");
            errors.complain(&path, key.clone(), syntax::config_key(key));
            if is_set(&new["binaryData"], key) {
                errors.invalid(path, key.clone(), "duplicate of key present in binaryData");
            }
            size += value.as_str().unwrap_or_default().len();
        }
        size += bytes(new, "binaryData", &mut errors);
        if size > SIZE_LIMIT {
            errors.too_long("", SIZE_LIMIT);
        }
        held(new, old, &["data", "binaryData"], &mut errors);
        errors.into_vec()
    }

    fn has_generation(&self) -> bool {
        false
    }
}

struct Secret;

impl Strategy for Secret {
    fn default(&self, secret: &mut Value) {
        fill_empty(secret, "type", "Opaque");
        let plain = secret.as_object_mut().and_then(|s| s.remove("stringData"));
        let Some(Value::Object(plain)) = plain else { return };
        let Some(data) = made(secret, "data") else { return };
        for (key, value) in plain {
            data[key] = STANDARD.encode(value.as_str().unwrap_or_default()).into();
        }
    }

    fn validate(&self, new: &Value, old: Option<&Value>) -> Vec<FieldError> {
        let mut errors = Errors::default();
        if bytes(new, "data", &mut errors) > SIZE_LIMIT {
            errors.too_long("data", SIZE_LIMIT);
        }
        secret_type(new, &mut errors);
        if let Some(old) = old {
            errors.unchanged(new, old, "", "type");
        }
        held(new, old, &["data"], &mut errors);
        errors.into_vec()
    }

    fn has_generation(&self) -> bool {
        false
    }
}

struct ServiceAccount;

impl Strategy for ServiceAccount {
    fn has_generation(&self) -> bool {
        false
    }
}

/// Checks a map of base64 values and gives the size of what they hold.
fn bytes(object: &Value, field: &str, errors: &mut Errors) -> usize {
    let mut size = 0;
    for (key, value) in entries(object, field) {
        let path = format!("{field}[{key}]");
        errors.complain(&path, key.clone(), syntax::config_key(key));
        match STANDARD.decode(value.as_str().unwrap_or_default()) {
            Ok(decoded) => size += decoded.len(),
            Err(_) => errors.invalid(path, "<value omitted>", "must be base64 encoded"),
        }
    }
    size
}

/// What the well-known types of Secrets must contain.
fn secret_type(secret: &Value, errors: &mut Errors) {
    let data = &secret["data"];
    let need: &[&str] = match text(secret, "type") {
        "kubernetes.io/service-account-token" => {
            let account = "kubernetes.io/service-account.name";
            if text(&secret["metadata"]["annotations"], account).is_empty() {
                errors.required(format!("metadata.annotations[{account}]"), "");
            }
            return;
        }
        "kubernetes.io/basic-auth" if is_set(data, "username") || is_set(data, "password") => return,
        "kubernetes.io/basic-auth" => &["username", "password"],
        "kubernetes.io/dockercfg" => &[".dockercfg"],
        "kubernetes.io/dockerconfigjson" => &[".dockerconfigjson"],
        "kubernetes.io/ssh-auth" => &["ssh-privatekey"],
        "kubernetes.io/tls" => &["tls.crt", "tls.key"],
        _ => return,
    };
    for key in need {
        match data[*key].as_str().map(|encoded| STANDARD.decode(encoded)) {
            None => errors.required(format!("data[{key}]"), ""),
            Some(Ok(content)) if key.starts_with(".docker") => {
                if serde_json::from_slice::<serde_json::Map<String, Value>>(&content).is_err() {
                    let detail = "must be a JSON object";
                    errors.invalid(format!("data[{key}]"), "<secret contents redacted>", detail);
                }
            }
            Some(_) => {}
        }
    }
}

/// `immutable: true` cannot be taken back, nor the fields it protects changed.
fn held(new: &Value, old: Option<&Value>, fields: &[&str], errors: &mut Errors) {
    let Some(old) = old.filter(|old| flag(old, "immutable")) else {
        return;
    };
    if !flag(new, "immutable") {
        errors.forbidden("immutable", HELD);
    }
    for field in fields.iter().filter(|f| new[**f] != old[**f]) {
        errors.forbidden(*field, HELD);
    }
}

#[cfg(test)]
mod tests;
