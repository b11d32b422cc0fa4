//! One client that creates, changes and deletes objects of its own until the server is gone.

use std::collections::BTreeMap;

use causeway_testkit::Dice;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::Api;
use kube::api::{DeleteParams, ObjectMeta, Patch, PatchParams, PostParams};
use serde_json::json;

use crate::ledger::{Ledger, Pending, content};

/// Objects per writer; few, so that each is created and deleted often.
const NAMES: u64 = 6;

pub struct Writer {
    api: Api<ConfigMap>,
    ledger: Ledger,
    dice: Dice,
}

impl Writer {
    pub fn new(api: Api<ConfigMap>, ledger: Ledger, dice: Dice) -> Self {
        Self { api, ledger, dice }
    }

    /// Runs until a request gets no answer; also returns how many writes were acknowledged.
    pub async fn run(mut self) -> (Ledger, usize) {
        let mut count = 0;
        loop {
            let name = format!("w{}-{}", self.ledger.writer, self.dice.below(NAMES));
            match self.step(&name).await {
                Ok(()) => count += 1,
                // An answer that refuses would be wrong: nobody else writes these objects.
                Err(kube::Error::Api(status)) => panic!("{name}: {status:?}"),
                Err(_) => return (self.ledger, count),
            }
        }
    }

    async fn step(&mut self, name: &str) -> Result<(), kube::Error> {
        let known = self.ledger.known(name).cloned();
        if known.is_some() && self.dice.below(4) == 0 {
            self.ledger.begin(name, Pending::Delete);
            self.api.delete(name, &DeleteParams::default()).await?;
            self.ledger.deleted();
            return Ok(());
        }
        self.ledger.serial += 1;
        let serial = self.ledger.serial;
        self.ledger.begin(name, Pending::Put(serial));
        let written = match known {
            None => self.api.create(&PostParams::default(), &self.object(name, serial)).await?,
            Some(known) if self.dice.below(2) == 0 => {
                let mut object = self.object(name, serial);
                object.metadata.resource_version = Some(known.revision.to_string());
                self.api.replace(name, &PostParams::default(), &object).await?
            }
            Some(_) => {
                let patch = Patch::Merge(json!({"data": content(serial)}));
                self.api.patch(name, &PatchParams::default(), &patch).await?
            }
        };
        self.ledger.acknowledged(&written);
        Ok(())
    }

    fn object(&self, name: &str, serial: u64) -> ConfigMap {
        ConfigMap {
            metadata: ObjectMeta {
                name: Some(name.to_owned()),
                labels: Some(BTreeMap::from([("writer".to_owned(), self.ledger.writer.to_string())])),
                ..ObjectMeta::default()
            },
            data: Some(content(serial)),
            ..ConfigMap::default()
        }
    }
}
