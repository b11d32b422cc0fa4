//! AWS: certificates of ACM, records of Route 53. Credentials are found in the usual ways: environment, profile, web
//! identity (IRSA), container and instance roles.

mod acm;
mod connector;
mod pace;
mod regions;
mod route53;

use std::time::Duration;

use aws_config::{BehaviorVersion, Region, SdkConfig};
use aws_sdk_acm::config::Credentials;
use aws_sdk_acm::error::{ProvideErrorMetadata, SdkError};
use aws_smithy_types::retry::RetryConfig;
use aws_smithy_types::timeout::TimeoutConfig;

use crate::{Error, Secret};

pub use acm::Acm;
pub use route53::Route53;

/// Where and as whom.
#[derive(Clone, Default)]
pub struct Settings {
    /// The controller, as it is named in marks and tags.
    pub instance: String,
    /// The region of certificates; default as the environment or profile says.
    pub region: Option<String>,
    /// A profile of the configuration files.
    pub profile: Option<String>,
    /// Keys from a Secret; default as the environment provides.
    pub keys: Option<Keys>,
    /// A role to act as, by its ARN.
    pub role: Option<String>,
    /// Another endpoint than Amazon's, for tests.
    pub endpoint: Option<String>,
}

/// An access key.
#[derive(Clone)]
pub struct Keys {
    /// Its id.
    pub id: String,
    /// Its secret.
    pub secret: Secret,
}

impl Settings {
    /// Whose limits count: the same for all who act as the same.
    fn identity(&self) -> String {
        let keys = self.keys.as_ref().map(|keys| keys.id.as_str());
        format!("{:?} {keys:?} {:?} {:?}", self.profile, self.role, self.endpoint)
    }

    async fn load(&self) -> Result<SdkConfig, Error> {
        let timeouts = TimeoutConfig::builder()
            .operation_attempt_timeout(Duration::from_secs(15))
            .operation_timeout(Duration::from_secs(45))
            .build();
        let mut loader = aws_config::defaults(BehaviorVersion::latest())
            .http_client(connector::Connector::new()?)
            .retry_config(RetryConfig::standard().with_max_attempts(3))
            .timeout_config(timeouts);
        if let Some(region) = &self.region {
            loader = loader.region(Region::new(region.clone()));
        }
        if let Some(profile) = &self.profile {
            loader = loader.profile_name(profile);
        }
        if let Some(endpoint) = &self.endpoint {
            loader = loader.endpoint_url(endpoint);
        }
        if let Some(Keys { id, secret }) = &self.keys {
            loader =
                loader.credentials_provider(Credentials::new(id, secret.expose(), None, None, "settings"));
        }
        let config = loader.load().await;
        let Some(role) = &self.role else { return Ok(config) };
        let session = format!("causeway-{}", self.instance);
        let provider =
            aws_config::sts::AssumeRoleProvider::builder(role).session_name(session).configure(&config);
        let provider = aws_sdk_acm::config::SharedCredentialsProvider::new(provider.build().await);
        Ok(config.into_builder().credentials_provider(provider).build())
    }
}

/// When a service limits without saying for how long.
const PAUSE: Duration = Duration::from_secs(5);

/// What the failure of a call comes to; `action` is the permission that it needs, as policies name it.
fn error<E>(at: &str, action: &str, error: SdkError<E>) -> Error
where
    E: ProvideErrorMetadata + std::error::Error + Send + Sync + 'static,
{
    let text = causeway_base::report::chain(&error);
    let forbidden = error.raw_response().is_some_and(|response| response.status().as_u16() == 403);
    let denied = || Error::Denied { missing: action.to_owned(), said: "HTTP status 403".to_owned() };
    let Some(service) = error.as_service_error() else {
        if forbidden {
            return denied();
        }
        if text.to_ascii_lowercase().contains("credential") {
            let missing =
                "credentials (environment, profile, role of the pod or keys in a Secret)".to_owned();
            return Error::Denied { missing, said: causeway_base::report::cut(&text, 400) };
        }
        return Error::unavailable(at, error);
    };
    let code = service.code().unwrap_or_default();
    let said = causeway_base::report::cut(&format!("{code}: {}", service.message().unwrap_or(&text)), 600);
    match code {
        "" if forbidden => denied(),
        "AccessDenied" | "AccessDeniedException" | "UnauthorizedOperation" | "NotAuthorized" => {
            Error::Denied { missing: action.to_owned(), said }
        }
        "InvalidClientTokenId"
        | "UnrecognizedClientException"
        | "SignatureDoesNotMatch"
        | "ExpiredToken"
        | "ExpiredTokenException"
        | "InvalidSignatureException"
        | "IncompleteSignature"
        | "MissingAuthenticationToken" => {
            Error::Denied { missing: format!("credentials that are good for {action}"), said }
        }
        "Throttling"
        | "ThrottlingException"
        | "RequestLimitExceeded"
        | "TooManyRequestsException"
        | "PriorRequestNotComplete" => {
            Error::RateLimited { at: at.to_owned(), retry_after: causeway_base::backoff::spread(PAUSE), said }
        }
        "LimitExceededException" | "LimitsExceeded" => Error::invalid(
            format!("a quota of the account is reached at {at} ({said})"),
            "have it raised at AWS",
        ),
        _ if code.starts_with("Internal") || code.starts_with("Service") || code.is_empty() => {
            Error::unavailable(at, error)
        }
        _ => Error::invalid(format!("{at} refuses {action}: {said}"), "change what was asked for"),
    }
}

#[cfg(test)]
mod tests {
    use aws_sdk_route53::error::ErrorMetadata;
    use aws_sdk_route53::operation::change_resource_record_sets::ChangeResourceRecordSetsError;
    use aws_smithy_runtime_api::client::orchestrator::HttpResponse;
    use aws_smithy_types::body::SdkBody;

    use super::*;
    use crate::Retry;

    /// What a refusal with this code comes to.
    fn refused(code: &str) -> Error {
        let metadata = ErrorMetadata::builder().code(code).message("the words of AWS").build();
        let refusal = ChangeResourceRecordSetsError::generic(metadata);
        let response = HttpResponse::new(400.try_into().unwrap(), SdkBody::empty());
        error(
            "Route 53",
            "route53:ChangeResourceRecordSets on hostedzone/Z1",
            SdkError::service_error(refusal, response),
        )
    }

    #[test]
    fn refusals_name_the_permission_and_say_when_to_come_back() {
        assert_eq!(
            refused("AccessDenied").to_string(),
            "not allowed: route53:ChangeResourceRecordSets on hostedzone/Z1 is missing (AccessDenied: the words of AWS)"
        );
        assert!(refused("ExpiredToken").to_string().contains("credentials that are good for route53:"));
        assert!(matches!(refused("Throttling").retry(), Retry::After(_)));
        assert!(matches!(refused("PriorRequestNotComplete").retry(), Retry::After(_)));
        assert_eq!(refused("InternalFailure").retry(), Retry::Backoff);
        assert!(refused("LimitExceededException").to_string().contains("have it raised"));
        assert_eq!(refused("InvalidInput").retry(), Retry::OnChange);
    }
}
