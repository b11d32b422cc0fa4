//! `causeway intercepts`: the intercepts of a namespace, or of all: who gets which traffic of what, and how that is.

use std::process::ExitCode;

use anyhow::bail;
use causeway_api::conditions::{self, ConditionType};
use causeway_api::{InterceptRequest, InterceptState};
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use kube::api::ListParams;
use kube::{Api, ResourceExt as _};
use serde::Serialize;

use super::intercept::rules;
use crate::parts::answer::{Answer, FormatArg};
use crate::parts::kube_context::ContextArgs;
use crate::parts::paint::{Paint, Tone};
use crate::parts::refusal;
use crate::parts::table::{Cell, table};

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Those of all namespaces.
    #[arg(long, short = 'A', conflicts_with = "namespace")]
    all_namespaces: bool,
    #[command(flatten)]
    context: ContextArgs,
    #[command(flatten)]
    format: FormatArg,
}

pub(crate) async fn run(args: Args) -> anyhow::Result<ExitCode> {
    let cluster = args.context.cluster().await?;
    let api: Api<InterceptRequest> = if args.all_namespaces {
        Api::all(cluster.client.clone())
    } else {
        Api::namespaced(cluster.client.clone(), &cluster.namespace)
    };
    let list = match api.list(&ListParams::default()).await {
        Ok(list) => list.items,
        Err(error) => bail!("can't list intercepts: {}", refusal::advice(&error)),
    };
    let namespace = (!args.all_namespaces).then(|| cluster.namespace.clone());
    args.format.print(&Intercepts { namespace, intercepts: list.iter().map(Row::of).collect() })?;
    Ok(ExitCode::SUCCESS)
}

/// The answer.
#[derive(Serialize)]
struct Intercepts {
    /// The namespace that was looked at; absent for all.
    #[serde(skip_serializing_if = "Option::is_none")]
    namespace: Option<String>,
    intercepts: Vec<Row>,
}

#[derive(Serialize)]
struct Row {
    namespace: String,
    name: String,
    target: String,
    port: String,
    workstation: String,
    destination: String,
    /// What is taken, in words.
    takes: String,
    mirror: bool,
    state: InterceptState,
    active: bool,
    services: Vec<String>,
    /// Why it is not active.
    #[serde(skip_serializing_if = "Option::is_none")]
    why: Option<String>,
}

impl Row {
    fn of(request: &InterceptRequest) -> Self {
        let (spec, status) = (&request.spec, request.status.clone().unwrap_or_default());
        let pod = spec.target_pod.as_ref().map(|name| format!("pod/{name}"));
        let host = spec.destination_ip.clone().unwrap_or_else(|| "localhost".to_owned());
        // The summary says what stands in the way; what was refused says why.
        let kinds = [ConditionType::Accepted, ConditionType::Ready];
        let untrue = kinds.into_iter().filter_map(|kind| conditions::find(&status.conditions, kind));
        let untrue = untrue.into_iter().find(|condition| condition.status != "True");
        Self {
            namespace: request.namespace().unwrap_or_default(),
            name: request.name_any(),
            target: spec.target.clone().or(pod).unwrap_or_default(),
            port: match &spec.target_container_port {
                IntOrString::Int(number) => number.to_string(),
                IntOrString::String(name) => name.clone(),
            },
            workstation: spec.workstation.clone(),
            destination: format!("{host}:{}", spec.destination_port),
            takes: rules::words(&spec.matches),
            mirror: spec.mirror,
            state: status.state.unwrap_or_default(),
            active: status.active,
            services: status.services,
            why: untrue.map(|condition| format!("{}: {}", condition.reason, condition.message)),
        }
    }
}

impl Answer for Intercepts {
    fn text(&self, paint: Paint) -> String {
        if self.intercepts.is_empty() {
            return self.namespace.as_ref().map_or("no intercepts".to_owned(), |namespace| {
                format!("no intercepts in namespace {namespace}")
            });
        }
        let rows = self.intercepts.iter().map(|row| -> [Cell; 8] {
            let state = format!("{:?}", row.state);
            let tone = if row.active { Tone::Good } else { Tone::Bad };
            let takes = if row.mirror { format!("copies of {}", row.takes) } else { row.takes.clone() };
            [
                row.namespace.as_str().into(),
                row.name.as_str().into(),
                format!("{}:{}", row.target, row.port).into(),
                takes.into(),
                row.workstation.as_str().into(),
                row.destination.as_str().into(),
                Cell::toned(tone, state),
                row.why.clone().unwrap_or_default().into(),
            ]
        });
        let head = ["NAMESPACE", "NAME", "TARGET", "TAKES", "WORKSTATION", "TO", "STATE", "WHY"];
        table(paint, head, rows)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_table_says_who_gets_what_and_why_not() {
        let request = |name: &str, status: serde_json::Value| -> InterceptRequest {
            serde_json::from_value(json!({"apiVersion": "causeway.dev/v1alpha1", "kind": "InterceptRequest",
                "metadata": {"name": name, "namespace": "shop"}, "spec": {"target": "deployment/web",
                "targetContainerPort": "http", "workstation": "alice", "destinationPort": 8080,
                "match": [{"headers": [{"name": "x-user", "value": "me"}]}]}, "status": status}))
            .unwrap()
        };
        let condition = json!({"type": "Ready", "status": "False", "reason": "NotConnected", "message": "asleep",
            "lastTransitionTime": "2026-01-01T00:00:00Z"});
        let rows = [
            request("one", json!({"active": true, "state": "Active"})),
            request("two", json!({"state": "Installed", "conditions": [condition]})),
        ];
        let namespace = Some("shop".to_owned());
        let all = Intercepts { namespace, intercepts: rows.iter().map(Row::of).collect() };
        let text = all.text(Paint::Plain);
        let lines: Vec<String> =
            text.lines().map(|line| line.split_whitespace().collect::<Vec<_>>().join(" ")).collect();
        assert_eq!(lines[1], "shop one deployment/web:http x-user=me alice localhost:8080 Active");
        assert_eq!(
            lines[2],
            "shop two deployment/web:http x-user=me alice localhost:8080 Installed NotConnected: asleep"
        );
        let none = Intercepts { namespace: Some("shop".to_owned()), intercepts: Vec::new() };
        assert_eq!(none.text(Paint::Plain), "no intercepts in namespace shop");
    }
}
