//! What an installation consists of in a cluster: all that is labelled as part of Causeway, whatever values it was made with,
//! and what has one of the chart's names, which is how older ones are known.

mod confined;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use anyhow::{Context, bail};
use causeway_api::names;
use causeway_chart::{Chart, Document, INSTALLED_IN, Release};
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::rbac::v1::{ClusterRoleBinding, RoleBinding, Subject};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{
    Api, ApiResource, DeleteParams, DynamicObject, GroupVersionKind, ListParams, PartialObjectMeta,
};
use kube::{Client, ResourceExt};
use serde_json::json;

use super::refusal;
pub(crate) use confined::{Confined, Scope, confined, find_in, reach, scope};

/// The usual name of an installation.
pub(crate) const NAME: &str = "causeway";
/// The operator's Deployment, and the roles that it has its rights by in single namespaces.
pub(crate) const OPERATOR: &str = "causeway-operator";
/// The label that says it of pods and Deployments, also in older installations.
pub(crate) const OPERATOR_LABEL: &str = "app=causeway-operator";

/// An object of an installation.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Piece {
    /// Group, version and kind.
    gvk: (String, String, String),
    pub(crate) namespace: Option<String>,
    pub(crate) name: String,
}

impl fmt::Display for Piece {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.namespace {
            Some(namespace) => write!(f, "{} {namespace}/{}", self.kind(), self.name),
            None => write!(f, "{} {}", self.kind(), self.name),
        }
    }
}

impl Piece {
    pub(crate) fn of(document: &Document) -> Self {
        let version = document.object["apiVersion"].as_str().unwrap_or_default();
        Self::named(version, document.kind(), document.namespace(), document.name())
    }

    /// Any other object.
    pub(crate) fn named(api_version: &str, kind: &str, namespace: Option<&str>, name: &str) -> Self {
        let (group, version) = api_version.rsplit_once('/').unwrap_or(("", api_version));
        Self {
            gvk: (group.to_owned(), version.to_owned(), kind.to_owned()),
            namespace: namespace.map(ToOwned::to_owned),
            name: name.to_owned(),
        }
    }

    pub(crate) fn kind(&self) -> &str {
        &self.gvk.2
    }

    pub(crate) fn resource(&self) -> ApiResource {
        let (group, version, kind) = &self.gvk;
        ApiResource::from_gvk(&GroupVersionKind::gvk(group, version, kind))
    }

    pub(crate) fn api(&self, client: &Client) -> Api<DynamicObject> {
        match &self.namespace {
            Some(namespace) => Api::namespaced_with(client.clone(), namespace, &self.resource()),
            None => Api::all_with(client.clone(), &self.resource()),
        }
    }

    /// It, or none where it or its kind is not there.
    pub(crate) async fn get(&self, client: &Client) -> anyhow::Result<Option<DynamicObject>> {
        match self.api(client).get_opt(&self.name).await {
            Ok(found) => Ok(found),
            Err(error) if is_missing(&error) => Ok(None),
            Err(error) => bail!("can't look for {self}: {}", refusal::words(&error)),
        }
    }

    pub(crate) async fn delete(&self, client: &Client) -> anyhow::Result<()> {
        match self.api(client).delete(&self.name, &DeleteParams::background()).await {
            Ok(_) => Ok(()),
            Err(error) if is_missing(&error) => Ok(()),
            Err(error) => bail!("can't delete {self}: {}", refusal::words(&error)),
        }
    }

    /// The order in which an installation is taken apart: who runs goes first, what refuses requests before what it asks, and
    /// namespaces at last.
    fn order(&self) -> u8 {
        match self.kind() {
            "Deployment" => 0,
            "ValidatingAdmissionPolicyBinding" => 1,
            "ValidatingAdmissionPolicy" => 2,
            "Namespace" => 9,
            _ => 5,
        }
    }
}

pub(crate) fn is_missing(error: &kube::Error) -> bool {
    matches!(error, kube::Error::Api(answer) if answer.code == 404)
}

/// What an installation consists of with the usual values, in these namespaces alone if some are named.
pub(crate) fn usual_pieces(namespace: &str, namespaces: &[String]) -> anyhow::Result<Vec<Piece>> {
    let release = Release {
        name: NAME.to_owned(),
        namespace: namespace.to_owned(),
        service: names::INSTALLER.to_owned(),
    };
    let is_for_all = namespaces.is_empty();
    let values = json!({
        "namespaces": namespaces, "crds": {"enabled": is_for_all}, "namespace": {"create": is_for_all},
    });
    let documents = Chart::own().render(&release, &values).context("the chart can't be rendered")?;
    Ok(documents.iter().map(Piece::of).collect())
}

/// What an installation could consist of with any values, without definitions.
fn pieces_of_chart(namespace: &str) -> anyhow::Result<Vec<Piece>> {
    let release = Release {
        name: NAME.to_owned(),
        namespace: namespace.to_owned(),
        service: names::INSTALLER.to_owned(),
    };
    let on = json!({"enabled": true});
    let all = json!({
        "namespace": {"create": true}, "openshift": true, "crds": {"enabled": false}, "networkPolicy": on,
        "podTemplate": {"labels": {"a": "b"}}, "replicas": 2, "rbac": {"aggregateGatewayApi": true},
        "metrics": {"service": on, "serviceMonitor": on, "podMonitor": on, "rules": on, "dashboard": on},
    });
    let documents = Chart::own().render(&release, &all).context("the chart can't be rendered")?;
    Ok(documents.iter().map(Piece::of).collect())
}

/// What is there of an installation.
#[derive(Debug, Default)]
pub(crate) struct Found {
    /// In the order in which they are to be deleted. Definitions are not among them.
    pub(crate) pieces: Vec<Piece>,
    /// Namespaces that it uses and that nobody has labelled as part of it: they are who made them's.
    pub(crate) namespaces_of_others: Vec<Piece>,
}

/// What an object says of whom it belongs to.
#[derive(Debug, PartialEq, Eq)]
enum Belongs {
    Here,
    Elsewhere,
    /// It has no label, as older manifests have none.
    Unsaid,
}

fn belongs(labels: &BTreeMap<String, String>, namespace: &str) -> Belongs {
    match labels.get(INSTALLED_IN) {
        Some(label) if label == namespace => Belongs::Here,
        Some(_) => Belongs::Elsewhere,
        None => Belongs::Unsaid,
    }
}

/// What selects all that says so of the installation in this namespace.
fn of_installation(namespace: &str) -> String {
    format!("{}={},{INSTALLED_IN}={namespace}", names::LABEL_PART_OF, names::PART_OF)
}

/// Whether a namespace was made by the installation in `namespace`, and not only has what it needs.
pub(crate) fn is_own_namespace(labels: &BTreeMap<String, String>, namespace: &str) -> bool {
    labels.get(names::LABEL_PART_OF).map(String::as_str) == Some(names::PART_OF)
        && belongs(labels, namespace) == Belongs::Here
}

/// Whether a ClusterRoleBinding is for accounts of this namespace.
fn binds_in(binding: &DynamicObject, namespace: &str) -> bool {
    let subjects = binding.data["subjects"].as_array().map(Vec::as_slice).unwrap_or_default();
    subjects.iter().any(|subject| subject["namespace"] == namespace)
}

/// Whether a piece without a label is another installation's: by whom it, or the binding of its name, is for.
async fn is_bound_elsewhere(client: &Client, piece: &Piece, namespace: &str) -> anyhow::Result<bool> {
    if !["ClusterRole", "ClusterRoleBinding"].contains(&piece.kind()) {
        return Ok(false);
    }
    let binding = Piece::named("rbac.authorization.k8s.io/v1", "ClusterRoleBinding", None, &piece.name);
    Ok(binding.get(client).await?.is_some_and(|binding| !binds_in(&binding, namespace)))
}

/// How far what looks like an operator may reach. A Deployment with our name and labels is made by whoever may make one;
/// rights that reach beyond his namespace are not.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Reach {
    Cluster,
    /// By RoleBindings there.
    Namespaces(BTreeSet<String>),
    Nothing,
}

impl Reach {
    /// In these; in all of them if none is named.
    pub(crate) fn of(namespaces: &[String]) -> Self {
        if namespaces.is_empty() {
            Self::Cluster
        } else {
            Self::Namespaces(namespaces.iter().cloned().collect())
        }
    }

    /// What an operator with the one and one with the other would both serve.
    pub(crate) fn overlap(&self, other: &Self) -> Self {
        match (self, other) {
            (Self::Nothing, _) | (_, Self::Nothing) => Self::Nothing,
            (Self::Cluster, reach) | (reach, Self::Cluster) => reach.clone(),
            (Self::Namespaces(ones), Self::Namespaces(others)) => {
                let both: BTreeSet<String> = ones.intersection(others).cloned().collect();
                if both.is_empty() { Self::Nothing } else { Self::Namespaces(both) }
            }
        }
    }
}

/// What looks like an operator.
#[derive(Debug)]
pub(crate) struct Operator {
    pub(crate) namespace: String,
    pub(crate) is_ready: bool,
    pub(crate) reach: Reach,
}

/// All Deployments that look like an operator, by namespace.
pub(crate) async fn operators(client: &Client) -> Result<Vec<Operator>, kube::Error> {
    let api: Api<Deployment> = Api::all(client.clone());
    let found = api.list(&ListParams::default().labels(OPERATOR_LABEL)).await?.items;
    let found: Vec<Deployment> = found.into_iter().filter(|one| one.name_any() == OPERATOR).collect();
    if found.is_empty() {
        return Ok(Vec::new());
    }
    let bindings: Api<ClusterRoleBinding> = Api::all(client.clone());
    let bindings = bindings.list(&ListParams::default()).await?.items;
    // To whatever role: OLM names it in its own way, and nobody binds a whole cluster's rights without having them.
    let whole: BTreeSet<String> = bindings.iter().flat_map(|one| accounts(one.subjects.as_deref())).collect();
    let parts: Api<RoleBinding> = Api::all(client.clone());
    let parts = parts.list(&ListParams::default()).await?.items;
    let mut inside: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for binding in parts.iter().filter(|one| one.role_ref.name == OPERATOR) {
        for account in accounts(binding.subjects.as_deref()) {
            inside.entry(account).or_default().extend(binding.namespace());
        }
    }
    let operator = |one: &Deployment| {
        let namespace = one.namespace().unwrap_or_default();
        let reach = match inside.get(&namespace) {
            _ if whole.contains(&namespace) => Reach::Cluster,
            Some(namespaces) => Reach::Namespaces(namespaces.clone()),
            None => Reach::Nothing,
        };
        let ready = one.status.as_ref().and_then(|status| status.ready_replicas).unwrap_or(0);
        Operator { namespace, is_ready: ready > 0, reach }
    };
    Ok(found.iter().map(operator).collect())
}

/// Namespaces of the operator's account among these.
fn accounts(subjects: Option<&[Subject]>) -> impl Iterator<Item = String> {
    let ours = subjects.unwrap_or_default().iter();
    ours.filter(|one| one.kind == "ServiceAccount" && one.name == names::OPERATOR_ACCOUNT)
        .filter_map(|one| one.namespace.clone())
}

/// Namespaces in which an operator is at work whose reach counts.
pub(crate) fn at_work(operators: &[Operator], counts: impl Fn(&Reach) -> bool) -> BTreeSet<String> {
    let works = operators.iter().filter(|one| one.is_ready && counts(&one.reach));
    works.map(|one| one.namespace.clone()).collect()
}

/// Whether the cluster is `causeway up`: its operator is no part of it, and has its rights anew at each start.
pub(crate) async fn is_one_machine(client: &Client) -> bool {
    client.apiserver_version().await.is_ok_and(|server| server.git_version.contains("+causeway-"))
}

/// All that is there of the installation in this namespace, and of no other.
pub(crate) async fn find(client: &Client, namespace: &str) -> anyhow::Result<Found> {
    if is_one_machine(client).await {
        return Ok(Found::default());
    }
    let known = pieces_of_chart(namespace)?;
    let mut found: BTreeSet<Piece> = BTreeSet::new();
    let mut namespaces_of_others = Vec::new();
    let mut kinds: Vec<&Piece> = Vec::new();
    for piece in &known {
        if !kinds.iter().any(|kind| kind.gvk == piece.gvk) {
            kinds.push(piece);
        }
        let there = match piece.api(client).get_metadata_opt(&piece.name).await {
            Ok(Some(there)) => there,
            Ok(None) => continue,
            Err(error) if is_missing(&error) => continue,
            Err(error) => bail!("can't look for {piece}: {}", refusal::words(&error)),
        };
        let belongs = belongs(there.labels(), namespace);
        // A namespace that somebody else has made is not ours because something of ours is in it.
        if piece.kind() == "Namespace" {
            if belongs != Belongs::Elsewhere && !is_own_namespace(there.labels(), namespace) {
                namespaces_of_others.push(piece.clone());
            }
            continue;
        }
        let is_ours = match belongs {
            Belongs::Here => true,
            Belongs::Elsewhere => false,
            Belongs::Unsaid => !is_bound_elsewhere(client, piece, namespace).await?,
        };
        if is_ours {
            found.insert(piece.clone());
        }
    }
    for kind in kinds {
        for object in labelled(client, kind, namespace).await? {
            let piece =
                Piece { gvk: kind.gvk.clone(), namespace: object.namespace(), name: object.name_any() };
            found.insert(piece);
        }
    }
    let mut pieces: Vec<Piece> = found.into_iter().collect();
    pieces.sort_by_key(Piece::order);
    // Where nothing is installed, nobody uses them: on one machine namespaces are as people made them.
    if pieces.is_empty() {
        namespaces_of_others.clear();
    }
    Ok(Found { pieces, namespaces_of_others })
}

/// Those of a kind that say of themselves that they are part of the installation in this namespace.
async fn labelled(
    client: &Client,
    kind: &Piece,
    namespace: &str,
) -> anyhow::Result<Vec<PartialObjectMeta<DynamicObject>>> {
    let api: Api<DynamicObject> = Api::all_with(client.clone(), &kind.resource());
    let ours = ListParams::default().labels(&of_installation(namespace));
    match api.list_metadata(&ours).await {
        Ok(list) => Ok(list.items),
        Err(error) if is_missing(&error) => Ok(Vec::new()),
        Err(error) => bail!("can't list {}: {}", kind.resource().plural, refusal::words(&error)),
    }
}

/// One of Causeway's kinds, as it is asked for.
pub(crate) fn resource_of(crd: &CustomResourceDefinition) -> ApiResource {
    ApiResource {
        group: crd.spec.group.clone(),
        version: names::VERSION.to_owned(),
        api_version: names::API_VERSION.to_owned(),
        kind: crd.spec.names.kind.clone(),
        plural: crd.spec.names.plural.clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_others_made_or_have_is_not_of_the_installation() {
        let labels = |pairs: &[(&str, &str)]| -> BTreeMap<String, String> {
            pairs.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
        };
        let part_of = (names::LABEL_PART_OF, names::PART_OF);
        for (labels, says, is_own) in [
            (labels(&[part_of, (INSTALLED_IN, "here")]), Belongs::Here, true),
            (labels(&[part_of, (INSTALLED_IN, "there")]), Belongs::Elsewhere, false),
            (labels(&[(INSTALLED_IN, "here")]), Belongs::Here, false),
            (labels(&[part_of]), Belongs::Unsaid, false),
            (labels(&[]), Belongs::Unsaid, false),
        ] {
            assert_eq!(belongs(&labels, "here"), says, "{labels:?}");
            assert_eq!(is_own_namespace(&labels, "here"), is_own, "{labels:?}");
        }
    }

    #[test]
    fn a_binding_is_of_the_namespace_of_its_accounts() {
        let binding: DynamicObject = serde_json::from_value(json!({
            "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding",
            "metadata": {"name": "causeway-operator"},
            "subjects": [{"kind": "ServiceAccount", "name": "causeway-operator", "namespace": "here"}],
        }))
        .unwrap();
        assert!(binds_in(&binding, "here"));
        assert!(!binds_in(&binding, "there"));
    }

    #[test]
    fn what_is_ready_and_reaches_far_enough_is_at_work() {
        let operator =
            |namespace: &str, is_ready, reach| Operator { namespace: namespace.to_owned(), is_ready, reach };
        let inside = Reach::Namespaces(BTreeSet::from(["shop".to_owned()]));
        let all = [
            operator("here", true, Reach::Cluster),
            operator("stopped", false, Reach::Cluster),
            operator("shop", true, inside),
            operator("tenant", true, Reach::Nothing),
        ];
        let names =
            |names: &[&str]| -> BTreeSet<String> { names.iter().map(|one| (*one).to_owned()).collect() };
        assert_eq!(at_work(&all, |reach| *reach == Reach::Cluster), names(&["here"]));
        assert_eq!(at_work(&all, |reach| *reach != Reach::Nothing), names(&["here", "shop"]));
        let subject = |kind: &str, name: &str| Subject {
            kind: kind.to_owned(),
            name: name.to_owned(),
            namespace: Some(name.to_owned()),
            ..Subject::default()
        };
        let subjects = [subject("User", OPERATOR), subject("ServiceAccount", "default")];
        assert_eq!(accounts(Some(&subjects)).count(), 0);
        assert_eq!(accounts(Some(&[subject("ServiceAccount", OPERATOR)])).count(), 1);
        assert_eq!(accounts(None).count(), 0);
    }

    #[test]
    fn two_reaches_have_in_common_what_both_would_serve() {
        let of = |namespaces: &[&str]| {
            Reach::of(&namespaces.iter().map(|one| (*one).to_owned()).collect::<Vec<_>>())
        };
        let (all, ab, bc, c) = (of(&[]), of(&["a", "b"]), of(&["b", "c"]), of(&["c"]));
        for (one, other, both) in [
            (&all, &all, &all),
            (&all, &ab, &ab),
            (&ab, &bc, &of(&["b"])),
            (&ab, &c, &Reach::Nothing),
            (&all, &Reach::Nothing, &Reach::Nothing),
        ] {
            assert_eq!((one.overlap(other), other.overlap(one)), (both.clone(), both.clone()));
        }
    }

    #[test]
    fn an_installation_for_namespaces_makes_nothing_of_the_whole_cluster() {
        let usual = usual_pieces("causeway-system", &[]).unwrap();
        for kind in ["CustomResourceDefinition", "ClusterRole", "Namespace"] {
            assert!(usual.iter().any(|piece| piece.kind() == kind), "{kind}");
        }
        let confined = usual_pieces("team-a", &["team-a".to_owned(), "team-b".to_owned()]).unwrap();
        assert!(confined.iter().all(|piece| piece.namespace.is_some()), "{confined:?}");
        assert!(confined.iter().any(|piece| piece.namespace.as_deref() == Some("team-b")), "{confined:?}");
    }

    #[test]
    fn all_of_it_is_known_and_who_runs_goes_first() {
        let mut all = pieces_of_chart("causeway-system").unwrap();
        all.sort_by_key(Piece::order);
        let names: Vec<String> = all.iter().map(ToString::to_string).collect();
        for name in [
            "Namespace causeway-system",
            "Namespace causeway-edge",
            "ClusterRole causeway-stowaway",
            "ClusterRole causeway:aggregate-to-edit",
            "ClusterRole causeway:gateway-api-edit",
            "RoleBinding causeway-system/causeway-operator-connect",
            "PrometheusRule causeway-system/causeway",
            "ClusterRoleBinding causeway-operator-openshift",
        ] {
            assert!(names.iter().any(|one| one == name), "{name}: {names:?}");
        }
        assert_eq!(names[0], "Deployment causeway-system/causeway-operator");
        assert!(names.last().unwrap().starts_with("Namespace "), "{names:?}");
    }
}
