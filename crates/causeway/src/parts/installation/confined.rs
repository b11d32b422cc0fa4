//! An installation for some namespaces: where it works, and where its parts are, also when half of it is gone. What it says of
//! itself is its owner's word; where it has rights is the word of who owns the namespace.

use std::collections::BTreeSet;

use anyhow::bail;
use causeway_api::names;
use causeway_chart::SERVED;
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::ServiceAccount;
use k8s_openapi::api::rbac::v1::{ClusterRoleBinding, RoleBinding, Subject};
use kube::api::{Api, DynamicObject, ListParams};
use kube::{Client, ResourceExt};

use super::{
    Belongs, Found, OPERATOR, Piece, Reach, accounts, belongs, find, is_missing, of_installation,
    pieces_of_chart,
};
use crate::parts::refusal;

/// What is known of an installation for some namespaces.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Confined {
    /// Whether its operator is there.
    is_running: bool,
    /// Where it works by its own word: the operator's arguments, or, without an operator, what is noted beside it.
    named: BTreeSet<String>,
    /// Where its account has rights.
    bound: BTreeSet<String>,
    /// Where who asks may not look.
    unseen: BTreeSet<String>,
}

impl Confined {
    /// Where it works, as far as is known.
    pub(crate) fn namespaces(&self) -> Vec<String> {
        let known = if self.named.is_empty() { &self.bound } else { &self.named };
        known.iter().cloned().collect()
    }

    /// Where objects are its to take out, or asked for by name: not where it only says that it works.
    pub(crate) fn serves(&self, asked: &[String]) -> Vec<String> {
        let with_rights = self.bound.iter().filter(|name| !self.is_running || self.named.contains(*name));
        let perhaps = self.unseen.iter().filter(|name| self.named.contains(*name));
        let all: BTreeSet<&String> = with_rights.chain(perhaps).chain(asked).collect();
        all.into_iter().cloned().collect()
    }

    /// Where it says that it works, and has no rights.
    pub(crate) fn claims(&self, asked: &[String]) -> Vec<String> {
        let without = self.named.iter().filter(|name| !self.bound.contains(*name));
        without.filter(|name| !self.unseen.contains(*name) && !asked.contains(name)).cloned().collect()
    }

    /// Without an operator and its note nobody says that there was one for some namespaces: whoever owns a namespace makes a
    /// binding there that looks like its own. It counts where it was asked for.
    fn believed(mut self, asked: &[String]) -> Self {
        if !self.is_running && self.named.is_empty() {
            self.bound.retain(|name| asked.contains(name));
        }
        self
    }

    /// Where parts of it may be.
    fn places(&self) -> BTreeSet<String> {
        self.named.iter().chain(&self.bound).chain(&self.unseen).cloned().collect()
    }

    /// The same, to look for its parts.
    pub(crate) fn scope(&self, asked: &[String]) -> Scope {
        Scope::Namespaces(self.places().into_iter().chain(asked.iter().cloned()).collect())
    }
}

/// What is in `namespace` of an installation for some namespaces, perhaps the `asked` ones; none if it is one for all of them, or
/// nothing is known of it.
pub(crate) async fn confined(
    client: &Client,
    namespace: &str,
    asked: &[String],
) -> anyhow::Result<Option<Confined>> {
    let api: Api<Deployment> = Api::namespaced(client.clone(), namespace);
    let operator = match api.get_opt(OPERATOR).await {
        Ok(operator) => operator,
        Err(error) => bail!("can't look at the operator: {}", refusal::words(&error)),
    };
    let (named, is_for_all) = match &operator {
        Some(operator) => {
            let named = named_namespaces(operator);
            let is_for_all = named.is_empty();
            (named, is_for_all)
        }
        None => (noted(client, namespace).await?, has_the_cluster(client, namespace).await?),
    };
    if is_for_all {
        return Ok(None);
    }
    if !have_names(named.iter().chain(asked)) {
        bail!(
            "what is in namespace {namespace} is said to be for a namespace without a name, which Kubernetes reads as all of them: say which ones are meant with `causeway install --namespaces`; nothing was changed"
        );
    }
    let mut found = Confined { is_running: operator.is_some(), named, ..Confined::default() };
    look_for_rights(client, namespace, asked, &mut found).await?;
    let found = found.believed(asked);
    let is_known = !found.named.is_empty() || !found.bound.is_empty() || !asked.is_empty();
    Ok(is_known.then_some(found))
}

fn have_names<'a>(namespaces: impl IntoIterator<Item = &'a String>) -> bool {
    namespaces.into_iter().all(|name| !name.is_empty())
}

/// How far the installation in `namespace` reaches now; none if nothing is known of one.
pub(crate) async fn reach(client: &Client, namespace: &str) -> anyhow::Result<Option<Reach>> {
    if let Some(found) = confined(client, namespace, &[]).await? {
        return Ok(Some(Reach::of(&found.namespaces())));
    }
    let api: Api<Deployment> = Api::namespaced(client.clone(), namespace);
    let is_there = match api.get_opt(OPERATOR).await {
        Ok(operator) => operator.is_some() || has_the_cluster(client, namespace).await?,
        Err(error) => bail!("can't look at the operator: {}", refusal::words(&error)),
    };
    Ok(is_there.then_some(Reach::Cluster))
}

fn named_namespaces(operator: &Deployment) -> BTreeSet<String> {
    let pod = operator.spec.as_ref().and_then(|spec| spec.template.spec.as_ref());
    let arguments = pod.into_iter().flat_map(|pod| &pod.containers).flat_map(|one| one.args.iter().flatten());
    let named = arguments.filter_map(|argument| argument.strip_prefix("--namespaces="));
    named.flat_map(|names| names.split(',')).map(str::to_owned).collect()
}

/// What the chart has noted beside the operator, at its account.
async fn noted(client: &Client, namespace: &str) -> anyhow::Result<BTreeSet<String>> {
    let api: Api<ServiceAccount> = Api::namespaced(client.clone(), namespace);
    match api.get_opt(names::OPERATOR_ACCOUNT).await {
        Ok(account) => Ok(account.as_ref().map(noted_at).unwrap_or_default()),
        Err(error) if refusal::is_forbidden(&error) => Ok(BTreeSet::new()),
        Err(error) => bail!("can't look at the operator's account: {}", refusal::words(&error)),
    }
}

fn noted_at(account: &ServiceAccount) -> BTreeSet<String> {
    let note = account.annotations().get(SERVED);
    note.and_then(|note| serde_json::from_str(note).ok()).unwrap_or_default()
}

/// Whether an operator of this namespace has rights in all of them. Who may not see that has not made it so.
async fn has_the_cluster(client: &Client, namespace: &str) -> anyhow::Result<bool> {
    let bindings: Api<ClusterRoleBinding> = Api::all(client.clone());
    match bindings.get_opt(OPERATOR).await {
        Ok(found) => Ok(found.is_some_and(|found| is_for(found.subjects.as_deref(), namespace))),
        Err(error) if refusal::is_forbidden(&error) => Ok(false),
        Err(error) => bail!("can't look at the operator's rights: {}", refusal::words(&error)),
    }
}

fn is_for(subjects: Option<&[Subject]>, namespace: &str) -> bool {
    accounts(subjects).any(|account| account == namespace)
}

/// Where the account has its rights: everywhere, or, for those who may not look everywhere, where it may be.
async fn look_for_rights(
    client: &Client,
    namespace: &str,
    asked: &[String],
    found: &mut Confined,
) -> anyhow::Result<()> {
    let is_its = |binding: &RoleBinding| {
        binding.name_any() == OPERATOR
            && belongs(binding.labels(), namespace) == Belongs::Here
            && is_for(binding.subjects.as_deref(), namespace)
    };
    let all: Api<RoleBinding> = Api::all(client.clone());
    match all.list(&ListParams::default().labels(&of_installation(namespace))).await {
        Ok(list) => {
            let ours = list.items.iter().filter(|binding| is_its(binding));
            found.bound.extend(ours.filter_map(ResourceExt::namespace));
            return Ok(());
        }
        Err(error) if refusal::is_forbidden(&error) => {}
        Err(error) => bail!("can't look for the operator's rights: {}", refusal::words(&error)),
    }
    let own = namespace.to_owned();
    let places: BTreeSet<String> = found.named.iter().chain(asked).chain([&own]).cloned().collect();
    for place in places {
        let api: Api<RoleBinding> = Api::namespaced(client.clone(), &place);
        match api.get_opt(OPERATOR).await {
            Ok(binding) if binding.as_ref().is_some_and(is_its) => drop(found.bound.insert(place)),
            Ok(_) => {}
            Err(error) if refusal::is_forbidden(&error) => drop(found.unseen.insert(place)),
            Err(error) => bail!("can't look at {OPERATOR} in {place}: {}", refusal::words(&error)),
        }
    }
    Ok(())
}

/// Where the parts of an installation are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Scope {
    Cluster,
    /// An operator with rights in these alone, and in its own.
    Namespaces(BTreeSet<String>),
}

/// Where parts of the installation may be, which is to work in `wanted`: who may not see those of the whole cluster has not made
/// them.
pub(crate) async fn scope(client: &Client, namespace: &str, wanted: &[String]) -> Scope {
    let bindings: Api<ClusterRoleBinding> = Api::all(client.clone());
    let may_see = !matches!(bindings.get_opt(OPERATOR).await, Err(error) if refusal::is_forbidden(&error));
    if wanted.is_empty() || may_see {
        return Scope::Cluster;
    }
    let before = confined(client, namespace, wanted).await.ok().flatten().unwrap_or_default();
    before.scope(wanted)
}

/// All that is there of the installation, where its parts may be.
pub(crate) async fn find_in(client: &Client, namespace: &str, scope: &Scope) -> anyhow::Result<Found> {
    let Scope::Namespaces(places) = scope else { return find(client, namespace).await };
    let mut kinds: Vec<Piece> = Vec::new();
    for piece in pieces_of_chart(namespace)?.into_iter().filter(|piece| piece.namespace.is_some()) {
        if !kinds.iter().any(|kind| kind.gvk == piece.gvk) {
            kinds.push(piece);
        }
    }
    let places: BTreeSet<&str> = places.iter().map(String::as_str).chain([namespace]).collect();
    let ours = ListParams::default().labels(&of_installation(namespace));
    let mut pieces = Vec::new();
    for kind in &kinds {
        for place in &places {
            let api: Api<DynamicObject> = Api::namespaced_with(client.clone(), place, &kind.resource());
            let found = match api.list_metadata(&ours).await {
                Ok(list) => list.items,
                // Who may not look has made nothing there, or his rights are gone with the namespace.
                Err(error) if is_missing(&error) || refusal::is_forbidden(&error) => continue,
                Err(error) => {
                    bail!("can't list {} in {place}: {}", kind.resource().plural, refusal::words(&error))
                }
            };
            pieces.extend(found.iter().map(|object| Piece {
                gvk: kind.gvk.clone(),
                namespace: object.namespace(),
                name: object.name_any(),
            }));
        }
    }
    pieces.sort_by_key(Piece::order);
    Ok(Found { pieces, namespaces_of_others: Vec::new() })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn set(names: &[&str]) -> BTreeSet<String> {
        names.iter().map(|name| (*name).to_owned()).collect()
    }

    #[test]
    fn an_operator_names_its_namespaces() {
        let operator = |arguments: &[&str]| -> Deployment {
            let pod =
                json!({"metadata": {}, "spec": {"containers": [{"name": "operator", "args": arguments}]}});
            let spec = json!({"selector": {}, "template": pod});
            serde_json::from_value(json!({"metadata": {}, "spec": spec})).unwrap()
        };
        assert!(named_namespaces(&operator(&["operator", "--openshift"])).is_empty());
        let two = operator(&["operator", "--namespaces=a", "--namespaces=b,c"]);
        assert_eq!(named_namespaces(&two), set(&["a", "b", "c"]));
    }

    #[test]
    fn its_account_notes_them() {
        let account = |annotations: serde_json::Value| -> ServiceAccount {
            serde_json::from_value(json!({"metadata": {"annotations": annotations}})).unwrap()
        };
        assert_eq!(noted_at(&account(json!({SERVED: r#"["a","b"]"#}))), set(&["a", "b"]));
        for none in [json!({}), json!({SERVED: "a,b"})] {
            assert!(noted_at(&account(none.clone())).is_empty(), "{none}");
        }
    }

    #[test]
    fn what_an_operator_only_says_that_it_serves_is_not_its() {
        let found = Confined {
            is_running: true,
            named: set(&["a", "gone", "victim"]),
            bound: set(&["a", "left-out"]),
            unseen: set(&["gone"]),
        };
        assert_eq!(found.namespaces(), ["a", "gone", "victim"]);
        assert_eq!(found.serves(&[]), ["a", "gone"]);
        assert_eq!(found.claims(&[]), ["victim"]);
        // Who names one has decided it himself.
        let asked = ["victim".to_owned()];
        assert_eq!(found.serves(&asked), ["a", "gone", "victim"]);
        assert!(found.claims(&asked).is_empty());
        assert_eq!(found.places(), set(&["a", "gone", "left-out", "victim"]));
    }

    #[test]
    fn a_binding_alone_counts_where_it_was_asked_for() {
        let half = |named: &[&str], asked: &[String]| {
            let (named, bound) = (set(named), set(&["a", "b", "tenant"]));
            Confined { named, bound, ..Confined::default() }.believed(asked)
        };
        // What is noted beside the operator is as good as its word.
        assert_eq!(half(&["a"], &[]).serves(&[]), ["a", "b", "tenant"]);
        assert_eq!(half(&[], &[]), Confined::default());
        let asked = ["a".to_owned(), "b".to_owned()];
        let found = half(&[], &asked);
        assert_eq!((found.namespaces(), found.serves(&asked)), (asked.to_vec(), asked.to_vec()));
        assert_eq!(found.places(), set(&["a", "b"]));
    }

    #[test]
    fn a_namespace_without_a_name_is_not_taken_for_one() {
        let note = json!({"metadata": {"annotations": {SERVED: r#"["a",""]"#}}});
        assert!(!have_names(&noted_at(&serde_json::from_value(note).unwrap())));
        assert!(have_names(&set(&["a", "b"])));
    }
}
