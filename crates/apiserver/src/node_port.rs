//! The node ports of Services: the ones asked for, and free ones for those that leave the choice to the server.

use std::collections::HashSet;
use std::sync::Mutex;

use causeway_base::lock::lock;
use serde_json::{Value, json};

use crate::error::FieldError;
use crate::object;
use crate::store::{GroupResource, Store};

const FIRST: u16 = 30000;
const LAST: u16 = 32767;

/// Gives out ports that no stored Service has.
#[derive(Default)]
pub(crate) struct NodePorts {
    /// Held while a choice is made, and remembers it until the Service is stored.
    recent: Mutex<Vec<u16>>,
}

/// Choices remembered beyond the store; older ones have long been stored or given up.
const RECENT: usize = 64;

impl NodePorts {
    /// Fills in `nodePort` for every port of a Service that is open to the node's network.
    pub(crate) fn assign(&self, store: &Store, service: &mut Value) -> Result<(), FieldError> {
        let wanted = matches!(service["spec"]["type"].as_str(), Some("NodePort" | "LoadBalancer"))
            && service["spec"]["allocateLoadBalancerNodePorts"] != json!(false);
        if !wanted {
            return Ok(());
        }
        let mut recent = lock(&self.recent);
        let others = taken(store, service);
        let own: HashSet<u16> = ports(service).collect();
        for port in &own {
            if others.contains(port) {
                let detail = "provided port is already allocated";
                return Err(FieldError::invalid("spec.ports[0].nodePort", &json!(port), detail));
            }
            if !(FIRST..=LAST).contains(port) {
                let detail = format!(
                    "provided port is not in the valid range. The range of valid ports is {FIRST}-{LAST}"
                );
                return Err(FieldError::invalid("spec.ports[0].nodePort", &json!(port), detail));
            }
        }
        for entry in service["spec"]["ports"].as_array_mut().into_iter().flatten() {
            if entry["nodePort"].as_u64().unwrap_or(0) != 0 {
                continue;
            }
            let free =
                (FIRST..=LAST).find(|p| !others.contains(p) && !own.contains(p) && !recent.contains(p));
            let Some(free) = free else {
                return Err(FieldError::forbidden(
                    "spec.ports",
                    "failed to allocate a nodePort: range is full",
                ));
            };
            entry["nodePort"] = json!(free);
            recent.push(free);
            if recent.len() > RECENT {
                recent.remove(0);
            }
        }
        Ok(())
    }
}

fn ports(service: &Value) -> impl Iterator<Item = u16> {
    let list = service["spec"]["ports"].as_array().into_iter().flatten();
    list.filter_map(|p| u16::try_from(p["nodePort"].as_u64()?).ok()).filter(|p| *p != 0)
}

/// Ports of all other Services.
fn taken(store: &Store, service: &Value) -> HashSet<u16> {
    let all = store.list(&GroupResource::new("", "services"), None).items;
    all.iter()
        .filter(|s| (&*s.key.namespace, &*s.key.name) != (object::namespace(service), object::name(service)))
        .flat_map(|s| ports(&s.value()).collect::<Vec<_>>())
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_port_gets_one_of_its_own() {
        let (node_ports, store) = (NodePorts::default(), Store::open(None).unwrap());
        let mut a = json!({"metadata": {"name": "a"}, "spec": {"type": "NodePort", "ports": [{"port": 1}, {"port": 2}]}});
        let mut b = json!({"metadata": {"name": "b"}, "spec": {"type": "NodePort", "ports": [{"port": 1}]}});
        node_ports.assign(&store, &mut a).unwrap();
        node_ports.assign(&store, &mut b).unwrap();
        let all: HashSet<u16> = ports(&a).chain(ports(&b)).collect();
        assert_eq!(all.len(), 3, "{a} {b}");
        let before = a.clone();
        node_ports.assign(&store, &mut a).unwrap();
        assert_eq!(a, before, "a port that was given stays");
    }

    #[test]
    fn a_port_outside_the_range_is_refused_and_a_plain_service_has_none() {
        let (node_ports, store) = (NodePorts::default(), Store::open(None).unwrap());
        let mut far = json!({"metadata": {"name": "a"}, "spec": {"type": "NodePort", "ports": [{"port": 1, "nodePort": 80}]}});
        assert!(node_ports.assign(&store, &mut far).unwrap_err().to_string().contains("30000-32767"));
        let mut plain =
            json!({"metadata": {"name": "a"}, "spec": {"type": "ClusterIP", "ports": [{"port": 1}]}});
        node_ports.assign(&store, &mut plain).unwrap();
        assert!(plain["spec"]["ports"][0].get("nodePort").is_none());
    }
}
