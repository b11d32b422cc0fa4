//! A controller of a kind of the whole cluster: watched, with a finalizer, and with a child in a namespace that follows it.

use std::sync::Arc;

use causeway_controllers::framework::{
    apply::{Applier, Owner, Wanted},
    children::{ChildKind, Children},
    error::Error,
    finalizer::Finalizer,
    runner::Reconciler,
};
use k8s_openapi::api::core::v1::{ConfigMap, Namespace};
use kube::{
    Api, ResourceExt,
    api::{DeleteParams, PostParams},
};
use serde_json::json;

use crate::cluster::Cluster;
use causeway_testkit::eventually;

const CONFIG_MAP: ChildKind =
    ChildKind { group: "", version: "v1", kind: "ConfigMap", plural: "configmaps", older: &[] };
const SUBJECT: &str = "subject";

/// Gives the one Namespace that it serves a ConfigMap in another.
struct Controller {
    applier: Applier,
    finalizer: Finalizer<Namespace>,
}

impl Reconciler for Controller {
    type Primary = Namespace;
    const NAME: &'static str = "namespaces";
    const CHILDREN: &'static [ChildKind] = &[CONFIG_MAP];

    async fn reconcile(&self, object: Arc<Namespace>, children: Children) -> Result<(), Error> {
        let Some(owner) = Owner::of(&*object).filter(|_| object.name_any() == SUBJECT) else { return Ok(()) };
        if object.metadata.deletion_timestamp.is_some() {
            self.applier.converge(&owner, &[], &[], &children).await.into_result()?;
            return self.finalizer.remove(&object).await;
        }
        if !self.finalizer.is_on(&object) && !self.finalizer.add(&object).await? {
            return Ok(());
        }
        let child: ConfigMap = serde_json::from_value(json!({
            "metadata": { "name": "of-subject", "namespace": "default" }, "data": { "owner": SUBJECT },
        }))
        .unwrap();
        let wanted = [Wanted::new(CONFIG_MAP, &child)];
        self.applier.converge(&owner, &wanted, &[], &children).await.into_result()
    }

    fn wakes_on(object: &Namespace) -> Option<u64> {
        Some(u64::from(object.metadata.deletion_timestamp.is_some()) + 2 * object.finalizers().len() as u64)
    }
}

#[tokio::test]
async fn a_kind_of_the_whole_cluster_is_served_like_any_other() {
    let cluster = Cluster::start().await;
    let running = cluster.controller(Controller {
        applier: Applier::new(cluster.client.clone(), "causeway-namespaces"),
        finalizer: Finalizer::new(cluster.client.clone(), "causeway.dev/namespaces"),
    });
    let namespaces = Api::<Namespace>::all(cluster.client.clone());
    let object: Namespace = serde_json::from_value(json!({ "metadata": { "name": SUBJECT } })).unwrap();
    let object = namespaces.create(&PostParams::default(), &object).await.unwrap();
    let child = || async { cluster.api::<ConfigMap>().get_opt("of-subject").await.unwrap() };
    eventually("its child is there", || async { child().await.is_some() }).await;
    let made = child().await.unwrap();
    assert_eq!(made.owner_references()[0].uid, object.uid().unwrap(), "it goes with its owner");

    // A change of the child, which is in a namespace, wakes its owner, which is in none.
    cluster.api::<ConfigMap>().delete("of-subject", &DeleteParams::default()).await.unwrap();
    eventually("it is made again", || async { child().await.is_some_and(|now| now.uid() != made.uid()) })
        .await;

    namespaces.delete(SUBJECT, &DeleteParams::default()).await.unwrap();
    eventually("both are gone", || async {
        child().await.is_none() && namespaces.get_opt(SUBJECT).await.unwrap().is_none()
    })
    .await;
    running.stop().await;
}
