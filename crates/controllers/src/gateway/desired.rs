//! The objects that a Gateway should have. Pure: the same picture gives the same children, and what running pods can follow
//! (listeners, routes, certificates) changes no pod, unless ports of nodes are opened.

mod pod;

use std::collections::BTreeMap;

use causeway_api::{
    ExternalTrafficPolicy, GatewayPlan, GatewayPlanSpec, GatewayServiceType, PlanPart, Supply, names,
};
use causeway_translate::{
    gateway::{
        kinds::ObjectRef,
        picture::{GatewayPicture, Port, RequestedAddress},
    },
    gateway_pod::{
        keys::{ENTRY, Keys},
        target_port,
    },
};
use k8s_openapi::{
    ByteString,
    api::{
        apps::v1::Deployment,
        core::v1::{Secret, Service, ServiceAccount, ServicePort, ServiceSpec},
        policy::v1::{PodDisruptionBudget, PodDisruptionBudgetSpec},
        rbac::v1::{Role, RoleBinding},
    },
    apimachinery::pkg::{
        apis::meta::v1::{LabelSelector, ObjectMeta},
        util::intstr::IntOrString,
    },
};
use kube::ResourceExt as _;

use super::{child, settings::Effective};
use crate::{
    framework::{
        apply::Wanted,
        children::ChildKind,
        kinds::{
            DEPLOYMENT, GATEWAY_PLAN, POD_DISRUPTION_BUDGET, ROLE, ROLE_BINDING, SECRET, SERVICE,
            SERVICE_ACCOUNT, SUPPLY,
        },
    },
    planned,
    vlan::{
        access::{OPENSHIFT_CLUSTER_ROLE, bind},
        pod::made_with,
    },
};

/// The children as they should be. Not to be shown: there are keys in it.
pub(crate) struct Desired {
    /// The parts of the plan. They have to be there before the plan names them.
    pub(crate) parts: Vec<Supply>,
    /// The certificates that the plan names.
    pub(crate) secrets: Vec<Secret>,
    /// What all pods sign sessions of clients with.
    session: Secret,
    /// Whom the pods report as.
    pub(crate) service_account: ServiceAccount,
    role: Role,
    role_bindings: Vec<RoleBinding>,
    /// None for a Gateway without a port, which a Service can't be.
    pub(crate) service: Option<Service>,
    /// The pods.
    pub(crate) deployment: Deployment,
    budget: Option<PodDisruptionBudget>,
    plan: GatewayPlan,
}

impl Desired {
    /// What has to be there before the rest: the pods' account and rights, and what a plan names, but for its parts.
    pub(crate) fn foundation(&self) -> Vec<Wanted> {
        let mut wanted =
            vec![Wanted::new(SERVICE_ACCOUNT, &self.service_account), Wanted::new(ROLE, &self.role)];
        wanted.extend(self.role_bindings.iter().map(|binding| Wanted::new(ROLE_BINDING, binding)));
        let secrets = self.secrets.iter().chain([&self.session]);
        wanted.extend(secrets.map(|secret| Wanted::new(SECRET, secret)));
        wanted
    }

    /// The kinds and names of the foundation and of the parts.
    pub(crate) fn founded(&self) -> Vec<(ChildKind, String)> {
        let mut names =
            vec![(SERVICE_ACCOUNT, self.service_account.name_any()), (ROLE, self.role.name_any())];
        names.extend(self.role_bindings.iter().map(|binding| (ROLE_BINDING, binding.name_any())));
        let secrets = self.secrets.iter().chain([&self.session]);
        names.extend(secrets.map(|secret| (SECRET, secret.name_any())));
        names.extend(self.parts.iter().map(|part| (SUPPLY, part.name_any())));
        names
    }

    /// The rest. The Service is left out while it can't be had.
    pub(crate) fn rest(&self, has_budgets: bool, with_service: bool) -> Vec<Wanted> {
        let mut wanted =
            vec![Wanted::new(DEPLOYMENT, &self.deployment), Wanted::new(GATEWAY_PLAN, &self.plan)];
        let service = self.service.iter().filter(|_| with_service);
        wanted.extend(service.map(|service| Wanted::new(SERVICE, service)));
        let budget = self.budget.iter().filter(|_| has_budgets);
        wanted.extend(budget.map(|budget| Wanted::new(POD_DISRUPTION_BUDGET, budget)));
        wanted
    }

    /// Makes the pods with this account, by its uid: the token of another one of the same name is void.
    pub(crate) fn set_account(&mut self, uid: &str) {
        let template = self.deployment.spec.as_mut().map(|spec| &mut spec.template);
        if let Some(metadata) = template.map(|template| template.metadata.get_or_insert_default()) {
            metadata.annotations.get_or_insert_default().extend(made_with(Some(uid)));
        }
    }

    /// Makes the pods of this image.
    pub(crate) fn set_image(&mut self, image: &str) {
        let template = self.deployment.spec.as_mut().and_then(|spec| spec.template.spec.as_mut());
        for container in template.into_iter().flat_map(|pod| &mut pod.containers) {
            container.image = Some(image.to_owned());
        }
    }
}

/// A Gateway and what it is made by.
pub(crate) struct Subject<'a> {
    /// The Gateway.
    pub(crate) at: &'a ObjectRef,
    /// What it runs and needs.
    pub(crate) picture: &'a GatewayPicture,
    /// How.
    pub(crate) effective: &'a Effective,
    /// Whether pods need OpenShift's consent.
    pub(crate) openshift: bool,
    /// The address that its Service is to have; none if any will do.
    pub(crate) address: Option<&'a str>,
    /// What its pods sign sessions of clients with.
    pub(crate) session_key: &'a SessionKey,
}

/// What sessions are signed with.
pub(crate) type SessionKey = [u8; 32];
/// The entry of the Secret with it.
pub(crate) const SESSION_ENTRY: &str = "key";

/// The Secret with what sessions are signed with, of the Gateway whose children have this name.
pub(crate) fn session_name(name: &str) -> String {
    format!("{name}-session")
}

impl Subject<'_> {
    /// Everything, with the plan in these parts.
    pub(crate) fn desired(&self, parts: &[PlanPart]) -> Desired {
        let name = child::name(&self.at.name);
        let secrets = self.secrets(&name);
        Desired {
            parts: planned::supplies(&name, parts),
            session: self.session(&name),
            service_account: ServiceAccount { metadata: self.metadata(&name), ..ServiceAccount::default() },
            role: self.role(&name, &secrets),
            role_bindings: self.role_bindings(&name),
            service: self.service(&name),
            deployment: pod::deployment(self, &name),
            budget: (self.effective.replicas > 1).then(|| self.budget(&name)),
            plan: GatewayPlan {
                metadata: self.metadata(&name),
                spec: GatewayPlanSpec {
                    gateway: self.at.name.clone(),
                    gateway_generation: self.picture.generation,
                    parts: parts.iter().map(|part| part.digest.clone()).collect(),
                    certificates: secrets.iter().map(Secret::name_any).collect(),
                },
                status: None,
            },
            secrets,
        }
    }

    /// Those of the Gateway's infrastructure, and ours, which nobody can take away.
    fn labels(&self) -> BTreeMap<String, String> {
        let mut labels = self.picture.labels.clone();
        labels.extend(self.selector());
        labels.insert(names::LABEL_OWNER_KIND.to_owned(), "Gateway".to_owned());
        labels.insert(names::LABEL_GATEWAY_NAME.to_owned(), child::label(&self.at.name));
        labels
    }

    /// What finds the pods of this Gateway and of no other.
    fn selector(&self) -> BTreeMap<String, String> {
        BTreeMap::from([
            (names::LABEL_APP.to_owned(), names::APP_GATEWAY.to_owned()),
            (names::LABEL_OWNER_NAME.to_owned(), child::name(&self.at.name)),
        ])
    }

    fn metadata(&self, name: &str) -> ObjectMeta {
        let annotations = self.picture.annotations.clone();
        ObjectMeta {
            name: Some(name.to_owned()),
            labels: Some(self.labels()),
            annotations: (!annotations.is_empty()).then_some(annotations),
            ..ObjectMeta::default()
        }
    }

    fn secrets(&self, name: &str) -> Vec<Secret> {
        let secret = |(index, text): (usize, String)| Secret {
            metadata: self.metadata(&format!("{name}-{index}")),
            type_: Some("Opaque".to_owned()),
            data: Some([(ENTRY.to_owned(), ByteString(text.into_bytes()))].into()),
            ..Secret::default()
        };
        Keys::from(self.picture).texts().into_iter().enumerate().map(secret).collect()
    }

    fn session(&self, name: &str) -> Secret {
        Secret {
            metadata: self.metadata(&session_name(name)),
            type_: Some("Opaque".to_owned()),
            data: Some([(SESSION_ENTRY.to_owned(), ByteString(self.session_key.to_vec()))].into()),
            ..Secret::default()
        }
    }

    fn role(&self, name: &str, secrets: &[Secret]) -> Role {
        let secrets: Vec<String> = secrets.iter().map(Secret::name_any).collect();
        Role { metadata: self.metadata(name), rules: Some(planned::rules(name, &secrets)) }
    }

    fn role_bindings(&self, name: &str) -> Vec<RoleBinding> {
        let to = (self.at.namespace.as_str(), name);
        let mut bindings = vec![bind(self.metadata(name), ("Role", name), to)];
        if self.openshift {
            let metadata = self.metadata(&format!("{name}-nonroot-scc"));
            bindings.push(bind(metadata, ("ClusterRole", OPENSHIFT_CLUSTER_ROLE), to));
        }
        bindings
    }

    fn service(&self, name: &str) -> Option<Service> {
        let parameters = &self.picture.parameters;
        let type_ = self.effective.service_type;
        let port = |port: &Port| {
            let protocol = port.protocol.as_str();
            ServicePort {
                name: Some(format!("{}-{}", protocol.to_ascii_lowercase(), port.number)),
                port: i32::from(port.number),
                protocol: Some(protocol.to_owned()),
                target_port: Some(IntOrString::Int(i32::from(target_port(port.number)))),
                ..ServicePort::default()
            }
        };
        let ports: Vec<_> = self.picture.ports.iter().map(port).collect();
        let is_balanced = type_ == GatewayServiceType::LoadBalancer;
        let reaches_out = type_ != GatewayServiceType::ClusterIP;
        let policy = parameters.external_traffic_policy.filter(|_| reaches_out).map(|policy| match policy {
            ExternalTrafficPolicy::Cluster => "Cluster".to_owned(),
            ExternalTrafficPolicy::Local => "Local".to_owned(),
        });
        let address = self.address.map(ToOwned::to_owned);
        (!ports.is_empty()).then(|| Service {
            metadata: self.metadata(name),
            spec: Some(ServiceSpec {
                type_: Some(word(type_).to_owned()),
                selector: Some(self.selector()),
                ports: Some(ports),
                cluster_ip: address.clone().filter(|_| !is_balanced),
                load_balancer_ip: address.filter(|_| is_balanced),
                load_balancer_class: parameters.load_balancer_class.clone().filter(|_| is_balanced),
                external_traffic_policy: policy,
                ..ServiceSpec::default()
            }),
            ..Service::default()
        })
    }

    fn budget(&self, name: &str) -> PodDisruptionBudget {
        let selector = LabelSelector { match_labels: Some(self.selector()), ..LabelSelector::default() };
        PodDisruptionBudget {
            metadata: self.metadata(name),
            spec: Some(PodDisruptionBudgetSpec {
                max_unavailable: Some(IntOrString::Int(1)),
                selector: Some(selector),
                // A pod that does not serve is not missed.
                unhealthy_pod_eviction_policy: Some("AlwaysAllow".to_owned()),
                ..PodDisruptionBudgetSpec::default()
            }),
            ..PodDisruptionBudget::default()
        }
    }
}

/// As Kubernetes writes it.
fn word(type_: GatewayServiceType) -> &'static str {
    match type_ {
        GatewayServiceType::ClusterIP => "ClusterIP",
        GatewayServiceType::NodePort => "NodePort",
        GatewayServiceType::LoadBalancer => "LoadBalancer",
    }
}

/// The addresses that a Gateway asks for by value.
pub(crate) fn asked(picture: &GatewayPicture) -> impl Iterator<Item = &str> {
    picture.addresses.iter().filter_map(|address| match address {
        RequestedAddress::This(address) => Some(address.value.as_str()),
        RequestedAddress::Any(_) => None,
    })
}

#[cfg(test)]
mod tests;
