//! The row of a pod: most of it is the one word that sums up its containers.

use jiff::Timestamp;
use serde_json::Value;

use super::{AGE, NAME, age, col, name, or, since, wide};
use crate::builtin::json::{flag, items, text};
use crate::object::is_terminating;
use crate::resource::ColumnDef;

pub(crate) const POD: &[ColumnDef] = &[
    NAME,
    col("Ready", "string", "Containers that are ready, of all containers."),
    col("Status", "string", "The state of the pod's containers in one word."),
    col("Restarts", "string", "How often the containers were restarted, and when last."),
    AGE,
    wide("IP", "Address of the pod."),
    wide("Node", "Node the pod runs on."),
    wide("Nominated Node", "Node the pod will run on once other pods have made room."),
    wide("Readiness Gates", "Extra conditions that are true, of all that count for readiness."),
];

pub(crate) fn pod(pod: &Value, now: Timestamp) -> Vec<Value> {
    let (spec, status) = (&pod["spec"], &pod["status"]);
    let summary = Summary::of(pod);
    let total = items(spec, "containers").len()
        + items(spec, "initContainers").iter().filter(|c| is_sidecar(c)).count();
    let restarts = match summary.restarts {
        Restarts { count, last: Some(last) } if count != 0 => {
            format!("{count} ({} ago)", since(&Value::from(last), now))
        }
        Restarts { count, .. } => count.to_string(),
    };
    let ip = items(status, "podIPs").first().map_or("", |ip| text(ip, "ip"));
    vec![
        name(pod),
        format!("{}/{total}", summary.ready).into(),
        summary.reason.into(),
        restarts.into(),
        age(pod, now),
        or(ip, "<none>").into(),
        or(text(spec, "nodeName"), "<none>").into(),
        or(text(status, "nominatedNodeName"), "<none>").into(),
        readiness_gates(pod).into(),
    ]
}

/// A restart count with the latest end of a previous run.
#[derive(Default, Clone)]
struct Restarts {
    count: i64,
    last: Option<String>,
}

impl Restarts {
    fn add(&mut self, container: &Value) {
        self.count += container["restartCount"].as_i64().unwrap_or_default();
        if let Some(end) = container["lastState"]["terminated"]["finishedAt"].as_str()
            && self.last.as_deref().is_none_or(|last| last < end)
        {
            self.last = Some(end.to_owned());
        }
    }
}

struct Summary {
    reason: String,
    ready: usize,
    restarts: Restarts,
}

impl Summary {
    fn of(pod: &Value) -> Self {
        let status = &pod["status"];
        let phase = text(status, "phase");
        let mut summary = Self {
            reason: or(text(status, "reason"), phase).to_owned(),
            ready: 0,
            restarts: Restarts::default(),
        };
        let gated = |c: &&Value| text(c, "type") == "PodScheduled" && text(c, "reason") == "SchedulingGated";
        if items(status, "conditions").iter().any(|c| gated(&c)) {
            "SchedulingGated".clone_into(&mut summary.reason);
        }
        let mut sidecars = Restarts::default();
        let initializing = summary.add_init_containers(pod, &mut sidecars);
        if !initializing || is_true(status, "Initialized") {
            summary.restarts = sidecars;
            summary.add_containers(status);
        }
        if is_terminating(pod) {
            if text(status, "reason") == "NodeLost" {
                "Unknown".clone_into(&mut summary.reason);
            } else if !matches!(phase, "Succeeded" | "Failed") {
                "Terminating".clone_into(&mut summary.reason);
            }
        }
        summary
    }

    /// Returns whether an init container still holds the others up.
    fn add_init_containers(&mut self, pod: &Value, sidecars: &mut Restarts) -> bool {
        let specs = items(&pod["spec"], "initContainers");
        for (i, container) in items(&pod["status"], "initContainerStatuses").iter().enumerate() {
            let sidecar = specs.iter().any(|c| c["name"] == container["name"] && is_sidecar(c));
            self.restarts.add(container);
            if sidecar {
                sidecars.add(container);
            }
            let (ended, waiting) = (&container["state"]["terminated"], &container["state"]["waiting"]);
            if ended["exitCode"] == 0 {
                continue;
            }
            if sidecar && flag(container, "started") {
                self.ready += usize::from(flag(container, "ready"));
                continue;
            }
            let reason = match text(waiting, "reason") {
                _ if !ended.is_null() => end_reason(ended),
                "" | "PodInitializing" => format!("{i}/{}", specs.len()),
                reason => reason.to_owned(),
            };
            self.reason = format!("Init:{reason}");
            return true;
        }
        false
    }

    fn add_containers(&mut self, status: &Value) {
        let (mut running, mut failure) = (false, None);
        for container in items(status, "containerStatuses").iter().rev() {
            self.restarts.add(container);
            let state = &container["state"];
            if !text(&state["waiting"], "reason").is_empty() {
                text(&state["waiting"], "reason").clone_into(&mut self.reason);
            } else if state["terminated"].is_object() {
                self.reason = end_reason(&state["terminated"]);
                if state["terminated"]["exitCode"] != 0 {
                    failure = Some(self.reason.clone());
                }
            } else if flag(container, "ready") && state["running"].is_object() {
                running = true;
                self.ready += 1;
            }
        }
        if self.reason == "Completed" {
            if running && is_true(status, "Ready") {
                "Running".clone_into(&mut self.reason);
            } else if let Some(failure) = failure {
                self.reason = failure;
            } else if running {
                "NotReady".clone_into(&mut self.reason);
            }
        }
    }
}

fn end_reason(ended: &Value) -> String {
    match (text(ended, "reason"), ended["signal"].as_i64().unwrap_or_default()) {
        ("", 0) => format!("ExitCode:{}", ended["exitCode"].as_i64().unwrap_or_default()),
        ("", signal) => format!("Signal:{signal}"),
        (reason, _) => reason.to_owned(),
    }
}

/// An init container that keeps running beside the others.
fn is_sidecar(container: &Value) -> bool {
    text(container, "restartPolicy") == "Always"
}

fn is_true(status: &Value, condition: &str) -> bool {
    items(status, "conditions").iter().any(|c| text(c, "type") == condition && text(c, "status") == "True")
}

fn readiness_gates(pod: &Value) -> String {
    let gates = items(&pod["spec"], "readinessGates");
    if gates.is_empty() {
        return "<none>".to_owned();
    }
    let met = gates.iter().filter(|g| is_true(&pod["status"], text(g, "conditionType"))).count();
    format!("{met}/{}", gates.len())
}

#[cfg(test)]
mod tests;
