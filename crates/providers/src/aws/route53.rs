//! Records of Route 53. Changes of all callers within a moment go together; each batch takes out exactly what was read and
//! creates only what was not there, so that Route 53 refuses all of it if somebody else was faster.
//!
//! What is served can't be seen at Route 53, only whether a change is everywhere (INSYNC). So a mark stays, as leaving, until
//! the removal of its records is everywhere; and what is in place since nobody knows when is written once more.

mod set;
mod worker;

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex};

use aws_sdk_route53::Client;
use aws_sdk_route53::error::{ProvideErrorMetadata, SdkError};
use aws_sdk_route53::types::{ChangeStatus, HostedZoneConfig, ResourceRecordSet, RrType};
use causeway_base::lock::lock;
use futures::FutureExt as _;
use futures::future::BoxFuture;
use tokio::sync::{mpsc, oneshot};

use super::pace::Pace;
use super::{Settings, error, regions};
use crate::dns::mark::mark_name;
use crate::dns::{self, Change, DnsProvider, Found, Kind, Plan, Planner, Progress, Records, Wanted, Zone};
use crate::{Error, Name};

use set::Entry;
use worker::{Job, Worker};

/// For people.
const AT: &str = "Route 53";
/// Callers that wait for the next batch.
const QUEUE: usize = 4096;
/// The most that Route 53 gives in a page.
const PAGE: i32 = 300;

/// The zones of an account.
pub struct Route53 {
    api: Arc<Api>,
    jobs: mpsc::Sender<Job>,
}

/// Requests to Route 53, at the account's pace.
struct Api {
    client: Client,
    pace: Arc<Pace>,
    instance: String,
    /// How many pages each zone had when it was last read.
    pages: Mutex<HashMap<String, usize>>,
}

impl Route53 {
    /// Nobody is asked yet. Must be called within a runtime; what it starts there ends with it.
    ///
    /// # Errors
    /// When the settings can't be used.
    pub async fn new(settings: &Settings) -> Result<Self, Error> {
        let config = settings.load().await?;
        // It is one service for all regions, but wants one to be named.
        let region = config.region().cloned().unwrap_or(aws_config::Region::from_static("us-east-1"));
        let config = aws_sdk_route53::config::Builder::from(&config).region(region).build();
        let api = Arc::new(Api {
            client: Client::from_conf(config),
            pace: Pace::of(&settings.identity()),
            instance: settings.instance.clone(),
            pages: Mutex::default(),
        });
        let (jobs, queue) = mpsc::channel(QUEUE);
        tokio::spawn(Worker::new(Arc::clone(&api), queue).run());
        Ok(Self { api, jobs })
    }
}

impl Api {
    fn planner<'a>(&'a self, zone: &'a Zone) -> Planner<'a> {
        Planner { instance: &self.instance, zone, lingers: true, balancer: alias }
    }

    async fn find_zone(&self, id_or_domain: &str) -> Result<Zone, Error> {
        let none = || Error::ZoneNotFound { zone: id_or_domain.to_owned(), at: AT.to_owned() };
        if !id_or_domain.contains('.') {
            let id = id_or_domain.trim_start_matches("/hostedzone/");
            self.pace.turn().await;
            return match self.client.get_hosted_zone().id(id).send().await {
                Ok(answer) => {
                    let zone = answer.hosted_zone.ok_or_else(none)?;
                    Ok(Zone { id: id.to_owned(), domain: set::name(zone.name()).ok_or_else(none)? })
                }
                // What is no id at all is none of a zone.
                Err(failed) if matches!(failed.code(), Some("NoSuchHostedZone" | "InvalidInput")) => {
                    Err(none())
                }
                Err(failed) => Err(error(AT, &format!("route53:GetHostedZone on hostedzone/{id}"), failed)),
            };
        }
        let domain = Name::parse(id_or_domain).map_err(|_| none())?;
        self.pace.turn().await;
        let answer =
            self.client.list_hosted_zones_by_name().dns_name(domain.as_str()).max_items(20).send().await;
        let answer = answer.map_err(|failed| error(AT, "route53:ListHostedZonesByName", failed))?;
        let same = answer.hosted_zones.iter().filter(|zone| set::name(zone.name()).as_ref() == Some(&domain));
        let is_private = |zone: &&aws_sdk_route53::types::HostedZone| {
            zone.config().is_some_and(HostedZoneConfig::private_zone)
        };
        let zone = same.min_by_key(is_private).ok_or_else(none)?;
        Ok(Zone { id: zone.id().trim_start_matches("/hostedzone/").to_owned(), domain })
    }

    /// Record sets from a name on: one page, and where the next one begins.
    async fn page(
        &self,
        zone: &Zone,
        from: Option<Start>,
        most: i32,
    ) -> Result<(Vec<ResourceRecordSet>, Option<Start>), Error> {
        self.pace.turn().await;
        let mut request = self.client.list_resource_record_sets().hosted_zone_id(&zone.id).max_items(most);
        if let Some((name, kind, identifier)) = from {
            request = request
                .start_record_name(name)
                .set_start_record_type(kind)
                .set_start_record_identifier(identifier);
        }
        let page =
            request.send().await.map_err(|failed| refusal(zone, "route53:ListResourceRecordSets", failed))?;
        let next = page
            .is_truncated
            .then(|| Some((page.next_record_name?, page.next_record_type, page.next_record_identifier)));
        Ok((page.resource_record_sets, next.flatten()))
    }

    /// What there is at these names: one by one if they are few, or else by reading the whole zone.
    async fn read(&self, zone: &Zone, names: &[Name]) -> Result<BTreeMap<Name, Entry>, Error> {
        let mut sets = Vec::new();
        let pages = lock(&self.pages).get(&zone.id).copied().unwrap_or(10);
        if names.len() * 2 <= pages {
            for name in names {
                let at = |name: &Name| Some((name.to_string(), None, None));
                sets.extend(self.page(zone, at(name), 20).await?.0);
                sets.extend(self.page(zone, at(&mark_name(name)), 5).await?.0);
            }
        } else {
            let (mut next, mut pages) = (None, 0);
            loop {
                let (page, after) = self.page(zone, next, PAGE).await?;
                sets.extend(page);
                pages += 1;
                next = after;
                if next.is_none() {
                    break;
                }
            }
            lock(&self.pages).insert(zone.id.clone(), pages);
        }
        Ok(set::entries(names, &sets))
    }

    /// Sends changes, and gives the number by which Route 53 knows them and whether they are everywhere.
    async fn send(&self, zone: &Zone, changes: Vec<aws_sdk_route53::types::Change>) -> Result<Sent, Error> {
        let batch = aws_sdk_route53::types::ChangeBatch::builder().set_changes(Some(changes)).build();
        let batch = batch.map_err(|failed| Error::unavailable(AT, failed))?;
        self.pace.turn().await;
        let request = self.client.change_resource_record_sets().hosted_zone_id(&zone.id).change_batch(batch);
        match request.send().await {
            Ok(answer) => {
                let info =
                    answer.change_info.ok_or_else(|| Error::unavailable(AT, "no number of the change"))?;
                let everywhere = *info.status() == ChangeStatus::Insync;
                Ok(Sent::Done { id: info.id().trim_start_matches("/change/").to_owned(), everywhere })
            }
            Err(failed) => match failed.code() {
                Some("InvalidChangeBatch" | "InvalidInput") => {
                    let said = failed.message().unwrap_or("it gave no reason");
                    Ok(Sent::Refused(causeway_base::report::cut(said, 600)))
                }
                _ => Err(refusal(zone, "route53:ChangeResourceRecordSets", failed)),
            },
        }
    }

    /// Whether a change is everywhere.
    async fn is_everywhere(&self, id: &str) -> Result<bool, Error> {
        self.pace.turn().await;
        match self.client.get_change().id(id).send().await {
            Ok(answer) => Ok(answer.change_info().is_some_and(|info| *info.status() == ChangeStatus::Insync)),
            Err(failed) => Err(error(AT, "route53:GetChange on change/*", failed)),
        }
    }
}

/// What the failure of a request about a zone comes to.
fn refusal<E>(zone: &Zone, action: &str, failed: SdkError<E>) -> Error
where
    E: ProvideErrorMetadata + std::error::Error + Send + Sync + 'static,
{
    if failed.code() == Some("NoSuchHostedZone") {
        return Error::ZoneNotFound { zone: zone.id.clone(), at: AT.to_owned() };
    }
    error(AT, &format!("{action} on hostedzone/{}", zone.id), failed)
}

type Start = (String, Option<RrType>, Option<String>);

enum Sent {
    Done {
        id: String,
        everywhere: bool,
    },
    /// Something of it is not as it was, or is not allowed.
    Refused(String),
}

/// Alias records of both families. One for IPv6 is not answered while the load balancer has no such address.
fn alias(_zone: &Zone, _name: &Name, want: &Wanted) -> Result<BTreeMap<Kind, Records>, Error> {
    let Wanted::Balancer { target, hosted_zone, .. } = want else { return Ok(BTreeMap::new()) };
    let zone = hosted_zone.as_deref().or_else(|| regions::hosted_zone(target)).ok_or_else(|| {
        Error::invalid(
            format!("{target} is not the name of a load balancer in a known region"),
            "name the hosted zone that it is in, or write a CNAME",
        )
    })?;
    let records = Records::Alias(target.clone(), zone.to_owned());
    Ok([(Kind::A, records.clone()), (Kind::Aaaa, records)].into())
}

impl DnsProvider for Route53 {
    fn zone<'a>(&'a self, id_or_domain: &'a str) -> BoxFuture<'a, Result<Zone, Error>> {
        self.api.find_zone(id_or_domain).boxed()
    }

    fn observe<'a>(
        &'a self,
        zone: &'a Zone,
        names: &'a [Name],
    ) -> BoxFuture<'a, Result<BTreeMap<Name, Found>, Error>> {
        async move {
            let entries = self.api.read(zone, names).await?;
            Ok(entries.into_iter().map(|(name, entry)| (name, entry.found)).collect())
        }
        .boxed()
    }

    fn apply<'a>(
        &'a self,
        zone: &'a Zone,
        changes: &'a [Change],
    ) -> BoxFuture<'a, Vec<Result<Progress, Error>>> {
        async move {
            let (answer, answered) = oneshot::channel();
            let job = Job { zone: zone.clone(), changes: changes.to_vec(), answer };
            let gone = || Error::unavailable(AT, "its worker has ended");
            if self.jobs.send(job).await.is_err() {
                return dns::for_each(changes, &gone());
            }
            answered.await.unwrap_or_else(|_| dns::for_each(changes, &gone()))
        }
        .boxed()
    }

    fn plan<'a>(&'a self, zone: &'a Zone, changes: &'a [Change]) -> BoxFuture<'a, Result<Plan, Error>> {
        async move {
            let names: Vec<Name> = changes.iter().map(|change| change.name.clone()).collect();
            let found = self.observe(zone, &names).await?;
            Ok(self.api.planner(zone).plan(changes, found))
        }
        .boxed()
    }
}
