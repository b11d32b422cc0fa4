//! Who may do what, as a client meets it.

use causeway_apiserver::User;
use k8s_openapi::api::authorization::v1::SelfSubjectAccessReview;
use k8s_openapi::api::core::v1::{ConfigMap, Node};
use k8s_openapi::api::rbac::v1::{Role, RoleBinding};
use kube::Api;
use kube::api::{DeleteParams, ListParams, PostParams};
use serde_json::json;

use crate::cluster::{Cluster, config_map, refused, typed};

#[tokio::test]
async fn a_user_without_a_role_is_refused_in_kubernetes_words_and_works_with_one() {
    let cluster = Cluster::start().await;
    let alice = cluster.server.client_as(User::new("alice", &["system:authenticated"]));
    let api: Api<ConfigMap> = Api::namespaced(alice.clone(), "default");
    let status = refused(api.list(&ListParams::default()).await);
    assert_eq!((status.code, status.reason.as_str()), (403, "Forbidden"));
    assert_eq!(
        status.message,
        "configmaps is forbidden: User \"alice\" cannot list resource \"configmaps\" in API group \"\" in the namespace \"default\""
    );
    let status = refused(api.get("c").await);
    assert_eq!(
        status.message,
        "configmaps \"c\" is forbidden: User \"alice\" cannot get resource \"configmaps\" in API group \"\" in the namespace \"default\""
    );
    assert_eq!(status.details.unwrap().name, "c");
    let everywhere: Api<ConfigMap> = Api::all(alice.clone());
    let status = refused(everywhere.list(&ListParams::default()).await);
    assert!(status.message.ends_with("at the cluster scope"), "{}", status.message);

    let roles: Api<Role> = Api::namespaced(cluster.client.clone(), "default");
    let role = typed(json!({"metadata": {"name": "editor"}, "rules": [
        {"apiGroups": [""], "resources": ["configmaps"], "verbs": ["list", "create", "get"]},
    ]}));
    roles.create(&PostParams::default(), &role).await.unwrap();
    let bindings: Api<RoleBinding> = Api::namespaced(cluster.client.clone(), "default");
    let binding = typed(json!({
        "metadata": {"name": "alice"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "editor"},
        "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "alice"}],
    }));
    bindings.create(&PostParams::default(), &binding).await.unwrap();
    api.list(&ListParams::default()).await.unwrap();
    api.create(&PostParams::default(), &config_map("c", &[])).await.unwrap();
    assert_eq!(refused(api.delete("c", &DeleteParams::default()).await).code, 403, "only what the role says");
    assert!(may(&alice, "create").await && !may(&alice, "delete").await);

    bindings.delete("alice", &DeleteParams::default()).await.unwrap();
    assert_eq!(refused(api.list(&ListParams::default()).await).code, 403);
}

async fn may(client: &kube::Client, verb: &str) -> bool {
    let reviews: Api<SelfSubjectAccessReview> = Api::all(client.clone());
    let review = typed(json!({"spec": {"resourceAttributes": {
        "namespace": "default", "verb": verb, "resource": "configmaps",
    }}}));
    reviews.create(&PostParams::default(), &review).await.unwrap().status.unwrap().allowed
}

/// It has what `deploy/operator.yaml` gives it on a cluster: it can't grant more, nor bind a role that is not there.
#[tokio::test]
async fn the_operator_in_this_process_is_no_administrator() {
    let cluster = Cluster::start().await;
    let operator = cluster.server.operator_client();
    let nodes: Api<Node> = Api::all(operator.clone());
    let status = refused(nodes.delete("x", &DeleteParams::default()).await);
    assert!(
        status
            .message
            .contains("User \"system:serviceaccount:causeway-system:causeway-operator\" cannot delete"),
        "{}",
        status.message
    );
    let roles: Api<Role> = Api::namespaced(operator.clone(), "default");
    let role = |resource: &str| -> Role {
        typed(json!({"metadata": {"name": resource}, "rules": [
            {"apiGroups": [""], "resources": [resource], "verbs": ["get"]},
        ]}))
    };
    let status = refused(roles.create(&PostParams::default(), &role("resourcequotas")).await);
    assert!(
        status.message.contains("attempting to grant RBAC permissions not currently held"),
        "{}",
        status.message
    );
    let bindings: Api<RoleBinding> = Api::namespaced(operator.clone(), "default");
    let binding: RoleBinding = typed(json!({
        "metadata": {"name": "b"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "services"},
        "subjects": [{"kind": "ServiceAccount", "name": "x", "namespace": "default"}],
    }));
    let status = refused(bindings.create(&PostParams::default(), &binding).await);
    assert_eq!((status.code, status.reason.as_str()), (404, "NotFound"), "the role first");
    roles.create(&PostParams::default(), &role("services")).await.unwrap();
    bindings.create(&PostParams::default(), &binding).await.unwrap();
}
