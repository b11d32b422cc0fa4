//! What the operator and the pods of a Gateway agree on: the parts that a plan is handed over in, how certificates are
//! written in the Secret beside it, and the ports of a pod that are not the listeners'.

pub mod keys;
pub mod parts;

/// The port of health and metrics of a Gateway's pods. Not that of other pods, which is a usual port of listeners.
pub const HEALTH_PORT: u16 = 19_080;
/// The port of state, on loopback.
pub const ADMIN_PORT: u16 = 19_901;
/// How far beside its own a listener is in the pod whose port the pod itself has.
const ASIDE: u16 = 100;

/// The port of the pod that stands for this port of the Gateway: the same, but for those that the pod itself has.
pub fn target_port(port: u16) -> u16 {
    if port == HEALTH_PORT || port == ADMIN_PORT { port + ASIDE } else { port }
}
