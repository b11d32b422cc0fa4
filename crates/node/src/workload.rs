//! The workload controllers that a cluster's controller manager would run: Deployments, ReplicaSets and StatefulSets.
//! Each is a pure `plan(desired, observed) → actions` and a thin loop that reads live, plans, and acts; live reads make
//! expectations unnecessary, since a plan never sees less than what the loop itself has written.

mod claim;
mod deployment;
mod hash;
mod replica_set;
mod stateful_set;
mod unsupported;

use causeway_base::report;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use kube::{Client, Resource, ResourceExt};
use tokio_util::sync::CancellationToken;

use crate::events::Recorder;

/// A failed step of a reconcile; retried with backoff.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Error {
    #[error("cannot {verb} {kind} {namespace}/{name}")]
    Api { verb: &'static str, kind: &'static str, namespace: String, name: String, source: Box<kube::Error> },
}

impl Error {
    /// What the API said, for people.
    pub(crate) fn message(&self) -> String {
        let Self::Api { source, .. } = self;
        message(source)
    }

    pub(crate) fn api<'a>(
        verb: &'static str,
        kind: &'static str,
        namespace: &'a str,
        name: &'a str,
    ) -> impl FnOnce(kube::Error) -> Self + use<'a> {
        move |source| Self::Api {
            verb,
            kind,
            namespace: namespace.to_owned(),
            name: name.to_owned(),
            source: Box::new(source),
        }
    }
}

/// Runs all workload controllers until `shutdown`.
pub(crate) async fn run(client: Client, recorder: Recorder, shutdown: CancellationToken) {
    tokio::join!(
        deployment::run(client.clone(), recorder.clone(), shutdown.clone()),
        replica_set::run(client.clone(), recorder.clone(), shutdown.clone()),
        stateful_set::run(client.clone(), recorder.clone(), shutdown.clone()),
        unsupported::run(client, recorder, shutdown),
    );
}

/// The owner reference with which `owner` controls its children.
pub(crate) fn controller_reference<K: Resource<DynamicType = ()>>(owner: &K) -> OwnerReference {
    OwnerReference {
        api_version: K::api_version(&()).into_owned(),
        kind: K::kind(&()).into_owned(),
        name: owner.name_any(),
        uid: owner.uid().unwrap_or_default(),
        controller: Some(true),
        block_owner_deletion: Some(true),
    }
}

/// What the API answered, without the wrapping of the client.
pub(crate) fn message(error: &kube::Error) -> String {
    match error {
        kube::Error::Api(status) => status.message.clone(),
        other => report::chain(other),
    }
}

/// True when the error is the API's answer with this code.
pub(crate) fn is_code(error: &kube::Error, code: u16) -> bool {
    matches!(error, kube::Error::Api(status) if status.code == code)
}
