//! `causeway leases`: who has which address. From the file of a DHCP server, whether it runs or not; or from what the servers
//! of an `Infra` or a `DHCPServer` tell of.

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, SystemTime};

use anyhow::{anyhow, bail};
use causeway_api::{DHCPServer, Infra, names};
use causeway_dhcp::State;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::{Api, Client};
use serde::Serialize;

use crate::parts::answer::{Answer, FormatArg};
use crate::parts::lease_list::{LeaseList, ListedLease};
use crate::parts::object::{self, ObjectArgs};
use crate::parts::paint::{Paint, Tone};
use crate::parts::refusal;
use crate::parts::table::{Cell, table};

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The file that the server was given with --leases; or infra/NAME or dhcpserver/NAME, whose servers are asked. A file of
    /// such a name is written with ./ before it.
    #[arg(value_name = "FILE|KIND/NAME", default_value = "leases", env = "CAUSEWAY_LEASES")]
    source: Source,
    #[command(flatten)]
    object: ObjectArgs,
    /// Also show addresses that nobody has any more; of a file alone, servers do not tell of them.
    #[arg(long)]
    all: bool,
    #[command(flatten)]
    format: FormatArg,
}

/// Where leases are told of.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Source {
    File(PathBuf),
    Infra(String),
    Server(String),
}

impl From<String> for Source {
    fn from(text: String) -> Self {
        let infra = object::name_of::<Infra>(&text).map(|name| Self::Infra(name.to_owned()));
        let server = || object::name_of::<DHCPServer>(&text).map(|name| Self::Server(name.to_owned()));
        infra.or_else(server).unwrap_or_else(|| Self::File(text.into()))
    }
}

/// The answer.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Listed {
    leases: Vec<Shown>,
    /// How many more there are, of servers that tell of so many only.
    left_out: usize,
    #[serde(skip)]
    now: u64,
}

#[derive(Serialize)]
struct Shown {
    #[serde(flatten)]
    lease: ListedLease,
    active: bool,
}

pub(crate) async fn run(args: Args) -> anyhow::Result<ExitCode> {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).map_or(0, |since| since.as_secs());
    let LeaseList { leases, left_out } = match &args.source {
        Source::File(path) => of_file(path)?,
        Source::Infra(name) => of_infra(&args.object, name).await?,
        Source::Server(name) => of_server(&args.object, &args.object.client().await?, name).await?,
    };
    let shown = leases.into_iter().map(|lease| Shown { active: lease.is_active(now), lease });
    let mut leases: Vec<Shown> =
        shown.filter(|shown| args.all || shown.active || shown.lease.state == State::Declined).collect();
    leases.sort_by_key(|shown| shown.lease.address);
    args.format.print(&Listed { leases, left_out, now })?;
    Ok(ExitCode::SUCCESS)
}

fn of_file(path: &Path) -> anyhow::Result<LeaseList> {
    let leases = causeway_dhcp::read(path)?.into_iter().map(ListedLease::from).collect();
    Ok(LeaseList { leases, left_out: 0 })
}

async fn of_infra(object: &ObjectArgs, name: &str) -> anyhow::Result<LeaseList> {
    let client = object.client().await?;
    let Some(infra) = object.find::<Infra>(&client, name).await? else {
        bail!(object.missing::<Infra>(name));
    };
    let dhcp = infra.spec.infra_components.and_then(|components| components.dhcp);
    if !dhcp.is_some_and(|dhcp| dhcp.enabled) {
        bail!("Infra {name} gives out no addresses: spec.infraComponents.dhcp is not there, or not enabled");
    }
    of_server(object, &client, &format!("{name}-dhcp")).await
}

/// What the pods of a server last told of.
async fn of_server(object: &ObjectArgs, client: &Client, name: &str) -> anyhow::Result<LeaseList> {
    if object.find::<DHCPServer>(client, name).await?.is_none() {
        bail!(object.missing::<DHCPServer>(name));
    }
    let map = names::leases_config_map(name);
    let api: Api<ConfigMap> = Api::namespaced(client.clone(), &object.namespace);
    let found = api.get_opt(&map).await;
    let found = found.map_err(|error| anyhow!("can't read ConfigMap {map}: {}", refusal::words(&error)))?;
    let entries = found.and_then(|found| found.data).unwrap_or_default();
    if entries.values().all(String::is_empty) {
        bail!(
            "the servers of DHCPServer {name} have not told of leases yet: see with `kubectl get dhcpserver/{name}` whether they \
             are ready"
        );
    }
    Ok(LeaseList::read(entries.values().map(String::as_str)))
}

impl Answer for Listed {
    fn text(&self, paint: Paint) -> String {
        if self.leases.is_empty() {
            return "no leases".to_owned();
        }
        let rows = self.leases.iter().map(|Shown { lease, active }| {
            let (tone, state) = match lease.state {
                State::Leased if *active => (Tone::Good, "leased"),
                State::Leased => (Tone::Neutral, "expired"),
                State::Released => (Tone::Neutral, "released"),
                State::Declined => (Tone::Bad, "declined"),
            };
            let left = lease.until.saturating_sub(self.now);
            let left = if left == 0 {
                "-".to_owned()
            } else {
                causeway_ir::duration::format(Duration::from_secs(left))
            };
            [
                lease.address.to_string().into(),
                Cell::toned(tone, state),
                left.into(),
                lease.hardware.clone().into(),
                lease.hostname.as_deref().unwrap_or("-").into(),
                lease.client.clone().into(),
            ]
        });
        let text = table(paint, ["ADDRESS", "STATE", "FOR", "HARDWARE", "NAME", "CLIENT"], rows);
        match self.left_out {
            0 => text,
            more => format!("{text}\nand {more} more, which are in the files of the servers"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_told_from_an_object() {
        for (text, expected) in [
            ("infra/lab", Source::Infra("lab".into())),
            ("dhcpserver/lab-dhcp", Source::Server("lab-dhcp".into())),
            ("dhcpservers/lab-dhcp", Source::Server("lab-dhcp".into())),
            ("leases", Source::File("leases".into())),
            ("./infra/lab", Source::File("./infra/lab".into())),
            ("/var/lib/leases", Source::File("/var/lib/leases".into())),
        ] {
            assert_eq!(Source::from(text.to_owned()), expected);
        }
    }
}
