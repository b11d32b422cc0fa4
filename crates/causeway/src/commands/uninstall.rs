//! `causeway uninstall`: takes Causeway out of a cluster in an order in which nothing is left behind. First everything that was
//! changed for somebody is put back, while the operator is there to do it: intercepts, then developers' machines, then, if that is
//! asked for, all other objects. Then the operator goes, what it made, the definitions, and at last the namespaces; each is
//! waited for, so that nothing is left that is being deleted.

mod force;
mod rest;

use std::collections::BTreeSet;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use causeway_api::{conditions::ConditionType, names};
use k8s_openapi::api::apps::v1::Deployment;
use kube::api::{Api, ApiResource, DeleteParams, DynamicObject, ListParams};
use kube::core::Resource as _;
use kube::{Client, ResourceExt};
use serde::Serialize;

use crate::parts::answer::{Answer, FormatArg};
use crate::parts::cluster::ClusterArgs;
use crate::parts::installation::{self, Found, Piece};
use crate::parts::paint::Paint;
use crate::parts::progress::Progress;
use crate::parts::{operator_lease, refusal};

/// Between two looks at what is going.
const LOOK: Duration = Duration::from_millis(250);
/// What goes first, in this order: what was changed for them is somebody else's.
const FIRST: [&str; 2] = ["InterceptRequest", "Workstation"];
/// What the operator makes for itself and its pods; it goes with what it was made for.
const MADE: [&str; 5] = ["GatewayPlan", "Supply", "AddressClaim", "DomainClaim", "HostnameGrant"];

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    cluster: ClusterArgs,
    /// Namespace of the operator.
    #[arg(long, short, env = "CAUSEWAY_NAMESPACE", default_value = names::NAMESPACE, value_name = "NAMESPACE")]
    namespace: String,
    /// Do it; without, what would be done is shown.
    #[arg(long)]
    yes: bool,
    /// Delete the objects of all of Causeway's kinds, and so what runs for them. Without, it is refused while there are others
    /// than intercepts and developers' machines.
    #[arg(long)]
    all: bool,
    /// Remove the definitions of the kinds, too.
    #[arg(long, requires = "all")]
    crds: bool,
    /// Where no operator is there any more: let go of what waits for one, and say what nobody has put back.
    #[arg(long, requires = "all")]
    force: bool,
    /// How long to wait for what has to be put back.
    #[arg(long, default_value_t = 300, value_name = "SECONDS")]
    timeout: u64,
    #[command(flatten)]
    format: FormatArg,
}

pub(crate) async fn run(args: Args) -> anyhow::Result<ExitCode> {
    let client = args.cluster.client().await?;
    nobody_else_works(&client, &args).await?;
    let mut kinds = kinds();
    // Infras make others, which would come back.
    kinds.sort_by_key(|kind| {
        (FIRST.iter().position(|first| *first == kind.kind).unwrap_or(9), kind.kind != "Infra")
    });
    let mut there = Vec::new();
    for kind in &kinds {
        there.extend(objects(&client, kind).await?.into_iter().map(|object| (kind.clone(), object)));
    }
    let is_first = |kind: &ApiResource| FIRST.contains(&kind.kind.as_str());
    let others: Vec<String> = there
        .iter()
        .filter(|(kind, _)| !is_first(kind))
        .map(|(kind, object)| name_of(kind, object))
        .collect();
    if !others.is_empty() && !args.all {
        bail!(
            "there are {} other objects, for which nobody would be there any more: {}{}; delete them first, or with --all",
            others.len(),
            others.iter().take(5).cloned().collect::<Vec<_>>().join(", "),
            if others.len() > 5 { ", …" } else { "" }
        );
    }
    let gateways = rest::gateways(&client).await?;
    if !gateways.is_empty() && !args.all {
        bail!(
            "there are Gateways of class {}, which nobody would look after any more: {}; delete them first, or go on with --all",
            names::GATEWAY_CLASS,
            gateways.join(", ")
        );
    }
    let Found { pieces: operator, namespaces_of_others } =
        installation::find(&client, &args.namespace).await?;
    for piece in operator.iter().filter(|piece| piece.kind() == "Namespace") {
        let inside = rest::gateways_in(&client, &piece.name).await?;
        if !inside.is_empty() {
            bail!(
                "there are Gateways in {piece} that are not Causeway's and would go with it: {}; delete them or bring them elsewhere first",
                inside.join(", ")
            );
        }
    }
    let mut done = Uninstalled {
        done: args.yes,
        objects: there.iter().map(|(kind, object)| name_of(kind, object)).collect(),
        operator: operator.iter().map(ToString::to_string).collect(),
        definitions: if args.crds {
            causeway_api::crds().iter().map(ResourceExt::name_any).collect()
        } else {
            Vec::new()
        },
        left: gateways
            .iter()
            .map(|name| format!("Gateway {name}: without what carried its traffic"))
            .chain(
                namespaces_of_others
                    .iter()
                    .map(|piece| format!("{piece}: it was not made by `causeway install`")),
            )
            .collect(),
    };
    if !args.yes {
        args.format.print(&done)?;
        return Ok(ExitCode::SUCCESS);
    }
    let progress = Progress::new(!args.format.is_json());
    let deadline = Instant::now() + Duration::from_secs(args.timeout);
    if args.force {
        done.left.extend(force::let_go(&client, &kinds).await?);
    } else if let (false, Some(trouble)) =
        (there.is_empty(), operator_lease::trouble(&client, &args.namespace).await)
    {
        bail!(
            "{trouble}: nobody would put back what was changed; start the operator first, or let go of it all with --force --all"
        );
    }
    for kind in &kinds {
        if there.iter().any(|(of, _)| of.kind == kind.kind) {
            let what = format!("putting back what {} changed", kind.plural);
            progress
                .wait(&what, async |_| {
                    remove_all(&client, kind, deadline).await?;
                    Ok::<_, anyhow::Error>(((), String::new()))
                })
                .await?;
        }
    }
    if !args.force {
        progress
            .wait("removing what was made for them", async |_| {
                made_is_gone(&client, deadline).await?;
                Ok::<_, anyhow::Error>(((), String::new()))
            })
            .await?;
    }
    let held = remove_installation(&client, &args, &operator, deadline, &progress).await?;
    if args.force {
        done.left.extend(held);
    }
    if operator.is_empty() {
        done.operator.push("none: on one machine it goes with `causeway down`".to_owned());
    }
    args.format.print(&done)?;
    Ok(ExitCode::SUCCESS)
}

/// Refuses while an operator is at work to whom the objects matter and that would not be removed; with force, any.
async fn nobody_else_works(client: &Client, args: &Args) -> anyhow::Result<()> {
    if args.force && installation::is_one_machine(client).await {
        bail!(
            "on one machine an operator is at work as long as there is a cluster; leave --force out; nothing was changed"
        );
    }
    let at_work = installation::at_work(client).await?;
    match trouble_with(&at_work, &args.namespace, args.force) {
        Some(trouble) => bail!("{trouble}; nothing was changed"),
        None => Ok(()),
    }
}

fn trouble_with(at_work: &BTreeSet<String>, namespace: &str, by_force: bool) -> Option<String> {
    let elsewhere: Vec<&str> = at_work.iter().map(String::as_str).filter(|one| *one != namespace).collect();
    match (elsewhere.first(), by_force) {
        (Some(other), _) => Some(format!(
            "an operator is at work in namespace {}, for which the objects are, too: if that is the installation you mean, say --namespace {other} and not --force; if it is to stay, scale it to 0 for as long as this takes",
            elsewhere.join(", ")
        )),
        (None, true) if !at_work.is_empty() => Some(format!(
            "an operator is at work in namespace {namespace}, which puts things back: do it without --force"
        )),
        (None, _) => None,
    }
}

/// The operator, what it made and nobody owns, the definitions, and the namespaces; what of it somebody holds.
async fn remove_installation(
    client: &Client,
    args: &Args,
    operator: &[Piece],
    deadline: Instant,
    progress: &Progress,
) -> anyhow::Result<Vec<String>> {
    let mut held = Vec::new();
    let (namespaces, rest): (Vec<&Piece>, Vec<&Piece>) =
        operator.iter().partition(|piece| piece.kind() == "Namespace");
    let releases = rest::helm_releases(client, &args.namespace).await?;
    progress
        .wait("removing the operator", async |_| {
            for (index, piece) in rest.iter().enumerate() {
                piece.delete(client).await?;
                // It would make again what is removed next.
                if piece.kind() == "Deployment"
                    && rest.get(index + 1).is_none_or(|next| next.kind() != "Deployment")
                {
                    rest::operator_is_gone(client, &args.namespace, deadline).await?;
                }
            }
            // Whoever removed the operator by hand may have removed all that it was known by.
            if !operator.is_empty() || args.force {
                if args.all {
                    held = rest::sweep(client).await?;
                }
                rest::remove_class(client).await?;
                for release in &releases {
                    release.delete(client).await?;
                }
            }
            Ok::<_, anyhow::Error>(((), String::new()))
        })
        .await?;
    if args.crds {
        progress
            .wait("removing the definitions", async |_| {
                rest::remove_definitions(client, args.force, deadline).await?;
                Ok::<_, anyhow::Error>(((), String::new()))
            })
            .await?;
    }
    progress
        .wait("removing namespaces", async |_| {
            for piece in &namespaces {
                piece.delete(client).await?;
            }
            for piece in &namespaces {
                rest::namespace_is_gone(client, piece, deadline).await?;
            }
            Ok::<_, anyhow::Error>(((), String::new()))
        })
        .await?;
    Ok(held)
}

/// Causeway's kinds that people make objects of.
fn kinds() -> Vec<ApiResource> {
    let all = causeway_api::crds().into_iter().map(|crd| {
        let names = &crd.spec.names;
        ApiResource {
            group: crd.spec.group.clone(),
            version: names::VERSION.to_owned(),
            api_version: names::API_VERSION.to_owned(),
            kind: names.kind.clone(),
            plural: names.plural.clone(),
        }
    });
    all.filter(|kind| !MADE.contains(&kind.kind.as_str())).collect()
}

/// All objects of a kind that nobody else has made; none where the cluster does not know it.
async fn objects(client: &Client, kind: &ApiResource) -> anyhow::Result<Vec<DynamicObject>> {
    let api: Api<DynamicObject> = Api::all_with(client.clone(), kind);
    match api.list(&ListParams::default()).await {
        Ok(list) => Ok(list.items),
        Err(kube::Error::Api(answer)) if answer.code == 404 => Ok(Vec::new()),
        Err(error) => bail!("can't list {}: {}", kind.plural, refusal::words(&error)),
    }
}

/// Deletes all objects of a kind, and waits until they are gone, which is when all is put back.
async fn remove_all(client: &Client, kind: &ApiResource, deadline: Instant) -> anyhow::Result<()> {
    let mut asked = BTreeSet::new();
    loop {
        let left = objects(client, kind).await?;
        if left.is_empty() {
            return Ok(());
        }
        for object in &left {
            if object.metadata.deletion_timestamp.is_none() && asked.insert(object.uid()) {
                delete(client, kind, object).await?;
            }
        }
        if Instant::now() >= deadline {
            let stuck: Vec<String> = left.iter().map(|object| why(kind, object)).collect();
            bail!(
                "not put back in time, and nothing else was removed: {}; where no operator is there any more, --force lets go of it",
                stuck.join("; ")
            );
        }
        tokio::time::sleep(LOOK).await;
    }
}

/// Waits until the cluster's end of workstations and all carriers are gone, which the operator sees to.
async fn made_is_gone(client: &Client, deadline: Instant) -> anyhow::Result<()> {
    let api: Api<Deployment> = Api::all(client.clone());
    let made = ListParams::default().labels(&format!("{} in (Stowaway, Carrier)", names::LABEL_OWNER_KIND));
    loop {
        let left = match api.list_metadata(&made).await {
            Ok(list) => list.items,
            Err(error) => bail!("can't list deployments: {}", refusal::words(&error)),
        };
        if left.is_empty() {
            return Ok(());
        }
        if Instant::now() >= deadline {
            let names =
                left.iter().map(|one| format!("{}/{}", one.namespace().unwrap_or_default(), one.name_any()));
            let left: Vec<String> = names.collect();
            bail!("still there, and nothing else was removed: Deployments {}", left.join(", "));
        }
        tokio::time::sleep(LOOK).await;
    }
}

async fn delete(client: &Client, kind: &ApiResource, object: &DynamicObject) -> anyhow::Result<()> {
    let api: Api<DynamicObject> = match object.namespace() {
        Some(namespace) => Api::namespaced_with(client.clone(), &namespace, kind),
        None => Api::all_with(client.clone(), kind),
    };
    match api.delete(&object.name_any(), &DeleteParams::default()).await {
        Ok(_) => Ok(()),
        Err(kube::Error::Api(answer)) if answer.code == 404 => Ok(()),
        Err(error) => Err(error).with_context(|| format!("can't delete {}", name_of(kind, object))),
    }
}

fn name_of(kind: &ApiResource, object: &DynamicObject) -> String {
    let namespace = object.meta().namespace.as_ref().map(|namespace| format!("{namespace}/"));
    format!("{} {}{}", kind.kind, namespace.unwrap_or_default(), object.name_any())
}

/// Why an object is still there, in its own words.
fn why(kind: &ApiResource, object: &DynamicObject) -> String {
    let conditions = object.data["status"]["conditions"].as_array().cloned().unwrap_or_default();
    let says = |wanted: ConditionType| conditions.iter().find(|one| one["type"] == wanted.as_str());
    let words = says(ConditionType::Installed)
        .or_else(|| says(ConditionType::Ready))
        .and_then(|condition| condition["message"].as_str());
    format!("{} ({})", name_of(kind, object), words.unwrap_or("it says nothing"))
}

/// What was, or would be, removed.
#[derive(Debug, Serialize)]
struct Uninstalled {
    /// Whether it was done.
    done: bool,
    objects: Vec<String>,
    operator: Vec<String>,
    definitions: Vec<String>,
    /// What stays, and how.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    left: Vec<String>,
}

impl Answer for Uninstalled {
    fn text(&self, _: Paint) -> String {
        let parts = [
            ("object", &self.objects),
            ("operator", &self.operator),
            ("definition", &self.definitions),
            ("left", &self.left),
        ];
        let rows = parts
            .into_iter()
            .flat_map(|(title, items)| items.iter().map(move |item| format!("{title:<12} {item}")));
        let end = match (self.done, self.left.is_empty()) {
            (false, _) => "this would be removed; do it with --yes",
            (true, true) => "removed; nothing is left",
            (true, false) => "removed, but for what is left",
        };
        rows.chain([end.to_owned()]).collect::<Vec<_>>().join("\n")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_taken_from_an_operator_that_is_at_work() {
        let works = |namespaces: &[&str]| -> BTreeSet<String> {
            namespaces.iter().map(|one| (*one).to_owned()).collect()
        };
        for (at_work, by_force, says) in [
            (works(&[]), false, None),
            (works(&[]), true, None),
            (works(&["here"]), false, None),
            (works(&["here"]), true, Some("namespace here, which puts things back")),
            (works(&["there"]), false, Some("at work in namespace there")),
            (works(&["here", "there"]), false, Some("say --namespace there")),
            (works(&["there"]), true, Some("at work in namespace there")),
        ] {
            let trouble = trouble_with(&at_work, "here", by_force);
            assert_eq!(trouble.is_some(), says.is_some(), "{at_work:?} {by_force}: {trouble:?}");
            assert!(trouble.unwrap_or_default().contains(says.unwrap_or_default()), "{at_work:?} {by_force}");
        }
    }

    #[test]
    fn what_the_operator_makes_is_not_asked_for() {
        let kinds = kinds();
        assert!(kinds.iter().any(|kind| kind.kind == "ProxyServer"));
        for kind in MADE.iter().chain(&["Gateway"]) {
            assert!(!kinds.iter().any(|one| one.kind == *kind), "{kind}");
        }
        for first in FIRST {
            assert!(kinds.iter().any(|kind| kind.kind == first), "{first}");
        }
    }
}
