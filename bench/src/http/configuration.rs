//! What each gateway is told: the same listener, certificates, routes and backends in its own language. Access logs are
//! off, connections to backends are kept, and backends are told of the client (`X-Forwarded-For`, `-Proto` and `-Host`),
//! everywhere. What browsers and gRPC clients would run into, such as limits of requests on a connection, is out of
//! the way.

pub(crate) mod causeway;
pub(crate) mod envoy;
pub(crate) mod haproxy;
pub(crate) mod nginx;
pub(crate) mod traefik;

/// Names of files and what is in them.
pub(crate) type Files = Vec<(&'static str, String)>;

fn cluster(backend: usize) -> String {
    format!("b{backend}")
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::compare::Name;
    use crate::http::setting::{GATEWAY, Setting};
    use crate::http::workload::Workload;

    #[test]
    fn every_gateway_is_told_of_every_certificate_route_and_backend() {
        let (dir, certificates) = (Path::new("/scratch"), Path::new("/certificates"));
        for row in Workload::all() {
            let setting = Setting::of(row);
            for files in [
                causeway::files(&setting),
                nginx::files(&setting, dir, certificates),
                haproxy::files(&setting, dir, certificates),
                envoy::files(&setting, dir, certificates),
                traefik::files(&setting, dir, certificates),
            ] {
                let text: String = files.iter().map(|(_, text)| text.as_str()).collect();
                let of = files[0].0;
                assert!(text.contains(&GATEWAY.port().to_string()), "{of}");
                for name in setting.certificates.iter().step_by(499) {
                    assert!(text.contains(name.as_str()), "{name} is missing in {of}");
                }
                for route in setting.routes.iter().step_by(997) {
                    let host = route.host.as_deref().unwrap_or_default();
                    assert!(text.contains(host) && text.contains(&route.prefix), "{host} is missing in {of}");
                }
                for address in &setting.backends {
                    // Envoy writes address and port apart.
                    assert!(text.contains(&address.ip().to_string()), "{address} is missing in {of}");
                }
            }
        }
    }
}
