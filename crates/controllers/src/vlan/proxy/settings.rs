//! What the operator decides where a `ProxyServer` leaves it open.

use causeway_api::{Engine, names};

/// Defaults for every `ProxyServer`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// The engine where `spec.engine` is left out.
    pub engine: Engine,
    /// Envoy's image where `spec.proxyImage` is left out.
    pub proxy_image: String,
    /// This program's image where `spec.managerImage` is left out.
    pub manager_image: String,
    /// Bind each proxy's account to OpenShift's `nonroot-v2` security context constraints.
    pub openshift: bool,
    /// Backends in other namespaces need a ReferenceGrant there.
    pub require_grants: bool,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            engine: Engine::Envoy,
            proxy_image: names::ENVOY_IMAGE.to_owned(),
            manager_image: names::own_image(env!("CARGO_PKG_VERSION")),
            openshift: false,
            require_grants: true,
        }
    }
}
