//! Objects of one kind as they were read last. What is the same object in a cache is not read again: of thousands few change.

use std::{collections::HashMap, sync::Arc};

use kube::api::DynamicObject;
use serde::de::DeserializeOwned;

use crate::framework::children::{ChildKind, Children, typed};

/// By their place in memory. They are held, so that no other can be in their place.
pub(super) struct Kept<T>(HashMap<usize, (Arc<DynamicObject>, Option<Arc<T>>)>);

impl<T> Default for Kept<T> {
    fn default() -> Self {
        Self(HashMap::new())
    }
}

impl<T: DeserializeOwned> Kept<T> {
    /// All that can be read.
    pub(super) fn read(&mut self, children: &Children, kind: ChildKind) -> Vec<Arc<T>> {
        let mut known = std::mem::take(&mut self.0);
        for object in children.all(kind) {
            let place = Arc::as_ptr(&object).addr();
            let entry = known.remove(&place).unwrap_or_else(|| {
                let content = typed(&object).map(Arc::new);
                (object, content)
            });
            self.0.insert(place, entry);
        }
        self.0.values().filter_map(|(_, content)| content.clone()).collect()
    }
}
