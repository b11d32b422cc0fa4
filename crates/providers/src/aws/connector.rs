//! Carries the requests of AWS's clients over this crate's one HTTP client.

use aws_smithy_runtime_api::client::http::{
    HttpClient, HttpConnector, HttpConnectorFuture, HttpConnectorSettings, SharedHttpConnector,
};
use aws_smithy_runtime_api::client::orchestrator::{HttpRequest, HttpResponse};
use aws_smithy_runtime_api::client::result::ConnectorError;
use aws_smithy_runtime_api::client::runtime_components::RuntimeComponents;
use aws_smithy_types::body::SdkBody;

use crate::Error;
use crate::http::{Http, client};

#[derive(Debug, Clone)]
pub(super) struct Connector(Http<SdkBody>);

impl Connector {
    pub(super) fn new() -> Result<Self, Error> {
        Ok(Self(client(None)?))
    }
}

impl HttpConnector for Connector {
    fn call(&self, request: HttpRequest) -> HttpConnectorFuture {
        let client = self.0.clone();
        HttpConnectorFuture::new(async move {
            let request = request.try_into_http1x().map_err(|error| ConnectorError::user(error.into()))?;
            let answer = client.request(request).await.map_err(|error| ConnectorError::io(error.into()))?;
            let answer = answer.map(SdkBody::from_body_1_x);
            HttpResponse::try_from(answer).map_err(|error| ConnectorError::other(error.into(), None))
        })
    }
}

impl HttpClient for Connector {
    /// Timeouts are those of whole attempts.
    fn http_connector(&self, _: &HttpConnectorSettings, _: &RuntimeComponents) -> SharedHttpConnector {
        SharedHttpConnector::new(self.clone())
    }
}
