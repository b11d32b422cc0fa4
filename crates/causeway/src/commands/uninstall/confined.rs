//! Takes apart an installation for some namespaces, with rights in these alone. What it made goes with the objects that it was made
//! for: nothing of it is in another namespace, and nothing waits for the operator.

use std::collections::BTreeSet;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use anyhow::bail;
use causeway_api::names;
use k8s_openapi::api::apps::v1::Deployment;
use kube::api::{Api, ApiResource, DynamicObject, ListParams};
use kube::{Client, ResourceExt};

use super::{Args, LOOK, Uninstalled, delete, force, kinds, name_of, remove_operator, rest, trouble_with};
use crate::parts::installation::{self, Confined, OPERATOR, Piece, Reach};
use crate::parts::progress::Progress;
use crate::parts::refusal;

/// What such an operator serves. An Infra first: it would make its parts again.
const SERVED: [&str; 4] = ["Infra", "ProxyServer", "DNSServer", "DHCPServer"];

/// What it makes of that.
const MADE: [(&str, &str); 6] = [
    ("apps/v1", "Deployment"),
    ("v1", "Service"),
    ("v1", "ConfigMap"),
    ("v1", "ServiceAccount"),
    ("rbac.authorization.k8s.io/v1", "Role"),
    ("rbac.authorization.k8s.io/v1", "RoleBinding"),
];

pub(super) async fn run(client: &Client, args: &Args, found: &Confined) -> anyhow::Result<ExitCode> {
    let namespaces = found.serves(&args.namespaces);
    if args.crds {
        bail!(
            "the operator in namespace {} is for {} alone, and the definitions are for the whole cluster: leave --crds out; nothing was changed",
            args.namespace,
            namespaces.join(", ")
        );
    }
    if args.force {
        nobody_works(client, &args.namespace, &namespaces).await?;
    }
    let all = kinds();
    let served: Vec<&ApiResource> =
        SERVED.iter().filter_map(|name| all.iter().find(|kind| kind.kind == *name)).collect();
    let claims = found.claims(&args.namespaces).into_iter();
    let mut left: Vec<String> = claims
        .map(|name| format!("what is in namespace {name}: the operator names it, and has no rights there"))
        .collect();
    let there = all_objects(client, &served, &namespaces, &mut left).await?;
    let names: Vec<String> = there.iter().map(|(kind, object)| name_of(kind, object)).collect();
    if !names.is_empty() && !args.all {
        bail!(
            "there are {} objects, for which nobody would be there any more: {}; delete them first, or with --all",
            names.len(),
            names.join(", ")
        );
    }
    let scope = found.scope(&args.namespaces);
    let mut pieces = installation::find_in(client, &args.namespace, &scope).await?.pieces;
    let releases = rest::helm_releases(client, &args.namespace, &pieces).await?;
    pieces.extend(releases);
    let mut done = Uninstalled {
        done: args.yes,
        objects: names,
        operator: pieces.iter().map(ToString::to_string).collect(),
        definitions: Vec::new(),
        left,
    };
    if !args.yes {
        args.format.print(&done)?;
        return Ok(ExitCode::SUCCESS);
    }
    let progress = Progress::new(!args.format.is_json());
    let deadline = Instant::now() + Duration::from_secs(args.timeout);
    if args.force {
        // It may still start, and go on with what is let go.
        remove_operator(client, args, &pieces, deadline).await?;
        for (kind, object) in &there {
            done.left.extend(force::let_go_of(client, kind, object.clone()).await?);
        }
    }
    remove_objects(client, &served, &there, &namespaces, deadline, &progress).await?;
    progress
        .wait("removing the operator", async |_| {
            remove_operator(client, args, &pieces, deadline).await?;
            for piece in &pieces {
                piece.delete(client).await?;
            }
            Ok::<_, anyhow::Error>(((), String::new()))
        })
        .await?;
    args.format.print(&done)?;
    Ok(ExitCode::SUCCESS)
}

/// Refuses while an operator is at work for these namespaces. Those of others only an administrator sees.
async fn nobody_works(client: &Client, namespace: &str, namespaces: &[String]) -> anyhow::Result<()> {
    let api: Api<Deployment> = Api::namespaced(client.clone(), namespace);
    let own = match api.get_opt(OPERATOR).await {
        Ok(own) => own,
        Err(error) => bail!("can't look at the operator: {}", refusal::words(&error)),
    };
    let ready = own.and_then(|own| own.status?.ready_replicas).unwrap_or(0);
    let mut at_work: BTreeSet<String> = (ready > 0).then(|| namespace.to_owned()).into_iter().collect();
    match installation::operators(client).await {
        Ok(all) => {
            let mine = Reach::of(namespaces);
            at_work.extend(installation::at_work(&all, |reach| reach.overlap(&mine) != Reach::Nothing));
        }
        Err(error) if refusal::is_forbidden(&error) => {}
        Err(error) => bail!("can't look for operators: {}; nothing was changed", refusal::words(&error)),
    }
    match trouble_with(&at_work, namespace, true) {
        Some(trouble) => bail!("{trouble}; nothing was changed"),
        None => Ok(()),
    }
}

/// All that such an operator serves in these namespaces; what can't be seen is said to be left.
async fn all_objects<'a>(
    client: &Client,
    served: &[&'a ApiResource],
    namespaces: &[String],
    left: &mut Vec<String>,
) -> anyhow::Result<Vec<(&'a ApiResource, DynamicObject)>> {
    let mut there = Vec::new();
    for namespace in namespaces {
        for kind in served {
            let Some(found) = objects(client, kind, namespace).await? else {
                left.push(format!("what may be in namespace {namespace}: you may not look there"));
                break;
            };
            there.extend(found.into_iter().map(|object| (*kind, object)));
        }
    }
    Ok(there)
}

/// Deletes the objects, kind by kind, and waits until they are gone, and what was made for them.
async fn remove_objects(
    client: &Client,
    served: &[&ApiResource],
    there: &[(&ApiResource, DynamicObject)],
    namespaces: &[String],
    deadline: Instant,
    progress: &Progress,
) -> anyhow::Result<()> {
    for kind in served {
        let asked: Vec<&DynamicObject> =
            there.iter().filter(|(of, _)| of.kind == kind.kind).map(|(_, object)| object).collect();
        if asked.is_empty() {
            continue;
        }
        progress
            .wait(&format!("removing {}", kind.plural), async |_| {
                remove(client, kind, &asked, deadline).await?;
                Ok::<_, anyhow::Error>(((), String::new()))
            })
            .await?;
    }
    progress
        .wait("removing what was made for them", async |_| {
            made_is_gone(client, namespaces, deadline).await?;
            Ok::<_, anyhow::Error>(((), String::new()))
        })
        .await
}

/// Waits until what the operator made is gone with what it was made for.
async fn made_is_gone(client: &Client, namespaces: &[String], deadline: Instant) -> anyhow::Result<()> {
    let ours = ListParams::default().labels(&format!("{}={}", names::LABEL_MANAGED_BY, names::MANAGED_BY));
    loop {
        let mut left = Vec::new();
        for (version, kind) in MADE {
            let any = Piece::named(version, kind, None, "");
            for namespace in namespaces {
                let api: Api<DynamicObject> =
                    Api::namespaced_with(client.clone(), namespace, &any.resource());
                match api.list_metadata(&ours).await {
                    Ok(list) => {
                        let ours = list.items.iter().filter(|one| rest::is_labelled_by_us(&one.metadata));
                        left.extend(ours.map(|one| {
                            Piece::named(version, kind, Some(namespace), &one.name_any()).to_string()
                        }));
                    }
                    Err(error) if refusal::is_forbidden(&error) => {}
                    Err(error) => bail!("can't list {kind}s in {namespace}: {}", refusal::words(&error)),
                }
            }
        }
        if left.is_empty() {
            return Ok(());
        }
        if Instant::now() >= deadline {
            bail!("still there, and nothing else was removed: {}", left.join(", "));
        }
        tokio::time::sleep(LOOK).await;
    }
}

/// The objects of a kind in a namespace; none where one may not look: it may be gone, and the rights with it.
async fn objects(
    client: &Client,
    kind: &ApiResource,
    namespace: &str,
) -> anyhow::Result<Option<Vec<DynamicObject>>> {
    let api: Api<DynamicObject> = Api::namespaced_with(client.clone(), namespace, kind);
    match api.list(&ListParams::default()).await {
        Ok(list) => Ok(Some(list.items)),
        Err(error) if installation::is_missing(&error) => Ok(Some(Vec::new())),
        Err(error) if refusal::is_forbidden(&error) => Ok(None),
        Err(error) => bail!("can't list {} in {namespace}: {}", kind.plural, refusal::words(&error)),
    }
}

/// Deletes these objects, and waits until they are gone.
async fn remove(
    client: &Client,
    kind: &ApiResource,
    asked: &[&DynamicObject],
    deadline: Instant,
) -> anyhow::Result<()> {
    for object in asked {
        delete(client, kind, object).await?;
    }
    let uids: BTreeSet<Option<String>> = asked.iter().map(|object| object.uid()).collect();
    let places: BTreeSet<String> = asked.iter().filter_map(|object| object.namespace()).collect();
    loop {
        let mut left = Vec::new();
        for place in &places {
            left.extend(objects(client, kind, place).await?.into_iter().flatten());
        }
        left.retain(|object| uids.contains(&object.uid()));
        if left.is_empty() {
            return Ok(());
        }
        if Instant::now() >= deadline {
            let names: Vec<String> = left
                .iter()
                .map(|object| format!("{} held by {}", name_of(kind, object), object.finalizers().join(", ")))
                .collect();
            bail!(
                "still there, and nothing else was removed: {}; where no operator is there any more, --force lets go of it",
                names.join("; ")
            );
        }
        tokio::time::sleep(LOOK).await;
    }
}
