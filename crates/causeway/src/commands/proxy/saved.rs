//! The last good state on disk: the object as it was and the endpoints that were known, so that a start without the API
//! server can go on. Replaced as a whole, never half written.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};

use anyhow::Context;
use causeway_api::ProxyServer;
use causeway_ir::Endpoint;
use serde::{Deserialize, Serialize};

/// What a proxy last knew.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Saved {
    /// The object, without its status.
    pub proxy: ProxyServer,
    /// Endpoints by cluster of the plan.
    pub endpoints: BTreeMap<String, Vec<Endpoint>>,
}

/// Where the state is kept.
#[derive(Debug, Clone)]
pub struct Place(PathBuf);

impl Place {
    /// A file of its own for each proxy, so that a directory may be shared.
    pub fn new(dir: &Path, namespace: &str, name: &str) -> Self {
        Self(dir.join(format!("proxy-{namespace}-{name}.json")))
    }

    /// What was saved; `None` if nothing was.
    pub fn load(&self) -> anyhow::Result<Option<Saved>> {
        let text = match std::fs::read(&self.0) {
            Ok(text) => text,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(error).with_context(|| format!("can't read {}", self.0.display())),
        };
        let saved = serde_json::from_slice(&text)
            .with_context(|| format!("{} is damaged: delete it", self.0.display()))?;
        Ok(Some(saved))
    }

    /// Replaces what was saved; on disk when it returns.
    pub fn store(&self, saved: &Saved) -> anyhow::Result<()> {
        let write = || -> std::io::Result<()> {
            let dir = self.0.parent().unwrap_or(Path::new("."));
            std::fs::create_dir_all(dir)?;
            let next = self.0.with_extension("next");
            let mut file = File::create(&next)?;
            file.write_all(&serde_json::to_vec(saved)?)?;
            file.sync_all()?;
            std::fs::rename(&next, &self.0)?;
            File::open(dir)?.sync_all()
        };
        write().with_context(|| format!("can't save the state in {}", self.0.display()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keeps_the_state_and_says_when_it_is_damaged() {
        let dir = tempfile::tempdir().unwrap();
        let place = Place::new(&dir.path().join("deeper"), "ns", "edge");
        assert!(place.load().unwrap().is_none());
        let endpoints = BTreeMap::from([("edge-a".to_owned(), vec![Endpoint::new("10.0.0.1:443")])]);
        let saved =
            Saved { proxy: ProxyServer::new("edge", causeway_api::ProxyServerSpec::default()), endpoints };
        place.store(&saved).unwrap();
        assert_eq!(place.load().unwrap(), Some(saved));
        std::fs::write(dir.path().join("deeper/proxy-ns-edge.json"), "{").unwrap();
        assert!(place.load().unwrap_err().to_string().contains("damaged"));
    }
}
