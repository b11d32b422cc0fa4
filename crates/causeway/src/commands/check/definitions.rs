//! The definitions of Causeway's kinds in the cluster: whether they are there, of which version, and whose they are.

use std::collections::BTreeMap;

use causeway_api::names;
use k8s_openapi::api::core::v1::Secret;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{Api, ListParams};
use kube::{Client, ResourceExt};

use super::Line;
use crate::parts::installation::Piece;

const SECTION: &str = "definitions";
const HELM_NAME: &str = "meta.helm.sh/release-name";
const HELM_NAMESPACE: &str = "meta.helm.sh/release-namespace";

/// All definitions of the cluster by name.
pub(super) struct Known {
    all: Result<BTreeMap<String, CustomResourceDefinition>, kube::Error>,
}

impl Known {
    pub(super) async fn read(client: &Client) -> Self {
        let api: Api<CustomResourceDefinition> = Api::all(client.clone());
        let all = api.list(&ListParams::default()).await;
        Self { all: all.map(|list| list.items.into_iter().map(|crd| (crd.name_any(), crd)).collect()) }
    }

    pub(super) fn get(&self, name: &str) -> Option<&CustomResourceDefinition> {
        self.all.as_ref().ok()?.get(name)
    }

    /// Whether they could be seen at all.
    pub(super) fn is_seen(&self) -> bool {
        self.all.is_ok()
    }

    /// Causeway's own, by our names for them.
    fn own(&self) -> Vec<(CustomResourceDefinition, Option<&CustomResourceDefinition>)> {
        let ours = causeway_api::crds().into_iter();
        ours.map(|crd| {
            let there = self.get(&crd.name_any());
            (crd, there)
        })
        .collect()
    }
}

/// `1.2.3` as something to compare; what can't be read is older than all else.
pub(crate) fn version(text: &str) -> (u64, u64, u64) {
    let plain = text.trim_start_matches('v').split(['-', '+']).next().unwrap_or_default();
    let mut parts = plain.split('.').map(|part| part.parse().unwrap_or(0));
    (parts.next().unwrap_or(0), parts.next().unwrap_or(0), parts.next().unwrap_or(0))
}

/// What the definitions are looked at for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum When {
    /// What is installed.
    After,
    /// An installation that brings them along.
    Before,
    /// The same, of an older version: newer ones stay as they are.
    Back,
    /// An installation that leaves them to others.
    Without,
}

pub(super) fn lines(known: &Known, namespace: &str, when: When) -> Vec<Line> {
    let before = when != When::After;
    if let Err(error) = &known.all {
        return vec![Line::unseen(SECTION, "definitions can't be listed", error)];
    }
    let own = env!("CARGO_PKG_VERSION");
    let (mut lines, mut fine) = (Vec::new(), 0);
    let (mut missing, mut older, mut newer) = (Vec::new(), Vec::new(), Vec::new());
    for (ours, there) in known.own() {
        let name = ours.name_any();
        let Some(there) = there else {
            missing.push(name);
            continue;
        };
        let wrote = there.labels().get(names::LABEL_VERSION).map_or("", String::as_str);
        match trouble(&ours, there) {
            Some((what, _)) if when == When::Without && there.metadata.deletion_timestamp.is_some() => {
                lines.push(Line::warn(SECTION, what, "an operator lets go of them; then install it again"));
            }
            Some((what, cure)) => lines.push(Line::fail(SECTION, what, cure)),
            None if version(wrote) > version(own) && matches!(when, When::Back | When::Without) => {
                newer.push(name);
            }
            None if version(wrote) > version(own) => {
                let what = format!(
                    "{name} is of version {wrote}, newer than this program ({own}): its fields would be lost"
                );
                let cure = format!("use causeway {wrote} or newer");
                let back = "; to go back, say --downgrade, which leaves it as it is";
                lines.push(Line::fail(SECTION, what, if before { cure + back } else { cure }));
            }
            None if version(wrote) < version(own) => older.push(name),
            None => fine += 1,
        }
        let releases = there.annotations().get(HELM_NAMESPACE);
        if let Some(other) = releases.filter(|other| *other != namespace && !before) {
            let what = format!("{} belongs to a Helm release in namespace {other}", there.name_any());
            lines.push(Line::warn(SECTION, what, "bring definitions to a newer version there, for both"));
        }
    }
    let cure = "causeway crds --apply";
    match (missing.is_empty(), matches!(when, When::Before | When::Back)) {
        (true, _) => {}
        (false, true) => lines.push(Line::ok(SECTION, format!("{} definitions will be made", missing.len()))),
        (false, false) => {
            lines.push(Line::fail(SECTION, format!("there is no {}", missing.join(", ")), cure));
        }
    }
    if !older.is_empty() {
        let what =
            format!("{} definitions are older than this program, among them {}", older.len(), older[0]);
        lines.push(if matches!(when, When::Before | When::Back) {
            Line::ok(SECTION, what + ": they will be brought along")
        } else {
            Line::warn(SECTION, what, cure)
        });
    }
    if !newer.is_empty() {
        let what = format!("{} definitions are newer than this program, and stay as they are", newer.len());
        lines.push(Line::ok(SECTION, what));
    }
    if fine > 0 {
        lines.push(Line::ok(SECTION, format!("{fine} definitions are those of this version")));
    }
    lines
}

/// What makes a definition of no use, and what to do.
fn trouble(ours: &CustomResourceDefinition, there: &CustomResourceDefinition) -> Option<(String, String)> {
    let name = ours.name_any();
    if there.metadata.deletion_timestamp.is_some() {
        let what = format!("{name} is being deleted, and waits for objects that nobody lets go");
        return Some((
            what,
            "start the operator (`causeway install --set crds.enabled=false` where there is none), or let go of them with `causeway uninstall --force --all --crds --yes`"
                .to_owned(),
        ));
    }
    if there.spec.names.kind != ours.spec.names.kind || there.spec.scope != ours.spec.scope {
        let what = format!(
            "{name} is somebody else's: it defines {} {}, and ours {} {}",
            there.spec.scope, there.spec.names.kind, ours.spec.scope, ours.spec.names.kind
        );
        return Some((
            what,
            "find out who made it (`kubectl get crd NAME -o yaml`), and remove one of the two".to_owned(),
        ));
    }
    let conditions = there.status.iter().flat_map(|status| status.conditions.iter().flatten());
    let refused = conditions.filter(|one| one.type_ == "NamesAccepted" && one.status == "False");
    if let Some(condition) = refused.into_iter().next() {
        let message = condition.message.as_deref().unwrap_or_default();
        let cure =
            "another definition has a name of it: `kubectl get crd` shows which; remove one of the two";
        return Some((format!("{name} is not served: {message}"), cure.to_owned()));
    }
    if !there.spec.versions.iter().any(|version| version.name == names::VERSION && version.served) {
        let what = format!("{name} is not served as {}, which this program asks for", names::VERSION);
        return Some((what, "use the version of Causeway that it is of".to_owned()));
    }
    let stored = there.status.iter().flat_map(|status| status.stored_versions.iter().flatten());
    let unknown = stored
        .into_iter()
        .find(|stored| !ours.spec.versions.iter().any(|version| version.name == **stored))?;
    let what = format!("objects of {name} are stored as {unknown}, which this program does not know");
    Some((what, "use the version of Causeway that knows it".to_owned()))
}

/// Whether one is there that a newer version has written.
pub(super) fn is_newer(known: &Known, name: &str) -> bool {
    let wrote = known.get(name).and_then(|there| there.labels().get(names::LABEL_VERSION));
    wrote.is_some_and(|wrote| version(wrote) > version(env!("CARGO_PKG_VERSION")))
}

/// Before an installation: those that another tool looks after are not ours to write. What a release left behind that is gone is.
pub(super) async fn ownership(client: &Client, known: &Known) -> Vec<Line> {
    if let Some((name, release, namespace)) = release(known) {
        let kept: Api<Secret> = Api::namespaced(client.clone(), &namespace);
        let of_release = ListParams::default().labels(&format!("owner=helm,name={release}"));
        // Who may not look is told so by the rest; the release may well be there.
        let is_gone = kept.list_metadata(&of_release).await.is_ok_and(|list| list.items.is_empty());
        if !is_gone {
            return vec![Line::fail(
                SECTION,
                format!("{name} belongs to the Helm release {release} in namespace {namespace}"),
                format!(
                    "helm upgrade {release} --namespace {namespace}; or install with --set crds.enabled=false"
                ),
            )];
        }
    }
    let by_olm = known.own().into_iter().find_map(|(_, there)| {
        let there = there?;
        there.labels().contains_key("olm.managed").then(|| {
            let what = format!("{} is looked after by OLM", there.name_any());
            Line::fail(SECTION, what, "change the Subscription instead")
        })
    });
    by_olm.into_iter().collect()
}

/// A definition, the Helm release that it is part of, and where that is.
fn release(known: &Known) -> Option<(String, String, String)> {
    known.own().into_iter().find_map(|(_, there)| {
        let there = there?;
        let release = there.annotations().get(HELM_NAME)?.clone();
        Some((there.name_any(), release, there.annotations().get(HELM_NAMESPACE)?.clone()))
    })
}

/// Before an installation: kinds of others that the values ask for objects of.
pub(super) fn needed(known: &Known, pieces: &[Piece]) -> Vec<Line> {
    let is_missing = |piece: &&Piece| {
        let resource = piece.resource();
        resource.group == "monitoring.coreos.com"
            && known.is_seen()
            && known.get(&format!("{}.{}", resource.plural, resource.group)).is_none()
    };
    let missing = pieces.iter().filter(is_missing);
    missing
        .map(|piece| {
            let what = format!("{piece} is asked for, and the cluster does not know this kind");
            Line::fail(
                SECTION,
                what,
                "install the Prometheus Operator, or leave out metrics.serviceMonitor, metrics.podMonitor and metrics.rules",
            )
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn with(change: serde_json::Value) -> Known {
        let mut all: BTreeMap<String, CustomResourceDefinition> =
            causeway_api::crds().into_iter().map(|crd| (crd.name_any(), crd)).collect();
        let infra = "infras.causeway.dev";
        let mut value = serde_json::to_value(&all[infra]).unwrap();
        json_merge(&mut value, &change);
        all.insert(infra.to_owned(), serde_json::from_value(value).unwrap());
        Known { all: Ok(all) }
    }

    fn json_merge(into: &mut serde_json::Value, change: &serde_json::Value) {
        match (into, change) {
            (serde_json::Value::Object(into), serde_json::Value::Object(change)) => {
                for (key, value) in change {
                    json_merge(into.entry(key.clone()).or_insert(serde_json::Value::Null), value);
                }
            }
            (into, change) => *into = change.clone(),
        }
    }

    #[test]
    fn each_fault_of_a_definition_is_named() {
        assert!(
            lines(&with(json!({})), "causeway-system", When::After)
                .iter()
                .all(|line| line.level == super::super::line::Level::Ok)
        );
        for (change, says) in [
            (json!({"metadata": {"labels": {names::LABEL_VERSION: "99.0.0"}}}), "newer than this program"),
            (json!({"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}}), "is being deleted"),
            (json!({"spec": {"names": {"kind": "Infrastructure"}}}), "somebody else's"),
            (
                json!({"status": {"conditions": [{"type": "NamesAccepted", "status": "False", "message": "shortName taken"}]}}),
                "shortName taken",
            ),
            (json!({"status": {"storedVersions": ["v9"]}}), "stored as v9"),
            (json!({"spec": {"versions": []}}), "not served as v1alpha1"),
        ] {
            let lines = lines(&with(change), "causeway-system", When::After);
            let failed: Vec<&Line> = lines.iter().filter(|line| line.is_failed()).collect();
            assert_eq!(failed.len(), 1, "{lines:?}");
            assert!(format!("{failed:?}").contains(says), "{failed:?}");
        }
        let newer = with(json!({"metadata": {"labels": {names::LABEL_VERSION: "99.0.0"}}}));
        assert!(is_newer(&newer, "infras.causeway.dev") && !is_newer(&newer, "proxyservers.causeway.dev"));
        let refused = lines(&newer, "causeway-system", When::Before);
        assert!(format!("{refused:?}").contains("say --downgrade"), "{refused:?}");
        let kept = lines(&newer, "causeway-system", When::Back);
        assert!(!kept.iter().any(Line::is_failed), "{kept:?}");
        let going = with(json!({"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}}));
        for (when, is_failed) in [(When::Before, true), (When::Without, false)] {
            let lines = lines(&going, "causeway-system", when);
            assert_eq!(lines.iter().any(Line::is_failed), is_failed, "{lines:?}");
        }
        let theirs = with(json!({"metadata": {"annotations": {HELM_NAME: "edge", HELM_NAMESPACE: "net"}}}));
        let (name, of, namespace) = release(&theirs).unwrap();
        assert_eq!((&*name, &*of, &*namespace), ("infras.causeway.dev", "edge", "net"));
    }

    #[test]
    fn versions_compare_as_numbers() {
        assert!(version("0.10.0") > version("0.9.9"));
        assert!(version("v1.0.0-rc1") > version(""));
        assert_eq!(version("1.2.3+build"), (1, 2, 3));
    }
}
