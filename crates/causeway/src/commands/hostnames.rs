//! `causeway hostnames`: the hostnames of a namespace, or of all: who holds which, how far it is, its certificate, its gateway and
//! where it leads.

use std::process::ExitCode;

use anyhow::bail;
use causeway_api::GatewayHostnameRequest;
use causeway_api::conditions::{self, ConditionType};
use k8s_openapi::jiff::Timestamp;
use kube::api::ListParams;
use kube::{Api, ResourceExt as _};
use serde::Serialize;

use crate::parts::answer::{Answer, FormatArg};
use crate::parts::kube_context::ContextArgs;
use crate::parts::paint::{Paint, Tone};
use crate::parts::refusal;
use crate::parts::table::{Cell, table};

/// The steps, in their order.
const STEPS: [ConditionType; 6] = [
    ConditionType::Claimed,
    ConditionType::CertificateRequested,
    ConditionType::DnsValidated,
    ConditionType::CertificateIssued,
    ConditionType::ListenerAttached,
    ConditionType::DnsAliasReady,
];

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
    let api: Api<GatewayHostnameRequest> = if args.all_namespaces {
        Api::all(cluster.client.clone())
    } else {
        Api::namespaced(cluster.client.clone(), &cluster.namespace)
    };
    let list = match api.list(&ListParams::default()).await {
        Ok(list) => list.items,
        Err(error) => bail!("can't list hostnames: {}", refusal::advice(&error)),
    };
    let namespace = (!args.all_namespaces).then(|| cluster.namespace.clone());
    args.format.print(&Hostnames { namespace, hostnames: list.iter().map(Row::of).collect() })?;
    Ok(ExitCode::SUCCESS)
}

/// The answer.
#[derive(Serialize)]
struct Hostnames {
    /// The namespace that was looked at; absent for all.
    #[serde(skip_serializing_if = "Option::is_none")]
    namespace: Option<String>,
    hostnames: Vec<Row>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Row {
    hostname: String,
    namespace: String,
    name: String,
    /// The step that it is at: Ready, Deleting, or the first that is not done.
    step: String,
    ready: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    expires: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    gateway: Option<String>,
    records: Vec<String>,
    /// Why it is not ready.
    #[serde(skip_serializing_if = "Option::is_none")]
    why: Option<String>,
}

impl Row {
    fn of(request: &GatewayHostnameRequest) -> Self {
        let status = request.status.clone().unwrap_or_default();
        let generation = request.metadata.generation.unwrap_or_default();
        let ready = conditions::is_true(&status.conditions, ConditionType::Ready, generation);
        let deleting = conditions::find(&status.conditions, ConditionType::Deleting);
        let open = STEPS.iter().find(|step| !conditions::is_true(&status.conditions, **step, generation));
        let (step, condition) = match (deleting, open) {
            (Some(deleting), _) => ("Deleting".to_owned(), Some(deleting)),
            (None, _) if ready => ("Ready".to_owned(), None),
            (None, Some(open)) => (open.to_string(), conditions::find(&status.conditions, *open)),
            (None, None) => ("Ready".to_owned(), conditions::find(&status.conditions, ConditionType::Ready)),
        };
        let expires = status.certificate.as_ref().and_then(|certificate| certificate.not_after.as_ref());
        let hostname = status.hostnames.first().unwrap_or(&request.spec.hostname);
        Self {
            hostname: if status.hostnames.len() > 1 {
                format!("{hostname} +{}", status.hostnames.len() - 1)
            } else {
                hostname.clone()
            },
            namespace: request.namespace().unwrap_or_default(),
            name: request.name_any(),
            step,
            ready,
            expires: expires.map(|time| time.0.strftime("%Y-%m-%dT%H:%M:%SZ").to_string()),
            gateway: status.assigned_gateway,
            records: status
                .records
                .iter()
                .map(|record| format!("{} {}", record.type_, record.value))
                .collect(),
            why: if status.conditions.is_empty() {
                Some("no operator has looked at it yet".to_owned())
            } else {
                condition.map(|condition| format!("{}: {}", condition.reason, condition.message))
            },
        }
    }

    /// How long the certificate is good for, in the largest unit that says it.
    fn left(&self) -> String {
        let Some(end) = self.expires.as_ref().and_then(|text| text.parse::<Timestamp>().ok()) else {
            return String::new();
        };
        let hours = end.duration_since(Timestamp::now()).as_hours();
        if hours < 0 {
            "expired".to_owned()
        } else if hours < 48 {
            format!("{hours}h")
        } else {
            format!("{}d", hours / 24)
        }
    }
}

impl Answer for Hostnames {
    fn text(&self, paint: Paint) -> String {
        if self.hostnames.is_empty() {
            return self.namespace.as_ref().map_or("no hostnames".to_owned(), |namespace| {
                format!("no hostnames in namespace {namespace}")
            });
        }
        let rows = self.hostnames.iter().map(|row| -> [Cell; 7] {
            let tone = if row.ready { Tone::Good } else { Tone::Bad };
            [
                row.hostname.as_str().into(),
                format!("{}/{}", row.namespace, row.name).into(),
                Cell::toned(tone, row.step.clone()),
                row.left().into(),
                row.gateway.clone().unwrap_or_default().into(),
                row.records.join(", ").into(),
                row.why.clone().unwrap_or_default().into(),
            ]
        });
        table(paint, ["HOSTNAME", "OWNER", "STEP", "CERTIFICATE", "GATEWAY", "RECORDS", "WHY"], rows)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_table_says_how_far_each_is_and_why_not_further() {
        let request = |name: &str, status: serde_json::Value| -> GatewayHostnameRequest {
            serde_json::from_value(
                json!({"apiVersion": "causeway.dev/v1alpha1", "kind": "GatewayHostnameRequest",
                "metadata": {"name": name, "namespace": "shop", "generation": 1},
                "spec": {"zoneId": "example.com", "hostname": "Shop.example.com"}, "status": status}),
            )
            .unwrap()
        };
        let condition = |kind: &str, status: &str, reason: &str| {
            json!({"type": kind, "status": status, "reason": reason, "message": "m",
                "lastTransitionTime": "2026-01-01T00:00:00Z"})
        };
        let rows = [
            request(
                "one",
                json!({"hostnames": ["shop.example.com"], "assignedGateway": "gw-01",
                    "records": [{"name": "shop.example.com", "type": "A", "value": "192.0.2.1"}],
                    "conditions": [condition("Ready", "True", "Ready")]}),
            ),
            request("two", json!({"conditions": [condition("Claimed", "False", "AlreadyClaimed")]})),
        ];
        let all = Hostnames { namespace: None, hostnames: rows.iter().map(Row::of).collect() };
        let text = all.text(Paint::Plain);
        let lines: Vec<String> =
            text.lines().map(|line| line.split_whitespace().collect::<Vec<_>>().join(" ")).collect();
        assert_eq!(lines[1], "shop.example.com shop/one Ready gw-01 A 192.0.2.1");
        assert_eq!(lines[2], "Shop.example.com shop/two Claimed AlreadyClaimed: m");
    }
}
