//! What each condition of a `ProxyServer` says, and why.

use causeway_api::{
    BackendStatus, ReplicaStatus,
    conditions::{Reason, Status},
};
use kube::ResourceExt;

use super::Input;
use crate::{
    framework::{error::Category, finding::Finding, report},
    vlan::proxy::{desired::deployment_name, generation},
};

/// `ConfigurationValid`: the spec makes sense, and every proxy took it.
pub(crate) fn configuration_valid(input: &Input<'_>) -> Finding {
    if !input.problems.is_empty() {
        return Finding::new(Status::False, Reason::InvalidSpec, problems(input));
    }
    let refused = refused(input);
    if !refused.is_empty() {
        return Finding::new(Status::False, Reason::ConfigurationRejected, refused);
    }
    let waiting: Vec<_> = replicas(input)
        .filter(|replica| !replica.report.is_some_and(|report| has_taken(report, input)))
        .map(|replica| replica.name)
        .collect();
    if waiting.is_empty() {
        return Finding::new(
            Status::True,
            Reason::ConfigurationApplied,
            "every proxy has taken the configuration",
        );
    }
    let message = format!("waiting for {} to take the configuration", waiting.join(", "));
    Finding::new(Status::Unknown, Reason::Progressing, message)
}

/// `BackendsResolved`: every backend has a Service with endpoints. One that has none harms no other.
pub(crate) fn backends_resolved(input: &Input<'_>, backends: &[BackendStatus]) -> Finding {
    // Without its rights a proxy can't see what is behind a backend.
    if let Some(failed) = failed(input, false) {
        return failed;
    }
    if !input.refusals.is_empty() {
        return Finding::new(Status::False, Reason::RefNotPermitted, input.refusals.join("; "));
    }
    let missing: Vec<_> = backends.iter().filter(|backend| backend.ready_endpoints == 0).collect();
    if !missing.is_empty() {
        let each: Vec<_> = missing.iter().map(|backend| explain(backend)).collect();
        return Finding::new(Status::False, Reason::NoReadyEndpoints, each.join("; "));
    }
    let unseen: Vec<_> = input
        .proxy
        .spec
        .backends
        .iter()
        .filter(|backend| !backends.iter().any(|seen| seen.name == backend.name))
        .map(|backend| backend.name.as_str())
        .collect();
    if unseen.is_empty() {
        let message = format!("every one of {} has ready endpoints", count(backends.len(), "backend"));
        return Finding::new(Status::True, Reason::Resolved, message);
    }
    let message = match backends {
        [] => "no proxy has reported yet".to_owned(),
        _ => format!("no proxy has reported on {} yet", unseen.join(", ")),
    };
    Finding::new(Status::Unknown, Reason::Progressing, message)
}

/// `NetworkAttached`: every proxy has its address on the isolated network.
pub(crate) fn network_attached(input: &Input<'_>) -> Finding {
    let is_asked_for = input.proxy.spec.network_config.network_attachment_name.is_some();
    let lacking: Vec<_> = replicas(input)
        .filter(|replica| replica.report.is_some_and(|report| report.attached == Some(false)))
        .map(|replica| format!("{} does not have {}", replica.pod_name(), replica.address))
        .collect();
    if !lacking.is_empty() {
        let remedy = if is_asked_for {
            "look at the pod's Events and at the NetworkAttachmentDefinition"
        } else {
            "name a NetworkAttachmentDefinition in spec.networkConfig.networkAttachmentName, or write an address that \
             the machine has"
        };
        let message = format!("{}: {remedy}", lacking.join(", "));
        return Finding::new(Status::False, Reason::AttachmentFailed, message);
    }
    let silent: Vec<_> = replicas(input)
        .filter(|replica| replica.report.is_none_or(|report| report.attached.is_none()))
        .map(|replica| replica.name)
        .collect();
    if silent.is_empty() {
        return Finding::new(
            Status::True,
            Reason::Attached,
            "every proxy has its address on the isolated network",
        );
    }
    if !is_asked_for {
        let message = "no isolated network is asked for: the proxies are on the pod network only";
        return Finding::new(Status::True, Reason::NotRequested, message);
    }
    let message = format!("waiting for {} to report its address", silent.join(", "));
    Finding::new(Status::Unknown, Reason::Progressing, message)
}

/// `Ready`: traffic would pass.
pub(crate) fn ready(input: &Input<'_>, backends: &[BackendStatus]) -> Finding {
    if !input.problems.is_empty() {
        return Finding::new(Status::False, Reason::InvalidSpec, problems(input));
    }
    if let Some(failed) = failed(input, true) {
        return failed;
    }
    let refused = refused(input);
    if !refused.is_empty() {
        return Finding::new(Status::False, Reason::ConfigurationRejected, refused);
    }
    let mut waiting: Vec<_> = replicas(input).filter_map(|replica| replica.waits_for(input)).collect();
    // What fails comes before what only takes its time.
    waiting.sort_by_key(|(reason, _)| matches!(reason, Reason::PodsStarting | Reason::Progressing));
    if let Some((reason, _)) = waiting.first() {
        let each: Vec<_> = waiting.iter().map(|(_, message)| message.as_str()).collect();
        return Finding::new(Status::False, *reason, each.join("; "));
    }
    let attached = network_attached(input);
    if attached.status == Status::False {
        return attached;
    }
    let resolved = backends.iter().filter(|backend| backend.ready_endpoints > 0).count();
    if resolved == 0 {
        let resolved = backends_resolved(input, backends);
        return Finding { status: Status::False, ..resolved };
    }
    let (total, proxies) = (input.proxy.spec.backends.len(), replicas(input).count());
    let message = if resolved == total {
        format!("{} serving {}", count(proxies, "proxy"), count(total, "backend"))
    } else {
        format!("{} serving {resolved} of {}", count(proxies, "proxy"), count(total, "backend"))
    };
    Finding::new(Status::True, Reason::Ready, message)
}

/// One address of the spec, and what is known of its pod.
struct Replica<'a> {
    /// Name of its Deployment.
    name: String,
    index: usize,
    address: &'a str,
    pod: Option<&'a str>,
    trouble: Option<&'a str>,
    report: Option<&'a ReplicaStatus>,
}

impl Replica<'_> {
    fn pod_name(&self) -> &str {
        self.pod.unwrap_or(&self.name)
    }

    /// What keeps it from carrying traffic.
    fn waits_for(&self, input: &Input<'_>) -> Option<(Reason, String)> {
        let name = &self.name;
        let starting = |message: String| Some((Reason::PodsStarting, message));
        let Some(deployment) = input.observed.deployments.iter().find(|state| state.index == self.index)
        else {
            return Some((Reason::Progressing, format!("Deployment {name} is being made")));
        };
        if let Some(trouble) = self.trouble {
            return Some((Reason::PodsFailing, format!("pod {}: {trouble}", self.pod_name())));
        }
        let Some(pod) = self.pod else {
            return starting(format!("Deployment {name} has no pod yet"));
        };
        let Some(report) = self.report else {
            return starting(format!("pod {pod} has not reported yet"));
        };
        if let Some(trouble) = &report.trouble {
            return Some((Reason::NotReady, format!("pod {pod}: {trouble}")));
        }
        if report.observed_generation < Some(generation(input.proxy)) {
            let message = format!("pod {pod} has not read the latest change of the spec yet");
            return Some((Reason::Progressing, message));
        }
        if !report.serving {
            return Some((Reason::Progressing, format!("pod {pod} does not carry traffic yet")));
        }
        (!deployment.is_available)
            .then(|| (Reason::PodsStarting, format!("Deployment {name} is not available yet")))
    }
}

/// Every replica that the spec asks for.
fn replicas<'a>(input: &'a Input<'_>) -> impl Iterator<Item = Replica<'a>> {
    let network = &input.proxy.spec.network_config;
    let addresses = std::iter::once(&network.server_ip).chain(&network.additional_server_ips);
    let wanted = usize::try_from(input.proxy.spec.replicas).unwrap_or(1);
    addresses.take(wanted).enumerate().map(|(index, address)| {
        let pods = input.observed.pods.iter().filter(move |pod| pod.index == index && !pod.is_leaving);
        let report_of = |name: &str| input.observed.reports.iter().find(|report| report.name == name);
        // While one pod replaces another both may be there: the one that reports counts.
        let pod = pods.clone().find(|pod| report_of(&pod.name).is_some()).or_else(|| pods.clone().next());
        Replica {
            name: deployment_name(&input.proxy.name_any(), index),
            index,
            address,
            pod: pod.map(|pod| pod.name.as_str()),
            trouble: pod.and_then(|pod| pod.trouble.as_deref()),
            report: pod.and_then(|pod| report_of(&pod.name)),
        }
    })
}

fn has_taken(report: &ReplicaStatus, input: &Input<'_>) -> bool {
    let is_current = report.observed_generation >= Some(generation(input.proxy));
    is_current && report.refused.is_none() && (report.serving || report.trouble.is_some())
}

/// The objects in the proxy's own namespace, or in others, that could not be made or removed.
fn failed(input: &Input<'_>, own_namespace: bool) -> Option<Finding> {
    let prefix = format!("{}/", input.proxy.namespace().unwrap_or_default());
    let failures: Vec<_> =
        input.failures.iter().filter(|error| error.object().starts_with(&prefix) == own_namespace).collect();
    let reason = match failures.first()?.category() {
        Category::Conflict => Reason::Conflict,
        _ => Reason::ComponentFailed,
    };
    let each: Vec<_> = failures.iter().map(|error| report::chain(**error)).collect();
    Some(Finding::new(Status::False, reason, each.join("; ")))
}

fn refused(input: &Input<'_>) -> String {
    let each: Vec<_> = replicas(input)
        .filter_map(|replica| {
            let text = replica.report?.refused.as_ref()?;
            Some(format!("pod {} stays with its last good configuration: {text}", replica.pod_name()))
        })
        .collect();
    each.join("; ")
}

fn problems(input: &Input<'_>) -> String {
    let each: Vec<_> = input.problems.iter().map(ToString::to_string).collect();
    each.join("; ")
}

fn explain(backend: &BackendStatus) -> String {
    match &backend.message {
        Some(message) => format!("{}: {message}", backend.name),
        None => format!("{}: has no ready endpoint", backend.name),
    }
}

fn count(number: usize, noun: &str) -> String {
    match (number, noun) {
        (1, _) => format!("1 {noun}"),
        (_, "proxy") => format!("{number} proxies"),
        _ => format!("{number} {noun}s"),
    }
}
