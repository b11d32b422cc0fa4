//! What the applier writes, what it leaves alone, and what it will not take from others. The operator has the rights of
//! `deploy/operator.yaml` here, no more.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use causeway_api::{DNSServer, Infra, ProxyServer, conditions::ConditionType, names};
use causeway_testkit::eventually;
use k8s_openapi::{
    Metadata, NamespaceResourceScope,
    api::{
        core::v1::{ConfigMap, Service, ServiceAccount},
        rbac::v1::{Role, RoleBinding},
    },
    apimachinery::pkg::apis::meta::v1::ObjectMeta,
};
use kube::{
    Resource, ResourceExt,
    api::{
        ApiResource, DeleteParams, DynamicObject, ListParams, Patch, PatchParams, PostParams,
        PropagationPolicy,
    },
    core::GroupVersionKind,
};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use crate::cluster::Cluster;

async fn create_proxy(cluster: &Cluster, name: &str) -> ProxyServer {
    let proxy = serde_json::from_value(json!({
        "apiVersion": "causeway.dev/v1alpha1", "kind": "ProxyServer", "metadata": { "name": name },
        "spec": {
            "networkConfig": { "serverIP": "192.168.100.4/25", "networkAttachmentName": "vlan100" },
            "backends": [{
                "name": "api", "hostname": "api.example.com", "port": 443,
                "targetService": "api", "targetPort": 8443, "targetNamespace": "default",
            }],
        },
    }))
    .unwrap();
    cluster.api::<ProxyServer>().create(&PostParams::default(), &proxy).await.unwrap()
}

/// The versions of everything in the namespace that the operator has made.
async fn versions(cluster: &Cluster) -> Vec<String> {
    async fn of<K>(cluster: &Cluster) -> Vec<String>
    where
        K: Resource<DynamicType = (), Scope = NamespaceResourceScope>,
        K: Clone + DeserializeOwned + std::fmt::Debug + Metadata<Ty = ObjectMeta>,
    {
        let ours =
            ListParams::default().labels(&format!("{}={}", names::LABEL_MANAGED_BY, names::MANAGED_BY));
        let found = cluster.api::<K>().list(&ours).await.unwrap();
        let shown = |o: &K| {
            format!("{} {} {}", K::kind(&()), o.name_any(), ResourceExt::resource_version(o).unwrap())
        };
        found.iter().map(shown).collect()
    }
    [
        of::<ServiceAccount>(cluster).await,
        of::<Role>(cluster).await,
        of::<RoleBinding>(cluster).await,
        of::<ConfigMap>(cluster).await,
        of::<Service>(cluster).await,
    ]
    .concat()
}

#[tokio::test]
async fn items_of_a_list_have_no_type_and_an_operator_that_lists_writes_nothing_again() {
    let cluster = Cluster::start().await;
    let operator = cluster.whole();
    create_proxy(&cluster, "edge").await;
    let made = eventually("all children are there", || async {
        let made = versions(&cluster).await;
        ["ServiceAccount", "Role ", "RoleBinding", "Service "]
            .iter()
            .all(|kind| made.iter().any(|child| child.starts_with(kind)))
            .then_some(made)
    })
    .await;
    operator.stop().await;

    let accounts = ApiResource::from_gvk(&GroupVersionKind::gvk("", "v1", "ServiceAccount"));
    let api = kube::Api::<DynamicObject>::default_namespaced_with(cluster.client.clone(), &accounts);
    let listed = api.list(&ListParams::default()).await.unwrap();
    assert!(listed.iter().all(|account| account.types.is_none()), "as Kubernetes lists them");
    assert!(!listed.items.is_empty());

    let before = made;
    let operator = cluster.whole();
    // This one is reconciled after the caches were filled, and with it the first.
    create_proxy(&cluster, "second").await;
    eventually("the second has a Service", || async { cluster.exists::<Service>("second").await }).await;
    let after = versions(&cluster).await;
    let touched: Vec<_> = before.iter().filter(|child| !after.contains(child)).collect();
    assert!(touched.is_empty(), "written again: {touched:?}");
    operator.stop().await;
}

#[tokio::test]
async fn an_object_that_only_says_it_is_ours_is_neither_taken_nor_deleted() {
    let cluster = Cluster::start().await;
    let infra = cluster.create_infra("lab", &json!({"dns": {"baseDomain": "example.com"}})).await;
    // Made by a person: with our label and our reference, under names that are wanted and names that are not.
    for name in ["lab-dns", "lab-notes"] {
        let notes = dns_server(name, &infra, true);
        cluster.api::<DNSServer>().create(&PostParams::default(), &notes).await.unwrap();
    }
    let bare = dns_server("lab-bare", &infra, false);
    cluster.api::<DNSServer>().create(&PostParams::default(), &bare).await.unwrap();
    let operator = cluster.operator("a");
    let infra = cluster.condition("lab", ConditionType::Ready, "False", "Conflict").await;
    operator.reconciled(1).await;
    let said = json!(infra.status).to_string();
    assert!(said.contains("lab-dns already exists and belongs to nobody"), "{said}");
    for name in ["lab-dns", "lab-notes", "lab-bare"] {
        let kept = cluster.api::<DNSServer>().get(name).await.unwrap();
        assert_eq!(kept.spec.hosted_cluster_domain.as_str(), "of-a-person.example.com", "{name}");
        assert!(kept.metadata.deletion_timestamp.is_none(), "{name}");
    }
    operator.stop().await;
}

#[tokio::test]
async fn what_the_operator_made_and_lost_is_taken_back() {
    let cluster = Cluster::start().await;
    let operator = cluster.operator("a");
    let infra = cluster.create_infra("lab", &json!({"dns": {"baseDomain": "example.com"}})).await;
    let child = eventually("the child is there", || async {
        cluster.api::<DNSServer>().get_opt("lab-dns").await.unwrap()
    })
    .await;
    let orphan =
        DeleteParams { propagation_policy: Some(PropagationPolicy::Orphan), ..DeleteParams::default() };
    cluster.api::<Infra>().delete("lab", &orphan).await.unwrap();
    eventually("the Infra is gone", || async { !cluster.exists::<Infra>("lab").await }).await;
    let again = cluster.create_infra("lab", &json!({"dns": {"baseDomain": "example.com"}})).await;
    assert_ne!(again.uid(), infra.uid());
    eventually("the child has its new owner", || async {
        let now = cluster.api::<DNSServer>().get("lab-dns").await.unwrap();
        assert_eq!(now.uid(), child.uid(), "it is the same object");
        now.owner_references().iter().any(|owner| Some(&owner.uid) == again.uid().as_ref())
    })
    .await;
    operator.stop().await;
}

/// A forced apply is meant for one object: not for another that has its name by now, and not for none.
#[tokio::test]
async fn an_apply_with_a_uid_is_for_that_object_alone() {
    let cluster = Cluster::start().await;
    let maps = cluster.api::<ConfigMap>();
    let map = |uid: Option<&str>| {
        let mut map =
            json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "m"}, "data": {"a": "b"}});
        if let Some(uid) = uid {
            map["metadata"]["uid"] = json!(uid);
        }
        Patch::Apply(map)
    };
    let force = PatchParams::apply("test").force();
    let first = maps.patch("m", &force, &map(None)).await.unwrap();
    maps.patch("m", &force, &map(first.uid().as_deref())).await.unwrap();
    maps.delete("m", &DeleteParams::default()).await.unwrap();
    let refused = |result: kube::Result<ConfigMap>| match result {
        Err(kube::Error::Api(status)) => status.code,
        other => panic!("should be refused: {other:?}"),
    };
    assert_eq!(refused(maps.patch("m", &force, &map(first.uid().as_deref())).await), 409, "there is none");
    let other = maps.patch("m", &force, &map(None)).await.unwrap();
    assert_ne!(other.uid(), first.uid());
    assert_eq!(refused(maps.patch("m", &force, &map(first.uid().as_deref())).await), 422, "it is another");
    let fields = json!(other.managed_fields()).to_string();
    assert!(!fields.contains("f:uid"), "{fields}");
}

/// Between the look whether a name is free and the apply, somebody else may take it.
#[tokio::test]
async fn what_somebody_makes_in_the_same_moment_is_not_taken() {
    let cluster = Cluster::start().await;
    let (accounts, is_made) = (cluster.api::<ServiceAccount>(), Arc::new(AtomicBool::new(false)));
    let raced = cluster.operator_through(move |request| {
        let (accounts, is_made) = (accounts.clone(), is_made.clone());
        let is_first = request.method() == http::Method::PATCH
            && request.uri().path().ends_with("/serviceaccounts/edge-proxy")
            && !is_made.swap(true, Relaxed);
        async move {
            if is_first {
                let own = serde_json::from_value(json!({"metadata": {"name": "edge-proxy"}})).unwrap();
                accounts.create(&PostParams::default(), &own).await.unwrap();
            }
        }
    });
    let operator = Cluster::run_whole(raced);
    create_proxy(&cluster, "edge").await;
    eventually("the conflict is told", || async {
        let proxy = cluster.api::<ProxyServer>().get("edge").await.unwrap();
        json!(proxy.status).to_string().contains("already exists and belongs to nobody")
    })
    .await;
    let theirs = cluster.api::<ServiceAccount>().get("edge-proxy").await.unwrap();
    assert!(theirs.owner_references().is_empty() && theirs.labels().is_empty(), "{:?}", theirs.metadata);
    operator.stop().await;
}

fn dns_server(name: &str, infra: &Infra, labelled: bool) -> DNSServer {
    let mut labels = json!({});
    if labelled {
        labels[names::LABEL_MANAGED_BY] = json!(names::MANAGED_BY);
        labels[names::LABEL_INVENTORY] = json!(infra.uid());
    }
    let owner: Option<Value> = labelled.then(|| json!(infra.controller_owner_ref(&()).unwrap()));
    serde_json::from_value(json!({
        "apiVersion": "causeway.dev/v1alpha1", "kind": "DNSServer",
        "metadata": {"name": name, "labels": labels, "ownerReferences": owner.into_iter().collect::<Vec<_>>()},
        "spec": {
            "hostedClusterDomain": "of-a-person.example.com",
            "networkConfig": {"serverIP": "192.168.100.9", "proxyIP": "192.168.100.10", "networkAttachmentName": "vlan100"},
        },
    }))
    .unwrap()
}
