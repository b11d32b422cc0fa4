//! What the statuses of DNS and DHCP servers have in common.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;

use crate::{DHCPServerStatus, DNSServerStatus, ServerReplica};

/// The status of a server that runs in pods, whatever it serves.
pub trait ServerStatus {
    /// All conditions.
    fn conditions(&self) -> &[Condition];
    /// The same, to be changed.
    fn conditions_mut(&mut self) -> &mut Vec<Condition>;
    /// The generation that it describes.
    fn observed_generation(&self) -> Option<i64>;
    /// What its pods say of themselves.
    fn replicas(&self) -> &[ServerReplica];
    /// The same, to be changed.
    fn replicas_mut(&mut self) -> &mut Vec<ServerReplica>;
}

macro_rules! server_status {
    ($kind:ty) => {
        impl ServerStatus for $kind {
            fn conditions(&self) -> &[Condition] {
                &self.conditions
            }

            fn conditions_mut(&mut self) -> &mut Vec<Condition> {
                &mut self.conditions
            }

            fn observed_generation(&self) -> Option<i64> {
                self.observed_generation
            }

            fn replicas(&self) -> &[ServerReplica] {
                &self.replicas
            }

            fn replicas_mut(&mut self) -> &mut Vec<ServerReplica> {
                &mut self.replicas
            }
        }
    };
}

server_status!(DHCPServerStatus);
server_status!(DNSServerStatus);
