use std::sync::Arc;

use causeway_api::{Supply, SupplySpec};
use causeway_translate::gateway_pod::keys::Pair;
use k8s_openapi::ByteString;

use super::*;

const PLAN: &str = r#"{
    "listeners": [
        {"name": "80", "bind": "[::]:80", "protocol": {"http": {}}},
        {"name": "19080", "bind": "[::]:19080", "protocol": {"http": {}}},
        {"name": "443", "bind": "[::]:443", "protocol": {"tls": {"routes": [{
            "name": "a", "serverNames": ["a.test"],
            "action": {"terminate": {"certificates": ["shop/one"], "then": {"http": {}}}}
        }]}}}
    ]
}"#;

fn keys(names: &[&str]) -> Keys {
    let pair = |name: &str| Pair { certificate: name.to_owned(), key: "key".to_owned() };
    Keys {
        certificates: names.iter().map(|name| ((*name).to_owned(), pair(name))).collect(),
        ..Keys::default()
    }
}

/// The parts of a plan, and a Secret with these certificates.
fn surroundings(plan: &str, certificates: &[&str]) -> (GatewayPlanSpec, Surroundings) {
    let plan: Plan = serde_json::from_str(plan).unwrap();
    let mut around = Surroundings::default();
    let mut spec =
        GatewayPlanSpec { gateway: "g".into(), gateway_generation: 3, ..GatewayPlanSpec::default() };
    for part in parts::split(&plan) {
        spec.parts.push(part.digest.clone());
        let supply =
            Supply::new(&part.digest, SupplySpec { plan: Some(part.clone()), ..SupplySpec::default() });
        around.parts.insert(part.digest, Arc::new(supply));
    }
    let text = keys(certificates).texts().pop().unwrap_or_default();
    let secret = [(ENTRY.to_owned(), ByteString(text.into_bytes()))].into();
    around.secrets.insert("keys".into(), Arc::new(secret));
    (spec, around)
}

fn pod() -> (Gateway, Arc<Mutex<Vec<Keys>>>) {
    let told: Arc<Mutex<Vec<Keys>>> = Arc::default();
    let telling = Arc::clone(&told);
    let follow = Box::new(move |keys: &Keys| lock(&telling).push(keys.clone()));
    (Gateway::new("pod-1".into(), "10.0.0.9".parse().unwrap(), follow), told)
}

#[test]
fn listens_on_its_own_address_and_beside_its_own_ports() {
    let (spec, around) = surroundings(PLAN, &["shop/one"]);
    let (plan, generation) = pod().0.plan(&spec, &around, None).unwrap();
    let bound: Vec<String> = plan.listeners.iter().map(|listener| listener.bind.to_string()).collect();
    assert_eq!(bound, ["10.0.0.9:80", "10.0.0.9:19180", "10.0.0.9:443"]);
    let told: Vec<_> = plan.listeners.iter().map(|listener| listener.port).collect();
    assert_eq!(told, [None, Some(19080), None], "clients know the port of the Gateway");
    assert_eq!(generation, Some(3));
}

#[test]
fn a_carrier_listens_on_all_addresses_and_on_the_ports_of_its_plan() {
    let (spec, around) = surroundings(PLAN, &["shop/one"]);
    let carrier = Gateway::carrier("pod-1".into(), "10.0.0.9".parse().unwrap(), Box::new(|_| {}));
    let further = ["10.0.0.9", "fd00::9"].map(|address| address.parse().unwrap());
    let (plan, _) = carrier.also_on(further.into()).plan(&spec, &around, None).unwrap();
    let bound: Vec<String> = plan.listeners.iter().map(|listener| listener.bind.to_string()).collect();
    assert_eq!(
        bound,
        ["10.0.0.9:80", "10.0.0.9:19080", "10.0.0.9:443", "[fd00::9]:80", "[fd00::9]:19080", "[fd00::9]:443"]
    );
}

#[test]
fn waits_for_all_parts() {
    let (spec, mut around) = surroundings(PLAN, &[]);
    assert!(pod().0.is_cleared(&spec, &around, None));
    around.parts.clear();
    assert!(!pod().0.is_cleared(&spec, &around, None));
    assert!(pod().0.plan(&spec, &around, None).is_err());
}

#[test]
fn a_certificate_stays_until_no_plan_names_it() {
    let (gateway, told) = pod();
    let last = || lock(&told).last().unwrap().certificates.keys().cloned().collect::<Vec<_>>();
    let (spec, around) = surroundings(PLAN, &["shop/one"]);
    let (first, _) = gateway.plan(&spec, &around, None).unwrap();
    assert_eq!(last(), ["shop/one"]);
    gateway.plan(&spec, &around, Some(&first)).unwrap();
    assert_eq!(lock(&told).len(), 1, "nothing new is not told");

    // The Secret comes before the plan that names its other certificate.
    let other = PLAN.replace("shop/one", "shop/two");
    let (next_spec, next_around) = surroundings(&other, &["shop/two"]);
    let between = Surroundings { secrets: next_around.secrets.clone(), ..around };
    gateway.plan(&spec, &between, Some(&first)).unwrap();
    assert_eq!(last(), ["shop/one", "shop/two"]);
    let (second, _) = gateway.plan(&next_spec, &next_around, Some(&first)).unwrap();
    assert_eq!(last(), ["shop/one", "shop/two"], "the first still runs at this moment");
    gateway.plan(&next_spec, &next_around, Some(&second)).unwrap();
    assert_eq!(last(), ["shop/two"]);
}
