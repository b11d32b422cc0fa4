//! The operator, and whether operator, definitions, data planes and this program are of one version.

use std::collections::BTreeMap;

use causeway_api::names;
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::Pod;
use kube::api::{Api, ListParams};
use kube::{Client, ResourceExt};

use super::Line;
use crate::parts::installation::{OPERATOR, OPERATOR_LABEL};
use crate::parts::{operator_lease, pod_trouble};

const SECTION: &str = "operator";
const DATA: &str = "data planes";
/// The variable of the operator that says which image its data planes get.
const IMAGE_VARIABLE: &str = "CAUSEWAY_MANAGER_IMAGE";

/// With the data planes of these `places`, or of all namespaces.
pub(super) async fn lines(client: &Client, namespace: &str, places: Option<&[String]>) -> Vec<Line> {
    let api: Api<Deployment> = Api::namespaced(client.clone(), namespace);
    let operator = match api.get_opt(OPERATOR).await {
        Ok(Some(operator)) => operator,
        Ok(None) => {
            let what = format!("there is no operator in namespace {namespace}");
            return vec![Line::fail(SECTION, what, "causeway install, or say where it is with --namespace")];
        }
        Err(error) => return vec![Line::unseen(SECTION, "the operator can't be looked at", &error)],
    };
    let mut lines = running(client, namespace, &operator).await;
    lines.push(skew(&operator));
    lines.extend(data_planes(client, places, image_of_data_planes(&operator)).await);
    lines
}

async fn running(client: &Client, namespace: &str, operator: &Deployment) -> Vec<Line> {
    let wanted = operator.spec.as_ref().and_then(|spec| spec.replicas).unwrap_or(1);
    let ready = operator.status.as_ref().and_then(|status| status.ready_replicas).unwrap_or(0);
    let mut lines = Vec::new();
    let api: Api<Pod> = Api::namespaced(client.clone(), namespace);
    if let Ok(pods) = api.list(&ListParams::default().labels(OPERATOR_LABEL)).await {
        for pod in &pods.items {
            if let Some(why) = pod_trouble::of(pod) {
                let cure = if pod_trouble::is_of_image(pod) {
                    "name an image that the nodes can pull (image.repository, image.tag), and a Secret for it (image.pullSecrets)".to_owned()
                } else {
                    format!(
                        "kubectl -n {namespace} describe pod {0}; kubectl -n {namespace} logs {0} --previous",
                        pod.name_any()
                    )
                };
                lines.push(Line::fail(SECTION, format!("pod {} does not run: {why}", pod.name_any()), cure));
            }
        }
    }
    if wanted == 0 {
        let cure = format!("kubectl -n {namespace} scale deployment {OPERATOR} --replicas=2");
        lines.push(Line::fail(SECTION, "it is scaled to 0: nothing follows a change", cure));
    } else if ready == 0 {
        let cure =
            format!("kubectl -n {namespace} get events; kubectl -n {namespace} logs deployment/{OPERATOR}");
        lines.push(Line::fail(SECTION, format!("none of its {wanted} replicas is ready"), cure));
    } else if ready < wanted {
        let what = format!("{ready} of {wanted} replicas are ready");
        lines.push(Line::warn(
            SECTION,
            what,
            "see why with `kubectl describe`; the one that leads does all the work",
        ));
    } else {
        lines.push(Line::ok(SECTION, format!("{ready} of {wanted} replicas are ready")));
        match operator_lease::trouble(client, namespace).await {
            Some(trouble) => lines.push(Line::fail(SECTION, trouble, "restart it: kubectl rollout restart")),
            None => lines.push(Line::ok(SECTION, "one of them leads")),
        }
    }
    lines
}

fn skew(operator: &Deployment) -> Line {
    let (own, runs) = (env!("CARGO_PKG_VERSION"), operator.labels().get(names::LABEL_VERSION));
    match runs {
        None => Line::warn(
            SECTION,
            "it is of a version that does not say which",
            format!("bring it to {own} with `causeway install`"),
        ),
        Some(runs) if super::version(runs) == super::version(own) => {
            Line::ok(SECTION, format!("it is of this program's version, {own}"))
        }
        Some(runs) if super::version(runs) < super::version(own) => Line::warn(
            SECTION,
            format!("it is of version {runs}, older than this program ({own})"),
            "bring it along with `causeway install` or Helm",
        ),
        Some(runs) => Line::warn(
            SECTION,
            format!("it is of version {runs}, newer than this program ({own})"),
            format!("use causeway {runs}"),
        ),
    }
}

fn image_of_data_planes(operator: &Deployment) -> Option<String> {
    let pod = operator.spec.as_ref()?.template.spec.as_ref()?;
    let mut variables = pod.containers.iter().flat_map(|container| container.env.iter().flatten());
    variables.find(|variable| variable.name == IMAGE_VARIABLE)?.value.clone()
}

/// One image in two versions has one repository.
fn repository(image: &str) -> &str {
    let name = image.split('@').next().unwrap_or_default();
    // A colon before the last slash is of a port.
    match name.rsplit_once(':') {
        Some((before, tag)) if !tag.contains('/') => before,
        _ => name,
    }
}

async fn data_planes(client: &Client, places: Option<&[String]>, wanted: Option<String>) -> Vec<Line> {
    let apis: Vec<Api<Pod>> = match places {
        Some(places) => places.iter().map(|place| Api::namespaced(client.clone(), place)).collect(),
        None => vec![Api::all(client.clone())],
    };
    let ours = ListParams::default().labels(&format!("{}={}", names::LABEL_MANAGED_BY, names::MANAGED_BY));
    let mut pods = Vec::new();
    for api in apis {
        match api.list(&ours).await {
            Ok(found) => pods.extend(found.items),
            Err(error) => return vec![Line::unseen(DATA, "pods can't be listed", &error)],
        }
    }
    let mut lines = Vec::new();
    let mut other: BTreeMap<&str, usize> = BTreeMap::new();
    for pod in &pods {
        if let Some(why) = pod_trouble::of(pod) {
            let place = format!("{}/{}", pod.namespace().unwrap_or_default(), pod.name_any());
            let cure = "`causeway status` names the object that it is for, `causeway doctor` what to do";
            lines.push(Line::fail(DATA, format!("pod {place} does not run: {why}"), cure));
        }
        let images = pod.spec.iter().flat_map(|spec| &spec.containers).filter_map(|one| one.image.as_deref());
        for image in images {
            let is_other = wanted
                .as_deref()
                .is_some_and(|wanted| image != wanted && repository(image) == repository(wanted));
            if is_other {
                *other.entry(image).or_default() += 1;
            }
        }
    }
    for (image, count) in other {
        let what =
            format!("{count} run {image}, and the operator gives {}", wanted.as_deref().unwrap_or_default());
        let cure = "they follow by themselves, some at a time, unless updatePolicy is Manual or managerImage names another one";
        lines.push(Line::warn(DATA, what, cure));
    }
    if lines.is_empty() {
        lines.push(Line::ok(DATA, format!("{} pods run, all as they should", pods.len())));
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_of_an_image_have_one_repository() {
        for image in [
            "reg:5000/causeway",
            "reg:5000/causeway:1",
            "reg:5000/causeway@sha256:ab",
            "reg:5000/causeway:1@sha256:ab",
        ] {
            assert_eq!(repository(image), "reg:5000/causeway", "{image}");
        }
        assert_ne!(repository("a/causeway:1"), repository("b/causeway:1"));
    }
}
