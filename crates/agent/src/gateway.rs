//! Gateways: what one pod of a Gateway runs and reports. The operator makes the plan, from more than a pod may see; the pod
//! puts its parts together, listens on its own address, and has the certificates that the plan names.

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::sync::Mutex;

use causeway_api::{GatewayPlan, GatewayPlanSpec, GatewayReplica};
use causeway_base::lock::lock;
use causeway_ir::{Action, Listener, Name, Plan, Problem, Transport};
use causeway_translate::gateway_pod::keys::{ENTRY, Keys};
use causeway_translate::gateway_pod::{parts, target_port};
use serde_json::Value;

use crate::followed::{Followed, Needs, State, Surroundings};
use crate::runner::Snapshot;
use crate::standing::Standing;

/// One pod of a Gateway.
pub struct Gateway {
    /// The pod that reports.
    pod: String,
    /// The address that it listens on.
    pod_ip: IpAddr,
    /// Its addresses of other families, on which it listens, too.
    further: Vec<IpAddr>,
    /// Where it listens for a port of its plan.
    target_port: fn(u16) -> u16,
    /// Told of the certificates that plans name, each time before a plan that names others.
    follow_keys: Box<dyn Fn(&Keys) + Send + Sync>,
    /// What was told last.
    told: Mutex<Option<Keys>>,
}

impl Gateway {
    /// The pod of this name and address; `follow_keys` is told of certificates.
    pub fn new(pod: String, pod_ip: IpAddr, follow_keys: Box<dyn Fn(&Keys) + Send + Sync>) -> Self {
        Self { pod, pod_ip, further: Vec::new(), target_port, follow_keys, told: Mutex::default() }
    }

    /// The same, which listens on these addresses, too.
    #[must_use]
    pub fn also_on(mut self, addresses: Vec<IpAddr>) -> Self {
        self.further = addresses;
        self
    }

    /// The same for a carrier, whose ports are those of its plan: it is told others for itself.
    pub fn carrier(pod: String, pod_ip: IpAddr, follow_keys: Box<dyn Fn(&Keys) + Send + Sync>) -> Self {
        Self { target_port: |port| port, ..Self::new(pod, pod_ip, follow_keys) }
    }

    /// Tells of what is in the Secrets. What they had before stays with it for as long as something may name it: a Secret and
    /// a plan that change together come one after the other.
    fn tell(&self, surroundings: &Surroundings, plan: &Plan, running: Option<&Plan>) {
        let mut keys = Keys::default();
        for text in surroundings.secrets.values().filter_map(|secret| secret.get(ENTRY)) {
            match Keys::read(&text.0) {
                Ok(more) => keys.extend(more),
                Err(error) => {
                    tracing::warn!(%error, "certificates can't be read, as if they were of another version");
                }
            }
        }
        let mut told = lock(&self.told);
        if let Some(mut before) = told.clone() {
            let mut named = names(plan);
            named.extend(running.map(names).unwrap_or_default());
            before.certificates.retain(|name, _| named.contains(name));
            before.authorities.retain(|name, _| named.contains(name));
            keys.extend(before);
        }
        if told.as_ref() != Some(&keys) {
            (self.follow_keys)(&keys);
            *told = Some(keys);
        }
    }

    fn entry(&self, state: &State<Self>, carried: &Snapshot<Plan>) -> GatewayReplica {
        let Standing { refused, trouble, serving } = Standing::of(state, carried);
        GatewayReplica {
            name: self.pod.clone(),
            observed_generation: state.generation,
            running_generation: state.running,
            gateway_generation: state.notes,
            serving,
            listening: carried.listening.clone(),
            refused,
            trouble,
        }
    }
}

/// The certificates and authorities that a plan names.
fn names(plan: &Plan) -> BTreeSet<String> {
    let mut named = BTreeSet::new();
    for (_, action) in plan.listeners.iter().flat_map(Listener::actions) {
        if let Action::Terminate(terminate) = action {
            let asked = terminate.client_certificates.iter().map(|asked| &asked.authorities);
            named.extend(terminate.certificates.iter().chain(asked).map(|name| name.0.to_string()));
        }
    }
    for cluster in &plan.clusters {
        if let Transport::Tls(tls) = &cluster.transport {
            named.extend(tls.authorities.iter().chain(&tls.certificate).map(|name| name.0.to_string()));
        }
    }
    named
}

impl Followed for Gateway {
    type Object = GatewayPlan;
    type Checked = GatewayPlanSpec;
    type Plan = Plan;
    /// The Gateway's generation that the plan was made of.
    type Notes = Option<i64>;

    const IS_SUPPLIED: bool = true;

    fn check(&self, object: &GatewayPlan) -> Result<GatewayPlanSpec, Vec<Problem>> {
        Ok(object.spec.clone())
    }

    fn needs(&self, object: &GatewayPlanSpec) -> Needs {
        Needs {
            secrets: object.certificates.iter().cloned().collect(),
            parts: object.parts.clone(),
            ..Needs::default()
        }
    }

    /// Parts come one by one, and count together. A plan has one at least: without any, nobody has said yet what to run.
    fn is_cleared(&self, object: &GatewayPlanSpec, surroundings: &Surroundings, _: Option<&Plan>) -> bool {
        !object.parts.is_empty() && object.parts.iter().all(|part| surroundings.parts.contains_key(part))
    }

    fn plan(
        &self,
        object: &GatewayPlanSpec,
        surroundings: &Surroundings,
        running: Option<&Plan>,
    ) -> Result<(Plan, Option<i64>), Vec<Problem>> {
        let refused = |message: String| vec![Problem { path: "spec.parts".to_owned(), message }];
        let text = |digest: &String| Some(surroundings.parts.get(digest)?.spec.plan.as_ref()?.text.as_str());
        let texts: Option<Vec<&str>> = object.parts.iter().map(text).collect();
        let Some(texts) = texts else {
            return Err(refused("some parts of the plan are not there".to_owned()));
        };
        let mut plan = parts::join(texts.into_iter()).map_err(|error| refused(error.to_string()))?;
        for listener in &mut plan.listeners {
            listener.bind.set_ip(self.pod_ip);
            let port = listener.bind.port();
            listener.bind.set_port((self.target_port)(port));
            // Clients know another one then.
            listener.port = (listener.bind.port() != port).then_some(port);
        }
        let first = plan.listeners.clone();
        for address in self.further.iter().filter(|address| **address != self.pod_ip) {
            plan.listeners.extend(first.iter().filter_map(|listener| {
                let mut listener = listener.clone();
                listener.name = Name::parse(&format!("{} on {address}", listener.name)).ok()?;
                listener.bind.set_ip(*address);
                Some(listener)
            }));
        }
        let problems = match running {
            Some(running) => plan.validate_after(running),
            None => plan.validate(),
        };
        if !problems.is_empty() {
            return Err(problems);
        }
        self.tell(surroundings, &plan, running);
        Ok((plan, Some(object.gateway_generation)))
    }

    fn report(&self, state: &State<Self>, carried: &Snapshot<Plan>) -> Value {
        serde_json::to_value(self.entry(state, carried)).unwrap_or_default()
    }

    fn reported(&self, object: &GatewayPlan) -> Option<Value> {
        let entry = object.status.as_ref()?.replicas.iter().find(|entry| entry.name == self.pod)?;
        serde_json::to_value(entry).ok()
    }
}

#[cfg(test)]
mod tests;
