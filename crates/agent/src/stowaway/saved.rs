//! The last good state on disk, for a start without the API server. There are keys in it.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::time::{Duration, Instant};

use causeway_base::file;
use causeway_base::lock::lock;
use causeway_translate::stowaway_pod::Told;
use k8s_openapi::ByteString;
use serde::{Deserialize, Serialize};

use super::reach::{Seen, Surroundings};

/// The form of the file. Another number is another form, and no form is guessed.
const VERSION: u32 = 1;
/// What the cluster has changes all the time: it is written no more often than this, unless it matters more.
const REST: Duration = Duration::from_secs(10);

/// What was known.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Saved {
    version: u32,
    told: BTreeMap<String, ByteString>,
    pub(super) seen: Seen,
}

impl Saved {
    pub(super) fn told(&self) -> Option<Told> {
        Told::read(&self.told)
    }
}

/// Where it is kept.
pub(super) struct StateFile {
    path: PathBuf,
    /// What was written last, and when.
    last: Mutex<Option<(Told, Instant)>>,
}

impl StateFile {
    pub(super) fn new(dir: &Path) -> Self {
        Self { path: dir.join("stowaway.json"), last: Mutex::default() }
    }

    /// What was saved, if it can be used.
    pub(super) fn load(&self) -> Option<Saved> {
        let text = std::fs::read(&self.path).ok()?;
        match serde_json::from_slice::<Saved>(&text) {
            Ok(saved) if saved.version == VERSION => Some(saved),
            Ok(saved) => {
                tracing::warn!(version = saved.version, "the last state is of another form and not used");
                None
            }
            Err(error) => {
                tracing::warn!(%error, "the last state is damaged and not used");
                None
            }
        }
    }

    /// Replaces what was saved.
    pub(super) fn store(&self, told: &Told, surroundings: &Surroundings) {
        let mut last = lock(&self.last);
        if last.as_ref().is_some_and(|(before, when)| before == told && when.elapsed() < REST) {
            return;
        }
        let saved = Saved { version: VERSION, told: told.entries(), seen: surroundings.last() };
        let write = || {
            if let Some(dir) = self.path.parent() {
                file::create_private_dir(dir)?;
            }
            file::replace(&self.path, file::PRIVATE, &serde_json::to_vec(&saved)?)
        };
        if let Err(error) = write() {
            tracing::warn!(%error, "the state was not saved; a start without the API server would not know it");
        }
        *last = Some((told.clone(), Instant::now()));
    }
}
