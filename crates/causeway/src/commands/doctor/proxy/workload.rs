//! The Deployments of a proxy, one for each of its addresses, and their pods.

use causeway_api::{ProxyServer, ReplicaStatus, names};
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::Pod;
use kube::api::ListParams;
use kube::{Api, Client, ResourceExt};

use crate::commands::doctor::finding::Finding;
use crate::parts::refusal;

/// What the cluster has made of a proxy.
pub(super) struct Workload {
    namespace: String,
    /// The Deployment that the status names.
    named: Option<String>,
    deployments: Result<Vec<Deployment>, String>,
    pub(super) pods: Vec<Pod>,
}

impl Workload {
    pub(super) async fn read(client: &Client, proxy: &ProxyServer) -> Self {
        let namespace = proxy.namespace().unwrap_or_default();
        let named = proxy.status.as_ref().and_then(|status| status.deployment_name.clone());
        let of = ListParams::default().labels(&format!(
            "{}={},{}=ProxyServer,{}={}",
            names::LABEL_APP,
            names::APP_PROXY,
            names::LABEL_OWNER_KIND,
            names::LABEL_OWNER_NAME,
            proxy.name_any()
        ));
        let deployments = Api::<Deployment>::namespaced(client.clone(), &namespace).list(&of).await;
        let pods = Api::<Pod>::namespaced(client.clone(), &namespace).list(&of).await;
        Self {
            namespace,
            named,
            deployments: deployments.map(|list| list.items).map_err(|error| refusal::words(&error)),
            pods: pods.map(|list| list.items).unwrap_or_default(),
        }
    }

    /// Whether a proxy runs, by a pod that is ready or in its own words; one may be run by hand, without a pod.
    pub(super) fn runs(&self, reports: &[ReplicaStatus]) -> bool {
        if self.named.is_none() {
            return !reports.is_empty();
        }
        // A report may be that of a pod that is gone.
        self.pods.iter().any(|pod| pod.metadata.deletion_timestamp.is_none() && is_running(pod))
    }

    /// The account that the pods use.
    pub(super) fn service_account(&self) -> Option<String> {
        let deployment = self.deployments.as_ref().ok()?.first()?;
        let account = deployment.spec.as_ref()?.template.spec.as_ref()?.service_account_name.clone();
        Some(account.unwrap_or_else(|| "default".to_owned()))
    }

    /// With `explained`, that pods are not ready is nobody's fault but what is said elsewhere.
    pub(super) fn findings(&self, explained: bool) -> Vec<Finding> {
        let Some(named) = &self.named else {
            return vec![Finding::skipped("the status names no Deployment")];
        };
        let deployments = match &self.deployments {
            Err(error) => return vec![Finding::skipped(format!("its Deployment can't be read: {error}"))],
            Ok(deployments) if deployments.is_empty() => {
                return vec![Finding::bad(
                    format!("no proxy runs: its Deployment {named} is gone"),
                    "the operator makes it again: see whether it runs",
                )];
            }
            Ok(deployments) => deployments,
        };
        let mut found: Vec<_> =
            deployments.iter().map(|deployment| self.deployment(deployment, explained)).collect();
        found.extend(self.pods.iter().flat_map(waiting));
        found
    }

    fn deployment(&self, deployment: &Deployment, explained: bool) -> Finding {
        let (name, namespace) = (deployment.name_any(), &self.namespace);
        let wanted = deployment.spec.as_ref().and_then(|s| s.replicas).unwrap_or(1);
        let ready = deployment.status.as_ref().and_then(|s| s.ready_replicas).unwrap_or(0);
        if wanted == 0 {
            return Finding::bad(
                format!("no proxy runs: Deployment {name} is scaled to 0"),
                format!("kubectl -n {namespace} scale deployment/{name} --replicas=1"),
            );
        }
        let said = format!("Deployment {name} has {ready} of {wanted} pods ready");
        if ready >= wanted {
            return Finding::good(said);
        }
        let selector = deployment.spec.as_ref().and_then(|s| s.selector.match_labels.as_ref());
        let is_its = |pod: &&Pod| {
            selector.is_some_and(|wanted| wanted.iter().all(|(k, v)| pod.labels().get(k) == Some(v)))
        };
        if self.pods.iter().find(is_its).is_none() {
            return Finding::bad(
                format!("no pod runs: Deployment {name} has none"),
                format!(
                    "kubectl -n {namespace} describe deployment/{name} says why in its conditions and Events"
                ),
            );
        }
        if explained {
            return Finding::skipped(format!("{said}: see below for the cause"));
        }
        Finding::bad(
            said,
            format!(
                "look at them with kubectl -n {namespace} describe deployment/{name} and kubectl -n {namespace} logs \
                 deployment/{name}"
            ),
        )
    }
}

fn is_running(pod: &Pod) -> bool {
    pod.status.as_ref().and_then(|status| status.phase.as_deref()) == Some("Running")
}

/// Containers that can't start.
pub(in crate::commands::doctor) fn waiting(pod: &Pod) -> impl Iterator<Item = Finding> {
    let statuses = pod.status.iter().flat_map(|status| status.container_statuses.iter().flatten());
    statuses.filter_map(|container| {
        let waiting = container.state.as_ref()?.waiting.as_ref()?;
        let text = |part: &Option<String>| part.clone().unwrap_or_default();
        Some(Finding::bad(
            format!("pod {} container {} waits", pod.name_any(), container.name),
            format!("{}: {}", text(&waiting.reason), text(&waiting.message)),
        ))
    })
}
