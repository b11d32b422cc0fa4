//! All links of each workstation, whether they count or not: those of a workstation that is removed are cut, and nobody has
//! more than a few.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use causeway_base::lock::lock;
use causeway_link::{KeyId, Link};

/// Links that one workstation may have at a time: the one that counts, and those that it moved away from.
const MOST: usize = 8;

/// A link, and the key that it was taken with.
type Known = (Option<KeyId>, Arc<Link>);

/// Links by workstation, the oldest first.
#[derive(Default)]
pub(super) struct Links(Mutex<HashMap<Arc<str>, Vec<Known>>>);

impl Links {
    /// Knows a link until what is given back is dropped; the oldest goes where there are too many.
    pub(super) fn register(
        self: &Arc<Self>,
        uid: &Arc<str>,
        key: Option<KeyId>,
        link: &Arc<Link>,
    ) -> Registered {
        let mut all = lock(&self.0);
        let links = all.entry(uid.clone()).or_default();
        links.push((key, link.clone()));
        let oldest = (links.len() > MOST).then(|| links.remove(0));
        drop(all);
        if let Some((_, oldest)) = oldest {
            oldest.close("the workstation has too many links");
        }
        Registered { links: self.clone(), uid: uid.clone(), link: link.clone() }
    }

    /// Cuts the links of workstations that may not come any more, or not with this key.
    pub(super) fn keep(&self, is_known: impl Fn(&str, Option<KeyId>) -> bool) {
        let gone: Vec<_> = {
            let all = lock(&self.0);
            let all = all.iter().flat_map(|(uid, links)| links.iter().map(move |link| (uid, link)));
            all.filter(|(uid, (key, _))| !is_known(uid, *key)).map(|(_, (_, link))| link.clone()).collect()
        };
        for link in gone {
            link.close("the workstation was removed, or is another machine's");
        }
    }

    /// Cuts all of them.
    pub(super) fn close(&self, reason: &str) {
        let all: Vec<_> = lock(&self.0).values().flatten().cloned().collect();
        for (_, link) in all {
            link.close(reason);
        }
    }

    /// Whether any link carries more than the ends' own stream.
    pub(super) fn are_quiet(&self) -> bool {
        lock(&self.0).values().flatten().all(|(_, link)| link.is_empty())
    }
}

/// A link that is known; forgotten however its task ends.
pub(super) struct Registered {
    links: Arc<Links>,
    uid: Arc<str>,
    link: Arc<Link>,
}

impl Drop for Registered {
    fn drop(&mut self) {
        let mut all = lock(&self.links.0);
        if let Some(links) = all.get_mut(&self.uid) {
            links.retain(|(_, known)| !Arc::ptr_eq(known, &self.link));
            if links.is_empty() {
                all.remove(&self.uid);
            }
        }
    }
}
