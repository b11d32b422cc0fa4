//! Other installations, and who looks after this one.

use causeway_api::names;
use k8s_openapi::api::apps::v1::Deployment;
use kube::api::{Api, ListParams};
use kube::{Client, ResourceExt};

use super::Line;
use crate::parts::installation::{OPERATOR, OPERATOR_LABEL};

const SECTION: &str = "installations";

pub(super) async fn lines(client: &Client, namespace: &str) -> Vec<Line> {
    let api: Api<Deployment> = Api::all(client.clone());
    let found = match api.list(&ListParams::default().labels(OPERATOR_LABEL)).await {
        Ok(found) => found.items,
        Err(error) => return vec![Line::unseen(SECTION, "other installations can't be looked for", &error)],
    };
    let others: Vec<String> =
        found.iter().filter_map(ResourceExt::namespace).filter(|other| other != namespace).collect();
    if others.is_empty() {
        return vec![Line::ok(SECTION, "there is no other installation in the cluster")];
    }
    let what = format!(
        "there is another installation in namespace {}: both would do the same work",
        others.join(", ")
    );
    vec![Line::fail(
        SECTION,
        what,
        "remove one with `causeway uninstall --namespace NAMESPACE`, or say which one you mean with --namespace",
    )]
}

/// Before an installation: what Helm or OLM looks after is theirs to change.
pub(super) async fn manager(client: &Client, namespace: &str) -> Vec<Line> {
    let api: Api<Deployment> = Api::namespaced(client.clone(), namespace);
    let Ok(Some(operator)) = api.get_opt(OPERATOR).await else { return Vec::new() };
    let helm = operator.annotations().get("meta.helm.sh/release-name");
    if let Some(release) = helm {
        let what = format!("what is in namespace {namespace} is the Helm release {release}");
        return vec![Line::fail(SECTION, what, format!("helm upgrade {release} --namespace {namespace}"))];
    }
    if operator.labels().keys().any(|label| label.starts_with("olm.")) {
        let what = format!("what is in namespace {namespace} is looked after by OLM");
        return vec![Line::fail(SECTION, what, "change the Subscription instead")];
    }
    let version = operator.labels().get(names::LABEL_VERSION).map_or("an older version", String::as_str);
    if super::version(version) > super::version(env!("CARGO_PKG_VERSION")) {
        let what = format!("{version} is installed, newer than this program");
        return vec![Line::fail(
            SECTION,
            what,
            format!("use causeway {version}; to go back, uninstall first"),
        )];
    }
    vec![Line::ok(
        SECTION,
        format!("{version} is installed in namespace {namespace}, and will be brought to this one"),
    )]
}
