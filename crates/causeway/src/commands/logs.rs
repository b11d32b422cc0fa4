//! `causeway logs cntp/NAME`: the life of a tunnel proxy, as its controller wrote it down. A cluster whose API server is
//! not Causeway's own has no such log; there the Events about the object say the most that can be had.

use std::process::ExitCode;

use anyhow::{Context, bail};
use causeway_api::ContainerNetworkTunnelProxy;
use causeway_api::names::{GROUP, VERSION};
use futures::{AsyncBufReadExt, TryStreamExt};
use k8s_openapi::api::core::v1::Event;
use kube::api::ListParams;
use kube::runtime::{WatchStreamExt, watcher};
use kube::{Api, Client, ResourceExt};

use serde::Serialize;

use crate::parts::answer::FormatArg;
use crate::parts::object::{self, ObjectArgs};
use crate::parts::output;

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The tunnel proxy, as cntp/NAME.
    #[arg(value_name = "cntp/NAME", value_parser = proxy_name)]
    name: String,
    #[command(flatten)]
    object: ObjectArgs,
    /// Go on with what happens, until the object is deleted.
    #[arg(long, short)]
    follow: bool,
    /// Only the last lines of what is there.
    #[arg(long, value_name = "LINES")]
    tail: Option<u64>,
    /// With json, each line is an object.
    #[command(flatten)]
    format: FormatArg,
}

fn proxy_name(text: &str) -> Result<String, String> {
    let name = object::name_of::<ContainerNetworkTunnelProxy>(text);
    name.map(ToOwned::to_owned)
        .ok_or_else(|| "write cntp/NAME; logs of pods are `kubectl logs NAME`".to_owned())
}

pub(crate) async fn run(args: Args) -> anyhow::Result<ExitCode> {
    let client = args.object.client().await?;
    let found = args.object.find::<ContainerNetworkTunnelProxy>(&client, &args.name).await?;
    match (print_log(&client, &args).await, found) {
        // The log outlives the object.
        (Ok(()), None) => output::note(format_args!(
            "causeway: the object is gone; this is the log that {}/{} left",
            args.object.namespace, args.name
        )),
        (Err(kube::Error::Api(status)), None) if status.code == 404 => {
            bail!(
                "{}, and none that is gone has left a log under this name",
                args.object.missing::<ContainerNetworkTunnelProxy>(&args.name)
            )
        }
        (Err(kube::Error::Api(status)), Some(object)) if status.code == 404 => {
            output::note(format_args!(
                "causeway: this cluster keeps no logs of tunnel proxies (the operator has them in its data \
                 directory); these are the Events about {}",
                args.name
            ));
            print_events(client, &args, &object.uid().unwrap_or_default()).await?;
        }
        (Err(kube::Error::Api(status)), _) if status.code == 403 => bail!(
            "you may not read it: {}; ask for the verb `get` on `containernetworktunnelproxies/log`, which the \
             role `view` has",
            status.message
        ),
        (other, _) => {
            other
                .with_context(|| format!("can't read the log of {}/{}", args.object.namespace, args.name))?;
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// A line of the log, for programs.
#[derive(Serialize)]
struct Line<'a> {
    time: &'a str,
    text: &'a str,
}

impl Args {
    /// Prints a line of the log, which begins with its time; false when nobody reads any more.
    fn print(&self, line: &str) -> bool {
        if !self.format.is_json() {
            return output::line(line);
        }
        let (time, text) = line.split_once(' ').unwrap_or(("", line));
        output::line(serde_json::to_string(&Line { time, text }).unwrap_or_default())
    }
}

/// Prints the log that the API server has; an error of the API if it has none.
async fn print_log(client: &Client, args: &Args) -> Result<(), kube::Error> {
    let tail = args.tail.map_or_else(String::new, |tail| format!("&tailLines={tail}"));
    let path = format!(
        "/apis/{GROUP}/{VERSION}/namespaces/{}/containernetworktunnelproxies/{}/log?timestamps=true&follow={}{tail}",
        args.object.namespace, args.name, args.follow
    );
    let request = http::Request::get(path).body(Vec::new()).map_err(kube::Error::HttpError)?;
    let mut lines = client.request_stream(request).await?.lines();
    while let Some(line) = lines.try_next().await.map_err(|error| kube::Error::Service(error.into()))? {
        if !args.print(&line) {
            break;
        }
    }
    Ok(())
}

async fn print_events(client: Client, args: &Args, uid: &str) -> anyhow::Result<()> {
    let api: Api<Event> = Api::namespaced(client, &args.object.namespace);
    let about = format!("involvedObject.uid={uid}");
    let can_not = || format!("can't read the Events of namespace {}", args.object.namespace);
    let list = api.list(&ListParams::default().fields(&about)).await.with_context(can_not)?;
    let mut events = list.items;
    events.sort_by_key(time);
    let skipped =
        args.tail.map_or(0, |tail| events.len().saturating_sub(usize::try_from(tail).unwrap_or(usize::MAX)));
    for event in events.iter().skip(skipped) {
        if !args.print(&line(event)) {
            return Ok(());
        }
    }
    if !args.follow {
        return Ok(());
    }
    let known: std::collections::HashSet<_> =
        events.iter().map(|e| (e.uid(), e.resource_version())).collect();
    let mut changes = std::pin::pin!(
        watcher(api, watcher::Config::default().fields(&about)).default_backoff().applied_objects()
    );
    while let Some(event) = changes.try_next().await.with_context(can_not)? {
        if !known.contains(&(event.uid(), event.resource_version())) && !args.print(&line(&event)) {
            break;
        }
    }
    Ok(())
}

/// When it last happened.
fn time(event: &Event) -> String {
    let series = event.series.as_ref().and_then(|series| series.last_observed_time.as_ref());
    let precise = series.or(event.event_time.as_ref()).map(|at| at.0.to_string());
    let plain = event.last_timestamp.as_ref().map(|at| at.0.to_string());
    precise.or(plain).unwrap_or_default()
}

fn line(event: &Event) -> String {
    let text = |part: &Option<String>| part.clone().unwrap_or_default();
    format!("{} {} {}: {}", time(event), text(&event.type_), text(&event.reason), text(&event.message))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_say_their_kind() {
        assert_eq!(proxy_name("cntp/a").unwrap(), "a");
        assert_eq!(proxy_name("containernetworktunnelproxy/a").unwrap(), "a");
        for wrong in ["a", "cntp/", "proxy/a", ""] {
            assert!(proxy_name(wrong).unwrap_err().contains("write cntp/NAME"), "{wrong}");
        }
    }
}
