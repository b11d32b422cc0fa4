//! The last good state on disk: the object as it was last accepted and what was known of its Services, so that a start
//! without the API server, or with a spec that can't be run, can go on. Replaced as a whole, never half written.

use std::io;
use std::marker::PhantomData;
use std::path::{Path, PathBuf};

use causeway_base::file;
use kube::Resource;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::known::Bare;

/// The form of the file. Another number is another form, and no form is guessed.
const VERSION: u32 = 2;

/// What an agent last ran.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Saved<O> {
    /// The object, without what changes by itself.
    pub(crate) object: O,
    /// What was known of its surroundings.
    #[serde(flatten)]
    pub(crate) known: Bare,
}

#[derive(Serialize, Deserialize)]
struct Versioned<T> {
    version: u32,
    #[serde(flatten)]
    state: T,
}

/// What went wrong with the file.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Error {
    #[error("can't read {path}")]
    Read { path: PathBuf, source: io::Error },
    #[error("{path} is damaged: delete it")]
    Damaged { path: PathBuf, source: serde_json::Error },
    #[error("{path} can't be understood")]
    Accepted { path: PathBuf, source: serde_json::Error },
    #[error("{path} has form {found}, and this program knows form {VERSION}: delete it")]
    Version { path: PathBuf, found: u32 },
    #[error("can't save the state in {path}")]
    Write { path: PathBuf, source: io::Error },
}

/// Where the state is kept.
#[derive(Debug)]
pub(crate) struct StateFile<O> {
    path: PathBuf,
    object: PhantomData<fn() -> O>,
}

impl<O> Clone for StateFile<O> {
    fn clone(&self) -> Self {
        Self { path: self.path.clone(), object: PhantomData }
    }
}

impl<O: Resource<DynamicType = ()> + Serialize + DeserializeOwned> StateFile<O> {
    /// A file of its own for each object, so that a directory may be shared.
    pub(crate) fn new(dir: &Path, namespace: &str, name: &str) -> Self {
        // A namespace has no dot in its name.
        let path = dir.join(format!("{}.{namespace}.{name}.json", O::plural(&())));
        Self { path, object: PhantomData }
    }

    /// What was saved; `None` if nothing was.
    pub(crate) fn load(&self) -> Result<Option<Saved<O>>, Error> {
        #[derive(Deserialize)]
        struct Form {
            version: u32,
        }
        let path = || self.path.clone();
        let text = match std::fs::read(&self.path) {
            Ok(text) => text,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(source) => return Err(Error::Read { path: path(), source }),
        };
        let damaged = |source| Error::Damaged { path: path(), source };
        let form: Form = serde_json::from_slice(&text).map_err(damaged)?;
        if form.version != VERSION {
            return Err(Error::Version { path: path(), found: form.version });
        }
        let saved: Versioned<Saved<O>> = serde_json::from_slice(&text).map_err(damaged)?;
        Ok(Some(saved.state))
    }

    /// Replaces what was saved; on disk when it returns. Blocks.
    pub(crate) fn store(&self, saved: &Saved<O>) -> Result<(), Error> {
        let write = || {
            if let Some(dir) = self.path.parent() {
                file::create_private_dir(dir)?;
            }
            let text = serde_json::to_vec(&Versioned { version: VERSION, state: saved })?;
            file::replace(&self.path, file::PRIVATE, &text)
        };
        write().map_err(|source| Error::Write { path: self.path.clone(), source })
    }
}

/// The object that somebody else keeps as the last accepted one; `None` if there is none yet.
pub(crate) fn accepted<O: DeserializeOwned>(path: &Path) -> Result<Option<O>, Error> {
    let text = match std::fs::read(path) {
        Ok(text) => text,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(source) => return Err(Error::Read { path: path.to_owned(), source }),
    };
    let damaged = |source| Error::Accepted { path: path.to_owned(), source };
    serde_json::from_slice(&text).map(Some).map_err(damaged)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use causeway_api::{ProxyServer, ProxyServerSpec, Supply, SupplySpec};
    use serde_json::json;

    use super::*;
    use crate::known::{Known, Objects};

    #[test]
    fn keeps_what_a_plan_is_made_of_and_says_when_it_cannot_be_used() {
        let dir = tempfile::tempdir().unwrap();
        let file = StateFile::new(&dir.path().join("deeper"), "ns", "edge");
        assert!(file.load().unwrap().is_none());
        let service = json!({
            "metadata": {"name": "web", "namespace": "ns", "annotations": {"a": "b"}},
            "spec": {"ports": [{"port": 443}], "clusterIP": "10.0.0.9", "publishNotReadyAddresses": true},
        });
        let slice = json!({
            "metadata": {"name": "web-1", "namespace": "ns",
                         "labels": {"kubernetes.io/service-name": "web", "other": "label"}},
            "addressType": "IPv4", "ports": [{"port": 443}],
            "endpoints": [{"addresses": ["10.0.0.1"], "conditions": {"ready": true}, "nodeName": "n"}],
        });
        let objects = Objects {
            services: vec![Arc::new(serde_json::from_value(service).unwrap())],
            slices: vec![Arc::new(serde_json::from_value(slice).unwrap())],
        };
        let supply = Supply::new("edge.1.0", SupplySpec { parts: 1, ..SupplySpec::default() });
        let known = Known {
            namespaces: [("ns".to_owned(), objects)].into(),
            supplies: vec![Arc::new(supply)],
            ..Known::default()
        };
        let object = ProxyServer::new("edge", ProxyServerSpec::default());
        let saved = Saved { object, known: known.bare() };
        file.store(&saved).unwrap();
        assert_eq!(file.load().unwrap(), Some(saved));

        let path = dir.path().join("deeper/proxyservers.ns.edge.json");
        let text = std::fs::read_to_string(&path).unwrap();
        for (part, is_kept) in [
            ("10.0.0.1", true),
            ("publishNotReadyAddresses", true),
            ("nodeName", false),
            ("annotations", false),
        ] {
            assert_eq!(text.contains(part), is_kept, "{part} in {text}");
        }
        std::fs::write(&path, text.replace("\"version\":2", "\"version\":3")).unwrap();
        assert!(file.load().unwrap_err().to_string().contains("has form 3"));
        std::fs::write(&path, "{").unwrap();
        assert!(file.load().unwrap_err().to_string().contains("damaged"));
    }
}
