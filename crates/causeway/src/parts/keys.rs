//! The certificates of a Gateway as the engine takes them: what is in the Secrets that its pods read, or in files. One that
//! did not change is not read again, since a Gateway may have thousands.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use causeway_base::lock::lock;
use causeway_base::report::chain;
use causeway_engine::{Authorities, Certificate, Certificates};
use causeway_ir::Name;
use causeway_translate::gateway_pod::keys::{Keys, Pair};
use tokio::sync::watch;

/// Gives an engine the newest certificates.
pub(crate) struct KeyStore {
    certificates_tx: watch::Sender<Arc<Certificates>>, // → engine
    /// What was read last, from what.
    read: Mutex<Read>,
}

#[derive(Default)]
struct Read {
    certificates: BTreeMap<String, (Pair, Arc<Certificate>)>,
    authorities: BTreeMap<String, (String, Arc<Authorities>)>,
}

impl KeyStore {
    /// One that has none yet, and where an engine finds them.
    pub(crate) fn new() -> (Self, watch::Receiver<Arc<Certificates>>) {
        let (certificates_tx, certificates_rx) = watch::channel(Arc::default());
        (Self { certificates_tx, read: Mutex::default() }, certificates_rx)
    }

    /// Takes what there is now. What can't be read is told and left out; what had its name before stays in its place.
    pub(crate) fn replace(&self, keys: &Keys) {
        let mut read = lock(&self.read);
        let mut certificates = Certificates::default();
        let pair = |pair: &Pair| Certificate::from_pem(pair.certificate.as_bytes(), pair.key.as_bytes());
        let now = again(&keys.certificates, std::mem::take(&mut read.certificates), pair);
        for (name, (_, certificate)) in &now {
            if let Ok(name) = Name::parse(name) {
                certificates.insert(name, Arc::clone(certificate));
            }
        }
        read.certificates = now;
        let now = again(&keys.authorities, std::mem::take(&mut read.authorities), |pem: &String| {
            Authorities::from_pem(pem.as_bytes())
        });
        for (name, (_, authorities)) in &now {
            if let Ok(name) = Name::parse(name) {
                certificates.insert_authorities(name, Arc::clone(authorities));
            }
        }
        read.authorities = now;
        self.certificates_tx.send_replace(Arc::new(certificates));
    }
}

/// What these are; those that did not change are the same as before.
fn again<F: Clone + PartialEq, T, E: std::error::Error + 'static>(
    wanted: &BTreeMap<String, F>,
    mut before: BTreeMap<String, (F, Arc<T>)>,
    read: impl Fn(&F) -> Result<T, E>,
) -> BTreeMap<String, (F, Arc<T>)> {
    let one = |(name, from): (&String, &F)| {
        let last = before.remove(name);
        if let Some((_, same)) = last.as_ref().filter(|(last, _)| last == from) {
            return Some((name.clone(), (from.clone(), Arc::clone(same))));
        }
        match read(from) {
            Ok(content) => Some((name.clone(), (from.clone(), Arc::new(content)))),
            Err(error) => {
                tracing::warn!(name, "not used: {}", chain(&error));
                last.map(|last| (name.clone(), last))
            }
        }
    };
    wanted.iter().filter_map(one).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pair(name: &str) -> Pair {
        let made = rcgen::generate_simple_self_signed(vec![name.to_owned()]).unwrap();
        Pair { certificate: made.cert.pem(), key: made.signing_key.serialize_pem() }
    }

    fn keys(pairs: &[(&str, &Pair)]) -> Keys {
        let pairs = pairs.iter().map(|(name, pair)| ((*name).to_owned(), (*pair).clone()));
        Keys { certificates: pairs.collect(), ..Keys::default() }
    }

    #[test]
    fn what_did_not_change_is_the_same_and_what_is_broken_stays_as_it_was() {
        let (store, certificates_rx) = KeyStore::new();
        let get = |name: &str| certificates_rx.borrow().get(name).cloned();
        let (one, other, third) = (pair("a.test"), pair("b.test"), pair("c.test"));
        store.replace(&keys(&[("shop/a", &one), ("shop/b", &other)]));
        let (first, second) = (get("shop/a").unwrap(), get("shop/b").unwrap());

        store.replace(&keys(&[("shop/a", &one), ("shop/b", &third)]));
        assert!(Arc::ptr_eq(&first, &get("shop/a").unwrap()));
        let changed = get("shop/b").unwrap();
        assert!(!Arc::ptr_eq(&second, &changed));

        let broken = Pair { key: "none".to_owned(), ..other.clone() };
        store.replace(&keys(&[("shop/b", &broken)]));
        assert!(get("shop/a").is_none());
        assert!(Arc::ptr_eq(&changed, &get("shop/b").unwrap()));
    }
}
