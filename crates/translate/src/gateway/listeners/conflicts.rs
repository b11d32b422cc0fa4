//! Listeners that want the same: one name, one port for two families of protocols, or one host twice. The first in the
//! order of precedence has it.

use std::collections::{HashMap, HashSet};

use causeway_ir::Pattern;

use super::{Bound, Family};
use crate::gateway_pod::target_port;
use crate::references::Verdict;

/// What is taken of one port.
struct Taken {
    family: Family,
    by: String,
    hosts: HashMap<Option<Pattern>, String>,
}

/// Marks every listener that comes too late.
pub(super) fn settle(bound: &mut [Bound<'_>]) {
    let mut ports: HashMap<(bool, u16), Taken> = HashMap::new();
    // Ports of pods, with what they stand for.
    let mut pods: HashMap<(bool, u16), (u16, String)> = HashMap::new();
    // No API server lets a second listener of one name pass, but a file may have one.
    let mut names = HashSet::new();
    for listener in bound.iter_mut() {
        if !names.insert(listener.label.clone()) {
            let message = format!("another listener is named {}: names are unique", listener.spec.name);
            listener.accepted = Verdict::no("UnsupportedValue", message);
        }
    }
    for listener in bound.iter_mut().filter(|listener| listener.accepted.holds) {
        let Some(family) = listener.protocol.map(super::Protocol::family) else { continue };
        let port = listener.spec.port;
        let in_pod = target_port(port);
        let (holder, by) =
            pods.entry((family == Family::Udp, in_pod)).or_insert_with(|| (port, listener.label.clone()));
        if *holder != port {
            let message = format!(
                "pods need port {in_pod} for port {holder} of listener {by}, whose own port they have themselves: write \
                 another port"
            );
            listener.accepted = Verdict::no("PortUnavailable", message);
            continue;
        }
        let taken = ports.entry((family == Family::Udp, port)).or_insert_with(|| Taken {
            family,
            by: listener.label.clone(),
            hosts: HashMap::new(),
        });
        if taken.family != family {
            let message = format!(
                "port {port} is taken by listener {} for another protocol: write another port",
                taken.by
            );
            lose(listener, "ProtocolConflict", message);
            continue;
        }
        // Connections and datagrams name no host.
        let host = match family {
            Family::Http | Family::Tls => listener.host.clone(),
            Family::Tcp | Family::Udp => None,
        };
        if let Some(by) = taken.hosts.get(&host) {
            let host = host.map_or_else(|| "every host".to_owned(), |host| host.to_string());
            let message =
                format!("{host} on port {port} is taken by listener {by}: write another hostname or port");
            lose(listener, "HostnameConflict", message);
        } else {
            taken.hosts.insert(host, listener.label.clone());
        }
    }
}

fn lose(listener: &mut Bound<'_>, reason: &'static str, message: String) {
    listener.accepted = Verdict::no(reason, message.clone());
    listener.conflicted = Verdict::yes(reason, message);
}
