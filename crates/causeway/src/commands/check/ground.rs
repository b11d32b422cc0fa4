//! The cluster itself: its version, the namespace, and what the asker may do.

use std::collections::BTreeSet;

use futures::future::join_all;
use k8s_openapi::api::authorization::v1::{
    ResourceAttributes, SelfSubjectAccessReview, SelfSubjectAccessReviewSpec,
};
use k8s_openapi::api::core::v1::Namespace;
use kube::api::{Api, PostParams};
use kube::{Client, ResourceExt};

use super::Line;
use crate::parts::installation::Piece;
use crate::parts::refusal;

const SECTION: &str = "Kubernetes";
const NAMESPACE: &str = "the namespace";
const RIGHTS: &str = "your rights";
/// The oldest that the definitions and what the operator uses are accepted by.
const OLDEST: (u32, u32) = (1, 31);

pub(super) async fn version(client: &Client) -> Vec<Line> {
    match client.apiserver_version().await {
        Ok(info) => vec![judged(&info.major, &info.minor, &info.git_version)],
        Err(error) => vec![Line::fail(
            SECTION,
            format!("the API server does not answer: {}", refusal::words(&error)),
            "see which cluster KUBECONFIG names, and whether it is reached from here",
        )],
    }
}

fn judged(major: &str, minor: &str, full: &str) -> Line {
    // Some say `31+`.
    let number = |text: &str| text.trim_end_matches(|c: char| !c.is_ascii_digit()).parse().unwrap_or(0);
    let (least, newest) = OLDEST;
    if (number(major), number(minor)) >= OLDEST {
        Line::ok(SECTION, format!("the API server is {full}"))
    } else {
        let what = format!("the API server is {full}: Causeway needs {least}.{newest} or newer");
        Line::fail(SECTION, what, "bring the cluster to a newer version first")
    }
}

pub(super) async fn namespace(client: &Client, name: &str) -> Vec<Line> {
    let api: Api<Namespace> = Api::all(client.clone());
    let found = match api.get_opt(name).await {
        Ok(found) => found,
        Err(error) => {
            return vec![Line::unseen(NAMESPACE, &format!("namespace {name} can't be looked at"), &error)];
        }
    };
    let Some(found) = found else {
        return vec![Line::ok(NAMESPACE, format!("namespace {name} is not there yet"))];
    };
    if let Some(line) = deleted(&found) {
        return vec![line];
    }
    if let Some(level) = found.labels().get("pod-security.kubernetes.io/enforce") {
        return vec![Line::ok(NAMESPACE, format!("namespace {name} enforces Pod Security level {level}"))];
    }
    let cure = format!(
        "kubectl label namespace {name} pod-security.kubernetes.io/enforce=restricted: the operator's pods pass it"
    );
    vec![Line::warn(NAMESPACE, format!("namespace {name} enforces no Pod Security level"), cure)]
}

/// Says it of another namespace, if nothing can be made there any more.
pub(crate) async fn going(client: &Client, name: &str) -> Option<Line> {
    let api: Api<Namespace> = Api::all(client.clone());
    // Who may not look is told so of the operator's own.
    deleted(&api.get_opt(name).await.ok()??)
}

fn deleted(namespace: &Namespace) -> Option<Line> {
    namespace.metadata.deletion_timestamp.as_ref()?;
    let conditions = namespace.status.iter().flat_map(|status| status.conditions.iter().flatten());
    let why: Vec<&str> = conditions
        .filter(|condition| condition.status == "True")
        .filter_map(|condition| condition.message.as_deref())
        .collect();
    let what = format!(
        "namespace {} is being deleted, and nothing can be made in it: {}",
        namespace.name_any(),
        why.join("; ")
    );
    let cure = "wait until it is gone; if it stays, `causeway uninstall --force --all --yes`";
    Some(Line::fail(NAMESPACE, what, cure))
}

/// Whether the asker may create and change these.
pub(super) async fn rights(client: &Client, pieces: &[Piece]) -> Vec<Line> {
    let mut asked = BTreeSet::new();
    for piece in pieces {
        let resource = piece.resource();
        for verb in ["create", "patch", "delete"] {
            asked.insert((verb, resource.group.clone(), resource.plural.clone(), piece.namespace.clone()));
        }
    }
    let reviews: Api<SelfSubjectAccessReview> = Api::all(client.clone());
    let answers = join_all(asked.into_iter().map(async |(verb, group, plural, namespace)| {
        let what = if group.is_empty() { plural.clone() } else { format!("{plural}.{group}") };
        let review = SelfSubjectAccessReview {
            spec: SelfSubjectAccessReviewSpec {
                resource_attributes: Some(ResourceAttributes {
                    verb: Some(verb.to_owned()),
                    group: Some(group),
                    resource: Some(plural),
                    namespace: namespace.clone(),
                    ..ResourceAttributes::default()
                }),
                ..SelfSubjectAccessReviewSpec::default()
            },
            ..SelfSubjectAccessReview::default()
        };
        let answer = reviews.create(&PostParams::default(), &review).await;
        let place = namespace.map(|namespace| format!(" in {namespace}")).unwrap_or_default();
        (
            format!("{verb} {what}{place}"),
            answer.map(|review| review.status.is_some_and(|status| status.allowed)),
        )
    }))
    .await;
    let (mut missing, count) = (Vec::new(), answers.len());
    for (what, answer) in answers {
        match answer {
            Ok(true) => {}
            Ok(false) => missing.push(what),
            Err(error) => return vec![Line::unseen(RIGHTS, "what you may do can't be asked", &error)],
        }
    }
    if missing.is_empty() {
        return vec![Line::ok(RIGHTS, format!("you have the {count} rights that an installation needs"))];
    }
    let cure = "install as an administrator of the cluster (cluster-admin), or ask one";
    vec![Line::fail(RIGHTS, format!("you may not {}", missing.join(", ")), cure)]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cluster_that_is_too_old_is_refused() {
        for (major, minor, is_failed) in
            [("1", "31", false), ("1", "31+", false), ("2", "0", false), ("1", "30", true)]
        {
            assert_eq!(judged(major, minor, "v").is_failed(), is_failed, "{major}.{minor}");
        }
    }
}
