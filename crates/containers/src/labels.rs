//! The labels that everything we make carries, so that it can be found again and cleaned up.

use std::collections::{BTreeMap, HashMap};

use crate::Identity;

/// UID of the API object that it was made for.
pub const OWNER: &str = "dev.causeway/owner";
/// Kind of that object.
pub const KIND: &str = "dev.causeway/kind";
/// `namespace/name` of that object.
pub const NAME: &str = "dev.causeway/name";
/// The process that made it: pid, start time and boot, see [`Identity`].
pub const CREATOR: &str = "dev.causeway/creator";
/// Id of the data directory that the process works on; another instance's things are never touched.
pub const INSTANCE: &str = "dev.causeway/instance";
/// `true` on what shall outlive its owner; a sweep leaves it alone.
pub const PERSISTENT: &str = "dev.causeway/persistent";
/// Digest of all that went into an image of ours.
pub const CONTENT: &str = "dev.causeway/content";

/// Who made a thing, and for whom.
#[derive(Clone, Debug)]
pub struct Owner<'a> {
    pub uid: &'a str,
    pub kind: &'a str,
    /// `namespace/name`.
    pub name: &'a str,
    pub instance: &'a str,
}

impl Owner<'_> {
    /// The labels that say so; the creator is this process.
    pub fn labels(&self) -> BTreeMap<String, String> {
        let creator = Identity::own().map(|identity| identity.to_string()).unwrap_or_default();
        [
            (OWNER, self.uid),
            (KIND, self.kind),
            (NAME, self.name),
            (INSTANCE, self.instance),
            (CREATOR, creator.as_str()),
        ]
        .into_iter()
        .map(|(key, value)| (key.to_owned(), value.to_owned()))
        .collect()
    }
}

/// The filter that lists ask with.
pub(crate) fn filter(labels: &[(&str, &str)]) -> HashMap<String, Vec<String>> {
    if labels.is_empty() {
        return HashMap::new();
    }
    let wanted = labels.iter().map(|(key, value)| format!("{key}={value}")).collect();
    HashMap::from([("label".to_owned(), wanted)])
}
