//! `serviceaccounts/NAME/token`: a new token for a ServiceAccount, on request.

use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};

use super::{strings, text};
use crate::access::Access;
use crate::access::token::{self, Binding, Ref};
use crate::error::{ApiError, FieldError};
use crate::object::{metadata_mut, name, namespace};

const DEFAULT_SECONDS: i64 = 3600;
const MIN_SECONDS: i64 = 600;
const MAX_SECONDS: i64 = 1 << 32;

impl Access {
    /// Answers a `TokenRequest` created at the `token` subresource of a ServiceAccount.
    pub(crate) fn request_token(
        &self,
        account_namespace: &str,
        account_name: &str,
        mut body: Value,
    ) -> Result<Value, ApiError> {
        check_metadata(&body, account_namespace, account_name)?;
        let seconds = expiration(&body["spec"])?;
        let service_account = self
            .objects
            .object("", "serviceaccounts", account_namespace, account_name)
            .ok_or_else(|| ApiError::not_found("", "serviceaccounts", account_name))?;
        let binding = self.bind(&body["spec"]["boundObjectRef"], account_namespace, account_name)?;
        let mut audiences = strings(&body["spec"]["audiences"]);
        if audiences.is_empty() {
            audiences.push(token::ISSUER.to_owned());
        }
        let now = Timestamp::now();
        let request = token::Request {
            service_account: &service_account,
            binding,
            audiences: audiences.clone(),
            lifetime: SignedDuration::from_secs(seconds),
        };
        let (signed, expires) = self
            .tokens
            .sign(request, now)
            .map_err(|error| ApiError::internal(format!("failed to generate token: {error}")))?;

        body["apiVersion"] = json!("authentication.k8s.io/v1");
        body["kind"] = json!("TokenRequest");
        let metadata = metadata_mut(&mut body);
        metadata.insert("name".to_owned(), json!(account_name));
        metadata.insert("namespace".to_owned(), json!(account_namespace));
        metadata.insert("creationTimestamp".to_owned(), json!(rfc3339(now)));
        body["spec"]["audiences"] = json!(audiences);
        body["spec"]["expirationSeconds"] = json!(seconds);
        if body["spec"].get("boundObjectRef").is_none() {
            body["spec"]["boundObjectRef"] = Value::Null;
        }
        body["status"] = json!({ "token": signed, "expirationTimestamp": rfc3339(expires) });
        Ok(body)
    }

    /// The objects that the token shall depend on.
    fn bind(&self, reference: &Value, account_namespace: &str, account: &str) -> Result<Binding, ApiError> {
        if !reference.is_object() {
            return Ok(Binding::default());
        }
        let (kind, api_version) = (text(&reference["kind"]), text(&reference["apiVersion"]));
        let bound_name = text(&reference["name"]);
        let get = |plural: &str, namespace: &str| {
            let object = self.objects.object("", plural, namespace, bound_name);
            let object = object.ok_or_else(|| ApiError::not_found("", plural, bound_name))?;
            check_uid(kind, bound_name, text(&reference["uid"]), &object)?;
            Ok::<_, ApiError>(object)
        };
        let core = matches!(api_version, "" | "v1");
        match kind {
            "Pod" if core => {
                let pod = get("pods", account_namespace)?;
                let runs_as = match text(&pod["spec"]["serviceAccountName"]) {
                    "" => "default",
                    explicit => explicit,
                };
                if runs_as != account {
                    return Err(ApiError::bad_request(format!(
                        "cannot bind token for serviceaccount {account:?} to pod running with different \
                         serviceaccount name."
                    )));
                }
                let node = match text(&pod["spec"]["nodeName"]) {
                    "" => None,
                    node => Some(self.objects.object("", "nodes", "", node).map_or_else(
                        || Ref { name: node.to_owned(), uid: String::new() },
                        |node| Ref::to(&node),
                    )),
                };
                Ok(Binding { pod: Some(Ref::to(&pod)), node, secret: None })
            }
            "Secret" if core => {
                let secret = get("secrets", account_namespace)?;
                Ok(Binding { secret: Some(Ref::to(&secret)), ..Binding::default() })
            }
            "Node" if core => {
                let node = get("nodes", "")?;
                Ok(Binding { node: Some(Ref::to(&node)), ..Binding::default() })
            }
            _ => Err(ApiError::bad_request(format!(
                "cannot bind token to object of type {api_version}, Kind={kind}"
            ))),
        }
    }
}

fn check_metadata(body: &Value, account_namespace: &str, account_name: &str) -> Result<(), ApiError> {
    if !namespace(body).is_empty() && namespace(body) != account_namespace {
        return Err(ApiError::bad_request(
            "the namespace of the provided object does not match the namespace sent on the request",
        ));
    }
    if !name(body).is_empty() && name(body) != account_name {
        return Err(ApiError::bad_request(format!(
            "the name of the object ({}) does not match the name on the URL ({account_name})",
            name(body)
        )));
    }
    Ok(())
}

fn expiration(spec: &Value) -> Result<i64, ApiError> {
    let value = &spec["expirationSeconds"];
    let seconds = if value.is_null() { Some(DEFAULT_SECONDS) } else { value.as_i64() };
    let detail = match seconds {
        None => "must be a whole number of seconds",
        Some(seconds) if seconds < MIN_SECONDS => "may not specify a duration less than 10 minutes",
        Some(seconds) if seconds > MAX_SECONDS => "may not specify a duration larger than 2^32 seconds",
        Some(seconds) => return Ok(seconds),
    };
    let error = FieldError::invalid("spec.expirationSeconds", value, detail);
    Err(ApiError::invalid("authentication.k8s.io", "TokenRequest", "", &[error]))
}

fn check_uid(kind: &str, name: &str, wanted: &str, object: &Value) -> Result<(), ApiError> {
    let actual = crate::object::meta(object, "uid");
    if wanted.is_empty() || wanted == actual {
        return Ok(());
    }
    let why = format!(
        "the UID in the bound object reference ({wanted}) does not match the UID in record. The object might have \
         been deleted and then recreated"
    );
    Err(ApiError::conflict("", kind, name, &why))
}

/// Whole seconds, as every timestamp in `metav1.Time`.
fn rfc3339(time: Timestamp) -> String {
    time.strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}
