//! An installation for some namespaces: by what those see who have rights in these alone.

use std::collections::BTreeSet;

use causeway_api::names;
use causeway_controllers::operator::OFF_IN_NAMESPACES;
use k8s_openapi::api::rbac::v1::RoleBinding;
use kube::api::Api;
use kube::{Client, ResourceExt};

use super::definitions::Known;
use super::{Line, ground, operator, others, peers};
use crate::parts::installation::{OPERATOR, Reach};

const DEFINITIONS: &str = "definitions";
const RIGHTS: &str = "namespaces";

pub(super) async fn lines(client: &Client, namespace: &str, namespaces: &[String]) -> Vec<Line> {
    let mut lines = definitions_in_use(client).await;
    lines.extend(peers::lines(client, &Known::read(client).await).await);
    lines.extend(ground::namespace(client, namespace).await);
    lines.extend(others::lines(client, namespace, &Reach::of(namespaces)).await);
    for place in namespaces {
        lines.push(rights(client, place, namespace).await);
    }
    lines.extend(operator::lines(client, namespace, Some(namespaces)).await);
    let what = |off: &str| format!("off, as the operator is for {} alone: {off}", namespaces.join(", "));
    lines.extend(OFF_IN_NAMESPACES.iter().map(|off| Line::ok("what it does not do", what(off))));
    lines
}

/// Whether the API server serves Causeway's kinds: everybody may ask that.
pub(super) async fn definitions_in_use(client: &Client) -> Vec<Line> {
    let served: BTreeSet<String> = match client.list_api_group_resources(names::API_VERSION).await {
        Ok(list) => list.resources.into_iter().map(|resource| resource.name).collect(),
        Err(kube::Error::Api(answer)) if answer.code == 404 => BTreeSet::new(),
        Err(error) => {
            return vec![Line::unseen(DEFINITIONS, "which kinds are served can't be asked", &error)];
        }
    };
    let kinds = causeway_api::crds();
    let missing: Vec<String> = kinds
        .iter()
        .filter(|crd| !served.contains(&crd.spec.names.plural))
        .map(ResourceExt::name_any)
        .collect();
    if missing.is_empty() {
        return vec![Line::ok(DEFINITIONS, format!("the cluster knows all {} kinds", kinds.len()))];
    }
    let cure =
        "an administrator applies them: kubectl apply --server-side -f deploy/crds -f deploy/tenants.yaml";
    vec![Line::fail(DEFINITIONS, format!("there is no {}", missing.join(", ")), cure)]
}

/// Before an installation: who else makes pods by the operator's rights, where it reaches further than its own namespace.
pub(super) fn lent_rights(namespace: &str, reach: &Reach) -> Option<Line> {
    let Reach::Namespaces(served) = reach else { return None };
    let others: Vec<&str> = served.iter().map(String::as_str).filter(|one| *one != namespace).collect();
    if others.is_empty() {
        return None;
    }
    let what = format!(
        "whoever may make pods in {namespace} can make them in {}, too, by the operator's account, and so read Secrets there",
        others.join(", ")
    );
    // Nothing is served in a namespace of its own.
    Some(if served.contains(namespace) {
        let cure =
            "give the operator a namespace of its own with --namespace, where nobody else may make pods";
        Line::warn(RIGHTS, what, cure)
    } else {
        Line::ok(RIGHTS, format!("{what}: keep {namespace} for the operator alone"))
    })
}

async fn rights(client: &Client, place: &str, operator: &str) -> Line {
    let api: Api<RoleBinding> = Api::namespaced(client.clone(), place);
    match api.get_opt(OPERATOR).await {
        Ok(Some(_)) => Line::ok(RIGHTS, format!("the operator has its rights in namespace {place}")),
        Ok(None) => Line::fail(
            RIGHTS,
            format!("the operator has no rights in namespace {place}, and sees nothing there"),
            format!("causeway install --namespace {operator} --namespaces … with all of its namespaces"),
        ),
        Err(error) => Line::unseen(RIGHTS, &format!("namespace {place} can't be looked at"), &error),
    }
}

#[cfg(test)]
mod tests {
    use super::super::line::Level;
    use super::*;

    #[test]
    fn who_makes_pods_beside_the_operator_makes_them_wherever_it_does() {
        let of = |namespaces: &[&str]| {
            Reach::of(&namespaces.iter().map(|one| (*one).to_owned()).collect::<Vec<_>>())
        };
        for (reach, level, says) in [
            (of(&[]), None, ""),
            (of(&["team-a"]), None, ""),
            (of(&["team-a", "team-b"]), Some(Level::Warn), "can make them in team-b, too"),
            (of(&["team-b", "team-c"]), Some(Level::Ok), "keep team-a for the operator alone"),
        ] {
            let line = lent_rights("team-a", &reach);
            assert_eq!(line.as_ref().map(|line| line.level), level, "{reach:?}");
            assert!(format!("{line:?}").contains(says), "{line:?}");
        }
    }
}
