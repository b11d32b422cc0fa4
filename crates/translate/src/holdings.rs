//! What namespaces hold of the domains in which a name must be held to be routed, as the operator wrote it into HostnameGrants.

use std::collections::{BTreeMap, BTreeSet};

use causeway_api::{HostnameGrant, names};
use causeway_ir::Pattern;
use kube::ResourceExt as _;

/// What all namespaces hold.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Holdings {
    /// Where names must be held.
    zones: BTreeSet<String>,
    held: BTreeMap<String, Held>,
}

#[derive(Debug, Clone, Default, PartialEq)]
struct Held {
    names: BTreeSet<Pattern>,
    except: BTreeSet<Pattern>,
}

impl<'a> FromIterator<&'a HostnameGrant> for Holdings {
    /// Of a namespace the one grant counts that the operator writes.
    fn from_iter<I: IntoIterator<Item = &'a HostnameGrant>>(grants: I) -> Self {
        let mut holdings = Self::default();
        for grant in grants.into_iter().filter(|grant| grant.name_any() == names::HOSTNAME_GRANT) {
            let patterns =
                |names: &[String]| names.iter().filter_map(|name| Pattern::parse(name).ok()).collect();
            holdings.zones.extend(grant.spec.zones.iter().cloned());
            let held = Held { names: patterns(&grant.spec.hostnames), except: patterns(&grant.spec.except) };
            holdings.held.insert(grant.namespace().unwrap_or_default(), held);
        }
        holdings
    }
}

impl Holdings {
    /// Whether routes of a namespace may be for these hosts: they are in no domain where names are held, or the namespace holds
    /// them, by the most specific of all names that have them.
    pub fn permit(&self, namespace: &str, host: &Pattern) -> bool {
        if !self.is_restrained(host) {
            return true;
        }
        let Some(held) = self.held.get(namespace) else { return false };
        let nearest =
            |names: &BTreeSet<Pattern>| names.iter().filter(|name| name.covers(host)).map(specificity).max();
        match (nearest(&held.names), nearest(&held.except)) {
            (Some(own), Some(others)) => own > others,
            (Some(_), None) => true,
            (None, _) => false,
        }
    }

    /// Whether hosts are in a domain where names are held, or a wildcard above one.
    fn is_restrained(&self, host: &Pattern) -> bool {
        self.zones.iter().any(|zone| {
            let apex = Pattern::Exact(zone.clone());
            let below = Pattern::Below(zone.clone());
            apex == *host || below.covers(host) || host.covers(&apex) || host.covers(&below)
        })
    }
}

fn specificity(name: &Pattern) -> (bool, usize) {
    match name {
        Pattern::Exact(name) => (true, name.len()),
        Pattern::Below(domain) => (false, domain.len()),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn grant(namespace: &str, name: &str, held: &[&str], except: &[&str]) -> HostnameGrant {
        serde_json::from_value(json!({
            "apiVersion": names::API_VERSION, "kind": "HostnameGrant",
            "metadata": {"namespace": namespace, "name": name},
            "spec": {"hostnames": held, "except": except, "zones": ["example.com"]},
        }))
        .unwrap()
    }

    #[test]
    fn a_namespace_routes_what_it_holds_and_what_nobody_has_to_hold() {
        let grants = [
            grant(
                "a",
                "hostnames",
                &["shop.example.com", "*.apps.example.com"],
                &["x.apps.example.com", "*.y.apps.example.com"],
            ),
            grant("b", "hostnames", &["x.apps.example.com", "*.y.apps.example.com"], &[]),
            // Somebody's own, which says nothing.
            grant("c", "mine", &["shop.example.com"], &[]),
        ];
        let holdings: Holdings = grants.iter().collect();
        for (host, a, b, c) in [
            ("shop.example.com", true, false, false),
            ("SHOP.Example.com.", true, false, false),
            ("www.apps.example.com", true, false, false),
            ("*.apps.example.com", true, false, false),
            ("x.apps.example.com", false, true, false),
            ("z.y.apps.example.com", false, true, false),
            ("*.y.apps.example.com", false, true, false),
            ("free.example.com", false, false, false),
            ("example.com", false, false, false),
            ("*.example.com", false, false, false),
            ("*.com", false, false, false),
            ("example.org", true, true, true),
            ("notexample.com", true, true, true),
        ] {
            let host = Pattern::parse(host).unwrap();
            let permits = ["a", "b", "c"].map(|namespace| holdings.permit(namespace, &host));
            assert_eq!(permits, [a, b, c], "{host}");
        }
        assert!(Holdings::default().permit("a", &Pattern::parse("shop.example.com").unwrap()));
    }
}
