//! ValidatingAdmissionPolicies: which are in force, and what they say to a request, as Kubernetes has it.
//!
//! A policy is in force by its bindings. They are kept compiled and by the resource that they are about, so that a
//! request that none is about pays nothing for them; a change of one holds from its write on.

mod access;
mod attempt;
mod compiler;
mod evaluation;
mod matching;
mod params;
mod policy;
#[cfg(test)]
mod tests;
mod verdict;

pub(crate) use attempt::{Act, Attempt, Other};
pub(crate) use compiler::Compiler;

use std::collections::HashMap;
use std::sync::{Arc, Mutex, RwLock};

use causeway_base::lock::{lock, read, write};
use serde_json::Value;

use crate::error::ApiError;
use crate::object;
use crate::server::Server;
use crate::store::{GroupResource, Key, Store, Stored};
use policy::Policy;
use verdict::Verdict;

/// The API group of policies and their bindings.
pub(crate) const GROUP: &str = "admissionregistration.k8s.io";

/// The policies of a server.
#[derive(Default)]
pub(crate) struct Policies {
    current: RwLock<Arc<InForce>>,
    /// Held while they are read anew, so that the last to read is the last to write.
    loading: Mutex<()>,
}

/// The policies of one moment, in the order of their names.
#[derive(Default)]
struct InForce {
    all: Vec<Arc<Policy>>,
    /// By the plural name of a resource that some of them name, with those that are about every resource.
    by_plural: HashMap<String, Vec<Arc<Policy>>>,
    /// Those about every resource.
    everywhere: Vec<Arc<Policy>>,
}

impl InForce {
    fn about(&self, plural: &str) -> &[Arc<Policy>] {
        self.by_plural.get(plural).unwrap_or(&self.everywhere)
    }

    fn load(store: &Store, before: &Self) -> Self {
        let objects = |plural| store.list(&GroupResource::new(GROUP, plural), None).items;
        let mut bindings: HashMap<String, Vec<Value>> = HashMap::new();
        for binding in objects("validatingadmissionpolicybindings").iter().map(|stored| stored.value()) {
            let policy = binding["spec"]["policyName"].as_str().unwrap_or_default().to_owned();
            bindings.entry(policy).or_default().push(binding);
        }
        let mut new = Self::default();
        for stored in objects("validatingadmissionpolicies") {
            let Some(bindings) = bindings.get(&*stored.key.name) else { continue };
            let same = before.all.iter().find(|known| known.is_of(&stored));
            let program = same.map(|known| known.program.clone());
            new.all.push(Arc::new(Policy::new(&stored, program, bindings)));
        }
        for plural in new.all.iter().flat_map(|policy| policy.plurals()) {
            new.by_plural.entry(plural.to_owned()).or_default();
        }
        for policy in &new.all {
            if policy.is_about_everything() {
                new.everywhere.push(policy.clone());
            }
            for (plural, about) in &mut new.by_plural {
                if policy.is_about_everything() || policy.plurals().any(|named| named == plural) {
                    about.push(policy.clone());
                }
            }
        }
        new
    }
}

impl Server {
    /// Reads the policies anew.
    pub(crate) fn load_policies(&self) {
        let _loading = lock(&self.policies.loading);
        let before = read(&self.policies.current).clone();
        let new = InForce::load(&self.store, &before);
        *write(&self.policies.current) = Arc::new(new);
    }

    /// A change of a policy or binding holds from now on.
    pub(crate) fn note_policy_change(&self, stored: &Stored) {
        if &*stored.key.resource.group == GROUP {
            self.load_policies();
        }
    }

    /// Refuses what a policy denies. `attempt` is asked for only if there are policies about the resource; what they
    /// warn of is added to `warnings`.
    pub(crate) fn check_policies<'a>(
        &self,
        plural: &str,
        warnings: &mut Vec<String>,
        attempt: impl FnOnce() -> Attempt<'a>,
    ) -> Result<(), ApiError> {
        let policies = read(&self.policies.current).clone();
        let about = policies.about(plural);
        if about.is_empty() {
            return Ok(());
        }
        let attempt = attempt();
        // Policies can't keep anybody from changing policies.
        if attempt.resource.group == GROUP {
            return Ok(());
        }
        let mut verdict = Verdict::default();
        for policy in about {
            policy.judge(self, &attempt, &mut verdict)?;
        }
        warnings.append(&mut verdict.warnings);
        verdict.denials.into_iter().next().map_or(Ok(()), |denial| Err(denial.into_error(&attempt)))
    }
}

/// A policy as it is stored, whether it is in force or not.
fn policy_of(store: &Store, name: &str) -> Option<Value> {
    let key = Key::new(&GroupResource::new(GROUP, "validatingadmissionpolicies"), "", name);
    store.get(&key).map(|stored| stored.value())
}

/// Completes a policy: that it compiled when it was written is all there is to its status.
pub(super) fn admit(new: &mut Value, old: Option<&Value>) {
    let generation = match old {
        None => 1,
        Some(old) => {
            let changed = old["spec"] != new["spec"];
            old["metadata"]["generation"].as_i64().unwrap_or(1) + i64::from(changed)
        }
    };
    let status = object::map_at(new, "status");
    if status.get("observedGeneration").and_then(Value::as_i64) != Some(generation) {
        status.insert("observedGeneration".into(), generation.into());
        status.insert("typeChecking".into(), Value::Object(serde_json::Map::new()));
    }
}
