//! The names of a `DNSServer`, asked from both sides: clients of the isolated network are led to the proxy, those of the pod
//! network past it.

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};

use causeway_api::DNSServer;
use causeway_ir::Pattern;
use causeway_ir::dns::{DnsPlan, View};
use causeway_translate::dns::{Facts, Internal, Valid, translate, validate};
use k8s_openapi::api::core::v1::Service;
use kube::{Api, Client};

use crate::commands::doctor::finding::{Finding, listed};
use crate::commands::doctor::vantage::Vantage;
use crate::parts::dns_question::{Answer, ask};
use crate::parts::refusal;

/// Names of each side that are asked for.
const MOST: usize = 256;
const FIREWALL: &str = "see whether its pod runs and is ready, and whether a firewall is between";

/// What is asked of a server.
pub(super) struct Names {
    plan: DnsPlan,
    server: SocketAddr,
    /// The Service in front of it.
    service: Option<SocketAddr>,
}

impl Names {
    /// Of an object whose spec can be run.
    pub(super) async fn of(client: &Client, object: &DNSServer) -> Result<Self, Finding> {
        let valid = validate(object).map_err(|problems| {
            let first = problems.first().map(|problem| format!("{}: {}", problem.path, problem.message));
            Finding::bad("the DNSServer's spec is not valid", first.unwrap_or_default())
        })?;
        let internal = internal(client, &valid).await?;
        let plan = translate(&valid, &[], &Facts { internal, leases: Vec::new() });
        let status = object.status.clone().unwrap_or_default();
        let service = status.service_cluster_ip.and_then(|ip| ip.parse().ok());
        Ok(Self {
            plan,
            server: SocketAddr::new(valid.server, valid.port),
            service: service.map(|ip| SocketAddr::new(ip, valid.port)),
        })
    }

    /// From the isolated network, and from here.
    pub(super) async fn ask(&self, vantage: Option<&Vantage>, is_one_machine: bool) -> Vec<Finding> {
        let [isolated, pods] = self.plan.views.as_slice() else { return Vec::new() };
        let mut found = Vec::new();
        match vantage {
            Some(vantage) => {
                let side = format!("on the network (from pod {})", vantage.pod);
                match vantage.work(|| asked(self.server, isolated, &side)) {
                    Ok(answers) => found.extend(answers),
                    Err(error) => found.push(Finding::unchecked(format!("names on the network: {error}"))),
                }
            }
            None => found.push(Finding::unchecked(
                "names were not asked for on the isolated network: `causeway doctor` does that as root, on the machine of \
                 `causeway up`",
            )),
        }
        match self.service {
            Some(service) => {
                let answers = asked(service, pods, "for pods").await;
                let is_out_of_reach = |finding: &Finding| !is_one_machine && finding.is_bad();
                if answers.iter().any(is_out_of_reach) {
                    found.push(Finding::unchecked(format!("{service} can't be asked from here")));
                } else {
                    found.extend(answers);
                }
            }
            None => found.push(Finding::skipped("the DNSServer has no Service for pods yet")),
        }
        found
    }
}

/// The addresses of the Service that pods are led to.
async fn internal(client: &Client, valid: &Valid) -> Result<Vec<IpAddr>, Finding> {
    let Some(Internal::Service(reference)) = &valid.internal else { return Ok(Vec::new()) };
    let api: Api<Service> = Api::namespaced(client.clone(), &reference.namespace);
    let service =
        api.get_opt(&reference.name).await.map_err(|error| Finding::unchecked(refusal::words(&error)))?;
    let Some(service) = service else {
        return Err(Finding::bad(
            format!("there is no Service {reference}, which pods should be led to"),
            "create it, or correct internalProxyService",
        ));
    };
    let spec = service.spec.unwrap_or_default();
    let mut all: Vec<IpAddr> =
        spec.cluster_ips.unwrap_or_default().iter().filter_map(|ip| ip.parse().ok()).collect();
    if all.is_empty() {
        all.extend(spec.cluster_ip.and_then(|ip| ip.parse::<IpAddr>().ok()));
    }
    Ok(all)
}

/// Asks for each name of a view; a line for each that is answered wrong, and one for all others.
async fn asked(server: SocketAddr, view: &View, side: &str) -> Vec<Finding> {
    let mut expected: BTreeMap<String, Vec<IpAddr>> = BTreeMap::new();
    for record in view.zones.iter().flat_map(|zone| &zone.records) {
        let name = match &record.name {
            Pattern::Exact(name) => name.clone(),
            Pattern::Below(domain) => format!("causeway-doctor.{domain}"),
        };
        expected.entry(name).or_default().extend(&record.addresses);
    }
    let (mut found, mut well) = (Vec::new(), Vec::new());
    for (name, mut addresses) in expected.into_iter().take(MOST) {
        addresses.sort();
        let ipv6 = addresses.iter().all(IpAddr::is_ipv6);
        addresses.retain(|address| address.is_ipv6() == ipv6);
        let wanted = text(&addresses);
        match ask(server, &name, ipv6).await {
            Ok(Answer::Addresses(got)) if got == addresses => well.push(format!("{name} ({wanted})")),
            Ok(Answer::Addresses(got)) => found.push(Finding::bad(
                format!("{name} is {} {side}, and should be {wanted}", text(&got)),
                "the server has not taken the newest spec, or another one answers there: see its status and its log",
            )),
            Ok(Answer::Refused(code)) => found.push(Finding::bad(
                format!("{name} is refused {side} (code {code}), and should be {wanted}"),
                "the server has not taken the newest spec: see its status and its log",
            )),
            Ok(Answer::Silence) => {
                // One is enough: the others would be waited for as long.
                found.push(Finding::bad(format!("{server} does not answer {side}"), FIREWALL));
                break;
            }
            Err(error) => {
                found.push(Finding::bad(format!("{server} can't be asked {side}: {error}"), FIREWALL));
                break;
            }
        }
    }
    if !well.is_empty() {
        found.push(Finding::good(format!("{server} answers {side}: {}", listed(&well))));
    }
    found
}

fn text(addresses: &[IpAddr]) -> String {
    let all: Vec<_> = addresses.iter().map(ToString::to_string).collect();
    if all.is_empty() { "without an address".to_owned() } else { all.join(", ") }
}
