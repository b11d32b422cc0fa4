//! Certificates that are asked for. Each order is a Secret beside the gateways: its key, its certificate, and in an annotation all
//! that is known of it. Every answer of an issuer is in there before the next question rests on it.

use std::{
    collections::{BTreeMap, HashMap, HashSet},
    sync::{Arc, Mutex},
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use causeway_api::{ChallengeKind, conditions::Reason, names};
use causeway_base::{
    backoff::{Backoff, spread},
    lock::lock,
};
use causeway_providers::{
    Error as ProviderError, Name, Retry,
    certificate::{self, CertificateIssuer, Look, Material, PrivateKey, ProofData, ProofKind, Renewal},
};
use causeway_translate::{
    gateway::kinds::ObjectRef,
    hostname::{
        Case, Certificate, Hostname, Picture, World, Zone,
        listeners::COMPONENT,
        order::{ANNOTATION, Failure, Issued, Order, Proof},
        status::Waiting,
        world::Progress,
    },
};
use k8s_openapi::{ByteString, api::core::v1::Secret, apimachinery::pkg::apis::meta::v1::ObjectMeta};
use kube::{
    Api, Client, ResourceExt as _,
    api::{DeleteParams, Patch, PatchParams, PostParams},
};
use serde_json::json;
use tokio::time::Instant;

use super::{
    FIELD_MANAGER, NAME,
    kept::Kept,
    metrics::{Figures, Role},
    settings::{Settings, SuppliersRef},
    status::{is_of_provider, said},
};
use crate::framework::{apply, children::Children, error::Error, kinds::SECRET};

const TLS_CERT: &str = "tls.crt";
const TLS_KEY: &str = "tls.key";
const RETRY: Backoff = Backoff::new(Duration::from_secs(1), Duration::from_mins(10));
const ON_CHANGE: Duration = Duration::from_mins(1);

/// Begins orders and carries them on.
pub(super) struct Orders {
    client: Client,
    suppliers: SuppliersRef,
    settings: Settings,
    kept: Mutex<Kept<Secret>>,
    /// The Secrets of all orders as they were seen last, by name.
    secrets: Mutex<BTreeMap<String, Arc<Secret>>>,
    /// Written Secrets that the watch has not shown yet.
    ahead: Mutex<HashMap<String, Arc<Secret>>>,
    /// What issuers said last, and when to ask again: by the order's Secret, or, where there is no order yet, by the uid of the
    /// request.
    memory: Mutex<HashMap<String, Memory>>,
}

struct Memory {
    said: Option<(Reason, String)>,
    again: Instant,
    failures: u32,
    /// Whether it was to be given up: an order that could not be carried on can still be given up at once.
    removing: bool,
    /// Since when its issuer fails, in seconds since 1970.
    failing: Option<i64>,
    /// When the issuer may be asked about renewal again.
    renewal: Option<Instant>,
    /// The order's Secret as it was then: one that somebody else has written since is looked at at once.
    seen: Option<String>,
}

/// What a step came to.
struct Stepped {
    said: Option<(Reason, String)>,
    wait: Duration,
    renewal: Option<Instant>,
}

impl Stepped {
    fn after(wait: Duration) -> Self {
        Self { said: None, wait, renewal: None }
    }
}

impl Orders {
    pub(super) fn new(client: Client, suppliers: SuppliersRef, settings: Settings) -> Self {
        Self {
            client,
            suppliers,
            settings,
            kept: Mutex::default(),
            secrets: Mutex::default(),
            ahead: Mutex::default(),
            memory: Mutex::default(),
        }
    }

    fn api(&self) -> Api<Secret> {
        Api::namespaced(self.client.clone(), &self.settings.world.edge_namespace)
    }

    /// All orders, by the names of their Secrets.
    pub(super) fn observe(&self, children: &Children) -> BTreeMap<String, Arc<Order>> {
        let mut ahead = lock(&self.ahead);
        let mut secrets: BTreeMap<String, Arc<Secret>> = BTreeMap::new();
        for secret in lock(&self.kept).read(children, SECRET) {
            if secret.namespace().as_deref() == Some(&self.settings.world.edge_namespace) && is_order(&secret)
            {
                secrets.insert(secret.name_any(), secret);
            }
        }
        ahead.retain(|name, written| {
            let is_ahead = secrets.get(name).is_none_or(|cached| version(cached) < version(written));
            if is_ahead {
                secrets.insert(name.clone(), Arc::clone(written));
            }
            is_ahead
        });
        let orders =
            secrets.iter().filter_map(|(name, secret)| Some((name.clone(), Arc::new(read(secret)?))));
        let orders: BTreeMap<String, Arc<Order>> = orders.collect();
        *lock(&self.secrets) = secrets;
        orders
    }

    /// What issuers said last.
    pub(super) fn waiting(&self) -> Waiting {
        let memory = lock(&self.memory);
        memory.iter().filter_map(|(name, memory)| Some((name.clone(), memory.said.clone()?))).collect()
    }

    /// Since when the first of the issuers fails that fail, in seconds since 1970.
    pub(super) fn failing(&self) -> Option<i64> {
        lock(&self.memory).values().filter_map(|memory| memory.failing).min()
    }

    /// How long until something is to be done for an order of this picture, and forgets what was said of others.
    pub(super) fn again(&self, picture: &Picture, world: &World) -> Option<Duration> {
        let mut wanted: HashSet<&str> = HashSet::new();
        let mut kept: HashSet<&str> = world.orders.keys().map(String::as_str).collect();
        let mut times: Vec<i64> = Vec::new();
        for case in picture.cases.values() {
            let Certificate { serve, pending, start, rests_until, .. } = &case.certificate;
            wanted.extend(serve.iter().chain(pending).map(|order| order.secret.as_str()));
            wanted.extend(case.remove_orders.iter().map(String::as_str));
            if start.is_some() {
                wanted.insert(&case.uid);
                kept.insert(&case.uid);
            }
            let renewal = serve.iter().filter_map(|order| order.issued.as_ref()?.renew_at);
            times.extend(renewal.chain(*rests_until));
        }
        let now = world.now.as_second();
        let at = times.into_iter().filter(|at| *at > now).min();
        let at = at.and_then(|at| u64::try_from(at - now).ok()).map(Duration::from_secs);
        let mut memory = lock(&self.memory);
        memory.retain(|name, _| kept.contains(name.as_str()));
        let due = memory.iter().filter(|(name, _)| wanted.contains(name.as_str())).map(|(_, one)| one.again);
        let due = due.min().map(|due| due.saturating_duration_since(Instant::now()));
        [at, due].into_iter().flatten().min()
    }

    /// Begins an order: its Secret with its key, before anybody is asked.
    ///
    /// # Errors
    /// When the API server refuses.
    pub(super) async fn begin(
        &self,
        case: &Case,
        zone: &Zone,
        serial: u32,
        now: i64,
        figures: &Figures,
    ) -> Result<bool, Error> {
        if lock(&self.memory).get(&case.uid).is_some_and(|memory| memory.again > Instant::now()) {
            return Ok(false);
        }
        let issuer = match self.suppliers.0.issuer(zone).await {
            Ok(issuer) => issuer,
            // There is no order yet to say it of.
            Err(error) => return Ok(self.trouble(&case.uid, zone, &error, true, figures).moved),
        };
        lock(&self.memory).remove(&case.uid);
        let name = secret_name(&case.uid, serial);
        let key = if issuer.wants_key() {
            match PrivateKey::generate() {
                Ok(key) => key.to_pem().to_owned(),
                Err(_) => return Ok(false),
            }
        } else {
            String::new()
        };
        let order = Order {
            serial,
            names: case.certificate.names.iter().map(ToString::to_string).collect(),
            issuer: zone.issuer(),
            hostname_zone: zone.key.name.clone(),
            zone_id: zone.key.id.clone(),
            origin: zone.key.origin.clone(),
            begun: now,
            failed_before: case
                .orders
                .last()
                .and_then(|last| last.failed.as_ref())
                .map_or(0, |failed| failed.times),
            since: case.orders.last().filter(|last| last.failed.is_some()).map(|last| last.awaited_since()),
            replaces: case.certificate.serve.as_ref().map(|serve| serve.secret.clone()),
            ..Order::default()
        };
        let labels = [
            (names::LABEL_MANAGED_BY, names::MANAGED_BY),
            (names::LABEL_COMPONENT, COMPONENT),
            (names::LABEL_OWNER_KIND, "GatewayHostnameRequest"),
            (names::LABEL_INVENTORY, case.uid.as_str()),
        ];
        let owner = [
            (ANNOTATION.to_owned(), serde_json::to_string(&order).unwrap_or_default()),
            (OWNER.to_owned(), case.at.to_string()),
        ];
        let entries = [(TLS_CERT, String::new()), (TLS_KEY, key)];
        let secret = Secret {
            metadata: ObjectMeta {
                name: Some(name.clone()),
                labels: Some(labels.map(|(key, value)| (key.to_owned(), value.to_owned())).into()),
                annotations: Some(owner.into()),
                ..ObjectMeta::default()
            },
            type_: Some(if issuer.wants_key() { "kubernetes.io/tls" } else { "Opaque" }.to_owned()),
            data: Some(entries.map(|(key, text)| (key.to_owned(), ByteString(text.into_bytes()))).into()),
            ..Secret::default()
        };
        let params = PostParams { field_manager: Some(FIELD_MANAGER.to_owned()), ..PostParams::default() };
        match self.api().create(&params, &secret).await {
            Ok(made) => {
                lock(&self.ahead).insert(name, Arc::new(made));
                Ok(true)
            }
            // Made before, and the watch is behind.
            Err(kube::Error::Api(status)) if status.code == 409 => Ok(false),
            Err(source) => Err(failed(&name, source)),
        }
    }

    /// Carries an order on as far as it goes now; true if something is known that was not.
    ///
    /// # Errors
    /// When the API server refuses to remember something.
    pub(super) async fn carry(
        &self,
        order: &Order,
        case: &Case,
        zone: &Zone,
        world: &World,
        figures: &Figures,
    ) -> Result<Outcome, Error> {
        let Some(secret) = self.secret(&order.secret) else { return Ok(Outcome::default()) };
        let is_due = lock(&self.memory).get(&order.secret).is_none_or(|memory| {
            memory.again <= Instant::now()
                || (memory.failures == 0 && memory.seen != secret.resource_version())
        });
        // Proofs that are in place by now are told at once.
        let can_tell = order.is_pending()
            && !order.told
            && !order.proofs.is_empty()
            && proofs_are_served(order, case, zone, world);
        let rests = lock(&self.memory)
            .get(&order.secret)
            .is_some_and(|memory| memory.failures > 0 && memory.again > Instant::now());
        if rests || !(is_due || can_tell) {
            return Ok(Outcome::default());
        }
        let issuer = match self.suppliers.0.issuer(zone).await {
            Ok(issuer) => issuer,
            Err(error) => return Ok(self.trouble(&order.secret, zone, &error, true, figures)),
        };
        let mut stored = self.stored(order, &secret, zone);
        let mut next = order.clone();
        let asked = lock(&self.memory).get(&order.secret).and_then(|memory| memory.renewal);
        let kept = stored.held.clone();
        let result = if issuer.wants_key() && stored.key.is_none() {
            // Nothing of it can be used.
            next.lost = next.issued.is_some();
            if !next.lost {
                let message =
                    "the private key was removed or edited; another certificate is asked for".to_owned();
                next.failed = Some(Failure { message, at: world.now.as_second(), times: 1 });
            }
            Ok(Stepped::after(Duration::ZERO))
        } else {
            self.step(&*issuer, &mut stored, &mut next, can_tell, asked, world, figures).await
        };
        let is_repaired = order.issued.is_some() && kept != stored.held;
        let mut seen = secret.resource_version();
        if next != *order || kept != stored.held {
            match self.save(order, &next, stored.held.as_deref()).await {
                Ok(version) => seen = version.or(seen),
                Err(error) => {
                    self.rest(&order.secret, false);
                    return Err(error);
                }
            }
        }
        let drift = if next.lost && !order.lost {
            Some("its certificate was removed or revoked; another one is asked for")
        } else {
            is_repaired.then_some("its certificate was edited; it is put right")
        };
        let moved = next != *order || is_repaired;
        match result {
            Ok(Stepped { said, wait, renewal }) => {
                let said = self.remember(
                    &order.secret,
                    Memory {
                        said,
                        again: Instant::now() + wait,
                        failures: 0,
                        failing: None,
                        removing: false,
                        renewal: renewal.or(asked),
                        seen,
                    },
                );
                Ok(Outcome { moved: moved || said, drift })
            }
            Err(error) => {
                let outcome = self.trouble(&order.secret, zone, &error, false, figures);
                Ok(Outcome { moved: moved || outcome.moved, drift })
            }
        }
    }

    /// The issuer's view of an order.
    fn stored(&self, order: &Order, secret: &Secret, zone: &Zone) -> certificate::Order {
        let predecessor = order.replaces.as_deref().and_then(|name| self.secret(name));
        certificate::Order {
            id: format!("{NAME}/{}", order.uid),
            serial: order.serial,
            names: order.names.iter().filter_map(|name| Name::parse(name).ok()).collect(),
            proof: match zone.certificates.challenge {
                ChallengeKind::Dns01 => ProofKind::Dns,
                ChallengeKind::Http01 => ProofKind::Http,
            },
            key: entry(secret, TLS_KEY).and_then(|pem| PrivateKey::from_pem(&pem).ok()),
            handle: order.handle.clone(),
            held: entry(secret, TLS_CERT),
            replaces: predecessor.and_then(|secret| entry(&secret, TLS_CERT)),
        }
    }

    fn secret(&self, name: &str) -> Option<Arc<Secret>> {
        let ahead = lock(&self.ahead).get(name).cloned();
        ahead.or_else(|| lock(&self.secrets).get(name).cloned())
    }

    /// One question, or two where the second needs nobody else.
    #[expect(clippy::too_many_arguments, reason = "all of it is what a step is made of")]
    async fn step(
        &self,
        issuer: &dyn CertificateIssuer,
        stored: &mut certificate::Order,
        next: &mut Order,
        can_tell: bool,
        asked: Option<Instant>,
        world: &World,
        figures: &Figures,
    ) -> Result<Stepped, ProviderError> {
        if next.handle.is_none() {
            next.handle = Some(issuer.request(stored).await?);
            return Ok(Stepped::after(Duration::ZERO));
        }
        if can_tell {
            issuer.proofs_served(stored).await?;
            next.told = true;
            return Ok(Stepped::after(Duration::ZERO));
        }
        match issuer.look(stored).await? {
            Look::Pending { proofs, waits_for, again_in } => {
                // Those that it no longer names have been put in place, and are to be taken back in the end.
                next.proofs.extend(proofs.iter().map(|proof| noted(&proof.what)));
                next.proofs.sort();
                next.proofs.dedup();
                let missed = proofs.iter().find_map(|proof| proof.problem.clone());
                let why = missed.map_or(waits_for.clone(), |missed| format!("{waits_for}: {missed}"));
                Ok(Stepped { said: Some((Reason::Progressing, why)), ..Stepped::after(again_in) })
            }
            Look::Issued(found) => {
                if let Material::Chain(chain) = &found.material {
                    stored.held = Some(chain.clone());
                }
                if next.issued.is_none() {
                    figures.issued(world.now.as_second() - next.begun);
                }
                let before = next.issued.take().filter(|before| before.serial == found.serial);
                let is_new = before.is_none();
                // What is issued is issued, whether or not it can be known when to renew it.
                let issued = next.issued.insert(Issued {
                    issuer: found.issuer,
                    serial: found.serial,
                    not_before: seconds(found.not_before),
                    not_after: seconds(found.not_after),
                    renew_at: before.and_then(|before| before.renew_at),
                    arn: match found.material {
                        Material::Arn(arn) => Some(arn),
                        Material::Chain(_) => None,
                    },
                });
                let sweep = spread(self.settings.sweep);
                let now = Instant::now();
                if let Some(at) = asked.filter(|at| !is_new && *at > now) {
                    return Ok(Stepped::after(sweep.min(at - now)));
                }
                match issuer.renewal(stored).await? {
                    Renewal::ByIssuer => {
                        issued.renew_at = None;
                        Ok(Stepped::after(sweep))
                    }
                    Renewal::ByOrder { at, ask_again_in, .. } => {
                        issued.renew_at = Some(seconds(at));
                        let renewal = Some(now + ask_again_in);
                        Ok(Stepped { renewal, ..Stepped::after(sweep.min(ask_again_in)) })
                    }
                }
            }
            Look::Failed { reason, remedy } => {
                figures.failed(Role::Issuer);
                if next.issued.is_some() {
                    next.lost = true;
                }
                let message = format!("{reason}: {remedy}");
                let times = next.failed_before.saturating_add(1);
                next.failed = Some(Failure { message, at: world.now.as_second(), times });
                Ok(Stepped::after(self.settings.sweep))
            }
            Look::Gone => {
                if next.issued.is_some() {
                    next.lost = true;
                } else {
                    let message = "the issuer knows nothing of the order any more; it is asked again";
                    let times = next.failed_before.saturating_add(1);
                    next.failed =
                        Some(Failure { message: message.to_owned(), at: world.now.as_second(), times });
                }
                Ok(Stepped::after(Duration::from_secs(1)))
            }
        }
    }

    /// Remembers what became of an order, and its certificate; gives the version of its Secret.
    async fn save(&self, before: &Order, next: &Order, held: Option<&str>) -> Result<Option<String>, Error> {
        let mut patch = json!({"metadata": {"annotations": {ANNOTATION: serde_json::to_string(next).unwrap_or_default()}}});
        if let Some(chain) = held {
            patch["data"] = json!({TLS_CERT: ByteString(chain.as_bytes().to_vec())});
        }
        let params = PatchParams { field_manager: Some(FIELD_MANAGER.to_owned()), ..PatchParams::default() };
        match self.api().patch(&before.secret, &params, &Patch::Merge(&patch)).await {
            Ok(written) => {
                let version = written.resource_version();
                lock(&self.ahead).insert(before.secret.clone(), Arc::new(written));
                Ok(version)
            }
            // Somebody removed it: another one is begun.
            Err(kube::Error::Api(status)) if status.code == 404 => {
                lock(&self.ahead).remove(&before.secret);
                Ok(None)
            }
            Err(source) => Err(failed(&before.secret, source)),
        }
    }

    /// Gives an order up at its issuer, then its Secret; true if it is gone.
    ///
    /// # Errors
    /// When the API server refuses.
    pub(super) async fn remove(
        &self,
        order: &Order,
        zone: Option<&Zone>,
        figures: &Figures,
    ) -> Result<Outcome, Error> {
        let rests = lock(&self.memory)
            .get(&order.secret)
            .is_some_and(|memory| memory.removing && memory.again > Instant::now());
        if rests {
            return Ok(Outcome::default());
        }
        // One that was never asked for is known to nobody, but for a call that was cut off: that one is looked for.
        if let Some(zone) = zone
            && let Some(secret) = self.secret(&order.secret)
        {
            let stored = self.stored(order, &secret, zone);
            let given_up = async {
                let issuer = self.suppliers.0.issuer(zone).await?;
                let by = issuer.in_use(&stored).await?;
                if !by.is_empty() {
                    return Err(ProviderError::InUse { by });
                }
                issuer.remove(&stored).await
            };
            if let Err(error) = given_up.await {
                let outcome = self.trouble(&order.secret, zone, &error, false, figures);
                if let Some(memory) = lock(&self.memory).get_mut(&order.secret) {
                    memory.removing = true;
                }
                return Ok(outcome);
            }
        }
        match self.api().delete(&order.secret, &DeleteParams::default()).await {
            Ok(_) => {}
            Err(kube::Error::Api(status)) if status.code == 404 => {}
            Err(source) => {
                self.rest(&order.secret, true);
                return Err(failed(&order.secret, source));
            }
        }
        lock(&self.ahead).remove(&order.secret);
        Ok(Outcome { moved: true, drift: None })
    }

    /// Remembers a failure, and when to try again; `whole` says that the issuer can't be had at all.
    fn trouble(
        &self,
        key: &str,
        zone: &Zone,
        error: &ProviderError,
        whole: bool,
        figures: &Figures,
    ) -> Outcome {
        if error.retry() == Retry::OnChange {
            self.suppliers.0.forget(zone);
        }
        if !matches!(error, ProviderError::InUse { .. }) {
            figures.failed(Role::Issuer);
        }
        let (failures, failing) =
            lock(&self.memory).get(key).map_or((0, None), |memory| (memory.failures, memory.failing));
        let failures = failures.saturating_add(1);
        let is_failing = whole || is_of_provider(error);
        let failing = is_failing.then(|| failing.unwrap_or_else(|| (self.settings.now)().as_second()));
        let wait = match error.retry() {
            Retry::Backoff => RETRY.delay(failures),
            Retry::After(wait) => spread(wait),
            Retry::OnChange => spread(ON_CHANGE),
        };
        let said = Some(said(error));
        let again = Instant::now() + wait;
        let next = Memory { said, again, failures, failing, removing: false, renewal: None, seen: None };
        let moved = self.remember(key, next);
        Outcome { moved, drift: None }
    }

    /// What can't be remembered is not asked again at once.
    fn rest(&self, key: &str, removing: bool) {
        let mut memory = lock(&self.memory);
        let before = memory.remove(key);
        let failures = before.as_ref().map_or(0, |memory| memory.failures).saturating_add(1);
        let next = Memory {
            again: Instant::now() + RETRY.delay(failures),
            failures,
            failing: before.as_ref().and_then(|memory| memory.failing),
            removing,
            renewal: before.as_ref().and_then(|memory| memory.renewal),
            said: before.and_then(|memory| memory.said),
            seen: None,
        };
        memory.insert(key.to_owned(), next);
    }

    /// True if something is said that was not.
    fn remember(&self, key: &str, next: Memory) -> bool {
        let mut memory = lock(&self.memory);
        let moved = memory.get(key).is_none_or(|before| before.said != next.said) && next.said.is_some();
        memory.insert(key.to_owned(), next);
        moved
    }
}

/// What came of looking at an order.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Outcome {
    /// Whether something is known that was not.
    pub(super) moved: bool,
    /// What somebody did to its certificate.
    pub(super) drift: Option<&'static str>,
}

/// Whose an order is.
const OWNER: &str = "causeway.dev/owner";

/// A text of a Secret, unless it is empty.
fn entry(secret: &Secret, name: &str) -> Option<String> {
    let ByteString(bytes) = secret.data.as_ref()?.get(name)?;
    String::from_utf8(bytes.clone()).ok().filter(|text| !text.is_empty())
}

fn is_order(secret: &Secret) -> bool {
    secret.annotations().contains_key(ANNOTATION) && secret.metadata.deletion_timestamp.is_none()
}

fn read(secret: &Secret) -> Option<Order> {
    let order: Order = serde_json::from_str(secret.annotations().get(ANNOTATION)?).ok()?;
    let (namespace, name) = secret.annotations().get(OWNER)?.split_once('/')?;
    let uid = secret.labels().get(names::LABEL_INVENTORY)?;
    // A copy under another name is nobody's order.
    if secret.name_any() != secret_name(uid, order.serial) {
        return None;
    }
    Some(Order { secret: secret.name_any(), at: ObjectRef::new(namespace, name), uid: uid.clone(), ..order })
}

fn version(secret: &Secret) -> u64 {
    secret.resource_version().and_then(|version| version.parse().ok()).unwrap_or_default()
}

/// The Secret of an order: the same whoever begins it.
fn secret_name(uid: &str, serial: u32) -> String {
    format!("hostname-{uid}-{serial}")
}

fn seconds(time: SystemTime) -> i64 {
    time.duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs() as i64)
}

fn noted(proof: &ProofData) -> Proof {
    match proof {
        ProofData::Txt { name, text } => Proof::Txt { name: name.to_string(), text: text.clone() },
        ProofData::Cname { name, target } => {
            Proof::Cname { name: name.to_string(), target: target.to_string() }
        }
        ProofData::Http { host, path, body } => {
            Proof::Http { host: host.to_string(), path: path.clone(), body: body.clone() }
        }
    }
}

/// Whether everybody can see the proofs of an order.
fn proofs_are_served(order: &Order, case: &Case, zone: &Zone, world: &World) -> bool {
    order.proofs.iter().all(|proof| match proof {
        Proof::Txt { name, .. } | Proof::Cname { name, .. } => {
            let name = Hostname::trusted(name);
            let publication = case.publications.iter().find(|one| one.name == name);
            publication.is_some_and(|publication| {
                world.told(&case.uid, &zone.key, &name, &publication.want) == Some(&Progress::Settled)
            })
        }
        Proof::Http { host, path, .. } => {
            let name = Hostname::trusted(host);
            // The names of a request that can't be carried out lead where they have led.
            let led = case.gateway.is_none()
                || case.publications.iter().filter(|one| one.name == name).any(|one| {
                    world.told(&case.uid, &zone.key, &name, &one.want) == Some(&Progress::Settled)
                });
            let gateway = case.proving_gateway(world).and_then(|name| world.gateways.get(name));
            led && gateway.is_some_and(|gateway| gateway.answers.contains(&(host.clone(), path.clone())))
        }
    })
}

fn failed(name: &str, source: kube::Error) -> Error {
    let source = apply::Error::Apply { kind: "Secret", name: name.to_owned(), source };
    Error::Objects { failed: 1, total: 1, source: Box::new(source) }
}
