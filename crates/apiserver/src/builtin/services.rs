//! Services, Endpoints and EndpointSlices.

use super::kind::Kind;
use super::print;
use crate::resource::Resource;

pub fn kinds() -> Vec<Resource> {
    vec![
        Kind::new("", "v1", "Service", "services")
            .short(&["svc"])
            .in_all()
            .status()
            .selectable(&["spec.clusterIP", "spec.type"])
            .columns(print::SERVICE, print::service)
            .build(),
        Kind::new("", "v1", "Endpoints", "endpoints")
            .short(&["ep"])
            .columns(print::ENDPOINTS, print::endpoints)
            .build(),
        Kind::new("discovery.k8s.io", "v1", "EndpointSlice", "endpointslices")
            .columns(print::ENDPOINT_SLICE, print::endpoint_slice)
            .build(),
    ]
}
