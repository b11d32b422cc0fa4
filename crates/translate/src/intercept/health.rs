//! Health checks that come by way of a Service: load balancers and monitors ask as a kubelet would. They are about the target, so
//! they go to the original unless the developer asks for them, though they fit the rules.

use std::collections::BTreeSet;

use causeway_api::{HealthCheckTarget, InterceptRequestSpec};
use causeway_ir::http::{HeaderMatch, HeaderName, Path, PathMatch, Regex, RequestMatch, ValueMatch};
use k8s_openapi::api::core::v1::Probe;
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;

use super::target::{Found, Port};
use crate::endpoints::Protocol;

/// How those who check health call themselves.
const AGENTS: &str = "(?i:kube-probe|GoogleHC|ELB-HealthChecker|Amazon-Route53-Health-Check-Service|Edge Health Probe\
                      |HealthCheck|Health-Check|Load Balancer Agent|Envoy/HC|Blackbox Exporter|Consul Health Check)(?s:.*)";
/// What a gRPC server is asked.
const GRPC: &str = "/grpc.health.v1.Health/Check";

/// The health checks of a port.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Health {
    /// Whether it is known that the port carries requests.
    pub(super) is_http: bool,
    /// Paths that nothing but health checks ask for.
    paths: BTreeSet<String>,
}

impl Health {
    /// Those of the target's port; none if the developer's machine is to answer them.
    pub(super) fn of(spec: &InterceptRequestSpec, found: &Found<'_>, port: &Port) -> Option<Self> {
        if spec.health_checks == HealthCheckTarget::Workstation {
            return None;
        }
        let mut health = Self::default();
        for container in found.containers() {
            let probes = [&container.startup_probe, &container.readiness_probe, &container.liveness_probe];
            for probe in probes.into_iter().flatten() {
                health.extend(probe, found, port);
            }
        }
        Some(health)
    }

    fn extend(&mut self, probe: &Probe, found: &Found<'_>, port: &Port) {
        if let Some(get) = &probe.http_get
            && get.scheme.as_deref().unwrap_or("HTTP") == "HTTP"
            && found.number(&get.port, Protocol::Tcp) == Some(port.number)
        {
            self.is_http = true;
            let path = get.path.as_deref().unwrap_or("/").split(['?', '#']).next().unwrap_or("/");
            // The front page is for everybody.
            if path != "/" && !path.is_empty() {
                self.paths.insert(path.to_owned());
            }
        }
        let grpc = probe.grpc.as_ref().map(|grpc| IntOrString::Int(grpc.port));
        if grpc.is_some_and(|grpc| found.number(&grpc, Protocol::Tcp) == Some(port.number)) {
            self.is_http = true;
            self.paths.insert(GRPC.to_owned());
        }
    }

    /// The health checks among the requests that an entry takes; all of them if it takes everything. Each ranks before the
    /// entry, as it asks for more.
    pub(super) fn among(&self, entry: Option<&RequestMatch>) -> Vec<RequestMatch> {
        let entry = entry.cloned().unwrap_or_default();
        let mut found = Vec::new();
        if let (Ok(name), Ok(agents)) = (HeaderName::parse("user-agent"), Regex::parse(AGENTS)) {
            let mut by_agent = entry.clone();
            by_agent.headers.push(HeaderMatch { name, value: ValueMatch::Regex(agents) });
            found.push(by_agent);
        }
        let paths = self.paths.iter().filter_map(|path| Path::parse(path).ok());
        // Who asks for exactly that path means it.
        let is_asked_for =
            |path: &Path| matches!(&entry.path, Some(PathMatch::Exact(asked)) if asked == path);
        let is_among = |path: &Path| entry.path.as_ref().is_none_or(|asked| asked.is_match(path.as_str()));
        for path in paths.filter(|path| is_among(path) && !is_asked_for(path)) {
            found.push(RequestMatch { path: Some(PathMatch::Exact(path)), ..entry.clone() });
        }
        found
    }
}
