//! `causeway disconnect`: ends the intercepts of this machine, takes its Workstation away, ends the daemon and removes the keys.
//! Nothing is left, here or there.

use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context, anyhow};
use causeway_api::{InterceptRequest, Workstation};
use kube::api::{DeleteParams, ListParams, Preconditions};
use kube::{Api, ResourceExt};
use serde::Serialize;

use super::connect::daemon;
use super::intercept::activation;
use super::leave::own;
use crate::parts::answer::{Answer, FormatArg};
use crate::parts::connection::{Connection, Keys};
use crate::parts::follow::{self, Verdict};
use crate::parts::kube_context::{Cluster, ContextArgs};
use crate::parts::output;
use crate::parts::paint::Paint;
use crate::parts::progress::Progress;
use crate::parts::refusal;

/// How long the operator may take to let a Workstation go.
const GONE: Duration = Duration::from_mins(1);
/// How often the Workstation is looked at again when others write it at the same time.
const ATTEMPTS: u32 = 10;

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The Workstation that this machine is connected as, if there are several.
    #[arg(long = "name", alias = "workstation", value_name = "NAME")]
    name: Option<String>,
    /// All connections of this machine, to any cluster.
    #[arg(long, conflicts_with = "name")]
    all: bool,
    /// Only end the daemon; the Workstation, its keys and its intercepts stay, and `causeway connect` goes on with them.
    #[arg(long)]
    keep: bool,
    /// Remove what is here though the cluster can't be asked, and leave what is there.
    #[arg(long, conflicts_with = "keep")]
    force: bool,
    #[command(flatten)]
    context: ContextArgs,
    #[command(flatten)]
    format: FormatArg,
}

pub(crate) async fn run(args: Args) -> anyhow::Result<ExitCode> {
    let data_dir = args.context.data_dir.path()?;
    let progress = Progress::new(!args.format.is_json());
    let chosen = if args.all {
        Connection::all(&data_dir)
    } else {
        let cluster = args.context.cluster().await?;
        vec![Connection::choose(&data_dir, &cluster, args.name.as_deref())?]
    };
    let mut disconnected = Disconnected { connections: Vec::new() };
    for connection in chosen {
        disconnected.connections.push(end(connection, &args, &progress).await?);
    }
    args.format.print(&disconnected)?;
    Ok(ExitCode::SUCCESS)
}

async fn end(connection: Connection, args: &Args, progress: &Progress) -> anyhow::Result<Ended> {
    let settings = connection.settings.clone();
    let mut ended = Ended {
        namespace: settings.namespace.clone(),
        workstation: settings.workstation.clone(),
        context: settings.place.context.clone(),
        intercepts: Vec::new(),
        workstation_removed: false,
        pid: None,
        kept: args.keep,
    };
    if !args.keep {
        let there = async {
            let cluster = settings.place.open().await?;
            let api: Api<Workstation> = Api::namespaced(cluster.client.clone(), &settings.namespace);
            let found = api.get_opt(&settings.workstation).await.map_err(|error| {
                anyhow!("can't read Workstation {}: {}", settings.label(), refusal::advice(&error))
            })?;
            if is_anothers(found.as_ref(), &connection)? {
                output::note(format_args!(
                    "causeway: Workstation {} is another machine's by now: it and its intercepts stay",
                    settings.label()
                ));
                return Ok(());
            }
            ended.intercepts = leave_all(&cluster, &connection, progress).await?;
            ended.workstation_removed = remove_workstation(&cluster, &connection, progress).await?;
            Ok::<_, anyhow::Error>(())
        };
        match there.await {
            Err(error) if args.force => output::note(format_args!(
                "causeway: Workstation {} may be left in the cluster: {error:#}",
                settings.label()
            )),
            Err(error) => {
                return Err(error).with_context(|| {
                    format!("{} stays connected; --force removes what is here all the same", settings.label())
                });
            }
            Ok(()) => {}
        }
    }
    ended.pid = daemon::end(&connection).await?;
    if !args.keep {
        connection.remove()?;
    }
    Ok(ended)
}

/// Ends every intercept of the connection that can be seen; their names.
async fn leave_all(
    cluster: &Cluster,
    connection: &Connection,
    progress: &Progress,
) -> anyhow::Result<Vec<String>> {
    let all: Api<InterceptRequest> = Api::all(cluster.client.clone());
    let within: Api<InterceptRequest> =
        Api::namespaced(cluster.client.clone(), &connection.settings.namespace);
    let listed = match all.list(&ListParams::default()).await {
        // One that may not see all namespaces sees the Workstation's own.
        Err(error) if refusal::is_forbidden(&error) => within.list(&ListParams::default()).await,
        other => other,
    };
    let there = match listed {
        Ok(list) => list.items,
        // Nobody who may not see intercepts has made some, and the operator restores what goes with the Workstation.
        Err(error) if refusal::is_forbidden(&error) => return Ok(Vec::new()),
        Err(error) => return Err(anyhow!("can't list intercepts: {}", refusal::advice(&error))),
    };
    let mut left = Vec::new();
    for request in &there {
        let namespace = request.namespace().unwrap_or_default();
        let there = Cluster { namespace: namespace.clone(), ..cluster.clone() };
        if own(std::slice::from_ref(request), &there, connection).next().is_none() {
            continue;
        }
        let (api, name) = (Api::namespaced(cluster.client.clone(), &namespace), request.name_any());
        progress
            .wait(&format!("leaving {name}"), async |detail| {
                activation::end(&api, &name, &detail).await?;
                Ok::<_, anyhow::Error>(((), format!("left {name}; its target is as it was")))
            })
            .await?;
        left.push(format!("{namespace}/{name}"));
    }
    Ok(left)
}

/// Whether a Workstation was made anew by another machine, or given to one.
fn is_anothers(found: Option<&Workstation>, connection: &Connection) -> anyhow::Result<bool> {
    let Some(found) = found else { return Ok(false) };
    let own = Keys::ensure(connection.dir())?.wireguard_public();
    Ok(found.metadata.uid.as_ref() != Some(&connection.settings.uid) || found.spec.public_key != own)
}

/// Takes the Workstation away and waits until it is gone; false if it was not there, or is another machine's.
async fn remove_workstation(
    cluster: &Cluster,
    connection: &Connection,
    progress: &Progress,
) -> anyhow::Result<bool> {
    let settings = &connection.settings;
    let api: Api<Workstation> = Api::namespaced(cluster.client.clone(), &settings.namespace);
    let refused =
        |error| anyhow!("can't remove Workstation {}: {}", settings.label(), refusal::advice(&error));
    for attempt in 1.. {
        let found = api.get_opt(&settings.workstation).await.map_err(refused)?;
        let Some(found) = found else { return Ok(false) };
        if is_anothers(Some(&found), connection)? {
            return Ok(false);
        }
        // As it was looked at: another machine may take it over at any time.
        let only_ours = Preconditions { uid: found.uid(), resource_version: found.resource_version() };
        let params = DeleteParams { preconditions: Some(only_ours), ..DeleteParams::default() };
        match api.delete(&settings.workstation, &params).await {
            Ok(_) => break,
            // Its status is written by others.
            Err(error) if refusal::is_conflict(&error) && attempt < ATTEMPTS => {}
            Err(kube::Error::Api(status)) if status.code == 404 => return Ok(false),
            Err(error) => return Err(refused(error)),
        }
    }
    progress
        .wait("removing the Workstation", async |detail| {
            let look = |found: Option<&Workstation>| {
                if found.and_then(ResourceExt::uid).as_ref() != Some(&settings.uid) {
                    return Ok(Verdict::There(()));
                }
                detail.say("the operator takes it out of use");
                Ok(Verdict::NotYet("the operator has not let the Workstation go: is one at work?".to_owned()))
            };
            follow::until(&api, &settings.workstation, GONE, look).await?;
            Ok::<_, anyhow::Error>(((), String::new()))
        })
        .await?;
    Ok(true)
}

/// The answer.
#[derive(Serialize)]
struct Disconnected {
    connections: Vec<Ended>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Ended {
    namespace: String,
    workstation: String,
    context: String,
    /// Intercepts that were left, as NAMESPACE/NAME.
    intercepts: Vec<String>,
    workstation_removed: bool,
    /// The daemon that was ended; absent if none ran.
    #[serde(skip_serializing_if = "Option::is_none")]
    pid: Option<i32>,
    /// Whether all but the daemon is there still.
    kept: bool,
}

impl Answer for Disconnected {
    fn text(&self, _: Paint) -> String {
        if self.connections.is_empty() {
            return "not connected to any cluster".to_owned();
        }
        let line = |one: &Ended| {
            let label = format!("{}/{} from {}", one.namespace, one.workstation, one.context);
            let rest = if one.kept { "its keys and intercepts stay" } else { "nothing is left" };
            format!("disconnected {label}; {rest}")
        };
        self.connections.iter().map(line).collect::<Vec<_>>().join("\n")
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::parts::connection::Settings;
    use crate::parts::kube_context::Place;

    #[test]
    fn a_workstation_that_was_taken_over_is_another_machines() {
        let dir = tempfile::tempdir().unwrap();
        let settings = Settings {
            place: Place { kubeconfig: vec!["/k".into()], context: "lab".to_owned() },
            server: "https://10.0.0.1:6443".to_owned(),
            namespace: "shop".to_owned(),
            workstation: "alice".to_owned(),
            uid: "u".to_owned(),
            ways: Vec::new(),
            proxy: None,
        };
        let connection = Connection::make(dir.path(), settings).unwrap();
        let own = Keys::ensure(dir.path()).unwrap().wireguard_public();
        let anothers = |uid: &str, key: &str| {
            let found = json!({
                "apiVersion": "causeway.dev/v1alpha1", "kind": "Workstation",
                "metadata": {"name": "alice", "namespace": "shop", "uid": uid}, "spec": {"publicKey": key},
            });
            is_anothers(Some(&serde_json::from_value(found).unwrap()), &connection).unwrap()
        };
        assert!(!anothers("u", &own));
        assert!(anothers("u", "AAAA") && anothers("other", &own));
        assert!(!is_anothers(None, &connection).unwrap(), "what is gone is nobody's");
    }
}
