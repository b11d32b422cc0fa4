//! `causeway status`: every Causeway resource, whether it is ready and why not, as one table. What nobody keeps true is not
//! told as true: a status of an earlier spec, and any status while no operator is at work.

use std::process::ExitCode;

use anyhow::bail;
use causeway_api::{ContainerNetworkTunnelProxy, names};
use causeway_translate::gateway::CONTROLLER_NAME;
use kube::api::{Api, DynamicObject, ListParams};
use kube::core::{ApiResource, GroupVersionKind};
use kube::{Client, Resource as _, ResourceExt};

use serde::Serialize;

use crate::parts::answer::{Answer, FormatArg};
use crate::parts::cluster::ClusterArgs;
use crate::parts::paint::{Paint, Tone};
use crate::parts::table::{Cell, table};
use crate::parts::tunnel_figures;
use crate::parts::{operator_lease, output, refusal};

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    cluster: ClusterArgs,
    /// Only this namespace [default: all].
    #[arg(long, short, value_name = "NAMESPACE")]
    namespace: Option<String>,
    /// End with an error if something is not ready.
    #[arg(long)]
    check: bool,
    #[command(flatten)]
    format: FormatArg,
}

pub(crate) async fn run(args: Args) -> anyhow::Result<ExitCode> {
    let client = args.cluster.client().await?;
    let (mut resources, mut unread) = (Vec::new(), Vec::new());
    let mut is_one_read = false;
    for crd in causeway_api::crds() {
        let names = &crd.spec.names;
        // A kind without a status is between the operator and its pods; those of Gateways are told by these.
        let is_told = crd.spec.versions.iter().any(|version| version.subresources.is_some());
        if !is_told || OF_GATEWAYS.contains(&names.kind.as_str()) {
            continue;
        }
        let resource = ApiResource {
            group: crd.spec.group.clone(),
            version: names::VERSION.to_owned(),
            api_version: names::API_VERSION.to_owned(),
            kind: names.kind.clone(),
            plural: names.plural.clone(),
        };
        let namespaced = crd.spec.scope == "Namespaced";
        let api: Api<DynamicObject> = match &args.namespace {
            Some(namespace) if namespaced => Api::namespaced_with(client.clone(), namespace, &resource),
            Some(_) => continue,
            None => Api::all_with(client.clone(), &resource),
        };
        match api.list(&ListParams::default()).await {
            Ok(list) => {
                is_one_read = true;
                let condition = if names.kind == "TrafficPolicy" { "Accepted" } else { "Ready" };
                resources.extend(list.iter().map(|object| Row::of(&names.kind, object, condition)));
            }
            Err(kube::Error::Api(status)) if status.code == 404 => {
                bail!(
                    "this cluster does not know {}; install Causeway's definitions (deploy/crds)",
                    names.plural
                )
            }
            // One that may not see all kinds sees those that he may.
            Err(error) if refusal::is_forbidden(&error) => unread.push(refusal::words(&error)),
            Err(error) => bail!("can't list {}: {}", names.plural, refusal::words(&error)),
        }
    }
    if !is_one_read {
        let advice = if args.namespace.is_none() { "; name a namespace with -n" } else { "" };
        bail!(
            "none of Causeway's kinds may be listed: {}{advice}",
            unread.first().cloned().unwrap_or_default()
        );
    }
    for refusal in &unread {
        output::note(format_args!("causeway: not shown: {refusal}"));
    }
    resources.extend(gateways(&client, args.namespace.as_deref()).await);
    add_figures(&client, &mut resources).await;
    let waiting = resources.iter().filter(|row| !row.is_ready()).count();
    let operator = operator_lease::trouble(&client, names::NAMESPACE).await;
    let status = Status {
        ready: waiting == 0 && operator.is_none() && unread.is_empty(),
        operator,
        unread,
        resources,
    };
    args.format.print(&status)?;
    if let (true, Some(operator)) = (args.check, &status.operator) {
        bail!("{operator}");
    }
    if args.check && !status.unread.is_empty() {
        bail!("not everything could be looked at");
    }
    if args.check && waiting > 0 {
        bail!("{waiting} of {} resources are not ready", status.resources.len());
    }
    Ok(ExitCode::SUCCESS)
}

/// Kinds that say nothing of themselves: a Gateway does.
const OF_GATEWAYS: [&str; 2] = ["GatewayPlan", "GatewayParameters"];

/// The Gateways of classes that are ours; none where the cluster does not know them, or they may not be seen.
async fn gateways(client: &Client, namespace: Option<&str>) -> Vec<Row> {
    let resource = |kind: &str, plural: &str| {
        let gvk = GroupVersionKind::gvk("gateway.networking.k8s.io", "v1", kind);
        ApiResource::from_gvk_with_plural(&gvk, plural)
    };
    let (class, gateway) = (resource("GatewayClass", "gatewayclasses"), resource("Gateway", "gateways"));
    let all = ListParams::default();
    let classes = Api::<DynamicObject>::all_with(client.clone(), &class).list(&all).await;
    let ours: Vec<String> = classes
        .into_iter()
        .flat_map(|list| list.items)
        .filter(|class| class.data["spec"]["controllerName"] == CONTROLLER_NAME)
        .map(|class| class.name_any())
        .collect();
    let api: Api<DynamicObject> = match namespace {
        Some(namespace) => Api::namespaced_with(client.clone(), namespace, &gateway),
        None => Api::all_with(client.clone(), &gateway),
    };
    let found = api.list(&all).await.into_iter().flat_map(|list| list.items);
    let is_ours =
        |object: &DynamicObject| ours.iter().any(|class| object.data["spec"]["gatewayClassName"] == *class);
    found.filter(is_ours).map(|object| Row::of("Gateway", &object, "Programmed")).collect()
}

/// Adds what tunnels carry, where that can be had.
async fn add_figures(client: &Client, resources: &mut [Row]) {
    let kind = ContainerNetworkTunnelProxy::kind(&());
    if !resources.iter().any(|row| row.kind == kind) {
        return;
    }
    let figures = tunnel_figures::by_proxy(client).await;
    for row in resources.iter_mut().filter(|row| row.kind == kind) {
        row.carries = figures.get(&(row.namespace.clone(), row.name.clone())).copied();
    }
}

/// The answer.
#[derive(Debug, Serialize)]
struct Status {
    /// Whether every one of them is, by the word of an operator that is at work.
    ready: bool,
    /// Why nobody keeps what is below true.
    #[serde(skip_serializing_if = "Option::is_none")]
    operator: Option<String>,
    /// What could not be looked at.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    unread: Vec<String>,
    resources: Vec<Row>,
}

/// What is said of one object.
#[derive(Debug, Serialize)]
struct Row {
    kind: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    namespace: String,
    name: String,
    /// The status of its condition Ready; absent if it has none.
    #[serde(skip_serializing_if = "Option::is_none")]
    ready: Option<String>,
    reason: String,
    message: String,
    /// What a tunnel proxy carries; absent where the API server does not know.
    #[serde(skip_serializing_if = "Option::is_none")]
    carries: Option<tunnel_figures::Figures>,
}

impl Row {
    /// By the condition that says whether it is ready.
    fn of(kind: &str, object: &DynamicObject, condition: &str) -> Self {
        let conditions = object.data["status"]["conditions"].as_array();
        let ready = conditions.into_iter().flatten().find(|c| c["type"] == condition);
        let text = |field: &str| Some(ready?[field].as_str().unwrap_or_default().to_owned());
        let row = Self {
            kind: kind.to_owned(),
            namespace: object.namespace().unwrap_or_default(),
            name: object.name_any(),
            ready: text("status"),
            reason: text("reason").unwrap_or_else(|| "NotYetSeen".to_owned()),
            message: text("message").unwrap_or_default(),
            carries: None,
        };
        let seen = object.data["status"]["observedGeneration"]
            .as_i64()
            .or_else(|| ready.and_then(|ready| ready["observedGeneration"].as_i64()));
        match (seen, object.metadata.generation) {
            (Some(seen), Some(newest)) if seen < newest => Self {
                ready: Some("Unknown".to_owned()),
                reason: "Stale".to_owned(),
                message: format!(
                    "the operator has not seen the newest spec (generation {newest}, seen {seen}); before: {} {}",
                    row.reason, row.message
                ),
                ..row
            },
            _ => row,
        }
    }

    fn is_ready(&self) -> bool {
        self.ready.as_deref() == Some("True")
    }
}

impl Answer for Status {
    fn text(&self, paint: Paint) -> String {
        let operator = self.operator.iter().map(|trouble| format!("{}\n", paint.tint(Tone::Bad, trouble)));
        let operator: String = operator.collect();
        if self.resources.is_empty() {
            return format!("{operator}no Causeway resources yet; try one of deploy/samples");
        }
        let cells = self.resources.iter().map(|row| {
            let ready = match row.ready.as_deref() {
                Some("True") => Cell::toned(Tone::Good, "True"),
                Some(other) => Cell::toned(Tone::Bad, other),
                None => Cell::toned(Tone::Faint, "-"),
            };
            let carries = row.carries.map(|carries| format!(": {carries}")).unwrap_or_default();
            let message = format!("{}{carries}", row.message);
            let [kind, namespace, name, reason, message] =
                [&row.kind, &row.namespace, &row.name, &row.reason, &message]
                    .map(|text| Cell::from(text.as_str()));
            [kind, namespace, name, ready, reason, message]
        });
        let rows = table(paint, ["KIND", "NAMESPACE", "NAME", "READY", "REASON", "MESSAGE"], cells);
        format!("{operator}{rows}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn the_table_says_what_is_not_ready_and_why() {
        let object = |name: &str, data: serde_json::Value| {
            let mut object: DynamicObject = serde_json::from_value(json!({
                "apiVersion": "causeway.dev/v1alpha1", "kind": "Infra", "metadata": {"name": name, "namespace": "a"},
            }))
            .unwrap();
            object.data = data;
            object
        };
        let condition = json!({"status": {"conditions": [
            {"type": "Ready", "status": "False", "reason": "InvalidSpec", "message": "spec.cidr: write a CIDR"}]}});
        let resources = [("x", condition), ("longer-name", json!({}))];
        let resources = resources.map(|(name, data)| Row::of("Infra", &object(name, data), "Ready")).into();
        let operator = Some("no operator is at work".to_owned());
        let text = Status { ready: false, operator, unread: Vec::new(), resources }.text(Paint::Plain);
        assert!(text.starts_with("no operator is at work\nKIND"), "{text}");
        assert!(
            text.contains("Infra  a          x            False  InvalidSpec  spec.cidr: write a CIDR"),
            "{text}"
        );
        assert!(text.ends_with("longer-name  -      NotYetSeen"), "{text}");
    }

    #[test]
    fn a_status_of_an_earlier_spec_is_no_status() {
        let object: DynamicObject = serde_json::from_value(json!({
            "apiVersion": "causeway.dev/v1alpha1", "kind": "Infra",
            "metadata": {"name": "x", "namespace": "a", "generation": 3},
            "status": {"observedGeneration": 2, "conditions": [
                {"type": "Ready", "status": "True", "reason": "Ready", "message": "all well"}]},
        }))
        .unwrap();
        let row = Row::of("Infra", &object, "Ready");
        assert!(!row.is_ready() && row.reason == "Stale", "{row:?}");
    }
}
