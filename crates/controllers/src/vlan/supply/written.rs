//! Which parts are known to be as they should be. One is not compared again while neither it nor what is wanted of it
//! changes, so that of many parts only those cost something that have changed.

use std::{
    collections::HashMap,
    hash::{DefaultHasher, Hash as _, Hasher as _},
    sync::Mutex,
};

use causeway_api::Supply;
use causeway_base::lock::lock;
use kube::ResourceExt;

use crate::framework::{
    apply::{Action, Report, Wanted},
    children::{ChildKind, Children},
    kinds::SUPPLY,
};

/// By name, what a part's spec was made from, and the version that this led to.
type Parts = HashMap<String, (u64, String)>;

/// The parts, by their owner's uid.
#[derive(Default)]
pub(crate) struct Written(Mutex<HashMap<String, Parts>>);

/// What is to be done about the parts.
#[derive(Default)]
pub(crate) struct Todo {
    /// Those that have to be applied.
    pub(crate) wanted: Vec<Wanted>,
    /// Those that are as they should be.
    pub(crate) keep: Vec<(ChildKind, String)>,
    /// By name, what each is made from, and the version that was there before.
    before: HashMap<String, (u64, Option<String>)>,
}

impl Written {
    /// Sorts the parts of an owner in this namespace.
    pub(crate) fn sort(&self, uid: &str, namespace: &str, parts: &[Supply], children: &Children) -> Todo {
        let written = lock(&self.0);
        let known = written.get(uid);
        let mut todo = Todo::default();
        for part in parts {
            let (name, digest) = (part.name_any(), digest(part));
            let live = version(children, namespace, &name);
            let is_same = known
                .and_then(|known| known.get(&name))
                .is_some_and(|(made_from, version)| *made_from == digest && Some(version) == live.as_ref());
            if is_same {
                todo.keep.push((SUPPLY, name.clone()));
            } else {
                todo.wanted.push(Wanted::new(SUPPLY, part));
            }
            todo.before.insert(name, (digest, live));
        }
        todo
    }

    /// Takes note of what became of them.
    pub(crate) fn note(&self, uid: &str, todo: Todo, report: &Report) {
        let known = todo.before.into_iter().filter_map(|(name, (digest, before))| {
            let version = match report.of(SUPPLY, &name) {
                Some(Ok(Action::Applied(object))) => object.resource_version()?,
                None | Some(Ok(Action::Unchanged)) => before?,
                Some(_) => return None,
            };
            Some((name, (digest, version)))
        });
        lock(&self.0).insert(uid.to_owned(), known.collect());
    }

    /// Forgets an owner that is gone.
    pub(crate) fn forget(&self, uid: &str) {
        lock(&self.0).remove(uid);
    }
}

fn digest(part: &Supply) -> u64 {
    let mut hasher = DefaultHasher::new();
    serde_json::to_string(&part.spec).unwrap_or_default().hash(&mut hasher);
    hasher.finish()
}

fn version(children: &Children, namespace: &str, name: &str) -> Option<String> {
    children.get(SUPPLY, namespace, name)?.resource_version()
}
