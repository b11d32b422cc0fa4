//! Which certificate a client gets: one lookup, whatever their number.

use std::collections::HashMap;
use std::sync::Arc;

use causeway_ir::Pattern;
use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::CertifiedKey;

use super::certificates::Certificate;

#[derive(Debug)]
pub(super) struct Resolver {
    exact: HashMap<Box<str>, Arc<CertifiedKey>>,
    /// For one label below a domain, which is what a wildcard in a certificate means.
    below: HashMap<Box<str>, Arc<CertifiedKey>>,
    otherwise: Option<Arc<CertifiedKey>>,
}

impl Resolver {
    /// The first certificate with a name has it; the first of all is for names that none has.
    pub(super) fn new(certificates: &[Arc<Certificate>]) -> Self {
        let mut resolver = Self {
            exact: HashMap::new(),
            below: HashMap::new(),
            otherwise: certificates.first().map(|certificate| Arc::clone(&certificate.key)),
        };
        // One alone needs no search.
        for certificate in certificates.iter().filter(|_| certificates.len() > 1) {
            for name in &certificate.names {
                let (map, name) = match name {
                    Pattern::Exact(name) => (&mut resolver.exact, name),
                    Pattern::Below(domain) => (&mut resolver.below, domain),
                };
                map.entry(name.as_str().into()).or_insert_with(|| Arc::clone(&certificate.key));
            }
        }
        resolver
    }

    fn find(&self, name: Option<&str>) -> Option<&Arc<CertifiedKey>> {
        let by_name = name.and_then(|name| {
            let name = name.strip_suffix('.').unwrap_or(name);
            let exact = self.exact.get(name);
            exact.or_else(|| name.split_once('.').and_then(|(_, domain)| self.below.get(domain)))
        });
        by_name.or(self.otherwise.as_ref())
    }
}

impl ResolvesServerCert for Resolver {
    fn resolve(&self, hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        // rustls gives names in lower case.
        self.find(hello.server_name()).cloned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn certificate(names: &[&str]) -> Arc<Certificate> {
        let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
        let made = rcgen::generate_simple_self_signed(names).unwrap();
        let (chain, key) = (made.cert.pem(), made.signing_key.serialize_pem());
        Arc::new(Certificate::from_pem(chain.as_bytes(), key.as_bytes()).unwrap())
    }

    #[test]
    fn the_certificate_that_has_the_name_is_shown() {
        let all =
            [certificate(&["a.test"]), certificate(&["*.b.test", "b.test"]), certificate(&["c.b.test"])];
        let resolver = Resolver::new(&all);
        for (name, expected) in [
            (Some("a.test"), 0),
            (Some("b.test"), 1),
            (Some("x.b.test"), 1),
            (Some("c.b.test"), 2),
            (Some("x.y.b.test"), 0),
            (Some("other"), 0),
            (None, 0),
        ] {
            assert!(Arc::ptr_eq(resolver.find(name).unwrap(), &all[expected].key), "{name:?}");
        }
        assert!(Resolver::new(&[]).find(Some("a.test")).is_none());
    }
}
