//! The gateways of the pool as they should be: a listener for each name, which takes the routes of its holder's namespace and of
//! no other.

use std::collections::{BTreeMap, BTreeSet};

use causeway_api::{Visibility, names};
use serde_json::{Value, json};

use super::case::Case;
use super::name::Hostname;
use super::order::Proof;
use super::pool::is_alb;
use super::world::{Settings, World};

/// Marks what was made for hostnames.
pub const COMPONENT: &str = "hostnames";
/// How the AWS Load Balancer Controller was told of certificates in earlier versions.
const ALB_CERTIFICATES: &str = "alb.ingress.kubernetes.io/certificate-arn";
/// The name of the listener for HTTP.
const HTTP: &str = "http";

/// A gateway as it should be.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct DesiredGateway {
    /// Its name.
    pub name: String,
    /// Whether it is one of the pool; somebody's own is given ListenerSets only.
    pub is_ours: bool,
    /// Its class.
    pub class: String,
    /// Whether load balancers of AWS are behind that.
    pub is_alb: bool,
    /// How widely it is seen.
    pub visibility: Visibility,
    /// The web application firewall that it has.
    pub waf: Option<String>,
    /// Its listeners for hostnames.
    pub entries: BTreeMap<Hostname, Entry>,
    /// Answers that prove names: host, path and body.
    pub proofs: Vec<(String, String, String)>,
}

/// A listener for a hostname.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// The Secret or the ARN of its certificate.
    pub certificate: String,
    /// Whose routes it takes.
    pub namespace: String,
    /// The number of the ListenerSet that it is in; 0 for the Gateway itself. Routes name the one or the other, so it stays.
    pub set: usize,
}

/// The gateways as they should be. One that is not here should go.
pub(super) fn desired(world: &World, cases: &BTreeMap<String, Case>) -> BTreeMap<String, DesiredGateway> {
    let mut gateways: BTreeMap<String, DesiredGateway> = BTreeMap::new();
    for case in cases.values() {
        keep(world, case, &mut gateways);
    }
    for case in cases.values() {
        let Some(name) = case.proving_gateway(world) else { continue };
        let gateway = entry(name, case, world, &mut gateways);
        if let Some(order) = case.certificate.serve.as_ref().filter(|_| case.gateway.is_some()) {
            for name in &case.names {
                let (certificate, namespace) = (order.reference().to_owned(), case.at.namespace.clone());
                let listener = Entry { certificate, namespace, set: 0 };
                gateway.entries.insert(name.clone(), listener);
            }
        }
        for proof in case.certificate.pending.iter().flat_map(|order| &order.proofs) {
            if let Proof::Http { host, path, body } = proof {
                gateway.proofs.push((host.clone(), path.clone(), body.clone()));
            }
        }
    }
    for gateway in gateways.values_mut() {
        gateway.arrange(world);
    }
    gateways
}

/// What a case has on gateways and still needs, though it no longer asks for it: somebody may yet be led there.
fn keep(world: &World, case: &Case, gateways: &mut BTreeMap<String, DesiredGateway>) {
    for (name, member) in &world.gateways {
        for held in &case.held {
            let Some(listening) = member.listeners.get(&held.name) else { continue };
            if listening.namespace != case.at.namespace {
                continue;
            }
            let is_moved =
                case.names.contains(&held.name) && case.gateway.as_ref() != Some(name) && case.is_ready();
            if case.dropped.contains(&held.name) || is_moved {
                continue;
            }
            let gateway = existing(name, world, gateways);
            // What is renewed meanwhile is served.
            let renewed = case.certificate.serve.as_ref().filter(|order| {
                let is_arn = order.issued.as_ref().is_some_and(|issued| issued.arn.is_some());
                is_arn == gateway.is_alb && order.names.iter().any(|name| name == held.name.as_str())
            });
            let certificate = renewed.map_or(listening.certificate.as_str(), |order| order.reference());
            let namespace = listening.namespace.clone();
            let listener = Entry { certificate: certificate.to_owned(), namespace, set: 0 };
            gateway.entries.insert(held.name.clone(), listener);
        }
    }
}

fn existing<'a>(
    name: &str,
    world: &World,
    gateways: &'a mut BTreeMap<String, DesiredGateway>,
) -> &'a mut DesiredGateway {
    gateways.entry(name.to_owned()).or_insert_with(|| {
        let member = world.gateways.get(name).cloned().unwrap_or_default();
        DesiredGateway {
            name: name.to_owned(),
            is_ours: member.is_ours,
            is_alb: is_alb(&member.class, world),
            class: member.class,
            visibility: member.visibility,
            waf: member.waf,
            ..DesiredGateway::default()
        }
    })
}

fn entry<'a>(
    name: &str,
    case: &Case,
    world: &World,
    gateways: &'a mut BTreeMap<String, DesiredGateway>,
) -> &'a mut DesiredGateway {
    if world.gateways.contains_key(name) {
        return existing(name, world, gateways);
    }
    gateways.entry(name.to_owned()).or_insert_with(|| {
        let class = case.class();
        DesiredGateway {
            name: name.to_owned(),
            is_ours: true,
            is_alb: is_alb(&class, world),
            class,
            visibility: case.visibility(),
            waf: case.request.as_ref().and_then(|request| request.spec.waf_arn.clone()),
            ..DesiredGateway::default()
        }
    })
}

impl DesiredGateway {
    /// Gives each listener its place: the one that it has, or else the first with room.
    fn arrange(&mut self, world: &World) {
        let settings = &world.settings;
        let http = usize::from(settings.http_port.is_some());
        let first = if self.is_ours { settings.most_listeners.saturating_sub(http) } else { 0 };
        let room = |set: usize| if set == 0 { first } else { settings.most_listeners.max(1) };
        let mut taken: BTreeMap<usize, usize> = BTreeMap::new();
        let member = world.gateways.get(&self.name);
        let mut homeless = Vec::new();
        for (name, entry) in &mut self.entries {
            let there = member.and_then(|member| member.listeners.get(name)).map(|listening| listening.set);
            match there.filter(|set| taken.get(set).copied().unwrap_or_default() < room(*set)) {
                Some(set) => {
                    *taken.entry(set).or_default() += 1;
                    entry.set = set;
                }
                None => homeless.push(entry),
            }
        }
        for entry in homeless {
            let mut sets = 0..;
            let free = sets.find(|set| taken.get(set).copied().unwrap_or_default() < room(*set));
            entry.set = free.unwrap_or_default();
            *taken.entry(entry.set).or_default() += 1;
        }
        // A Gateway has a listener of its own.
        if http == 0 && first > 0 && !taken.contains_key(&0) {
            self.entries.values_mut().take(1).for_each(|entry| entry.set = 0);
        }
    }

    /// The Gateway; none while it would have no listener, or where it is somebody's own.
    pub fn gateway(&self, settings: &Settings) -> Option<Value> {
        let mut listeners: Vec<Value> = settings.http_port.map(http_listener).into_iter().collect();
        listeners.extend(self.of_set(0).map(|(name, entry)| self.listener(name, entry, settings)));
        if listeners.is_empty() || !self.is_ours {
            return None;
        }
        let mut annotations = serde_json::Map::new();
        if let Some(waf) = &self.waf {
            annotations.insert(names::ANNOTATION_WAF.to_owned(), json!(waf));
        }
        let mut spec = json!({
            "gatewayClassName": self.class,
            "listeners": listeners,
            // More of them are in sets beside it.
            "allowedListeners": {"namespaces": {"from": "Same"}},
        });
        if self.is_alb {
            annotations.insert(ALB_CERTIFICATES.to_owned(), json!(self.certificates().join(",")));
            spec["infrastructure"] = json!({"parametersRef": {
                "group": "gateway.k8s.aws", "kind": "LoadBalancerConfiguration", "name": self.configuration_name(),
            }});
        }
        Some(json!({
            "apiVersion": "gateway.networking.k8s.io/v1", "kind": "Gateway",
            "metadata": {
                "name": self.name, "namespace": settings.edge_namespace,
                "labels": {
                    names::LABEL_COMPONENT: COMPONENT,
                    names::LABEL_VISIBILITY: visibility(self.visibility),
                },
                "annotations": annotations,
            },
            "spec": spec,
        }))
    }

    /// The ListenerSets with what does not fit into the Gateway.
    pub fn listener_sets(&self, settings: &Settings) -> Vec<Value> {
        let numbers: BTreeSet<usize> =
            self.entries.values().map(|entry| entry.set).filter(|set| *set > 0).collect();
        let set = |number: usize| {
            let listeners: Vec<Value> =
                self.of_set(number).map(|(name, entry)| self.listener(name, entry, settings)).collect();
            json!({
                "apiVersion": "gateway.networking.k8s.io/v1", "kind": "ListenerSet",
                "metadata": {
                    "name": set_name(&self.name, number), "namespace": settings.edge_namespace,
                    "labels": {names::LABEL_COMPONENT: COMPONENT, names::LABEL_GATEWAY_NAME: self.name},
                },
                "spec": {
                    "parentRef": {"group": "gateway.networking.k8s.io", "kind": "Gateway", "name": self.name},
                    "listeners": listeners,
                },
            })
        };
        numbers.into_iter().map(set).collect()
    }

    /// How the AWS Load Balancer Controller is told of certificates and of the firewall.
    pub fn load_balancer_configuration(&self, settings: &Settings) -> Option<Value> {
        if !(self.is_alb && self.is_ours) {
            return None;
        }
        let mut listeners = Vec::new();
        if let Some((first, rest)) = self.certificates().split_first() {
            listeners.push(json!({
                "protocolPort": format!("HTTPS:{}", settings.https_port),
                "defaultCertificate": first, "certificates": rest,
            }));
        }
        listeners.extend(settings.http_port.map(|port| json!({"protocolPort": format!("HTTP:{port}")})));
        let mut spec = json!({"scheme": visibility(self.visibility), "listenerConfigurations": listeners});
        if let Some(waf) = &self.waf {
            spec["wafV2"] = json!({"webACL": waf});
        }
        Some(json!({
            "apiVersion": "gateway.k8s.aws/v1beta1", "kind": "LoadBalancerConfiguration",
            "metadata": {
                "name": self.configuration_name(), "namespace": settings.edge_namespace,
                "labels": {names::LABEL_COMPONENT: COMPONENT, names::LABEL_GATEWAY_NAME: self.name},
            },
            "spec": spec,
        }))
    }

    /// What leads clients of HTTP to TLS.
    pub fn redirect(&self, settings: &Settings) -> Option<Value> {
        settings.http_port?;
        if !self.is_ours {
            return None;
        }
        let mut redirect = json!({"scheme": "https", "statusCode": 301});
        if settings.https_port != 443 {
            redirect["port"] = json!(settings.https_port);
        }
        Some(json!({
            "apiVersion": "gateway.networking.k8s.io/v1", "kind": "HTTPRoute",
            "metadata": {
                "name": format!("{}-redirect", self.name), "namespace": settings.edge_namespace,
                "labels": {names::LABEL_COMPONENT: COMPONENT, names::LABEL_GATEWAY_NAME: self.name},
            },
            "spec": {
                "parentRefs": [{"name": self.name, "sectionName": HTTP}],
                "rules": [{"filters": [{"type": "RequestRedirect", "requestRedirect": redirect}]}],
            },
        }))
    }

    /// Answers to those who look whether names are ours, on the way that is open to everybody.
    pub fn proof_routes(&self, settings: &Settings) -> Vec<Value> {
        // Somebody's own has a name of its own for the listener.
        let parent = if self.is_ours {
            json!({"name": self.name, "sectionName": HTTP})
        } else {
            json!({"name": self.name, "port": settings.http_port})
        };
        let route = |(host, path, _): &(String, String, String)| {
            json!({
                "apiVersion": "gateway.networking.k8s.io/v1", "kind": "HTTPRoute",
                "metadata": self.proof_metadata(host, path, settings),
                "spec": {
                    "parentRefs": [parent],
                    "hostnames": [host],
                    "rules": [{"matches": [{"path": {"type": "Exact", "value": path}}]}],
                },
            })
        };
        self.proofs.iter().map(route).collect()
    }

    /// What those answers say.
    pub fn proof_answers(&self, settings: &Settings) -> Vec<Value> {
        let answer = |(host, path, body): &(String, String, String)| {
            let metadata = self.proof_metadata(host, path, settings);
            json!({
                "apiVersion": names::API_VERSION, "kind": "TrafficPolicy",
                "metadata": metadata,
                "spec": {
                    "targetRefs": [{
                        "group": "gateway.networking.k8s.io", "kind": "HTTPRoute", "name": metadata["name"],
                    }],
                    "directResponse": {"status": 200, "body": body},
                },
            })
        };
        self.proofs.iter().map(answer).collect()
    }

    fn proof_metadata(&self, host: &str, path: &str, settings: &Settings) -> Value {
        let digest = super::claims::claim_name(path, &Hostname::trusted(host));
        json!({
            "name": format!("{}-proof.{digest}", self.name), "namespace": settings.edge_namespace,
            "labels": {names::LABEL_COMPONENT: COMPONENT, names::LABEL_GATEWAY_NAME: self.name},
        })
    }

    /// The ARNs, sorted, each once.
    fn certificates(&self) -> Vec<&str> {
        let mut all: Vec<&str> = self.entries.values().map(|entry| entry.certificate.as_str()).collect();
        all.sort_unstable();
        all.dedup();
        all
    }

    fn configuration_name(&self) -> String {
        format!("{}-config", self.name)
    }

    /// What is in a ListenerSet, or in the Gateway itself.
    fn of_set(&self, number: usize) -> impl Iterator<Item = (&Hostname, &Entry)> {
        self.entries.iter().filter(move |(_, entry)| entry.set == number)
    }

    fn listener(&self, name: &Hostname, entry: &Entry, settings: &Settings) -> Value {
        let mut listener = json!({
            "name": section(name),
            "hostname": name.as_str(),
            "port": settings.https_port,
            "protocol": "HTTPS",
            "allowedRoutes": {"namespaces": {
                "from": "Selector",
                "selector": {"matchLabels": {NAMESPACE_NAME: entry.namespace}},
            }},
        });
        listener["tls"] = if self.is_alb {
            // Not for the controller, which reads the configuration: so that it can be seen which one is whose.
            json!({"mode": "Terminate", "options": {CERTIFICATE_OPTION: entry.certificate}})
        } else {
            json!({
                "mode": "Terminate",
                "certificateRefs": [{"group": "", "kind": "Secret", "name": entry.certificate}],
            })
        };
        listener
    }
}

/// The name of a ListenerSet of a Gateway.
pub fn set_name(gateway: &str, number: usize) -> String {
    format!("{gateway}-{number}")
}

/// The number in that; 0 if there is none.
pub fn set_number(gateway: &str, set: &str) -> usize {
    let number = set.strip_prefix(gateway).and_then(|rest| rest.strip_prefix('-')?.parse().ok());
    number.unwrap_or_default()
}

/// The option of a listener with the certificate's ARN.
pub const CERTIFICATE_OPTION: &str = "causeway.dev/certificate-arn";
/// The label that a namespace can't change.
pub const NAMESPACE_NAME: &str = "kubernetes.io/metadata.name";

fn http_listener(port: u16) -> Value {
    json!({
        "name": HTTP, "port": port, "protocol": "HTTP",
        // Nobody answers in plain text for names that have a certificate.
        "allowedRoutes": {"namespaces": {"from": "Same"}},
    })
}

fn visibility(visibility: Visibility) -> &'static str {
    match visibility {
        Visibility::InternetFacing => "internet-facing",
        Visibility::Internal => "internal",
    }
}

/// Reads what [`DesiredGateway::gateway`] wrote.
pub fn read_visibility(text: Option<&str>) -> Visibility {
    if text == Some("internal") { Visibility::Internal } else { Visibility::InternetFacing }
}

/// The name of a listener; no two hostnames have the same.
fn section(name: &Hostname) -> String {
    let front = if name.is_wildcard() { "below" } else { "exact" };
    format!("{front}.{}", name.base())
}
