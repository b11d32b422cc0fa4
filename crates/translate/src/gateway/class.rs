//! Classes whose controller we are, and the parameters that classes and Gateways name.

use std::collections::BTreeMap;

use causeway_api::{GatewayParametersSpec, names};
use serde_json::{Value, json};

use super::kinds::{Gateway, GatewayClass, ObjectRef, ParametersRef};
use super::picture::Status;
use super::status::{Stamp, conditions, fields};
use super::world::World;
use super::{CONTROLLER_NAME, features};
use crate::references::Verdict;

/// A class of ours.
pub(super) struct Class {
    /// Its parameters, or why they can't be had.
    parameters: Result<Parameters, String>,
}

/// Parameters, and where they are from.
#[derive(Clone, Default)]
struct Parameters {
    at: Option<ObjectRef>,
    spec: GatewayParametersSpec,
}

/// Every class of ours by its name.
pub(super) fn classes(world: &World) -> BTreeMap<&str, Class> {
    let ours = world.classes.iter().filter(|(_, class)| class.spec.controller_name == CONTROLLER_NAME);
    ours.map(|(name, class)| (name.as_str(), Class { parameters: of_class(class, world) })).collect()
}

/// Whether a class is there and nothing of ours. One whose controller can't be read may be.
pub(super) fn is_of_others(name: &str, world: &World) -> bool {
    world.classes.get(name).is_some_and(|class| {
        let controller = class.spec.controller_name.as_str();
        controller != CONTROLLER_NAME && !(controller.is_empty() && class.unreadable.is_some())
    })
}

fn of_class(class: &GatewayClass, world: &World) -> Result<Parameters, String> {
    if let Some(why) = &class.unreadable {
        return Err(why.to_string());
    }
    let Some(reference) = &class.spec.parameters_ref else { return Ok(Parameters::default()) };
    let Some(namespace) = &reference.namespace else {
        return Err("spec.parametersRef has no namespace: GatewayParameters are in one".to_owned());
    };
    find(reference, namespace, "spec.parametersRef", world)
}

fn find(reference: &ParametersRef, namespace: &str, path: &str, world: &World) -> Result<Parameters, String> {
    let ParametersRef { group, kind, name, .. } = reference;
    if group != names::GROUP || kind != "GatewayParameters" {
        return Err(format!(
            "{path} names {kind} of group {group}: write kind GatewayParameters of group {}",
            names::GROUP
        ));
    }
    let at = ObjectRef::new(namespace, name);
    match world.parameters.get(&at) {
        Some(found) => Ok(Parameters { at: Some(at), spec: found.spec.clone() }),
        None => Err(format!("{path}: there are no GatewayParameters {at}: create them, or correct the name")),
    }
}

/// The parameters in effect for Gateways, and who uses which.
#[derive(Default)]
pub(super) struct Uses(BTreeMap<ObjectRef, i32>);

impl Uses {
    /// The parameters of a Gateway over those of its class, or why it has none.
    pub(super) fn of(
        &mut self,
        gateway: &Gateway,
        class: &Class,
        world: &World,
    ) -> Result<GatewayParametersSpec, String> {
        let name = &gateway.spec.gateway_class_name;
        let of_class = class.parameters.clone().map_err(|why| format!("GatewayClass {name}: {why}"))?;
        let reference = gateway.spec.infrastructure.as_ref().and_then(|infra| infra.parameters_ref.as_ref());
        let own = match reference {
            Some(reference) => {
                let path = "spec.infrastructure.parametersRef";
                find(reference, &gateway.meta.at.namespace, path, world)?
            }
            None => Parameters::default(),
        };
        for at in of_class.at.iter().chain(&own.at) {
            *self.0.entry(at.clone()).or_default() += 1;
        }
        Ok(own.spec.over(&of_class.spec))
    }

    /// The status of all parameters that somebody uses, or did.
    pub(super) fn statuses(&self, world: &World, now: &str) -> BTreeMap<ObjectRef, Status> {
        let mut made = BTreeMap::new();
        for (at, parameters) in &world.parameters {
            let old = serde_json::to_value(&parameters.status).unwrap_or_default();
            let gateways = self.0.get(at).copied().unwrap_or_default();
            if gateways == 0 && old.is_null() {
                continue;
            }
            let generation = parameters.metadata.generation.unwrap_or_default();
            let said = [("Accepted", Verdict::yes("Accepted", "Gateways are made by these parameters"))];
            let mut status = fields(&old);
            let stamp = Stamp { generation, now };
            status.insert("conditions".to_owned(), conditions(&old["conditions"], &said, &[], stamp));
            status.insert("observedGeneration".to_owned(), generation.into());
            status.insert("gateways".to_owned(), gateways.into());
            made.insert(at.clone(), Status::of(&old, Value::Object(status)));
        }
        made
    }
}

/// The status of a class of ours.
pub(super) fn status(class: &GatewayClass, found: &Class, now: &str) -> Status {
    let accepted = match &found.parameters {
        Ok(_) => Verdict::yes("Accepted", "Gateways of this class are made by Causeway"),
        Err(why) => Verdict::no("InvalidParameters", why),
    };
    let mut status = fields(&class.status);
    let stamp = Stamp { generation: class.meta.generation, now };
    let said = conditions(&class.status["conditions"], &[("Accepted", accepted)], &[], stamp);
    status.insert("conditions".to_owned(), said);
    let supported: Vec<Value> = features::SUPPORTED.iter().map(|name| json!({ "name": name })).collect();
    status.insert("supportedFeatures".to_owned(), Value::Array(supported));
    Status::of(&class.status, Value::Object(status))
}
