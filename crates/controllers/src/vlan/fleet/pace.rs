//! How many objects of a kind are updated at a time. What the operator itself brings, a newer image or another form of pods,
//! concerns all of them at once: they take turns, and the next begins when the last has shown that it serves. An edit of a
//! spec concerns one of them and waits for nobody.

use std::{
    collections::{BTreeMap, VecDeque},
    sync::Mutex,
};

use causeway_base::lock::lock;
use kube::{Resource, ResourceExt, runtime::reflector::ObjectRef};

use crate::framework::wakes::Wakes;

/// Who is updated, and who waits for that.
pub(crate) struct Pace<K: Resource<DynamicType = ()>> {
    at_once: usize,
    line: Mutex<Line<K>>,
    wakes: Wakes<K>,
}

struct Line<K: Resource<DynamicType = ()>> {
    /// Names of those that are updated, by uid.
    under_way: BTreeMap<String, String>,
    /// Those that wait, the longest first.
    waiting: VecDeque<(String, ObjectRef<K>)>,
}

impl<K: Resource<DynamicType = ()>> Default for Line<K> {
    fn default() -> Self {
        Self { under_way: BTreeMap::new(), waiting: VecDeque::new() }
    }
}

impl<K: Resource<DynamicType = ()> + Send + Sync + 'static> Pace<K> {
    /// A pace of this many at a time, one at least; `wakes` brings the next ones back.
    pub(crate) fn new(at_once: usize, wakes: Wakes<K>) -> Self {
        Self { at_once: at_once.max(1), line: Mutex::default(), wakes }
    }

    /// Whether it may be updated now; if not, it comes back when it is its turn.
    ///
    /// # Errors
    /// The names of those that are updated first.
    pub(crate) fn turn(&self, object: &K) -> Result<(), Vec<String>> {
        let uid = object.uid().unwrap_or_default();
        let mut line = lock(&self.line);
        if line.under_way.contains_key(&uid) {
            return Ok(());
        }
        let position = line.waiting.iter().position(|(waits, _)| *waits == uid);
        let ahead = position.unwrap_or(line.waiting.len());
        if line.under_way.len() + ahead >= self.at_once {
            if position.is_none() {
                line.waiting.push_back((uid, ObjectRef::from_obj(object)));
            }
            return Err(line.under_way.values().cloned().collect());
        }
        if let Some(position) = position {
            line.waiting.remove(position);
        }
        let name = format!("{}/{}", object.namespace().unwrap_or_default(), object.name_any());
        line.under_way.insert(uid, name);
        Ok(())
    }

    /// It is through, or wants nothing any more: the next ones may begin.
    pub(crate) fn end(&self, object: &K) {
        let uid = object.uid().unwrap_or_default();
        let mut line = lock(&self.line);
        let before = line.waiting.len();
        line.waiting.retain(|(waits, _)| *waits != uid);
        if line.under_way.remove(&uid).is_none() && line.waiting.len() == before {
            return;
        }
        let free = self.at_once.saturating_sub(line.under_way.len());
        for (_, next) in line.waiting.iter().take(free) {
            self.wakes.wake(next.clone());
        }
    }

    /// Nobody is updated any more: the term is over.
    pub(crate) fn clear(&self) {
        *lock(&self.line) = Line::default();
    }
}

#[cfg(test)]
mod tests {
    use causeway_api::ProxyServer;
    use futures::StreamExt;
    use serde_json::json;

    use super::*;
    use crate::vlan::proxy::fixture;

    fn proxy(name: &str) -> ProxyServer {
        let mut proxy = fixture::proxy(&json!({}));
        proxy.metadata.name = Some(name.into());
        proxy.metadata.uid = Some(name.into());
        proxy
    }

    #[tokio::test]
    async fn those_who_wait_longest_are_next_and_only_when_another_is_through() {
        let wakes = Wakes::default();
        let mut turns = wakes.stream();
        let pace = Pace::new(2, wakes);
        let [a, b, c, d] = ["a", "b", "c", "d"].map(proxy);
        assert_eq!((pace.turn(&a), pace.turn(&b), pace.turn(&a)), (Ok(()), Ok(()), Ok(())));
        let first = Err(vec!["clusters/a".to_owned(), "clusters/b".to_owned()]);
        assert_eq!(pace.turn(&c), first);
        assert_eq!(pace.turn(&d), first);
        pace.end(&b);
        assert_eq!(turns.next().await.unwrap().name, "c");
        assert!(pace.turn(&d).is_err(), "c waits longer");
        assert_eq!(pace.turn(&c), Ok(()));
        pace.end(&c);
        assert_eq!(turns.next().await.unwrap().name, "d");
        // One that wants nothing any more makes room for those behind it.
        assert!(pace.turn(&d).is_ok() && pace.turn(&b).is_err() && pace.turn(&c).is_err());
        pace.end(&b);
        pace.end(&a);
        assert_eq!(turns.next().await.unwrap().name, "c");
        pace.clear();
        assert!(pace.turn(&b).is_ok() && pace.turn(&c).is_ok());
    }
}
