//! What runs, but perhaps not as its author thinks.

use std::collections::BTreeMap;

use super::Findings;
use crate::{Action, Listener, Pattern};

/// Wildcards within wildcards that lead elsewhere.
pub(super) fn nested_wildcards(found: &mut Findings, index: usize, listener: &Listener) {
    let mut below: BTreeMap<&str, (String, &Action)> = BTreeMap::new();
    for (r, route) in listener.tls_routes().iter().enumerate() {
        for (n, name) in route.server_names.iter().enumerate() {
            if let Pattern::Below(domain) = name {
                let path = format!("listeners[{index}].protocol.tls.routes[{r}].serverNames[{n}]");
                below.insert(domain, (path, &route.action));
            }
        }
    }
    for (domain, (path, action)) in &below {
        let mut parent = *domain;
        while let Some((_, rest)) = parent.split_once('.') {
            parent = rest;
            let Some((other, other_action)) = below.get(parent) else { continue };
            if other_action != action {
                let leads_to = destination(action);
                let not = destination(other_action);
                found.add(
                    path,
                    format!(
                        "`*.{domain}` lies within `*.{parent}` of {other}: the longer one wins, so its names go to \
                         {leads_to}, not {not}"
                    ),
                );
            }
            break;
        }
    }
}

fn destination(action: &Action) -> String {
    match action {
        Action::Forward(targets) => {
            let names: Vec<_> =
                targets.as_slice().iter().map(|target| format!("`{}`", target.cluster)).collect();
            format!("cluster {}", names.join(" and "))
        }
        Action::Terminate(_) => "where their TLS is terminated".to_owned(),
        Action::Refuse(_) => "nowhere".to_owned(),
    }
}
