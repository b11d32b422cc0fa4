//! What is over: requests, workstations, and the words of pods that are gone.

use std::collections::BTreeMap;

use causeway_api::{InterceptRequest, Workstation, WorkstationConnection, names};
use causeway_translate::intercept::{Picture, Verdict};
use k8s_openapi::api::core::v1::Pod;
use kube::api::{DeleteParams, Patch, PatchParams, Preconditions};
use kube::{Api, Resource, ResourceExt as _};
use serde_json::json;

use super::Pass;
use crate::framework::error::Error;
use crate::framework::events::{Note, Severity};
use crate::intercepts::stowaway;
use crate::intercepts::workstations::Judged;

impl Pass<'_> {
    /// Lets go what is over: requests whose targets are as they were, workstations that nobody sends to, and those whose time
    /// has come.
    pub(super) async fn release(&self, judged: &[Judged], picture: &Picture, failures: &mut Vec<Error>) {
        let controller = self.controller;
        for (at, request) in &self.requests {
            let is_over = matches!(picture.requests.get(at), Some(Verdict::Ending));
            if !is_over {
                continue;
            }
            if request.metadata.deletion_timestamp.is_none() {
                failures.extend(self.expire::<InterceptRequest>(request).await.err());
            } else if controller.request_finalizer.is_on(request) && !self.is_left(at, request) {
                match controller.request_finalizer.remove(request).await {
                    Ok(()) => controller.requests.forget(&request.uid().unwrap_or_default()),
                    Err(error) => failures.push(error),
                }
            }
        }
        for one in judged {
            if one.is_leaving() {
                let is_used = self.requests.iter().any(|(at, request)| {
                    let named = &request.spec.workstation;
                    let (namespace, name) = named.split_once('/').unwrap_or((&at.namespace, named));
                    (namespace, name) == (one.at.namespace.as_str(), one.at.name.as_str())
                        && self.is_left(at, request)
                });
                if controller.workstation_finalizer.is_on(&one.object) && !is_used {
                    match controller.workstation_finalizer.remove(&one.object).await {
                        Ok(()) => controller.workstations.forget(&one.uid),
                        Err(error) => failures.push(error),
                    }
                }
            } else if one.expiry().is_some_and(|end| end <= self.now) {
                failures.extend(self.expire::<Workstation>(&one.object).await.err());
            }
        }
    }

    /// Deletes what has had its time.
    async fn expire<K>(&self, object: &K) -> Result<(), Error>
    where
        K: Resource<DynamicType = (), Scope = kube::core::NamespaceResourceScope>
            + Clone
            + serde::de::DeserializeOwned
            + std::fmt::Debug,
    {
        let note = Note {
            severity: Severity::Normal,
            reason: "Expired".to_owned(),
            action: "Delete",
            text: "its time to live, spec.ttl, is over".to_owned(),
        };
        self.controller.events.publish(&object.object_ref(&()), note).await;
        let namespace = object.namespace().unwrap_or_default();
        let api = Api::<K>::namespaced(self.controller.client.clone(), &namespace);
        let params = DeleteParams {
            preconditions: Some(Preconditions { uid: object.uid(), resource_version: None }),
            ..DeleteParams::default()
        };
        match api.delete(&object.name_any(), &params).await {
            Ok(_) => Ok(()),
            Err(kube::Error::Api(answer)) if matches!(answer.code, 404 | 409) => Ok(()),
            Err(source) => {
                let kind = if K::kind(&()) == "Workstation" { "Workstation" } else { "InterceptRequest" };
                Err(Error::ChangeTarget { kind, name: format!("{namespace}/{}", object.name_any()), source })
            }
        }
    }

    /// Removes the words of pods of the cluster's end that are gone.
    pub(super) async fn forget_pods(&self, standing: &stowaway::Standing, failures: &mut Vec<Error>) {
        let controller = self.controller;
        let pods = standing.pod_names();
        let mut gone: BTreeMap<String, bool> = BTreeMap::new();
        for workstation in &self.workstations {
            let connections = workstation.status.iter().flat_map(|status| &status.connections);
            for WorkstationConnection { replica, .. } in
                connections.filter(|one| !pods.contains(&one.replica))
            {
                let is_gone = if let Some(is_gone) = gone.get(replica) {
                    *is_gone
                } else {
                    // The caches may be behind a pod that has just begun to report.
                    let api =
                        Api::<Pod>::namespaced(controller.client.clone(), &controller.settings.namespace);
                    let name = format!("{}/{replica}", controller.settings.namespace);
                    let is_gone = match api.get_metadata_opt(replica).await {
                        Ok(pod) => pod.is_none(),
                        Err(source) => {
                            failures.push(Error::LookUpPod { name, source });
                            false
                        }
                    };
                    gone.insert(replica.clone(), is_gone);
                    is_gone
                };
                if is_gone {
                    failures.extend(self.forget(workstation, replica).await.err());
                }
            }
        }
    }

    /// Gives up, in a pod's place, what it had written.
    async fn forget(&self, workstation: &Workstation, replica: &str) -> Result<(), Error> {
        let name = workstation.name_any();
        let namespace = workstation.namespace().unwrap_or_default();
        let body = json!({
            "apiVersion": names::API_VERSION, "kind": "Workstation", "metadata": { "name": name }, "status": {},
        });
        let params = PatchParams::apply(&names::stowaway_report_manager(replica)).force();
        let api = Api::<Workstation>::namespaced(self.controller.client.clone(), &namespace);
        match api.patch_status(&name, &params, &Patch::Apply(&body)).await {
            Ok(_) => Ok(()),
            Err(kube::Error::Api(answer)) if answer.code == 404 => Ok(()),
            Err(source) => Err(Error::WriteStatus { source }),
        }
    }
}
