//! Other installations, and who looks after this one.

use causeway_api::names;
use k8s_openapi::api::apps::v1::Deployment;
use kube::api::Api;
use kube::{Client, ResourceExt};

use super::Line;
use crate::parts::installation::{self, OPERATOR, Operator, Reach};
use crate::parts::refusal;

const SECTION: &str = "installations";

/// What is beside an installation that is here, or is to be, and reaches this far.
pub(super) async fn lines(client: &Client, namespace: &str, reach: &Reach) -> Vec<Line> {
    let found = match installation::operators(client).await {
        Ok(found) => found,
        // The others are none of a tenant's business, and he is not told so as if something were wrong.
        Err(error) if refusal::is_forbidden(&error) && *reach != Reach::Cluster => {
            return vec![Line::ok(
                SECTION,
                "whether others serve these namespaces, too, only an administrator sees",
            )];
        }
        Err(error) => return vec![Line::unseen(SECTION, "other installations can't be looked for", &error)],
    };
    let mut lines: Vec<Line> =
        found.iter().filter(|other| other.namespace != namespace).map(|other| judged(other, reach)).collect();
    if lines.is_empty() {
        lines.push(Line::ok(SECTION, "there is no other installation in the cluster"));
    }
    lines
}

/// An operator in another namespace, beside one that reaches this far.
fn judged(other: &Operator, reach: &Reach) -> Line {
    let place = &other.namespace;
    let cure = format!(
        "remove one with `causeway uninstall --namespace NAMESPACE` ({place} is the other's), or say which one you mean with --namespace"
    );
    match (&other.reach, other.reach.overlap(reach)) {
        (Reach::Nothing, _) => {
            let what = format!(
                "Deployment {place}/{OPERATOR} is called as an operator is, and has no rights beyond its namespace"
            );
            let cure = "no harm as long as nobody binds it to rights; ask who made it, and what for";
            Line::warn(SECTION, what, cure)
        }
        (Reach::Cluster, _) => Line::fail(
            SECTION,
            format!("there is another installation in namespace {place}: both would do the same work"),
            cure,
        ),
        (Reach::Namespaces(_), Reach::Namespaces(both)) => {
            let both: Vec<&str> = both.iter().map(String::as_str).collect();
            let what = format!(
                "there is an installation in namespace {place} for some namespaces: both would do the same work in {}",
                both.join(", ")
            );
            if *reach != Reach::Cluster {
                return Line::fail(SECTION, what, cure);
            }
            // Whoever owns a namespace can make what looks like one for it: that must not be in the way of the whole cluster's.
            let cure = format!(
                "ask who owns these namespaces to remove it with `causeway uninstall --namespace {place}`; until then only they are served twice"
            );
            Line::warn(SECTION, what, cure)
        }
        (Reach::Namespaces(_), _) => {
            let what =
                format!("there is an installation in namespace {place}, for other namespaces than this one");
            Line::ok(SECTION, what)
        }
    }
}

/// Before an installation: what Helm or OLM looks after is theirs to change.
pub(super) async fn manager(client: &Client, namespace: &str, may_go_back: bool) -> Vec<Line> {
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
        return vec![if may_go_back {
            Line::warn(SECTION, what, "this goes back to the older one, as asked")
        } else {
            Line::fail(SECTION, what, format!("use causeway {version}; to go back, say --downgrade"))
        }];
    }
    vec![Line::ok(
        SECTION,
        format!("{version} is installed in namespace {namespace}, and will be brought to this one"),
    )]
}

#[cfg(test)]
mod tests {
    use super::super::line::Level;
    use super::*;

    #[test]
    fn two_that_serve_the_same_namespace_fail_unless_its_owner_made_one() {
        let of = |namespaces: &[&str]| {
            Reach::of(&namespaces.iter().map(|one| (*one).to_owned()).collect::<Vec<_>>())
        };
        for (theirs, ours, level, says) in [
            (of(&[]), of(&[]), Level::Fail, "another installation in namespace other"),
            (of(&[]), of(&["a"]), Level::Fail, "another installation in namespace other"),
            (of(&["a", "b"]), of(&[]), Level::Warn, "do the same work in a, b"),
            (of(&["a", "b"]), of(&["b", "c"]), Level::Fail, "do the same work in b"),
            (of(&["a", "b"]), of(&["c"]), Level::Ok, "for other namespaces than this one"),
            (Reach::Nothing, of(&[]), Level::Warn, "called as an operator is"),
        ] {
            let other = Operator { namespace: "other".to_owned(), is_ready: true, reach: theirs };
            let line = judged(&other, &ours);
            assert_eq!(line.level, level, "{line:?}");
            assert!(format!("{line:?}").contains(says), "{line:?}");
        }
    }
}
