//! Every resource the server offers at this moment: the built-in kinds and those of the installed CRDs.

use std::collections::BTreeMap;
use std::sync::{Arc, RwLock};

use causeway_base::lock::{read, write};

use crate::resource::Resource;

/// A lookup table that is swapped whole when a CRD comes or goes.
#[derive(Default)]
pub(crate) struct Catalog {
    current: RwLock<Arc<Listing>>,
}

/// One moment's resources, in discovery order.
#[derive(Default, Clone)]
pub(crate) struct Listing {
    by_path: BTreeMap<(String, String, String), Arc<Resource>>,
}

impl Listing {
    pub(crate) fn find(&self, group: &str, version: &str, plural: &str) -> Option<Arc<Resource>> {
        self.by_path.get(&(group.to_owned(), version.to_owned(), plural.to_owned())).cloned()
    }

    /// Any version of a resource, its storage version if that is served.
    pub(crate) fn find_any_version(&self, group: &str, plural: &str) -> Option<Arc<Resource>> {
        let mut found = None;
        for resource in self.iter().filter(|r| r.group == group && r.plural == plural) {
            if resource.version == resource.storage_version {
                return Some(resource.clone());
            }
            found = Some(resource.clone());
        }
        found
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &Arc<Resource>> {
        self.by_path.values()
    }
}

impl Catalog {
    pub(crate) fn new(resources: Vec<Resource>) -> Self {
        let catalog = Self::default();
        catalog.update(|listing| resources.into_iter().for_each(|r| insert(listing, r)));
        catalog
    }

    pub(crate) fn listing(&self) -> Arc<Listing> {
        read(&self.current).clone()
    }

    /// Replaces every version of one resource; an empty list removes it.
    pub(crate) fn replace(&self, group: &str, plural: &str, versions: Vec<Resource>) {
        self.update(|listing| {
            listing.by_path.retain(|(g, _, p), _| g != group || p != plural);
            for resource in versions {
                insert(listing, resource);
            }
        });
    }

    fn update(&self, change: impl FnOnce(&mut Listing)) {
        let mut current = write(&self.current);
        let mut listing = Listing::clone(&current);
        change(&mut listing);
        *current = Arc::new(listing);
    }
}

fn insert(listing: &mut Listing, resource: Resource) {
    let key = (resource.group.clone(), resource.version.clone(), resource.plural.clone());
    listing.by_path.insert(key, Arc::new(resource));
}
