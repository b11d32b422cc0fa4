//! `causeway uninstall`: takes Causeway out of a cluster in an order in which nothing is left behind. First everything that was
//! changed for somebody is put back, while the operator is there to do it: intercepts, then developers' machines, then, if that is
//! asked for, all other objects. Then the operator goes, what it made, the definitions, and at last the namespaces; each is
//! waited for, so that nothing is left that is being deleted.

mod confined;
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

use super::operator::namespace_name;
use crate::parts::answer::{Answer, FormatArg};
use crate::parts::cluster::ClusterArgs;
use crate::parts::installation::{self, Found, Operator, Piece, Reach};
use crate::parts::paint::Paint;
use crate::parts::progress::Progress;
use crate::parts::strangers::strangers;
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
    /// Namespaces that the operator was for, where nothing of it says so any more.
    #[arg(long, value_delimiter = ',', value_parser = namespace_name, value_name = "NAMESPACE")]
    namespaces: Vec<String>,
    /// How long to wait for what has to be put back.
    #[arg(long, default_value_t = 300, value_name = "SECONDS")]
    timeout: u64,
    #[command(flatten)]
    format: FormatArg,
}

pub(crate) async fn run(args: Args) -> anyhow::Result<ExitCode> {
    let client = args.cluster.client().await?;
    if let Some(found) = installation::confined(&client, &args.namespace, &args.namespaces).await? {
        return confined::run(&client, &args, &found).await;
    }
    if !args.namespaces.is_empty() {
        bail!(
            "the operator in namespace {} is for the whole cluster: leave --namespaces out; nothing was changed",
            args.namespace
        );
    }
    let operators = match installation::operators(&client).await {
        Ok(operators) => operators,
        Err(error) => bail!("can't look for operators: {}; nothing was changed", refusal::words(&error)),
    };
    nobody_else_works(&client, &args, &operators).await?;
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
    // Without rights in all of them, what is there may be the rest of one for some namespaces.
    let is_for_all = operator.iter().any(|piece| piece.kind() == "ClusterRoleBinding");
    if args.force && !is_for_all && args.namespace != names::NAMESPACE {
        bail!(
            "nothing says that what was in namespace {0} was for the whole cluster, so which objects are meant can't be known: for those of some namespaces say --namespaces, for all of the cluster leave --namespace {0} out; nothing was changed",
            args.namespace
        );
    }
    let releases = rest::helm_releases(&client, &args.namespace, &operator).await?;
    let ours = [&operator[..], &releases].concat();
    let mut kept = Vec::new();
    for piece in operator.iter().filter(|piece| piece.kind() == "Namespace") {
        kept.extend(keeps(&client, piece, &ours).await?);
    }
    let others_inside = operators.iter().filter(|one| one.namespace != args.namespace && one.is_ready);
    let others_inside = others_inside.filter_map(|one| match &one.reach {
        Reach::Namespaces(_) => Some(format!(
            "Deployment {}/{}: an operator for some namespaces, whose objects go with the rest",
            one.namespace,
            installation::OPERATOR
        )),
        _ => None,
    });
    let mut done = Uninstalled {
        done: args.yes,
        objects: there.iter().map(|(kind, object)| name_of(kind, object)).collect(),
        operator: operator
            .iter()
            .filter(|piece| !kept.iter().any(|(kept, _)| kept == *piece))
            .map(ToString::to_string)
            .collect(),
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
            .chain(others_inside)
            .chain(rest::of_tenants(&client).await?)
            .collect(),
    };
    if !args.yes {
        done.left.extend(kept.into_iter().map(|(_, why)| why));
        args.format.print(&done)?;
        return Ok(ExitCode::SUCCESS);
    }
    let progress = Progress::new(!args.format.is_json());
    let deadline = Instant::now() + Duration::from_secs(args.timeout);
    if args.force {
        // It may still start, and go on with what is let go.
        remove_operator(&client, &args, &operator, deadline).await?;
        done.left.extend(force::let_go(&client, &kinds).await?);
    } else if !there.is_empty() && !installation::is_one_machine(&client).await {
        somebody_puts_back(&client, &args.namespace, &operators).await?;
    }
    for kind in &kinds {
        if there.iter().any(|(of, _)| of.kind == kind.kind) {
            let what = format!("putting back what {} changed", kind.plural);
            progress
                .wait(&what, async |_| {
                    remove_all(&client, kind, args.force, deadline).await?;
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
    // While somebody is there who lets go of objects: what is made anew meanwhile, by GitOps perhaps, would never go again.
    if args.crds && !args.force {
        remove_definitions(&client, &args, &operator, deadline, &progress).await?;
    }
    let held = remove_installation(&client, &args, &ours, deadline, &progress).await?;
    done.left.extend(held);
    if args.crds && args.force {
        remove_definitions(&client, &args, &operator, deadline, &progress).await?;
    }
    if !args.crds && !operator.is_empty() {
        for kind in &kinds {
            let came = objects(&client, kind).await?;
            done.left.extend(came.iter().map(|object| {
                format!("{}: it was made while this ran, and nobody follows it", name_of(kind, object))
            }));
        }
    }
    let kept = remove_namespaces(&client, &ours, deadline, &progress).await?;
    done.operator.retain(|name| !kept.iter().any(|(piece, _)| piece.to_string() == *name));
    done.left.extend(kept.into_iter().map(|(_, why)| why));
    if operator.is_empty() {
        let none = if installation::is_one_machine(&client).await {
            "none: on one machine it goes with `causeway down`"
        } else {
            "none: it was gone already"
        };
        done.operator.push(none.to_owned());
    }
    args.format.print(&done)?;
    Ok(ExitCode::SUCCESS)
}

/// Refuses while an operator is at work to whom the objects matter and that would not be removed; with force, any.
async fn nobody_else_works(client: &Client, args: &Args, operators: &[Operator]) -> anyhow::Result<()> {
    if args.force && installation::is_one_machine(client).await {
        bail!(
            "on one machine an operator is at work as long as there is a cluster; leave --force out; nothing was changed"
        );
    }
    // Without force those for some namespaces are named, and their objects are let go by themselves.
    let counts = |reach: &Reach| match reach {
        Reach::Cluster => true,
        Reach::Namespaces(_) => args.force,
        Reach::Nothing => false,
    };
    let at_work = installation::at_work(operators, counts);
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

/// Before the first object is deleted: refuses where nobody would put back what was changed for it.
async fn somebody_puts_back(client: &Client, namespace: &str, operators: &[Operator]) -> anyhow::Result<()> {
    let is_there = operators.iter().any(|one| one.namespace == namespace && one.is_ready);
    let trouble = if is_there {
        operator_lease::nobody_leads(client, namespace).await
    } else {
        Some(format!("no operator is at work in namespace {namespace}"))
    };
    if let Some(trouble) = trouble {
        bail!(
            "{trouble}: nobody would put back what was changed; start the operator first (`causeway install`), or let go of it all with --force --all; nothing was changed"
        );
    }
    Ok(())
}

/// What keeps a namespace that is ours: why, if something does.
async fn keeps(
    client: &Client,
    namespace: &Piece,
    ours: &[Piece],
) -> anyhow::Result<Option<(Piece, String)>> {
    let inside = strangers(client, &namespace.name, ours).await?;
    let named: Vec<&str> = inside.iter().take(5).map(String::as_str).collect();
    let more = if inside.len() > named.len() { ", …" } else { "" };
    let why = format!("{namespace}: in it is what is not Causeway's: {}{more}", named.join(", "));
    Ok((!inside.is_empty()).then(|| (namespace.clone(), why)))
}

/// Deletes the operator's Deployment and waits until its pods are gone: it would make again what is removed next.
async fn remove_operator(
    client: &Client,
    args: &Args,
    operator: &[Piece],
    deadline: Instant,
) -> anyhow::Result<()> {
    let mut runs = operator.iter().filter(|piece| piece.kind() == "Deployment").peekable();
    if runs.peek().is_none() {
        return Ok(());
    }
    for piece in runs {
        piece.delete(client).await?;
    }
    rest::operator_is_gone(client, &args.namespace, deadline).await
}

/// The definitions, after what refuses requests for want of them.
async fn remove_definitions(
    client: &Client,
    args: &Args,
    operator: &[Piece],
    deadline: Instant,
    progress: &Progress,
) -> anyhow::Result<()> {
    progress
        .wait("removing the definitions", async |_| {
            for piece in operator.iter().filter(|piece| piece.kind().starts_with("ValidatingAdmission")) {
                piece.delete(client).await?;
            }
            rest::remove_definitions(client, args.force, deadline).await?;
            Ok::<_, anyhow::Error>(((), String::new()))
        })
        .await
}

/// The operator, and what it made and nobody owns; what of it somebody holds.
async fn remove_installation(
    client: &Client,
    args: &Args,
    ours: &[Piece],
    deadline: Instant,
    progress: &Progress,
) -> anyhow::Result<Vec<String>> {
    let mut held = Vec::new();
    progress
        .wait("removing the operator", async |_| {
            remove_operator(client, args, ours, deadline).await?;
            // Whoever removed the operator by hand may have removed all that it was known by.
            if !ours.is_empty() || args.force {
                if args.all {
                    held = rest::sweep(client).await?;
                }
                rest::remove_class(client).await?;
            }
            // Releases are known by them, should this end here.
            for piece in ours.iter().filter(|piece| piece.kind() != "Namespace") {
                piece.delete(client).await?;
            }
            Ok::<_, anyhow::Error>(((), String::new()))
        })
        .await?;
    Ok(held)
}

/// Namespaces that were made for it; those that stay, and why.
async fn remove_namespaces(
    client: &Client,
    ours: &[Piece],
    deadline: Instant,
    progress: &Progress,
) -> anyhow::Result<Vec<(Piece, String)>> {
    let mut kept = Vec::new();
    progress
        .wait("removing namespaces", async |_| {
            let mut going = Vec::new();
            for piece in ours.iter().filter(|piece| piece.kind() == "Namespace") {
                match keeps(client, piece, ours).await? {
                    Some(stays) => kept.push(stays),
                    None => going.push(piece),
                }
            }
            for piece in &going {
                piece.delete(client).await?;
            }
            for piece in &going {
                rest::namespace_is_gone(client, piece, deadline).await?;
            }
            Ok::<_, anyhow::Error>(((), String::new()))
        })
        .await?;
    Ok(kept)
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

/// Deletes all objects of a kind, and waits until they are gone, which is when all is put back. What somebody makes anew
/// meanwhile is not waited for: that might never end.
async fn remove_all(
    client: &Client,
    kind: &ApiResource,
    by_force: bool,
    deadline: Instant,
) -> anyhow::Result<()> {
    let first = objects(client, kind).await?;
    for object in first.iter().filter(|object| object.metadata.deletion_timestamp.is_none()) {
        delete(client, kind, object).await?;
    }
    let asked: BTreeSet<Option<String>> = first.iter().map(ResourceExt::uid).collect();
    loop {
        let mut left = objects(client, kind).await?;
        left.retain(|object| asked.contains(&object.uid()));
        if left.is_empty() {
            return Ok(());
        }
        if Instant::now() >= deadline {
            let stuck: Vec<String> = left.iter().map(|object| why(kind, object)).collect();
            if by_force {
                bail!(
                    "still there, though Causeway has let go of it: {}; whoever holds it has to let go, too, then do this again",
                    stuck.join("; ")
                );
            }
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
        let mut left = match api.list_metadata(&made).await {
            Ok(list) => list.items,
            Err(error) => bail!("can't list deployments: {}", refusal::words(&error)),
        };
        left.retain(|one| rest::is_labelled_by_us(&one.metadata));
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

/// Why an object is still there, in its own words, and whoever else holds it.
fn why(kind: &ApiResource, object: &DynamicObject) -> String {
    let conditions = object.data["status"]["conditions"].as_array().cloned().unwrap_or_default();
    let says = |wanted: ConditionType| conditions.iter().find(|one| one["type"] == wanted.as_str());
    let words = says(ConditionType::Installed)
        .or_else(|| says(ConditionType::Ready))
        .and_then(|condition| condition["message"].as_str());
    let others: Vec<&str> =
        object.finalizers().iter().map(String::as_str).filter(|one| !force::is_ours(one)).collect();
    let held = if others.is_empty() { String::new() } else { format!(", held by {}", others.join(", ")) };
    format!("{} ({}{held})", name_of(kind, object), words.unwrap_or("it says nothing"))
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
    use clap::Parser;

    use super::*;

    #[derive(Debug, Parser)]
    struct Command {
        #[command(flatten)]
        args: Args,
    }

    #[test]
    fn a_namespace_without_a_name_is_refused() {
        let namespaces = |list: &str| Command::try_parse_from(["x", "--namespaces", list]);
        assert_eq!(namespaces("team-a,team-b").unwrap().args.namespaces, ["team-a", "team-b"]);
        for list in ["team-a,", ",team-a", "team-a,,team-b", ""] {
            let refused = namespaces(list).unwrap_err().to_string();
            assert!(refused.contains("`` is no name of a namespace"), "{list}: {refused}");
        }
    }

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
