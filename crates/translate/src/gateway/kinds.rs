//! The kinds of Gateway API as they are written, whichever version that was: the fields that matter, and no others. Own
//! types, because a field or a word that is newer than a library's must not make an object unreadable: words stay words
//! until somebody asks what they mean, and what is left out means what Gateway API says it does.

mod gateway;
mod meta;
mod policy;
mod route;

pub use gateway::{
    AllowedRoutes, FrontendTls, FrontendValidation, Gateway, GatewayAddress, GatewayClass, GatewayClassSpec,
    GatewaySpec, GatewayTls, Infrastructure, Listener, ListenerSet, ListenerSetSpec, ListenerTls, Namespaces,
    ParametersRef, PortTls, RouteGroupKind,
};
pub use meta::{Meta, Object, ObjectRef, Spec, Unreadable};
pub use policy::{
    BackendTlsPolicy, BackendTlsPolicySpec, BackendValidation, SubjectAltName, TargetRef, TrafficPolicy,
};
pub use route::{
    Backend, BackendRef, ConnectionRoute, ConnectionRouteSpec, ConnectionRule, CookieConfig, Cors, Filter,
    Fraction, GrpcMatch, GrpcMethod, GrpcRoute, GrpcRouteSpec, GrpcRule, Header, HeaderFilter, HeaderMatch,
    HttpMatch, HttpRoute, HttpRouteSpec, HttpRule, Mirror, ParentRef, PathMatch, PathModifier, Redirect,
    Retry, RouteKind, SessionPersistence, Timeouts, UrlRewrite,
};

/// The API group of all these kinds.
pub const GROUP: &str = "gateway.networking.k8s.io";
